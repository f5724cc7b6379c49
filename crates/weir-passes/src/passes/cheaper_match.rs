//! `cheaper_match`: replaces matches by cheaper equivalents.
//!
//! - A `u32` expression that reads a header field (source, destination, protocol, length, time to
//!   live, fragment offset of IPv4) becomes that header's match, because `u32` copies bytes out of
//!   the packet for every step.
//! - `string --algo kmp` becomes `--algo bm`, which need not examine every byte. There is one
//!   difference, which the manifest states: Boyer-Moore does not find a pattern that crosses two
//!   memory fragments of a packet (lib/ts_bm.c).
//! - A match that earlier tests imply is dropped: a bare `-m tcp` in addition to one with ports, a
//!   repeated state.
//!
//! A header test is evaluated before all matches. So an expression after a match that may drop a
//! truncated header, or count something, stays. Stateful rules are not changed.

use weir_artefact::Deviation;
use weir_model::rule_match::{
    AddrMatch, ExtensionValue, FragmentMatch, Negatable, ProtoMatch, TtlComparison,
    UnmodelledInputMatch,
};
use weir_model::{
    Addr, BaseMatch, Family, Match, Rule, Ruleset, Span, U32HeaderTest,
    lower_to_tests_with_match_index,
};
use weir_partition::{
    BarrierReason, TestAlgebra, find_barrier_reason, is_stateful_rule, take_tests_before_transport,
};

use crate::RewrittenRuleset;
use crate::pass::{Equivalence, Pass, PassContext};
use crate::rewrite::rewrite_chains;

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct CheaperMatchPass;

impl Pass for CheaperMatchPass {
    fn name(&self) -> &'static str {
        "cheaper_match"
    }

    fn description(&self) -> &'static str {
        "replaces u32 and string by cheaper matches, and drops tests that others imply"
    }

    fn equivalence(&self) -> Equivalence {
        Equivalence::StrictOnPacketBytes
    }

    fn deviation(&self) -> Option<Deviation> {
        Some(Deviation::NonlinearStringMatch)
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let family = ruleset.family;
        rewrite_chains(ruleset, context, |chain, (algebra, _), made| {
            let mut rules = chain.rules.clone();
            for rule in &mut rules {
                if is_stateful_rule(rule, family)
                    || find_barrier_reason(rule, family) == Some(BarrierReason::IpsetMatch)
                {
                    continue;
                }
                let before = (rule.base.clone(), rule.matches.clone());
                replace_u32_by_header_test(rule, family);
                set_string_match_algorithm_to_boyer_moore(rule);
                drop_implied_matches(rule, algebra, family);
                if before != (rule.base.clone(), rule.matches.clone()) {
                    (rule.span, rule.match_and_target_spans) = (Span::NONE, Vec::new());
                    made.record_compiled_run(
                        context,
                        &rule.credited_originals,
                        1,
                        "cheaper matches".to_owned(),
                    );
                }
            }
            (rules != chain.rules).then_some(rules)
        })
    }
}

/// Puts `u32` expressions that name a header field into the rule's header tests.
fn replace_u32_by_header_test(rule: &mut Rule, family: Family) {
    let mut i = 0;
    while i < rule.matches.len() && family == Family::V4 {
        let ahead = Rule { matches: rule.matches[..i].to_vec(), ..rule.clone() };
        let tests = weir_model::lower_to_tests(&ahead, family);
        // A truncated header dropped packets that the header test would now keep away.
        if take_tests_before_transport(&tests).len() < tests.len() {
            return;
        }
        let test = match U32HeaderTest::from_match(&rule.matches[i]) {
            Some((test, false)) => Some(test),
            _ => None,
        };
        match test.and_then(|test| apply_or_return_u32_replacement(&mut rule.base, test)) {
            Some(U32Replacement::AddedToBaseMatch) => {
                rule.matches.remove(i);
            }
            Some(U32Replacement::Match(m)) => {
                rule.matches[i] = m;
                i += 1;
            }
            None => i += 1,
        }
    }
}

/// Where a cheaper test went.
enum U32Replacement {
    AddedToBaseMatch,
    Match(Match),
}

/// Puts a test into the rule's header tests if its place there is free, or returns its match.
fn apply_or_return_u32_replacement(
    base: &mut BaseMatch,
    test: U32HeaderTest,
) -> Option<U32Replacement> {
    let addr_match = |addr: u32, mask: u32| AddrMatch {
        negated: false,
        addr: Addr(addr.into()),
        mask: Addr(mask.into()),
    };
    match test {
        U32HeaderTest::Source { addr, mask } if base.saddr.is_none() => {
            base.saddr = Some(addr_match(addr, mask));
        }
        U32HeaderTest::Destination { addr, mask } if base.daddr.is_none() => {
            base.daddr = Some(addr_match(addr, mask));
        }
        U32HeaderTest::Protocol(proto) if base.proto.is_none() => {
            base.proto = Some(ProtoMatch { negated: false, proto });
        }
        U32HeaderTest::IsLaterFragment(later) if base.fragment.is_none() => {
            base.fragment = Some(FragmentMatch { negated: !later });
        }
        U32HeaderTest::Length(lo, hi) => {
            let length = Match::Length(Negatable { negated: false, value: (lo, hi) });
            return Some(U32Replacement::Match(length));
        }
        U32HeaderTest::Ttl(value) => {
            return Some(U32Replacement::Match(Match::Ttl { op: TtlComparison::Eq, value }));
        }
        _ => return None,
    }
    Some(U32Replacement::AddedToBaseMatch)
}

fn set_string_match_algorithm_to_boyer_moore(rule: &mut Rule) {
    for m in &mut rule.matches {
        let Match::UnmodelledInput(host) = m else { continue };
        let UnmodelledInputMatch { module: "string", options } = &mut **host else { continue };
        for option in options.iter_mut().filter(|o| o.name == "algo") {
            option.value = ExtensionValue::Keyword("bm");
        }
    }
}

/// Drops matches that earlier tests imply, or that an equal match directly follows.
fn drop_implied_matches(rule: &mut Rule, algebra: TestAlgebra, family: Family) {
    let mut i = 0;
    while i < rule.matches.len() {
        let tests = lower_to_tests_with_match_index(rule, family);
        let own: Vec<_> =
            tests.iter().filter(|(at, _)| *at == Some(i)).map(|(_, t)| t.clone()).collect();
        let before: Vec<_> =
            tests.iter().filter(|(at, _)| *at < Some(i)).map(|(_, t)| t.clone()).collect();
        let next: Vec<_> =
            tests.iter().filter(|(at, _)| *at == Some(i + 1)).map(|(_, t)| t.clone()).collect();
        let kind = |i: usize| rule.matches.get(i).map(std::mem::discriminant);
        let looks = take_tests_before_transport(&own).len() < own.len();
        let asked = !looks || (0..i).any(|j| kind(j) == kind(i));
        let implied = asked && algebra.first_covers_second(&own, &before)
            || kind(i) == kind(i + 1) && algebra.first_covers_second(&own, &next);
        if !own.is_empty() && implied {
            rule.matches.remove(i);
        } else {
            i += 1;
        }
    }
}
