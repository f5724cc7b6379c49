//! Look-ups of a batch of keys: all searches of all keys advance together, a node each, so that
//! the cache misses of one overlap the work of the others.

use super::block::{BitVectorGroup, ClassifierBlock, SearchRoot};
use super::block_parser::SEARCH_GROUPS_MAX;
use super::bucket_rows::RowShape;
use super::cache_line::{CacheLine, LANES};
use super::dag_construction::decode_bucket_leaf;
use super::lane_comparisons::LaneInstructions;
use super::search_node::LEAF_FLAG;
use crate::filter_set::NO_RULE;
use crate::key::KeySchema;

/// Keys of a batch.
pub(super) const KEYS_PER_BATCH: usize = 16;
/// The most searches that advance together for each key.
const SEARCHES_PER_KEY_MAX: usize = KeySchema::WORDS_MAX;
const _: () = assert!(SEARCH_GROUPS_MAX <= SEARCHES_PER_KEY_MAX);
/// The most searches of a batch: a power of two.
const SEARCH_COUNT_MAX: usize = KEYS_PER_BATCH * SEARCHES_PER_KEY_MAX;
/// Half of a second-level cache of today. Fetching costs as much as it saves there.
const BLOCK_BYTES_WITHOUT_PREFETCH_MAX: usize = 512 << 10;

/// What is done with the rules that match.
pub(super) trait MatchSink {
    /// Whether only the least rank of each key is of interest.
    const NEEDS_LEAST_RANK_ONLY: bool;

    /// The key of that place in the batch matches a filter of that rank.
    fn add_matching_filter(&mut self, place: usize, rank: u32);

    /// The key of that place matches those of eight filters that are set in `lanes`. Their ranks
    /// ascend.
    fn add_matching_lanes<L: LaneInstructions>(
        &mut self,
        place: usize,
        ranks: &[u32; LANES],
        lanes: u32,
    );

    /// The least rank of a key so far.
    fn least_rank(&self, place: usize) -> u32;

    /// So many lines of the block are read for a key.
    #[inline(always)]
    fn add_lines_read(&mut self, _line_count: usize) {}

    /// All filters that the keys of a batch match were added; the next batch begins.
    fn finish_batch(&mut self, key_count: usize);
}

/// What a walk remembers of a batch.
pub(super) struct WalkState<R: RowShape> {
    row_keys: [R::KeyInRowOrder; KEYS_PER_BATCH],
    /// Where each search of each key is.
    current_children: [[u32; KEYS_PER_BATCH]; SEARCHES_PER_KEY_MAX],
    /// The searches that are at nodes: places in `current_children`.
    active_searches: [u16; SEARCH_COUNT_MAX],
    /// Whether what is read next is fetched before: a block that the second cache holds is not.
    must_prefetch: bool,
}

/// Finds what keys match, row after row.
#[inline(always)]
pub(super) fn walk_keys<L: LaneInstructions, R: RowShape, S: MatchSink>(
    block: &ClassifierBlock,
    shape: R,
    keys: &[u32],
    sink: &mut S,
) {
    let mut state = WalkState::<R> {
        row_keys: [R::ZERO_KEY; KEYS_PER_BATCH],
        current_children: [[0; KEYS_PER_BATCH]; SEARCHES_PER_KEY_MAX],
        active_searches: [0; SEARCH_COUNT_MAX],
        must_prefetch: block.memory_bytes() > BLOCK_BYTES_WITHOUT_PREFETCH_MAX,
    };
    let words_per_key = shape.counts().words();
    for batch in keys.chunks(KEYS_PER_BATCH * words_per_key) {
        walk_batch::<L, R, S>(block, shape, batch, &mut state, sink);
        sink.finish_batch(batch.len() / words_per_key);
    }
}

#[inline(always)]
fn walk_batch<L: LaneInstructions, R: RowShape, S: MatchSink>(
    block: &ClassifierBlock,
    shape: R,
    keys: &[u32],
    state: &mut WalkState<R>,
    sink: &mut S,
) {
    let words_per_key = shape.counts().words();
    let count = keys.len() / words_per_key;
    for (key, row_keys) in keys.chunks_exact(words_per_key).zip(&mut state.row_keys) {
        block.rows.fill_row_keys(shape, key, row_keys.as_mut());
    }
    let groups = block.lookup_groups(S::NEEDS_LEAST_RANK_ONLY);
    let roots = groups.searches.iter().map(|group| &group.root);
    run_searches_to_leaves::<L, R, S>(block, shape, keys, roots, state, sink);
    if state.must_prefetch {
        for leaves in &state.current_children[..groups.searches.len()] {
            prefetch_rest_of_first_blocks(block, shape, &leaves[..count]);
        }
    }
    for (group, leaves) in groups.searches.iter().zip(&state.current_children) {
        // For all keys at once: what a single one needs cannot be predicted.
        if S::NEEDS_LEAST_RANK_ONLY
            && (0..count).all(|place| sink.least_rank(place) < group.least_rank)
        {
            continue;
        }
        for (place, (leaf, row_keys)) in leaves.iter().zip(&state.row_keys).enumerate().take(count)
        {
            match_key_with_bucket::<L, S>(block, shape, *leaf, row_keys.as_ref(), place, sink);
        }
    }
    for group in &groups.bit_vectors {
        let roots = group.words.iter().map(|word| &word.root);
        run_searches_to_leaves::<L, R, S>(block, shape, keys, roots, state, sink);
        for place in 0..count {
            if S::NEEDS_LEAST_RANK_ONLY && sink.least_rank(place) < group.least_rank {
                continue;
            }
            match_bit_vectors::<L, R, S>(block, shape, group, state, place, sink);
        }
    }
}

/// Follows every search from its root to a leaf, for every key.
#[inline(always)]
fn run_searches_to_leaves<'a, L: LaneInstructions, R: RowShape, S: MatchSink>(
    block: &ClassifierBlock,
    shape: R,
    keys: &[u32],
    roots: impl Iterator<Item = &'a SearchRoot>,
    state: &mut WalkState<R>,
    sink: &mut S,
) {
    let words_per_key = shape.counts().words();
    let WalkState { current_children, active_searches, must_prefetch, .. } = state;
    let prefetch_child = |child: u32| {
        if *must_prefetch {
            prefetch_child(block, shape, child);
        }
    };
    let mut active_count = 0;
    for (search, (root, current_children)) in roots.zip(&mut *current_children).enumerate() {
        let cells = block.cells(root);
        for (place, (key, child)) in
            keys.chunks_exact(words_per_key).zip(current_children).enumerate()
        {
            *child = cells[(key[root.word] >> root.shift) as usize & (cells.len() - 1)];
            sink.add_lines_read(1);
            prefetch_child(*child);
            active_searches[active_count % SEARCH_COUNT_MAX] =
                (search * KEYS_PER_BATCH + place) as u16;
            active_count += usize::from(*child & LEAF_FLAG == 0);
        }
    }
    let current_children = current_children.as_flattened_mut();
    while active_count > 0 {
        let mut kept = 0;
        for at in 0..active_count {
            // The remainder changes nothing, and spares the check of the index.
            let search = usize::from(active_searches[at % SEARCH_COUNT_MAX]) % SEARCH_COUNT_MAX;
            let [node_keys, node_children] = block.node(current_children[search]);
            let value = keys[(search % KEYS_PER_BATCH) * words_per_key + node_keys.0[0] as usize];
            let child = node_children.0[L::count_node_keys_up_to(node_keys, value) & 15];
            current_children[search] = child;
            sink.add_lines_read(2);
            prefetch_child(child);
            active_searches[kept % SEARCH_COUNT_MAX] = search as u16;
            kept += usize::from(child & LEAF_FLAG == 0);
        }
        active_count = kept;
    }
}

/// Fetches the first two lines of what a child refers to: a node, or the first block of a bucket.
/// For a bitmap, this fetches lines of the block that are not needed. No branch depends on the
/// child, which cannot be predicted.
#[inline(always)]
fn prefetch_child(block: &ClassifierBlock, shape: impl RowShape, child: u32) {
    let node_line = block.first_node_line + 2 * child as usize;
    let line = std::hint::select_unpredictable(
        child & LEAF_FLAG == 0,
        node_line,
        first_bucket_line(block, shape, child),
    );
    prefetch_line(block.lines.as_ptr().wrapping_add(line));
    prefetch_line(block.lines.as_ptr().wrapping_add(line + 1));
}

/// Fetches the other lines of the first blocks of buckets.
#[inline(always)]
fn prefetch_rest_of_first_blocks(block: &ClassifierBlock, shape: impl RowShape, leaves: &[u32]) {
    for leaf in leaves {
        let line = first_bucket_line(block, shape, *leaf);
        for next in 2..shape.counts().bucket_block_lines() {
            prefetch_line(block.lines.as_ptr().wrapping_add(line + next));
        }
    }
}

#[inline(always)]
fn first_bucket_line(block: &ClassifierBlock, shape: impl RowShape, leaf: u32) -> usize {
    block.first_bucket_block_line + decode_bucket_leaf(leaf).0 * shape.counts().bucket_block_lines()
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
fn match_key_with_bucket<L: LaneInstructions, S: MatchSink>(
    block: &ClassifierBlock,
    shape: impl RowShape,
    leaf: u32,
    key_in_row_order: &[CacheLine],
    key_index_in_batch: usize,
    sink: &mut S,
) {
    let (first, count) = decode_bucket_leaf(leaf);
    for index in first..first + count {
        let lines = block.bucket_block(index, shape);
        let ranks = lines[lines.len() - 1].0.last_chunk().expect("half a line");
        // Ranks ascend within a block, and from block to block.
        if S::NEEDS_LEAST_RANK_ONLY
            && index > first
            && sink.least_rank(key_index_in_batch) < ranks[0]
        {
            break;
        }
        sink.add_lines_read(lines.len());
        sink.add_matching_lanes::<L>(
            key_index_in_batch,
            ranks,
            L::match_bucket_block(lines, shape, key_in_row_order),
        );
    }
}

/// Matches the conjunction of the bitmaps of all words, line by line; with a summary, those lines
/// alone that no summary excludes.
#[inline(always)]
fn match_bit_vectors<L: LaneInstructions, R: RowShape, S: MatchSink>(
    block: &ClassifierBlock,
    shape: R,
    group: &BitVectorGroup,
    state: &WalkState<R>,
    place: usize,
    sink: &mut S,
) {
    let row_keys = state.row_keys[place].as_ref();
    let mut bitmaps = [0; SEARCHES_PER_KEY_MAX];
    let bitmap_lines = group.bit_lines_per_bitmap + group.summary_lines_per_bitmap;
    for ((bitmap, word), leaves) in
        bitmaps.iter_mut().zip(&group.words).zip(&state.current_children)
    {
        *bitmap = word.first_bitmap_line + (leaves[place] & !LEAF_FLAG) as usize * bitmap_lines;
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
    let add_line = |line: usize, sink: &mut S| {
        sink.add_lines_read(bitmaps.len());
        visit_set_bits_until_true(&conjunction(group.summary_lines_per_bitmap + line), |bit| {
            let bit = line * 512 + bit;
            if bit >= group.filter_count {
                return false;
            }
            if let Some(first) = group.first_verification_block {
                let lines = block.bucket_block(first + bit / LANES, shape);
                sink.add_lines_read(lines.len());
                if L::match_bucket_block(lines, shape, row_keys) >> (bit % LANES) & 1 == 0 {
                    return false;
                }
            }
            sink.add_lines_read(1);
            let rank = block.word(group.first_rank_line, bit);
            if rank != NO_RULE {
                sink.add_matching_filter(place, rank);
            }
            S::NEEDS_LEAST_RANK_ONLY && rank != NO_RULE
        })
    };
    if group.summary_lines_per_bitmap == 0 {
        let _ = (0..group.bit_lines_per_bitmap).any(|line| add_line(line, sink));
        return;
    }
    for summary in 0..group.summary_lines_per_bitmap {
        sink.add_lines_read(bitmaps.len());
        let found = visit_set_bits_until_true(&conjunction(summary), |bit| {
            let line = summary * 512 + bit;
            line < group.bit_lines_per_bitmap && add_line(line, sink)
        });
        if found {
            return;
        }
    }
}

/// Calls `visit` with the index of each bit that is set, in ascending order, until it returns
/// true. Whether it did. One loop over all bits: how many a word has cannot be predicted.
#[inline(always)]
fn visit_set_bits_until_true(words: &[u32; 16], mut visit: impl FnMut(usize) -> bool) -> bool {
    let mut left = *words;
    let mut words_left = left
        .iter()
        .enumerate()
        .fold(0_u32, |set, (index, word)| set | u32::from(*word != 0) << index);
    while words_left != 0 {
        let index = words_left.trailing_zeros() as usize % 16;
        let bits = left[index];
        left[index] = bits & (bits - 1);
        words_left &= !(u32::from(left[index] == 0) << index);
        if visit(index * 32 + bits.trailing_zeros() as usize) {
            return true;
        }
    }
    false
}
