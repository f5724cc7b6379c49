//! The linter: likely mistakes and expensive constructs in a ruleset, and statistics of it.
//!
//! [`lint_firewall`](fn@lint_firewall) runs every [`Lint`] of the registry
//! ([`all_lints`](fn@all_lints)) over a firewall. A lint has a page in `docs/lints`, which says
//! what is found, why it matters and what to do, and shows a ruleset before and after; a test holds
//! each page to its word. A [`Finding`] says where (a [`RuleId`](weir_model::RuleId) and a span),
//! which other places have to do with it, what a packet pays for it, and, where weir can do it, the
//! [`Fix`]. Findings of one cause are one finding, at the rule that causes it (`merge_findings`).
//! [`ruleset_counts`] says what a ruleset holds.
//!
//! Findings about shadowed or redundant rules are certain: packets are treated as sets
//! ([`weir_partition::hyper_rect`]), rules as operations on such sets
//! ([`weir_partition::RulePacketBoxes`]), chains as what is left of them ([`packet_set_flow`]). If
//! that is too much work, nothing is reported. All of it is a few passes over the rules: 23,000 of
//! them take about a second.
//!
//! Not part of this crate: printing, and any change that is not requested. It uses only the model
//! and its sets of packets; tests verify the findings with the interpreter and the diagrams.

#![forbid(unsafe_code)]

mod analyzed_firewall;
mod apply_edits;
mod chain_reachability;
mod check;
mod finding;
mod fix;
mod lint;
mod lint_family;
mod lint_levels;
mod lint_options;
mod lints;
mod merge_findings;
mod packet_set_flow;
mod registry;
mod root_cause;
mod ruleset_counts;
mod suppression_comments;

pub use self::apply_edits::apply_edits;
pub use self::check::{
    CheckReport, IncompletelySearchedTable, lint_except_known, lint_firewall,
    lint_with_default_options, lint_without_grouping,
};
pub use self::finding::{Finding, Fix, RelatedPlace, RulesetEdit};
pub use self::fix::{FixOptions, FixResult, UnfixedReason, apply_fixes};
pub use self::lint::{Lint, Severity};
pub use self::lint_levels::{LintLevel, LintLevels};
pub use self::lint_options::LintOptions;
pub use self::lints::MAX_UNREPORTED_LINEAR_ADDRESS_RULES;
pub use self::registry::{UnknownLint, all_lints, find_lint};
pub use self::ruleset_counts::{
    ChainRuleCount, FirewallContentCounts, MatchOrTargetCount, TableRuleCount,
    count_firewall_contents,
};
