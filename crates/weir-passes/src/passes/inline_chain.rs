//! `inline_chain`: replaces the only jump to a short chain by the rules of the chain.
//!
//! A jump to a chain that is not in the cache costs as much as many checks. The rules of the chain
//! replace the jump, each with the jump's tests before its own; the jump's rule stays in front of
//! them, without its target, and counts as before. If it tested a truncated header, it still does
//! so first.
//!
//! The pass does not apply if the chain is stateful (its limit is its own, and would be shared), if
//! it returns or jumps elsewhere itself (which would now leave the caller), or if what the jump
//! tests may be changed along the way.

use std::collections::{HashMap, HashSet};

use weir_model::rule_match::BaseMatch;
use weir_model::{AddrMatch, Chain, Family, Match, Rule, Ruleset, SharedName, Target};
use weir_partition::find_barrier_reason;

use crate::pass::{Pass, PassContext};
use crate::rewrite::rewrite_chains;
use crate::{Prefix, RewrittenRuleset};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct InlineChainPass;

impl Pass for InlineChainPass {
    fn name(&self) -> &'static str {
        "inline_chain"
    }

    fn description(&self) -> &'static str {
        "replaces a jump to a short chain with one caller by the rules of the chain"
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let family = ruleset.family;
        let short = find_inlinable_chains(ruleset, context);
        let mut gone: HashSet<SharedName> = HashSet::new();
        let mut made = rewrite_chains(ruleset, context, |chain, (algebra, _), made| {
            let mut out = Vec::with_capacity(chain.rules.len());
            for rule in &chain.rules {
                let inlined = match &rule.target {
                    Target::Jump(to) if algebra.has_only_stable_tests(rule) => short
                        .get(to)
                        .filter(|c| c.name != chain.name && !gone.contains(&c.name))
                        .and_then(|c| Some((c, inline_jump(rule, c, family)?))),
                    _ => None,
                };
                // A chain that others were put into stays: its rules are not those that were read.
                match inlined {
                    Some((of, rules)) if !gone.contains(&chain.name) => {
                        made.record_compiled_run(
                            context,
                            &of.rules[0].credited_originals,
                            of.rules.len(),
                            "where it was called".to_owned(),
                        );
                        gone.insert(of.name.clone());
                        out.extend(rules);
                    }
                    _ => out.push(rule.clone()),
                }
            }
            (out.len() != chain.rules.len()).then_some(out)
        });
        for table in &mut made.ruleset.tables {
            table.chains.retain(|c| c.policy.is_some() || !gone.contains(&c.name));
        }
        made
    }
}

/// Chains that may be in the place of the only jump to them.
fn find_inlinable_chains<'r>(
    ruleset: &'r Ruleset,
    context: &PassContext<'_>,
) -> HashMap<SharedName, &'r Chain> {
    let mut out = HashMap::new();
    for table in &ruleset.tables {
        let callers = table.chain_graph().jumps_by_callee();
        let chains = table.chains.iter().zip(callers);
        let chains = chains.filter(|(c, _)| c.policy.is_none() && context.may_rewrite(c));
        for (chain, callers) in chains {
            let most = context.options.cost.inlined_group_rules_max.max(1);
            let called_once = callers.len() == 1;
            if chain.rules.is_empty() || chain.rules.len() > most || !called_once {
                continue;
            }
            let stays = |r: &Rule| {
                find_barrier_reason(r, ruleset.family).is_none()
                    && !matches!(r.target, Target::Return | Target::Jump(_) | Target::Goto(_))
            };
            // A name that two tables have is left alone: chains are known by name here.
            let only =
                ruleset.tables.iter().filter(|t| t.chain(&chain.name).is_some()).count() == 1;
            if only && chain.rules.iter().all(stays) {
                out.insert(chain.name.clone(), chain);
            }
        }
    }
    out
}

/// The rules that stand for a jump and the chain that it leads to.
fn inline_jump(jump: &Rule, chain: &Chain, family: Family) -> Option<Vec<Rule>> {
    let mut out = vec![Rule { target: Target::None, ..jump.clone() }];
    for rule in &chain.rules {
        let base = intersect_header_tests(&jump.base, &rule.base, family)?;
        let tests = |m: &&Match| !matches!(m, Match::Comment(_));
        let before: Vec<Match> = jump
            .matches
            .iter()
            .filter(tests)
            .filter(|m| !rule.matches.contains(m))
            .cloned()
            .collect();
        // Two different tests of one module in a rule are not everywhere what they seem.
        let clash = before.iter().any(|b| {
            rule.matches.iter().any(|m| std::mem::discriminant(b) == std::mem::discriminant(m))
        });
        if clash {
            return None;
        }
        let matches = before.into_iter().chain(rule.matches.iter().cloned()).collect();
        out.push(Rule { base, matches, match_and_target_spans: Vec::new(), ..rule.clone() });
    }
    Some(out)
}

/// Header tests that say both; `None` if one rule cannot.
fn intersect_header_tests(a: &BaseMatch, b: &BaseMatch, family: Family) -> Option<BaseMatch> {
    fn merge_equal_values<T: Clone + PartialEq>(a: &Option<T>, b: &Option<T>) -> Option<Option<T>> {
        match (a, b) {
            (Some(x), Some(y)) if x != y => None,
            (Some(x), _) | (None, Some(x)) => Some(Some(x.clone())),
            (None, None) => Some(None),
        }
    }
    let narrower = |a, b| -> Option<Option<AddrMatch>> {
        let (Some(x), Some(y)) = (a, b) else { return merge_equal_values(&a, &b) };
        let (p, q) = (Prefix::from_match(family, &x)?, Prefix::from_match(family, &y)?);
        match (p.covers(family, q), q.covers(family, p)) {
            (true, _) => Some(Some(y)),
            (_, true) => Some(Some(x)),
            _ => None,
        }
    };
    Some(BaseMatch {
        saddr: narrower(a.saddr, b.saddr)?,
        daddr: narrower(a.daddr, b.daddr)?,
        iif: merge_equal_values(&a.iif, &b.iif)?,
        oif: merge_equal_values(&a.oif, &b.oif)?,
        proto: merge_equal_values(&a.proto, &b.proto)?,
        fragment: merge_equal_values(&a.fragment, &b.fragment)?,
    })
}
