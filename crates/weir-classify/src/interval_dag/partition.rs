//! Division of filters into groups. A search that must tell apart narrow and wide prefixes at once
//! copies the wide ones into every interval of the narrow; filters that are wide on one address
//! are searched by the other, and those that are wide on both by bit vectors if need be.
//!
//! The device is that of EffiCuts (B. Vamanan, G. Voskuilen, T. N. Vijaykumar, SIGCOMM 2010), and a
//! generalisation of the wildcard pointers of nf-HiPAC from exact wildcards to wide prefixes.

use std::collections::HashSet;

use super::columns::{FilterColumns, IntervalColumn};

/// A filter is narrow on a word if it leaves fewer than this share of its bits open, in halves.
const NARROW_PREFIX_BITS: u32 = 16;

/// The two words by which filters are divided: those with the most distinct tests among the words
/// of more than 16 bits.
fn choose_partition_words(columns: &FilterColumns) -> Vec<usize> {
    let count_tests = |column: &IntervalColumn| {
        let tests = column.lo.iter().zip(&column.hi);
        tests.collect::<HashSet<_, super::hash::BuildWordHasher>>().len()
    };
    let words = columns.words.iter().enumerate();
    let mut candidates: Vec<_> = words
        .filter(|(_, column)| column.bits.is_some_and(|bits| bits > 16))
        .map(|(word, column)| (count_tests(column), word))
        .collect();
    candidates.sort_unstable_by_key(|(count, word)| (usize::MAX - count, *word));
    candidates.into_iter().take(2).map(|(_, word)| word).collect()
}

/// The groups that are not empty, as ascending lists of filters; the one that is wide on every
/// word last.
pub(super) fn partition_filters(columns: &FilterColumns) -> Vec<Vec<u32>> {
    let words = choose_partition_words(columns);
    let mut groups = vec![Vec::new(); 1 << words.len()];
    for filter in 0..columns.ranks.len() {
        let group = words.iter().fold(0, |group, word| {
            let column = &columns.words[*word];
            let span = column.hi[filter] - column.lo[filter];
            let is_wide = span >= 1 << (column.bits.unwrap_or(32) - NARROW_PREFIX_BITS);
            group << 1 | usize::from(is_wide)
        });
        groups[group].push(filter as u32);
    }
    groups.retain(|group| !group.is_empty());
    groups
}
