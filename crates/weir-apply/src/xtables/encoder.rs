//! The model as entries of the kernel: a table, and the bytes of each match and target.
//!
//! The bytes are those that iptables 1.8.9 loads (extensions/libxt_*.c,
//! include/uapi/linux/netfilter). The decoder has a module of the same name for each of these.

pub(crate) mod conntrack_matches;
pub(crate) mod conntrack_targets;
pub(crate) mod matches;
pub(crate) mod set_modules;
pub(crate) mod stateful_matches;
pub(crate) mod table_encoder;
pub(crate) mod targets;
pub(crate) mod u32_match;
pub(crate) mod unmodelled_input_matches;
