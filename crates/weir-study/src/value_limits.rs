//! Limits of values that fields and axes have in common.

/// Most events per second: no device delivers that many packets.
pub(crate) const MAX_RATE_PER_SECOND: u64 = 1_000_000_000;
/// Largest number of entries in a connection table: `nf_conntrack_max` is read by `proc_dointvec`
/// (net/netfilter/nf_conntrack_standalone.c).
pub(crate) const MAX_CONNTRACK_TABLE_ENTRIES: u64 = i32::MAX as u64;
