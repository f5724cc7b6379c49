//! Parts of a trial: its kind, its state, drops and noise.

use serde::{Deserialize, Serialize};

/// What a trial measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialKind {
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
    /// As many TCP connections as the study requests, opened and left open.
    Concurrent,
    /// TCP connections between sockets of the kernel, opened at planned times, or those of the
    /// client that a subject names in their place.
    Sockets,
    /// Echoes through the firewall and back, sent at planned times.
    RoundTrip,
    /// Responses of an ordinary process on the firewall, requested at planned times.
    #[serde(rename = "response")]
    FirewallProcessResponse,
    /// One bulk TCP stream between sockets of the kernel.
    Stream,
}

/// Whether a trial counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialState {
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
    /// `link` (never entered the firewall's device), `sink` (left it and reached no program); or
    /// one that gives a reason and is part of another one: `softnet` (full backlogs of the whole
    /// machine), `skb: REASON` (the kernel's reason for freeing a packet, read only in validation
    /// trials).
    pub counter: String,
    /// Packets.
    pub packets: u64,
}

/// How quiet the machine was during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialNoise {
    /// Share of the trial during which some task waited for a processor (pressure stall
    /// information); 0 to 1 and more, because it is counted over the trial and its set-up.
    pub psi: f64,
    /// Share of processor time that the hypervisor gave to others.
    pub steal: f64,
    /// Time of a fixed loop, the slower of before and after, against the fastest of the run:
    /// 1 is undisturbed.
    pub spin_ratio: f64,
    /// Times that the generator was taken off its processor.
    #[serde(rename = "switches")]
    pub generator_preemptions: u64,
}

impl DropCount {
    /// Whether these packets are in another counter already.
    pub fn is_counted_elsewhere(&self) -> bool {
        self.counter == "softnet" || self.counter.starts_with("skb: ")
    }
}
