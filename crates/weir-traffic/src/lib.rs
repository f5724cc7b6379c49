//! Packets for a ruleset: on and around every boundary of every rule, and random ones.
//!
//! A ruleset of 36,000 rules has millions of boundaries. [`generate_boundary_and_random_packets`]
//! iterates over all reachable rules, one packet per rule and round, so that a limited number of
//! packets still covers every rule: first a packet that satisfies the rule and the jumps that lead
//! to it, then one variation per round (a value one below, on and one above each boundary, a bit of
//! a mask flipped, another protocol, another conntrack state, fragments, truncated headers). One
//! packet in five is random, with fields drawn mostly from the values in the rules.
//!
//! [`generate_pattern_packets`] generates the packets of a measurement, each with its expected
//! verdict.
//!
//! Not part of this crate: sending packets, and measuring.
//!
//! Modules:
//!
//! - `boundary_packet_maker`: rounds over the rules, one packet per rule and round;
//! - `rule_paths`, `reach_hints`: the jumps that lead to a rule, and values that get past the rules
//!   before it;
//! - `packet_constraints`, `packet_mutation`: a packet that satisfies tests, and its variations;
//! - `random_packets`: packets of the values in the rules;
//! - `traffic_pattern`: the packets of a measurement;
//! - `traffic_options`: options of packet generation.

#![forbid(unsafe_code)]

mod boundary_packet_maker;
mod packet_constraints;
mod packet_mutation;
mod random_packets;
mod reach_hints;
mod rule_paths;
mod traffic_options;
mod traffic_pattern;

pub use self::boundary_packet_maker::generate_boundary_and_random_packets;
pub use self::traffic_options::TrafficOptions;
pub use self::traffic_pattern::{
    DecidingFilterRuleOrPolicy, PacketPatternOptions, PatternPacket, PatternPacketGenerationError,
    TrafficPattern, generate_pattern_packets,
};
