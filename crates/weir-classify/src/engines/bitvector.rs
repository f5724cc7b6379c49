//! Bit vectors: for each field the filters that its value passes, as a bitmap; their conjunction
//! is the answer.
//!
//! The end points of all filters cut an axis into elementary intervals, in each of which the same
//! filters pass. For each interval there is a bitmap with a bit per filter, in the order of rules.
//! A look-up finds the interval of the packet on each axis by binary search, and combines the
//! bitmaps by AND; the lowest bit that remains is the first match, all bits are all matches.
//!
//! *Improvements.* Equal bitmaps of an axis are stored once (an address that occurs in many
//! intervals of nested networks repeats). Beside each bitmap of 64-bit words there is a summary
//! with a bit per word that is not zero: the conjunction of the summaries names the few words to
//! read, as in the aggregated bit vector. Axes that no filter constrains are omitted.
//!
//! *Cost.* N filters with M distinct intervals on an axis need up to M bitmaps of N bits: memory
//! grows with the square of the number of filters, 1.25 GB for 100,000 filters of distinct
//! addresses on an axis. Time is `log M` per axis plus N/4096 words of summaries, and a word per
//! axis where they agree. A change of one filter touches every bitmap, so there is none.
//!
//! # Source
//! T. V. Lakshman, D. Stiliadis: High-Speed Policy-based Packet Forwarding Using Efficient
//! Multi-dimensional Range Matching, SIGCOMM 1998. F. Baboescu, G. Varghese: Scalable Packet
//! Classification, SIGCOMM 2001 (the summaries). S. Miano et al.: Securing Linux with a Faster and
//! Scalable Iptables, CCR 49(3), 2019 (the same in BPF).

use std::collections::HashMap;

use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{Classifier, RuleListsByKey, collect_deciding_rules};
use crate::engines::build_budget::BuildBudget;
use crate::engines::dimension::{Dimension, list_constrained_dimensions};
use crate::engines::filter_test_rows::filters_with_is_deciding;
use crate::filter_set::{FilterSet, NO_RULE};
use crate::key::KeyTable;

/// The bitmaps of all axes.
#[derive(Clone, Debug)]
pub struct BitVectorClassifier {
    axes: Vec<BitmapAxis>,
    /// Which filters there are, and which of them decide: combined with those of the axes.
    all_filters_bitmap: BitmapPool,
    deciding_filters_bitmap: BitmapPool,
    rule_of_filter: Vec<u32>,
    deciding_rules: Vec<u32>,
}

/// One axis: where its elementary intervals begin, and the bitmap of each.
#[derive(Clone, Debug)]
struct BitmapAxis {
    dimension: Dimension,
    starts: Vec<u32>,
    bitmap_of_interval: Vec<u32>,
    pool: BitmapPool,
}

/// Bitmaps of equal length, each preceded by its summary.
#[derive(Clone, Debug)]
struct BitmapPool {
    summary_words: usize,
    stride: usize,
    words: Vec<u64>,
}

impl BitmapPool {
    fn new(filter_count: usize) -> BitmapPool {
        let bitmap_words = filter_count.div_ceil(64);
        let summary_words = bitmap_words.div_ceil(64);
        BitmapPool { summary_words, stride: summary_words + bitmap_words, words: vec![] }
    }

    fn count(&self) -> usize {
        self.words.len().checked_div(self.stride).unwrap_or(0)
    }

    fn push(&mut self, bitmap: &[u64]) -> u32 {
        let start = self.words.len();
        self.words.resize(start + self.summary_words, 0);
        for (at, _) in bitmap.iter().enumerate().filter(|(_, word)| **word != 0) {
            self.words[start + at / 64] |= 1 << (at % 64);
        }
        self.words.extend_from_slice(bitmap);
        (self.count() - 1) as u32
    }

    /// Summary and bitmap.
    fn summary_and_bitmap(&self, index: u32) -> (&[u64], &[u64]) {
        self.words[index as usize * self.stride..][..self.stride].split_at(self.summary_words)
    }
}

impl BitVectorClassifier {
    /// The bitmaps of a filter set.
    ///
    /// # Errors
    /// They exceed a limit.
    pub fn new(
        filters: &FilterSet,
        limits: &BuildLimits,
    ) -> Result<BitVectorClassifier, ClassifierBuildError> {
        let mut budget = BuildBudget::new("bitvector", limits);
        let dimensions = list_constrained_dimensions(filters);
        let mut bytes = 0;
        let mut axes = Vec::with_capacity(dimensions.len());
        for dimension in dimensions {
            let axis = BitmapAxis::new(dimension, filters, bytes, &mut budget)?;
            bytes += axis.memory_bytes();
            axes.push(axis);
        }
        let mut sets = [(); 2].map(|()| vec![0; filters.filter_count().div_ceil(64)]);
        for (at, (_, decides)) in filters_with_is_deciding(filters).enumerate() {
            sets[0][at / 64] |= 1 << (at % 64);
            sets[1][at / 64] |= u64::from(decides) << (at % 64);
        }
        let [all_filters_bitmap, deciding_filters_bitmap] = sets.map(|bitmap| {
            let mut pool = BitmapPool::new(filters.filter_count());
            if !bitmap.is_empty() {
                pool.push(&bitmap);
            }
            pool
        });
        let rule_of_filter = filters.filters().map(|filter| filter.rule).collect();
        let deciding_rules = collect_deciding_rules(filters);
        Ok(BitVectorClassifier {
            axes,
            all_filters_bitmap,
            deciding_filters_bitmap,
            rule_of_filter,
            deciding_rules,
        })
    }

    /// Calls `visit` with the filters of `among` that match, in order, until it returns false.
    fn visit_matching_while_true<'a>(
        &'a self,
        key: &[u32],
        among: &'a BitmapPool,
        bitmaps: &mut Vec<(&'a [u64], &'a [u64])>,
        mut visit: impl FnMut(usize) -> bool,
    ) {
        if among.count() == 0 {
            return;
        }
        bitmaps.clear();
        bitmaps.push(among.summary_and_bitmap(0));
        bitmaps.extend(self.axes.iter().map(|axis| axis.find_summary_and_bitmap(key)));
        for summary_at in 0..among.summary_words {
            let mut summary = bitmaps.iter().fold(u64::MAX, |all, b| all & b.0[summary_at]);
            while summary != 0 {
                let at = summary_at * 64 + summary.trailing_zeros() as usize;
                summary &= summary - 1;
                let mut matching = bitmaps.iter().fold(u64::MAX, |all, b| all & b.1[at]);
                while matching != 0 {
                    if !visit(at * 64 + matching.trailing_zeros() as usize) {
                        return;
                    }
                    matching &= matching - 1;
                }
            }
        }
    }
}

/// A filter that begins or ends to pass at a value.
struct BitmapFlip {
    axis_value: u32,
    filter: usize,
}

impl BitmapAxis {
    fn new(
        dimension: Dimension,
        filters: &FilterSet,
        bytes_before: usize,
        budget: &mut BuildBudget,
    ) -> Result<BitmapAxis, ClassifierBuildError> {
        let mut flips = Vec::with_capacity(2 * filters.filter_count());
        for (filter, of) in filters.filters().enumerate() {
            let (lo, hi) = dimension.interval(of.tests);
            flips.push(BitmapFlip { axis_value: lo, filter });
            if hi < dimension.max {
                flips.push(BitmapFlip { axis_value: hi + 1, filter });
            }
        }
        flips.sort_unstable_by_key(|flip| flip.axis_value);
        let pool = BitmapPool::new(filters.filter_count());
        let mut axis = BitmapAxis { dimension, starts: vec![], bitmap_of_interval: vec![], pool };
        let mut bitmap = vec![0; filters.filter_count().div_ceil(64)];
        let mut index_of_hash: HashMap<u128, u32> = HashMap::new();
        let mut hash = 0;
        if flips.first().is_none_or(|flip| flip.axis_value > 0) {
            flips.insert(0, BitmapFlip { axis_value: 0, filter: usize::MAX });
        }
        for group in flips.chunk_by(|a, b| a.axis_value == b.axis_value) {
            budget.take_steps(group.len())?;
            for flip in group.iter().filter(|flip| flip.filter != usize::MAX) {
                bitmap[flip.filter / 64] ^= 1 << (flip.filter % 64);
                hash ^= hash_filter_index(flip.filter);
            }
            let known = index_of_hash.get(&hash).copied();
            let known = known.filter(|index| axis.pool.summary_and_bitmap(*index).1 == bitmap);
            let index = match known {
                Some(index) => index,
                None => {
                    let bitmap_bytes = axis.pool.stride * size_of::<u64>();
                    budget.check_bytes(bytes_before + axis.memory_bytes() + bitmap_bytes)?;
                    budget.take_steps(axis.pool.stride)?;
                    let index = axis.pool.push(&bitmap);
                    index_of_hash.insert(hash, index);
                    index
                }
            };
            axis.starts.push(group[0].axis_value);
            axis.bitmap_of_interval.push(index);
        }
        axis.pool.words.shrink_to_fit();
        Ok(axis)
    }

    fn find_summary_and_bitmap(&self, key: &[u32]) -> (&[u64], &[u64]) {
        let value = self.dimension.value(key);
        let interval = self.starts.partition_point(|start| *start <= value) - 1;
        self.pool.summary_and_bitmap(self.bitmap_of_interval[interval])
    }

    fn memory_bytes(&self) -> usize {
        self.starts.len() * 2 * size_of::<u32>() + self.pool.words.len() * size_of::<u64>()
    }
}

/// A set of filters has the exclusive or of their hashes: a filter more or less costs one step.
/// The finaliser of SplitMix64 as a hash; no number is drawn, so weir-random is not used.
fn hash_filter_index(filter: usize) -> u128 {
    let mix = |seed: u64| {
        let mut z = (filter as u64).wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    u128::from(mix(1)) << 64 | u128::from(mix(0x5851_f42d_4c95_7f2d))
}

impl Classifier for BitVectorClassifier {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(first.len(), keys.key_count(), "a place for each key");
        let mut bitmaps = vec![];
        for (key, first) in keys.keys().zip(first) {
            *first = NO_RULE;
            self.visit_matching_while_true(
                key,
                &self.deciding_filters_bitmap,
                &mut bitmaps,
                |filter| {
                    *first = self.rule_of_filter[filter];
                    false
                },
            );
        }
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        let mut bitmaps = vec![];
        for key in keys.keys() {
            self.visit_matching_while_true(key, &self.all_filters_bitmap, &mut bitmaps, |filter| {
                lists.push(self.rule_of_filter[filter]);
                true
            });
            lists.sort_dedup_and_finish_list_of_key();
        }
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.deciding_rules.binary_search(&rule).is_ok()
    }

    fn memory_bytes(&self) -> usize {
        let sets = [&self.all_filters_bitmap, &self.deciding_filters_bitmap]
            .map(|pool| pool.words.len() * size_of::<u64>());
        let axes: usize = self.axes.iter().map(BitmapAxis::memory_bytes).sum();
        axes + sets[0] + sets[1] + self.rule_of_filter.len() * size_of::<u32>()
    }
}
