//! Which parts of connection tracking a ruleset enables.

/// What a rule enables by being loaded, whether packets reach it or not; each variant includes the
/// previous ones. It applies to the family of the rule in the whole network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConntrackDemand {
    /// Nothing.
    Nothing,
    /// Fragments are reassembled before the raw table (`nf_defrag_ipv4_enable`).
    Defragmentation,
    /// Connections are tracked, too, and nat is consulted (`nf_ct_netns_get`).
    Tracking,
}
