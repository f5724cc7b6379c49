//! Rules after one that matches every packet.

use crate::context::{LintContext, TableContext};
use crate::counts::target_name;
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::lint::define;
use crate::root_cause::RootCause;

define!(RULE_AFTER_CATCH_ALL, "rule-after-catch-all", Warning, fix);

pub(crate) static FAMILY: LintFamily = LintFamily { lints: &[&RULE_AFTER_CATCH_ALL], look };

fn look(context: &LintContext<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for chain in (0..table.catch_all.len()).filter(|c| table.reachable[*c]) {
            behind(table, chain, out);
        }
    }
}

/// The rules after the catch-all of a chain, and the chains that only they lead to. The catch-all
/// is to blame, or what decides in the chain that it leads to.
fn behind(table: &TableContext<'_>, at: usize, out: &mut Vec<Finding>) {
    let Some(by) = table.catch_all[at] else { return };
    let chain = table.chain(at);
    let number = by.rule + 1;
    let target = target_name(&chain.rules[by.rule].target);
    let jumps = (by.decides != (at, by.rule)).then(|| {
        table.beside(by.decides.0, by.decides.1, "matches every packet that reaches this chain")
    });
    let takes = format!("rule {number} of {} matches every packet ({target})", chain.name);
    let cause = || {
        let one = format!("{takes}: no packet reaches the rule after it");
        let many = format!("{takes}: no packet reaches what follows it ({{n}} places)");
        RootCause::new(table.key(at, None), many, "never reached")
            .blames(table.at(at, Some(by.rule)), one)
    };
    let writer = table.writer(by.decides);
    let help =
        format!("move rule {number} to the end of {}, or remove what follows it", chain.name);
    let mut add = |found: Finding| {
        let found = found.help(help.clone()).by(writer).caused(cause());
        out.push(jumps.iter().cloned().fold(found, Finding::also));
    };
    for rule in by.rule + 1..chain.rules.len() {
        let message = format!("no packet reaches this rule: {takes}");
        let found = table.rule(&RULE_AFTER_CATCH_ALL, at, rule, message);
        add(found.fix(vec![table.removal(at, rule)]));
    }
    for to in (0..table.cut_off.len()).filter(|c| table.cut_off[*c] == Some(at)) {
        add(table.of_chain(
            &RULE_AFTER_CATCH_ALL,
            to,
            format!("no packet enters this chain: {takes}"),
        ));
    }
}
