//! IPv4 and IPv6 rulesets of one host that differ in their default.

use weir_model::{Family, Policy, Rule, TableName, Target};

use crate::context::{LintContext, TableContext};
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::lint::define;

define!(FAMILIES_DIFFER, "families-differ", Warning);
define!(NEIGHBOURS_DROPPED, "neighbours-dropped", Warning);

pub(crate) static FAMILY: LintFamily =
    LintFamily { lints: &[&FAMILIES_DIFFER, &NEIGHBOURS_DROPPED], look };

fn look(context: &LintContext<'_>, out: &mut Vec<Finding>) {
    let filter = |family| {
        let is = |t: &&TableContext<'_>| t.family() == family && t.table.name == TableName::Filter;
        context.tables.iter().find(is)
    };
    if let Some(v6) = filter(Family::V6) {
        neighbours(v6, out);
        if let Some(v4) = filter(Family::V4) {
            differ(v4, v6, out);
        }
    }
}

/// Whether a built-in chain drops what no rule decided.
fn is_closed(table: &TableContext<'_>, name: &str) -> Option<(usize, bool)> {
    let at = table.table.chains.iter().position(|c| &*c.name == name)?;
    let chain = table.chain(at);
    let last = table.catch_all[at].map(|c| &table.chain(c.decides.0).rules[c.decides.1].target);
    let closed = match last {
        Some(Target::Drop | Target::Reject(_)) => true,
        Some(Target::Accept) => false,
        // Packets that return from a built-in chain get its policy; other targets are not examined.
        Some(_) | None => chain.policy == Some(Policy::Drop),
    };
    Some((at, closed))
}

fn differ(v4: &TableContext<'_>, v6: &TableContext<'_>, out: &mut Vec<Finding>) {
    for name in ["INPUT", "FORWARD"] {
        let (Some((at4, closed4)), Some((at6, closed6))) =
            (is_closed(v4, name), is_closed(v6, name))
        else {
            continue;
        };
        if closed4 == closed6 {
            continue;
        }
        let (open, at, which) = if closed4 { (v6, at6, "IPv6") } else { (v4, at4, "IPv4") };
        let other = if closed4 { "IPv4" } else { "IPv6" };
        let message = format!(
            "{name} accepts packets that match no rule over {which} and drops them over {other}"
        );
        let help = "set the same policy for both families";
        out.push(open.of_chain(&FAMILIES_DIFFER, at, message).help(help));
    }
}

/// Without neighbour discovery (ICMPv6 types 133 to 136) no IPv6 packet can be delivered.
fn neighbours(table: &TableContext<'_>, out: &mut Vec<Finding>) {
    let Some((at, true)) = is_closed(table, "INPUT") else { return };
    let may_be = |chain: usize, rule: usize| table.flow.may_be_neighbour((chain, rule));
    let mut reached = vec![false; table.table.chains.len()];
    let graph = table.flow.graph();
    for chain in graph.spread([at], &mut reached, |jump| may_be(jump.from, jump.rule)) {
        let accepts = |(i, rule): (usize, &Rule)| {
            matches!(rule.target, Target::Accept | Target::Opaque(_)) && may_be(chain, i)
        };
        if table.chain(chain).rules.iter().enumerate().any(accepts) {
            return;
        }
    }
    let message = "INPUT drops neighbour discovery: no rule accepts ICMPv6 types 135 and 136";
    let help = "accept -p ipv6-icmp, or at least types 133 to 136 with hop limit 255";
    out.push(table.of_chain(&NEIGHBOURS_DROPPED, at, message).help(help));
}
