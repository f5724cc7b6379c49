//! One measurement.

use serde::{Deserialize, Serialize};

use crate::collected::Collected;
use crate::connections::Connections;
use crate::probe::{Probe, Stream};
use crate::scenario::Scenario;

/// What a trial measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Packets forwarded while more are offered than the firewall can take.
    Rate,
    /// Packets forwarded at an offered rate that the study sets.
    Paced,
    /// A ruleset loaded at once into a fresh network namespace.
    Load,
    /// Single rules added, one command each, to a ruleset that is in force.
    Add,
    /// TCP connections from SYN to the last ACK: request, reply, FIN.
    Connections,
    /// TCP connections with request and reply that the client ends by RST.
    ConnectionsReset,
    /// TCP connections that are opened and left open.
    Handshakes,
    /// As many TCP connections as the study says, opened and held all at once.
    Concurrent,
    /// TCP connections between sockets of the kernel, opened at planned times, or those of the
    /// client that a subject names in their place.
    Sockets,
    /// Echoes through the firewall and back, asked for at planned times.
    RoundTrip,
    /// Answers of an ordinary process on the firewall, asked for at planned times.
    Response,
    /// One bulk TCP stream between sockets of the kernel.
    Stream,
}

/// Whether a trial counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It does.
    Accepted,
    /// The first of its kind, discarded; its counters were checked against the rules' own.
    Warmup,
    /// The machine was disturbed; it was repeated where the cap allowed.
    Disturbed,
    /// Offered, delivered and dropped do not add up.
    Unbalanced,
    /// The command failed, or packets were delivered that had to be dropped.
    Failed,
}

/// Packets that one counter says were dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCount {
    /// Which counter: `rules` (the subject's own), `device`, `stack`, `conntrack` (a full table);
    /// `link` (never entered the firewall's device), `sink` (left it and met no program); or one
    /// that says why and is in another one already: `softnet` (full backlogs of the whole machine),
    /// `skb: REASON` (the kernel's reason for freeing a packet, seen in validation trials only).
    pub counter: String,
    /// Packets.
    pub packets: u64,
}

/// How quiet the machine was during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Share of the trial during which some task waited for a processor (pressure stall
    /// information); 0 to 1 and more, for it is counted over the trial and its set-up.
    pub psi: f64,
    /// Share of processor time that the hypervisor gave to others.
    pub steal: f64,
    /// Time of a fixed loop, the slower of before and after, against the fastest of the run:
    /// 1 is undisturbed.
    pub spin_ratio: f64,
    /// Times that the generator was taken off its processor.
    pub switches: u64,
}

/// One measurement of one subject at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Counted from 0 in the order in which trials were run.
    pub number: u64,
    /// What was measured.
    pub kind: Kind,
    /// Where.
    pub scenario: Scenario,
    /// Of which subject.
    pub subject: String,
    /// Which copy of it: 0, or 1 for the second one of the A/A pair.
    #[serde(default)]
    pub copy: u32,
    /// Which pass over the grid.
    pub block: u32,
    /// Place in its block's order.
    pub order: u32,
    /// 0 on the way there, 1 on the way back (ABBA).
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
    /// Packets a second that met their verdict: delivered, or dropped by the rules; 0 for loads.
    pub pps: f64,
    /// Rate that was asked for, packets (or connections) a second; 0: as fast as it goes.
    #[serde(default)]
    pub rate_pps: f64,
    /// Rules that were added, for [`Kind::Add`]; else 0.
    #[serde(default)]
    pub additions: u64,
    /// What a trial of connections counted beside packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// What a probe found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// What a bulk stream carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// What else the machine told.
    #[serde(default)]
    pub collected: Collected,
    /// How quiet it was.
    pub noise: Noise,
    /// Whether it counts.
    pub state: State,
    /// Why it does not, where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl DropCount {
    /// Whether these packets are in another counter already.
    pub fn is_explanation(&self) -> bool {
        self.counter == "softnet" || self.counter.starts_with("skb: ")
    }
}

impl Trial {
    /// A trial of this subject at this point in which nothing was measured yet.
    pub fn new(kind: Kind, scenario: Scenario, subject: &str) -> Trial {
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
            additions: 0,
            connections: None,
            probe: None,
            stream: None,
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
            ..Trial::new(Kind::Rate, Scenario::default(), "none")
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
