//! Buckets: blocks of eight filters, one row of eight 32-bit lanes for each compared value, and a
//! last row with their ranks.
//!
//! A row of a wide word has the least value, a second one the complement of the largest: both are
//! compared alike, `key >= lane`, the second with the complement of the key. A word of at most 16
//! bits needs one row for both, the halves of a lane compared alone. A word of bits has a row of
//! values and one of masks. Rows are sorted by the way in which they are compared. The five-tuple
//! takes eight rows, four cache lines: 32 bytes for each filter.

use crate::filter_set::WordTest;
use crate::key::KeyWordKind;

/// Filters of a block.
pub(super) const LANES: usize = 8;

/// What a word of the key is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowLayout {
    /// Words of more than 16 bits: two rows each.
    pub(super) wide_words: Vec<usize>,
    /// Words of at most 16 bits: one row each.
    pub(super) narrow_words: Vec<usize>,
    /// Words of bits: two rows each.
    pub(super) masked_words: Vec<usize>,
}

/// The most rows that tests of a key of 32 words can have.
pub(super) const ROW_KEYS_MAX: usize = 64;

impl RowLayout {
    pub(super) fn new(kinds: &[KeyWordKind]) -> RowLayout {
        let words_with = |wanted: fn(&KeyWordKind) -> bool| {
            (0..kinds.len()).filter(|word| wanted(&kinds[*word])).collect()
        };
        RowLayout {
            wide_words: words_with(|kind| matches!(kind, KeyWordKind::Interval { bits: 17.. })),
            narrow_words: words_with(|kind| matches!(kind, KeyWordKind::Interval { bits: ..17 })),
            masked_words: words_with(|kind| matches!(kind, KeyWordKind::Bits)),
        }
    }

    /// Rows that are compared: all but the last.
    pub(super) fn test_row_count(&self) -> usize {
        2 * self.wide_words.len() + self.narrow_words.len() + 2 * self.masked_words.len()
    }

    /// Cache lines of a block.
    pub(super) fn block_lines(&self) -> usize {
        (self.test_row_count() + 1).div_ceil(2)
    }

    /// Index of the row of ranks: the last of the block.
    pub(super) fn rank_row(&self) -> usize {
        2 * self.block_lines() - 1
    }

    /// A key as rows are compared with it.
    pub(super) fn fill_row_keys(&self, key: &[u32], row_keys: &mut [u32; ROW_KEYS_MAX]) {
        let mut places = row_keys.iter_mut();
        let mut put = |value| *places.next().expect("at most 32 words") = value;
        for &word in &self.wide_words {
            put(key[word]);
            put(!key[word]);
        }
        for &word in &self.narrow_words {
            put(pack_halves(key[word], key[word]));
        }
        for &word in &self.masked_words {
            put(key[word]);
            put(0);
        }
    }

    /// Writes one filter into a lane of a block, which is `2 * block_lines()` rows.
    pub(super) fn write_lane(
        &self,
        block: &mut [[u32; LANES]],
        lane: usize,
        tests: &[WordTest],
        rank: u32,
    ) {
        let mut rows = block.iter_mut();
        let mut put = |value| rows.next().expect("rows of the block")[lane] = value;
        for &word in &self.wide_words {
            let (lo, hi) = interval_of(tests[word]);
            put(lo);
            put(!hi);
        }
        for &word in &self.narrow_words {
            let (lo, hi) = interval_of(tests[word]);
            put(pack_halves(lo, hi));
        }
        for &word in &self.masked_words {
            let WordTest::Masked { value, mask } = tests[word] else {
                panic!("a filter set tests words of bits under masks")
            };
            put(value);
            put(mask);
        }
        block[self.rank_row()][lane] = rank;
    }

    /// A block that no key matches: its comparisons all fail.
    pub(super) fn empty_block(&self) -> Vec<[u32; LANES]> {
        let mut rows = vec![[u32::MAX; LANES]; 2 * self.block_lines()];
        let masked = 2 * self.wide_words.len() + self.narrow_words.len();
        for pair in 0..self.masked_words.len() {
            rows[masked + 2 * pair] = [1; LANES];
            rows[masked + 2 * pair + 1] = [0; LANES];
        }
        rows
    }
}

fn interval_of(test: WordTest) -> (u32, u32) {
    match test {
        WordTest::Within { lo, hi } => (lo, hi),
        WordTest::Masked { .. } => panic!("a filter set tests numbers by intervals"),
    }
}

/// The lower half of `lo`, and in the upper half the complement of `hi`.
fn pack_halves(lo: u32, hi: u32) -> u32 {
    (lo & 0xffff) | (!hi << 16)
}
