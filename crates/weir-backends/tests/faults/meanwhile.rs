//! Changes by other programs to the rules in force, before or while a script works.

use std::path::PathBuf;

use crate::rulesets::{BARE, BARE6};
use crate::stub::{KILL, RESTORE, Stub, run_with};
use crate::world::World;

#[test]
fn each_set_aside_state_gets_a_folder_of_its_own() {
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
fn counters_that_increase_during_a_load_do_not_abort_it() {
    let Some(world) = World::new("counting") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("nft/load.sh");
    let map = world.tool(&["nft", "list", "ruleset"], "");
    let on_a_line = |l: &str| l.matches("counter packets").count() > 1;
    assert!(map.lines().any(on_a_line), "some line has two counters: {map}");
    // As with traffic: each listing has different counters.
    let listing = "nft \"$@\" | awk -v n=\"$(date +%s%N)\" '{ gsub(/packets 0 bytes 0/, \"packets 9\" substr(n, 12) \" bytes 1\"); print }'";
    let listing = format!("{listing}; exit");
    let counting = Stub::of("nft").instead(" list ", &listing).write(&world, "counting");
    for line in ["tree/load.sh", "tree/unload.sh", "nft/load.sh"] {
        let ended = run_with(&world, line, &[("NFT", &counting)]);
        assert!(ended.is_done(), "{line}: {}", ended.said);
    }
    world.done("nft/unload.sh");
    assert_eq!(world.snapshot(), bare);
}

#[test]
fn a_rule_changed_during_unload_does_not_affect_earlier_loads() {
    let Some(world) = World::new("meanwhile") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("linear/load.sh");
    world.done("tree/load.sh");
    let add = "iptables-legacy -I INPUT -s 198.51.100.66 -j DROP";
    let adding = Stub::of(RESTORE).after(" -w ", add).write(&world, "adds");
    let ended = run_with(&world, "tree/unload.sh", &[("IPTABLES_RESTORE", &adding)]);
    assert!(ended.is_done(), "all that was saved is back: {}", ended.said);
    world.done("linear/unload.sh");
    assert_eq!(world.snapshot(), bare);

    // Unlike an added rule, a removed rule makes unload.sh fail.
    world.done("linear/load.sh");
    world.done("tree/load.sh");
    let remove = "iptables-legacy -D FORWARD 1";
    let removing = Stub::of(RESTORE).after(" -w ", remove).write(&world, "removes");
    let ended = run_with(&world, "tree/unload.sh", &[("IPTABLES_RESTORE", &removing)]);
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    assert!(ended.said.contains(".old"), "{}", ended.said);
    world.done("linear/unload.sh");
    assert_eq!(world.snapshot(), bare);

    // The same while an interrupted load waits to be rolled back.
    world.done("linear/load.sh");
    let killing = Stub::of(RESTORE).instead(" -c ", KILL).write(&world, "kills");
    let ended = run_with(&world, "ipset/load.sh", &[("IPTABLES_RESTORE", &killing)]);
    assert_eq!(ended.status, None, "{}", ended.said);
    world.tool(&["sh", "-c", add], "");
    world.done("linear/unload.sh");
    assert_eq!(world.snapshot(), bare, "sets of the interrupted load are gone, too");
}

#[test]
fn a_rule_added_after_the_save_is_not_overwritten() {
    let Some(world) = World::new("after-save") else { return };
    world.load_bare();
    // The IPv4 save is tested once it is complete.
    let add = "iptables-legacy -I INPUT -s 198.51.100.66 -j DROP";
    let adding = Stub::of(RESTORE).after(" --test ", add).write(&world, "adds");
    for name in ["tree", "ipset", "nft"] {
        world.load_bare();
        let bare = world.snapshot();
        let line = format!("{name}/load.sh");
        let ended = run_with(&world, &line, &[("IPTABLES_RESTORE", &adding)]);
        assert_eq!(ended.status, Some(1), "{}", ended.said);
        assert!(ended.said.contains("start load.sh again"), "{}", ended.said);
        let now = world.snapshot();
        assert!(now.contains("198.51.100.66"), "{}", ended.said);
        world.done(&line);
        world.done(&format!("{name}/unload.sh"));
        assert_eq!(world.snapshot(), now, "{name}");
        world.tool(&["iptables-legacy", "-D", "INPUT", "1"], "");
        assert_eq!(world.snapshot(), bare, "{name}: no set is left");
    }
}
