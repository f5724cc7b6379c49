//! One measurement.

mod parts;
mod text;

use serde::{Deserialize, Serialize};

use crate::collected::Collected;
use crate::connections::Connections;
use crate::probe::{Probe, Stream};
use crate::scenario::Scenario;

use text::TrialText;

pub use parts::{DropCount, Noise, State, TrialKind};

/// One measurement of one subject at one point: a header, sums of packets, and what else its kind
/// of trial measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "TrialText", into = "TrialText")]
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
    pub copy: u32,
    /// Which pass over the grid.
    pub block: u32,
    /// Place in its block's order.
    pub order: u32,
    /// 0 in forward order, 1 in reverse order (ABBA).
    pub leg: u32,
    /// How often this trial was repeated before, because it was disturbed.
    pub repeat: u32,
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
    pub to_drop: u64,
    /// What the counters of the firewall say was dropped.
    pub dropped: Vec<DropCount>,
    /// Length of the measurement, seconds, as the generator's own clock saw it; for loads, the
    /// wall time of the command.
    pub seconds: f64,
    /// Packets per second with their expected verdict: delivered, or dropped by the rules; 0 for
    /// loads.
    pub pps: f64,
    /// Requested rate, packets (or connections) per second; 0: unlimited.
    pub rate_pps: f64,
    /// What it measured in addition to these sums.
    pub measured: Measured,
    /// Further observations of the machine.
    pub collected: Collected,
    /// How quiet it was.
    pub noise: Noise,
    /// Whether it counts.
    pub state: State,
    /// Why it does not, where it does not.
    pub why: Option<String>,
}

/// What a trial measured in addition to its sums of packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Measured {
    /// Nothing: packets alone, or the time of a load.
    #[default]
    Sums,
    /// So many rules that were added.
    Additions(u64),
    /// What both ends of connections counted.
    Connections(Box<Connections>),
    /// What a probe found.
    Probe(Box<Probe>),
    /// What a bulk stream carried.
    Stream(Stream),
}

impl Trial {
    /// What both ends of connections counted, in a trial of connections.
    pub fn connections(&self) -> Option<&Connections> {
        match &self.measured {
            Measured::Connections(connections) => Some(connections),
            _ => None,
        }
    }

    /// What a probe found, in a trial that probes.
    pub fn probe(&self) -> Option<&Probe> {
        match &self.measured {
            Measured::Probe(probe) => Some(probe),
            _ => None,
        }
    }

    /// What a bulk stream carried, in a trial of one.
    pub fn stream(&self) -> Option<&Stream> {
        match &self.measured {
            Measured::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// Rules that were added, in a trial of [`TrialKind::Add`]; else 0.
    pub fn additions(&self) -> u64 {
        match self.measured {
            Measured::Additions(additions) => additions,
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
            copy: 0,
            block: 0,
            order: 0,
            leg: 0,
            repeat: 0,
            offered: 0,
            delivered: 0,
            leaked: 0,
            foreign: 0,
            to_drop: 0,
            dropped: Vec::new(),
            seconds: 0.0,
            pps: 0.0,
            rate_pps: 0.0,
            measured: Measured::Sums,
            collected: Collected::default(),
            noise: Noise::default(),
            state: State::Accepted,
            why: None,
        }
    }

    /// Packets of `offered` that no counter knows of: negative where the counters know more.
    pub fn missing(&self) -> i64 {
        let counted = self.dropped.iter().filter(|drop| !drop.is_explanation());
        let dropped: u64 = counted.map(|drop| drop.packets).sum();
        self.offered as i64 - (self.delivered + self.leaked + dropped) as i64
    }

    /// Share of the packets that were to arrive and did not.
    pub fn loss_ratio(&self) -> f64 {
        let expected = self.offered.saturating_sub(self.to_drop);
        if expected == 0 {
            return 0.0;
        }
        1.0 - self.delivered as f64 / expected as f64
    }
}

impl From<TrialText> for Trial {
    fn from(text: TrialText) -> Trial {
        let measured = match (text.connections, text.probe, text.stream) {
            (Some(connections), ..) => Measured::Connections(Box::new(connections)),
            (None, Some(probe), _) => Measured::Probe(Box::new(probe)),
            (None, None, Some(stream)) => Measured::Stream(stream),
            (None, None, None) if text.additions > 0 => Measured::Additions(text.additions),
            (None, None, None) => Measured::Sums,
        };
        Trial {
            number: text.number,
            kind: text.kind,
            scenario: text.scenario,
            subject: text.subject,
            copy: text.copy,
            block: text.block,
            order: text.order,
            leg: text.leg,
            repeat: text.repeat,
            offered: text.offered,
            delivered: text.delivered,
            leaked: text.leaked,
            foreign: text.foreign,
            to_drop: text.to_drop,
            dropped: text.dropped,
            seconds: text.seconds,
            pps: text.pps,
            rate_pps: text.rate_pps,
            collected: text.collected,
            noise: text.noise,
            state: text.state,
            why: text.why,
            measured,
        }
    }
}

impl From<Trial> for TrialText {
    fn from(trial: Trial) -> TrialText {
        let mut text = TrialText {
            number: trial.number,
            kind: trial.kind,
            scenario: trial.scenario,
            subject: trial.subject,
            copy: trial.copy,
            block: trial.block,
            order: trial.order,
            leg: trial.leg,
            repeat: trial.repeat,
            offered: trial.offered,
            delivered: trial.delivered,
            leaked: trial.leaked,
            foreign: trial.foreign,
            to_drop: trial.to_drop,
            dropped: trial.dropped,
            seconds: trial.seconds,
            pps: trial.pps,
            rate_pps: trial.rate_pps,
            collected: trial.collected,
            noise: trial.noise,
            state: trial.state,
            why: trial.why,
            additions: 0,
            connections: None,
            probe: None,
            stream: None,
        };
        match trial.measured {
            Measured::Sums => {}
            Measured::Additions(additions) => text.additions = additions,
            Measured::Connections(connections) => text.connections = Some(*connections),
            Measured::Probe(probe) => text.probe = Some(*probe),
            Measured::Stream(stream) => text.stream = Some(stream),
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
            dropped: dropped
                .map(|(counter, packets)| DropCount {
                    counter: (*counter).to_owned(),
                    packets: *packets,
                })
                .collect(),
            seconds: 1.0,
            pps: delivered as f64,
            ..Trial::new(TrialKind::Rate, Scenario::default(), "none")
        }
    }

    #[test]
    fn counters_that_add_up_leave_nothing_missing() {
        assert_eq!(trial(100, 60, &[("rules", 30), ("device", 10)]).missing(), 0);
        assert_eq!(trial(100, 60, &[("rules", 30), ("device", 9)]).missing(), 1);
        assert_eq!(trial(100, 60, &[("rules", 41)]).missing(), -1);
    }

    #[test]
    fn reasons_explain_and_are_not_counted_twice() {
        assert_eq!(trial(100, 60, &[("rules", 40), ("skb: NETFILTER_DROP", 40)]).missing(), 0);
    }

    #[test]
    fn packets_that_had_to_be_dropped_are_no_loss() {
        let mut sample = trial(100, 60, &[("rules", 40)]);
        sample.to_drop = 40;
        assert_eq!(sample.loss_ratio(), 0.0);
        sample.to_drop = 0;
        assert!((sample.loss_ratio() - 0.4).abs() < 1e-9);
    }
}
