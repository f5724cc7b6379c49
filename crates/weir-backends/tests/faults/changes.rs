//! Changes from form to form while packets arrive.

use std::fs;

use weir_testkit::random_ruleset::TestRng;

use crate::number;
use crate::world::World;

/// Nanoseconds from the first change of rules to the last one, as the tools wrote them down.
fn span(log: &str) -> u64 {
    let times = log.lines().filter_map(|l| l.split(' ').nth(1)?.parse::<u64>().ok());
    let (mut first, mut last) = (u64::MAX, 0);
    for time in times {
        (first, last) = (first.min(time), last.max(time));
    }
    last.saturating_sub(first)
}

#[test]
fn changing_forms_neither_drops_allowed_nor_delivers_forbidden_packets() {
    let Some(world) = World::new("changes") else { return };
    let flows = world.flows(6);
    let bare = world.snapshot();
    let mut rng = TestRng::new(number("WEIR_SEED", 1));
    let changes = number("WEIR_CHANGES", 12);
    let mut stack: Vec<&str> = Vec::new();
    let mut spans = Vec::new();
    for _ in 0..changes {
        let unload = stack.len() == 5 || (!stack.is_empty() && rng.chance_percent(45));
        let line = match unload {
            true => format!("{}/unload.sh", stack.pop().expect("something is loaded")),
            false => {
                let name = rng.pick(&world.names);
                // Loading an artefact over itself adds no entry.
                if stack.last() != Some(&name) {
                    stack.push(name);
                }
                format!("{name}/load.sh")
            }
        };
        let log = world.path("log");
        fs::write(&log, "").expect("the log is written");
        let mut command = world.faulty("sh", "count");
        command.env("FAULT_LOG", &log).args(world.words(&line));
        let out = command.output().expect("sh runs");
        assert!(out.status.success(), "{line}: {out:?}");
        flows.wait_for_packets(5);
        spans.push((span(&fs::read_to_string(&log).expect("the log")), line));
    }
    let delivered = flows.delivered();
    spans.sort();
    let (longest, line) = spans.last().expect("something changed");
    println!("{changes} changes: {delivered:?}");
    println!(
        "from the first to the last change of rules: median {:.1} ms, longest {:.1} ms ({line})",
        spans[spans.len() / 2].0 as f64 / 1e6,
        *longest as f64 / 1e6,
    );
    assert!(delivered.allowed_sent > changes * 5, "{delivered:?}");
    assert_eq!(delivered.forbidden_received, 0, "packets met no ruleset: {delivered:?}");
    assert_eq!(delivered.allowed_lost, 0, "packets were lost: {delivered:?}");
    world.unload_all();
    assert_eq!(world.snapshot(), bare);
}

#[test]
fn nft_tables_replace_each_other_without_a_gap() {
    let Some(world) = World::new("gap") else { return };
    let flows = world.flows(200);
    // In one transaction, the kernel has a new chain without its policy for some microseconds.
    let times = number("WEIR_CHANGES", 12).div_ceil(2);
    for _ in 0..times {
        world.done("nft/load.sh");
        world.done("nft/load.sh");
        world.done("nft-kept-input/load.sh");
        world.done("nft-kept-input/unload.sh");
    }
    let delivered = flows.delivered();
    println!("{} replacements of nft tables: {delivered:?}", 4 * times - 1);
    assert!(delivered.forbidden_sent > 100, "{delivered:?}");
    assert_eq!(delivered.forbidden_received, 0, "packets met no ruleset: {delivered:?}");
    assert_eq!(delivered.allowed_lost, 0, "packets were lost: {delivered:?}");
    world.unload_all();
}
