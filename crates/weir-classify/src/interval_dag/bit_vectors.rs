//! Construction of bit vectors: for each word a search for the bitmap of the filters that its
//! value passes; their conjunction are the filters that match.
//!
//! # Source
//! T. V. Lakshman, D. Stiliadis: High-Speed Policy-based Packet Forwarding Using Efficient
//! Multi-dimensional Range Matching, SIGCOMM 1998. The summaries are those of F. Baboescu,
//! G. Varghese: Scalable Packet Classification, SIGCOMM 2001.

use std::collections::HashMap;

use super::columns::FilterColumns;
use super::hash::BuildWordHasher;
use super::node::{LEAF, NodeTable};
use super::sweep::cut_into_pieces;

/// Bits of a cache line.
pub(super) const LINE_BITS: usize = 512;
/// Words of a cache line.
pub(super) const LINE_WORDS: usize = 16;
/// The most filters of one group of bit vectors. A word has at most twice as many bitmaps as there
/// are filters, so this bounds the memory: 1,152 bytes for each filter and word, and the searches.
pub(super) const BIT_VECTOR_FILTERS_MAX: usize = 4096;
/// Bitmaps of more lines have a summary in front: a bit for each line that is not all zero.
pub(super) const LINES_WITHOUT_SUMMARY_MAX: usize = 4;

/// Bit vectors of one group.
#[derive(Debug)]
pub(super) struct BitVectors {
    pub(super) nodes: NodeTable,
    /// Filters in the order of bits: ascending ranks.
    pub(super) filters: Vec<u32>,
    pub(super) words: Vec<WordBitmaps>,
    /// Whether a filter tests more than the words have bitmaps for.
    pub(super) needs_verification: bool,
}

/// The bitmaps of one word.
#[derive(Debug)]
pub(super) struct WordBitmaps {
    pub(super) word: usize,
    pub(super) root: u32,
    /// Summary and bits of each, in whole cache lines.
    pub(super) bitmaps: Vec<Vec<u32>>,
}

/// Cache lines of bits and of the summary of a bitmap for that many filters.
pub(super) fn bitmap_lines(filter_count: usize) -> (usize, usize) {
    let lines = filter_count.div_ceil(LINE_BITS);
    (lines, if lines > LINES_WITHOUT_SUMMARY_MAX { lines.div_ceil(LINE_BITS) } else { 0 })
}

/// Builds the bit vectors of at most [`BIT_VECTOR_FILTERS_MAX`] filters.
pub(super) fn build_bit_vectors(columns: &FilterColumns, list: &[u32]) -> BitVectors {
    let mut filters = list.to_vec();
    filters.sort_unstable_by_key(|filter| columns.ranks[*filter as usize]);
    let mut bit_of = vec![0; columns.ranks.len()];
    for (bit, filter) in filters.iter().enumerate() {
        bit_of[*filter as usize] = bit as u32;
    }
    let mut nodes = NodeTable::default();
    let mut place_of = vec![0; columns.ranks.len()];
    let mut words = Vec::new();
    for (word, column) in columns.words.iter().enumerate() {
        let is_tested = |filter: &u32| {
            let (lo, hi) = (column.lo[*filter as usize], column.hi[*filter as usize]);
            (lo, hi) != (0, column.bits.map_or(u32::MAX, |bits| u32::MAX >> (32 - bits)))
        };
        if column.bits.is_none() || !filters.iter().any(is_tested) {
            continue;
        }
        let mut bitmaps = Vec::new();
        let mut index_of: HashMap<Vec<u32>, u32, BuildWordHasher> = HashMap::default();
        let pieces = cut_into_pieces(column, list, 0, &mut place_of);
        let leaves = pieces.into_iter().map(|piece| {
            let bits = piece.list.iter().map(|filter| bit_of[*filter as usize] as usize);
            let bitmap = write_bitmap(filters.len(), bits);
            let index = *index_of.entry(bitmap).or_insert_with_key(|bitmap| {
                bitmaps.push(bitmap.clone());
                bitmaps.len() as u32 - 1
            });
            (piece.start, LEAF | index)
        });
        let leaves = leaves.collect();
        words.push(WordBitmaps { word, root: nodes.add_search(word, leaves), bitmaps });
    }
    let needs_verification = columns.words.iter().any(|column| column.is_masked);
    BitVectors { nodes, filters, words, needs_verification }
}

fn write_bitmap(filter_count: usize, bits: impl Iterator<Item = usize>) -> Vec<u32> {
    let (line_count, summary_lines) = bitmap_lines(filter_count);
    let mut words = vec![0; (line_count + summary_lines) * LINE_WORDS];
    let (summary, data) = words.split_at_mut(summary_lines * LINE_WORDS);
    for bit in bits {
        data[bit / 32] |= 1 << (bit % 32);
        if !summary.is_empty() {
            let line = bit / LINE_BITS;
            summary[line / 32] |= 1 << (line % 32);
        }
    }
    words
}
