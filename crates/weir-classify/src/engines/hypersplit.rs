//! Binary splits at the end points of rules: the decision tree of HyperSplit.
//!
//! A node compares one field with one value and goes left or right. The value is an end point of a
//! rule, not a fraction of the field's range, so that every comparison separates rules. A node with
//! at most [`LEAF_FILTERS_MAX`] filters is a leaf, which is searched in order.
//!
//! *Choice of field and value.* The end points of the filters of a node cut each field into
//! segments; a segment's weight is the number of filters that cover it. The field with the smallest
//! mean weight is taken, since its split copies the fewest filters, and the value that divides the
//! sum of weights into halves. Both are the paper's heuristics.
//!
//! *Two trees.* A filter that covers all of a node's part of the space hides those after it from
//! the first match: they are dropped. For all matches they must be kept. A second tree keeps them,
//! and keeps a filter that covers a node's part in a list at the node instead of copying it to all
//! leaves below. Where this second tree exceeds a quarter of the limits, all matches are found by
//! reading the rules in order; HyperSplit itself knows the first match alone.
//!
//! *Cost.* A look-up takes about log2(N) comparisons in a chain of dependent loads, and a leaf. A
//! filter that is wide in the field of a split is copied to both sides: for filters wide in one
//! field and narrow in another, memory grows towards the product of their numbers (N^d for d
//! fields at worst). Building sorts the filters of a node for every field, at each level. A change
//! of the rules needs a new tree.
//!
//! # Source
//! Y. Qi, L. Xu, B. Yang, Y. Xue, J. Li: Packet Classification Algorithms: From Theory to Practice,
//! INFOCOM 2009.

use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{Classifier, RuleListsByKey, collect_deciding_rules};
use crate::engines::build_budget::BuildBudget;
use crate::engines::dimension::{Dimension, list_constrained_dimensions};
use crate::engines::filter_test_rows::FilterTestRows;
use crate::filter_set::{FilterSet, NO_RULE};
use crate::key::KeyTable;

/// The most filters of a leaf, unless no split separates them.
pub const LEAF_FILTERS_MAX: usize = 8;

/// The trees of a filter set.
#[derive(Clone, Debug)]
pub struct HyperSplitClassifier {
    filters: FilterTestRows,
    dimensions: Vec<Dimension>,
    first_match_tree: SplitTree,
    all_matches_tree: Option<SplitTree>,
    deciding_rules: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct SplitTree {
    nodes: Vec<SplitNode>,
    /// What each node keeps for all of its part; empty in the tree for the first match.
    covering_filters_of_node: Vec<(u32, u32)>,
    filters: Vec<u32>,
}

/// A comparison, or a leaf.
#[derive(Clone, Copy, Debug)]
struct SplitNode {
    /// What is compared; [`SplitNode::LEAF`] if nothing is.
    dimension: u32,
    /// Larger values go right. In a leaf, where its filters begin.
    threshold_or_first_filter: u32,
    /// The left child, which the right one follows. In a leaf, the number of filters.
    left_child_or_filter_count: u32,
}

impl SplitNode {
    const LEAF: u32 = u32::MAX;
}

type DimensionInterval = (u32, u32);

/// What building a tree reads.
struct SplitBuilder<'a> {
    dimensions: &'a [Dimension],
    /// Intervals of all filters, a dimension's worth of them each.
    intervals: &'a [DimensionInterval],
    /// Filters that others hide are kept.
    keeps_hidden_filters: bool,
    budget: BuildBudget,
    tree: SplitTree,
}

impl HyperSplitClassifier {
    /// The trees of a filter set.
    ///
    /// # Errors
    /// The tree for the first match exceeds a limit.
    pub fn new(
        filters: &FilterSet,
        limits: &BuildLimits,
    ) -> Result<HyperSplitClassifier, ClassifierBuildError> {
        let dimensions = list_constrained_dimensions(filters);
        let mut intervals: Vec<DimensionInterval> = vec![];
        for filter in filters.filters() {
            intervals.extend(dimensions.iter().map(|of| of.interval(filter.tests)));
        }
        let flat = FilterTestRows::new(filters);
        let build = |keeps_hidden_filters, limits: &BuildLimits| {
            let list = (0..filters.filter_count() as u32)
                .filter(|f| keeps_hidden_filters || flat.decides(*f));
            let builder = SplitBuilder {
                dimensions: &dimensions,
                intervals: &intervals,
                keeps_hidden_filters,
                budget: BuildBudget::new("hypersplit", limits),
                tree: SplitTree::default(),
            };
            builder.build(list.collect())
        };
        let first_match_tree = build(false, limits)?;
        let all_matches_tree = build(true, &limits.limits_of_all_matches_structure()).ok();
        let deciding_rules = collect_deciding_rules(filters);
        Ok(HyperSplitClassifier {
            filters: flat,
            dimensions,
            first_match_tree,
            all_matches_tree,
            deciding_rules,
        })
    }
}

impl SplitBuilder<'_> {
    fn build(mut self, list: Vec<u32>) -> Result<SplitTree, ClassifierBuildError> {
        let whole: Vec<DimensionInterval> = self.dimensions.iter().map(|d| (0, d.max)).collect();
        self.tree.nodes.push(SplitNode {
            dimension: SplitNode::LEAF,
            threshold_or_first_filter: 0,
            left_child_or_filter_count: 0,
        });
        self.build_node(0, &whole, list)?;
        Ok(self.tree)
    }

    fn interval(&self, filter: u32, dimension: usize) -> DimensionInterval {
        self.intervals[filter as usize * self.dimensions.len() + dimension]
    }

    fn covers(&self, filter: u32, part: &[DimensionInterval]) -> bool {
        let row = &self.intervals[filter as usize * part.len()..][..part.len()];
        row.iter().zip(part).all(|(of, part)| of.0 <= part.0 && part.1 <= of.1)
    }

    fn build_node(
        &mut self,
        node: usize,
        part: &[DimensionInterval],
        mut list: Vec<u32>,
    ) -> Result<(), ClassifierBuildError> {
        self.budget.take_steps(1 + list.len() * part.len())?;
        if self.keeps_hidden_filters {
            let (covering, others): (Vec<u32>, Vec<u32>) =
                list.into_iter().partition(|filter| self.covers(*filter, part));
            list = others;
            let range = (self.tree.filters.len() as u32, covering.len() as u32);
            self.tree.covering_filters_of_node.resize(self.tree.nodes.len(), (0, 0));
            self.tree.covering_filters_of_node[node] = range;
            self.tree.filters.extend(covering);
        } else if let Some(at) = list.iter().position(|filter| self.covers(*filter, part)) {
            list.truncate(at + 1);
        }
        self.budget.check_bytes(self.tree.memory_bytes())?;
        let split = match list.len() > LEAF_FILTERS_MAX {
            true => self.choose_split(part, &list),
            false => None,
        };
        let Some((dimension, threshold)) = split else {
            self.tree.nodes[node].threshold_or_first_filter = self.tree.filters.len() as u32;
            self.tree.nodes[node].left_child_or_filter_count = list.len() as u32;
            self.tree.filters.extend(list);
            return Ok(());
        };
        let left = self.tree.nodes.len();
        let leaf = self.tree.nodes[node];
        self.tree.nodes[node] = SplitNode {
            dimension: dimension as u32,
            threshold_or_first_filter: threshold,
            left_child_or_filter_count: left as u32,
        };
        self.tree.nodes.extend([SplitNode { dimension: SplitNode::LEAF, ..leaf }; 2]);
        let side = |is_in: &dyn Fn(DimensionInterval) -> bool| -> Vec<u32> {
            list.iter().copied().filter(|f| is_in(self.interval(*f, dimension))).collect()
        };
        let (lower, upper) = (side(&|of| of.0 <= threshold), side(&|of| of.1 > threshold));
        drop(list);
        let mut half = part.to_vec();
        half[dimension].1 = threshold;
        self.build_node(left, &half, lower)?;
        half[dimension] = (threshold + 1, part[dimension].1);
        self.build_node(left + 1, &half, upper)
    }

    /// The dimension of the least mean weight, and the end of the segment at half its weight.
    fn choose_split(&self, part: &[DimensionInterval], list: &[u32]) -> Option<(usize, u32)> {
        let mut best: Option<(f64, usize, u32)> = None;
        let mut changes: Vec<(u32, i64)> = Vec::with_capacity(2 * list.len());
        for (dimension, &(part_lo, part_hi)) in part.iter().enumerate() {
            changes.clear();
            for filter in list {
                let (lo, hi) = self.interval(*filter, dimension);
                changes.push((lo.max(part_lo), 1));
                if hi < part_hi {
                    changes.push((hi + 1, -1));
                }
            }
            changes.sort_unstable_by_key(|change| change.0);
            let mut weights: Vec<(u32, i64)> = vec![];
            let mut weight = 0;
            for group in changes.chunk_by(|a, b| a.0 == b.0) {
                weight += group.iter().map(|change| change.1).sum::<i64>();
                weights.push((group[0].0, weight));
            }
            if weights.first().is_some_and(|first| first.0 > part_lo) {
                weights.insert(0, (part_lo, 0));
            }
            let sum: i64 = weights.iter().map(|segment| segment.1).sum();
            let mean = sum as f64 / weights.len() as f64;
            if weights.len() < 2 || best.is_some_and(|best| best.0 <= mean) {
                continue;
            }
            let mut below = 0;
            let at = weights.iter().position(|segment| {
                below += segment.1;
                2 * below > sum
            });
            let next = (at.unwrap_or(0) + 1).min(weights.len() - 1);
            best = Some((mean, dimension, weights[next].0 - 1));
        }
        best.map(|(_, dimension, threshold)| (dimension, threshold))
    }
}

impl SplitTree {
    /// Calls `visit` with the lists of filters that could match a key, the leaf's last.
    #[inline]
    fn visit_candidate_lists(
        &self,
        dimensions: &[Dimension],
        key: &[u32],
        mut visit: impl FnMut(&[u32]),
    ) {
        let mut at = 0;
        loop {
            let node = self.nodes[at];
            if let Some(&(start, count)) = self.covering_filters_of_node.get(at) {
                visit(&self.filters[start as usize..][..count as usize]);
            }
            if node.dimension == SplitNode::LEAF {
                visit(
                    &self.filters[node.threshold_or_first_filter as usize..]
                        [..node.left_child_or_filter_count as usize],
                );
                return;
            }
            let value = dimensions[node.dimension as usize].value(key);
            at = node.left_child_or_filter_count as usize
                + usize::from(value > node.threshold_or_first_filter);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.len() * size_of::<SplitNode>()
            + self.covering_filters_of_node.len() * size_of::<(u32, u32)>()
            + self.filters.len() * size_of::<u32>()
    }
}

impl Classifier for HyperSplitClassifier {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(first.len(), keys.key_count(), "a place for each key");
        for (key, first) in keys.keys().zip(first) {
            *first = NO_RULE;
            self.first_match_tree.visit_candidate_lists(&self.dimensions, key, |list| {
                let found = list.iter().find(|filter| self.filters.matches(**filter, key));
                *first = found.map_or(NO_RULE, |filter| self.filters.rule(*filter));
            });
        }
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        for key in keys.keys() {
            match &self.all_matches_tree {
                Some(tree) => tree.visit_candidate_lists(&self.dimensions, key, |list| {
                    for filter in list.iter().filter(|f| self.filters.matches(**f, key)) {
                        lists.push(self.filters.rule(*filter));
                    }
                }),
                None => self.filters.push_matching_rules(key, lists),
            }
            lists.sort_dedup_and_finish_list_of_key();
        }
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.deciding_rules.binary_search(&rule).is_ok()
    }

    fn memory_bytes(&self) -> usize {
        let all_matches_tree = self.all_matches_tree.as_ref().map_or(0, SplitTree::memory_bytes);
        self.filters.memory_bytes() + self.first_match_tree.memory_bytes() + all_matches_tree
    }
}
