//! The linter: likely mistakes and expensive constructs in a ruleset, and statistics of it.
//!
//! [`check`](fn@check) runs every [`Lint`] of the registry ([`lints`](fn@lints)) over a firewall. A
//! lint has a page in `docs/lints`, which says what is found, why it matters and what to do, and
//! shows a ruleset before and after; a test holds each page to its word. A [`Finding`] says where
//! (a [`RuleId`](weir_model::RuleId) and a span), which other places have to do with it, what
//! a packet pays for it, and, where weir can do it, the [`Fix`]. Findings of one cause are one
//! finding, at the rule that causes it (`group`). [`counts`] says what a ruleset holds.
//!
//! Findings about shadowed or redundant rules are certain: packets are treated as sets
//! ([`weir_partition::rect`]), rules as operations on such sets ([`weir_partition::MatchSpace`]),
//! chains as what is left of them ([`flow`]). If that is too much work, nothing is reported. All of
//! it is a few passes over the rules: 23,000 of them take about a second.
//!
//! Not part of this crate: printing, and any change that is not requested. It uses only the model
//! and its sets of packets; tests verify the findings with the interpreter and the diagrams.

#![forbid(unsafe_code)]

mod chains;
mod check;
mod context;
mod counts;
mod edit;
mod family;
mod finding;
mod fix;
mod flow;
mod group;
mod levels;
mod lint;
mod lints;
mod options;
mod registry;
mod root_cause;
mod suppress;

pub use self::check::{CheckReport, check, check_but, check_each, findings};
pub use self::counts::{ChainCount, Counts, NameCount, TableCount, counts};
pub use self::edit::apply;
pub use self::finding::{Also, Edit, Finding, Fix};
pub use self::fix::{FixOptions, Fixed, Left, fix};
pub use self::levels::{Level, LintLevels};
pub use self::lint::{Lint, Severity};
pub use self::lints::LINEAR_RULES;
pub use self::options::LintOptions;
pub use self::registry::{UnknownLint, lint, lints};
