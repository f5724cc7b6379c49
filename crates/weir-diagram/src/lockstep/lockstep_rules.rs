//! The rules of a table, prepared to be run in lockstep with those of another
//! ([`lockstep`](crate::lockstep)).

use weir_model::rule_match::SetMatch;
use weir_model::{Chain, ChainGraph, Match, Rule, Table, Target};

use crate::lockstep::cell_tests::{CellTestLowering, RuleCellTests};

/// A rule of a table.
#[derive(Debug)]
pub(crate) struct LockstepRule<'f> {
    pub rule: &'f Rule,
    pub tests: RuleCellTests,
    /// The chain of the table that its target leads to.
    pub leads_to: Option<usize>,
}

/// The first and last original rule that a rule is credited with, or one of the chains that only
/// its own table has and that it leads to.
pub(crate) type CreditRange = Option<(u32, u32)>;

/// A table of one ruleset.
#[derive(Debug)]
pub(crate) struct LockstepTable<'f> {
    pub chains: &'f [Chain],
    pub graph: ChainGraph<'f>,
    /// The rules of all chains, numbered chain after chain.
    pub rules: Vec<LockstepRule<'f>>,
    /// The number of the first rule of each chain, and one more.
    first_rules: Vec<u32>,
}

impl<'f> LockstepTable<'f> {
    pub fn new(table: &'f Table, lowering: &CellTestLowering<'_, '_>) -> LockstepTable<'f> {
        let graph = table.chain_graph();
        let mut first_rules = vec![0];
        let mut rules = Vec::new();
        for (at, chain) in table.chains.iter().enumerate() {
            let mut jumps = graph.jumps_from(at).iter().peekable();
            for (number, rule) in chain.rules.iter().enumerate() {
                let tests = lowering.collect_cell_tests(rule);
                let leads_to = jumps.next_if(|jump| jump.rule == number).map(|jump| jump.to);
                rules.push(LockstepRule { rule, tests, leads_to });
            }
            first_rules.push(rules.len() as u32);
        }
        LockstepTable { chains: &table.chains, graph, rules, first_rules }
    }

    pub fn rule_numbers_of_chain(&self, chain: usize) -> std::ops::Range<u32> {
        self.first_rules[chain]..self.first_rules[chain + 1]
    }

    /// Whether a rule leads to a chain that does not exist.
    pub fn has_unknown_callee(&self) -> bool {
        let is_unknown = |rule: &LockstepRule<'_>| {
            rule.leads_to.is_none() && matches!(rule.rule.target, Target::Jump(_) | Target::Goto(_))
        };
        self.rules.iter().any(is_unknown)
    }

    /// By rule. `is_own_chain` holds for the chains that the other table does not have, and
    /// `credit_of_set` says what the elements of a set are credited with.
    pub fn credit_ranges(
        &self,
        is_own_chain: &dyn Fn(usize) -> bool,
        credit_of_set: &mut dyn FnMut(&SetMatch) -> CreditRange,
    ) -> Vec<CreditRange> {
        let joined = |a: CreditRange, b: CreditRange| match (a, b) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (one, other) => one.or(other),
        };
        let mut by_rule = vec![None; self.rules.len()];
        let mut by_chain: Vec<CreditRange> = vec![None; self.chains.len()];
        for chain in self.graph.all_callees_first() {
            for number in self.rule_numbers_of_chain(chain) {
                let rule = &self.rules[number as usize];
                let credits = rule.rule.credited_originals.iter().map(|original| original.0);
                let own = credits.clone().min().zip(credits.max());
                let called = rule.leads_to.filter(|to| is_own_chain(*to));
                let sets = rule.rule.matches.iter().map(|m| match m {
                    Match::Set(m) => credit_of_set(m),
                    _ => None,
                });
                let own = sets.fold(own, joined);
                let range = joined(own, called.and_then(|to| by_chain[to]));
                by_rule[number as usize] = range;
                by_chain[chain] = joined(by_chain[chain], range);
            }
        }
        by_rule
    }
}

/// Two lists of rules, cut into sections of which the originals follow one another on both sides:
/// the ends of each section in both lists. Where originals say nothing, it is one section.
pub(crate) fn cut_into_sections(lists: [&[CreditRange]; 2]) -> Vec<[usize; 2]> {
    let suffix_minima = lists.map(|list| {
        let mut minima = vec![u32::MAX; list.len() + 1];
        for (at, range) in list.iter().enumerate().rev() {
            minima[at] = range.map_or(minima[at + 1], |(first, _)| first.min(minima[at + 1]));
        }
        minima
    });
    let mut sections = Vec::new();
    let mut ends = [0, 0];
    let mut highest: [Option<u32>; 2] = [None, None];
    while ends[0] < lists[0].len() {
        highest[0] = highest[0].max(lists[0][ends[0]].map(|(_, last)| last));
        ends[0] += 1;
        let Some(limit) = highest[0].filter(|limit| *limit < suffix_minima[0][ends[0]]) else {
            continue;
        };
        while ends[1] < lists[1].len() && lists[1][ends[1]].is_none_or(|(first, _)| first <= limit)
        {
            highest[1] = highest[1].max(lists[1][ends[1]].map(|(_, last)| last));
            ends[1] += 1;
        }
        let is_cut =
            highest[1].is_none_or(|highest| highest <= limit) && limit < suffix_minima[1][ends[1]];
        if is_cut {
            sections.push(ends);
        }
    }
    let whole = lists.map(<[CreditRange]>::len);
    sections.pop_if(|last| last[0] == whole[0]);
    sections.push(whole);
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_end_after_the_same_originals_on_both_sides() {
        let one = |n: u32| Some((n, n));
        let list = [one(0), one(1), one(2), one(3)];
        assert_eq!(cut_into_sections([&list, &list]), [[1, 1], [2, 2], [3, 3], [4, 4]]);
        let permuted = [one(0), one(2), one(1), one(3)];
        assert_eq!(cut_into_sections([&list, &permuted]), [[1, 1], [3, 3], [4, 4]]);
        let tree = [one(0), Some((1, 2)), one(3)];
        assert_eq!(cut_into_sections([&list, &tree]), [[1, 1], [3, 2], [4, 3]]);
        assert_eq!(cut_into_sections([&tree, &list]), [[1, 1], [2, 3], [3, 4]]);
        assert_eq!(cut_into_sections([&[None, None], &[None]]), [[2, 1]]);
        assert_eq!(cut_into_sections([&list, &[]]), [[1, 0], [2, 0], [3, 0], [4, 0]]);
        assert_eq!(cut_into_sections([&[], &list]), [[0, 4]]);
        let backwards = [one(3), one(2), one(1), one(0)];
        assert_eq!(cut_into_sections([&list, &backwards]), [[4, 4]]);
    }
}
