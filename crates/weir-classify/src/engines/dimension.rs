//! Keys as points of a space whose axes are all tested by intervals.
//!
//! The geometric engines (bit vectors, binary splits, range trees, interval diagrams) know
//! intervals alone. An interval word is one dimension; each bit of a word of bits is a dimension of
//! two values. A bit that no filter tests constrains nothing and costs them nothing.

use crate::filter_set::{FilterSet, WordTest};
use crate::key::{KeySchema, KeyWordTestMethod};

/// One axis: the value of a key on it is `(key[word] >> shift) & max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dimension {
    pub(super) word: u32,
    shift: u32,
    pub(super) max: u32,
}

impl Dimension {
    #[inline]
    pub(super) fn value(&self, key: &[u32]) -> u32 {
        (key[self.word as usize] >> self.shift) & self.max
    }

    /// What the test of the word requires on this axis: lowest and highest value.
    pub(super) fn interval(&self, tests: &[WordTest]) -> (u32, u32) {
        match tests[self.word as usize] {
            WordTest::Within { lo, hi } => (lo, hi.min(self.max)),
            WordTest::Masked { mask, .. } if mask >> self.shift & 1 == 0 => (0, 1),
            WordTest::Masked { value, .. } => (value >> self.shift & 1, value >> self.shift & 1),
        }
    }

    pub(super) fn is_constrained(&self, interval: (u32, u32)) -> bool {
        interval != (0, self.max)
    }
}

/// The dimensions of a schema in the order of its words.
pub(super) fn list_dimensions(schema: &KeySchema) -> Vec<Dimension> {
    let words = (0..).zip(schema.words());
    let of_word = |(word, kind): (u32, KeyWordTestMethod)| {
        let (bit_count, max) = match kind {
            KeyWordTestMethod::Interval { bits } => (1, u32::MAX >> (32 - bits)),
            KeyWordTestMethod::Bits => (32, 1),
        };
        (0..bit_count).map(move |shift| Dimension { word, shift, max })
    };
    words.map(|(word, of)| (word, of.kind)).flat_map(of_word).collect()
}

/// The dimensions that some filter of a set constrains.
pub(super) fn list_constrained_dimensions(filters: &FilterSet) -> Vec<Dimension> {
    let mut dimensions = list_dimensions(filters.schema());
    dimensions.retain(|d| filters.filters().any(|f| d.is_constrained(d.interval(f.tests))));
    dimensions
}
