//! Sets: those of the artefact, those of the user, and those of a namespace that no longer exists.

use weir_backends::{CompileOptions, CompiledForm, compile, write_artefact};
use weir_model::Firewall;
use weir_syntax::ipset;
use weir_syntax::iptables::{self, ParserSettings};

use crate::stub::{KILL, RESTORE, Stub, run_with};
use crate::world::World;

/// An artefact of rules that match sets of the user's.
pub fn with_sets(world: &World, name: &str) {
    let sets =
        "create aset hash:ip\ncreate mine hash:ip\nadd mine 192.0.2.1\ncreate zset hash:ip\n";
    let text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        -A FORWARD -m set --match-set aset src -j DROP\n\
        -A FORWARD -m set --match-set mine src -j DROP\n\
        -A FORWARD -m set --match-set zset src -j DROP\nCOMMIT\n";
    let sets = ipset::parse(sets).expect("sets");
    let v4 = iptables::parse(text, &ParserSettings::default()).expect("rules");
    let firewall = Firewall { v4: Some(v4), v6: None, sets };
    let options = CompileOptions { check_packets_per_family: 200, ..Default::default() };
    let made =
        compile(&firewall, CompiledForm::Linear, &options, &mut |_, _| {}).expect("it compiles");
    write_artefact(&made, &world.path(name)).expect("it is written");
}

#[test]
fn every_load_restores_the_elements_of_the_artefacts_sets() {
    let Some(world) = World::new("own-sets") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("ipset/load.sh");
    let loaded = world.snapshot();
    let sets = world.tool(&["ipset", "list", "-n"], "");
    let set = sets.lines().next().expect("a set").to_owned();
    let held = world.tool(&["ipset", "save", &set], "");
    let line = held.lines().find(|l| l.starts_with("add ")).expect("an element");
    let element = line.split_whitespace().nth(2).expect("its address");
    let change = || {
        let lines = format!("del {set} {element}\nadd {set} 10.99.99.99\n");
        world.tool(&["ipset", "restore"], &lines);
    };
    change();
    assert_ne!(world.snapshot(), loaded);
    world.done("ipset/load.sh");
    assert_eq!(world.snapshot(), loaded, "a reload replaces them");

    // The rules were replaced by hand, the sets are still there.
    change();
    world.load_bare();
    world.done("ipset/load.sh");
    assert_eq!(world.snapshot(), loaded);
    world.done("ipset/unload.sh");
    assert_eq!(world.snapshot(), bare, "unloading removes them with the load that created them");

    // Loaded below another artefact: unloading the upper one does not destroy the lower one's sets.
    world.done("ipset/load.sh");
    world.done("nft/load.sh");
    world.done("ipset/load.sh");
    assert_eq!(world.snapshot(), loaded);
    world.done("ipset/unload.sh");
    world.done("nft/unload.sh");
    assert_eq!(world.snapshot(), loaded);
    world.done("ipset/unload.sh");
    assert_eq!(world.snapshot(), bare);
}

#[test]
fn unload_keeps_and_names_only_sets_in_use() {
    let Some(world) = World::new("in-use") else { return };
    with_sets(&world, "sets");
    world.done("sets/load.sh");
    let rule = ["-t", "mangle", "-A", "PREROUTING", "-m", "set", "--match-set", "mine", "src"];
    world.tool(&[&["iptables-legacy"], &rule[..]].concat(), "");
    let ended = world.script("sets/unload.sh");
    assert!(ended.is_done(), "{}", ended.said);
    assert_eq!(ended.said.matches("is in use by something else").count(), 1, "{}", ended.said);
    assert!(ended.said.contains("set mine is in use"), "{}", ended.said);
    assert_eq!(world.tool(&["ipset", "list", "-n"], ""), "mine\n");
}

#[test]
fn check_and_load_refuse_an_existing_set_of_different_type() {
    let Some(world) = World::new("other-type") else { return };
    with_sets(&world, "sets");
    world.done("sets/load.sh --check");
    world.tool(&["ipset", "restore"], "create mine hash:net\n");
    for line in ["sets/load.sh --check", "sets/load.sh"] {
        let ended = world.script(line);
        assert!(ended.said.contains("of another type"), "{line}: {}", ended.said);
        assert_eq!(ended.status, Some(1));
    }
}

#[test]
fn sets_in_a_namespace_with_a_reused_number_are_unchanged() {
    let Some(world) = World::new("same-number") else { return };
    with_sets(&world, "sets");
    let killing = Stub::of(RESTORE).instead(" -c ", KILL).write(&world, "kills");
    let ended = run_with(&world, "sets/load.sh", &[("IPTABLES_RESTORE", &killing)]);
    assert_eq!(ended.status, None, "{}", ended.said);
    assert!(
        world.tool(&["ipset", "list", "-n"], "").contains("mine"),
        "the script created the sets"
    );
    // As in a namespace that is given the number: other sets, no trace of the load.
    world.tool(&["ipset", "destroy"], "");
    world.tool(&["ipset", "restore"], "create mine hash:ip\nadd mine 192.0.2.55\n");
    let theirs = world.snapshot();
    world.done("sets/load.sh");
    world.done("sets/unload.sh");
    assert_eq!(world.snapshot(), theirs);
}

#[test]
fn a_user_set_with_an_artefact_set_name_is_preserved() {
    let Some(world) = World::new("same-name") else { return };
    world.load_bare();
    let file = std::fs::read_to_string(world.path("ipset/weir.ipset")).expect("its sets");
    let create = file.lines().find(|l| l.starts_with("create ")).expect("a set");
    let name = create.split_whitespace().nth(1).expect("its name");

    // A set of a different type.
    let theirs = format!("create {name} hash:ip comment\nadd {name} 192.0.2.1 comment \"mine\"\n");
    world.tool(&["ipset", "restore"], &theirs);
    let before = world.snapshot();
    for line in ["ipset/load.sh --check", "ipset/load.sh"] {
        let ended = world.script(line);
        assert!(ended.said.contains(&format!("ipset rename {name} OTHER")), "{}", ended.said);
        assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()), "{line}");
    }
    world.tool(&["ipset", "rename", name, &format!("{name}~")], "");
    let before = world.snapshot();
    for line in ["ipset/load.sh --check", "ipset/load.sh"] {
        let ended = world.script(line);
        assert!(ended.said.contains(&format!("ipset rename {name}~ OTHER")), "{}", ended.said);
        assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()), "{line}");
    }
    world.tool(&["ipset", "destroy"], "");

    // A set of the same type is replaced, and restored with its elements.
    world.tool(&["ipset", "restore"], &format!("{create}\n"));
    let before = world.snapshot();
    let failing = Stub::of(RESTORE).instead(" -c ", "exit 1").write(&world, "fails");
    let ended = run_with(&world, "ipset/load.sh", &[("IPTABLES_RESTORE", &failing)]);
    assert!(!ended.is_done(), "neither the load nor its undoing works: {}", ended.said);
    let ended = world.script("ipset/unload.sh");
    assert!(ended.is_done() || ended.said.contains("is not loaded"), "{}", ended.said);
    assert_eq!(world.snapshot(), before);
    world.done("ipset/load.sh");
    assert_ne!(world.snapshot(), before);
    world.done("ipset/unload.sh");
    assert_eq!(world.snapshot(), before);
}
