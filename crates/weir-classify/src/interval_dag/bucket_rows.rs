//! Buckets: blocks of eight filters, rows of eight 32-bit lanes that a key is compared with, and a
//! last row with the ranks of the filters.
//!
//! A word of more than 16 bits has a row of least values and one of the complements of the largest:
//! compared with the word and with its complement, both pass alike, `key >= lane`, so that one
//! comparison of a whole cache line does both. A word of at most 16 bits needs a single row: the
//! lower half of a lane is the least value, the upper half the complement of the largest. A word of
//! bits has a row of values and one of masks. Rows are sorted by the way in which they are
//! compared. The five-tuple takes eight rows, four cache lines: 32 bytes for each filter.

use super::cache_line::{CacheLine, LANES};
use crate::filter_set::WordTest;
use crate::key::{KeySchema, KeyWordTestMethod};

/// The most cache lines of a block: two rows for each word, and the row of ranks.
const BUCKET_BLOCK_LINES_MAX: usize = KeySchema::WORDS_MAX + 1;

/// How many words of a key are compared in which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordCountsByComparison {
    /// Words of more than 16 bits: two rows each.
    pub(super) wide: usize,
    /// Words of at most 16 bits: one row each.
    pub(super) narrow: usize,
    /// Words of bits: two rows each.
    pub(super) masked: usize,
}

impl WordCountsByComparison {
    /// Those of two addresses, two ports and a protocol.
    pub(super) const FIVE_TUPLE: WordCountsByComparison =
        WordCountsByComparison { wide: 2, narrow: 3, masked: 0 };

    /// Words of a key.
    pub(super) const fn words(self) -> usize {
        self.wide + self.narrow + self.masked
    }

    /// Rows that are compared: all but the last.
    pub(super) const fn test_rows(self) -> usize {
        2 * self.wide + self.narrow + 2 * self.masked
    }

    /// Cache lines of a block.
    pub(super) const fn bucket_block_lines(self) -> usize {
        (self.test_rows() + 1).div_ceil(2)
    }

    /// Index of the row of ranks: the last of the block.
    pub(super) const fn rank_row(self) -> usize {
        2 * self.bucket_block_lines() - 1
    }
}

/// The counts of a layout. A type of its own for the five-tuple makes them constants, so that the
/// compiler unrolls the loops over rows.
pub(super) trait RowShape: Copy {
    /// A key as the lines of a block are compared with it: for each row, eight times the same
    /// value.
    type KeyInRowOrder: Copy + AsRef<[CacheLine]> + AsMut<[CacheLine]>;
    const ZERO_KEY: Self::KeyInRowOrder;

    fn counts(self) -> WordCountsByComparison;
}

impl RowShape for WordCountsByComparison {
    type KeyInRowOrder = [CacheLine; BUCKET_BLOCK_LINES_MAX];
    const ZERO_KEY: Self::KeyInRowOrder = [CacheLine::ZERO; BUCKET_BLOCK_LINES_MAX];

    #[inline(always)]
    fn counts(self) -> WordCountsByComparison {
        self
    }
}

/// The shape of [`WordCountsByComparison::FIVE_TUPLE`].
#[derive(Clone, Copy, Debug)]
pub(super) struct ConstFiveTupleRowCounts;

impl RowShape for ConstFiveTupleRowCounts {
    type KeyInRowOrder = [CacheLine; WordCountsByComparison::FIVE_TUPLE.bucket_block_lines()];
    const ZERO_KEY: Self::KeyInRowOrder =
        [CacheLine::ZERO; WordCountsByComparison::FIVE_TUPLE.bucket_block_lines()];

    #[inline(always)]
    fn counts(self) -> WordCountsByComparison {
        WordCountsByComparison::FIVE_TUPLE
    }
}

/// Which word of a key is compared in which rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowLayout {
    pub(super) counts: WordCountsByComparison,
    /// Words in the order of rows: wide, narrow, masked.
    words: Vec<usize>,
}

impl RowLayout {
    pub(super) fn new(kinds: &[KeyWordTestMethod]) -> RowLayout {
        let words_with = |wanted: fn(&KeyWordTestMethod) -> bool| {
            (0..kinds.len()).filter(move |word| wanted(&kinds[*word]))
        };
        let wide = words_with(|kind| matches!(kind, KeyWordTestMethod::Interval { bits: 17.. }));
        let narrow = words_with(|kind| matches!(kind, KeyWordTestMethod::Interval { bits: ..17 }));
        let masked = words_with(|kind| matches!(kind, KeyWordTestMethod::Bits));
        let counts = WordCountsByComparison {
            wide: wide.clone().count(),
            narrow: narrow.clone().count(),
            masked: masked.clone().count(),
        };
        RowLayout { counts, words: wide.chain(narrow).chain(masked).collect() }
    }

    /// Cache lines of a block.
    pub(super) fn bucket_block_lines(&self) -> usize {
        self.counts.bucket_block_lines()
    }

    /// A key as rows are compared with it. `shape` is that of this layout.
    #[inline(always)]
    pub(super) fn fill_row_keys(
        &self,
        shape: impl RowShape,
        key: &[u32],
        row_keys: &mut [CacheLine],
    ) {
        let WordCountsByComparison { wide, narrow, masked } = shape.counts();
        let rows = CacheLine::as_rows_mut(&mut row_keys[..shape.counts().bucket_block_lines()]);
        let words = &self.words[..wide + narrow + masked];
        for (place, word) in words[..wide].iter().enumerate() {
            rows[2 * place] = [key[*word]; LANES];
            rows[2 * place + 1] = [!key[*word]; LANES];
        }
        for (place, word) in words[wide..wide + narrow].iter().enumerate() {
            rows[2 * wide + place] = [pack_lo_and_inverted_hi(key[*word], key[*word]); LANES];
        }
        for (place, word) in words[wide + narrow..].iter().enumerate() {
            let row = 2 * wide + narrow + 2 * place;
            rows[row] = [key[*word]; LANES];
            rows[row + 1] = [key[*word]; LANES];
        }
    }

    /// Writes one filter into a lane of a block, which is `2 * bucket_block_lines()` rows.
    pub(super) fn write_lane(
        &self,
        block: &mut [[u32; LANES]],
        lane: usize,
        tests: &[WordTest],
        rank: u32,
    ) {
        let mut rows = block.iter_mut();
        let mut put = |value| rows.next().expect("rows of the block")[lane] = value;
        for (place, word) in self.words.iter().enumerate() {
            match tests[*word] {
                WordTest::Within { lo, hi } if place < self.counts.wide => {
                    put(lo);
                    put(!hi);
                }
                WordTest::Within { lo, hi } => put(pack_lo_and_inverted_hi(lo, hi)),
                WordTest::Masked { value, mask } => {
                    put(value);
                    put(mask);
                }
            }
        }
        block[self.counts.rank_row()][lane] = rank;
    }

    /// The values of a filter in the rows of a block.
    pub(super) fn lane_of_filter(&self, tests: &[WordTest], rank: u32) -> Vec<u32> {
        let mut block = self.empty_bucket_block();
        self.write_lane(&mut block, 0, tests, rank);
        block.iter().map(|row| row[0]).collect()
    }

    /// The values of an empty lane in the rows of a block.
    pub(super) fn empty_lane(&self) -> Vec<u32> {
        self.empty_bucket_block().iter().map(|row| row[0]).collect()
    }

    /// A block that no key matches: its comparisons all fail.
    pub(super) fn empty_bucket_block(&self) -> Vec<[u32; LANES]> {
        let WordCountsByComparison { wide, narrow, masked } = self.counts;
        let mut rows = vec![[u32::MAX; LANES]; 2 * self.bucket_block_lines()];
        for word in 0..masked {
            let first = 2 * wide + narrow + 2 * word;
            rows[first] = [1; LANES];
            rows[first + 1] = [0; LANES];
        }
        rows
    }
}

/// The lower half of `lo`, and in the upper half the complement of `hi`.
fn pack_lo_and_inverted_hi(lo: u32, hi: u32) -> u32 {
    (lo & 0xffff) | (!hi << 16)
}
