//! The rule of each side that decides a packet: in the first table whose verdict differs, or
//! otherwise the first rules with an effect that the other side does not have.

use weir_model::{Chain, Family, Firewall, Hook, Name, Policy, Rule, TableName, Target};
use weir_semantics::trace::{Trace, TraceStep};

use super::values::{DecidedBy, ReviewSide, RuleAt};
use crate::explain::verdict_words;
use weir_semantics::Verdict;

/// A rule that matched, with the rules that jumped to its chain before it.
#[derive(Clone, Copy, Debug)]
struct Met<'t> {
    chain: &'t Name,
    number: u32,
    rule: &'t Rule,
}

/// What a table did.
#[derive(Debug)]
struct Judged<'t> {
    hook: Hook,
    table: TableName,
    verdict: Verdict,
    /// The chain whose policy decided, if it was one.
    policy: Option<&'t Name>,
    /// The rule that decided, the last, after the jumps to it.
    rules: Vec<Met<'t>>,
}

/// A rule with an effect.
struct Acted<'t> {
    hook: Hook,
    table: TableName,
    target: &'t Target,
    rules: Vec<Met<'t>>,
}

/// What decided on each side.
pub(super) fn decide(
    traces: [&Trace<'_>; 2],
    sides: [ReviewSide<'_>; 2],
    family: Family,
) -> [DecidedBy; 2] {
    let [(judged_a, acted_a), (judged_b, acted_b)] = traces.map(read);
    let [a, b] = traces.map(|t| verdict_words(t.outcome.verdict));
    let words = |side: usize, verdict: &String, found: Option<(&TableName, &Vec<Met<'_>>)>| {
        let rules = found.map(|(table, rules)| {
            rules.iter().map(|met| rule_at(met, table, sides[side], family)).collect()
        });
        DecidedBy::of(verdict.clone(), rules.unwrap_or_default())
    };
    let judged = |side: usize, verdict: &String, found: Option<&Judged<'_>>| match found {
        Some(Judged { policy: Some(chain), table, .. }) => {
            let at = policy_at(chain, table, sides[side], family);
            DecidedBy::of(verdict.clone(), vec![at])
        }
        found => words(side, verdict, found.map(|j| (&j.table, &j.rules))),
    };
    if let Some((i, k)) = first_apart(&judged_a, &judged_b) {
        return [judged(0, &a, i), judged(1, &b, k)];
    }
    let only = |these: &[Acted<'_>], those: &[Acted<'_>]| {
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
    let acted = |side, verdict, all: &[Acted<'_>], at: Option<usize>| {
        words(side, verdict, at.map(|at| (&all[at].table, &all[at].rules)))
    };
    [acted(0, &a, &acted_a, i), acted(1, &b, &acted_b, k)]
}

/// The result of each table, and the effects.
fn read<'t>(trace: &'t Trace<'_>) -> (Vec<Judged<'t>>, Vec<Acted<'t>>) {
    let (mut judged, mut acted) = (Vec::new(), Vec::new());
    let mut hook_now = Hook::Prerouting;
    let mut rules: Vec<Met<'t>> = Vec::new();
    for step in &trace.steps {
        match step {
            TraceStep::Table { hook, .. } => {
                hook_now = *hook;
                rules.clear();
            }
            TraceStep::Rule { table, chain, depth, number, rule, failed } => {
                if failed.as_ref().is_some_and(|why| !why.hotdrop) {
                    continue;
                }
                rules.truncate(*depth);
                rules.push(Met { chain, number: *number, rule });
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
                    acted.push(Acted { hook: hook_now, table, target, rules: rules.clone() });
                }
            }
            TraceStep::Verdict { table, chain, verdict, policy } => judged.push(Judged {
                hook: hook_now,
                table: *table,
                verdict: *verdict,
                policy: policy.then_some(*chain),
                rules: std::mem::take(&mut rules),
            }),
        }
    }
    (judged, acted)
}

/// The first table that both sides judge differently, or that only one has and that does not accept.
fn first_apart<'j, 't>(
    a: &'j [Judged<'t>],
    b: &'j [Judged<'t>],
) -> Option<(Option<&'j Judged<'t>>, Option<&'j Judged<'t>>)> {
    let same = |x: &Judged<'_>, y: &Judged<'_>| x.hook == y.hook && x.table == y.table;
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

fn rule_at(met: &Met<'_>, table: &TableName, side: ReviewSide<'_>, family: Family) -> RuleAt {
    let line = (side.line)(met.rule.span, family);
    let place = match (side.original)(met.rule) {
        Some(original) if line.is_none() => original,
        _ => format!("{}/{table}/{}/{}", tool(family), met.chain, met.number),
    };
    let words = weir_syntax::iptables::print_rule(met.rule, family);
    RuleAt::of(place, line, format!("-A {} {words}", met.chain).trim_end().to_owned())
}

fn policy_at(chain: &Name, table: &TableName, side: ReviewSide<'_>, family: Family) -> RuleAt {
    let found = find_chain(side.firewall, table, chain, family);
    let line = found.and_then(|found| (side.line)(found.span, family));
    let policy = found.and_then(|c| c.policy).map_or("-", |policy| match policy {
        Policy::Accept => "ACCEPT",
        Policy::Drop => "DROP",
    });
    let place = format!("{}/{table}/{chain}/policy", tool(family));
    RuleAt::of(place, line, format!(":{chain} {policy}"))
}

fn find_chain<'f>(
    firewall: &'f Firewall,
    table: &TableName,
    chain: &Name,
    family: Family,
) -> Option<&'f Chain> {
    firewall.ruleset(family)?.table(table)?.chain(chain)
}

const fn tool(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}
