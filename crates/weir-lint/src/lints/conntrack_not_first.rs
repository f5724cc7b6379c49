//! Rulesets in which the rule that accepts known connections comes late.

use weir_model::rule_match::ct_state;
use weir_model::{Match, Rule, TableName, Target};

use super::linear_rule_runs::MAX_UNREPORTED_LINEAR_ADDRESS_RULES;
use crate::analyzed_firewall::AnalyzedFirewall;
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;

define_lint!(CONNTRACK_NOT_FIRST, "conntrack-not-first", Note);

pub(crate) static LINT_FAMILY: LintFamily =
    LintFamily { lints: &[&CONNTRACK_NOT_FIRST], run_lints };

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in context.tables.iter().filter(|t| t.table.name == TableName::Filter) {
        for (at, chain) in table.table.chains.iter().enumerate() {
            if chain.policy.is_none() {
                continue;
            }
            let Some(i) = chain.rules.iter().position(accepts_some_established) else { continue };
            if i <= MAX_UNREPORTED_LINEAR_ADDRESS_RULES || !table.is_reachable_rule((at, i)) {
                continue;
            }
            let name = &chain.name;
            let message =
                format!("packets of known connections are compared with {i} rules of {name} first");
            let help = "move this rule up, before all rules that are not meant for such packets";
            let found = table
                .new_rule_finding(&CONNTRACK_NOT_FIRST, at, i, message)
                .with_help(help)
                .with_wasted_comparisons(i);
            out.push(found);
        }
    }
}

/// Whether a rule accepts packets of known connections, judging by their state only.
pub(crate) fn accepts_some_established(rule: &Rule) -> bool {
    let established = |m: &Match| match m {
        Match::State(s) => !s.negated && s.value & ct_state::ESTABLISHED != 0,
        Match::Conntrack(c) => {
            c.sole_state_test().is_some_and(|s| !s.negated && s.value & ct_state::ESTABLISHED != 0)
        }
        _ => false,
    };
    rule.target == Target::Accept && rule.matches.iter().any(established)
}
