//! What a ruleset is: tables, chains, rules and sets, independent of their text.
//!
//! Start with [`Firewall`] (everything in force on one host), [`Ruleset`] (one family of it) and
//! [`Rule`]. [`Match`] and [`Target`] represent the parts of a rule; [`rule_test`](mod@rule_test)
//! turns a rule into the conjunction of field tests that every other stage works on; [`field`] is
//! the table of fields and [`effect`] the table of what targets and matches do.

#![forbid(unsafe_code)]

mod chain_graph;
mod content_key;
pub mod counter_credit;
mod counters;
pub mod effect;
pub mod field;
pub mod index_hash_table;
pub mod ipset;
pub mod managing_programs;
pub mod nft;
mod original_rule_index;
mod packet_region;
mod rule_id;
pub mod rule_match;
mod rule_place;
pub mod rule_test;
pub mod ruleset;
mod shared_name;
mod span;
pub mod target;

pub use chain_graph::{ChainGraph, ChainJump};
pub use content_key::{RuleContentKey, compute_rule_content_keys};
pub use counter_credit::{CounterLocation, CountersByOriginalRule, iptables_tool_name};
pub use counters::Counters;
pub use effect::{
    ChangingSets, ConntrackDemand, FieldSet, Hotdrop, TargetTermination, match_effects,
    target_effects,
};
pub use field::{Field, FieldReading, Layer, RuleMergeClass};
pub use ipset::{Element, ElementPart, IpSet, SetKind, SetOption};
pub use original_rule_index::OriginalRuleIndex;
pub use packet_region::{FieldCondition, PacketRegion};
pub use rule_id::{RuleId, RuleIdTable};
pub use rule_match::{
    AddrMatch, BaseMatch, FragmentMatch, IfaceMatch, Match, PortSpan, ProtoMatch,
};
pub use rule_place::RulePlaceInTable;
pub use rule_test::{
    Predicate, RuleTests, Test, lower_base_to_tests, lower_to_tests,
    lower_to_tests_with_match_index,
};
pub use ruleset::{Chain, Firewall, Hook, Policy, Rule, Ruleset, Table, TableName};
pub use shared_name::SharedName;
pub use span::Span;
pub use target::{Effect, NatTarget, Target};
pub use weir_packet::{Addr, CtState, Family, Mac, Packet, mask};
