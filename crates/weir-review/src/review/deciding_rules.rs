//! The rule of each side that decides a packet: in the first table whose verdict differs, or
//! otherwise the first rules with an effect that the other side does not have.

use weir_model::{
    Chain, Family, Firewall, Hook, Policy, Rule, SharedName, TableName, Target, iptables_tool_name,
};
use weir_semantics::trace::{Trace, TraceStep};

use super::review_types::{LocatedRuleOrPolicy, ReviewedRuleset, RulesetDecision};
use crate::explain::verdict_words;
use weir_semantics::Verdict;

/// A rule that matched, and its position in its chain.
#[derive(Clone, Copy, Debug)]
struct MatchedRule<'t> {
    chain: &'t SharedName,
    number: u32,
    rule: &'t Rule,
}

/// What a table did.
#[derive(Debug)]
struct TableVerdict<'t> {
    hook: Hook,
    table: TableName,
    verdict: Verdict,
    /// The chain whose policy decided, if it was one.
    policy_chain: Option<&'t SharedName>,
    /// The rules that jumped to the chain of the deciding rule, then the deciding rule.
    jumps_and_deciding_rule: Vec<MatchedRule<'t>>,
}

/// A rule with an effect.
struct EffectRule<'t> {
    hook: Hook,
    table: TableName,
    target: &'t Target,
    jumps_and_effect_rule: Vec<MatchedRule<'t>>,
}

/// What decided on each side.
pub(super) fn find_deciding_rules(
    traces: [&Trace<'_>; 2],
    sides: [ReviewedRuleset<'_>; 2],
    family: Family,
) -> [RulesetDecision; 2] {
    let [(judged_a, acted_a), (judged_b, acted_b)] = traces.map(collect_verdicts_and_effects);
    let [a, b] = traces.map(|t| verdict_words(t.outcome.verdict));
    let words =
        |side: usize, verdict: &String, found: Option<(&TableName, &Vec<MatchedRule<'_>>)>| {
            let rules = found.map(|(table, rules)| {
                rules.iter().map(|met| locate_rule(met, table, sides[side], family)).collect()
            });
            RulesetDecision::from_jumps_and_decider(verdict.clone(), rules.unwrap_or_default())
        };
    let judged = |side: usize, verdict: &String, found: Option<&TableVerdict<'_>>| match found {
        Some(TableVerdict { policy_chain: Some(chain), table, .. }) => {
            let at = locate_policy(chain, table, sides[side], family);
            RulesetDecision::from_jumps_and_decider(verdict.clone(), vec![at])
        }
        found => words(side, verdict, found.map(|j| (&j.table, &j.jumps_and_deciding_rule))),
    };
    if let Some((i, k)) = first_differing_table(&judged_a, &judged_b) {
        return [judged(0, &a, i), judged(1, &b, k)];
    }
    let only = |these: &[EffectRule<'_>], those: &[EffectRule<'_>]| {
        let mut left: Vec<_> = those.iter().map(|o| (o.hook, &o.table, o.target)).collect();
        these.iter().position(|one| {
            let at = left.iter().position(|o| *o == (one.hook, &one.table, one.target));
            at.map(|at| left.swap_remove(at)).is_none()
        })
    };
    let (i, k) = (only(&acted_a, &acted_b), only(&acted_b, &acted_a));
    if i.is_none() && k.is_none() {
        return [judged(0, &a, judged_a.last()), judged(1, &b, judged_b.last())];
    }
    let acted = |side, verdict, all: &[EffectRule<'_>], at: Option<usize>| {
        words(side, verdict, at.map(|at| (&all[at].table, &all[at].jumps_and_effect_rule)))
    };
    [acted(0, &a, &acted_a, i), acted(1, &b, &acted_b, k)]
}

/// The result of each table, and the effects.
fn collect_verdicts_and_effects<'t>(
    trace: &'t Trace<'_>,
) -> (Vec<TableVerdict<'t>>, Vec<EffectRule<'t>>) {
    let (mut judged, mut acted) = (Vec::new(), Vec::new());
    let mut hook_now = Hook::Prerouting;
    let mut rules: Vec<MatchedRule<'t>> = Vec::new();
    for step in &trace.steps {
        match step {
            TraceStep::EnterTable { hook, .. } => {
                hook_now = *hook;
                rules.clear();
            }
            TraceStep::TryRule { table, chain, depth, number, rule, failed } => {
                if failed.as_ref().is_some_and(|why| !why.hotdrop) {
                    continue;
                }
                rules.truncate(*depth);
                rules.push(MatchedRule { chain, number: *number, rule });
                let acts = matches!(
                    rule.target,
                    Target::Effect(_)
                        | Target::Nat(_)
                        | Target::Reject(_)
                        | Target::Divert(_)
                        | Target::Opaque(_)
                );
                if acts && failed.is_none() {
                    let (table, target) = (*table, &rule.target);
                    acted.push(EffectRule {
                        hook: hook_now,
                        table,
                        target,
                        jumps_and_effect_rule: rules.clone(),
                    });
                }
            }
            TraceStep::LeaveTable { table, chain, verdict, policy } => judged.push(TableVerdict {
                hook: hook_now,
                table: *table,
                verdict: *verdict,
                policy_chain: policy.then_some(*chain),
                jumps_and_deciding_rule: std::mem::take(&mut rules),
            }),
        }
    }
    (judged, acted)
}

/// The first table that both sides judge differently, or that only one has and that does not
/// accept.
fn first_differing_table<'j, 't>(
    a: &'j [TableVerdict<'t>],
    b: &'j [TableVerdict<'t>],
) -> Option<(Option<&'j TableVerdict<'t>>, Option<&'j TableVerdict<'t>>)> {
    let same = |x: &TableVerdict<'_>, y: &TableVerdict<'_>| x.hook == y.hook && x.table == y.table;
    for one in a {
        match b.iter().find(|other| same(one, other)) {
            Some(other) if other.verdict != one.verdict => return Some((Some(one), Some(other))),
            None if one.verdict != Verdict::Accept => return Some((Some(one), None)),
            _ => {}
        }
    }
    let alone = b
        .iter()
        .find(|one| one.verdict != Verdict::Accept && !a.iter().any(|other| same(one, other)));
    alone.map(|one| (None, Some(one)))
}

fn locate_rule(
    met: &MatchedRule<'_>,
    table: &TableName,
    side: ReviewedRuleset<'_>,
    family: Family,
) -> LocatedRuleOrPolicy {
    let line = (side.locate_line)(met.rule.span, family);
    let place = match (side.original_place)(met.rule) {
        Some(original) if line.is_none() => original,
        _ => format!("{}/{table}/{}/{}", iptables_tool_name(family), met.chain, met.number),
    };
    let words = weir_syntax::iptables::print_rule(met.rule, family);
    LocatedRuleOrPolicy::new(place, line, format!("-A {} {words}", met.chain).trim_end().to_owned())
}

fn locate_policy(
    chain: &SharedName,
    table: &TableName,
    side: ReviewedRuleset<'_>,
    family: Family,
) -> LocatedRuleOrPolicy {
    let found = find_chain(side.firewall, table, chain, family);
    let line = found.and_then(|found| (side.locate_line)(found.span, family));
    let policy = found.and_then(|c| c.policy).map_or("-", |policy| match policy {
        Policy::Accept => "ACCEPT",
        Policy::Drop => "DROP",
    });
    let place = format!("{}/{table}/{chain}/policy", iptables_tool_name(family));
    LocatedRuleOrPolicy::new(place, line, format!(":{chain} {policy}"))
}

fn find_chain<'f>(
    firewall: &'f Firewall,
    table: &TableName,
    chain: &SharedName,
    family: Family,
) -> Option<&'f Chain> {
    firewall.ruleset(family)?.table(table)?.chain(chain)
}
