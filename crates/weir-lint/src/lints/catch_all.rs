//! Rules behind one that takes every packet.

use std::collections::HashMap;

use weir_model::{Chain, Family, Ruleset, Table, Target, tests_of};

use crate::counts::target_name;
use crate::finding::Finding;
use crate::lint::{LintFamily, define};
use crate::report::{Context, TableContext};

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

/// Chains that no packet leaves undecided, by name.
pub(crate) type Closed<'a> = HashMap<&'a str, bool>;

/// The rule of each chain behind which no packet goes on: it has no tests and decides, or leads
/// into a chain that no packet leaves undecided.
pub(crate) fn of(ruleset: &Ruleset, table: &Table) -> Vec<Option<usize>> {
    let closed = closed(ruleset.family, table);
    let family = ruleset.family;
    let takes_all = |rule: &weir_model::Rule| {
        let decides =
            rule.target.decides() || matches!(rule.target, Target::Return | Target::Goto(_));
        (decides || jumps_into(rule, &closed)) && tests_of(rule, family).is_empty()
    };
    table.chains.iter().map(|c| c.rules.iter().position(takes_all)).collect()
}

/// True where the rule leads into a chain that no packet leaves undecided.
fn jumps_into(rule: &weir_model::Rule, closed: &Closed<'_>) -> bool {
    rule.target.chain().is_some_and(|to| closed.get(&**to).copied().unwrap_or(false))
}

/// Which chains no packet leaves undecided: a rule without tests decides or leads into such a
/// chain, and no rule before it returns. Callees first, without recursion.
pub(crate) fn closed(family: Family, table: &Table) -> Closed<'_> {
    let by_name: HashMap<&str, usize> =
        table.chains.iter().enumerate().map(|(i, c)| (&*c.name, i)).collect();
    let mut closed: Closed<'_> = HashMap::new();
    let mut begun = vec![false; table.chains.len()];
    for start in 0..table.chains.len() {
        let mut stack = vec![start];
        while let Some(&at) = stack.last() {
            let chain = &table.chains[at];
            let callees = chain.rules.iter().filter_map(|r| by_name.get(&**r.target.chain()?));
            let open: Vec<usize> = callees.copied().filter(|to| !begun[*to]).collect();
            if !std::mem::replace(&mut begun[at], true) && !open.is_empty() {
                stack.extend(open);
                continue;
            }
            stack.pop();
            if !closed.contains_key(&*chain.name) {
                let is = closes(chain, family, &closed);
                closed.insert(&chain.name, is);
            }
        }
    }
    closed
}

fn closes(chain: &Chain, family: Family, closed: &Closed<'_>) -> bool {
    for rule in &chain.rules {
        let into = jumps_into(rule, closed);
        match rule.target {
            Target::Return => return false,
            Target::Goto(_) if !into => return false,
            _ if !(into || rule.target.decides()) => {}
            _ if tests_of(rule, family).is_empty() => return true,
            _ => {}
        }
    }
    false
}
