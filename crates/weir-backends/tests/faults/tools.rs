//! Scripts with faulty tools: missing, failing, wrong output, or another tool.

use std::fs;
use std::os::unix::fs::symlink;

use crate::stub::{KILL, RESTORE, Stub, run_with};
use crate::world::{Ended, World, tools};

#[test]
fn a_script_without_the_loaded_forms_tools_changes_nothing() {
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

    // Killed after its last change of iptables: nft and the emptied tables are in force.
    let killing = Stub::of(RESTORE).after(" -w ", KILL).write(&world, "kills");
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
fn iptables_nft_save_programs_are_refused() {
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
fn a_tool_failure_before_any_change_is_reported_as_such() {
    let Some(world) = World::new("tool-fails") else { return };
    world.load_bare();
    let before = world.snapshot();
    // As if another process held the xtables lock.
    let failing = Stub::of(RESTORE).unless(" --version ", "exit 4").write(&world, "fails");
    let ended = run_with(&world, "linear/load.sh", &[("IPTABLES_RESTORE", &failing)]);
    assert_eq!(ended.status, Some(1));
    assert!(ended.said.contains("nothing was changed"), "{}", ended.said);
    assert_eq!(world.snapshot(), before);
    assert!(!world.path(&format!("state/net-{}/1", world.number())).exists());
    world.done("linear/load.sh");
}

#[test]
fn tools_that_report_success_without_effect_are_detected() {
    let Some(world) = World::new("idle-tools") else { return };
    world.load_bare();
    let before = world.snapshot();
    let idle = |tool, at| Stub::of(tool).instead(at, "exit 0").write(&world, "idle");
    let restoring = idle(RESTORE, " -w 10 -c ");
    let ended = run_with(&world, "linear/load.sh", &[("IPTABLES_RESTORE", &restoring)]);
    assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()), "{}", ended.said);
    let loading = idle("nft", " -f ");
    let ended = run_with(&world, "nft/load.sh", &[("NFT", &loading)]);
    assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()), "{}", ended.said);

    world.done("linear/load.sh");
    let restoring = idle(RESTORE, " -w 10 -c ");
    let ended = run_with(&world, "linear/unload.sh", &[("IPTABLES_RESTORE", &restoring)]);
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    let kept = world.path(&format!("state/net-{}.old/1/old.iptables", world.number()));
    assert!(ended.said.contains(".old") && kept.exists(), "{}", ended.said);
    let saved = fs::read_to_string(&kept).unwrap();
    world.tool(&["iptables-legacy-restore", "-c"], &saved);
    assert_eq!(
        world.snapshot(),
        before,
        "the message names the folder from which the ruleset is restored"
    );
}

#[test]
fn a_failed_reload_restores_sets_and_counters() {
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
    // It fails once, and succeeds during the rollback.
    let failed = world.path("failed");
    let once = format!("[ -e {0} ] || {{ : >{0}; exit 4; }}", failed.display());
    let once = Stub::of(RESTORE).instead(" -c ", &once).write(&world, "once");
    let ended = run_with(&world, "ipset/load.sh", &[("IPTABLES_RESTORE", &once)]);
    assert_eq!(ended.status, Some(1), "{}", ended.said);
    assert!(ended.said.contains("all changes were undone"), "{}", ended.said);
    assert!(counted(), "{}", world.tool(&["ipset", "save", &set], ""));
}

/// Programs of coreutils, findutils, diffutils and their like. Other words at the beginning of a
/// command are built into the shell or part of a message.
const PROGRAMS: &str = "awk basename cat cmp comm cp cut date dd diff dirname du env expr find \
    flock fold grep head id install join ln ls mkdir mkfifo mv nl od paste perl ps readlink \
    realpath rm rmdir sed seq sha256sum shuf sleep sort stat sync tac tail tee \
    timeout touch tr uniq wc xargs";

#[test]
fn scripts_change_nothing_if_any_tool_is_missing() {
    let Some(world) = World::new("no-tool") else { return };
    world.load_bare();
    let path = std::env::var_os("PATH").expect("a path");
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let find = |tool: &str| folders.iter().map(|f| f.join(tool)).find(|p| p.is_file());
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    let all: Vec<_> = tools().into_iter().chain(["sh".to_owned()]).collect();
    for tool in &all {
        symlink(find(tool).expect("it is there"), bin.join(tool)).unwrap();
    }
    let run = |line: &str| {
        let mut command = world.command("/bin/sh");
        command.args(world.words(line)).env("PATH", &bin);
        Ended::of(&command.output().expect("sh runs"))
    };
    let mut tried = 0;
    for (before, line, after) in
        [("", "ipset/load.sh", "ipset/unload.sh"), ("ipset/load.sh", "ipset/unload.sh", "")]
    {
        if !before.is_empty() {
            world.done(before);
        }
        let in_force = world.snapshot();
        for tool in all.iter().filter(|t| PROGRAMS.split(' ').any(|p| p == **t)) {
            let link = bin.join(tool);
            let target = fs::read_link(&link).unwrap();
            fs::remove_file(&link).unwrap();
            let ended = run(line);
            let told = ended.said.contains(&format!("needs {tool}, which is not installed"));
            assert!(told, "{line} without {tool}: {}", ended.said);
            assert_eq!(ended.status, Some(1), "{line} without {tool}");
            assert_eq!(world.snapshot(), in_force, "{line} without {tool}");
            symlink(target, link).unwrap();
            tried += 1;
        }
        let ended = run(line);
        assert!(ended.is_done(), "with all of them: {}", ended.said);
        if !after.is_empty() {
            world.done(after);
        }
    }
    println!("{tried} runs without a tool");
    assert!(tried > 30, "{tried}");
}
