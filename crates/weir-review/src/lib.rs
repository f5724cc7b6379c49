//! Results of semantics and diagrams, in words and as values: why a packet took its path
//! ([`explain`]), what a change of a ruleset means ([`Review`]), and whether it keeps a policy
//! ([`policy_check`]).
//!
//! Explanations and reviews are values that serialise to JSON and render themselves as text or
//! Markdown. Not part of this crate: the analysis itself (the interpreter and the diagrams),
//! reading rulesets, and writing to files or terminals.

#![forbid(unsafe_code)]

pub mod explain;
pub mod lookup_journey;
pub mod lookup_walk;
pub mod policy_check;
mod review;

pub use review::{
    CornerCaseReview, CounterComparison, CounterDifference, DecisionsBeforeAndAfter,
    ExamplePacketReview, FamilyPathReview, LocatedRuleOrPolicy, PathThroughRuleset,
    PathsBeforeAndAfter, RegionFieldReview, RegionReview, Review, ReviewedRuleset, RulesetDecision,
    TreatmentChange, TreatmentChangeKind, UndecidedPathCheckOptions, compare_counters,
    describe_uncovered_packets,
};
