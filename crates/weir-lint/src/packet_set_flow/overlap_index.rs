//! Finds the rules of a chain that overlap a box, without testing all of them.
//!
//! For each of a few fields the intervals of all rules are sorted by their lower ends, with a tree
//! of the highest upper ends above them: the overlapping intervals are found in time proportional
//! to their number. The field with the fewest is used.

use weir_model::Field;
use weir_partition::{HyperRect, Interval, RulePacketBoxes};

/// The fields that large rulesets differ in.
const INDEXED_FIELDS: [Field; 4] = [Field::Saddr, Field::Daddr, Field::Dport, Field::SourceMac];
/// Chains this short are looked through.
const MAX_CHAIN_RULES_SCANNED_LINEARLY: usize = 16;

/// The rules of a chain by their spans.
pub(super) struct OverlapIndex {
    /// All of them.
    rules: Vec<usize>,
    interval_trees: Option<[IntervalTree; 4]>,
}

impl OverlapIndex {
    /// Those rules of a chain that are wanted.
    pub fn new(reaches: &[RulePacketBoxes], wanted: &dyn Fn(usize) -> bool) -> OverlapIndex {
        let cells = || {
            reaches.iter().enumerate().filter(|(i, _)| wanted(*i)).flat_map(|(i, r)| {
                let hot = r.dropped_boxes.iter().map(|(cell, _)| cell);
                r.matched_boxes.iter().chain(hot).chain(&r.stateful_boxes).map(move |c| (i, c))
            })
        };
        let rules: Vec<usize> = (0..reaches.len()).filter(|i| wanted(*i)).collect();
        let axes = (rules.len() > MAX_CHAIN_RULES_SCANNED_LINEARLY).then(|| {
            INDEXED_FIELDS
                .map(|axis| IntervalTree::new(cells().map(|(i, c)| (c.interval_of_field(axis), i))))
        });
        OverlapIndex { rules, interval_trees: axes }
    }

    /// The rules that may do something to packets of a cell, in order.
    pub fn rules_overlapping(&self, cell: &HyperRect) -> Vec<usize> {
        let Some(axes) = &self.interval_trees else { return self.rules.clone() };
        let mut best: Option<Vec<usize>> = None;
        for (axis, spans) in INDEXED_FIELDS.iter().zip(axes) {
            let limit = best.as_ref().map_or(usize::MAX, Vec::len);
            if let Some(found) =
                spans.find_overlapping_below_limit(cell.interval_of_field(*axis), limit)
            {
                best = Some(found);
            }
        }
        let mut rules = best.unwrap_or_default();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

/// Spans in the order of their lower ends.
struct IntervalTree {
    sorted_intervals: Vec<(Interval, usize)>,
    /// Node `n` has the highest upper end below it; its children are `2n` and `2n + 1`.
    max_upper_ends: Vec<u128>,
    leaf_count: usize,
}

impl IntervalTree {
    fn new(spans: impl Iterator<Item = (Interval, usize)>) -> IntervalTree {
        let mut spans: Vec<(Interval, usize)> = spans.collect();
        spans.sort_unstable();
        let leaves = spans.len().next_power_of_two();
        let mut highest = vec![0; 2 * leaves];
        for (i, ((_, hi), _)) in spans.iter().enumerate() {
            highest[leaves + i] = *hi;
        }
        for node in (1..leaves).rev() {
            highest[node] = highest[2 * node].max(highest[2 * node + 1]);
        }
        IntervalTree { sorted_intervals: spans, max_upper_ends: highest, leaf_count: leaves }
    }

    /// The intervals that overlap an interval; `None` if there are `limit` or more.
    fn find_overlapping_below_limit(&self, (lo, hi): Interval, limit: usize) -> Option<Vec<usize>> {
        let end = self.sorted_intervals.partition_point(|((l, _), _)| *l <= hi);
        let mut found = Vec::new();
        let mut open = vec![1usize];
        while let Some(node) = open.pop() {
            // The first leaf below the node.
            let depth = (self.leaf_count / (1 << node.ilog2())).max(1);
            let first = (node - (1 << node.ilog2())) * depth;
            if first >= end || self.max_upper_ends[node] < lo {
                continue;
            }
            if node < self.leaf_count {
                open.extend([2 * node + 1, 2 * node]);
            } else {
                found.push(self.sorted_intervals[first].1);
                if found.len() >= limit {
                    return None;
                }
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spans_that_meet_and_no_others_are_found() {
        let spans: Vec<(Interval, usize)> = (0..40)
            .map(|i| {
                let lo = (i * 37 % 40) as u128;
                ((lo, lo + (i % 7) as u128), i)
            })
            .collect();
        let index = IntervalTree::new(spans.iter().copied());
        for lo in 0..50 {
            for hi in [lo, lo + 3, 60] {
                let mut found =
                    index.find_overlapping_below_limit((lo, hi), usize::MAX).expect("no limit");
                found.sort_unstable();
                let meets = |s: &&(Interval, usize)| s.0.0 <= hi && lo <= s.0.1;
                let all: Vec<usize> = spans.iter().filter(meets).map(|s| s.1).collect();
                assert_eq!(found, all, "{lo}-{hi}");
                let cut = index.find_overlapping_below_limit((lo, hi), all.len());
                assert_eq!(cut, all.is_empty().then(Vec::new));
            }
        }
        assert_eq!(
            IntervalTree::new(std::iter::empty()).find_overlapping_below_limit((0, 9), 5),
            Some(Vec::new())
        );
    }
}
