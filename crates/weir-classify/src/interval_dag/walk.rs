//! Look-ups of a batch of keys: all searches of all keys advance together, a node each, so that
//! the cache misses of one overlap the work of the others.

use super::block::{BitVectorGroup, CacheLine, ClassifierBlock};
use super::dag::bucket_of_leaf;
use super::lanes::LaneInstructions;
use super::node::LEAF;
use super::parse::SEARCH_GROUPS_MAX;
use super::rows::{LANES, ROW_KEYS_MAX};
use crate::filter_set::NO_RULE;
use crate::key::KeySchema;

/// Keys of a batch.
pub(super) const BATCH: usize = 16;
/// The most searches that advance together for each key.
const SEARCHES_MAX: usize = KeySchema::WORDS_MAX;
const _: () = assert!(SEARCH_GROUPS_MAX <= SEARCHES_MAX);

/// What is done with the rules that match.
pub(super) trait MatchSink {
    /// Whether only the least rank of each key is of interest.
    const LEAST_ONLY: bool;

    /// The key of that place in the batch matches the rule of a rank.
    fn add(&mut self, place: usize, rank: u32);

    /// The least rank of a key so far.
    fn least(&self, place: usize) -> u32;
}

/// The least rank of each key of a batch.
#[derive(Debug)]
pub(super) struct LeastRanks(pub(super) [u32; BATCH]);

impl MatchSink for LeastRanks {
    const LEAST_ONLY: bool = true;

    #[inline(always)]
    fn add(&mut self, place: usize, rank: u32) {
        self.0[place] = self.0[place].min(rank);
    }

    #[inline(always)]
    fn least(&self, place: usize) -> u32 {
        self.0[place]
    }
}

/// All ranks of each key of a batch.
#[derive(Debug, Default)]
pub(super) struct AllRanks(pub(super) [Vec<u32>; BATCH]);

impl MatchSink for AllRanks {
    const LEAST_ONLY: bool = false;

    #[inline(always)]
    fn add(&mut self, place: usize, rank: u32) {
        self.0[place].push(rank);
    }

    fn least(&self, _: usize) -> u32 {
        NO_RULE
    }
}

/// A counter for each rank. It counts filters, and so rules if each has one.
#[derive(Debug)]
pub(super) struct RankCounters<F>(pub(super) F);

impl<F: FnMut(u32)> MatchSink for RankCounters<F> {
    const LEAST_ONLY: bool = false;

    #[inline(always)]
    fn add(&mut self, _: usize, rank: u32) {
        self.0(rank);
    }

    fn least(&self, _: usize) -> u32 {
        NO_RULE
    }
}

/// Finds what the keys of a batch match: at most [`BATCH`], row after row.
#[inline(always)]
pub(super) fn walk_batch<L: LaneInstructions, S: MatchSink>(
    block: &ClassifierBlock,
    keys: &[u32],
    sink: &mut S,
) {
    let words_per_key = block.word_kinds.len();
    let count = keys.len() / words_per_key;
    let mut row_keys = [[0; ROW_KEYS_MAX]; BATCH];
    for (key, row_keys) in keys.chunks_exact(words_per_key).zip(&mut row_keys) {
        block.rows.fill_row_keys(key, row_keys);
    }
    let mut leaves = [[0; BATCH]; SEARCHES_MAX];
    let roots = block.searches.iter().map(|group| group.root);
    advance_searches::<L>(block, keys, count, roots, &mut leaves);
    for (group, leaves) in block.searches.iter().zip(&leaves) {
        for (place, (leaf, row_keys)) in leaves.iter().zip(&row_keys).enumerate().take(count) {
            if S::LEAST_ONLY && sink.least(place) < group.least_rank {
                continue;
            }
            match_bucket::<L, S>(block, *leaf, row_keys, place, sink);
        }
    }
    for group in &block.bit_vectors {
        let roots = group.words.iter().map(|word| word.root);
        advance_searches::<L>(block, keys, count, roots, &mut leaves);
        for (place, row_keys) in row_keys.iter().enumerate().take(count) {
            if S::LEAST_ONLY && sink.least(place) < group.least_rank {
                continue;
            }
            match_bit_vectors::<L, S>(block, group, &leaves, row_keys, place, sink);
        }
    }
}

/// Follows every search from its root to a leaf, for every key.
#[inline(always)]
fn advance_searches<L: LaneInstructions>(
    block: &ClassifierBlock,
    keys: &[u32],
    count: usize,
    roots: impl Iterator<Item = u32>,
    leaves: &mut [[u32; BATCH]; SEARCHES_MAX],
) {
    let words_per_key = block.word_kinds.len();
    let mut active = [0_u16; BATCH * SEARCHES_MAX];
    let mut active_count = 0;
    for (search, root) in roots.enumerate() {
        leaves[search] = [root; BATCH];
        if root & LEAF == 0 {
            for place in 0..count {
                active[active_count] = (search * BATCH + place) as u16;
                active_count += 1;
            }
        }
    }
    let leaves = leaves.as_flattened_mut();
    while active_count > 0 {
        let mut kept = 0;
        for at in 0..active_count {
            let search = usize::from(active[at]);
            let [node_keys, children] = block.node(leaves[search]);
            let value = keys[(search % BATCH) * words_per_key + node_keys.0[0] as usize];
            let child = children.0[L::count_keys_up_to(node_keys, value) & 15];
            leaves[search] = child;
            prefetch_child(block, child);
            active[kept] = search as u16;
            kept += usize::from(child & LEAF == 0);
        }
        active_count = kept;
    }
}

/// Fetches what a child refers to: a node, or the first block of a bucket. For a bitmap, this
/// fetches lines of the block that are not needed.
#[inline(always)]
fn prefetch_child(block: &ClassifierBlock, child: u32) {
    let (first, lines) = if child & LEAF == 0 {
        (block.first_node_line + 2 * child as usize, 2)
    } else {
        let lines = block.rows.block_lines();
        (block.first_block_line + bucket_of_leaf(child).0 * lines, lines)
    };
    for line in first..first + lines {
        prefetch_line(block.lines.as_ptr().wrapping_add(line));
    }
}

#[inline(always)]
fn prefetch_line(line: *const CacheLine) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetches are hints; they do not fault, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[inline(always)]
fn match_bucket<L: LaneInstructions, S: MatchSink>(
    block: &ClassifierBlock,
    leaf: u32,
    row_keys: &[u32; ROW_KEYS_MAX],
    place: usize,
    sink: &mut S,
) {
    let (first, count) = bucket_of_leaf(leaf);
    for index in first..first + count {
        let lines = block.bucket_block(index);
        let mut lanes = L::match_block(lines, &block.rows, row_keys);
        let ranks = &lines[lines.len() - 1].0[LANES..];
        if S::LEAST_ONLY {
            // Ranks ascend within a block, and from block to block.
            if lanes != 0 {
                sink.add(place, ranks[lanes.trailing_zeros() as usize & (LANES - 1)]);
                break;
            }
        } else {
            while lanes != 0 {
                sink.add(place, ranks[lanes.trailing_zeros() as usize & (LANES - 1)]);
                lanes &= lanes - 1;
            }
        }
    }
}

/// Matches the conjunction of the bitmaps of all words, line by line; with a summary, those lines
/// alone that no summary excludes.
#[inline(always)]
fn match_bit_vectors<L: LaneInstructions, S: MatchSink>(
    block: &ClassifierBlock,
    group: &BitVectorGroup,
    leaves: &[[u32; BATCH]; SEARCHES_MAX],
    row_keys: &[u32; ROW_KEYS_MAX],
    place: usize,
    sink: &mut S,
) {
    let mut bitmaps = [0; SEARCHES_MAX];
    let bitmap_lines = group.line_count + group.summary_lines;
    for ((bitmap, word), leaves) in bitmaps.iter_mut().zip(&group.words).zip(leaves) {
        *bitmap = word.first_bitmap_line + (leaves[place] & !LEAF) as usize * bitmap_lines;
    }
    let bitmaps = &bitmaps[..group.words.len()];
    let conjunction = |line: usize| {
        let mut all = [u32::MAX; 16];
        for bitmap in bitmaps {
            let bits = &block.lines[bitmap + line].0;
            all.iter_mut().zip(bits).for_each(|(all, bits)| *all &= bits);
        }
        all
    };
    let mut add_line = |line: usize| {
        for_each_bit(&conjunction(group.summary_lines + line), |bit| {
            let bit = line * 512 + bit;
            if bit < group.filter_count && is_verified::<L>(block, group, bit, row_keys) {
                sink.add(place, block.word(group.first_rank_line, bit));
                return S::LEAST_ONLY;
            }
            false
        })
    };
    if group.summary_lines == 0 {
        let _ = (0..group.line_count).any(add_line);
        return;
    }
    for summary in 0..group.summary_lines {
        let found = for_each_bit(&conjunction(summary), |bit| {
            let line = summary * 512 + bit;
            line < group.line_count && add_line(line)
        });
        if found {
            return;
        }
    }
}

/// Whether a filter matches in what its bitmaps do not test.
#[inline(always)]
fn is_verified<L: LaneInstructions>(
    block: &ClassifierBlock,
    group: &BitVectorGroup,
    bit: usize,
    row_keys: &[u32; ROW_KEYS_MAX],
) -> bool {
    let Some(first) = group.first_block else { return true };
    let lines = block.bucket_block(first + bit / LANES);
    L::match_block(lines, &block.rows, row_keys) >> (bit % LANES) & 1 == 1
}

/// Calls `visit` with the index of each bit that is set, in ascending order, until it returns
/// true. Whether it did.
#[inline(always)]
fn for_each_bit(words: &[u32; 16], mut visit: impl FnMut(usize) -> bool) -> bool {
    for (index, pair) in words.as_chunks::<2>().0.iter().enumerate() {
        let mut bits = u64::from(pair[0]) | u64::from(pair[1]) << 32;
        while bits != 0 {
            if visit(index * 64 + bits.trailing_zeros() as usize) {
                return true;
            }
            bits &= bits - 1;
        }
    }
    false
}
