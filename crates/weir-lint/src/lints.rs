//! The lints: one file for each, named by its ID, or for a few that are detected together.

pub(crate) mod conntrack_not_first;
pub(crate) mod family_defaults_and_neighbour_discovery;
pub(crate) mod fragments_slip_through;
pub(crate) mod linear_rule_runs;
pub(crate) mod log_without_limit;
pub(crate) mod loopback_and_nat;
pub(crate) mod malformed_and_unused_weir_comments;
pub(crate) mod matches_with_cheaper_equivalent;
pub(crate) mod never_matches;
pub(crate) mod no_final_drop;
pub(crate) mod opaque_module;
pub(crate) mod overlapping_rules;
pub(crate) mod rule_after_catch_all;
pub(crate) mod shadowed_and_redundant_rules;
pub(crate) mod stateful_limits;
pub(crate) mod unneeded_conntrack_and_untracked_nat;
pub(crate) mod unreachable_and_empty_chains;
pub(crate) mod unused_and_full_sets;
pub(crate) mod unused_rule;

pub use self::linear_rule_runs::MAX_UNREPORTED_LINEAR_ADDRESS_RULES;
use crate::analyzed_firewall::AnalyzedFirewall;
use crate::finding::Finding;

/// What follows from what was found.
pub(crate) fn run_follow_up_lints(
    context: &AnalyzedFirewall<'_>,
    found: &[Finding],
) -> Vec<Finding> {
    unneeded_conntrack_and_untracked_nat::find_conntrack_used_only_by_removable_rules(
        context, found,
    )
}
