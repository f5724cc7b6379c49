//! Later fragments, which have no ports, in rulesets that do not reassemble datagrams.

use weir_model::effect::{Conntrack, conntrack_of};
use weir_model::{Family, Field, Policy, Rule, TableName, Target, Test, tests_of};

use crate::context::{LintContext, TableContext};
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::lint::define;

define!(FRAGMENTS_SLIP_THROUGH, "fragments-slip-through", Note);

pub(crate) static FAMILY: LintFamily = LintFamily { lints: &[&FRAGMENTS_SLIP_THROUGH], look };

fn look(context: &LintContext<'_>, out: &mut Vec<Finding>) {
    for table in context.tables.iter().filter(|t| t.table.name == TableName::Filter) {
        // Where conntrack, `-m socket` or TPROXY is in use, rules see whole datagrams.
        if table.ruleset.rules().any(|(_, _, rule)| conntrack_of(rule) != Conntrack::No) {
            continue;
        }
        for (at, chain) in table.table.chains.iter().enumerate() {
            // To INPUT, IPv4 datagrams come put together.
            let is_met = match &*chain.name {
                "INPUT" => table.family() == Family::V6,
                name => name == "FORWARD",
            };
            if !is_met || !accepts_rest(table, at) {
                continue;
            }
            let drops_fragments = chain.rules.iter().position(|r| drops(r) && asks_fragment(r));
            let by_port = |r: &Rule| drops(r) && tests_port(r, table);
            let Some(i) = chain.rules.iter().position(by_port) else { continue };
            if drops_fragments.is_some_and(|f| f < i) {
                continue;
            }
            let message = "this rule tests ports, so it does not drop later fragments; they are \
                           accepted";
            let help = "drop fragments first (-f -j DROP), or let conntrack reassemble them";
            out.push(table.rule(&FRAGMENTS_SLIP_THROUGH, at, i, message).help(help));
        }
    }
}

/// Whether what no rule decided is accepted.
fn accepts_rest(table: &TableContext<'_>, at: usize) -> bool {
    let chain = table.chain(at);
    match table.catch_all[at] {
        Some(c) => table.chain(c.decides.0).rules[c.decides.1].target == Target::Accept,
        None => chain.policy == Some(Policy::Accept),
    }
}

fn drops(rule: &Rule) -> bool {
    matches!(rule.target, Target::Drop | Target::Reject(_))
}

fn asks_fragment(rule: &Rule) -> bool {
    rule.base.fragment.is_some_and(|f| !f.negated)
}

fn tests_port(rule: &Rule, table: &TableContext<'_>) -> bool {
    tests_of(rule, table.family()).iter().any(|t| {
        matches!(
            t,
            Test::EitherPort { .. } | Test::Field { field: Field::Sport | Field::Dport, .. }
        )
    })
}
