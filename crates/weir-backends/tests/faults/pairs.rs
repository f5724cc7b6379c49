//! Two concurrent scripts: one does its work, the other names it and does nothing.

use std::fs::File;
use std::io::Write as _;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use weir_testkit::random_ruleset::TestRng;

use crate::number;
use crate::world::{Ended, World};

/// What a broken lock would make wait forever.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs two lines at the same time; the one that has the lock waits until the other has ended.
/// Which of them that was, its process, and both ends, the loser's first.
fn race(world: &World, lines: [&str; 2]) -> (usize, [Ended; 2]) {
    let gate = world.path("gate");
    if !gate.exists() {
        let made = world.command("mkfifo").arg(&gate).status().expect("mkfifo runs");
        assert!(made.success());
    }
    // Open for both, so that nobody waits for somebody to open the other end.
    let mut opened = File::options().read(true).write(true).open(&gate).expect("the gate opens");
    let (sender, ends) = channel();
    let mut processes = [0, 0];
    thread::scope(|scope| {
        let (started, ids) = channel();
        for (number, line) in lines.into_iter().enumerate() {
            let mut command = world.faulty("sh", &format!("count-{number}"));
            command.env("FAULT_GATE", &gate).args(world.words(line));
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            let (sender, started) = (sender.clone(), started.clone());
            // A process ends with the thread that started it, so that this one waits for it.
            scope.spawn(move || {
                let child = command.spawn().expect("sh runs");
                started.send((number, child.id())).expect("somebody counts");
                let out = child.wait_with_output().expect("it ends");
                sender.send((number, Ended::of(&out))).expect("somebody waits");
            });
        }
        for (number, id) in ids.iter().take(2) {
            processes[number] = id;
        }
        let loser = ends.recv_timeout(LIMIT);
        opened.write_all(b"go\ngo\n").expect("the gate is opened");
        let (loser, end) = loser.expect("one of two is refused at once");
        let (winner, other) = ends.recv_timeout(LIMIT).expect("the other ends");
        assert!(!end.is_done(), "{lines:?}: both were done: {}", end.said);
        let holder = format!("process {} (sh ", processes[winner]);
        assert!(end.said.contains(&holder), "{holder} is not named: {}", end.said);
        assert!(end.said.contains("nothing was changed"), "{}", end.said);
        let _ = loser;
        (winner, [end, other])
    })
}

#[test]
fn of_two_concurrent_scripts_one_succeeds_and_is_named() {
    let Some(world) = World::new("pairs") else { return };
    world.load_bare();
    let bare = world.snapshot();
    let mut rng = TestRng::new(number("WEIR_SEED", 1));
    let pairs = number("WEIR_PAIRS", 5);
    let mut won = [0, 0];
    for _ in 0..pairs {
        let (a, b) = (rng.pick(&world.names), rng.pick(&world.names));
        let load = |name: &str| format!("{name}/load.sh");
        let unload = |name: &str| format!("{name}/unload.sh");
        // Half of the pairs begin with `a` loaded.
        let is_loaded = rng.chance_percent(50);
        let lines = match (is_loaded, rng.number_below(3)) {
            (false, _) => [load(a), load(b)],
            (true, 0) => [load(b), unload(a)],
            (true, 1) => [unload(a), unload(a)],
            (true, _) => [unload(a), load(a)],
        };
        let mut expected = Vec::new();
        for line in &lines {
            if is_loaded {
                world.done(&load(a));
            }
            world.done(line);
            expected.push(world.snapshot());
            world.unload_all();
        }
        if is_loaded {
            world.done(&load(a));
        }
        let (winner, [_, end]) = race(&world, [&lines[0], &lines[1]]);
        assert!(end.is_done(), "{lines:?}: {}", end.said);
        assert_eq!(world.snapshot(), expected[winner], "{lines:?}");
        won[winner] += 1;
        world.unload_all();
        assert_eq!(world.snapshot(), bare, "{lines:?}");
    }
    println!("{pairs} pairs: the first won {} times, the second {} times", won[0], won[1]);
    assert_eq!(won[0] + won[1], pairs);
}

#[test]
fn a_killed_lock_holder_releases_the_lock() {
    let Some(world) = World::new("holder") else { return };
    world.load_bare();
    let gate = world.path("gate");
    assert!(world.command("mkfifo").arg(&gate).status().expect("mkfifo runs").success());
    let _open = File::options().read(true).write(true).open(&gate).expect("the gate opens");
    let mut command = world.faulty("timeout", "count");
    command
        .env("FAULT_GATE", &gate)
        .args(["-s", "KILL", "1", "sh"])
        .args(world.words("tree/load.sh"));
    let ended = Ended::of(&command.output().expect("timeout runs"));
    assert_ne!(ended.status, Some(0), "it waits for ever: {}", ended.said);
    assert!(world.path("count").exists(), "it had the lock");
    world.done("tree/load.sh");
}

#[test]
fn scripts_with_another_state_folder_share_the_lock() {
    let Some(world) = World::new("elsewhere") else { return };
    world.load_bare();
    let held = "exec 9</proc/self/ns/net; flock -n 9 || exit 9
        (exec 9<&-; WEIR_STATE=$2 sh \"$1\")";
    let run = |held: &str| {
        let mut command = world.command("sh");
        command.args(["-c", held, "sh"]).arg(world.path("tree/load.sh")).arg(world.path("other"));
        Ended::of(&command.output().expect("sh runs"))
    };
    let refused = run(held);
    assert!(!refused.is_done() && refused.said.contains("(sh -c "), "{}", refused.said);
    let alone = run(&held.replace("flock -n 9", "true"));
    assert!(alone.is_done(), "{}", alone.said);
}
