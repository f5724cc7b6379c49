//! The structure as one block of cache lines, without pointers: it can be written to a file or a
//! map of a BPF program and read back.
//!
//! All numbers are 32 bits, little endian; what refers to another part is its index. In order:
//!
//! | part | cache lines |
//! |---|---|
//! | header | 1: see [`HeaderWord`] |
//! | kinds of the words of a key: 0 for bits, or the width | 2 |
//! | groups | 1 each, and 1 for each word of bit vectors |
//! | nodes | 2 each |
//! | blocks of buckets | [`RowLayout::block_lines`] each |
//! | ranks and bitmaps of groups of bit vectors | |
//! | numbers of the rules, ascending | 16 rules each |
//! | whether they decide, a bit each | 512 rules each |
//!
//! A block is parsed once, before the first look-up: see [`super::parse`].

use super::rows::{LANES, RowLayout};
use crate::key::KeyWordKind;

/// Sixteen words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct CacheLine(pub(super) [u32; 16]);

impl CacheLine {
    pub(super) const BYTES: usize = size_of::<CacheLine>();
    pub(super) const ZERO: CacheLine = CacheLine([0; 16]);
}

/// Places of the words of the header.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(super) enum HeaderWord {
    Magic,
    Version,
    ByteOrder,
    LineCount,
    /// Of all words of the block, with 0 for this one.
    Checksum,
    KeyWordCount,
    RuleCount,
    FilterCount,
    GroupCount,
    FirstNodeLine,
    NodeCount,
    FirstBlockLine,
    BlockCount,
    FirstNumberLine,
    FirstDecidingLine,
}

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"weir");
pub(super) const VERSION: u32 = 1;
pub(super) const BYTE_ORDER: u32 = 0x0102_0304;
/// Lines of the header and of the kinds of words.
pub(super) const PREAMBLE_LINES: usize = 3;

/// Kinds of groups in their first word.
pub(super) const SEARCH_GROUP: u32 = 1;
pub(super) const BIT_VECTOR_GROUP: u32 = 2;
/// Stands for no block.
pub(super) const NO_BLOCK: u32 = u32::MAX;

/// A parsed block: its lines, and the places of its parts.
#[derive(Clone, Debug)]
pub struct ClassifierBlock {
    pub(super) lines: Vec<CacheLine>,
    pub(super) word_kinds: Vec<KeyWordKind>,
    pub(super) rows: RowLayout,
    pub(super) rule_count: usize,
    /// Whether every rule has one filter: then no rule matches twice.
    pub(super) has_one_filter_per_rule: bool,
    pub(super) first_node_line: usize,
    pub(super) first_block_line: usize,
    pub(super) first_number_line: usize,
    pub(super) first_deciding_line: usize,
    pub(super) searches: Vec<SearchGroup>,
    pub(super) bit_vectors: Vec<BitVectorGroup>,
}

/// A group whose search ends in buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchGroup {
    pub(super) least_rank: u32,
    pub(super) root: u32,
}

/// A group of bit vectors.
#[derive(Clone, Debug)]
pub(super) struct BitVectorGroup {
    pub(super) least_rank: u32,
    pub(super) filter_count: usize,
    pub(super) line_count: usize,
    pub(super) summary_lines: usize,
    pub(super) first_rank_line: usize,
    /// First of the blocks that verify its filters, if the bitmaps do not test all.
    pub(super) first_block: Option<usize>,
    pub(super) words: Vec<BitVectorWord>,
}

/// The search of one word of bit vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitVectorWord {
    pub(super) word: usize,
    pub(super) root: u32,
    pub(super) first_bitmap_line: usize,
    pub(super) bitmap_count: usize,
}

impl ClassifierBlock {
    /// Its bytes: what [`ClassifierBlock::parse`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| line.0).flat_map(u32::to_le_bytes).collect()
    }

    /// Its size.
    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * CacheLine::BYTES
    }

    /// The words of the keys that it is searched for.
    pub fn word_kinds(&self) -> &[KeyWordKind] {
        &self.word_kinds
    }

    /// Whether a rule decides.
    pub(super) fn is_deciding(&self, number: u32) -> bool {
        let found = binary_search(self.rule_count, |rank| self.number_of_rank(rank).cmp(&number));
        found.is_some_and(|rank| self.is_rank_deciding(rank))
    }

    pub(super) fn is_rank_deciding(&self, rank: usize) -> bool {
        self.word(self.first_deciding_line, rank / 32) >> (rank % 32) & 1 == 1
    }

    /// The number of the rule of a rank.
    pub(super) fn number_of_rank(&self, rank: usize) -> u32 {
        self.word(self.first_number_line, rank)
    }

    /// A word of a part.
    pub(super) fn word(&self, first_line: usize, index: usize) -> u32 {
        self.lines[first_line + index / 16].0[index % 16]
    }

    /// The two lines of a node.
    pub(super) fn node(&self, index: u32) -> &[CacheLine; 2] {
        let at = self.first_node_line + 2 * index as usize;
        self.lines[at..].first_chunk().expect("a node of the block")
    }

    /// The lines of a block of a bucket.
    pub(super) fn bucket_block(&self, index: usize) -> &[CacheLine] {
        let lines = self.rows.block_lines();
        &self.lines[self.first_block_line + index * lines..][..lines]
    }

    /// The ranks of a block.
    pub(super) fn block_ranks(&self, index: usize) -> &[u32] {
        let last = self.bucket_block(index).last().expect("a block has lines");
        &last.0[LANES..]
    }
}

fn binary_search(count: usize, compare: impl Fn(usize) -> std::cmp::Ordering) -> Option<usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match compare(middle) {
            std::cmp::Ordering::Equal => return Some(middle),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

/// A checksum of words: it finds damage, not malice.
pub(super) fn checksum_lines(lines: &[CacheLine]) -> u32 {
    let mut sums = [0x9e37_79b9_u32; 16];
    for (index, line) in lines.iter().enumerate() {
        for (place, (sum, word)) in sums.iter_mut().zip(line.0).enumerate() {
            let is_own_place = index == 0 && place == HeaderWord::Checksum as usize;
            let word = if is_own_place { 0 } else { word };
            *sum = (sum.rotate_left(5) ^ word).wrapping_mul(0x85eb_ca6b);
        }
    }
    sums.into_iter().fold(0, |all, sum| (all.rotate_left(7) ^ sum).wrapping_mul(0xc2b2_ae35))
}
