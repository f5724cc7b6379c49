//! Construction of bit vectors: for each word a search for the bitmap of the filters that its
//! value passes; their conjunction are the filters that match.
//!
//! # Source
//! T. V. Lakshman, D. Stiliadis: High-Speed Policy-based Packet Forwarding Using Efficient
//! Multi-dimensional Range Matching, SIGCOMM 1998. The summaries are those of F. Baboescu,
//! G. Varghese: Scalable Packet Classification, SIGCOMM 2001.

use std::collections::HashMap;

use super::build_meter::BuildMeter;
use super::filter_columns::{FilterColumns, IntervalColumn};
use super::root_table::RootTable;
use super::search_node::{LEAF_FLAG, NodeRef, NodeTable};
use super::word_hasher::BuildWordHasher;
use crate::build_limits::ClassifierBuildError;

/// Bits of a cache line.
pub(super) const CACHE_LINE_BITS: usize = 512;
/// Words of a cache line.
pub(super) const CACHE_LINE_WORDS: usize = 16;
/// The most filters of one group of bit vectors. A word has at most twice as many bitmaps as there
/// are filters, so this bounds the memory: 1,152 bytes for each filter and word, and the searches;
/// with spare bits, a third more.
pub(super) const BIT_VECTOR_FILTERS_MAX: usize = 4096;
/// Bitmaps of more lines have a summary in front: a bit for each line that is not all zero.
pub(super) const LINES_WITHOUT_SUMMARY_MAX: usize = 4;

/// Bit vectors of one group.
#[derive(Debug)]
pub(super) struct BitVectors {
    pub(super) nodes: NodeTable,
    /// Filters in the order of bits: ascending ranks. `None` is a spare bit.
    pub(super) filters_of_bits: Vec<Option<u32>>,
    pub(super) words: Vec<WordBitmaps>,
    /// Whether a filter tests more than the words have bitmaps for.
    pub(super) needs_verification: bool,
}

/// The bitmaps of one word.
#[derive(Debug)]
pub(super) struct WordBitmaps {
    /// Leads to the index of a bitmap.
    pub(super) root: RootTable,
    /// Summary and bits of each, in whole cache lines.
    pub(super) bitmaps: Vec<Vec<u32>>,
}

/// Cache lines of bits and of the summary of a bitmap for that many filters.
pub(super) fn count_bitmap_and_summary_lines(filter_count: usize) -> (usize, usize) {
    let lines = filter_count.div_ceil(CACHE_LINE_BITS);
    (lines, if lines > LINES_WITHOUT_SUMMARY_MAX { lines.div_ceil(CACHE_LINE_BITS) } else { 0 })
}

/// Builds the bit vectors of at most [`BIT_VECTOR_FILTERS_MAX`] filters.
///
/// # Errors
/// They exceed the limits of the construction.
pub(super) fn build_bit_vectors(
    columns: &FilterColumns,
    list: &[u32],
    has_spare_bits: bool,
    meter: &BuildMeter,
) -> Result<BitVectors, ClassifierBuildError> {
    let mut filters = list.to_vec();
    filters.sort_unstable_by_key(|filter| columns.ranks[*filter as usize]);
    let filters_of_bits = match has_spare_bits {
        true => spread_over_spare_bits(&filters),
        false => filters.iter().copied().map(Some).collect(),
    };
    let mut nodes = NodeTable::default();
    let mut words = Vec::new();
    for (word, column) in columns.words.iter().enumerate() {
        let Some(bits) = column.bits else { continue };
        let all = (0, u32::MAX >> (32 - bits));
        let is_any =
            |filter: &u32| (column.lo[*filter as usize], column.hi[*filter as usize]) == all;
        if filters.iter().all(is_any) {
            continue;
        }
        let (pieces, bitmaps) = collect_bitmaps(column, &filters_of_bits, meter)?;
        let mut root = RootTable::of_pieces(&mut nodes, word, bits, pieces);
        root.word = word;
        words.push(WordBitmaps { root, bitmaps });
    }
    // A filter that is inserted may end within an interval of a bitmap.
    let needs_verification = has_spare_bits || columns.words.iter().any(|column| column.is_masked);
    Ok(BitVectors { nodes, filters_of_bits, words, needs_verification })
}

/// Gives filters bits in whole cache lines of which a fifth or more are spare, evenly between them.
pub(super) fn spread_over_spare_bits(filters: &[u32]) -> Vec<Option<u32>> {
    let bit_count = (filters.len() * 5).div_ceil(4).next_multiple_of(CACHE_LINE_BITS);
    let mut bits = vec![None; bit_count];
    for (index, filter) in filters.iter().enumerate() {
        bits[index * bit_count / filters.len()] = Some(*filter);
    }
    bits
}

/// Pieces of a word, each with the index of its bitmap, and the bitmaps.
type BitmapPieces = (Vec<(u32, NodeRef)>, Vec<Vec<u32>>);

/// Sweeps over a word with one bitmap, in which filters are set where they start and cleared where
/// they end.
fn collect_bitmaps(
    column: &IntervalColumn,
    filters_of_bits: &[Option<u32>],
    meter: &BuildMeter,
) -> Result<BitmapPieces, ClassifierBuildError> {
    let sort = |ends: &[u32]| {
        let filters = filters_of_bits.iter().zip(0_usize..);
        let ends = filters.filter_map(|(filter, bit)| Some((ends[(*filter)? as usize], bit)));
        let mut sorted: Vec<(u32, usize)> = ends.collect();
        sorted.sort_unstable();
        sorted
    };
    let (starts, ends) = (sort(&column.lo), sort(&column.hi));
    let (mut started, mut ended) = (starts.iter().peekable(), ends.iter().peekable());
    let mut set = vec![0; filters_of_bits.len().div_ceil(CACHE_LINE_BITS) * CACHE_LINE_WORDS];
    let mut index_of: HashMap<Vec<u32>, u32, BuildWordHasher> = HashMap::default();
    let (mut pieces, mut bitmaps) = (vec![], vec![]);
    let mut at = 0;
    loop {
        while let Some((_, bit)) = started.next_if(|start| start.0 == at) {
            set[bit / 32] |= 1 << (bit % 32);
        }
        meter.take_steps(set.len())?;
        let index = match index_of.get(&set) {
            Some(index) => *index,
            None => {
                let bitmap = prepend_summary_to_bitmap(&set);
                meter.take_bytes(bitmap.len() * size_of::<u32>())?;
                bitmaps.push(bitmap);
                index_of.insert(set.clone(), bitmaps.len() as u32 - 1);
                bitmaps.len() as u32 - 1
            }
        };
        pieces.push((at, LEAF_FLAG | index));
        let next_start = started.peek().map(|start| start.0);
        let after_end = ended.peek().and_then(|end| end.0.checked_add(1));
        let Some(next) = next_start.into_iter().chain(after_end).min() else { break };
        at = next;
        while let Some((_, bit)) = ended.next_if(|end| end.0 < at) {
            set[bit / 32] &= !(1 << (bit % 32));
        }
    }
    Ok((pieces, bitmaps))
}

/// A bitmap as the block has it.
fn prepend_summary_to_bitmap(set: &[u32]) -> Vec<u32> {
    let (_, summary_lines_per_bitmap) = count_bitmap_and_summary_lines(set.len() * 32);
    let mut words = vec![0; summary_lines_per_bitmap * CACHE_LINE_WORDS];
    if summary_lines_per_bitmap > 0 {
        for (line, bits) in set.chunks(CACHE_LINE_WORDS).enumerate() {
            words[line / 32] |= u32::from(bits.iter().any(|word| *word != 0)) << (line % 32);
        }
    }
    words.extend_from_slice(set);
    words
}
