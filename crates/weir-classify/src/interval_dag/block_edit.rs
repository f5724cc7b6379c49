//! Changes of a block in place.
//!
//! A filter is in every bucket that a key of it can reach. It is inserted there, in the order of
//! ranks, and removed from there. Nodes stay as they are: a bucket tests all words, so that one
//! that is reached by other keys too is slower, never wrong. A full bucket is copied to one with a
//! block more, from the spare blocks of the block; the children that lead keys of the filter to
//! the old bucket then lead to the new one, others stay.
//!
//! What is not possible in place (no spare blocks, too many buckets, a group of bit vectors) is
//! refused without a change.

use std::collections::HashSet;

use super::block::ClassifierBlock;
use super::cache_line::{CacheLine, LANES};
use super::dag_construction::{BLOCKS_PER_BUCKET_MAX, decode_bucket_leaf, encode_bucket_leaf};
use super::search_node::{FANOUT, LEAF_FLAG};
use super::word_hasher::BuildWordHasher;
use crate::filter_set::{NO_RULE, WordTest};

/// The most children that lead to the buckets of a filter which is inserted.
const LEAF_CHILDREN_PER_FILTER_MAX: usize = 4096;

/// A filter as a block has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankedFilter<'a> {
    pub(super) tests: &'a [WordTest],
    pub(super) rank: u32,
}

/// A filter cannot be inserted in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoomInBlock;

impl ClassifierBlock {
    /// Inserts a filter into a search, by the index of the search.
    ///
    /// # Errors
    /// There is no room; the block is as before.
    pub(super) fn insert_filter(
        &mut self,
        search: usize,
        filter: RankedFilter<'_>,
    ) -> Result<(), NoRoomInBlock> {
        let children =
            self.find_leaf_children(search, filter.tests, LEAF_CHILDREN_PER_FILTER_MAX)?;
        let leaves = self.distinct_leaves(&children);
        let mut new_blocks = 0;
        for leaf in &leaves {
            let (_, count) = decode_bucket_leaf(*leaf);
            if self.count_used_lanes(*leaf) == count * LANES {
                new_blocks += count + 1;
                if count == BLOCKS_PER_BUCKET_MAX {
                    return Err(NoRoomInBlock);
                }
            }
        }
        if new_blocks > self.spare_bucket_blocks.len() {
            return Err(NoRoomInBlock);
        }
        for leaf in leaves {
            let roomy = self.bucket_or_enlarged_copy(leaf);
            self.insert_lane(roomy, filter);
            if roomy != leaf {
                let words = CacheLine::as_words_mut(&mut self.lines);
                for child in &children {
                    if words[*child] == leaf {
                        words[*child] = roomy;
                    }
                }
            }
        }
        let least_rank = &mut self.groups.searches[search].least_rank;
        *least_rank = filter.rank.min(*least_rank);
        Ok(())
    }

    /// Removes a filter from a search. Whether it was there.
    pub(super) fn remove_filter(&mut self, search: usize, filter: RankedFilter<'_>) -> bool {
        let children = self.find_leaf_children(search, filter.tests, usize::MAX);
        let mut was_there = false;
        for leaf in self.distinct_leaves(&children.unwrap_or_default()) {
            was_there |= self.remove_lane(leaf, filter);
        }
        was_there
    }

    /// Removes all filters of a rank from the groups of bit vectors.
    pub(super) fn remove_rank_from_bit_vectors(&mut self, rank: u32) {
        for group in &self.groups.bit_vectors {
            let words = CacheLine::as_words_mut(&mut self.lines[group.first_rank_line..]);
            for of_bit in words[..group.filter_count].iter_mut().filter(|of_bit| **of_bit == rank) {
                *of_bit = NO_RULE;
            }
        }
    }

    /// The children, by the index of their word in the block, that lead keys of a filter to
    /// buckets.
    fn find_leaf_children(
        &self,
        search: usize,
        tests: &[WordTest],
        count_max: usize,
    ) -> Result<Vec<usize>, NoRoomInBlock> {
        let words = CacheLine::as_words(&self.lines);
        let root = &self.groups.searches[search].root;
        let (lo, hi) = interval_of_test(tests[root.word]);
        let cell_mask = (1 << root.cell_bits) - 1;
        let cells =
            (lo >> root.shift) as usize & cell_mask..=(hi >> root.shift) as usize & cell_mask;
        let mut leaf_children = vec![];
        let mut seen: HashSet<u32, BuildWordHasher> = HashSet::default();
        let mut nodes = vec![];
        let mut visit = |children: std::ops::RangeInclusive<usize>, nodes: &mut Vec<u32>| {
            for place in children {
                let child = words[place];
                if child & LEAF_FLAG != 0 {
                    leaf_children.push(place);
                } else if seen.insert(child) {
                    nodes.push(child);
                }
            }
            if leaf_children.len() > count_max { Err(NoRoomInBlock) } else { Ok(()) }
        };
        let first_cell = root.first_cell_line * 16;
        visit(first_cell + cells.start()..=first_cell + cells.end(), &mut nodes)?;
        while let Some(node) = nodes.pop() {
            let line = self.first_node_line + 2 * node as usize;
            let keys = &self.lines[line].0;
            let (lo, hi) = interval_of_test(tests[keys[0] as usize]);
            let child_of = |value| keys[1..].iter().filter(|key| **key <= value).count();
            let first_child = line * 16 + FANOUT;
            visit(first_child + child_of(lo)..=first_child + child_of(hi), &mut nodes)?;
        }
        Ok(leaf_children)
    }

    fn distinct_leaves(&self, children: &[usize]) -> Vec<u32> {
        let words = CacheLine::as_words(&self.lines);
        let mut leaves: Vec<u32> = children.iter().map(|child| words[*child]).collect();
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }

    /// The bucket of a leaf, or a copy with a block more if it is full.
    fn bucket_or_enlarged_copy(&mut self, leaf: u32) -> u32 {
        let (first, count) = decode_bucket_leaf(leaf);
        if self.count_used_lanes(leaf) < count * LANES {
            return leaf;
        }
        let lines = self.rows.bucket_block_lines();
        let new_first = self.spare_bucket_blocks.start;
        self.spare_bucket_blocks.start += count + 1;
        let from = self.first_bucket_block_line + first * lines;
        let to = self.first_bucket_block_line + new_first * lines;
        self.lines.copy_within(from..from + count * lines, to);
        encode_bucket_leaf(new_first, count + 1)
    }

    /// Lanes of a bucket that have filters: the first ones.
    fn count_used_lanes(&self, leaf: u32) -> usize {
        let (first, count) = decode_bucket_leaf(leaf);
        let ranks = (first..first + count).flat_map(|index| self.bucket_block_ranks(index));
        ranks.take_while(|rank| **rank != NO_RULE).count()
    }

    fn insert_lane(&mut self, leaf: u32, filter: RankedFilter<'_>) {
        if self.find_lane(leaf, filter).is_some() {
            return;
        }
        let (first, count) = decode_bucket_leaf(leaf);
        let used = self.count_used_lanes(leaf);
        let ranks = (first..first + count).flat_map(|index| self.bucket_block_ranks(index));
        let place = ranks.take_while(|rank| **rank < filter.rank).count();
        for lane in (place..used).rev() {
            self.copy_lane(first, lane, lane + 1);
        }
        self.write_lane(first, place, filter);
    }

    fn remove_lane(&mut self, leaf: u32, filter: RankedFilter<'_>) -> bool {
        let Some(place) = self.find_lane(leaf, filter) else { return false };
        let (first, _) = decode_bucket_leaf(leaf);
        let used = self.count_used_lanes(leaf);
        for lane in place + 1..used {
            self.copy_lane(first, lane, lane - 1);
        }
        let empty = self.rows.empty_bucket_block();
        let lane = used - 1;
        let rows = self.bucket_block_rows_mut(first + lane / LANES);
        for (row, empty) in rows.iter_mut().zip(empty) {
            row[lane % LANES] = empty[0];
        }
        true
    }

    /// The lane of a bucket that has a filter.
    fn find_lane(&self, leaf: u32, filter: RankedFilter<'_>) -> Option<usize> {
        let (first, count) = decode_bucket_leaf(leaf);
        let mut wanted = self.rows.empty_bucket_block();
        self.rows.write_lane(&mut wanted, 0, filter.tests, filter.rank);
        (0..count * LANES).find(|lane| {
            let block = self.bucket_block(first + lane / LANES, self.rows.counts);
            let rows = CacheLine::as_rows(block);
            rows.iter().zip(&wanted).all(|(row, wanted)| row[lane % LANES] == wanted[0])
        })
    }

    fn copy_lane(&mut self, first: usize, from: usize, to: usize) {
        for row in 0..2 * self.rows.bucket_block_lines() {
            let value = self.bucket_block_rows_mut(first + from / LANES)[row][from % LANES];
            self.bucket_block_rows_mut(first + to / LANES)[row][to % LANES] = value;
        }
    }

    fn write_lane(&mut self, first: usize, lane: usize, filter: RankedFilter<'_>) {
        let lines = self.rows.bucket_block_lines();
        let line = self.first_bucket_block_line + (first + lane / LANES) * lines;
        let rows = CacheLine::as_rows_mut(&mut self.lines[line..line + lines]);
        self.rows.write_lane(rows, lane % LANES, filter.tests, filter.rank);
    }

    fn bucket_block_rows_mut(&mut self, index: usize) -> &mut [[u32; LANES]] {
        let lines = self.rows.bucket_block_lines();
        let line = self.first_bucket_block_line + index * lines;
        CacheLine::as_rows_mut(&mut self.lines[line..line + lines])
    }
}

/// The values of a word that a key of a filter may have.
fn interval_of_test(test: WordTest) -> (u32, u32) {
    match test {
        WordTest::Within { lo, hi } => (lo, hi),
        WordTest::Masked { .. } => (0, u32::MAX),
    }
}
