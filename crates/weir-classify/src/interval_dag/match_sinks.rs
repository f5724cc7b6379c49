//! What look-ups do with the filters that match.

use std::hint::select_unpredictable;

use super::batch_walk::{KEYS_PER_BATCH, MatchSink};
use super::cache_line::LANES;
use super::filter_columns::COUNTS_ONLY_RANK_FLAG;
use super::lane_comparisons::LaneInstructions;
use crate::classifier::RuleListsByKey;
use crate::filter_set::NO_RULE;

/// The first deciding rule of each key.
#[derive(Debug)]
pub(super) struct FirstDecidingRules<'a> {
    least_ranks: [u32; KEYS_PER_BATCH],
    /// Places of the keys that are not yet looked up.
    unwritten_results: std::slice::IterMut<'a, u32>,
}

impl FirstDecidingRules<'_> {
    pub(super) fn new(unwritten_results: &mut [u32]) -> FirstDecidingRules<'_> {
        FirstDecidingRules {
            least_ranks: [NO_RULE; KEYS_PER_BATCH],
            unwritten_results: unwritten_results.iter_mut(),
        }
    }
}

impl MatchSink for FirstDecidingRules<'_> {
    const NEEDS_LEAST_RANK_ONLY: bool = true;

    #[inline(always)]
    fn add_matching_filter(&mut self, place: usize, rank: u32) {
        self.least_ranks[place] = self.least_ranks[place].min(rank);
    }

    #[inline(always)]
    fn add_matching_lanes<L: LaneInstructions>(
        &mut self,
        place: usize,
        ranks: &[u32; LANES],
        lanes: u32,
    ) {
        let first = ranks[lanes.trailing_zeros() as usize % LANES];
        self.add_matching_filter(place, select_unpredictable(lanes == 0, NO_RULE, first));
    }

    #[inline(always)]
    fn least_rank(&self, place: usize) -> u32 {
        self.least_ranks[place]
    }

    #[inline(always)]
    fn finish_batch(&mut self, key_count: usize) {
        // The shorter side first: `zip` takes from it before it takes from the other.
        for (least_ranks, unwritten_results) in
            self.least_ranks[..key_count].iter_mut().zip(&mut self.unwritten_results)
        {
            *unwritten_results =
                if *least_ranks < COUNTS_ONLY_RANK_FLAG { *least_ranks } else { NO_RULE };
            *least_ranks = NO_RULE;
        }
    }
}

/// The lines of the block that look-ups for the first deciding rules read.
#[derive(Debug)]
pub(super) struct FirstMatchLineCount<'a> {
    rules: FirstDecidingRules<'a>,
    pub(super) lines_read: usize,
}

impl FirstMatchLineCount<'_> {
    /// The answers go to `first`, a place for each key.
    pub(super) fn new(first: &mut [u32]) -> FirstMatchLineCount<'_> {
        FirstMatchLineCount { rules: FirstDecidingRules::new(first), lines_read: 0 }
    }
}

impl MatchSink for FirstMatchLineCount<'_> {
    const NEEDS_LEAST_RANK_ONLY: bool = true;

    fn add_matching_filter(&mut self, place: usize, rank: u32) {
        self.rules.add_matching_filter(place, rank);
    }

    fn add_matching_lanes<L: LaneInstructions>(
        &mut self,
        place: usize,
        ranks: &[u32; LANES],
        lanes: u32,
    ) {
        self.rules.add_matching_lanes::<L>(place, ranks, lanes);
    }

    fn least_rank(&self, place: usize) -> u32 {
        self.rules.least_rank(place)
    }

    fn add_lines_read(&mut self, line_count: usize) {
        self.lines_read += line_count;
    }

    fn finish_batch(&mut self, key_count: usize) {
        self.rules.finish_batch(key_count);
    }
}

/// All rules of each key.
#[derive(Debug)]
pub(super) struct MatchingRules<'a> {
    numbers: [Vec<u32>; KEYS_PER_BATCH],
    lists: &'a mut RuleListsByKey,
}

impl MatchingRules<'_> {
    pub(super) fn new(lists: &mut RuleListsByKey) -> MatchingRules<'_> {
        MatchingRules { numbers: Default::default(), lists }
    }
}

impl MatchSink for MatchingRules<'_> {
    const NEEDS_LEAST_RANK_ONLY: bool = false;

    #[inline(always)]
    fn add_matching_filter(&mut self, place: usize, rank: u32) {
        self.numbers[place].push(rank & !COUNTS_ONLY_RANK_FLAG);
    }

    #[inline(always)]
    fn add_matching_lanes<L: LaneInstructions>(
        &mut self,
        place: usize,
        ranks: &[u32; LANES],
        mut lanes: u32,
    ) {
        while lanes != 0 {
            self.add_matching_filter(place, ranks[lanes.trailing_zeros() as usize % LANES]);
            lanes &= lanes - 1;
        }
    }

    fn least_rank(&self, _: usize) -> u32 {
        NO_RULE
    }

    fn finish_batch(&mut self, key_count: usize) {
        for numbers in &mut self.numbers[..key_count] {
            numbers.drain(..).for_each(|number| self.lists.push(number));
            self.lists.sort_dedup_and_finish_list_of_key();
        }
    }
}

/// A counter for each rule, by number. They count filters, and so rules if each has one.
#[derive(Debug)]
pub(super) struct FilterMatchCountersByRule<'a> {
    counters: &'a mut [u64],
    /// Ranks that are not yet counted: how many match a key cannot be predicted, and counting them
    /// one after the other lets the cache misses overlap.
    pending_ranks: [u32; PENDING_RANKS_MAX],
    pending_rank_count: usize,
}

/// About twice what the keys of a batch match.
const PENDING_RANKS_MAX: usize = 256;

impl FilterMatchCountersByRule<'_> {
    pub(super) fn new(counters: &mut [u64]) -> FilterMatchCountersByRule<'_> {
        FilterMatchCountersByRule {
            counters,
            pending_ranks: [0; PENDING_RANKS_MAX],
            pending_rank_count: 0,
        }
    }

    fn count_pending_ranks(&mut self) {
        for rank in &self.pending_ranks[..self.pending_rank_count] {
            self.counters[(rank & !COUNTS_ONLY_RANK_FLAG) as usize] += 1;
        }
        self.pending_rank_count = 0;
    }
}

impl MatchSink for FilterMatchCountersByRule<'_> {
    const NEEDS_LEAST_RANK_ONLY: bool = false;

    #[inline(always)]
    fn add_matching_filter(&mut self, _: usize, rank: u32) {
        if self.pending_rank_count == PENDING_RANKS_MAX {
            self.count_pending_ranks();
        }
        self.pending_ranks[self.pending_rank_count] = rank;
        self.pending_rank_count += 1;
    }

    #[inline(always)]
    fn add_matching_lanes<L: LaneInstructions>(
        &mut self,
        _: usize,
        ranks: &[u32; LANES],
        lanes: u32,
    ) {
        if self.pending_rank_count > PENDING_RANKS_MAX - LANES {
            self.count_pending_ranks();
        }
        let places = self.pending_ranks[self.pending_rank_count..].first_chunk_mut();
        L::write_selected_first(ranks, lanes, places.expect("room for eight"));
        self.pending_rank_count += lanes.count_ones() as usize;
    }

    fn least_rank(&self, _: usize) -> u32 {
        NO_RULE
    }

    fn finish_batch(&mut self, _: usize) {
        self.count_pending_ranks();
    }
}
