//! What the process that calls the scripts gives them: its streams, its rights, the lock.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Stdio;

use crate::world::{Ended, World};

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
