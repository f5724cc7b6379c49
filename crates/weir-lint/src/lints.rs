//! The lints: one file for each, or for a few that are detected together.

pub(crate) mod contradictory_tests;
pub(crate) mod fragments_bypassing_drop;
pub(crate) mod ipv4_ipv6_mismatch;
pub(crate) mod late_established_rule;
pub(crate) mod linear_rule_runs;
pub(crate) mod loopback_and_nat;
pub(crate) mod malformed_weir_comments;
pub(crate) mod matches_with_cheaper_equivalent;
pub(crate) mod missing_final_drop;
pub(crate) mod overlapping_rules;
pub(crate) mod rules_after_catch_all;
pub(crate) mod rules_with_zero_counters;
pub(crate) mod shadowed_rules;
pub(crate) mod stateful_limits;
pub(crate) mod unknown_modules;
pub(crate) mod unlimited_log;
pub(crate) mod unneeded_conntrack;
pub(crate) mod unreachable_and_empty_chains;
pub(crate) mod unused_and_full_sets;

pub use self::linear_rule_runs::MAX_UNREPORTED_LINEAR_ADDRESS_RULES;
use crate::context::AnalyzedFirewall;
use crate::finding::Finding;

/// What follows from what was found.
pub(crate) fn run_follow_up_lints(
    context: &AnalyzedFirewall<'_>,
    found: &[Finding],
) -> Vec<Finding> {
    unneeded_conntrack::find_conntrack_used_only_by_removable_rules(context, found)
}
