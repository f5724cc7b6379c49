//! Packets for a ruleset: on and around every boundary of every rule, and random ones.
//!
//! A ruleset of 36,000 rules has millions of boundaries. [`packets`] iterates over all reachable
//! rules, one packet per rule and round, so that a limited number of packets still covers every
//! rule: first a packet that satisfies the rule and the jumps that lead to it, then one variation
//! per round (a value one below, on and one above each boundary, a bit of a mask flipped, another
//! protocol, another conntrack state, fragments, truncated headers). One packet in five is random,
//! with fields drawn mostly from the values in the rules.
//!
//! [`patterns`] generates the packets of a measurement, each with its expected verdict.
//!
//! Not part of this crate: sending packets, and measuring.

#![forbid(unsafe_code)]

mod constraints;
mod maker;
mod options;
mod paths;
mod pattern;
mod random;
mod reach_hints;
mod variant;

pub use self::maker::packets;
pub use self::options::TrafficOptions;
pub use self::pattern::{Pattern, PatternOptions, patterns};
