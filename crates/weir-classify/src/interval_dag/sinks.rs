//! What look-ups do with the filters that match.

use super::columns::COUNTS_ONLY;
use super::walk::{BATCH, MatchSink};
use crate::classifier::RuleLists;
use crate::filter_set::NO_RULE;

/// The first deciding rule of each key.
#[derive(Debug)]
pub(super) struct FirstDecidingRules<'a> {
    least: [u32; BATCH],
    /// Places of the keys that are not yet looked up.
    first: std::slice::IterMut<'a, u32>,
}

impl FirstDecidingRules<'_> {
    pub(super) fn new(first: &mut [u32]) -> FirstDecidingRules<'_> {
        FirstDecidingRules { least: [NO_RULE; BATCH], first: first.iter_mut() }
    }
}

impl MatchSink for FirstDecidingRules<'_> {
    const LEAST_ONLY: bool = true;

    #[inline(always)]
    fn add(&mut self, place: usize, rank: u32) {
        self.least[place] = self.least[place].min(rank);
    }

    #[inline(always)]
    fn least(&self, place: usize) -> u32 {
        self.least[place]
    }

    #[inline(always)]
    fn finish_batch(&mut self, key_count: usize) {
        // The shorter side first: `zip` takes from it before it takes from the other.
        for (least, first) in self.least[..key_count].iter_mut().zip(&mut self.first) {
            *first = if *least < COUNTS_ONLY { *least } else { NO_RULE };
            *least = NO_RULE;
        }
    }
}

/// All rules of each key.
#[derive(Debug)]
pub(super) struct MatchingRules<'a> {
    numbers: [Vec<u32>; BATCH],
    lists: &'a mut RuleLists,
}

impl MatchingRules<'_> {
    pub(super) fn new(lists: &mut RuleLists) -> MatchingRules<'_> {
        MatchingRules { numbers: Default::default(), lists }
    }
}

impl MatchSink for MatchingRules<'_> {
    const LEAST_ONLY: bool = false;

    #[inline(always)]
    fn add(&mut self, place: usize, rank: u32) {
        self.numbers[place].push(rank & !COUNTS_ONLY);
    }

    fn least(&self, _: usize) -> u32 {
        NO_RULE
    }

    fn finish_batch(&mut self, key_count: usize) {
        for numbers in &mut self.numbers[..key_count] {
            numbers.drain(..).for_each(|number| self.lists.push(number));
            self.lists.finish_row();
        }
    }
}

/// A counter for each rule, by number. They count filters, and so rules if each has one.
#[derive(Debug)]
pub(super) struct RuleCounters<'a>(pub(super) &'a mut [u64]);

impl MatchSink for RuleCounters<'_> {
    const LEAST_ONLY: bool = false;

    #[inline(always)]
    fn add(&mut self, _: usize, rank: u32) {
        self.0[(rank & !COUNTS_ONLY) as usize] += 1;
    }

    fn least(&self, _: usize) -> u32 {
        NO_RULE
    }

    fn finish_batch(&mut self, _: usize) {}
}
