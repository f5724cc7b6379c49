//! The linter: what looks wrong or dear in a ruleset, and what it holds.
//!
//! [`check`](fn@check) runs every [`Lint`] of the registry ([`lints`](fn@lints)) over a firewall. A
//! lint has a page in `docs/lints`, which says what is found, why it matters and what to do, and
//! shows a ruleset before and after; a test holds each page to its word. A [`Finding`] says where
//! (a [`RulePlace`](weir_model::RulePlace) and a span), which other places have to do with it, what
//! a packet pays for it, and, where weir can do it, the [`Fix`]. Findings of one cause are one
//! finding, at the rule that causes it (`group`). [`counts`] says what a ruleset holds.
//!
//! What is said to be shadowed or redundant is certain: packets are reasoned about as sets
//! ([`weir_partition::rect`]), rules as what they do to such sets
//! ([`weir_partition::MatchSpace`]), chains as what is left of
//! them ([`flow`]). Where that is too much work nothing is said. All of it is a few passes over the
//! rules: 23,000 of them take about a second.
//!
//! Left out: printing, and any change that is not asked for. It needs the model and its sets of packets alone; that the
//! findings are right is tested against the interpreter and the diagrams.

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
