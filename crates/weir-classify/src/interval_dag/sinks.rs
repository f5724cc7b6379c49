//! What look-ups do with the filters that match.

use std::hint::select_unpredictable;

use super::columns::COUNTS_ONLY_RANK_FLAG;
use super::rows::LANES;
use super::walk::{KEYS_PER_BATCH, MatchSink};
use crate::classifier::RuleLists;
use crate::filter_set::NO_RULE;

/// The first deciding rule of each key.
#[derive(Debug)]
pub(super) struct FirstDecidingRules<'a> {
    least: [u32; KEYS_PER_BATCH],
    /// Places of the keys that are not yet looked up.
    first: std::slice::IterMut<'a, u32>,
}

impl FirstDecidingRules<'_> {
    pub(super) fn new(first: &mut [u32]) -> FirstDecidingRules<'_> {
        FirstDecidingRules { least: [NO_RULE; KEYS_PER_BATCH], first: first.iter_mut() }
    }
}

impl MatchSink for FirstDecidingRules<'_> {
    const NEEDS_LEAST_RANK_ONLY: bool = true;

    #[inline(always)]
    fn add(&mut self, place: usize, rank: u32) {
        self.least[place] = self.least[place].min(rank);
    }

    #[inline(always)]
    fn add_lanes(&mut self, place: usize, ranks: &[u32; LANES], lanes: u32) {
        let first = ranks[lanes.trailing_zeros() as usize % LANES];
        self.add(place, select_unpredictable(lanes == 0, NO_RULE, first));
    }

    #[inline(always)]
    fn least_rank(&self, place: usize) -> u32 {
        self.least[place]
    }

    #[inline(always)]
    fn finish_batch(&mut self, key_count: usize) {
        // The shorter side first: `zip` takes from it before it takes from the other.
        for (least, first) in self.least[..key_count].iter_mut().zip(&mut self.first) {
            *first = if *least < COUNTS_ONLY_RANK_FLAG { *least } else { NO_RULE };
            *least = NO_RULE;
        }
    }
}

/// All rules of each key.
#[derive(Debug)]
pub(super) struct MatchingRules<'a> {
    numbers: [Vec<u32>; KEYS_PER_BATCH],
    lists: &'a mut RuleLists,
}

impl MatchingRules<'_> {
    pub(super) fn new(lists: &mut RuleLists) -> MatchingRules<'_> {
        MatchingRules { numbers: Default::default(), lists }
    }
}

impl MatchSink for MatchingRules<'_> {
    const NEEDS_LEAST_RANK_ONLY: bool = false;

    #[inline(always)]
    fn add(&mut self, place: usize, rank: u32) {
        self.numbers[place].push(rank & !COUNTS_ONLY_RANK_FLAG);
    }

    #[inline(always)]
    fn add_lanes(&mut self, place: usize, ranks: &[u32; LANES], mut lanes: u32) {
        while lanes != 0 {
            self.add(place, ranks[lanes.trailing_zeros() as usize % LANES]);
            lanes &= lanes - 1;
        }
    }

    fn least_rank(&self, _: usize) -> u32 {
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
pub(super) struct RuleCounters<'a> {
    counters: &'a mut [u64],
    /// Ranks that are not yet counted: how many match a key cannot be predicted, and counting them
    /// one after the other lets the cache misses overlap.
    ranks: [u32; RANKS_MAX],
    rank_count: usize,
}

/// About twice what the keys of a batch match.
const RANKS_MAX: usize = 256;

impl RuleCounters<'_> {
    pub(super) fn new(counters: &mut [u64]) -> RuleCounters<'_> {
        RuleCounters { counters, ranks: [0; RANKS_MAX], rank_count: 0 }
    }

    fn count_ranks(&mut self) {
        for rank in &self.ranks[..self.rank_count] {
            self.counters[(rank & !COUNTS_ONLY_RANK_FLAG) as usize] += 1;
        }
        self.rank_count = 0;
    }
}

impl MatchSink for RuleCounters<'_> {
    const NEEDS_LEAST_RANK_ONLY: bool = false;

    #[inline(always)]
    fn add(&mut self, _: usize, rank: u32) {
        if self.rank_count == RANKS_MAX {
            self.count_ranks();
        }
        self.ranks[self.rank_count] = rank;
        self.rank_count += 1;
    }

    #[inline(always)]
    fn add_lanes(&mut self, _: usize, ranks: &[u32; LANES], lanes: u32) {
        if self.rank_count > RANKS_MAX - LANES {
            self.count_ranks();
        }
        let places = &mut self.ranks[self.rank_count..][..LANES];
        let mut taken = 0;
        for (lane, rank) in ranks.iter().enumerate() {
            places[taken % LANES] = *rank;
            taken += (lanes >> lane & 1) as usize;
        }
        self.rank_count += taken;
    }

    fn least_rank(&self, _: usize) -> u32 {
        NO_RULE
    }

    fn finish_batch(&mut self, _: usize) {
        self.count_ranks();
    }
}
