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
//! | root tables of searches | 16 cells each |
//! | nodes | 2 each |
//! | blocks of buckets | [`RowLayout::bucket_block_lines`] each |
//! | ranks and bitmaps of groups of bit vectors | |
//! | numbers of the rules, ascending | 16 rules each |
//! | whether they decide, a bit each | 512 rules each |
//!
//! The rank of a filter is the number of its rule, with
//! [`COUNTS_ONLY_RANK_FLAG`](super::filter_columns::COUNTS_ONLY_RANK_FLAG) if the rule does not
//! decide.
//!
//! There are at most 32 searches for each purpose, and any number of groups of bit vectors.
//!
//! A block is parsed once, before the first look-up: see [`super::block_parser`].

use super::bucket_rows::{RowLayout, RowShape};
use super::cache_line::{CacheLine, LANES};
use super::dag_construction::decode_bucket_leaf;
use super::huge_page_lines::HugePageLines;
use super::search_node::LEAF_FLAG;
use crate::key::KeyWordTestMethod;

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
    FirstBucketBlockLine,
    BucketBlockCount,
    FirstRuleNumberLine,
    FirstDecidingFlagLine,
}

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"weir");
pub(super) const VERSION: u32 = 4;
pub(super) const BYTE_ORDER_MARK: u32 = 0x0102_0304;
/// Lines of the header and of the kinds of words.
pub(super) const PREAMBLE_LINES: usize = 3;

/// Kinds of groups in their first word.
pub(super) const SEARCH_GROUP_KIND: u32 = 1;
pub(super) const BIT_VECTOR_GROUP_KIND: u32 = 2;
/// The word of the first line of a group that states what it is for: 0 for all matches.
pub(super) const PURPOSE_WORD_OF_GROUP_LINE: usize = 10;
/// For the first match alone.
pub(super) const FIRST_MATCH_PURPOSE: u32 = 1;
/// The words of a line of a group that state a root: word, shift, bits of a cell's index, and the
/// first line of cells.
pub(super) const ROOT_WORDS_OF_GROUP_LINE: std::ops::Range<usize> = 12..16;
/// Stands for no block.
pub(super) const NO_VERIFICATION_BLOCK: u32 = u32::MAX;

/// A parsed block: its lines, and the places of its parts.
#[derive(Clone, Debug)]
pub struct ClassifierBlock {
    pub(super) lines: HugePageLines,
    pub(super) word_test_methods: Vec<KeyWordTestMethod>,
    pub(super) rows: RowLayout,
    pub(super) rule_count: usize,
    /// Whether every rule has one filter: then no rule matches twice.
    pub(super) has_one_filter_per_rule: bool,
    pub(super) first_node_line: usize,
    pub(super) first_bucket_block_line: usize,
    pub(super) first_rule_number_line: usize,
    pub(super) first_deciding_flag_line: usize,
    /// Empty blocks to which no leaf refers: room for filters that are inserted.
    pub(super) spare_bucket_blocks: std::ops::Range<usize>,
    /// For all matching rules; also for the first one, unless that has its own groups.
    pub(super) groups: LookupGroups,
    pub(super) first_match_groups: Option<LookupGroups>,
}

/// Groups in which a key is looked up, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct LookupGroups {
    pub(super) searches: Vec<SearchGroup>,
    pub(super) bit_vectors: Vec<BitVectorGroup>,
}

/// A group whose search ends in buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchGroup {
    pub(super) least_rank: u32,
    pub(super) root: SearchRoot,
}

/// Where a search begins: a table of `2^cell_bits` children.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchRoot {
    /// The word of the key whose bits above `shift` are the cell.
    pub(super) word: usize,
    pub(super) shift: u32,
    pub(super) cell_bits: u32,
    pub(super) first_cell_line: usize,
}

/// A group of bit vectors.
#[derive(Clone, Debug)]
pub(super) struct BitVectorGroup {
    pub(super) least_rank: u32,
    pub(super) filter_count: usize,
    pub(super) bit_lines_per_bitmap: usize,
    pub(super) summary_lines_per_bitmap: usize,
    pub(super) first_rank_line: usize,
    /// First of the blocks that verify its filters, if the bitmaps do not test all.
    pub(super) first_verification_block: Option<usize>,
    pub(super) words: Vec<BitVectorWord>,
}

/// The search of one word of bit vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitVectorWord {
    pub(super) root: SearchRoot,
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
    pub fn word_test_methods(&self) -> &[KeyWordTestMethod] {
        &self.word_test_methods
    }

    /// Whether a rule decides.
    pub(super) fn is_deciding(&self, number: u32) -> bool {
        let found = binary_search(self.rule_count, |rule| self.rule_number_at(rule).cmp(&number));
        found.is_some_and(|rule| {
            self.word(self.first_deciding_flag_line, rule / 32) >> (rule % 32) & 1 == 1
        })
    }

    /// The number of a rule, by its index.
    pub(super) fn rule_number_at(&self, index: usize) -> u32 {
        self.word(self.first_rule_number_line, index)
    }

    /// A word of a part.
    pub(super) fn word(&self, first_line: usize, index: usize) -> u32 {
        self.lines[first_line + index / 16].0[index % 16]
    }

    /// The groups in which a look-up for the first deciding rule, or for all, takes place.
    #[inline(always)]
    pub(super) fn lookup_groups(&self, needs_first_match_only: bool) -> &LookupGroups {
        match &self.first_match_groups {
            Some(groups) if needs_first_match_only => groups,
            _ => &self.groups,
        }
    }

    /// The cells of a root.
    pub(super) fn cells(&self, root: &SearchRoot) -> &[u32] {
        &CacheLine::as_words(&self.lines[root.first_cell_line..])[..1 << root.cell_bits]
    }

    /// Blocks of the bucket to which a search without nodes leads.
    pub(super) fn root_bucket_block_count_or_zero(&self, search: usize) -> usize {
        let child = self.cells(&self.groups.searches[search].root)[0];
        if child & LEAF_FLAG == 0 { 0 } else { decode_bucket_leaf(child).1 }
    }

    /// The two lines of a node.
    #[inline(always)]
    pub(super) fn node(&self, index: u32) -> &[CacheLine; 2] {
        let at = self.first_node_line + 2 * index as usize;
        self.lines[at..].first_chunk().expect("a node of the block")
    }

    /// The lines of a block of a bucket. `shape` is that of the layout.
    #[inline(always)]
    pub(super) fn bucket_block(&self, index: usize, shape: impl RowShape) -> &[CacheLine] {
        let lines = shape.counts().bucket_block_lines();
        &self.lines[self.first_bucket_block_line + index * lines..][..lines]
    }

    /// The ranks of a block.
    pub(super) fn bucket_block_ranks(&self, index: usize) -> &[u32] {
        let last = self.bucket_block(index, self.rows.counts).last().expect("a block has lines");
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
