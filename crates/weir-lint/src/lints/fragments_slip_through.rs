//! Later fragments, which have no ports, in rulesets that do not reassemble datagrams.

use weir_model::effect::{ConntrackDemand, rule_conntrack_demand};
use weir_model::{Family, Field, Policy, Rule, TableName, Target, Test, lower_to_tests};

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;

define_lint!(FRAGMENTS_SLIP_THROUGH, "fragments-slip-through", Note);

pub(crate) static LINT_FAMILY: LintFamily =
    LintFamily { lints: &[&FRAGMENTS_SLIP_THROUGH], run_lints };

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in context.tables.iter().filter(|t| t.table.name == TableName::Filter) {
        // Where conntrack, `-m socket` or TPROXY is in use, rules see whole datagrams.
        if table
            .ruleset
            .rules_with_table_and_chain()
            .any(|(_, _, rule)| rule_conntrack_demand(rule) != ConntrackDemand::Nothing)
        {
            continue;
        }
        for (at, chain) in table.table.chains.iter().enumerate() {
            // IPv4 datagrams are reassembled before INPUT.
            let is_met = match &*chain.name {
                "INPUT" => table.family() == Family::V6,
                name => name == "FORWARD",
            };
            if !is_met || !accepts_by_default(table, at) {
                continue;
            }
            let drops_fragments = chain
                .rules
                .iter()
                .position(|r| is_drop_or_reject(r) && matches_only_later_fragments(r));
            let by_port = |r: &Rule| is_drop_or_reject(r) && tests_port(r, table);
            let Some(i) = chain.rules.iter().position(by_port) else { continue };
            if drops_fragments.is_some_and(|f| f < i) {
                continue;
            }
            let message = "this rule tests ports, so it does not drop later fragments; they are \
                           accepted";
            let help = "drop fragments first (-f -j DROP), or let conntrack reassemble them";
            out.push(
                table.new_rule_finding(&FRAGMENTS_SLIP_THROUGH, at, i, message).with_help(help),
            );
        }
    }
}

/// Whether what no rule decided is accepted.
fn accepts_by_default(table: &AnalyzedTable<'_>, at: usize) -> bool {
    let chain = table.chain_at(at);
    match table.catch_all_rules[at] {
        Some(c) => {
            table.chain_at(c.deciding_rule.0).rules[c.deciding_rule.1].target == Target::Accept
        }
        None => chain.policy == Some(Policy::Accept),
    }
}

fn is_drop_or_reject(rule: &Rule) -> bool {
    matches!(rule.target, Target::Drop | Target::Reject(_))
}

fn matches_only_later_fragments(rule: &Rule) -> bool {
    rule.base.fragment.is_some_and(|f| !f.negated)
}

fn tests_port(rule: &Rule, table: &AnalyzedTable<'_>) -> bool {
    lower_to_tests(rule, table.family()).iter().any(|t| {
        matches!(
            t,
            Test::EitherPort { .. } | Test::Field { field: Field::Sport | Field::Dport, .. }
        )
    })
}
