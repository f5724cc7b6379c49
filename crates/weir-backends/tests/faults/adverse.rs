//! What others do to the scripts: tools that go, streams that close, files and sets that change.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::Stdio;

use weir_backends::{CompileOptions, Form, compile, write};
use weir_model::Firewall;
use weir_syntax::ipset;
use weir_syntax::iptables::{self, ParseOptions};

use crate::rulesets::{ALL, BARE, BARE6};
use crate::world::{Ended, World};

/// A program of the test's own.
fn program(world: &World, name: &str, body: &str) -> String {
    let path = world.path(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn run_with(world: &World, line: &str, variables: &[(&str, &str)]) -> Ended {
    let mut command = world.command("sh");
    command.args(world.words(line)).envs(variables.iter().copied());
    Ended::of(&command.output().expect("sh runs"))
}

/// An artefact of rules that match sets of the user's.
fn with_sets(world: &World, name: &str) {
    let sets =
        "create aset hash:ip\ncreate mine hash:ip\nadd mine 192.0.2.1\ncreate zset hash:ip\n";
    let text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        -A FORWARD -m set --match-set aset src -j DROP\n\
        -A FORWARD -m set --match-set mine src -j DROP\n\
        -A FORWARD -m set --match-set zset src -j DROP\nCOMMIT\n";
    let sets = ipset::parse(sets).expect("sets");
    let v4 = iptables::parse(text, &ParseOptions::default()).expect("rules");
    let firewall = Firewall { v4: Some(v4), v6: None, sets };
    let options = CompileOptions { check_packets: 200, ..Default::default() };
    let made = compile(&firewall, Form::Linear, &options, &mut |_, _| {}).expect("it compiles");
    write(&made, &world.path(name)).expect("it is written");
}

#[test]
fn a_script_that_lacks_the_tools_of_what_is_loaded_changes_nothing() {
    let Some(world) = World::new("tools-gone") else { return };
    world.load_bare();
    let bare = world.snapshot();
    let without = [("NFT", "/nonexistent")];
    world.done("nft/load.sh");
    let loaded = world.snapshot();
    let ended = run_with(&world, "linear/load.sh", &without);
    assert!(ended.said.contains("needs /nonexistent"), "{}", ended.said);
    assert_eq!((ended.status, world.snapshot()), (Some(1), loaded));
    world.done("nft/unload.sh");

    // Killed behind its last change of iptables: nft and the emptied tables are in force.
    let body = "iptables-legacy-restore \"$@\"\n[ \"$1\" != -w ] || kill -s KILL $PPID";
    let killing = program(&world, "kills", body);
    let ended = run_with(&world, "nft/load.sh", &[("IPTABLES_RESTORE", &killing)]);
    assert_eq!(ended.status, None, "{}", ended.said);
    let between = world.snapshot();
    assert_ne!(between, bare);
    for line in ["linear/unload.sh", "linear/load.sh"] {
        let ended = run_with(&world, line, &without);
        assert!(ended.said.contains("needs /nonexistent"), "{}", ended.said);
        assert_eq!((ended.status, world.snapshot()), (Some(1), between.clone()));
    }
    assert!(!world.script("linear/unload.sh").is_done(), "it is not loaded");
    assert_eq!(world.snapshot(), bare, "what was interrupted is undone");
}

#[test]
fn saves_of_iptables_nft_are_refused() {
    let Some(world) = World::new("save-nft") else { return };
    world.load_bare();
    let before = world.snapshot();
    for variable in ["IPTABLES_SAVE", "IP6TABLES_SAVE"] {
        let name = variable.to_lowercase().replace("_", "-nft-");
        for line in ["linear/load.sh", "linear/load.sh --check"] {
            let ended = run_with(&world, line, &[(variable, &name)]);
            assert!(ended.said.contains("is iptables-nft"), "{}", ended.said);
            assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()));
        }
    }
    let ended = run_with(&world, "linear/load.sh", &[("IP6TABLES_SAVE", "iptables-legacy-save")]);
    assert!(ended.said.contains("is no tool of ip6tables-legacy"), "{}", ended.said);
    assert_eq!((ended.status, world.snapshot()), (Some(1), before));
    world.done("linear/load.sh");
}

#[test]
fn streams_that_are_closed_or_full_change_no_status() {
    let Some(world) = World::new("streams") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("ipset/load.sh");
    let loaded = world.snapshot();
    world.done("ipset/unload.sh");
    for how in ["", ">/dev/full", ">&-", "2>&-", "2>/dev/full", "<&-", "<&- >&- 2>&-", "| true"] {
        for (script, after) in [("load.sh", &loaded), ("unload.sh", &bare)] {
            let path = world.path("ipset").join(script);
            // The status of the script, not that of the end of a pipe.
            let line = format!("{{ sh {}; echo $? >{}; }} {how}", path.display(), "$STATUS");
            let mut command = world.command("sh");
            command.args(["-c", &line]).env("STATUS", world.path("status"));
            command.status().expect("sh runs");
            let status = fs::read_to_string(world.path("status")).unwrap();
            assert_eq!(status.trim(), "0", "{script} {how}");
            assert_eq!(&world.snapshot(), after, "{script} {how}");
        }
    }
}

#[test]
fn without_root_tables_are_not_taken_for_missing() {
    let Some(world) = World::new("no-root") else { return };
    world.load_bare();
    let before = world.snapshot();
    let state = world.path("state");
    fs::create_dir(&state).unwrap();
    chown(&state, Some(65534), Some(65534)).unwrap();
    for folder in ["linear", "tree"] {
        fs::set_permissions(world.path(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = world.command("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.args(["--inh-caps", "+net_admin,+net_raw", "--ambient-caps", "+net_admin,+net_raw"]);
    command.arg("sh").args(world.words("linear/load.sh"));
    let ended = Ended::of(&command.output().expect("setpriv runs"));
    assert!(ended.said.contains("as root"), "{}", ended.said);
    assert_eq!((ended.status, world.snapshot()), (Some(1), before));
    fs::remove_dir(&state).unwrap();
    world.done("linear/load.sh");
}

#[test]
fn edited_files_cannot_touch_what_is_not_saved() {
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
    let other_set = |text: &str| format!("{text}create other hash:ip\n");
    let destroying = |text: &str| format!("{text}destroy aset\n");
    type Edit<'e> = &'e dyn Fn(&str) -> String;
    let cases: [(&str, &str, Edit<'_>, &str); 9] = [
        ("linear", "iptables.rules", &whole, ""),
        ("linear", "iptables.rules", &unmarked, "a line :weir:"),
        ("linear", "iptables.rules", &with_nat, "table nat was added"),
        ("linear", "ip6tables.rules", &empty, "table filter is missing"),
        ("nft", "ruleset.nft", &flushing, "line 1 is outside of tables"),
        ("nft", "ruleset.nft", &other_table, "table ip:other was added"),
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

    // Compiled anew while the old ruleset is saved.
    let (_, other) = ALL.iter().find(|(name, _)| *name == "ipset").expect("an artefact");
    write(other, &world.path("next")).expect("it is written");
    let body = format!(
        "[ -e {0} ] || {{ mv {1} {0} && mv {2} {1}; }}\nexec iptables-legacy-save \"$@\"",
        world.path("moved").display(),
        linear.display(),
        world.path("next").display(),
    );
    let compiling = program(&world, "compiles", &body);
    let ended = run_with(&world, "linear/load.sh", &[("IPTABLES_SAVE", &compiling)]);
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    assert_eq!(world.snapshot(), before);
    world.done("linear/load.sh");
}

#[test]
fn sets_of_the_artefact_hold_what_it_says_after_every_load() {
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
    assert_eq!(world.snapshot(), bare, "they go with the load that filled them");

    // Loaded beneath another: the upper load does not destroy what the lower one needs.
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
fn of_several_sets_only_those_in_use_are_left_and_named() {
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
fn check_refuses_a_set_of_another_type_as_the_load_does() {
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
fn what_is_set_aside_is_kept_each_time() {
    let Some(world) = World::new("aside") else { return };
    let folder =
        |suffix: &str| -> PathBuf { world.path(&format!("state/net-{}{suffix}", world.number())) };
    for (script, suffix) in [("linear", ".old"), ("tree", ".2.old"), ("ipset", ".3.old")] {
        world.load_bare();
        world.done(&format!("{script}/load.sh"));
        world.tool(&["iptables-legacy-restore"], &format!("*mangle\nCOMMIT\n{BARE}"));
        world.tool(&["ip6tables-legacy-restore"], BARE6);
        let ended = world.script("nft/load.sh");
        assert!(ended.is_done(), "{}", ended.said);
        assert!(ended.said.contains(&format!("{suffix}\n")), "{}", ended.said);
        assert!(folder(suffix).join("1/old.iptables").exists(), "{suffix}");
        world.done("nft/unload.sh");
    }
    assert!(folder(".old").join("1/old.iptables").exists());
}

#[test]
fn copies_of_unknown_origin_are_refused() {
    let Some(world) = World::new("stray") else { return };
    world.load_bare();
    for name in ["weir_new_filter", "weir_old_filter"] {
        world.tool(&["nft", "add", "table", "ip", name], "");
        let before = world.snapshot();
        for line in ["nft/load.sh", "linear/load.sh"] {
            let ended = world.script(line);
            let cure = format!("nft delete table ip {name}");
            assert!(ended.said.contains(&cure), "{}", ended.said);
            assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()));
        }
        world.tool(&["nft", "delete", "table", "ip", name], "");
    }
    world.done("nft/load.sh");
}

#[test]
fn a_tool_that_fails_before_it_changes_anything_is_told_as_that() {
    let Some(world) = World::new("tool-fails") else { return };
    world.load_bare();
    let before = world.snapshot();
    // As where another process holds the lock of xtables.
    let body =
        "case \" $* \" in *' --version '*) exec iptables-legacy-restore --version;; esac; exit 4";
    let failing = program(&world, "fails", body);
    let ended = run_with(&world, "linear/load.sh", &[("IPTABLES_RESTORE", &failing)]);
    assert_eq!(ended.status, Some(1));
    assert!(ended.said.contains("nothing was changed"), "{}", ended.said);
    assert_eq!(world.snapshot(), before);
    assert!(!world.path(&format!("state/net-{}/1", world.number())).exists());
    world.done("linear/load.sh");
}

#[test]
fn rules_that_could_not_be_put_back_are_refused() {
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
    assert_eq!(world.snapshot(), before, "quotes that iptables-save writes are no obstacle");
}

#[test]
fn whoever_holds_the_lock_is_named() {
    let Some(world) = World::new("holder") else { return };
    world.load_bare();
    let before = world.snapshot();
    // Not on the descriptor that the scripts use.
    let mut command = world.command("sh");
    command.args(["-c", "exec 7</proc/self/ns/net; flock 7 && echo held && exec sleep 600"]);
    let mut holder = command.stdout(Stdio::piped()).spawn().expect("sh runs");
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ended = world.script("linear/load.sh");
    let id = holder.id();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(ended.said.contains(&format!("process {id} (sleep 600)")), "{}", ended.said);
    assert_eq!((ended.status, world.snapshot()), (Some(1), before));
    world.done("linear/load.sh");
}

#[test]
fn tools_that_do_nothing_and_say_that_all_is_well_are_not_believed() {
    let Some(world) = World::new("idle-tools") else { return };
    world.load_bare();
    let before = world.snapshot();
    let idle = |tool: &str, when: &str| {
        let body = format!("case \" $* \" in *'{when}'*) exit 0;; esac; exec {tool} \"$@\"");
        program(&world, "idle", &body)
    };
    let restoring = idle("iptables-legacy-restore", " -w 10 -c ");
    let ended = run_with(&world, "linear/load.sh", &[("IPTABLES_RESTORE", &restoring)]);
    assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()), "{}", ended.said);
    let loading = idle("nft", " -f ");
    let ended = run_with(&world, "nft/load.sh", &[("NFT", &loading)]);
    assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()), "{}", ended.said);

    world.done("linear/load.sh");
    let restoring = idle("iptables-legacy-restore", " -w 10 -c ");
    let ended = run_with(&world, "linear/unload.sh", &[("IPTABLES_RESTORE", &restoring)]);
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    let kept = world.path(&format!("state/net-{}.old/1/old.iptables", world.number()));
    assert!(ended.said.contains(".old") && kept.exists(), "{}", ended.said);
    let saved = fs::read_to_string(&kept).unwrap();
    world.tool(&["iptables-legacy-restore", "-c"], &saved);
    assert_eq!(world.snapshot(), before, "the message names the folder from which it comes back");
}

#[test]
fn sets_of_a_namespace_with_the_number_of_a_dead_one_are_left_alone() {
    let Some(world) = World::new("same-number") else { return };
    with_sets(&world, "sets");
    let body = "case \" $* \" in *' -c '*) kill -s KILL $PPID; exit;; esac; exec iptables-legacy-restore \"$@\"";
    let killing = program(&world, "kills", body);
    let ended = run_with(&world, "sets/load.sh", &[("IPTABLES_RESTORE", &killing)]);
    assert_eq!(ended.status, None, "{}", ended.said);
    assert!(world.tool(&["ipset", "list", "-n"], "").contains("mine"), "it made the sets");
    // As in a namespace that is given the number: other sets, no trace of the load.
    world.tool(&["ipset", "destroy"], "");
    world.tool(&["ipset", "restore"], "create mine hash:ip\nadd mine 192.0.2.55\n");
    let theirs = world.snapshot();
    world.done("sets/load.sh");
    world.done("sets/unload.sh");
    assert_eq!(world.snapshot(), theirs);
}

#[test]
fn counters_that_count_meanwhile_are_no_obstacle() {
    let Some(world) = World::new("counting") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("nft/load.sh");
    let map = world.tool(&["nft", "list", "ruleset"], "");
    let on_a_line = |l: &str| l.matches("counter packets").count() > 1;
    assert!(map.lines().any(on_a_line), "two counters stand on a line: {map}");
    // What traffic does: each listing has other numbers.
    let body = "nft \"$@\" | awk -v n=\"$(date +%s%N)\" '{ gsub(/packets 0 bytes 0/, \"packets 9\" substr(n, 12) \" bytes 1\"); print }'";
    let body = format!("case \"$1\" in list) {body};; *) exec nft \"$@\";; esac");
    let counting = program(&world, "counting", &body);
    for line in ["tree/load.sh", "tree/unload.sh", "nft/load.sh"] {
        let ended = run_with(&world, line, &[("NFT", &counting)]);
        assert!(ended.is_done(), "{line}: {}", ended.said);
    }
    world.done("nft/unload.sh");
    assert_eq!(world.snapshot(), bare);
}

#[test]
fn a_rule_that_somebody_adds_meanwhile_leaves_earlier_loads_alone() {
    let Some(world) = World::new("meanwhile") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("linear/load.sh");
    world.done("tree/load.sh");
    let add = "iptables-legacy -I INPUT -s 198.51.100.66 -j DROP";
    let body = format!("iptables-legacy-restore \"$@\"\n[ \"$1\" != -w ] || {add}");
    let adding = program(&world, "adds", &body);
    let ended = run_with(&world, "tree/unload.sh", &[("IPTABLES_RESTORE", &adding)]);
    assert!(ended.is_done(), "all that was saved is back: {}", ended.said);
    world.done("linear/unload.sh");
    assert_eq!(world.snapshot(), bare);

    // A rule that goes is another matter.
    world.done("linear/load.sh");
    world.done("tree/load.sh");
    let body = "iptables-legacy-restore \"$@\"\n[ \"$1\" != -w ] || iptables-legacy -D FORWARD 1";
    let removing = program(&world, "removes", body);
    let ended = run_with(&world, "tree/unload.sh", &[("IPTABLES_RESTORE", &removing)]);
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    assert!(ended.said.contains(".old"), "{}", ended.said);
    world.done("linear/unload.sh");
    assert_eq!(world.snapshot(), bare);

    // The same while an interrupted load waits to be rolled back.
    world.done("linear/load.sh");
    let body = "case \" $* \" in *' -c '*) kill -s KILL $PPID; exit;; esac; exec iptables-legacy-restore \"$@\"";
    let killing = program(&world, "kills", body);
    let ended = run_with(&world, "ipset/load.sh", &[("IPTABLES_RESTORE", &killing)]);
    assert_eq!(ended.status, None, "{}", ended.said);
    world.tool(&["sh", "-c", add], "");
    world.done("linear/unload.sh");
    assert_eq!(world.snapshot(), bare, "sets of the interrupted load are gone, too");
}

#[test]
fn a_reload_that_fails_puts_sets_and_counters_back() {
    let Some(world) = World::new("reload-fails") else { return };
    world.load_bare();
    world.done("ipset/load.sh");
    let sets = world.tool(&["ipset", "list", "-n"], "");
    let set = sets.lines().next().expect("a set").to_owned();
    let held = world.tool(&["ipset", "save", &set], "");
    let line = held.lines().find(|l| l.starts_with("add ")).expect("an element");
    let element = line.split_whitespace().nth(2).expect("its address");
    let lines = format!("del {set} {element}\nadd {set} {element} packets 5 bytes 500\n");
    world.tool(&["ipset", "restore"], &lines);
    let counted = || world.tool(&["ipset", "save", &set], "").contains("packets 5 bytes 500");
    assert!(counted());
    let body = "case \" $* \" in *' -c '*) exit 4;; esac; exec iptables-legacy-restore \"$@\"";
    let failing = program(&world, "fails", body);
    // It fails once, and works for the undo.
    let once = program(
        &world,
        "once",
        &format!(
            "case \" $* \" in *' -c '*) [ -e {0} ] || {{ : >{0}; exec {failing} \"$@\"; }};; esac\n\
             exec iptables-legacy-restore \"$@\"",
            world.path("failed").display()
        ),
    );
    let ended = run_with(&world, "ipset/load.sh", &[("IPTABLES_RESTORE", &once)]);
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    assert!(ended.said.contains("all changes were undone"), "{}", ended.said);
    assert!(counted(), "{}", world.tool(&["ipset", "save", &set], ""));
}
