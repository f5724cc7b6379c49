//! Runs all commands on many adversarial rulesets, and prints which used most of their budgets.
//!
//! ```sh
//! cargo run --release -p weir-backends --example adversarial -- seeds 0 10000
//! cargo run --release -p weir-backends --example adversarial -- shape LimitedLogs 200 200
//! ```
//!
//! `seeds FIRST COUNT [SIZE [STEPS]]` runs seeds; the exit status is 1 if a budget was exceeded by
//! more than a fifth. `shape NAME SIZE [STEPS_IN_MILLIONS]` runs one shape and prints each command.

#[path = "../tests/adversarial/mod.rs"]
mod adversarial;

use std::process::ExitCode;

use weir_testkit::adversarial_ruleset::{
    AdversarialShape, generate_adversarial_ruleset, generate_adversarial_shape,
};

use self::adversarial::{CommandBudget, UsedBudget, use_budgets};

const USAGE: &str = "usage: seeds FIRST COUNT [SIZE [STEPS]], or shape NAME SIZE [MILLIONS]";

#[expect(clippy::print_stdout, reason = "this is a program")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u64| {
        words.get(at).map_or(usual, |word| word.parse().unwrap_or_else(|_| panic!("{USAGE}")))
    };
    match words.first().map(String::as_str) {
        Some("seeds") => report_worst_budgets_of_seeds(
            number(1, 0),
            number(2, 100),
            number(3, 150),
            number(4, 300_000),
        ),
        Some("shape") => {
            let shape = AdversarialShape::ALL.into_iter().find(|s| format!("{s:?}") == words[1]);
            let Some(shape) = shape else { panic!("{:?}", AdversarialShape::ALL) };
            let steps = number(3, 200) * 1_000_000;
            let budget = CommandBudget { steps, memory_bytes: 2 << 30, packets: 20_000 };
            let ruleset = generate_adversarial_shape(shape, number(2, 20) as usize);
            for used in use_budgets(&ruleset, 1, budget) {
                println!("{}", describe_used_budget(&used));
            }
            ExitCode::SUCCESS
        }
        _ => panic!("{USAGE}"),
    }
}

#[expect(clippy::print_stdout, reason = "this is a program")]
fn report_worst_budgets_of_seeds(first: u64, count: u64, size: u64, steps: u64) -> ExitCode {
    let budget = CommandBudget { steps, memory_bytes: 64 << 20, packets: 60 };
    let mut worst: [Option<(u64, UsedBudget)>; 3] = [None, None, None];
    let (mut commands, mut undecided, mut exceeded) = (0_u64, 0_u64, 0_u64);
    for seed in first..first + count {
        let ruleset = generate_adversarial_ruleset(seed, size as usize);
        for used in use_budgets(&ruleset, seed, budget) {
            commands += 1;
            undecided += u64::from(!used.is_decided);
            let is_exceeded = used.steps.unwrap_or(0) > steps + steps / 5
                || used.memory_bytes.unwrap_or(0) > budget.memory_bytes;
            if is_exceeded {
                exceeded += 1;
                println!(
                    "seed {seed} {:?} exceeds: {}",
                    ruleset.shapes,
                    describe_used_budget(&used)
                );
            }
            let keys = |used: &UsedBudget| {
                [
                    u128::from(used.steps.unwrap_or(0)),
                    used.memory_bytes.unwrap_or(0) as u128,
                    used.time.as_nanos(),
                ]
            };
            for (by, known) in worst.iter_mut().enumerate() {
                if known.as_ref().is_none_or(|(_, most)| keys(most)[by] < keys(&used)[by]) {
                    *known = Some((seed, used.clone()));
                }
            }
        }
    }
    println!("{count} seeds, {commands} commands, {undecided} undecided, {exceeded} exceeded");
    for (what, found) in ["steps", "memory", "time"].into_iter().zip(&worst) {
        if let Some((seed, used)) = found {
            println!("most {what}: seed {seed}, {}", describe_used_budget(used));
        }
    }
    if exceeded == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn describe_used_budget(used: &UsedBudget) -> String {
    let UsedBudget { command, steps, memory_bytes, is_decided, time } = used;
    let decided = if *is_decided { "decided" } else { "undecided" };
    let steps = steps.map_or("?".to_owned(), |steps| format!("{:.3}", steps as f64 / 1e6));
    let memory = memory_bytes.map_or("?".to_owned(), |bytes| (bytes >> 20).to_string());
    format!(
        "{command}: {steps} million steps, {memory} MiB, {decided}, {:.2} s",
        time.as_secs_f64()
    )
}
