//! Options of a verification.

use std::path::PathBuf;
use std::time::Duration;

use weir_model::Packet;
use weir_semantics::Entry;

/// How to verify.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// How many packets to compare at least, where the ruleset has so many to offer.
    pub packets: usize,
    /// Seed of the packets.
    pub seed: u64,
    /// Maximum number of packets that are tried one at a time, because only the kernel knows
    /// whether some match was true.
    pub singles_max: usize,
    /// How long that may take in all.
    pub singles_time: Duration,
    /// How many differences are looked at closely; the others are counted.
    pub differences_max: usize,
    /// Where to write the packets that differ.
    pub pcap: Option<PathBuf>,
    /// Whether the diagram of the ruleset is also evaluated for each packet: it must agree with the
    /// interpreter.
    pub diagrams: bool,
    /// Exactly these packets, each with its entry, instead of generated ones.
    pub only: Option<Vec<(Entry, Packet)>>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions {
            packets: 100_000,
            seed: 1,
            singles_max: 5_000,
            singles_time: Duration::from_secs(60),
            differences_max: 20,
            pcap: None,
            diagrams: false,
            only: None,
        }
    }
}
