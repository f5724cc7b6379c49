//! The environment of the scripts: standard streams, permissions, the lock.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Stdio;

use crate::stub::{RESTORE, Stub, run_with};
use crate::world::{Ended, World};

#[test]
fn closed_or_full_streams_do_not_change_the_exit_status() {
    let Some(world) = World::new("streams") else { return };
    world.load_bare();
    let bare = world.snapshot();
    world.done("ipset/load.sh");
    let loaded = world.snapshot();
    world.done("ipset/unload.sh");
    for how in ["", ">/dev/full", ">&-", "2>&-", "2>/dev/full", "<&-", "<&- >&- 2>&-", "| true"] {
        for (script, after) in [("load.sh", &loaded), ("unload.sh", &bare)] {
            let path = world.path("ipset").join(script);
            // The exit status of the script, not of the last command of a pipe.
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
fn without_root_unreadable_tables_are_not_treated_as_missing() {
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
fn a_second_signal_does_not_interrupt_the_rollback() {
    let Some(world) = World::new("signals") else { return };
    world.load_bare();
    let before = world.snapshot();
    // At the change, and again during the rollback.
    let calls = world.path("calls");
    let signal = format!("kill -s TERM $PPID; echo >>{}", calls.display());
    let stub = Stub::of(RESTORE).instead("-w 10 -c", &signal).write(&world, "impatient");
    let ended = run_with(&world, "nft/load.sh", &[("IPTABLES_RESTORE", &stub)]);
    assert!(fs::read_to_string(&calls).unwrap().lines().count() >= 2, "{}", ended.said);
    assert!(ended.said.contains("the old ruleset is in force"), "{}", ended.said);
    assert_eq!((ended.status, world.snapshot()), (Some(143), before));
    world.done("nft/load.sh");
}

#[test]
fn a_missing_proc_is_named() {
    let Some(world) = World::new("no-proc") else { return };
    let mut command = world.command("unshare");
    let line = format!("umount -l /proc && exec sh {}", world.path("linear/load.sh").display());
    command.args(["--mount", "sh", "-c", &line]);
    let ended = Ended::of(&command.output().expect("unshare runs"));
    assert!(ended.said.contains("mount /proc"), "{}", ended.said);
    assert_eq!(ended.status, Some(1));
}

#[test]
fn inherited_shell_options_do_not_change_the_result() {
    let Some(world) = World::new("shell-options") else { return };
    world.load_bare();
    // A list of tables longer than a pipe buffer, starting with one that is refused.
    let mut tables =
        "table ip filter { chain c { type filter hook input priority 0; policy drop; }; }\n"
            .to_owned();
    for i in 0..6000 {
        tables.push_str(&format!("table ip a_table_of_somebody_else_{i} {{ }}\n"));
    }
    world.tool(&["nft", "-f", "-"], &tables);
    let before = world.snapshot();
    for options in ["errexit", "pipefail"] {
        let mut command = world.command("bash");
        command.args(world.words("linear/load.sh")).env("SHELLOPTS", options);
        let ended = Ended::of(&command.output().expect("bash runs"));
        assert!(ended.said.contains("has rules in force"), "{options}: {}", ended.said);
        assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()), "{options}");
    }
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
    world.done("linear/unload.sh");

    // Any user may open the namespace file.
    let mut command = world.command("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c"]);
    command.arg("exec 7</proc/self/ns/net; flock 7 && echo held && exec sleep 600");
    let mut holder = command.stdout(Stdio::piped()).spawn().expect("setpriv runs");
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ended = world.script("linear/load.sh");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(ended.said.contains("of user 65534"), "{}", ended.said);
    assert!(ended.said.contains("end it"), "{}", ended.said);
}
