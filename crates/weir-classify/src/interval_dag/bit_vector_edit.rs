//! Changes of groups of bit vectors in place.
//!
//! Where updates are possible, a group has spare bits between those of its filters
//! ([`spread_over_spare_bits`](super::bit_vectors::spread_over_spare_bits)). A filter takes one
//! between the filters of lower and of higher ranks, since look-ups end at the first bit that
//! matches; if there is none, its neighbours move up to the next spare bit. Its bit is set in all
//! bitmaps of intervals that it overlaps, even in part: its verification block tests all words, so
//! that a bit too many is slower, never wrong.
//!
//! A change that moves bits visits every bitmap of the group, so groups with very many refuse it.

use std::ops::Range;

use super::bit_vectors::CACHE_LINE_WORDS;
use super::block::{BitVectorGroup, ClassifierBlock};
use super::block_edit::{NoRoomInBlock, RankedFilter, interval_of_test};
use super::cache_line::{CacheLine, LANES};
use super::search_node::LEAF_FLAG;
use crate::filter_set::{NO_RULE, WordTest};
use crate::key::KeyWordTestMethod;

/// The most bitmaps of a group that is changed in place.
const EDITED_BITMAPS_MAX: usize = 4096;
/// The most bits that move for an insertion.
const MOVED_BITS_MAX: usize = 64;

/// Where a filter gets its bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InsertionOfBit {
    /// A spare bit.
    InPlace(usize),
    /// Bits from here to before the spare bit move to the next higher one.
    MovesUp { from: usize, spare: usize },
    /// Bits from after the spare bit to before `end` move to the next lower one.
    MovesDown { spare: usize, end: usize },
}

impl ClassifierBlock {
    /// Inserts a filter into the first group of bit vectors that has room.
    ///
    /// # Errors
    /// None has; the block is as before.
    pub(super) fn insert_filter_into_bit_vectors(
        &mut self,
        filter: RankedFilter<'_>,
    ) -> Result<(), NoRoomInBlock> {
        let mut groups = std::mem::take(&mut self.groups.bit_vectors);
        let was_inserted = groups.iter_mut().any(|group| {
            let is_inserted = self.insert_filter_into_group(group, filter).is_ok();
            if is_inserted {
                group.least_rank = group.least_rank.min(filter.rank);
            }
            is_inserted
        });
        self.groups.bit_vectors = groups;
        if was_inserted { Ok(()) } else { Err(NoRoomInBlock) }
    }

    /// Removes all filters of a rank from the groups of bit vectors.
    pub(super) fn remove_rank_from_bit_vectors(&mut self, rank: u32) {
        let mut groups = std::mem::take(&mut self.groups.bit_vectors);
        for group in &mut groups {
            for bit in 0..group.filter_count {
                if self.ranks_of_bits(group)[bit] == rank {
                    self.remove_bit(group, bit);
                }
            }
            // Spare bits have the highest.
            group.least_rank = self.ranks_of_bits(group).iter().copied().min().unwrap_or(NO_RULE);
        }
        self.groups.bit_vectors = groups;
    }

    fn insert_filter_into_group(
        &mut self,
        group: &BitVectorGroup,
        filter: RankedFilter<'_>,
    ) -> Result<(), NoRoomInBlock> {
        let first_block = group.first_verification_block.ok_or(NoRoomInBlock)?;
        if has_too_many_bitmaps_to_edit(group) {
            return Err(NoRoomInBlock);
        }
        let insertion = choose_bit(self.ranks_of_bits(group), filter.rank).ok_or(NoRoomInBlock)?;
        let lane = self.rows.lane_of_filter(filter.tests, filter.rank);
        let mut blocks = self.bucket_rows_mut(first_block, group.filter_count.div_ceil(LANES));
        let bit = match insertion {
            InsertionOfBit::InPlace(bit) => {
                blocks.write_lane(bit, &lane);
                bit
            }
            InsertionOfBit::MovesUp { from, spare } => {
                blocks.insert_lane(from, spare, &lane);
                self.ranks_of_bits_mut(group).copy_within(from..spare, from + 1);
                self.edit_bitmaps(group, from..spare + 1, |bits| move_bits_up(bits, from..spare));
                from
            }
            InsertionOfBit::MovesDown { spare, end } => {
                blocks.remove_lane(spare, end, &lane);
                self.ranks_of_bits_mut(group).copy_within(spare + 1..end, spare);
                self.edit_bitmaps(group, spare..end, |bits| move_bits_down(bits, spare + 1..end));
                end - 1
            }
        };
        self.ranks_of_bits_mut(group)[bit] = filter.rank;
        self.set_bit_in_overlapped_bitmaps(group, bit, filter.tests);
        Ok(())
    }

    fn remove_bit(&mut self, group: &BitVectorGroup, bit: usize) {
        self.ranks_of_bits_mut(group)[bit] = NO_RULE;
        if has_too_many_bitmaps_to_edit(group) {
            return;
        }
        if let Some(first_block) = group.first_verification_block {
            let empty = self.rows.empty_lane();
            let blocks = group.filter_count.div_ceil(LANES);
            self.bucket_rows_mut(first_block, blocks).write_lane(bit, &empty);
            self.edit_bitmaps(group, bit..bit + 1, |bits| write_bit(bits, bit, false));
        }
    }

    fn set_bit_in_overlapped_bitmaps(
        &mut self,
        group: &BitVectorGroup,
        bit: usize,
        tests: &[WordTest],
    ) {
        for (index, word) in group.words.iter().enumerate() {
            let set = |bits: &mut [u32]| write_bit(bits, bit, true);
            let all = match self.word_test_methods[word.root.word] {
                KeyWordTestMethod::Interval { bits } => (0, u32::MAX >> (32 - bits)),
                KeyWordTestMethod::Bits => (0, u32::MAX),
            };
            if interval_of_test(tests[word.root.word]) == all {
                for bitmap in 0..word.bitmap_count {
                    self.edit_bitmap(group, index, bitmap, bit..bit + 1, set);
                }
                continue;
            }
            let children = self.find_leaf_children(&word.root, tests, usize::MAX);
            // Many children may lead to one bitmap.
            for leaf in self.distinct_leaves(&children.unwrap_or_default()) {
                self.edit_bitmap(group, index, (leaf & !LEAF_FLAG) as usize, bit..bit + 1, set);
            }
        }
    }

    /// Changes some bits of all bitmaps.
    fn edit_bitmaps(
        &mut self,
        group: &BitVectorGroup,
        changed_bits: Range<usize>,
        edit: impl Fn(&mut [u32]),
    ) {
        for (index, word) in group.words.iter().enumerate() {
            for bitmap in 0..word.bitmap_count {
                self.edit_bitmap(group, index, bitmap, changed_bits.clone(), &edit);
            }
        }
    }

    /// Changes some bits of a bitmap. Its summary excludes no line that it did not exclude before,
    /// unless the line is empty.
    fn edit_bitmap(
        &mut self,
        group: &BitVectorGroup,
        word: usize,
        bitmap: usize,
        changed_bits: Range<usize>,
        edit: impl Fn(&mut [u32]),
    ) {
        let lines = group.summary_lines_per_bitmap + group.bit_lines_per_bitmap;
        let first = group.words[word].first_bitmap_line + bitmap * lines;
        let words = CacheLine::as_words_mut(&mut self.lines[first..first + lines]);
        let (summary, bits) = words.split_at_mut(group.summary_lines_per_bitmap * CACHE_LINE_WORDS);
        edit(bits);
        if summary.is_empty() {
            return;
        }
        let line_bits = CACHE_LINE_WORDS * 32;
        for line in changed_bits.start / line_bits..=(changed_bits.end - 1) / line_bits {
            let of_line = &bits[line * CACHE_LINE_WORDS..][..CACHE_LINE_WORDS];
            write_bit(summary, line, of_line.iter().any(|word| *word != 0));
        }
    }

    fn ranks_of_bits(&self, group: &BitVectorGroup) -> &[u32] {
        &CacheLine::as_words(&self.lines[group.first_rank_line..])[..group.filter_count]
    }

    fn ranks_of_bits_mut(&mut self, group: &BitVectorGroup) -> &mut [u32] {
        let lines = &mut self.lines[group.first_rank_line..];
        &mut CacheLine::as_words_mut(lines)[..group.filter_count]
    }
}

fn has_too_many_bitmaps_to_edit(group: &BitVectorGroup) -> bool {
    group.words.iter().map(|word| word.bitmap_count).sum::<usize>() > EDITED_BITMAPS_MAX
}

/// The bit of a filter: after those of lower ranks, before those of higher ones. `ranks` are those
/// of all bits, which ascend but for spare bits.
fn choose_bit(ranks: &[u32], rank: u32) -> Option<InsertionOfBit> {
    let is_higher = |of_bit: &u32| *of_bit != NO_RULE && *of_bit > rank;
    let end = ranks.iter().position(is_higher).unwrap_or(ranks.len());
    let start = ranks[..end].iter().rposition(|of_bit| *of_bit != NO_RULE).map_or(0, |bit| bit + 1);
    if start < end {
        return Some(InsertionOfBit::InPlace(start.midpoint(end)));
    }
    let is_spare = |of_bit: &u32| *of_bit == NO_RULE;
    let up = ranks[end..].iter().position(is_spare).map(|moved| (moved, end + moved));
    let down = ranks[..end].iter().rposition(is_spare).map(|spare| (end - spare - 1, spare));
    match (up, down) {
        (Some((moved, spare)), down) if down.is_none_or(|(other, _)| moved <= other) => {
            (moved <= MOVED_BITS_MAX).then_some(InsertionOfBit::MovesUp { from: end, spare })
        }
        (_, Some((moved, spare))) => {
            (moved <= MOVED_BITS_MAX).then_some(InsertionOfBit::MovesDown { spare, end })
        }
        _ => None,
    }
}

fn write_bit(bits: &mut [u32], bit: usize, is_set: bool) {
    let word = &mut bits[bit / 32];
    *word = *word & !(1 << (bit % 32)) | u32::from(is_set) << (bit % 32);
}

fn copy_bit(bits: &mut [u32], from: usize, to: usize) {
    let is_set = bits[from / 32] >> (from % 32) & 1 == 1;
    write_bit(bits, to, is_set);
}

/// Moves bits to the next higher ones; the lowest becomes 0.
fn move_bits_up(bits: &mut [u32], moved: Range<usize>) {
    moved.clone().rev().for_each(|bit| copy_bit(bits, bit, bit + 1));
    write_bit(bits, moved.start, false);
}

/// Moves bits to the next lower ones; the highest becomes 0.
fn move_bits_down(bits: &mut [u32], moved: Range<usize>) {
    moved.clone().for_each(|bit| copy_bit(bits, bit, bit - 1));
    write_bit(bits, moved.end - 1, false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_chosen_in_the_order_of_ranks() {
        const SPARE: u32 = NO_RULE;
        for (ranks, rank, expected) in [
            (&[10, SPARE, 20][..], 15, Some(InsertionOfBit::InPlace(1))),
            (&[10, SPARE, SPARE, SPARE, 20], 15, Some(InsertionOfBit::InPlace(2))),
            (&[SPARE, 10, 20], 5, Some(InsertionOfBit::InPlace(0))),
            (&[10, 20, SPARE], 25, Some(InsertionOfBit::InPlace(2))),
            (&[10, 20, SPARE], 15, Some(InsertionOfBit::MovesUp { from: 1, spare: 2 })),
            (&[SPARE, 10, 20], 15, Some(InsertionOfBit::MovesDown { spare: 0, end: 2 })),
            (&[SPARE, 10, 20], 25, Some(InsertionOfBit::MovesDown { spare: 0, end: 3 })),
            (&[10, 20, SPARE], 5, Some(InsertionOfBit::MovesUp { from: 0, spare: 2 })),
            (&[10, 20], 15, None),
        ] {
            assert_eq!(choose_bit(ranks, rank), expected, "{rank} into {ranks:?}");
        }
        let ascending_before_spare_bit =
            |filters: usize| (1..=filters as u32).chain([SPARE]).collect::<Vec<u32>>();
        let most = InsertionOfBit::MovesUp { from: 0, spare: MOVED_BITS_MAX };
        assert_eq!(choose_bit(&ascending_before_spare_bit(MOVED_BITS_MAX), 0), Some(most));
        assert_eq!(choose_bit(&ascending_before_spare_bit(MOVED_BITS_MAX + 1), 0), None);
    }

    #[test]
    fn bits_move_across_words() {
        for (start, end) in [(0, 1), (3, 40), (31, 33), (30, 64), (40, 95)] {
            let mut bits = [0x9669_a55a_u32, 0x1234_5678, 0xdead_beef];
            let at = |bits: &[u32; 3], bit: usize| bits[bit / 32] >> (bit % 32) & 1;
            let before = bits;
            move_bits_up(&mut bits, start..end);
            for bit in 0..96 {
                let expected = match bit {
                    _ if bit == start => 0,
                    _ if bit > start && bit <= end => at(&before, bit - 1),
                    _ => at(&before, bit),
                };
                assert_eq!(at(&bits, bit), expected, "{start}..{end}: {bit}");
            }
            move_bits_down(&mut bits, start + 1..end + 1);
            for bit in (0..96).filter(|bit| *bit != end) {
                assert_eq!(at(&bits, bit), at(&before, bit), "{start}..{end}: {bit}");
            }
        }
    }
}
