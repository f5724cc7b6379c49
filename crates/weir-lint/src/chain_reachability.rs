//! What is known about the chains of a table without considering packets: jumps, reachable chains,
//! and rules after which no packet continues.

use std::collections::HashMap;

use weir_model::{Chain, ChainGraph, Family, Rule, Ruleset, Table, Target, lower_to_tests};

/// Which chains a packet may enter: built-in chains, and those that rules of such chains lead to
/// which do not follow a catch-all.
pub(crate) fn find_chains_packets_may_enter(
    table: &Table,
    graph: &ChainGraph<'_>,
    catch_all: &[Option<CatchAllRule>],
) -> Vec<bool> {
    let built_in = (0..table.chains.len()).filter(|i| table.chains[*i].policy.is_some());
    let mut reached = vec![false; table.chains.len()];
    graph.mark_newly_reachable(built_in, &mut reached, |jump| {
        catch_all[jump.from].is_none_or(|by| jump.rule <= by.rule)
    });
    reached
}

/// The chains that only rules after the catch-all of a reachable chain lead to, with that chain.
pub(crate) fn find_chains_behind_catch_all(
    graph: &ChainGraph<'_>,
    catch_all: &[Option<CatchAllRule>],
    reachable: &[bool],
) -> Vec<Option<usize>> {
    let mut by = vec![None; graph.len()];
    let mut reached = reachable.to_vec();
    for chain in (0..graph.len()).filter(|c| reachable[*c]) {
        let Some(catch) = catch_all[chain] else { continue };
        let behind = graph.jumps_from(chain).iter().filter(|jump| jump.rule > catch.rule);
        for to in graph.mark_newly_reachable(behind.map(|jump| jump.to), &mut reached, |_| true) {
            by[to] = Some(chain);
        }
    }
    by
}

/// A rule after which no packet continues in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CatchAllRule {
    /// Its index in its chain.
    pub rule: usize,
    /// The rule that decides: itself, or one of a chain that it leads to (chain and index).
    pub deciding_rule: (usize, usize),
}

/// Chains that no packet leaves undecided, by name, with the rule that decides what others leave.
pub(crate) type OptionalTerminatingRuleByChain<'a> = HashMap<&'a str, Option<(usize, usize)>>;

/// The rule of each chain after which no packet continues: it has no tests and decides, or leads
/// into a chain that no packet leaves undecided.
pub(crate) fn find_catch_all_rules(
    ruleset: &Ruleset,
    table: &Table,
    graph: &ChainGraph<'_>,
) -> Vec<Option<CatchAllRule>> {
    let closed = find_terminating_chains(ruleset.family, table, graph);
    let family = ruleset.family;
    let takes_all = |rule: &Rule| {
        let leaves = rule.target.leaves_chain();
        (leaves || decider_of_callee_ignoring_tests(rule, &closed).is_some())
            && lower_to_tests(rule, family).is_empty()
    };
    let of = |(chain, c): (usize, &Chain)| {
        let rule = c.rules.iter().position(takes_all)?;
        let decides =
            decider_of_callee_ignoring_tests(&c.rules[rule], &closed).unwrap_or((chain, rule));
        Some(CatchAllRule { rule, deciding_rule: decides })
    };
    table.chains.iter().enumerate().map(of).collect()
}

/// The rule that decides, where the rule leads into a chain that no packet leaves undecided.
fn decider_of_callee_ignoring_tests(
    rule: &Rule,
    closed: &OptionalTerminatingRuleByChain<'_>,
) -> Option<(usize, usize)> {
    *closed.get(&**rule.target.jump_target()?)?
}

/// Which chains no packet leaves undecided: a rule without tests decides or leads into such a
/// chain, and no rule before it returns.
pub(crate) fn find_terminating_chains<'a>(
    family: Family,
    table: &'a Table,
    graph: &ChainGraph<'_>,
) -> OptionalTerminatingRuleByChain<'a> {
    let mut closed: OptionalTerminatingRuleByChain<'_> = HashMap::new();
    for at in graph.all_callees_first() {
        let chain = &table.chains[at];
        let is = terminating_rule_of_chain(chain, at, family, &closed);
        closed.insert(&chain.name, is);
    }
    closed
}

fn terminating_rule_of_chain(
    chain: &Chain,
    at: usize,
    family: Family,
    closed: &OptionalTerminatingRuleByChain<'_>,
) -> Option<(usize, usize)> {
    for (i, rule) in chain.rules.iter().enumerate() {
        let into = decider_of_callee_ignoring_tests(rule, closed);
        match rule.target {
            Target::Return => return None,
            Target::Goto(_) if into.is_none() => return None,
            _ if !(into.is_some() || rule.target.is_terminating()) => {}
            _ if lower_to_tests(rule, family).is_empty() => return Some(into.unwrap_or((at, i))),
            _ => {}
        }
    }
    None
}
