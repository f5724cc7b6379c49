//! Rules after one that matches every packet.

use std::collections::HashMap;

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;
use crate::root_cause::RootCause;
use crate::ruleset_counts::target_name_or_jump_kind;

define_lint!(RULE_AFTER_CATCH_ALL, "rule-after-catch-all", Warning, fix);

pub(crate) static LINT_FAMILY: LintFamily =
    LintFamily { lints: &[&RULE_AFTER_CATCH_ALL], run_lints };

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        let mut chains_behind: HashMap<usize, Vec<usize>> = HashMap::new();
        for (chain, behind) in table.chains_behind_catch_all.iter().enumerate() {
            if let Some(at) = behind {
                chains_behind.entry(*at).or_default().push(chain);
            }
        }
        for chain in (0..table.catch_all_rules.len()).filter(|c| table.reachable_chains[*c]) {
            let chains = chains_behind.get(&chain).map_or(&[][..], Vec::as_slice);
            report_rules_and_chains_behind_catch_all(table, chain, chains, out);
        }
    }
}

/// The rules after the catch-all of a chain, and `chains`, to which only they lead. The catch-all is
/// to blame, or what decides in the chain that it leads to.
fn report_rules_and_chains_behind_catch_all(
    table: &AnalyzedTable<'_>,
    at: usize,
    chains: &[usize],
    out: &mut Vec<Finding>,
) {
    let Some(by) = table.catch_all_rules[at] else { return };
    let chain = table.chain_at(at);
    let number = by.rule + 1;
    let target = target_name_or_jump_kind(&chain.rules[by.rule].target);
    let jumps = (by.deciding_rule != (at, by.rule)).then(|| {
        table.related_place_of_rule(
            by.deciding_rule.0,
            by.deciding_rule.1,
            "matches every packet that reaches this chain",
        )
    });
    let takes = format!("rule {number} of {} matches every packet ({target})", chain.name);
    let cause = || {
        let one = format!("{takes}: no packet reaches the rule after it");
        let many = format!("{takes}: no packet reaches what follows it ({{n}} places)");
        RootCause::new(table.root_cause_key(at, None), many, "never reached")
            .with_blamed_place(table.rule_or_chain_id_and_span(at, Some(by.rule)), one)
    };
    let writer = table.program_of_rule(by.deciding_rule);
    let help =
        format!("move rule {number} to the end of {}, or remove what follows it", chain.name);
    let mut add = |found: Finding| {
        let found =
            found.with_help(help.clone()).with_blamed_program(writer).with_root_cause(cause());
        out.push(jumps.iter().cloned().fold(found, Finding::with_related_place));
    };
    for rule in by.rule + 1..chain.rules.len() {
        let message = format!("no packet reaches this rule: {takes}");
        let found = table.new_rule_finding(&RULE_AFTER_CATCH_ALL, at, rule, message);
        add(found.with_fix(vec![table.edit_removing_rule(at, rule)]));
    }
    for to in chains {
        add(table.new_chain_finding(
            &RULE_AFTER_CATCH_ALL,
            *to,
            format!("no packet enters this chain: {takes}"),
        ));
    }
}
