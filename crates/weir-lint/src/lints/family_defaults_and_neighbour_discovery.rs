//! IPv4 and IPv6 rulesets of one host that differ in their default.

use weir_model::{Family, Policy, Rule, TableName, Target};

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;

define_lint!(FAMILIES_DIFFER, "families-differ", Warning);
define_lint!(NEIGHBOURS_DROPPED, "neighbours-dropped", Warning);

pub(crate) static LINT_FAMILY: LintFamily =
    LintFamily { lints: &[&FAMILIES_DIFFER, &NEIGHBOURS_DROPPED], run_lints };

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    let filter = |family| {
        let is = |t: &&AnalyzedTable<'_>| t.family() == family && t.table.name == TableName::Filter;
        context.tables.iter().find(is)
    };
    if let Some(v6) = filter(Family::V6) {
        report_ndp_accepted_by_no_rule(v6, out);
        if let Some(v4) = filter(Family::V4) {
            report_differing_defaults(v4, v6, out);
        }
    }
}

/// Whether a built-in chain drops what no rule decided.
fn chain_index_and_drops_by_default(
    table: &AnalyzedTable<'_>,
    name: &str,
) -> Option<(usize, bool)> {
    let at = table.table.chains.iter().position(|c| &*c.name == name)?;
    let chain = table.chain_at(at);
    let last = table.catch_all_rules[at]
        .map(|c| &table.chain_at(c.deciding_rule.0).rules[c.deciding_rule.1].target);
    let closed = match last {
        Some(Target::Drop | Target::Reject(_)) => true,
        Some(Target::Accept) => false,
        // Packets that return from a built-in chain get its policy; other targets are not examined.
        Some(_) | None => chain.policy == Some(Policy::Drop),
    };
    Some((at, closed))
}

fn report_differing_defaults(
    v4: &AnalyzedTable<'_>,
    v6: &AnalyzedTable<'_>,
    out: &mut Vec<Finding>,
) {
    for name in ["INPUT", "FORWARD"] {
        let (Some((at4, closed4)), Some((at6, closed6))) = (
            chain_index_and_drops_by_default(v4, name),
            chain_index_and_drops_by_default(v6, name),
        ) else {
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
        out.push(open.new_chain_finding(&FAMILIES_DIFFER, at, message).with_help(help));
    }
}

/// Without neighbour discovery (ICMPv6 types 133 to 136) no IPv6 packet can be delivered.
fn report_ndp_accepted_by_no_rule(table: &AnalyzedTable<'_>, out: &mut Vec<Finding>) {
    let Some((at, true)) = chain_index_and_drops_by_default(table, "INPUT") else { return };
    let may_be = |chain: usize, rule: usize| {
        table.packet_set_flow.may_match_neighbour_discovery((chain, rule))
    };
    let mut reached = vec![false; table.table.chains.len()];
    let graph = table.packet_set_flow.chain_graph();
    for chain in graph.mark_newly_reachable([at], &mut reached, |jump| may_be(jump.from, jump.rule))
    {
        let accepts = |(i, rule): (usize, &Rule)| {
            matches!(rule.target, Target::Accept | Target::Opaque(_)) && may_be(chain, i)
        };
        if table.chain_at(chain).rules.iter().enumerate().any(accepts) {
            return;
        }
    }
    let message = "INPUT drops neighbour discovery: no rule accepts ICMPv6 types 135 and 136";
    let help = "accept -p ipv6-icmp, or at least types 133 to 136 with hop limit 255";
    out.push(table.new_chain_finding(&NEIGHBOURS_DROPPED, at, message).with_help(help));
}
