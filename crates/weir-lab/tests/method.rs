//! The method on a simulated link: how well the order of trials and the estimates work.
//!
//! The machine slows down during the measurement, and occasionally other processes take a share of
//! it. No clock, no kernel: the "trials" are numbers from a seed.

use weir_random::Rng;
use weir_stats::trial_selection::{TrialSelection, estimate_block_paired_ratio};
use weir_stats::{Estimate, Quantity, RatioDifference, Scenario, Trial, TrialKind};
use weir_study::trial_plan::plan_abba_block;
use weir_study::{PlannedTrial, SubjectCopy};

const BLOCKS: u32 = 9;

/// A machine whose speed falls by a third over a run, with bursts of a neighbour in it.
struct Machine {
    random: Rng,
    speed: f64,
    fall: f64,
}

impl Machine {
    fn new(seed: u64, trials: usize) -> Machine {
        Machine { random: Rng::new(seed), speed: 1.0, fall: 1.0 / 3.0 / trials as f64 }
    }

    /// Packets a second of a firewall that forwards `true_pps` on a quiet machine.
    fn measure(&mut self, true_pps: f64) -> f64 {
        self.speed -= self.fall;
        let jitter = 1.0 + (self.random.below(2001) as f64 - 1000.0) / 1e5;
        let burst = if self.random.below(12) == 0 { 0.5 } else { 1.0 };
        true_pps * self.speed * jitter * burst
    }
}

fn variants() -> Vec<SubjectCopy> {
    ["one", "two", "same"]
        .map(|name| SubjectCopy { subject: name.to_owned(), copy_index: 0 })
        .to_vec()
}

/// "two" forwards 5 % less than "one"; "same" as much as "one".
fn true_pps(subject: &str) -> f64 {
    if subject == "two" { 950_000.0 } else { 1_000_000.0 }
}

fn run(steps: &[PlannedTrial], seed: u64) -> Vec<Trial> {
    let mut machine = Machine::new(seed, steps.len());
    steps
        .iter()
        .map(|step| trial(step, machine.measure(true_pps(&step.subject_copy.subject))))
        .collect()
}

fn trial(step: &PlannedTrial, pps: f64) -> Trial {
    Trial {
        block: step.block,
        order_in_block: step.order_in_block,
        abba_leg: step.abba_leg,
        offered: 1,
        delivered: 1,
        seconds: 1.0,
        correct_verdict_pps: pps,
        ..Trial::new(TrialKind::Rate, step.scenario.clone(), &step.subject_copy.subject)
    }
}

fn interleaved(seed: u64) -> Vec<PlannedTrial> {
    let point = [Scenario::default().with_coordinate("rules", 16)];
    (0..BLOCKS).flat_map(|number| plan_abba_block(&point, |_| variants(), number, seed)).collect()
}

/// The same trials, all of a subject before the next one begins.
fn one_after_another(seed: u64) -> Vec<PlannedTrial> {
    let mut steps = interleaved(seed);
    steps.sort_by(|a, b| a.subject_copy.subject.cmp(&b.subject_copy.subject));
    steps
}

fn estimate(steps: &[PlannedTrial], subject: &str, seed: u64) -> Estimate {
    let trials = run(steps, seed);
    let point = Scenario::default();
    let first = TrialSelection::of_first_copy(Quantity::Pps, subject, &point);
    let second = TrialSelection::of_first_copy(Quantity::Pps, "one", &point);
    estimate_block_paired_ratio(first, second, &trials).unwrap()
}

#[test]
fn interleaving_finds_a_small_difference_on_a_drifting_machine() {
    let near = (0..100)
        .filter(|seed| (estimate(&interleaved(*seed), "two", *seed).value - 0.95).abs() < 0.02)
        .count();
    assert!(near >= 90, "{near} of 100");
}

#[test]
fn identical_subjects_are_rarely_called_different() {
    let different = (0..100)
        .filter(|seed| {
            estimate(&interleaved(*seed), "same", *seed).classify_ratio_difference_beyond(0.02)
                != RatioDifference::None
        })
        .count();
    assert!(different <= 5, "{different} of 100");
}

#[test]
fn measuring_subjects_sequentially_is_shown_to_mislead() {
    let wrong = (0..100)
        .filter(|seed| {
            estimate(&one_after_another(*seed), "same", *seed)
                .classify_ratio_difference_beyond(0.02)
                != RatioDifference::None
        })
        .count();
    assert!(wrong >= 50, "{wrong} of 100: the drift alone makes a difference");
}
