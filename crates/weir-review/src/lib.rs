//! What semantics and diagrams found, in words and as values: why a packet took its way
//! ([`explain`]), and what a change of a ruleset means ([`Review`]).
//!
//! Explanations and reviews are values that serialise to JSON and draw themselves as text or
//! Markdown. Left out: finding anything out (that is done by the interpreter and by diagrams),
//! reading rulesets, and writing to files or terminals.

#![forbid(unsafe_code)]

pub mod explain;
mod review;

pub use review::{
    Change, ChangeKind, CornerReview, CounterDiffers, CounterReview, Decided, DecidedBy,
    ExampleReview, FieldReview, PartReview, RegionReview, Review, ReviewPaths, ReviewSide, RuleAt,
    WayThrough, count, not_covered,
};
