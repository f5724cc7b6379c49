//! Which ruleset is restored, and when none is.

use std::fs;
use std::path::PathBuf;

use weir_backends::write_artefact;

use crate::rulesets::{ALL, BARE, BARE6};
use crate::stub::{KILL, RESTORE, Stub, run_with};
use crate::world::World;

fn entry(world: &World, number: usize) -> PathBuf {
    world.path(&format!("state/net-{}/{number}", world.number()))
}

fn recompile(world: &World, folder: &str, like: &str) {
    let (_, made) = ALL.iter().find(|(name, _)| *name == like).expect("an artefact");
    write_artefact(made, &world.path(folder)).expect("the folder is replaced");
}

#[test]
fn recompiling_into_the_loaded_artefacts_folder_preserves_its_rollback() {
    let Some(world) = World::new("recompiled") else { return };
    world.load_bare();
    let bare = world.snapshot();
    recompile(&world, "mine", "tree");
    world.done("mine/load.sh");
    let loaded = world.snapshot();
    recompile(&world, "mine", "nft");
    world.done("mine/unload.sh");
    assert_eq!(world.snapshot(), bare, "the new unload.sh unloads what was loaded from there");

    recompile(&world, "mine", "tree");
    world.done("mine/load.sh");
    recompile(&world, "mine", "nft");
    world.done("mine/load.sh");
    assert_ne!(world.snapshot(), loaded);
    world.done("mine/unload.sh");
    assert_eq!(world.snapshot(), loaded);
    world.done("mine/unload.sh");
    assert_eq!(world.snapshot(), bare);
}

#[test]
fn unload_names_the_command_if_another_artefact_is_loaded() {
    let Some(world) = World::new("names") else { return };
    world.load_bare();
    let bare = world.snapshot();
    recompile(&world, "gone", "nft");
    for name in ["tree", "ipset", "gone"] {
        world.done(&format!("{name}/load.sh"));
    }
    let refused = world.script("tree/unload.sh");
    let cure = format!("sh {} unloads it", world.path("gone/unload.sh").display());
    assert!(!refused.is_done() && refused.said.contains(&cure), "{}", refused.said);
    fs::remove_dir_all(world.path("gone")).unwrap();
    let refused = world.script("ipset/unload.sh");
    let cure = format!("sh {} --latest unloads it", world.path("ipset/unload.sh").display());
    assert!(!refused.is_done() && refused.said.contains(&cure), "{}", refused.said);
    world.done("ipset/unload.sh --latest");
    world.done("ipset/unload.sh");
    world.done("tree/unload.sh");
    assert_eq!(world.snapshot(), bare);
}

#[test]
fn a_ruleset_saved_before_a_reboot_is_not_restored() {
    let Some(world) = World::new("reboot") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("linear/load.sh");
    // As after a reboot: another ruleset is in force, and the state says so by its boot ID.
    world.load_bare();
    let about = entry(&world, 1).join("about");
    let text = fs::read_to_string(&about).unwrap();
    let boot = text.lines().find(|l| l.starts_with("boot=")).expect("the boot ID").to_owned();
    fs::write(&about, text.replace(&boot, "boot=00000000-0000-0000-0000-000000000000")).unwrap();
    fs::rename(entry(&world, 1).join("loaded"), entry(&world, 1).join("loading")).unwrap();
    let ended = world.script("linear/unload.sh");
    assert!(!ended.is_done() && ended.said.contains("an earlier boot"), "{}", ended.said);
    assert_eq!(world.snapshot(), bare);
    world.done("nft/load.sh");
    world.done("nft/unload.sh");
    assert_eq!(world.snapshot(), bare);
}

#[test]
fn unload_refuses_unless_forced_if_its_rules_are_not_loaded() {
    let Some(world) = World::new("forced") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("tree/load.sh");
    // The number of a namespace that is gone may be given to a new one, with other rules.
    let other = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n";
    world.tool(&["iptables-legacy-restore"], &format!("*mangle\nCOMMIT\n{other}"));
    world.tool(&["ip6tables-legacy-restore"], other);
    let now = world.snapshot();
    let ended = world.script("tree/unload.sh");
    assert!(!ended.is_done() && ended.said.contains("not in force any more"), "{}", ended.said);
    assert!(ended.said.contains(&entry(&world, 1).display().to_string()), "{}", ended.said);
    assert_eq!(world.snapshot(), now);
    world.done("tree/unload.sh --force");
    assert_eq!(world.snapshot(), bare);
}

#[test]
fn an_interrupted_unload_latest_is_completed_and_unloads_nothing_else() {
    let Some(world) = World::new("latest") else { return };
    world.load_bare();
    world.done("linear/load.sh");
    let linear = world.snapshot();
    world.done("nft/load.sh");
    let killing = Stub::of(RESTORE).instead(" -c ", KILL).write(&world, "kills");
    let ended = run_with(&world, "linear/unload.sh --latest", &[("IPTABLES_RESTORE", &killing)]);
    assert_eq!(ended.status, None, "it is killed: {}", ended.said);
    let ended = world.script("linear/unload.sh --latest");
    assert!(ended.is_done() && ended.said.contains("unloaded nft "), "{}", ended.said);
    assert_eq!(world.snapshot(), linear);
    world.done("linear/unload.sh --latest");
}

#[test]
fn a_manually_replaced_table_is_overwritten_only_if_forced() {
    let Some(world) = World::new("by-hand") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("tree/load.sh");
    // mangle is as it was loaded.
    world.tool(&["iptables-legacy-restore"], BARE);
    let now = world.snapshot();
    let ended = world.script("tree/unload.sh");
    assert!(!ended.is_done() && ended.said.contains("not in force any more"), "{}", ended.said);
    assert_eq!(world.snapshot(), now);
    world.done("tree/unload.sh --force");
    assert_eq!(world.snapshot(), bare);
}

#[test]
fn a_failed_unload_names_the_save_and_can_be_retried() {
    let Some(world) = World::new("fails") else { return };
    let set = "create theirs hash:ip\n";
    let with_set = BARE.replace("COMMIT", "-A INPUT -m set --match-set theirs src -j DROP\nCOMMIT");
    world.tool(&["ipset", "restore"], set);
    world.tool(&["iptables-legacy-restore"], &with_set);
    world.tool(&["ip6tables-legacy-restore"], BARE6);
    let old = world.snapshot();
    world.done("tree/load.sh");
    world.tool(&["ipset", "destroy", "theirs"], "");
    let ended = world.script("tree/unload.sh");
    assert!(!ended.is_done(), "{}", ended.said);
    let saved = entry(&world, 1);
    assert!(ended.said.contains(&saved.display().to_string()), "{}", ended.said);
    let text = fs::read_to_string(saved.join("old.iptables")).unwrap();
    assert!(text.contains("--match-set theirs"), "{text}");
    world.tool(&["ipset", "restore"], set);
    world.done("tree/unload.sh");
    assert_eq!(world.snapshot(), old);
}

#[test]
fn unload_refuses_an_edited_save() {
    let Some(world) = World::new("save-edited") else { return };
    world.load_bare();
    world.done("tree/load.sh");
    let loaded = world.snapshot();
    let saved = entry(&world, 1).join("old.iptables");
    let text = fs::read_to_string(&saved).unwrap();
    fs::write(&saved, &text[..text.len() / 2]).unwrap();
    let ended = world.script("tree/unload.sh");
    assert!(!ended.is_done() && ended.said.contains("was edited after it was saved"));
    assert_eq!(world.snapshot(), loaded);
    fs::write(&saved, text).unwrap();
    world.done("tree/unload.sh");
}

#[test]
fn unload_keeps_and_names_sets_in_use_and_restores_rest() {
    let Some(world) = World::new("used") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("ipset/load.sh");
    let sets = world.tool(&["ipset", "list", "-n"], "");
    let set = sets.lines().next().expect("a set");
    world.tool(&["ipset", "restore"], &format!("create all list:set\nadd all {set}\n"));
    let ended = world.script("ipset/unload.sh");
    assert!(ended.is_done(), "{}", ended.said);
    assert!(ended.said.contains(&format!("set {set} is in use")), "{}", ended.said);
    world.tool(&["ipset", "restore"], &format!("destroy all\ndestroy {set}\n"));
    assert_eq!(world.snapshot(), bare);
}
