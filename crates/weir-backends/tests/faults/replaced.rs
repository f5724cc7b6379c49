//! Rules that somebody else loaded in place of the artefact's: none is lost without a message.

use crate::stub::{KILL, Stub, run_with};
use crate::world::{Ended, World};

/// What somebody else loads, in place of the filter table of IPv4.
const OTHER: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    -A INPUT -s 192.0.2.77/32 -j DROP\nCOMMIT\n";
const THEIRS: &str = "-A INPUT -s 192.0.2.77/32 -j DROP";

/// Runs the command that a message names after `what`.
fn run_named(world: &World, ended: &Ended, what: &str) {
    let rest = ended.said.split(what).nth(1).unwrap_or_else(|| panic!("{what}: {}", ended.said));
    world.tool(&["sh", "-c", rest.lines().next().expect("a line")], "");
}

fn rules(world: &World) -> String {
    world.tool(&["iptables-legacy-save"], "")
}

#[test]
fn reload_and_unload_do_not_overwrite_foreign_rules() {
    let Some(world) = World::new("replaced") else { return };
    for name in ["linear", "tree", "ipset", "nft", "nft-kept-input"] {
        world.load_bare();
        let bare = world.snapshot();
        world.done(&format!("{name}/load.sh"));
        world.tool(&["iptables-legacy-restore"], OTHER);
        let before = world.snapshot();
        let force = format!("sh {}/unload.sh --force", world.path(name).display());
        for script in ["load.sh --check", "load.sh", "unload.sh --check", "unload.sh"] {
            let ended = world.script(&format!("{name}/{script}"));
            assert_eq!(ended.status, Some(1), "{name}/{script}: {}", ended.said);
            assert!(ended.said.contains(&force), "{name}/{script}: {}", ended.said);
            assert_eq!(world.snapshot(), before, "{name}/{script}");
        }
        let ended = world.script(&format!("{name}/unload.sh --force"));
        assert!(ended.is_done(), "{name}: {}", ended.said);
        assert_eq!(world.snapshot(), bare, "{name}");
        run_named(&world, &ended, "a copy of it is kept: ");
        assert!(rules(&world).contains(THEIRS), "{name}: {}", ended.said);
    }
}

#[test]
fn flushed_nft_tables_are_reloaded_and_the_first_save_preserved() {
    let Some(world) = World::new("flushed") else { return };
    world.load_bare();
    let bare = world.snapshot();
    for name in ["nft", "nft-kept-input"] {
        let load = format!("{name}/load.sh");
        world.done(&load);
        let loaded = world.snapshot();
        world.tool(&["nft", "flush", "ruleset"], "");
        let ended = world.script(&format!("{load} --check"));
        assert!(ended.said.contains("would be loaded again"), "{}", ended.said);
        world.done(&load);
        assert_eq!(world.snapshot(), loaded, "{name}");
        world.done(&format!("{name}/unload.sh"));
        assert_eq!(world.snapshot(), bare, "{name}");
    }

    // Loaded over another artefact.
    world.done("ipset/load.sh");
    let below = world.snapshot();
    world.done("nft/load.sh");
    let loaded = world.snapshot();
    world.tool(&["nft", "flush", "ruleset"], "");
    let flushed = world.snapshot();
    let ended = world.script("ipset/load.sh");
    assert_eq!((ended.status, world.snapshot()), (Some(1), flushed), "{}", ended.said);
    assert!(ended.said.contains("nft/load.sh loads it again"), "{}", ended.said);
    assert!(ended.said.contains("nft/unload.sh --force puts back"), "{}", ended.said);
    world.done("nft/load.sh");
    assert_eq!(world.snapshot(), loaded);
    world.tool(&["nft", "flush", "ruleset"], "");
    world.done("nft/unload.sh --force");
    assert_eq!(world.snapshot(), below);
    world.done("ipset/unload.sh");
    assert_eq!(world.snapshot(), bare, "sets are gone, too");
}

#[test]
fn saves_below_a_replaced_artefact_are_preserved() {
    let Some(world) = World::new("below") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("ipset/load.sh");
    let below = world.snapshot();
    let (v4, v6) = (rules(&world), world.tool(&["ip6tables-legacy-save"], ""));
    world.done("ipset-other/load.sh");
    world.tool(&["iptables-legacy-restore"], &v4);
    world.tool(&["ip6tables-legacy-restore"], &v6);
    let ended = world.script("tree/load.sh");
    assert!(ended.is_done() && ended.said.contains(".old"), "{}", ended.said);
    world.done("tree/unload.sh");
    assert_eq!(world.snapshot(), below, "the sets of what is above are gone");
    world.done("ipset/unload.sh");
    assert_eq!(world.snapshot(), bare);
}

#[test]
fn a_rollback_preserves_rules_loaded_since_the_kill() {
    let Some(world) = World::new("since") else { return };
    world.load_bare();
    let bare = world.snapshot();
    let killing = Stub::of("ip6tables-legacy-restore").instead(" -c ", KILL).write(&world, "kills");
    for (name, line) in
        [("tree", "tree/load.sh"), ("nft", "nft/unload.sh"), ("tree", "nft/load.sh")]
    {
        let ended =
            run_with(&world, &format!("{name}/load.sh"), &[("IP6TABLES_RESTORE", &killing)]);
        assert_eq!(ended.status, None, "{}", ended.said);
        world.tool(&["iptables-legacy-restore"], OTHER);
        let ended = world.script(line);
        assert!(ended.is_done(), "{line}: {}", ended.said);
        world.unload_all();
        assert_eq!(world.snapshot(), bare, "{line}");
        run_named(&world, &ended, "a copy of it is kept: ");
        assert!(rules(&world).contains(THEIRS), "{line}: {}", ended.said);
        world.load_bare();
    }
}

#[test]
fn a_removed_state_folder_is_reported() {
    let Some(world) = World::new("removed") else { return };
    world.load_bare();
    for name in ["tree", "ipset", "nft"] {
        world.done(&format!("{name}/load.sh"));
        let loaded = world.snapshot();
        std::fs::remove_dir_all(world.path("state")).unwrap();
        let ended = world.script(&format!("{name}/load.sh"));
        assert!(ended.said.contains("does not hold what was in force before"), "{}", ended.said);
        assert!(ended.is_done(), "{}", ended.said);
        assert_eq!(world.snapshot(), loaded, "{name}");
        world.done(&format!("{name}/unload.sh"));
        assert_eq!(world.snapshot(), loaded, "{name}");
        world.tool(&["nft", "flush", "ruleset"], "");
        world.tool(&["iptables-legacy-restore"], "*mangle\nCOMMIT\n");
        world.load_bare();
        world.tool(&["ipset", "destroy"], "");
    }
}
