//! Division of filters into groups. A search that must tell apart narrow and wide prefixes at once
//! copies the wide ones into every interval of the narrow; filters that are wide on one address
//! are searched by the other, and those that are wide on both by bit vectors if need be.
//!
//! The device is that of EffiCuts (B. Vamanan, G. Voskuilen, T. N. Vijaykumar, SIGCOMM 2010), and a
//! generalisation of the wildcard pointers of nf-HiPAC from exact wildcards to wide prefixes.

use std::collections::HashSet;

use super::filter_columns::{FilterColumns, IntervalColumn};
use super::word_hasher::BuildWordHasher;
use crate::filter_set::WordTest;

/// A filter is narrow on a word if it leaves fewer than this share of its bits open, in halves.
const NARROW_PREFIX_BITS_MIN: u32 = 16;

/// By which words filters are divided, and which search each group has.
#[derive(Clone, Debug)]
pub(super) struct FilterPartition {
    /// Words, and the least number of values for which a filter is wide on them.
    words_and_wide_spans: Vec<(usize, u32)>,
    /// For each group, the index of its search; `None` if it has none, or is of bit vectors.
    pub(super) search_index_unless_bit_vectors: Vec<Option<usize>>,
    /// How many groups have a search; where updates are possible, one more, of filters that do not
    /// fit that of their group.
    pub(super) overflow_search: usize,
}

impl FilterPartition {
    /// Divides by the two words with the most distinct tests among those of more than 16 bits.
    pub(super) fn by_two_words(columns: &FilterColumns) -> FilterPartition {
        let words = columns.words.iter().enumerate();
        let mut candidates: Vec<_> = words
            .filter_map(|(word, column)| {
                let bits = column.bits.filter(|bits| *bits > 16)?;
                Some((usize::MAX - count_distinct_tests(column), word, bits))
            })
            .collect();
        candidates.sort_unstable();
        let words_and_wide_spans = candidates.into_iter().take(2);
        FilterPartition::by_words(
            words_and_wide_spans
                .map(|(_, word, bits)| (word, 1 << (bits - NARROW_PREFIX_BITS_MIN)))
                .collect(),
        )
    }

    fn by_words(words_and_wide_spans: Vec<(usize, u32)>) -> FilterPartition {
        FilterPartition {
            search_index_unless_bit_vectors: vec![None; 1 << words_and_wide_spans.len()],
            words_and_wide_spans,
            overflow_search: 0,
        }
    }

    /// The next search is that of a group.
    pub(super) fn add_search_of_group(&mut self, group: usize) {
        self.search_index_unless_bit_vectors[group] = Some(self.overflow_search);
        self.overflow_search += 1;
    }

    /// Divisions into fewer groups: by none of its words, or by one alone.
    pub(super) fn coarser_partitions(&self) -> Vec<FilterPartition> {
        let single_words = self.words_and_wide_spans.iter().filter(|_| self.group_count() > 2);
        let single_words = single_words.map(|word| FilterPartition::by_words(vec![*word]));
        std::iter::once(FilterPartition::by_words(vec![])).chain(single_words).collect()
    }

    fn group_count(&self) -> usize {
        self.search_index_unless_bit_vectors.len()
    }

    /// The group of a filter: a bit for each word on which it is wide.
    fn group_of(&self, interval_of: impl Fn(usize) -> (u32, u32)) -> usize {
        self.words_and_wide_spans.iter().fold(0, |group, (word, wide_span)| {
            let (lo, hi) = interval_of(*word);
            group << 1 | usize::from(hi - lo >= *wide_span)
        })
    }

    /// The search to which a filter belongs.
    pub(super) fn search_of_filter(&self, tests: &[WordTest]) -> Option<usize> {
        let group = self.group_of(|word| match tests[word] {
            WordTest::Within { lo, hi } => (lo, hi),
            WordTest::Masked { .. } => (0, u32::MAX),
        });
        self.search_index_unless_bit_vectors[group]
    }

    /// The groups as ascending lists of filters; the one that is wide on every word last.
    pub(super) fn divide_into_groups(&self, columns: &FilterColumns) -> Vec<Vec<u32>> {
        let mut groups = vec![Vec::new(); self.group_count()];
        for filter in 0..columns.ranks.len() {
            let interval_of =
                |word: usize| (columns.words[word].lo[filter], columns.words[word].hi[filter]);
            groups[self.group_of(interval_of)].push(filter as u32);
        }
        groups
    }
}

fn count_distinct_tests(column: &IntervalColumn) -> usize {
    let tests = column.lo.iter().zip(&column.hi);
    tests.collect::<HashSet<_, BuildWordHasher>>().len()
}
