//! Pairs of overlapping rules with different decisions, in the terms of the firewall literature
//! (Al-Shaer and Hamed, 2004). Exceptions are deliberately written this way, so these lints are off
//! by default.

use weir_model::Target;

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;
use crate::packet_set_flow::RulePosition;

define_lint!(CORRELATED_RULES, "correlated-rules", Note, off);
define_lint!(GENERALISED_RULE, "generalised-rule", Note, off);

pub(crate) static LINT_FAMILY: LintFamily =
    LintFamily { lints: &[&CORRELATED_RULES, &GENERALISED_RULE], run_lints };

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    let asked = |lint| context.options.levels.effective_level(lint) != crate::LintLevel::Allow;
    if !asked(&CORRELATED_RULES) && !asked(&GENERALISED_RULE) {
        return;
    }
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            if table.reachable_chains[chain] && rule.target.is_terminating() {
                out.extend(build_first_overlap_finding_per_kind(table, (chain, i)));
            }
        }
    }
}

/// The first earlier rule of each kind.
fn build_first_overlap_finding_per_kind(
    table: &AnalyzedTable<'_>,
    at: RulePosition,
) -> Vec<Finding> {
    let target = |at: RulePosition| &table.chain_at(at.0).rules[at.1].target;
    let accepts = |t: &Target| matches!(t, Target::Accept | Target::Nat(_));
    let (mut correlated, mut general) = (None, None);
    let is_approximated = |at| table.packet_set_flow.rule_boxes(at).is_approximated();
    if is_approximated(at) {
        return Vec::new();
    }
    for earlier in table.packet_set_flow.find_earlier_overlapping_deciders(at) {
        if accepts(target(earlier)) == accepts(target(at)) || is_approximated(earlier) {
            continue;
        }
        let boxes = |at| table.packet_set_flow.rule_boxes(at).boxes_maybe_matched();
        let within = |a, b| boxes(b).all(|b| boxes(a).any(|a| a.covers(b)));
        match (within(at, earlier), within(earlier, at)) {
            (true, false) => general = general.or(Some(earlier)),
            (false, false) => correlated = correlated.or(Some(earlier)),
            _ => {}
        }
    }
    let mut out = Vec::new();
    if let Some(e) = general {
        let message = format!("this rule covers rule {}, which has a different target", e.1 + 1);
        let found = table.new_rule_finding(&GENERALISED_RULE, at.0, at.1, message);
        out.push(
            found
                .with_related_place(table.related_place_of_rule(e.0, e.1, "exception to it"))
                .with_help("keep their order: the earlier rule is an exception"),
        );
    }
    if let Some(e) = correlated {
        let message = format!("this rule and rule {} overlap, with different targets", e.1 + 1);
        let found = table.new_rule_finding(&CORRELATED_RULES, at.0, at.1, message);
        out.push(
            found
                .with_related_place(table.related_place_of_rule(
                    e.0,
                    e.1,
                    "comes first, so it applies to the packets that both match",
                ))
                .with_help("keep their order, or narrow one of them"),
        );
    }
    out
}
