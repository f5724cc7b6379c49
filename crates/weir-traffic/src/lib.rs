//! Packets for a ruleset: on and around every boundary of every rule, and random ones.
//!
//! A ruleset of 36,000 rules has millions of boundaries. [`packets`] goes round all reachable
//! rules, one packet a rule and round, so that a bounded count still meets every rule: first a
//! packet that satisfies the rule and the jumps that lead to it, then one change a round (a value
//! one below, on and one above each edge, a bit of a mask flipped, another protocol, another
//! conntrack state, fragments, cut headers). One packet in five is random, its fields drawn mostly
//! from the values that the rules name.
//!
//! [`patterns`] makes the packets of a measurement, each with the verdict that it meets.
//!
//! Left out: sending the packets anywhere, and measuring.

#![forbid(unsafe_code)]

mod constraints;
mod maker;
mod options;
mod paths;
mod pattern;
mod random;
mod reach_hints;
mod rng;
mod variant;

pub use self::maker::packets;
pub use self::options::TrafficOptions;
pub use self::pattern::{Pattern, PatternOptions, patterns};
