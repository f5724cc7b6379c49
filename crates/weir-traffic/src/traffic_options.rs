//! Options of packet generation.

use weir_semantics::JourneyKind;

/// What packets are wanted.
#[derive(Clone, Debug)]
pub struct TrafficOptions {
    /// Seed: the same seed, the same packets.
    pub seed: u64,
    /// How many packets at most.
    pub max_packets: usize,
    /// Which way they go.
    pub journey_kind: JourneyKind,
    /// First and later fragments among them.
    pub include_fragments: bool,
    /// Truncated transport headers among them.
    pub include_truncated: bool,
    /// Include conntrack states other than those that the rules test.
    pub include_untested_ct_states: bool,
    /// Longest packet, in bytes from the network header on.
    pub packet_bytes_max: usize,
}

impl Default for TrafficOptions {
    fn default() -> Self {
        TrafficOptions {
            seed: 1,
            max_packets: 20_000,
            journey_kind: JourneyKind::Forward,
            include_fragments: true,
            include_truncated: true,
            include_untested_ct_states: true,
            packet_bytes_max: 1500,
        }
    }
}
