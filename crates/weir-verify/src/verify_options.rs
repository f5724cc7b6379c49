//! Options of a verification.

use std::path::PathBuf;
use std::time::Duration;

use weir_model::Packet;
use weir_semantics::JourneyKind;

/// How to verify.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// How many packets to compare at least, where the ruleset has so many to offer.
    pub packet_count: usize,
    /// Seed of the packets.
    pub seed: u64,
    /// Maximum number of packets that are tried one at a time, because only the kernel knows
    /// whether some match was true.
    pub single_packets_max: usize,
    /// How long that may take in all.
    pub single_packets_time_limit: Duration,
    /// How many differences are examined closely; the others are counted.
    pub detailed_differences_max: usize,
    /// Where to write the packets that differ.
    pub pcap_path: Option<PathBuf>,
    /// Whether the diagram of the ruleset is also evaluated for each packet: it must agree with the
    /// interpreter.
    pub check_diagrams: bool,
    /// Exactly these packets, each with its entry, instead of generated ones.
    pub exact_packets: Option<Vec<(JourneyKind, Packet)>>,
    /// Whether every address of exact packets to the host is the host's own, as `addrtype` and
    /// `rpfilter` see it.
    pub exact_packets_have_own_addresses: bool,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions {
            packet_count: 100_000,
            seed: 1,
            single_packets_max: 5_000,
            single_packets_time_limit: Duration::from_secs(60),
            detailed_differences_max: 20,
            pcap_path: None,
            check_diagrams: false,
            exact_packets: None,
            exact_packets_have_own_addresses: true,
        }
    }
}
