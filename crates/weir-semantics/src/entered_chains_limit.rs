//! How far a packet is followed through chains that are entered again and again.
//!
//! Chains that each jump to the next twice are entered twice as often at every level: a million
//! million times after 40 of them, in a file of 2 kB. `ipt_do_table` of the kernel takes as many
//! steps. In other rulesets, a packet enters a few chains per rule at most.

/// The most chains that a packet is followed into, in a table with so many rules. If it enters
/// more, its verdict is unknown.
pub(crate) const fn max_entered_chains(rule_count: usize) -> usize {
    10_000 + 4 * rule_count
}
