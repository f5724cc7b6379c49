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
    AddrMatch, ExtensionOption, ExtensionValue, FragmentMatch, Negatable, ProtoMatch,
    TtlComparison, UnmodelledInputMatch,
};
use weir_model::{
    Addr, BaseMatch, Family, Match, Rule, Ruleset, Span, lower_to_tests_with_match_index,
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
        // A cut header dropped packets that the header test would now keep away.
        if take_tests_before_transport(&tests).len() < tests.len() {
            return;
        }
        match parse_u32_comparison(&rule.matches[i])
            .and_then(|e| apply_or_return_u32_replacement(&mut rule.base, e))
        {
            Some(U32Replacement::HeaderTest) => {
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

/// One comparison of a `u32` expression: `offset & mask` in `lo..=hi`.
struct U32Comparison {
    offset: u32,
    mask: u32,
    lo: u32,
    hi: u32,
}

/// The only comparison of a `u32` match that is not negated and makes no further steps.
fn parse_u32_comparison(m: &Match) -> Option<U32Comparison> {
    let Match::UnmodelledInput(host) = m else { return None };
    let [ExtensionOption { negated: false, name: "u32", value: ExtensionValue::Text(text) }] =
        &host.options[..]
    else {
        return None;
    };
    let number = |s: &str| u32::from_str_radix(s.strip_prefix("0x")?, 16).ok();
    let (location, range) = text.split_once('=')?;
    let (offset, mask) = location.split_once('&').unwrap_or((location, "0xffffffff"));
    let (lo, hi) = range.split_once(':').unwrap_or((range, range));
    Some(U32Comparison {
        offset: number(offset)?,
        mask: number(mask)?,
        lo: number(lo)?,
        hi: number(hi)?,
    })
}

/// Where a cheaper test went.
enum U32Replacement {
    HeaderTest,
    Match(Match),
}

/// The header test that says the same (offsets of the IPv4 header, RFC 791).
fn apply_or_return_u32_replacement(
    base: &mut BaseMatch,
    e: U32Comparison,
) -> Option<U32Replacement> {
    let U32Comparison { offset, mask, lo, hi } = e;
    let one = lo == hi;
    match (offset, mask) {
        (12 | 16, _) if one && lo & !mask == 0 && mask != 0 => {
            let slot = if offset == 12 { &mut base.saddr } else { &mut base.daddr };
            let m = AddrMatch { negated: false, addr: Addr(lo.into()), mask: Addr(mask.into()) };
            slot.is_none().then(|| *slot = Some(m)).map(|()| U32Replacement::HeaderTest)
        }
        (6, 0xff) if one && (1..=255).contains(&lo) && base.proto.is_none() => {
            base.proto = Some(ProtoMatch { negated: false, proto: lo as u8 });
            Some(U32Replacement::HeaderTest)
        }
        (4, 0x1fff) if base.fragment.is_none() && (lo, hi) == (0, 0) => {
            base.fragment = Some(FragmentMatch { negated: true });
            Some(U32Replacement::HeaderTest)
        }
        (4, 0x1fff) if base.fragment.is_none() && (lo, hi) == (1, 0x1fff) => {
            base.fragment = Some(FragmentMatch { negated: false });
            Some(U32Replacement::HeaderTest)
        }
        // The field is 0 in a BIG TCP packet, where `-m length` takes the packet's own length,
        // which is above 65535: only what names neither is the same.
        (0, 0xffff) if 0 < lo && lo <= hi && hi <= 0xffff => {
            let value = (lo as u16, hi as u16);
            Some(U32Replacement::Match(Match::Length(Negatable { negated: false, value })))
        }
        (5, 0xff) if one && lo <= 0xff => {
            Some(U32Replacement::Match(Match::Ttl { op: TtlComparison::Eq, value: lo as u8 }))
        }
        _ => None,
    }
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
