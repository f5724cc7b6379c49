//! Pairs of overlapping rules with different decisions, in the terms of the firewall literature
//! (Al-Shaer and Hamed, 2004). Exceptions are deliberately written this way, so these lints are off
//! by default.

use weir_model::Target;
use weir_partition::HyperRect;

use crate::context::{LintContext, TableContext};
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::flow::FlowPosition;
use crate::lint::define;

define!(CORRELATED_RULES, "correlated-rules", Note, off);
define!(GENERALISED_RULE, "generalised-rule", Note, off);

pub(crate) static FAMILY: LintFamily =
    LintFamily { lints: &[&CORRELATED_RULES, &GENERALISED_RULE], look };

fn look(context: &LintContext<'_>, out: &mut Vec<Finding>) {
    let asked = |lint| context.options.levels.of(lint) != crate::Level::Allow;
    if !asked(&CORRELATED_RULES) && !asked(&GENERALISED_RULE) {
        return;
    }
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            if table.reachable[chain] && rule.target.decides() {
                out.extend(pairs(table, (chain, i)));
            }
        }
    }
}

/// The first earlier rule of each kind.
fn pairs(table: &TableContext<'_>, at: FlowPosition) -> Vec<Finding> {
    let target = |at: FlowPosition| &table.chain(at.0).rules[at.1].target;
    let accepts = |t: &Target| matches!(t, Target::Accept | Target::Nat(_));
    let (mut correlated, mut general) = (None, None);
    for earlier in table.flow.deciding_before(at) {
        if accepts(target(earlier)) == accepts(target(at)) {
            continue;
        }
        let (a, b) = (&table.flow.reach(at).cells, &table.flow.reach(earlier).cells);
        let within =
            |a: &[_], b: &[HyperRect]| b.iter().all(|b| a.iter().any(|a: &HyperRect| a.holds(b)));
        match (within(a, b), within(b, a)) {
            (true, false) => general = general.or(Some(earlier)),
            (false, false) => correlated = correlated.or(Some(earlier)),
            _ => {}
        }
    }
    let mut out = Vec::new();
    if let Some(e) = general {
        let message = format!("this rule covers rule {}, which has a different target", e.1 + 1);
        let found = table.rule(&GENERALISED_RULE, at.0, at.1, message);
        out.push(
            found
                .also(table.beside(e.0, e.1, "exception to it"))
                .help("keep their order: the earlier rule is an exception"),
        );
    }
    if let Some(e) = correlated {
        let message = format!("this rule and rule {} overlap, with different targets", e.1 + 1);
        let found = table.rule(&CORRELATED_RULES, at.0, at.1, message);
        out.push(
            found
                .also(table.beside(
                    e.0,
                    e.1,
                    "comes first, so it applies to the packets that both match",
                ))
                .help("keep their order, or narrow one of them"),
        );
    }
    out
}
