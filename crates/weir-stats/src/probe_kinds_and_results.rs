//! Results of probes: requests at planned times, and one bulk stream.

use serde::{Deserialize, Serialize};

use crate::duration_distribution::DurationDistribution;

/// Axis of trials for the kind of probe: a [`ProbeKind`] as text.
pub const PROBE_KIND_AXIS: &str = "probe";
/// Axis of trials that says what else the firewall did: a [`BackgroundLoad`] as text.
pub const BACKGROUND_LOAD_AXIS: &str = "load";

/// The kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// ICMP echo through the firewall and back.
    Icmp,
    /// UDP echo through the firewall and back.
    Udp,
    /// A shell on the firewall, which does a little work for each line.
    #[serde(rename = "shell")]
    ShellOnFirewall,
    /// One bulk TCP stream through the firewall.
    #[serde(rename = "stream")]
    BulkTcpStream,
}

/// The load of the firewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackgroundLoad {
    /// Nothing else.
    Idle,
    /// It forwards the frames of the study as fast as they come.
    Frames,
    /// It forwards one bulk TCP stream.
    #[serde(rename = "stream")]
    BulkTcpStream,
}

impl ProbeKind {
    /// Its name on the axis.
    pub fn name(self) -> &'static str {
        match self {
            ProbeKind::Icmp => "icmp",
            ProbeKind::Udp => "udp",
            ProbeKind::ShellOnFirewall => "shell",
            ProbeKind::BulkTcpStream => "stream",
        }
    }
}

impl BackgroundLoad {
    /// Its name on the axis.
    pub fn name(self) -> &'static str {
        match self {
            BackgroundLoad::Idle => "idle",
            BackgroundLoad::Frames => "frames",
            BackgroundLoad::BulkTcpStream => "stream",
        }
    }
}

/// Questions and their answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Planned requests; all were sent.
    pub planned: u64,
    /// Questions that were answered before the trial gave up.
    pub answered: u64,
    /// How long it waited for answers after the last question, seconds.
    pub grace_seconds: f64,
    /// From the planned time of a question, not that at which it left, until its answer was read.
    #[serde(rename = "latency")]
    pub latency_from_planned_time: DurationDistribution,
}

impl ProbeResult {
    /// Questions without an answer.
    pub fn lost_requests(&self) -> u64 {
        self.planned.saturating_sub(self.answered)
    }
}

/// What a bulk stream carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BulkTcpStreamResult {
    /// Bytes that the receiving program read.
    pub bytes: u64,
    /// From its first byte until its last, seconds.
    pub seconds: f64,
    /// Segments that the sending kernel sent again.
    pub retransmits: u64,
}
