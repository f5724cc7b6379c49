//! How much of connection tracking a ruleset switches on.

/// What a rule switches on by being loaded, whether packets meet it or not; each includes what
/// stands before it. It holds for the family of the rule in the whole network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Conntrack {
    /// Nothing.
    No,
    /// Fragments are put together before the raw table (`nf_defrag_ipv4_enable`).
    Defragments,
    /// Connections are tracked, too, and nat is consulted (`nf_ct_netns_get`).
    Tracks,
}
