//! Options of packet generation.

use weir_semantics::Entry;

/// What packets are wanted.
#[derive(Clone, Debug)]
pub struct TrafficOptions {
    /// Seed: the same seed, the same packets.
    pub seed: u64,
    /// How many packets at most.
    pub count: usize,
    /// Which way they go.
    pub entry: Entry,
    /// First and later fragments among them.
    pub fragments: bool,
    /// Truncated transport headers among them.
    pub truncated: bool,
    /// Include conntrack states other than those that the rules test.
    pub states: bool,
    /// Longest packet, in bytes from the network header on.
    pub length_max: usize,
}

impl Default for TrafficOptions {
    fn default() -> Self {
        TrafficOptions {
            seed: 1,
            count: 20_000,
            entry: Entry::Forward,
            fragments: true,
            truncated: true,
            states: true,
            length_max: 1500,
        }
    }
}
