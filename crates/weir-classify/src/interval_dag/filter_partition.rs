//! Groups of filters, told apart by how wide filters are. A search that must tell apart narrow and
//! wide prefixes at once copies the wide ones into every interval of the narrow; filters that are
//! wide on one address are therefore searched by the other.
//!
//! The device is that of EffiCuts (B. Vamanan, G. Voskuilen, T. N. Vijaykumar, SIGCOMM 2010), and a
//! generalisation of the wildcard pointers of nf-HiPAC from exact wildcards to wide prefixes.

use std::collections::HashSet;

use super::filter_columns::{FilterColumns, IntervalColumn};
use super::filter_copies::WidthTest;
use super::word_hasher::BuildWordHasher;
use crate::filter_set::WordTest;

/// A filter is narrow on a word of the first division if it contains no more values than a prefix of
/// this length.
const NARROW_PREFIX_BITS_MIN: u32 = 16;

/// By which tests filters are divided, and which search each group has.
#[derive(Clone, Debug)]
pub(super) struct FilterPartition {
    /// A tree of tests with groups as leaves; the first is the root.
    nodes: Vec<PartitionNode>,
    /// For each group, the index of its search; `None` if it has none, or is of bit vectors.
    search_index_unless_bit_vectors: Vec<Option<usize>>,
    /// How many groups have a search; where updates are possible, one more, of filters that do not
    /// fit that of their group.
    pub(super) overflow_search: usize,
}

#[derive(Clone, Copy, Debug)]
enum PartitionNode {
    Group(usize),
    Division { test: WidthTest, narrow: usize, wide: usize },
}

impl FilterPartition {
    /// Divides by the two words with the most distinct tests among those of more than 16 bits.
    pub(super) fn by_two_words(columns: &FilterColumns) -> FilterPartition {
        FilterPartition::by_tests(&list_two_word_tests(columns))
    }

    /// A group for each combination of outcomes.
    fn by_tests(tests: &[WidthTest]) -> FilterPartition {
        let mut partition = FilterPartition {
            nodes: vec![PartitionNode::Group(0)],
            search_index_unless_bit_vectors: vec![None],
            overflow_search: 0,
        };
        for test in tests {
            for group in 0..partition.group_count() {
                partition.divide_group(group, *test);
            }
        }
        partition
    }

    /// Divides a group: its narrow filters remain in it, and the wide ones become a new group, the
    /// last.
    pub(super) fn divide_group(&mut self, group: usize, test: WidthTest) -> usize {
        let is_group =
            |node: &PartitionNode| matches!(node, PartitionNode::Group(g) if *g == group);
        let node = self.nodes.iter().position(is_group).expect("a node for each group");
        let wide_group = self.group_count();
        let narrow = self.nodes.len();
        self.nodes[node] = PartitionNode::Division { test, narrow, wide: narrow + 1 };
        self.nodes.extend([PartitionNode::Group(group), PartitionNode::Group(wide_group)]);
        self.search_index_unless_bit_vectors.push(None);
        wide_group
    }

    /// The next search is that of a group.
    pub(super) fn add_search_of_group(&mut self, group: usize) {
        self.search_index_unless_bit_vectors[group] = Some(self.overflow_search);
        self.overflow_search += 1;
    }

    /// Divisions into fewer groups: by one of its tests alone, or not at all. Of a partition by two
    /// words.
    pub(super) fn coarser_partitions(&self) -> Vec<FilterPartition> {
        let tests: Vec<WidthTest> = self.tests_from_root().collect();
        let single_tests = tests.iter().filter(|_| tests.len() > 1);
        let single_tests = single_tests.map(|test| FilterPartition::by_tests(&[*test]));
        std::iter::once(FilterPartition::by_tests(&[])).chain(single_tests).collect()
    }

    /// The tests of narrow filters.
    fn tests_from_root(&self) -> impl Iterator<Item = WidthTest> {
        let mut node = 0;
        std::iter::from_fn(move || match self.nodes[node] {
            PartitionNode::Group(_) => None,
            PartitionNode::Division { test, narrow, .. } => {
                node = narrow;
                Some(test)
            }
        })
    }

    fn group_count(&self) -> usize {
        self.search_index_unless_bit_vectors.len()
    }

    fn group_of(&self, interval_of: impl Fn(usize) -> (u32, u32)) -> usize {
        let mut node = 0;
        loop {
            match self.nodes[node] {
                PartitionNode::Group(group) => return group,
                PartitionNode::Division { test, narrow, wide } => {
                    let (lo, hi) = interval_of(test.word);
                    node = if test.is_wide(lo, hi) { wide } else { narrow };
                }
            }
        }
    }

    /// The search to which a filter belongs.
    pub(super) fn search_of_filter(&self, tests: &[WordTest]) -> Option<usize> {
        let group = self.group_of(|word| match tests[word] {
            WordTest::Within { lo, hi } => (lo, hi),
            WordTest::Masked { .. } => (0, u32::MAX),
        });
        self.search_index_unless_bit_vectors[group]
    }

    /// The groups as ascending lists of filters.
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

fn list_two_word_tests(columns: &FilterColumns) -> Vec<WidthTest> {
    let words = columns.words.iter().enumerate();
    let mut candidates: Vec<_> = words
        .filter_map(|(word, column)| {
            let bits = column.bits.filter(|bits| *bits > NARROW_PREFIX_BITS_MIN)?;
            Some((usize::MAX - count_distinct_tests(column), word, bits))
        })
        .collect();
    candidates.sort_unstable();
    let tests = candidates
        .into_iter()
        .take(2)
        .map(|(_, word, bits)| WidthTest { word, wide_span: 1 << (bits - NARROW_PREFIX_BITS_MIN) });
    tests.collect()
}

fn count_distinct_tests(column: &IntervalColumn) -> usize {
    let tests = column.lo.iter().zip(&column.hi);
    tests.collect::<HashSet<_, BuildWordHasher>>().len()
}
