//! The order in which rules are added and removed.

use std::fs;
use std::process::Output;

use weir_backends::{CompileOptions, CompiledForm, compile, write_artefact};
use weir_model::Firewall;
use weir_syntax::iptables::{self, ParserSettings};

use crate::world::World;

/// Whether what is in force drops a forwarded packet that no rule accepts.
fn is_guarded(snapshot: &str) -> bool {
    let by_nft = |line: &str| line.contains("hook forward") && line.contains("policy drop");
    let legacy = snapshot.split("*filter").nth(1);
    // The first table is that of IPv4.
    legacy.is_some_and(|t| t.split("COMMIT").next().is_some_and(|t| t.contains(":FORWARD DROP")))
        || nft_filter(snapshot).is_some_and(|t| t.lines().any(by_nft))
}

fn nft_filter(snapshot: &str) -> Option<&str> {
    let from = snapshot.find("table ip weir_")?;
    Some(&snapshot[from..])
}

/// Kills a line after the call of that number, of tools that change rules.
fn kill_after_change(world: &World, line: &str, at: usize) -> Output {
    let mut command = world.faulty("sh", "count");
    command.env("FAULT_AT", at.to_string()).env("FAULT_WHEN", "after");
    command.env("FAULT_ONLY", "changes");
    command.args(world.words(line)).output().expect("sh runs")
}

/// Kills a line after each call of a tool that changes rules; what is in force then.
fn after_each_change(world: &World, before: &[&str], line: &str) -> Vec<String> {
    let prepare = || before.iter().for_each(|name| world.done(&format!("{name}/load.sh")));
    let run = |at| kill_after_change(world, line, at);
    prepare();
    let out = run(0);
    assert!(out.status.success(), "{line} over {before:?}: {out:?}");
    world.unload_all();
    let calls = fs::read_to_string(world.path("count")).expect("the calls").lines().count();
    let mut seen = Vec::new();
    for at in 1..=calls {
        prepare();
        let out = run(at);
        assert!(!out.status.success(), "it was killed: {out:?}");
        seen.push(world.snapshot());
        world.unload_all();
    }
    seen
}

#[test]
fn new_rules_take_effect_before_old_rules_are_removed() {
    let Some(world) = World::new("order") else { return };
    assert!(!is_guarded(&world.snapshot()), "without rules nothing is guarded");
    world.load_bare();
    assert!(is_guarded(&world.snapshot()));
    let mut states = 0;
    for (below, above) in [("nft", "tree"), ("nft-kept-forward", "nft-kept-input")] {
        for (before, line) in [
            (vec![below], format!("{above}/load.sh")),
            (vec![below, above], format!("{above}/unload.sh")),
        ] {
            for state in after_each_change(&world, &before, &line) {
                assert!(is_guarded(&state), "{line} over {before:?} opens the host:\n{state}");
                states += 1;
            }
        }
    }
    println!("{states} states between, all guarded");
    assert!(states > 10, "{states}");
}

#[test]
fn an_interrupted_rollback_is_completed_by_the_next_unload() {
    let Some(world) = World::new("undo") else { return };
    world.load_bare();
    let bare = world.snapshot();
    for (below, above) in [("nft", "ipset"), ("nft-kept-forward", "nft-kept-input")] {
        world.done(&format!("{below}/load.sh"));
        let old = world.snapshot();
        let load = format!("{above}/load.sh");
        let unload = format!("{above}/unload.sh");
        let mut interrupted = 0;
        for at in 1.. {
            assert!(at < 50, "{unload} over {below} never ends");
            // Old and new are both in force.
            assert!(!kill_after_change(&world, &load, 1).status.success());
            if kill_after_change(&world, &unload, at).status.success() {
                break;
            }
            interrupted += 1;
            world.script(&unload);
            assert_eq!(world.snapshot(), old, "{unload} over {below} killed after change {at}");
        }
        assert!(interrupted > 3, "{interrupted}");
        assert_eq!(world.snapshot(), old);
        world.unload_all();
        assert_eq!(world.snapshot(), bare);
    }
}

#[test]
fn load_refuses_an_artefact_without_a_loaded_nft_family() {
    let Some(world) = World::new("family") else { return };
    world.load_bare();
    let bare = world.snapshot();
    let v4 = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        -A INPUT -s 192.0.2.1/32 -j ACCEPT\nCOMMIT\n";
    let v4 = iptables::parse(v4, &ParserSettings::default()).expect("rules");
    let firewall = Firewall { v4: Some(v4), v6: None, sets: Vec::new() };
    let options = CompileOptions { check_packets_per_family: 200, ..Default::default() };
    world.done("nft/load.sh");
    let loaded = world.snapshot();
    let tables = world.tool(&["nft", "list", "tables"], "");
    assert!(tables.contains("table ip6 weir_filter"), "{tables}");
    for form in [CompiledForm::Linear, CompiledForm::Nft] {
        let made = compile(&firewall, form, &options, &mut |_, _| {}).expect("it compiles");
        let name = format!("{form}-v4");
        write_artefact(&made, &world.path(&name)).expect("it is written");
        for options in ["", " --check"] {
            let ended = world.script(&format!("{name}/load.sh{options}"));
            let cure = format!("first: sh {}", world.path("nft/unload.sh").display());
            assert!(ended.said.contains(&cure), "{form}: {}", ended.said);
            assert_eq!((ended.status, world.snapshot()), (Some(1), loaded.clone()), "{form}");
        }
    }
    world.done("nft/unload.sh");
    for name in ["linear-v4", "nft-v4"] {
        world.done(&format!("{name}/load.sh"));
        world.done("nft/load.sh");
        world.done("nft/unload.sh");
        world.done(&format!("{name}/unload.sh"));
        assert_eq!(world.snapshot(), bare, "{name}");
    }
}
