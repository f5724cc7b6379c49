//! What a ruleset is: tables, chains, rules and sets, independent of their text.
//!
//! Start with [`Firewall`] (everything in force on one host), [`Ruleset`] (one family of it) and
//! [`Rule`]. [`Match`] and [`Target`] represent the parts of a rule; [`rule_test`](mod@rule_test)
//! turns a rule into the conjunction of field tests that every other stage works on; [`field`] is
//! the table of fields and [`effect`] the table of what targets and matches do.
//!
//! Modules:
//!
//! - `ruleset`: firewalls, tables, chains and rules;
//! - `rule_match`, `target`: the matches and the target of a rule;
//! - `ipset`: sets;
//! - `nft`: the small nft ruleset of the nft form;
//! - `field`: the table of fields;
//! - `rule_test`: a rule as tests of fields;
//! - `u32_header_test`: the header field that a `u32` expression tests;
//! - `effect`: the table of what matches and targets do;
//! - `chain_graph`: the jumps between chains;
//! - `original_rule_index`, `rule_id`, `rule_place`, `content_key`: which rule is meant: by its
//!   index, its place, its numbers, its content;
//! - `counters`, `counter_credit`: a rule's counters, and which of them add up to an original rule;
//! - `match_module_constants`: numbers of modules that text and kernel structures share;
//! - `managing_programs`: programs that keep chains of their own;
//! - `shared_name`, `index_hash_table`: names stored once, and items found by content;
//! - `span`: positions in a text.

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
pub mod match_module_constants;
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
mod u32_header_test;

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
pub use original_rule_index::{CreditedOriginals, OriginalRuleIndex};
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
pub use u32_header_test::U32HeaderTest;
pub use weir_packet::{Addr, CtState, Family, Mac, Packet, mask};
