//! Rules that log every packet.

use weir_model::{Effect, Match, Rule, Target};

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;
use crate::root_cause::RootCause;

define_lint!(LOG_WITHOUT_LIMIT, "log-without-limit", Note);

pub(crate) static LINT_FAMILY: LintFamily = LintFamily { lints: &[&LOG_WITHOUT_LIMIT], run_lints };

/// The rules of one chain are one finding, because rulesets that log usually log in many places.
fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (at, chain) in table.table.chains.iter().enumerate() {
            if has_only_limited_callers(table, at) {
                continue;
            }
            for (i, rule) in chain.rules.iter().enumerate() {
                if !is_log_rule(rule)
                    || has_limit_or_sampling_match(rule)
                    || !table.is_reachable_rule((at, i))
                {
                    continue;
                }
                let many =
                    format!("{{n}} rules of {} log every packet that they match", chain.name);
                let found = table.new_rule_finding(
                    &LOG_WITHOUT_LIMIT,
                    at,
                    i,
                    "this rule logs every packet that it matches",
                );
                out.push(
                    found
                        .with_help(
                            "add -m limit before -j LOG, so that a flood does not fill the disk",
                        )
                        .with_root_cause(RootCause::new(
                            table.root_cause_key(at, None),
                            many,
                            "logs every packet",
                        )),
                );
            }
        }
    }
}

fn is_log_rule(rule: &Rule) -> bool {
    matches!(&rule.target, Target::Effect(e)
        if matches!(&**e, Effect::Other(e) if matches!(e.module, "LOG" | "NFLOG")))
}

fn has_limit_or_sampling_match(rule: &Rule) -> bool {
    rule.matches.iter().any(|m| {
        matches!(m, Match::Stateful(s)
            if matches!(s.module, "limit" | "hashlimit" | "recent" | "quota" | "statistic"))
    })
}

/// Whether a chain is entered within a limit only.
fn has_only_limited_callers(table: &AnalyzedTable<'_>, chain: usize) -> bool {
    let callers = table.packet_set_flow.callers_of_chain(chain);
    !callers.is_empty()
        && callers.iter().all(|c| has_limit_or_sampling_match(&table.chain_at(c.0).rules[c.1]))
}
