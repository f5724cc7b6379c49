//! Decides whether a trial counts.

use weir_stats::{Trial, TrialState};

use crate::observe::drop_reasons::NETFILTER_DROP_REASON;
use weir_study::NoiseLimits;

/// What is forgiven of the packets of a trial.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeakAndMiscountTolerance {
    /// Packets that a limit accepts of those that must be dropped.
    pub(crate) max_leaked: u64,
    /// Several cores counted losses at once, so that some of their counts are lost.
    pub(crate) has_racy_counters: bool,
}

impl LeakAndMiscountTolerance {
    /// Packets that may be in no counter: none without losses that were counted.
    fn max_uncounted_packets(self, trial: &Trial) -> i64 {
        let is_lossy = self.has_racy_counters && packets_dropped_by(trial, "device") > 0;
        if is_lossy { (trial.offered / 1000) as i64 } else { 0 }
    }
}

/// Checks the packet counts of a trial: all packets are accounted for, none passed that had to be
/// dropped, and the rules dropped none that had to pass. The new state and its reason if not.
pub(crate) fn judge_packet_counts(
    trial: &Trial,
    tolerance: LeakAndMiscountTolerance,
) -> Option<(TrialState, String)> {
    if trial.leaked > tolerance.max_leaked {
        let why = format!("{} packets arrived that the ruleset drops", trial.leaked);
        return Some((TrialState::Failed, why));
    }
    let by_rules: u64 = trial
        .drop_counts
        .iter()
        .filter(|drop| drop.counter == "rules")
        .map(|drop| drop.packets)
        .sum();
    if by_rules > trial.expected_drops {
        let why = format!(
            "the rules dropped {} packets, but {} had to be dropped",
            by_rules, trial.expected_drops
        );
        return Some((TrialState::Failed, why));
    }
    if trial.delivered == 0 && trial.offered > trial.expected_drops {
        return Some((TrialState::Failed, "nothing arrived".to_owned()));
    }
    judge_packet_balance(trial, tolerance)
}

/// Whether every packet is in one of the counters.
pub(crate) fn judge_packet_balance(
    trial: &Trial,
    tolerance: LeakAndMiscountTolerance,
) -> Option<(TrialState, String)> {
    match trial.unaccounted_packets() {
        0 => None,
        missing if (1..=tolerance.max_uncounted_packets(trial)).contains(&missing) => None,
        missing => {
            let why = format!("{missing} of {} packets are in no counter", trial.offered);
            Some((TrialState::Unbalanced, why))
        }
    }
}

/// What a validation trial says: the rules' own counters and the kernel's reasons agree.
pub(crate) fn judge_rule_drops_against_kernel(trial: &Trial) -> Option<(TrialState, String)> {
    let by_rules = packets_dropped_by(trial, "rules");
    let by_kernel = packets_dropped_by(trial, &format!("skb: {NETFILTER_DROP_REASON}"));
    (by_rules != by_kernel).then(|| {
        let why = format!("the rules counted {by_rules} drops, the kernel {by_kernel}");
        (TrialState::Unbalanced, why)
    })
}

/// What the connections of a trial show in addition to its packets.
pub(crate) fn judge_connection_integrity(trial: &Trial) -> Option<(TrialState, String)> {
    let connections = trial.connection_counts()?;
    if connections.invalid_packets > 0 {
        let why = format!("{} packets arrived changed", connections.invalid_packets);
        return Some((TrialState::Failed, why));
    }
    if connections.completed == 0 {
        return Some((TrialState::Failed, "no connection was completed".to_owned()));
    }
    let twice = connections.failed.iter().find(|failure| failure.connections < 0);
    twice.map(|failure| {
        (TrialState::Unbalanced, format!("more {} arrived than were sent", failure.at))
    })
}

/// Frames sent during a probe must add up as usual, except for lost echoes, which are in the same
/// counters.
pub(crate) fn judge_probe_or_bulk_stream(trial: &Trial) -> Option<(TrialState, String)> {
    let (answered, lost) = match (trial.probe_result(), trial.bulk_tcp_stream_result()) {
        (Some(probe), _) => (probe.answered, probe.lost_requests()),
        (None, Some(stream)) => (stream.bytes, 0),
        (None, None) => (0, 0),
    };
    if answered == 0 {
        return Some((TrialState::Failed, "there were no replies".to_owned()));
    }
    let missing = trial.unaccounted_packets();
    (trial.offered > 0 && missing.unsigned_abs() > lost).then(|| {
        let why = format!("{missing} of {} packets are in no counter", trial.offered);
        (TrialState::Unbalanced, why)
    })
}

fn packets_dropped_by(trial: &Trial, counter: &str) -> u64 {
    let of_counter = trial.drop_counts.iter().filter(|drop| drop.counter == counter);
    of_counter.map(|drop| drop.packets).sum()
}

/// The verdict from the noise of a trial. Pressure counts only if the generator had no priority:
/// otherwise other tasks waited.
pub(crate) fn judge_noise(trial: &Trial, limits: &NoiseLimits, realtime: bool) -> Option<String> {
    let noise = &trial.noise;
    if noise.spin_ratio > limits.spin_ratio {
        return Some(format!("a fixed loop took {:.2} times its minimum", noise.spin_ratio));
    }
    if noise.steal > limits.steal {
        return Some(format!("{:.0} % of the time was stolen", noise.steal * 100.0));
    }
    if noise.generator_preemptions > limits.generator_preemptions {
        return Some(format!("the generator was preempted {} times", noise.generator_preemptions));
    }
    if !realtime && noise.psi > limits.psi {
        return Some(format!("tasks waited {:.0} % of the time", noise.psi * 100.0));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_stats::{DropCount, Scenario, TrialKind, TrialNoise};

    fn trial(offered: u64, delivered: u64, to_drop: u64, rules: u64, device: u64) -> Trial {
        let count = |counter: &str, packets| DropCount { counter: counter.to_owned(), packets };
        Trial {
            offered,
            delivered,
            expected_drops: to_drop,
            drop_counts: vec![count("rules", rules), count("device", device)],
            seconds: 1.0,
            correct_verdict_pps: 1.0,
            noise: TrialNoise { spin_ratio: 1.0, ..TrialNoise::default() },
            ..Trial::new(TrialKind::Rate, Scenario::default(), "s")
        }
    }

    fn state(trial: &Trial) -> Option<TrialState> {
        judge_packet_counts(trial, LeakAndMiscountTolerance::default()).map(|(state, _)| state)
    }

    #[test]
    fn racy_loss_counters_may_miss_a_few_packets() {
        let tolerance = LeakAndMiscountTolerance {
            has_racy_counters: true,
            ..LeakAndMiscountTolerance::default()
        };
        let state = |trial: &Trial| judge_packet_counts(trial, tolerance).map(|(state, _)| state);
        assert_eq!(state(&trial(10_000, 9_900, 0, 0, 90)), None, "10 of 10,000");
        assert_eq!(state(&trial(10_000, 9_900, 0, 0, 89)), Some(TrialState::Unbalanced));
        assert_eq!(
            state(&trial(10_000, 9_995, 0, 0, 0)),
            Some(TrialState::Unbalanced),
            "no losses"
        );
        assert_eq!(
            state(&trial(10_000, 9_900, 0, 0, 101)),
            Some(TrialState::Unbalanced),
            "too many"
        );
    }

    #[test]
    fn a_trial_is_unbalanced_unless_its_packets_add_up() {
        assert_eq!(state(&trial(100, 60, 30, 30, 10)), None);
        assert_eq!(state(&trial(100, 59, 30, 30, 10)), Some(TrialState::Unbalanced));
        assert_eq!(state(&trial(100, 61, 30, 30, 10)), Some(TrialState::Unbalanced));
    }

    #[test]
    fn a_wrong_verdict_fails_a_trial() {
        let mut leaking = trial(100, 70, 30, 20, 0);
        leaking.leaked = 10;
        assert_eq!(state(&leaking), Some(TrialState::Failed));
        let limit = |lets_through| LeakAndMiscountTolerance {
            max_leaked: lets_through,
            has_racy_counters: false,
        };
        assert_eq!(
            judge_packet_counts(&leaking, limit(10)),
            None,
            "leaks within the limit are accepted"
        );
        assert!(judge_packet_counts(&leaking, limit(9)).is_some());
        assert_eq!(state(&trial(100, 69, 30, 31, 0)), Some(TrialState::Failed));
        assert_eq!(state(&trial(100, 0, 0, 0, 100)), Some(TrialState::Failed));
    }

    #[test]
    fn rule_drops_without_matching_kernel_drop_reasons_are_unbalanced() {
        let mut trial = trial(100, 70, 30, 30, 0);
        assert_eq!(
            judge_rule_drops_against_kernel(&trial).map(|(state, _)| state),
            Some(TrialState::Unbalanced)
        );
        let counter = format!("skb: {NETFILTER_DROP_REASON}");
        trial.drop_counts.push(DropCount { counter, packets: 30 });
        assert_eq!(judge_rule_drops_against_kernel(&trial), None);
    }

    #[test]
    fn each_kind_of_noise_disturbs_a_trial() {
        let limits = NoiseLimits::default();
        let disturbed = |change: fn(&mut TrialNoise), realtime| {
            let mut trial = trial(1, 1, 0, 0, 0);
            change(&mut trial.noise);
            judge_noise(&trial, &limits, realtime).is_some()
        };
        assert!(!disturbed(|_| (), false));
        assert!(disturbed(|noise| noise.spin_ratio = 1.5, true));
        assert!(disturbed(|noise| noise.steal = 0.2, true));
        assert!(disturbed(|noise| noise.generator_preemptions = 1000, true));
        assert!(disturbed(|noise| noise.psi = 0.9, false));
        assert!(!disturbed(|noise| noise.psi = 0.9, true));
    }
}
