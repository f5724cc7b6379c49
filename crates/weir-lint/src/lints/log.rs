//! Rules that write a line for every packet.

use weir_model::{Effect, Match, Rule, Target};

use crate::context::{Context, TableContext};
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::lint::define;

define!(LOG_WITHOUT_LIMIT, "log-without-limit", Note);

pub(crate) static FAMILY: LintFamily = LintFamily { lints: &[&LOG_WITHOUT_LIMIT], look };

/// One finding a chain: who logs mostly logs often.
fn look(context: &Context<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (at, chain) in table.table.chains.iter().enumerate() {
            if !table.reachable[at] || all_limited(table, at) {
                continue;
            }
            let logs = |r: &Rule| logs(r) && !is_limited(r);
            let tried = table.catch_all[at].unwrap_or(chain.rules.len());
            let rules = &chain.rules[..tried];
            let count = rules.iter().filter(|r| logs(r)).count();
            let Some(first) = rules.iter().position(logs) else { continue };
            let message = match count {
                1 => "the rule logs every packet that it matches".to_owned(),
                n => format!("{n} rules of {} from here log every packet", chain.name),
            };
            let help = "add -m limit before -j LOG: who floods the rule floods the disk";
            out.push(table.rule(&LOG_WITHOUT_LIMIT, at, first, message).help(help));
        }
    }
}

fn logs(rule: &Rule) -> bool {
    matches!(&rule.target, Target::Effect(e)
        if matches!(&**e, Effect::Other(e) if matches!(e.module, "LOG" | "NFLOG")))
}

fn is_limited(rule: &Rule) -> bool {
    rule.matches.iter().any(|m| {
        matches!(m, Match::Stateful(s)
            if matches!(s.module, "limit" | "hashlimit" | "recent" | "quota" | "statistic"))
    })
}

/// Whether a chain is entered within a limit only.
fn all_limited(table: &TableContext<'_>, chain: usize) -> bool {
    let callers = table.flow.callers(chain);
    !callers.is_empty() && callers.iter().all(|c| is_limited(&table.chain(c.0).rules[c.1]))
}
