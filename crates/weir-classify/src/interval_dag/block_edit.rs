//! Changes of a block in place.
//!
//! A filter is in every bucket that a key of it can reach. It is inserted there, in the order of
//! ranks, and removed from there. Nodes stay as they are: a bucket tests all words, so that one
//! that is reached by other keys too is slower, never wrong. A full bucket is copied to one with a
//! block more, from the spare blocks of the block; the children that lead keys of the filter to
//! the old bucket then lead to the new one, others stay.
//!
//! What is not possible in place (no spare blocks, too many buckets) is refused without a change.
//! Groups of bit vectors are changed in [`bit_vector_edit`](super::bit_vector_edit).

use std::collections::HashSet;

use super::block::{ClassifierBlock, SearchRoot};
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
        let root = self.groups.searches[search].root;
        let children =
            self.find_leaf_children(&root, filter.tests, LEAF_CHILDREN_PER_FILTER_MAX)?;
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
        let lane = self.rows.lane_of_filter(filter.tests, filter.rank);
        for leaf in leaves {
            let roomy = self.bucket_or_enlarged_copy(leaf);
            self.insert_lane(roomy, &lane);
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
        let root = self.groups.searches[search].root;
        let children = self.find_leaf_children(&root, filter.tests, usize::MAX);
        let lane = self.rows.lane_of_filter(filter.tests, filter.rank);
        let empty = self.rows.empty_lane();
        let mut was_there = false;
        for leaf in self.distinct_leaves(&children.unwrap_or_default()) {
            was_there |= self.remove_lane(leaf, &lane, &empty);
        }
        was_there
    }

    /// The children, by the index of their word in the block, that lead keys of a filter to
    /// buckets, or to bitmaps.
    pub(super) fn find_leaf_children(
        &self,
        root: &SearchRoot,
        tests: &[WordTest],
        count_max: usize,
    ) -> Result<Vec<usize>, NoRoomInBlock> {
        let words = CacheLine::as_words(&self.lines);
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

    pub(super) fn distinct_leaves(&self, children: &[usize]) -> Vec<u32> {
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

    /// Inserts a filter into a bucket with room, before those of a higher rank.
    fn insert_lane(&mut self, leaf: u32, filter: &[u32]) {
        if self.find_lane(leaf, filter).is_some() {
            return;
        }
        let (first, count) = decode_bucket_leaf(leaf);
        let used = self.count_used_lanes(leaf);
        let rank = filter[self.rows.counts.rank_row()];
        let ranks = (first..first + count).flat_map(|index| self.bucket_block_ranks(index));
        let place = ranks.take_while(|of| **of < rank).count();
        self.bucket_rows_mut(first, count).insert_lane(place, used, filter);
    }

    /// Removes a filter from a bucket. Whether it was there.
    fn remove_lane(&mut self, leaf: u32, filter: &[u32], empty: &[u32]) -> bool {
        let Some(place) = self.find_lane(leaf, filter) else { return false };
        let (first, count) = decode_bucket_leaf(leaf);
        let used = self.count_used_lanes(leaf);
        self.bucket_rows_mut(first, count).remove_lane(place, used, empty);
        true
    }

    /// The lane of a bucket that has a filter.
    fn find_lane(&self, leaf: u32, filter: &[u32]) -> Option<usize> {
        let (first, count) = decode_bucket_leaf(leaf);
        let rank = filter[self.rows.counts.rank_row()];
        (0..count * LANES).find(|lane| {
            let (index, lane) = (first + lane / LANES, lane % LANES);
            // Most filters of a bucket have another rank.
            if self.bucket_block_ranks(index)[lane] != rank {
                return false;
            }
            let rows = CacheLine::as_rows(self.bucket_block(index, self.rows.counts));
            rows.iter().zip(filter).all(|(row, value)| row[lane] == *value)
        })
    }

    pub(super) fn bucket_rows_mut(&mut self, first: usize, count: usize) -> BucketRows<'_> {
        let lines = self.rows.bucket_block_lines();
        let line = self.first_bucket_block_line + first * lines;
        let rows = CacheLine::as_rows_mut(&mut self.lines[line..line + count * lines]);
        BucketRows { rows, rows_per_block: 2 * lines }
    }
}

/// The rows of all blocks of a bucket. Lanes are numbered through the blocks.
pub(super) struct BucketRows<'b> {
    rows: &'b mut [[u32; LANES]],
    rows_per_block: usize,
}

impl BucketRows<'_> {
    /// Inserts a lane before that of index `place`, where the first `used` lanes are in use.
    pub(super) fn insert_lane(&mut self, place: usize, used: usize, values: &[u32]) {
        for block in (place / LANES..=used / LANES).rev() {
            let from = place.saturating_sub(block * LANES);
            let to = (used - block * LANES).min(LANES - 1);
            self.move_lanes_in_block(block, from..to, from + 1);
            if block * LANES > place {
                self.copy_lane(block * LANES - 1, block * LANES);
            }
        }
        self.write_lane(place, values);
    }

    /// Removes a lane of the first `used`, of which the last becomes `empty`.
    pub(super) fn remove_lane(&mut self, place: usize, used: usize, empty: &[u32]) {
        for block in place / LANES..=(used - 1) / LANES {
            let to = place.saturating_sub(block * LANES);
            let end = (used - block * LANES).min(LANES);
            self.move_lanes_in_block(block, to + 1..end, to);
            if (block + 1) * LANES < used {
                self.copy_lane((block + 1) * LANES, (block + 1) * LANES - 1);
            }
        }
        self.write_lane(used - 1, empty);
    }

    fn block(&mut self, block: usize) -> &mut [[u32; LANES]] {
        &mut self.rows[block * self.rows_per_block..][..self.rows_per_block]
    }

    /// Moves lanes of a block, numbered from its first lane.
    fn move_lanes_in_block(&mut self, block: usize, lanes: std::ops::Range<usize>, to: usize) {
        if !lanes.is_empty() {
            self.block(block).iter_mut().for_each(|row| row.copy_within(lanes.clone(), to));
        }
    }

    fn copy_lane(&mut self, from: usize, to: usize) {
        for row in 0..self.rows_per_block {
            self.rows[to / LANES * self.rows_per_block + row][to % LANES] =
                self.rows[from / LANES * self.rows_per_block + row][from % LANES];
        }
    }

    pub(super) fn write_lane(&mut self, lane: usize, values: &[u32]) {
        let rows = self.block(lane / LANES);
        rows.iter_mut().zip(values).for_each(|(row, value)| row[lane % LANES] = *value);
    }
}

/// The values of a word that a key of a filter may have.
pub(super) fn interval_of_test(test: WordTest) -> (u32, u32) {
    match test {
        WordTest::Within { lo, hi } => (lo, hi),
        WordTest::Masked { .. } => (0, u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: usize = 3;
    const ROWS_PER_BLOCK: usize = 4;
    const EMPTY: u32 = u32::MAX;

    /// Rows of a bucket with lanes of these values, each the same in all rows but for the row.
    fn rows_of_lanes(values: &[u32]) -> Vec<[u32; LANES]> {
        let mut rows = vec![[EMPTY; LANES]; BLOCKS * ROWS_PER_BLOCK];
        for (lane, value) in values.iter().enumerate() {
            for row in 0..ROWS_PER_BLOCK {
                rows[lane / LANES * ROWS_PER_BLOCK + row][lane % LANES] = value + row as u32;
            }
        }
        rows
    }

    #[test]
    fn lanes_are_inserted_and_removed_as_in_a_list() {
        let lane = |value: u32| (0..ROWS_PER_BLOCK as u32).map(|row| value + row).collect();
        for used in 0..BLOCKS * LANES {
            let values: Vec<u32> = (0..used as u32).map(|n| 100 * n).collect();
            for place in 0..=used {
                let mut rows = rows_of_lanes(&values);
                let mut bucket = BucketRows { rows: &mut rows, rows_per_block: ROWS_PER_BLOCK };
                let new: Vec<u32> = lane(7);
                bucket.insert_lane(place, used, &new);
                let mut expected = values.clone();
                expected.insert(place, 7);
                assert_eq!(rows, rows_of_lanes(&expected), "inserted at {place} of {used}");
                let mut bucket = BucketRows { rows: &mut rows, rows_per_block: ROWS_PER_BLOCK };
                bucket.remove_lane(place, used + 1, &[EMPTY; ROWS_PER_BLOCK]);
                assert_eq!(rows, rows_of_lanes(&values), "removed at {place} of {used}");
            }
        }
    }
}
