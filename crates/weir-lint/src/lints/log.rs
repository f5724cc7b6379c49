//! Rules that log every packet.

use weir_model::{Effect, Match, Rule, Target};

use crate::context::{LintContext, TableContext};
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::lint::define;
use crate::root_cause::RootCause;

define!(LOG_WITHOUT_LIMIT, "log-without-limit", Note);

pub(crate) static FAMILY: LintFamily = LintFamily { lints: &[&LOG_WITHOUT_LIMIT], look };

/// The rules of one chain are one finding, because rulesets that log usually log in many places.
fn look(context: &LintContext<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (at, chain) in table.table.chains.iter().enumerate() {
            if all_limited(table, at) {
                continue;
            }
            for (i, rule) in chain.rules.iter().enumerate() {
                if !logs(rule) || is_limited(rule) || !table.is_met((at, i)) {
                    continue;
                }
                let many =
                    format!("{{n}} rules of {} log every packet that they match", chain.name);
                let found = table.rule(
                    &LOG_WITHOUT_LIMIT,
                    at,
                    i,
                    "this rule logs every packet that it matches",
                );
                out.push(
                    found
                        .help("add -m limit before -j LOG, so that a flood does not fill the disk")
                        .caused(RootCause::new(table.key(at, None), many, "logs every packet")),
                );
            }
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
