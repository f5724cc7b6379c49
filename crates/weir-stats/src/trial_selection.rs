//! Samples selected from trials.

use std::collections::BTreeMap;

use crate::estimate::{self, Estimate};
use crate::quantity::Quantity;
use crate::scenario::Scenario;
use crate::trial::{Trial, TrialState};

/// Which samples: a subject (and copy of it) at the points that `scenario` is a part of.
#[derive(Clone, Copy, Debug)]
pub struct TrialSelection<'a> {
    /// What is compared.
    pub quantity: Quantity,
    /// The subject.
    pub subject: &'a str,
    /// 0, or 1 for the second one of the A/A pair.
    pub copy_index: u32,
    /// The point, or a part of one.
    pub partial_scenario: &'a Scenario,
}

impl<'a> TrialSelection<'a> {
    /// The first copy of `subject` at `scenario`.
    pub fn of_first_copy(
        quantity: Quantity,
        subject: &'a str,
        scenario: &'a Scenario,
    ) -> TrialSelection<'a> {
        TrialSelection { quantity, subject, copy_index: 0, partial_scenario: scenario }
    }

    /// The accepted trials that it means.
    ///
    /// A trial of a load lies on fewer axes than one of packets (where packets come from makes
    /// no difference to it), so only the axes that both name are compared.
    pub fn matching_accepted_trials<'t>(
        &self,
        trials: &'t [Trial],
    ) -> impl Iterator<Item = &'t Trial> {
        let wanted = *self;
        let at_point = move |trial: &Trial| {
            wanted.partial_scenario.0.iter().all(|(axis, value)| {
                trial.scenario.coordinate(axis).is_none_or(|there| there == value)
            })
        };
        trials.iter().filter(move |trial| {
            trial.kind == wanted.quantity.trial_kind()
                && trial.state == TrialState::Accepted
                && trial.subject == wanted.subject
                && trial.copy_index == wanted.copy_index
                && at_point(trial)
        })
    }

    /// One value per block: the mean of its accepted trials, the two legs of ABBA as a rule.
    pub fn block_means(&self, trials: &[Trial]) -> BTreeMap<u32, f64> {
        let mut sums: BTreeMap<u32, (f64, u32)> = BTreeMap::new();
        for trial in self.matching_accepted_trials(trials) {
            if let Some(value) = self.quantity.value_in_trial(trial) {
                let sum = sums.entry(trial.block).or_default();
                *sum = (sum.0 + value, sum.1 + 1);
            }
        }
        sums.into_iter().map(|(block, (sum, count))| (block, sum / f64::from(count))).collect()
    }

    /// Median over blocks, with its interval.
    pub fn estimate_median_of_block_means(&self, trials: &[Trial]) -> Option<Estimate> {
        let values: Vec<f64> = self.block_means(trials).into_values().collect();
        estimate::estimate_median(&values)
    }
}

/// Ratio of two selections: median over the blocks that hold both, with its interval.
pub fn estimate_block_paired_ratio(
    first: TrialSelection<'_>,
    second: TrialSelection<'_>,
    trials: &[Trial],
) -> Option<Estimate> {
    let seconds = second.block_means(trials);
    let pairs: Vec<(f64, f64)> = first
        .block_means(trials)
        .into_iter()
        .filter_map(|(block, value)| Some((value, *seconds.get(&block)?)))
        .collect();
    estimate::estimate_median_of_pair_ratios(&pairs)
}

/// What a step adds: the difference of two selections over the `steps` between them, median over
/// the blocks that hold both, with its interval.
pub fn estimate_difference_per_step(
    from: TrialSelection<'_>,
    to: TrialSelection<'_>,
    steps: f64,
    trials: &[Trial],
) -> Option<Estimate> {
    let starts = from.block_means(trials);
    let slopes: Vec<f64> = to
        .block_means(trials)
        .into_iter()
        .filter_map(|(block, value)| Some((value - starts.get(&block)?) / steps))
        .collect();
    estimate::estimate_median(&slopes)
}

/// What was measured of a second copy of a subject, and where.
pub fn list_second_copy_quantity_scenarios(trials: &[Trial]) -> Vec<(Quantity, &Scenario)> {
    let mut places: Vec<(Quantity, &Scenario)> = trials
        .iter()
        .filter(|trial| trial.copy_index == 1)
        .filter_map(|trial| Some((Quantity::primary_of_trial_kind(trial.kind)?, &trial.scenario)))
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// The two copies of a subject at one place: block, second copy and first.
pub fn pair_second_and_first_by_block(
    trials: &[Trial],
    subject: &str,
    (quantity, scenario): (Quantity, &Scenario),
) -> Vec<(u32, f64, f64)> {
    let first = TrialSelection::of_first_copy(quantity, subject, scenario);
    let firsts = first.block_means(trials);
    let seconds = (TrialSelection { copy_index: 1, ..first }).block_means(trials);
    let pair = |(block, second): (u32, f64)| Some((block, second, *firsts.get(&block)?));
    seconds.into_iter().filter_map(pair).collect()
}

/// Ratio of the second copy of `subject` to its first, over all points and blocks: the noise
/// floor.
pub fn estimate_noise_floor(trials: &[Trial], subject: &str) -> Option<Estimate> {
    let of_place = |place| pair_second_and_first_by_block(trials, subject, place);
    let pairs: Vec<(f64, f64)> = list_second_copy_quantity_scenarios(trials)
        .into_iter()
        .flat_map(of_place)
        .map(|(_, second, first)| (second, first))
        .collect();
    estimate::estimate_median_of_pair_ratios(&pairs)
}

/// Median over trials of the share of time for which tasks waited for a processor; `None` without
/// trials that say it.
pub fn median_cpu_pressure_time_share<'a>(trials: impl Iterator<Item = &'a Trial>) -> Option<f64> {
    let waits: Vec<f64> =
        trials.map(|trial| trial.noise.psi).filter(|psi| psi.is_finite()).collect();
    estimate::median(&waits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_counts::{ConnectionClose, ConnectionCounts};
    use crate::trial::TrialKind;
    use crate::trial::TrialResults;
    use crate::trial::tests::trial;

    fn rate(subject: &str, rules: u64, block: u32, pps: f64) -> Trial {
        let scenario =
            Scenario::default().with_coordinate("rules", rules).with_coordinate("source", "near");
        Trial {
            subject: subject.to_owned(),
            scenario,
            block,
            correct_verdict_pps: pps,
            ..trial(1, 1, &[])
        }
    }

    #[test]
    fn ratios_are_computed_within_blocks() {
        let trials = [
            rate("ipset", 16, 0, 100.0),
            rate("ipset", 16, 0, 300.0),
            rate("ipset", 1024, 0, 100.0),
            rate("ipset", 16, 1, 20.0),
            rate("ipset", 1024, 1, 10.0),
            rate("ipset", 1024, 2, 7.0),
        ];
        let (few, many) = (
            Scenario::default().with_coordinate("rules", 16),
            Scenario::default().with_coordinate("rules", 1024),
        );
        let first = TrialSelection::of_first_copy(Quantity::Pps, "ipset", &many);
        let second = TrialSelection::of_first_copy(Quantity::Pps, "ipset", &few);
        let ratio = estimate_block_paired_ratio(first, second, &trials).unwrap();
        assert_eq!((ratio.value, ratio.samples), (0.5, 2));
    }

    #[test]
    fn slopes_are_computed_within_blocks() {
        let trials = [
            rate("linear", 16, 0, 1e9),
            rate("linear", 48, 0, 0.1e9),
            rate("linear", 16, 1, 0.5e9),
            rate("linear", 48, 1, 0.1e9),
            rate("linear", 48, 2, 1e9),
        ];
        let (few, many) = (
            Scenario::default().with_coordinate("rules", 16),
            Scenario::default().with_coordinate("rules", 48),
        );
        let from = TrialSelection::of_first_copy(Quantity::NsPerPacket, "linear", &few);
        let to = TrialSelection::of_first_copy(Quantity::NsPerPacket, "linear", &many);
        // (10 - 1) and (10 - 2) nanoseconds over 32 rules.
        let slope = estimate_difference_per_step(from, to, 32.0, &trials).unwrap();
        assert_eq!((slope.value, slope.samples), (8.5 / 32.0, 2));
    }

    #[test]
    fn rejected_trials_are_excluded() {
        let mut trials = vec![rate("nft", 16, 0, 100.0), rate("nft", 16, 0, 1.0)];
        trials[1].state = TrialState::Disturbed;
        let point = Scenario::default().with_coordinate("rules", 16);
        let selection = TrialSelection::of_first_copy(Quantity::Pps, "nft", &point);
        assert_eq!(selection.block_means(&trials), BTreeMap::from([(0, 100.0)]));
        trials[1].state = TrialState::Accepted;
        assert_eq!(selection.block_means(&trials), BTreeMap::from([(0, 50.5)]));
    }

    #[test]
    fn load_trials_are_selected_by_their_fewer_axes() {
        let mut load = rate("nft", 16, 0, 0.0);
        load.kind = TrialKind::Load;
        load.scenario = Scenario::default().with_coordinate("rules", 16);
        load.seconds = 0.5;
        let point =
            Scenario::default().with_coordinate("rules", 16).with_coordinate("source", "far");
        let selection = TrialSelection::of_first_copy(Quantity::LoadSeconds, "nft", &point);
        assert_eq!(selection.estimate_median_of_block_means(&[load]).unwrap().value, 0.5);
    }

    #[test]
    fn the_noise_floor_pairs_the_copies() {
        let mut trials = vec![rate("none", 0, 0, 100.0), rate("none", 0, 0, 101.0)];
        trials[1].copy_index = 1;
        assert_eq!(estimate_noise_floor(&trials, "none").unwrap().value, 1.01);
        assert_eq!(estimate_noise_floor(&trials[..1], "none"), None);
    }

    /// A trial of connections in which `completed` were.
    fn connecting(copy: u32, block: u32, completed: u64) -> Trial {
        let connections = ConnectionCounts {
            started: completed,
            completed,
            ..ConnectionCounts::empty(ConnectionClose::Fin)
        };
        let kind = TrialKind::Connections;
        let subject = "tracked".to_owned();
        Trial {
            kind,
            subject,
            copy_index: copy,
            block,
            results: TrialResults::Connections(Box::new(connections)),
            ..trial(1, 1, &[])
        }
    }

    #[test]
    fn connections_have_a_noise_floor_too() {
        let trials: Vec<Trial> = (0..3)
            .flat_map(|block| [connecting(0, block, 1000), connecting(1, block, 1100)])
            .collect();
        let floor = estimate_noise_floor(&trials, "tracked").unwrap();
        assert!((floor.value - 1.1).abs() < 1e-9 && floor.samples == 3, "{floor:?}");
        let alone: Vec<Trial> = trials.into_iter().filter(|trial| trial.copy_index == 0).collect();
        assert!(estimate_noise_floor(&alone, "tracked").is_none(), "one copy has no floor");
    }
}
