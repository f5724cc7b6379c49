//! Decides whether a trial counts.

use weir_stats::{State, Trial};

use crate::observe::drops::NETFILTER_DROP;
use weir_study::NoiseLimits;

/// What is forgiven of the packets of a trial.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tolerance {
    /// Packets that a limit accepts of those that must be dropped.
    pub(crate) lets_through: u64,
    /// Several cores counted losses at once, so that some of their counts are lost.
    pub(crate) many_cores: bool,
}

impl Tolerance {
    /// Packets that may be in no counter: none without losses that were counted.
    fn uncounted(self, trial: &Trial) -> i64 {
        let is_lossy = self.many_cores && dropped_by(trial, "device") > 0;
        if is_lossy { (trial.offered / 1000) as i64 } else { 0 }
    }
}

/// What the packets of a trial say: they add up, none passed that had to be dropped, and the
/// rules dropped none that had to pass.
pub(crate) fn of_packets(trial: &Trial, tolerance: Tolerance) -> Option<(State, String)> {
    if trial.leaked > tolerance.lets_through {
        let why = format!("{} packets arrived that the ruleset drops", trial.leaked);
        return Some((State::Failed, why));
    }
    let by_rules: u64 =
        trial.dropped.iter().filter(|drop| drop.counter == "rules").map(|drop| drop.packets).sum();
    if by_rules > trial.to_drop {
        let why = format!(
            "the rules dropped {} packets, but {} had to be dropped",
            by_rules, trial.to_drop
        );
        return Some((State::Failed, why));
    }
    if trial.delivered == 0 && trial.offered > trial.to_drop {
        return Some((State::Failed, "nothing arrived".to_owned()));
    }
    of_sum(trial, tolerance)
}

/// Whether every packet is in one of the counters.
pub(crate) fn of_sum(trial: &Trial, tolerance: Tolerance) -> Option<(State, String)> {
    match trial.missing() {
        0 => None,
        missing if (1..=tolerance.uncounted(trial)).contains(&missing) => None,
        missing => {
            let why = format!("{missing} of {} packets are in no counter", trial.offered);
            Some((State::Unbalanced, why))
        }
    }
}

/// What a validation trial says: the rules' own counters and the kernel's reasons agree.
pub(crate) fn of_reasons(trial: &Trial) -> Option<(State, String)> {
    let by_rules = dropped_by(trial, "rules");
    let by_kernel = dropped_by(trial, &format!("skb: {NETFILTER_DROP}"));
    (by_rules != by_kernel).then(|| {
        let why = format!("the rules counted {by_rules} drops, the kernel {by_kernel}");
        (State::Unbalanced, why)
    })
}

/// What the connections of a trial show in addition to its packets.
pub(crate) fn of_connections(trial: &Trial) -> Option<(State, String)> {
    let connections = trial.connections()?;
    if connections.invalid > 0 {
        let why = format!("{} packets arrived changed", connections.invalid);
        return Some((State::Failed, why));
    }
    if connections.completed == 0 {
        return Some((State::Failed, "no connection was completed".to_owned()));
    }
    let twice = connections.failed.iter().find(|failure| failure.connections < 0);
    twice.map(|failure| (State::Unbalanced, format!("more {} arrived than were sent", failure.at)))
}

/// Frames sent during a probe must add up as usual, except for lost echoes, which are in the same
/// counters.
pub(crate) fn of_probe(trial: &Trial) -> Option<(State, String)> {
    let (answered, lost) = match (trial.probe(), trial.stream()) {
        (Some(probe), _) => (probe.answered, probe.lost()),
        (None, Some(stream)) => (stream.bytes, 0),
        (None, None) => (0, 0),
    };
    if answered == 0 {
        return Some((State::Failed, "there were no replies".to_owned()));
    }
    let missing = trial.missing();
    (trial.offered > 0 && missing.unsigned_abs() > lost).then(|| {
        let why = format!("{missing} of {} packets are in no counter", trial.offered);
        (State::Unbalanced, why)
    })
}

fn dropped_by(trial: &Trial, counter: &str) -> u64 {
    let of_counter = trial.dropped.iter().filter(|drop| drop.counter == counter);
    of_counter.map(|drop| drop.packets).sum()
}

/// The verdict from the noise of a trial. Pressure counts only if the generator had no priority:
/// otherwise other tasks waited.
pub(crate) fn of_noise(trial: &Trial, limits: &NoiseLimits, realtime: bool) -> Option<String> {
    let noise = &trial.noise;
    if noise.spin_ratio > limits.spin_ratio {
        return Some(format!("a fixed loop took {:.2} times its minimum", noise.spin_ratio));
    }
    if noise.steal > limits.steal {
        return Some(format!("{:.0} % of the time was stolen", noise.steal * 100.0));
    }
    if noise.switches > limits.switches {
        return Some(format!("the generator was preempted {} times", noise.switches));
    }
    if !realtime && noise.psi > limits.psi {
        return Some(format!("tasks waited {:.0} % of the time", noise.psi * 100.0));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_stats::{DropCount, Noise, Scenario, TrialKind};

    fn trial(offered: u64, delivered: u64, to_drop: u64, rules: u64, device: u64) -> Trial {
        let count = |counter: &str, packets| DropCount { counter: counter.to_owned(), packets };
        Trial {
            offered,
            delivered,
            to_drop,
            dropped: vec![count("rules", rules), count("device", device)],
            seconds: 1.0,
            pps: 1.0,
            noise: Noise { spin_ratio: 1.0, ..Noise::default() },
            ..Trial::new(TrialKind::Rate, Scenario::default(), "s")
        }
    }

    fn state(trial: &Trial) -> Option<State> {
        of_packets(trial, Tolerance::default()).map(|(state, _)| state)
    }

    #[test]
    fn many_cores_may_lose_a_few_counts_of_losses_and_no_more() {
        let tolerance = Tolerance { many_cores: true, ..Tolerance::default() };
        let state = |trial: &Trial| of_packets(trial, tolerance).map(|(state, _)| state);
        assert_eq!(state(&trial(10_000, 9_900, 0, 0, 90)), None, "10 of 10,000");
        assert_eq!(state(&trial(10_000, 9_900, 0, 0, 89)), Some(State::Unbalanced));
        assert_eq!(state(&trial(10_000, 9_995, 0, 0, 0)), Some(State::Unbalanced), "no losses");
        assert_eq!(state(&trial(10_000, 9_900, 0, 0, 101)), Some(State::Unbalanced), "too many");
    }

    #[test]
    fn packets_that_add_up_count_and_others_do_not() {
        assert_eq!(state(&trial(100, 60, 30, 30, 10)), None);
        assert_eq!(state(&trial(100, 59, 30, 30, 10)), Some(State::Unbalanced));
        assert_eq!(state(&trial(100, 61, 30, 30, 10)), Some(State::Unbalanced));
    }

    #[test]
    fn a_wrong_verdict_fails_a_trial() {
        let mut leaking = trial(100, 70, 30, 20, 0);
        leaking.leaked = 10;
        assert_eq!(state(&leaking), Some(State::Failed));
        let limit = |lets_through| Tolerance { lets_through, many_cores: false };
        assert_eq!(of_packets(&leaking, limit(10)), None, "a limit may let them through");
        assert!(of_packets(&leaking, limit(9)).is_some());
        assert_eq!(state(&trial(100, 69, 30, 31, 0)), Some(State::Failed));
        assert_eq!(state(&trial(100, 0, 0, 0, 100)), Some(State::Failed));
    }

    #[test]
    fn a_count_that_the_kernel_does_not_know_is_caught() {
        let mut trial = trial(100, 70, 30, 30, 0);
        assert_eq!(of_reasons(&trial).map(|(state, _)| state), Some(State::Unbalanced));
        let counter = format!("skb: {NETFILTER_DROP}");
        trial.dropped.push(DropCount { counter, packets: 30 });
        assert_eq!(of_reasons(&trial), None);
    }

    #[test]
    fn each_kind_of_noise_disturbs() {
        let limits = NoiseLimits::default();
        let disturbed = |change: fn(&mut Noise), realtime| {
            let mut trial = trial(1, 1, 0, 0, 0);
            change(&mut trial.noise);
            of_noise(&trial, &limits, realtime).is_some()
        };
        assert!(!disturbed(|_| (), false));
        assert!(disturbed(|noise| noise.spin_ratio = 1.5, true));
        assert!(disturbed(|noise| noise.steal = 0.2, true));
        assert!(disturbed(|noise| noise.switches = 1000, true));
        assert!(disturbed(|noise| noise.psi = 0.9, false));
        assert!(!disturbed(|noise| noise.psi = 0.9, true));
    }
}
