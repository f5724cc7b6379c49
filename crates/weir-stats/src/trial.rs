//! One measurement.

mod drop_count;
mod serialized_trial;
mod trial_kind;
mod trial_noise;
mod trial_state;

use serde::{Deserialize, Serialize};

use crate::connection_counts::ConnectionCounts;
use crate::lookup_measurement::LookupMeasurement;
use crate::machine_observations::MachineObservations;
use crate::probe_kinds_and_results::{BulkTcpStreamResult, ProbeResult};
use crate::scenario::Scenario;

use serialized_trial::SerializedTrial;

pub use drop_count::DropCount;
pub use trial_kind::TrialKind;
pub use trial_noise::TrialNoise;
pub use trial_state::TrialState;

/// One measurement of one subject at one point: a header, sums of packets, and what else its kind
/// of trial measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "SerializedTrial", into = "SerializedTrial")]
pub struct Trial {
    /// Counted from 0 in the order in which trials were run.
    pub number: u64,
    /// What was measured.
    pub kind: TrialKind,
    /// Where.
    pub scenario: Scenario,
    /// Of which subject.
    pub subject: String,
    /// Which copy of it: 0, or 1 for the second one of the A/A pair.
    pub copy_index: u32,
    /// Which pass over the grid.
    pub block: u32,
    /// Place in its block's order.
    pub order_in_block: u32,
    /// 0 in forward order, 1 in reverse order (ABBA).
    #[serde(rename = "leg")]
    pub abba_leg: u32,
    /// How often this trial was repeated before, because it was disturbed.
    pub repeat_count: u32,
    /// Packets that the generator handed to the firewall's device; 0 for loads. For connections,
    /// packets that either end sent, and so in the next fields.
    pub offered: u64,
    /// Packets that arrived at the sink with the right tag and were to arrive.
    pub delivered: u64,
    /// Packets that arrived although the ruleset drops them; of a limit, those that it let through.
    pub leaked: u64,
    /// Packets that arrived without a tag or with another run's; they are not in `delivered`.
    pub foreign: u64,
    /// Packets of `offered` that the ruleset has to drop.
    pub expected_drops: u64,
    /// What the counters of the firewall say was dropped.
    pub drop_counts: Vec<DropCount>,
    /// Length of the measurement, seconds, as the generator's own clock saw it; for loads, the
    /// wall time of the command.
    pub seconds: f64,
    /// Packets per second with their expected verdict: delivered, or dropped by the rules; 0 for
    /// loads.
    #[serde(rename = "pps")]
    pub correct_verdict_pps: f64,
    /// Requested rate, packets (or connections) per second; 0: unlimited.
    pub rate_pps: f64,
    /// What it measured in addition to these sums.
    pub results: TrialResults,
    /// Further observations of the machine.
    pub observations: MachineObservations,
    /// How quiet it was.
    pub noise: TrialNoise,
    /// Whether it counts.
    pub state: TrialState,
    /// Why it does not, where it does not.
    pub rejection_reason: Option<String>,
}

/// What a trial measured in addition to its sums of packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TrialResults {
    /// Nothing: packets alone, or the time of a load.
    #[default]
    PacketSumsOrLoadTime,
    /// So many rules that were added.
    AddedRules(u64),
    /// What both ends of connections counted.
    Connections(Box<ConnectionCounts>),
    /// What a probe found.
    Probe(Box<ProbeResult>),
    /// What a bulk stream carried.
    BulkTcpStream(BulkTcpStreamResult),
    /// What a program measured of its classifier.
    Lookups(Box<LookupMeasurement>),
}

impl Trial {
    /// What both ends of connections counted, in a trial of connections.
    pub fn connection_counts(&self) -> Option<&ConnectionCounts> {
        match &self.results {
            TrialResults::Connections(connections) => Some(connections),
            _ => None,
        }
    }

    /// What a probe found, in a trial that probes.
    pub fn probe_result(&self) -> Option<&ProbeResult> {
        match &self.results {
            TrialResults::Probe(probe) => Some(probe),
            _ => None,
        }
    }

    /// What a bulk stream carried, in a trial of one.
    pub fn bulk_tcp_stream_result(&self) -> Option<&BulkTcpStreamResult> {
        match &self.results {
            TrialResults::BulkTcpStream(stream) => Some(stream),
            _ => None,
        }
    }

    /// What a program measured of its classifier, in a trial of look-ups.
    pub fn lookup_measurement(&self) -> Option<&LookupMeasurement> {
        match &self.results {
            TrialResults::Lookups(lookups) => Some(lookups),
            _ => None,
        }
    }

    /// Rules that were added, in a trial of [`TrialKind::Add`]; else 0.
    pub fn added_rule_count_or_zero(&self) -> u64 {
        match self.results {
            TrialResults::AddedRules(additions) => additions,
            _ => 0,
        }
    }

    /// A trial of this subject at this point in which nothing was measured yet.
    pub fn new(kind: TrialKind, scenario: Scenario, subject: &str) -> Trial {
        Trial {
            number: 0,
            kind,
            scenario,
            subject: subject.to_owned(),
            copy_index: 0,
            block: 0,
            order_in_block: 0,
            abba_leg: 0,
            repeat_count: 0,
            offered: 0,
            delivered: 0,
            leaked: 0,
            foreign: 0,
            expected_drops: 0,
            drop_counts: Vec::new(),
            seconds: 0.0,
            correct_verdict_pps: 0.0,
            rate_pps: 0.0,
            results: TrialResults::PacketSumsOrLoadTime,
            observations: MachineObservations::default(),
            noise: TrialNoise::default(),
            state: TrialState::Accepted,
            rejection_reason: None,
        }
    }

    /// Packets of `offered` that no counter knows of: negative where the counters know more.
    pub fn unaccounted_packets(&self) -> i64 {
        let counted = self.drop_counts.iter().filter(|drop| !drop.is_counted_elsewhere());
        let dropped: u64 = counted.map(|drop| drop.packets).sum();
        self.offered as i64 - (self.delivered + self.leaked + dropped) as i64
    }

    /// Share of the packets that were to arrive and did not.
    pub fn unexpected_loss_ratio(&self) -> f64 {
        let expected = self.offered.saturating_sub(self.expected_drops);
        if expected == 0 {
            return 0.0;
        }
        1.0 - self.delivered as f64 / expected as f64
    }
}

impl From<SerializedTrial> for Trial {
    fn from(text: SerializedTrial) -> Trial {
        let measured = match (text.connections, text.probe, text.stream, text.lookups) {
            (Some(connections), ..) => TrialResults::Connections(Box::new(connections)),
            (None, Some(probe), ..) => TrialResults::Probe(Box::new(probe)),
            (None, None, Some(stream), _) => TrialResults::BulkTcpStream(stream),
            (None, None, None, Some(lookups)) => TrialResults::Lookups(Box::new(lookups)),
            (None, None, None, None) if text.additions > 0 => {
                TrialResults::AddedRules(text.additions)
            }
            (None, None, None, None) => TrialResults::PacketSumsOrLoadTime,
        };
        Trial {
            number: text.number,
            kind: text.kind,
            scenario: text.scenario,
            subject: text.subject,
            copy_index: text.copy,
            block: text.block,
            order_in_block: text.order,
            abba_leg: text.abba_leg,
            repeat_count: text.repeat,
            offered: text.offered,
            delivered: text.delivered,
            leaked: text.leaked,
            foreign: text.foreign,
            expected_drops: text.to_drop,
            drop_counts: text.dropped,
            seconds: text.seconds,
            correct_verdict_pps: text.correct_verdict_pps,
            rate_pps: text.rate_pps,
            observations: text.collected,
            noise: text.noise,
            state: text.state,
            rejection_reason: text.why,
            results: measured,
        }
    }
}

impl From<Trial> for SerializedTrial {
    fn from(trial: Trial) -> SerializedTrial {
        let mut text = SerializedTrial {
            number: trial.number,
            kind: trial.kind,
            scenario: trial.scenario,
            subject: trial.subject,
            copy: trial.copy_index,
            block: trial.block,
            order: trial.order_in_block,
            abba_leg: trial.abba_leg,
            repeat: trial.repeat_count,
            offered: trial.offered,
            delivered: trial.delivered,
            leaked: trial.leaked,
            foreign: trial.foreign,
            to_drop: trial.expected_drops,
            dropped: trial.drop_counts,
            seconds: trial.seconds,
            correct_verdict_pps: trial.correct_verdict_pps,
            rate_pps: trial.rate_pps,
            collected: trial.observations,
            noise: trial.noise,
            state: trial.state,
            why: trial.rejection_reason,
            additions: 0,
            connections: None,
            probe: None,
            stream: None,
            lookups: None,
        };
        match trial.results {
            TrialResults::PacketSumsOrLoadTime => {}
            TrialResults::AddedRules(additions) => text.additions = additions,
            TrialResults::Connections(connections) => text.connections = Some(*connections),
            TrialResults::Probe(probe) => text.probe = Some(*probe),
            TrialResults::BulkTcpStream(stream) => text.stream = Some(stream),
            TrialResults::Lookups(lookups) => text.lookups = Some(*lookups),
        }
        text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A trial of one second that counts.
    pub(crate) fn trial(offered: u64, delivered: u64, dropped: &[(&str, u64)]) -> Trial {
        let dropped = dropped.iter();
        Trial {
            offered,
            delivered,
            drop_counts: dropped
                .map(|(counter, packets)| DropCount {
                    counter: (*counter).to_owned(),
                    packets: *packets,
                })
                .collect(),
            seconds: 1.0,
            correct_verdict_pps: delivered as f64,
            ..Trial::new(TrialKind::Rate, Scenario::default(), "none")
        }
    }

    #[test]
    fn counters_that_add_up_leave_nothing_missing() {
        assert_eq!(trial(100, 60, &[("rules", 30), ("device", 10)]).unaccounted_packets(), 0);
        assert_eq!(trial(100, 60, &[("rules", 30), ("device", 9)]).unaccounted_packets(), 1);
        assert_eq!(trial(100, 60, &[("rules", 41)]).unaccounted_packets(), -1);
    }

    #[test]
    fn kernel_drop_reasons_are_not_counted_twice() {
        assert_eq!(
            trial(100, 60, &[("rules", 40), ("skb: NETFILTER_DROP", 40)]).unaccounted_packets(),
            0
        );
    }

    #[test]
    fn expected_drops_are_not_losses() {
        let mut sample = trial(100, 60, &[("rules", 40)]);
        sample.expected_drops = 40;
        assert_eq!(sample.unexpected_loss_ratio(), 0.0);
        sample.expected_drops = 0;
        assert!((sample.unexpected_loss_ratio() - 0.4).abs() < 1e-9);
    }
}
