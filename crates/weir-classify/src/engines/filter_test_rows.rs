//! Filters as rows of tests of one form, so that the loop over them has no case distinction.

use crate::classifier::RuleListsByKey;
use crate::filter_set::{Filter, FilterSet, WordTest};

/// `(word & mask) - base <= span` in wrapping arithmetic: an interval has all bits in its mask, a
/// test of bits has a span of 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaskedRangeTest {
    pub(super) mask: u32,
    pub(super) base: u32,
    span: u32,
}

impl MaskedRangeTest {
    fn new(test: WordTest) -> MaskedRangeTest {
        match test {
            WordTest::Within { lo, hi } => {
                MaskedRangeTest { mask: u32::MAX, base: lo, span: hi - lo }
            }
            WordTest::Masked { value, mask } => MaskedRangeTest { mask, base: value, span: 0 },
        }
    }

    #[inline]
    fn holds_for(self, word: u32) -> bool {
        (word & self.mask).wrapping_sub(self.base) <= self.span
    }
}

/// Rows of tests, and the rule of each row.
#[derive(Clone, Debug)]
pub(super) struct FilterTestRows {
    words_per_key: usize,
    tests: Vec<MaskedRangeTest>,
    rules: Vec<u32>,
    decides: Vec<bool>,
}

impl FilterTestRows {
    /// Bytes for so many filters.
    pub(super) fn estimate_bytes(filter_count: usize, word_count: usize) -> usize {
        filter_count
            * (word_count * size_of::<MaskedRangeTest>() + size_of::<u32>() + size_of::<bool>())
    }

    pub(super) fn empty_with_row_width(words_per_key: usize) -> FilterTestRows {
        FilterTestRows { words_per_key, tests: vec![], rules: vec![], decides: vec![] }
    }

    /// The filters of a set, by their index in it.
    pub(super) fn new(filters: &FilterSet) -> FilterTestRows {
        let mut flat = FilterTestRows::empty_with_row_width(filters.schema().word_count());
        for (filter, decides) in filters_with_is_deciding(filters) {
            flat.push(filter.rule, decides, filter.tests);
        }
        flat
    }

    /// Adds a filter and returns its index.
    pub(super) fn push(&mut self, rule: u32, decides: bool, tests: &[WordTest]) -> u32 {
        self.tests.extend(tests.iter().map(|test| MaskedRangeTest::new(*test)));
        self.rules.push(rule);
        self.decides.push(decides);
        (self.rules.len() - 1) as u32
    }

    /// Writes a filter over one that is no longer used.
    pub(super) fn replace(&mut self, filter: u32, rule: u32, decides: bool, tests: &[WordTest]) {
        let row = self.row_range(filter);
        for (place, test) in self.tests[row].iter_mut().zip(tests) {
            *place = MaskedRangeTest::new(*test);
        }
        self.rules[filter as usize] = rule;
        self.decides[filter as usize] = decides;
    }

    fn row_range(&self, filter: u32) -> std::ops::Range<usize> {
        let start = filter as usize * self.words_per_key;
        start..start + self.words_per_key
    }

    pub(super) fn row(&self, filter: u32) -> &[MaskedRangeTest] {
        &self.tests[self.row_range(filter)]
    }

    #[inline]
    pub(super) fn matches(&self, filter: u32, key: &[u32]) -> bool {
        self.row(filter).iter().zip(key).all(|(test, word)| test.holds_for(*word))
    }

    /// All filters that match a key, in order.
    #[inline]
    pub(super) fn find_matching<'a>(&'a self, key: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let rows = self.tests.chunks_exact(self.words_per_key).enumerate();
        let matching = rows
            .filter(move |(_, row)| row.iter().zip(key).all(|(test, word)| test.holds_for(*word)));
        matching.map(|(filter, _)| filter as u32)
    }

    /// Adds the rules of all filters that match a key to its list, reading the filters in order.
    #[inline]
    pub(super) fn push_matching_rules(&self, key: &[u32], lists: &mut RuleListsByKey) {
        self.find_matching(key).for_each(|filter| lists.push(self.rule(filter)));
    }

    pub(super) fn rule(&self, filter: u32) -> u32 {
        self.rules[filter as usize]
    }

    pub(super) fn decides(&self, filter: u32) -> bool {
        self.decides[filter as usize]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        Self::estimate_bytes(self.rules.len(), self.words_per_key)
    }
}

/// Each filter of a set, and whether its rule decides.
pub(super) fn filters_with_is_deciding(
    filters: &FilterSet,
) -> impl DoubleEndedIterator<Item = (Filter<'_>, bool)> {
    (0..filters.filter_count()).map(|index| {
        let filter = filters.filter(index);
        (filter, filters.is_deciding(filter.rule))
    })
}
