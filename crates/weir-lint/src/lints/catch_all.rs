//! Rules behind one that takes every packet.

use crate::context::{Context, TableContext};
use crate::counts::target_name;
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::lint::define;

define!(RULE_AFTER_CATCH_ALL, "rule-after-catch-all", Warning, fix);

pub(crate) static FAMILY: LintFamily = LintFamily { lints: &[&RULE_AFTER_CATCH_ALL], look };

fn look(context: &Context<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (chain, by) in table.catch_all.iter().enumerate() {
            let Some(by) = *by else { continue };
            if table.reachable[chain] && by + 1 < table.chain(chain).rules.len() {
                out.push(behind(table, chain, by));
            }
        }
    }
}

/// One finding says it for all that follow.
fn behind(table: &TableContext<'_>, at: usize, by: usize) -> Finding {
    let chain = table.chain(at);
    let target = target_name(&chain.rules[by].target);
    let more = chain.rules.len() - by - 1;
    let rules = if more == 1 { "this rule".to_owned() } else { format!("{more} rules from here") };
    let number = by + 1;
    let message = format!(
        "no packet reaches {rules}: rule {number} of {} takes every packet ({target})",
        chain.name
    );
    let edits = (by + 1..chain.rules.len()).map(|i| table.removal(at, i)).collect();
    table
        .rule(&RULE_AFTER_CATCH_ALL, at, by + 1, message)
        .also(table.beside(at, by, "takes every packet"))
        .help(format!("move rule {number} to the end, or remove what follows it"))
        .fix(edits)
}
