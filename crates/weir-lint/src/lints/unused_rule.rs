//! Rules that never counted a packet, if the counters of the text are from real traffic.

use weir_model::{Chain, Counters, Target};

use crate::analyzed_firewall::AnalyzedFirewall;
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;

define_lint!(UNUSED_RULE, "unused-rule", Note);

pub(crate) static LINT_FAMILY: LintFamily = LintFamily { lints: &[&UNUSED_RULE], run_lints };

/// Tables whose rules never counted anything were not in force, and say nothing.
fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    if !context.options.counters_are_real {
        return;
    }
    for table in &context.tables {
        let packets = |c: Option<Counters>| c.map_or(0, |c| c.packets);
        let chains = &table.table.chains;
        let of_rules = |c: &Chain| c.rules.iter().any(|r| packets(r.counters) > 0);
        if !chains.iter().any(|c| of_rules(c) || packets(c.counters) > 0) {
            continue;
        }
        for (chain, i, rule) in table.rules() {
            if rule.counters.is_some_and(|c| c.packets == 0) && rule.target != Target::None {
                let message = "no packet has matched this rule since its counters were reset";
                let help = "find out whether anybody still needs it, if that was long ago";
                out.push(
                    table
                        .new_rule_finding(&UNUSED_RULE, chain, i, message)
                        .with_help(help)
                        .with_wasted_comparisons(1),
                );
            }
        }
    }
}
