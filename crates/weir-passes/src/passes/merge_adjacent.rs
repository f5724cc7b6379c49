//! `merge_adjacent`: merges adjacent rules that differ in one value, if the values form one value
//! together.
//!
//! Two halves of a prefix become the prefix, port 80 and port 81 become 80:81. The values share no
//! packet, so what matched one of the rules matches the merged one, once; this also holds for LOG
//! and jumps. Bit tests are never merged: `--tcp-flags SYN SYN` and `--tcp-flags ACK ACK` have
//! SYN+ACK in common, and no single test expresses both.
//!
//! Only the sum of the two counters is preserved, so the pass runs only if that is allowed.

use weir_artefact::Deviation;
use weir_model::rule_match::{Negatable, PortSpan};
use weir_model::{Family, Match, Rule, Ruleset, Span};
use weir_partition::TableBarriers;

use crate::pass::{CounterPreservation, Equivalence, Pass, PassContext};
use crate::rewrite::rewrite_chains;
use crate::rule_runs::AddressAxis;
use crate::{Prefix, RewrittenRuleset};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct MergeAdjacentPass;

impl Pass for MergeAdjacentPass {
    fn name(&self) -> &'static str {
        "merge_adjacent"
    }

    fn description(&self) -> &'static str {
        "merges adjacent rules whose prefixes or ports form one prefix or range"
    }

    fn counter_preservation(&self) -> CounterPreservation {
        CounterPreservation::Lost
    }

    fn equivalence(&self) -> Equivalence {
        Equivalence::SummedCounters
    }

    fn deviation(&self) -> Option<Deviation> {
        Some(Deviation::SummedCounters)
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let family = ruleset.family;
        rewrite_chains(ruleset, context, |chain, (_, barriers), made| {
            let mut out: Vec<Rule> = Vec::with_capacity(chain.rules.len());
            for rule in &chain.rules {
                let mut rule = rule.clone();
                while let Some(merged) =
                    out.last().and_then(|last| merge_rules(last, &rule, family, barriers))
                {
                    out.pop();
                    rule = merged;
                }
                out.push(rule);
            }
            for rule in out.iter().filter(|r| r.credited_originals.len() > 1) {
                made.record_compiled_run(
                    context,
                    &rule.credited_originals,
                    rule.credited_originals.len(),
                    "one rule".to_owned(),
                );
            }
            (out.len() < chain.rules.len()).then_some(out)
        })
    }
}

/// One rule for two neighbours; `None` if there is none.
fn merge_rules(a: &Rule, b: &Rule, family: Family, barriers: &TableBarriers<'_>) -> Option<Rule> {
    if a.target != b.target || a.credited_originals.is_empty() || b.credited_originals.is_empty() {
        return None;
    }
    if [a, b].into_iter().any(|rule| barriers.find_barrier_reason(rule).is_some()) {
        return None;
    }
    let tests = if a.matches == b.matches {
        merge_rules_of_prefix_halves(a, b, family)?
    } else {
        (a.base == b.base).then_some(())?;
        merge_rules_of_adjacent_ports(a, b)?
    };
    let mut merged = Rule { span: Span::NONE, match_and_target_spans: Vec::new(), ..tests };
    merged.credited_originals.extend(b.credited_originals.iter().copied());
    merged.leading_comments.extend(b.leading_comments.iter().cloned());
    merged.counters = None;
    Some(merged)
}

/// The two halves of a prefix.
fn merge_rules_of_prefix_halves(a: &Rule, b: &Rule, family: Family) -> Option<Rule> {
    for axis in AddressAxis::BOTH {
        let (Some(p), Some(q)) =
            (axis.find_tested_plain_prefix(a, family), axis.find_tested_plain_prefix(b, family))
        else {
            continue;
        };
        let wider = p.len.checked_sub(1).map(|len| Prefix::containing_addr(family, p.addr, len))?;
        if p.len != q.len || p == q || !wider.covers(family, q) {
            continue;
        }
        let (mut merged, mut other) = (a.clone(), b.clone());
        axis.set_prefix(&mut merged, family, wider);
        axis.set_prefix(&mut other, family, wider);
        if merged.base == other.base {
            return Some(merged);
        }
    }
    None
}

/// Two spans of ports, one right after the other.
fn merge_rules_of_adjacent_ports(a: &Rule, b: &Rule) -> Option<Rule> {
    let mut merged = a.clone();
    if a.matches.len() != b.matches.len() {
        return None;
    }
    let mut differing = merged.matches.iter_mut().zip(&b.matches).filter(|(x, y)| *x != *y);
    let (mine, theirs) = differing.next()?;
    if differing.next().is_some() {
        return None;
    }
    for i in 0..2 {
        let (Some(x), Some(y)) = (
            sport_or_dport_test_of_match(mine, i).cloned(),
            sport_or_dport_test_of_match(theirs, i),
        ) else {
            continue;
        };
        let touch = |x: &PortSpan, y: &PortSpan| x.hi.checked_add(1) == Some(y.lo);
        if x.negated || y.negated || !(touch(&x.value, &y.value) || touch(&y.value, &x.value)) {
            continue;
        }
        let lo = x.value.lo.min(y.value.lo);
        let hi = x.value.hi.max(y.value.hi);
        let mut both = (mine.clone(), theirs.clone());
        for m in [&mut both.0, &mut both.1] {
            *sport_or_dport_test_of_match_mut(m, i)? =
                Some(Negatable { negated: false, value: PortSpan { lo, hi } });
        }
        if both.0 == both.1 {
            *mine = both.0;
            return Some(merged);
        }
    }
    None
}

fn sport_or_dport_test_of_match(m: &Match, i: usize) -> Option<&Negatable<PortSpan>> {
    match m {
        Match::Tcp { sport, dport, .. }
        | Match::Udp { sport, dport }
        | Match::Sctp { sport, dport, .. }
        | Match::Dccp { sport, dport, .. } => [sport, dport][i].as_ref(),
        _ => None,
    }
}

fn sport_or_dport_test_of_match_mut(
    m: &mut Match,
    i: usize,
) -> Option<&mut Option<Negatable<PortSpan>>> {
    match m {
        Match::Tcp { sport, dport, .. }
        | Match::Udp { sport, dport }
        | Match::Sctp { sport, dport, .. }
        | Match::Dccp { sport, dport, .. } => Some(if i == 0 { sport } else { dport }),
        _ => None,
    }
}
