//! Scripts that are killed at each of their commands, and what later runs do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use weir_testkit::random_ruleset::TestRng;

use crate::flows::Flows;
use crate::number;
use crate::world::{Ended, World};

/// A script that is killed: what is loaded before (`bare` is nothing of weir's), and the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    before: &'static str,
    artefact: &'static str,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Load,
    /// A load of the artefact that is loaded.
    Reload,
    Unload,
}

impl Case {
    fn line(self) -> String {
        match self.action {
            Action::Load | Action::Reload => format!("{}/load.sh", self.artefact),
            Action::Unload => format!("{}/unload.sh", self.artefact),
        }
    }
}

/// Where a script is killed.
#[derive(Clone, Copy, Debug)]
enum At {
    /// Before or after its call of a tool, counted from 1.
    Call(usize, &'static str),
    /// After so many thousandths of the time that it takes.
    Time(usize),
}

struct Kills<'w> {
    world: &'w World,
    rng: TestRng,
    /// Snapshots with artefacts loaded one over the other.
    clean: BTreeMap<Vec<&'static str>, String>,
    /// Calls of tools, and milliseconds, of each case.
    calls: BTreeMap<Case, (usize, usize)>,
    killed: u64,
    ended_before: u64,
    killed_again: u64,
    points: BTreeSet<(Case, usize)>,
}

const BARE: &str = "bare";

impl Kills<'_> {
    /// What is in force after clean loads.
    fn clean(&mut self, loaded: &[&'static str]) -> String {
        let loaded: Vec<_> = loaded.iter().copied().filter(|&n| n != BARE).collect();
        if let Some(text) = self.clean.get(&loaded) {
            return text.clone();
        }
        for name in &loaded {
            self.world.done(&format!("{name}/load.sh"));
        }
        let text = self.world.snapshot();
        self.world.unload_all();
        self.clean.insert(loaded, text.clone());
        text
    }

    /// Puts in force what a case begins with.
    fn prepare(&self, case: Case) {
        if case.before != BARE {
            self.world.done(&format!("{}/load.sh", case.before));
        }
        if case.action != Action::Load {
            self.world.done(&format!("{}/load.sh", case.artefact));
        }
    }

    /// How many tools a case calls, and how long it takes.
    fn calls(&mut self, case: Case) -> (usize, usize) {
        if let Some(&known) = self.calls.get(&case) {
            return known;
        }
        self.prepare(case);
        let start = std::time::Instant::now();
        let ended = self.run(&case.line(), At::Call(0, "before"));
        let millis = start.elapsed().as_millis() as usize;
        assert!(ended.is_done(), "{case:?}: {}", ended.said);
        let calls = fs::read_to_string(self.world.path("count")).expect("the calls are counted");
        self.world.unload_all();
        let known = (calls.lines().count(), millis);
        self.calls.insert(case, known);
        known
    }

    /// Runs a script that is killed.
    fn run(&self, line: &str, at: At) -> Ended {
        let words = self.world.words(line);
        let output = match at {
            At::Call(call, when) => {
                let mut command = self.world.faulty("sh", "count");
                command.env("FAULT_AT", call.to_string()).env("FAULT_WHEN", when);
                command.args(words).output()
            }
            At::Time(millis) => {
                let mut command = self.world.command("timeout");
                let time = format!("{}.{:03}", millis / 1000, millis % 1000);
                command.args(["-s", "KILL", &time, "sh"]).args(words).output()
            }
        };
        Ended::of(&output.expect("sh runs"))
    }

    fn some_point(&mut self, case: Case) -> At {
        let (calls, millis) = self.calls(case);
        match self.rng.chance_percent(75) {
            true => At::Call(1 + self.rng.number_below(calls), self.rng.pick(&["before", "after"])),
            false => At::Time(1 + self.rng.number_below(millis)),
        }
    }

    /// One kill and what follows it; `Err` says what was in force that must not have been.
    fn trial(&mut self, case: Case, at: At) -> Result<(), String> {
        let stack = [case.before, case.artefact];
        let old = self.clean(&stack[..1]);
        let new = self.clean(&stack);
        let point = match at {
            At::Call(call, _) => {
                self.points.insert((case, call));
                at
            }
            At::Time(_) => at,
        };
        self.prepare(case);
        let first = self.run(&case.line(), point);
        match first.status {
            None | Some(137) => self.killed += 1,
            _ => self.ended_before += 1,
        }
        let follow = match self.rng.number_below(2) {
            0 => Action::Load,
            _ => Action::Unload,
        };
        let next = Case { action: follow, ..case };
        if self.rng.chance_percent(25) {
            // What ends the interrupted change is killed, too.
            let again = self.some_point_of(next);
            self.run(&next.line(), again);
            self.killed_again += 1;
        }
        let last = self.world.script(&next.line());
        let in_force = self.world.snapshot();
        let told = format!(
            "{case:?} killed at {at:?} ({:?}: {}), then {}: {:?}: {}",
            first.status,
            first.said,
            next.line(),
            last.status,
            last.said
        );
        let expected = match follow {
            Action::Unload => &old,
            _ => &new,
        };
        if in_force != *expected {
            return Err(format!("{told}\nexpected:\n{expected}\nin force:\n{in_force}"));
        }
        if follow != Action::Unload && !last.is_done() {
            return Err(format!("{told}\nthe load failed"));
        }
        if follow != Action::Unload {
            self.world.done(&format!("{}/unload.sh", case.artefact));
            let back = self.world.snapshot();
            if back != old {
                return Err(format!("{told}\nand unloaded:\n{back}\nbut before:\n{old}"));
            }
        }
        self.world.unload_all();
        let bare = self.clean(&[]);
        let left = self.world.snapshot();
        if left != bare {
            return Err(format!("{told}\nall unloaded:\n{left}\nbut bare was:\n{bare}"));
        }
        Ok(())
    }

    /// A point of a script that follows a kill: about as long as the script alone.
    fn some_point_of(&mut self, case: Case) -> At {
        let calls = if case.action == Action::Load { 110 } else { 60 };
        At::Call(1 + self.rng.number_below(calls), self.rng.pick(&["before", "after"]))
    }
}

fn cases(world: &World) -> Vec<Case> {
    let mut cases = Vec::new();
    for &artefact in &world.names {
        for before in [BARE].into_iter().chain(world.names.iter().copied()) {
            if before == artefact {
                cases.push(Case { before: BARE, artefact, action: Action::Reload });
            } else {
                cases.push(Case { before, artefact, action: Action::Load });
                cases.push(Case { before, artefact, action: Action::Unload });
            }
        }
    }
    cases
}

/// Cases that together run every line of both scripts, killed at each call of a tool in turn.
const EVERY_CALL: [Case; 4] = [
    Case { before: "nft-kept-forward", artefact: "nft-kept-input", action: Action::Load },
    Case { before: "nft-kept-forward", artefact: "nft-kept-input", action: Action::Unload },
    Case { before: BARE, artefact: "ipset", action: Action::Reload },
    Case { before: "nft", artefact: "ipset", action: Action::Unload },
];

fn report(kills: &Kills<'_>, trials: u64, flows: &Flows) {
    let commands: usize = kills.calls.values().map(|(calls, _)| calls).sum();
    println!(
        "{trials} trials: {} kills, {} scripts ended before, {} second kills; {} of {commands} \
         commands of {} cases were kill points",
        kills.killed,
        kills.ended_before,
        kills.killed_again,
        kills.points.len(),
        kills.calls.len()
    );
    let delivered = flows.delivered();
    println!("{delivered:?}");
    assert_eq!(delivered.forbidden_received, 0, "packets met no ruleset: {delivered:?}");
    assert_eq!(delivered.allowed_lost, 0, "packets were lost: {delivered:?}");
}

#[test]
fn after_a_kill_the_next_script_recovers_old_or_new_ruleset() {
    let Some(world) = World::new("kills") else { return };
    let flows = world.flows(6);
    let seed = number("WEIR_SEED", 1);
    let wanted = number("WEIR_KILLS", 24);
    let mut kills = Kills {
        world: &world,
        rng: TestRng::new(seed),
        clean: BTreeMap::new(),
        calls: BTreeMap::new(),
        killed: 0,
        ended_before: 0,
        killed_again: 0,
        points: BTreeSet::new(),
    };
    let mut every = Vec::new();
    for case in EVERY_CALL {
        every.extend((1..=kills.calls(case).0).map(|call| (case, At::Call(call, "before"))));
    }
    // With few trials, take every n-th of these points, starting at one that depends on the seed.
    let stride = (every.len() as u64 / (wanted / 2).max(1)).max(1) as usize;
    let mut every = every.into_iter().skip(seed as usize % stride).step_by(stride);
    let all = cases(&world);
    let mut trials = 0;
    let mut wrong = Vec::new();
    while kills.killed < wanted {
        let (case, at) = match every.next() {
            Some(point) => point,
            None => {
                let case = kills.rng.pick(&all);
                (case, kills.some_point(case))
            }
        };
        trials += 1;
        if let Err(what) = kills.trial(case, at) {
            println!("WRONG: {what}");
            wrong.push(what);
            assert!(wrong.len() < 5, "seed {seed}: {}", wrong.join("\n"));
            world.unload_all();
        }
    }
    report(&kills, trials, &flows);
    assert!(wrong.is_empty(), "{} of {trials} trials, seed {seed}: {}", wrong.len(), wrong[0]);
}
