//! The filters of a set, column by column: what the construction sweeps.

use crate::filter_set::{FilterSet, WordTest};
use crate::key::KeyWordTestMethod;

/// Marks a rank whose rule only counts. Such ranks are above all of deciding rules, so that the
/// least rank that matches is that of the first deciding rule, if one matches.
pub(super) const COUNTS_ONLY_RANK_FLAG: u32 = 1 << 31;
/// The largest number of a rule: with [`COUNTS_ONLY_RANK_FLAG`], it is below
/// [`NO_RULE`](crate::NO_RULE).
pub(super) const RULE_NUMBER_MAX: u32 = COUNTS_ONLY_RANK_FLAG - 2;

/// The rank of the filters of a rule.
pub(super) fn rank_of_rule(number: u32, is_deciding: bool) -> u32 {
    if is_deciding { number } else { number | COUNTS_ONLY_RANK_FLAG }
}

/// One word of all filters.
#[derive(Debug)]
pub(super) struct IntervalColumn {
    pub(super) lo: Vec<u32>,
    pub(super) hi: Vec<u32>,
    /// The width of the word in bits; `None` if it is tested under masks, which no sweep separates.
    pub(super) bits: Option<u32>,
    /// Whether a filter tests it under a mask.
    pub(super) is_masked: bool,
}

/// All words of all filters.
#[derive(Debug)]
pub(super) struct FilterColumns {
    pub(super) words: Vec<IntervalColumn>,
    /// For each filter, the number of its rule, with [`COUNTS_ONLY_RANK_FLAG`] if it does not
    /// decide.
    pub(super) ranks: Vec<u32>,
}

impl FilterColumns {
    pub(super) fn new(filters: &FilterSet) -> FilterColumns {
        let mut rules = filters.rules().iter().peekable();
        let ranks = filters.filters().map(|filter| {
            while rules.peek().is_some_and(|rule| rule.0 != filter.rule) {
                rules.next();
            }
            let (number, is_deciding) = rules.peek().expect("the rule of a filter");
            rank_of_rule(*number, *is_deciding)
        });
        let ranks = ranks.collect();
        let column = |(word, kind): (usize, KeyWordTestMethod)| {
            let bits = match kind {
                KeyWordTestMethod::Interval { bits } => Some(bits),
                KeyWordTestMethod::Bits => None,
            };
            let tests = || filters.filters().map(|filter| filter.tests[word]);
            let bounds = |test| match test {
                WordTest::Within { lo, hi } => (lo, hi),
                WordTest::Masked { .. } => (0, u32::MAX),
            };
            let (lo, hi) = tests().map(bounds).unzip();
            let is_test = |test| matches!(test, WordTest::Masked { mask, .. } if mask != 0);
            IntervalColumn { lo, hi, bits, is_masked: tests().any(is_test) }
        };
        let kinds = filters.schema().words().iter().map(|word| word.kind);
        FilterColumns { words: kinds.enumerate().map(column).collect(), ranks }
    }

    /// For each filter, the words that it tests, as a set of bits.
    pub(super) fn tested_words_of_filters(filters: &FilterSet) -> Vec<u32> {
        let words = filters.schema().words();
        let is_test = |word: usize, test: &WordTest| match *test {
            WordTest::Within { lo, hi } => (lo, hi) != (0, words[word].max_value()),
            WordTest::Masked { mask, .. } => mask != 0,
        };
        let tested = |tests: &[WordTest]| {
            let tests = tests.iter().enumerate();
            tests.fold(0, |set, (word, test)| set | u32::from(is_test(word, test)) << word)
        };
        filters.filters().map(|filter| tested(filter.tests)).collect()
    }

    /// The words that sweeps can use, as a set of bits.
    pub(super) fn interval_words_bitmask(&self) -> u32 {
        let words = self.words.iter().enumerate().filter(|(_, column)| column.bits.is_some());
        words.fold(0, |set, (word, _)| set | 1 << word)
    }
}
