//! Files that were edited or exchanged, and rules in force that cannot be restored.

use std::fs;

use weir_backends::write_artefact;

use crate::rulesets::ALL;
use crate::sets::with_sets;
use crate::stub::{Stub, run_with};
use crate::world::World;

#[test]
fn edited_files_cannot_change_tables_or_sets_outside_the_save() {
    let Some(world) = World::new("edited-more") else { return };
    world.load_bare();
    let nat = "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        :POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -s 192.0.2.1/32 -j MASQUERADE\nCOMMIT\n";
    world.tool(&["iptables-legacy-restore"], nat);
    with_sets(&world, "sets");
    let before = world.snapshot();
    let whole = |text: &str| text.to_owned();
    let unmarked = |text: &str| {
        let lines = text.lines().filter(|l| !l.starts_with(":weir:"));
        lines.map(|l| format!("{l}\n")).collect()
    };
    let with_nat = |text: &str| format!("{text}{nat}");
    let empty = |_: &str| String::new();
    let flushing = |text: &str| format!("flush ruleset\n{text}");
    let other_table = |text: &str| format!("{text}table ip other {{\n}}\n");
    let indented = |text: &str| format!("{text}  create table ip other {{\n  }}\n");
    let behind_a_table = |text: &str| {
        let text = text.trim_end().strip_suffix('}').expect("a table ends");
        format!("{text}}}; create table ip other {{\n}}\n")
    };
    let within_a_table = |text: &str| text.replacen("\tchain", "\t} table ip other {\n\tchain", 1);
    let including = |text: &str| text.replacen("\tchain", "\tinclude \"other.nft\"\n\tchain", 1);
    let other_set = |text: &str| format!("{text}create other hash:ip\n");
    let destroying = |text: &str| format!("{text}destroy aset\n");
    type Edit<'e> = &'e dyn Fn(&str) -> String;
    let cases: [(&str, &str, Edit<'_>, &str); 13] = [
        ("linear", "iptables.rules", &whole, ""),
        ("linear", "iptables.rules", &unmarked, "a line :weir:"),
        ("linear", "iptables.rules", &with_nat, "table nat was added"),
        ("linear", "ip6tables.rules", &empty, "table filter is missing"),
        ("nft", "ruleset.nft", &flushing, "line 1 is outside of tables"),
        ("nft", "ruleset.nft", &other_table, "table ip:other was added"),
        ("nft", "ruleset.nft", &indented, "is outside of tables"),
        ("nft", "ruleset.nft", &behind_a_table, "is outside of tables"),
        ("nft", "ruleset.nft", &within_a_table, "is outside of tables"),
        ("nft", "ruleset.nft", &including, "includes a file"),
        ("nft", "ruleset.nft", &empty, "is missing"),
        ("sets", "user.ipset", &other_set, "set other was added"),
        ("sets", "user.ipset", &destroying, "neither creates nor adds"),
    ];
    for (folder, file, edit, why) in cases {
        let path = world.path(folder).join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, edit(&text)).unwrap();
        let ended = world.script(&format!("{folder}/load.sh --allow-edited"));
        if why.is_empty() {
            assert!(ended.is_done(), "{}", ended.said);
            world.done(&format!("{folder}/unload.sh"));
        } else {
            assert!(ended.said.contains(why), "{file}: {why}: {}", ended.said);
            assert_eq!(ended.status, Some(1));
        }
        assert_eq!(world.snapshot(), before, "{file}: {why}");
        fs::write(&path, text).unwrap();
    }
}

#[test]
fn a_script_loads_only_the_files_that_were_compiled_with_it() {
    let Some(world) = World::new("not-its-own") else { return };
    world.load_bare();
    let before = world.snapshot();
    let (tree, linear) = (world.path("tree"), world.path("linear"));
    let script = fs::read(linear.join("load.sh")).unwrap();
    fs::write(tree.join("load.sh"), script).unwrap();
    let ended = world.script("tree/load.sh --allow-edited");
    assert!(ended.said.contains("are of artefact"), "{}", ended.said);
    assert_eq!(world.snapshot(), before);

    // Compiled again while the old ruleset is saved.
    let (_, other) = ALL.iter().find(|(name, _)| *name == "ipset").expect("an artefact");
    write_artefact(other, &world.path("next")).expect("it is written");
    let exchange = format!(
        "[ -e {0} ] || {{ mv {1} {0} && mv {2} {1}; }}",
        world.path("moved").display(),
        linear.display(),
        world.path("next").display(),
    );
    let compiling =
        Stub::of("iptables-legacy-save").instead("", &exchange).write(&world, "compiles");
    let ended = run_with(&world, "linear/load.sh", &[("IPTABLES_SAVE", &compiling)]);
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    assert_eq!(world.snapshot(), before);
    world.done("linear/load.sh");
}

#[test]
fn loading_over_rules_that_cannot_be_restored_is_refused() {
    let Some(world) = World::new("unreadable") else { return };
    let odd = [
        &["-m", "comment", "--comment", "a\nb"][..],
        &["-i", "a b"],
        &["-i", "a\"b"],
        &["-m", "recent", "--set", "--name", "a b"],
    ];
    for words in odd {
        world.load_bare();
        world.tool(&[&["iptables-legacy", "-A", "INPUT"], words].concat(), "");
        let before = world.snapshot();
        let ended = world.script("linear/load.sh");
        assert!(ended.said.contains("could not put"), "{words:?}: {}", ended.said);
        assert_eq!((ended.status, world.snapshot()), (Some(1), before), "{words:?}");
    }
    world.load_bare();
    let quoted = ["-m", "comment", "--comment", "a \"b\" \\ 'c' --d"];
    world.tool(&[&["iptables-legacy", "-A", "INPUT"], &quoted[..]].concat(), "");
    let before = world.snapshot();
    world.done("linear/load.sh");
    world.done("linear/unload.sh");
    assert_eq!(world.snapshot(), before, "quotes in the output of iptables-save are accepted");
}
