//! What a ruleset is: tables, chains, rules and sets, independent of their text.
//!
//! Start with [`Firewall`] (everything in force on one host), [`Ruleset`] (one family of it) and
//! [`Rule`]. [`Match`] and [`Target`] represent the parts of a rule; [`test`](mod@test) turns a
//! rule into the conjunction of field tests that every other stage works on; [`field`] is the table
//! of fields and [`effect`] the table of what targets and matches do.

#![forbid(unsafe_code)]

mod chain_graph;
mod content_key;
mod counters;
pub mod credit;
pub mod effect;
pub mod field;
pub mod matching;
mod name;
pub mod nft;
pub mod programs;
mod rule_id;
mod rule_index;
pub mod ruleset;
pub mod set;
mod span;
pub mod target;
pub mod test;

pub use chain_graph::{ChainGraph, ChainJump};
pub use content_key::{ContentKey, content_keys};
pub use counters::Counters;
pub use credit::{Counter, CreditMap, tool};
pub use effect::{ChangingSets, Conntrack, Ends, FieldSet, Hotdrop, effects_of, match_effects};
pub use field::{Field, Layer, Merge, Read};
pub use matching::{AddrMatch, Base, FragmentMatch, IfaceMatch, Match, PortSpan, ProtoMatch};
pub use name::Name;
pub use rule_id::{RuleId, RuleIds};
pub use rule_index::RuleIndex;
pub use ruleset::{Chain, Firewall, Hook, Policy, Rule, Ruleset, Table, TableName};
pub use set::{Element, ElementPart, IpSet, SetKind, SetOption};
pub use span::Span;
pub use target::{Effect, NatTarget, Target};
pub use test::{Predicate, Test, Tests, located_tests_of, tests_of};
pub use weir_packet::{Addr, CtState, Family, Mac, Packet, mask};
