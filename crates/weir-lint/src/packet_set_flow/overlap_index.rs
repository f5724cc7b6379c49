//! Finds the rules of a chain that overlap or cover a box, in their order, one after another.
//!
//! Most questions are answered by the first few such rules, although a rule that tests the source
//! overlaps all that test the destination. So the boxes form a tree whose nodes know the bounds of
//! the boxes below them and their lowest rule, and the search always opens the node with the lowest
//! rule: rules are found in order, and those after the last one that is requested cost nothing.
//!
//! Boxes that leave different fields open are in different trees. In one tree, a box that leaves a
//! field open would widen the bounds of every node above it.

use std::cell::Cell as Counter;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weir_model::Field;
use weir_partition::{CodeAxis, CodeSet, HyperRect, Interval, RulePacketBoxes};

/// The numbers that large rulesets differ in.
const INDEXED_FIELDS: [Field; 6] =
    [Field::Saddr, Field::Daddr, Field::Dport, Field::Sport, Field::Proto, Field::SourceMac];
/// The sets of few values that they differ in.
const INDEXED_CODE_AXES: [CodeAxis; 3] = [CodeAxis::HeaderPresence, CodeAxis::Iif, CodeAxis::Oif];
/// Boxes below a node without children.
const MAX_BOXES_PER_LEAF: usize = 8;

/// The rules of a chain by their boxes.
pub(super) struct OverlapIndex {
    nodes: Vec<BoundsNode>,
    /// The root of each tree.
    roots: Vec<usize>,
    /// The rules of all leaves.
    leaf_rules: Vec<usize>,
}

/// The indexed fields of a box, or of the smallest box around some.
#[derive(Clone)]
struct IndexedBounds {
    intervals: [Interval; INDEXED_FIELDS.len()],
    code_sets: [CodeSet; INDEXED_CODE_AXES.len()],
}

/// A box, and the rule that it is of.
type BoxOfRule<'b> = (&'b HyperRect, usize);

struct BoundsNode {
    bounds: IndexedBounds,
    lowest_rule: usize,
    highest_rule: usize,
    children_or_rules: BoundsNodeContent,
}

enum BoundsNodeContent {
    Children(usize, usize),
    /// A range of the rules of leaves.
    Rules(usize, usize),
}

impl IndexedBounds {
    fn of_box(cell: &HyperRect) -> IndexedBounds {
        IndexedBounds {
            intervals: INDEXED_FIELDS.map(|field| cell.interval_of_field(field)),
            code_sets: INDEXED_CODE_AXES.map(|axis| cell.codes_of_axis(axis)),
        }
    }

    fn widen(&mut self, other: &IndexedBounds) {
        for (mine, theirs) in self.intervals.iter_mut().zip(&other.intervals) {
            *mine = (mine.0.min(theirs.0), mine.1.max(theirs.1));
        }
        for (mine, theirs) in self.code_sets.iter_mut().zip(&other.code_sets) {
            *mine = mine.or(*theirs);
        }
    }

    fn intersects(&self, other: &IndexedBounds) -> bool {
        self.intervals.iter().zip(&other.intervals).all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
            && self.code_sets.iter().zip(&other.code_sets).all(|(a, b)| !a.and(*b).is_empty())
    }

    fn covers(&self, other: &IndexedBounds) -> bool {
        self.intervals.iter().zip(&other.intervals).all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
            && self
                .code_sets
                .iter()
                .zip(&other.code_sets)
                .all(|(a, b)| b.and(a.complement()).is_empty())
    }

    /// A bit for each field that it leaves open: boxes with the same ones are in one tree.
    fn unconstrained_fields_mask(&self, widest: &IndexedBounds) -> u32 {
        let numbers = self.intervals.iter().zip(&widest.intervals).map(|(a, b)| a == b);
        let code_sets = self.code_sets.iter().zip(&widest.code_sets).map(|(a, b)| a == b);
        numbers.chain(code_sets).fold(0, |bits, open| bits << 1 | u32::from(open))
    }
}

impl OverlapIndex {
    /// Those rules of a chain that are wanted.
    pub fn new(reaches: &[RulePacketBoxes], wanted: &dyn Fn(usize) -> bool) -> OverlapIndex {
        let mut boxes: Vec<BoxOfRule<'_>> = Vec::new();
        for (i, r) in reaches.iter().enumerate().filter(|(i, _)| wanted(*i)) {
            let hot = r.hotdrop_boxes_with_exactness.iter().map(|(cell, _)| cell);
            let all = r.matched_boxes.iter().chain(hot).chain(&r.stateful_boxes);
            boxes.extend(all.map(|cell| (cell, i)));
        }
        let mut index =
            OverlapIndex { nodes: Vec::new(), roots: Vec::new(), leaf_rules: Vec::new() };
        let Some(widest) = enclosing_bounds(&boxes) else { return index };
        let mut trees: BTreeMap<u32, Vec<BoxOfRule<'_>>> = BTreeMap::new();
        for entry in boxes {
            let bounds = IndexedBounds::of_box(entry.0);
            trees.entry(bounds.unconstrained_fields_mask(&widest)).or_default().push(entry);
        }
        for mut boxes in trees.into_values() {
            let root = index.add_subtree(&mut boxes);
            index.roots.push(root);
        }
        index
    }

    fn add_subtree(&mut self, boxes: &mut [BoxOfRule<'_>]) -> usize {
        let bounds = enclosing_bounds(boxes).expect("a node has boxes");
        let rules = boxes.iter().map(|b| b.1);
        let (lowest, highest) = rules.fold((usize::MAX, 0), |(l, h), r| (l.min(r), h.max(r)));
        let children_or_rules = if boxes.len() <= MAX_BOXES_PER_LEAF {
            let start = self.leaf_rules.len();
            self.leaf_rules.extend(boxes.iter().map(|b| b.1));
            BoundsNodeContent::Rules(start, self.leaf_rules.len())
        } else {
            let axis = axis_with_narrowest_boxes(boxes, &bounds);
            let middle = boxes.len() / 2;
            let field = INDEXED_FIELDS[axis];
            boxes.select_nth_unstable_by_key(middle, |b| (b.0.interval_of_field(field), b.1));
            let (low, high) = boxes.split_at_mut(middle);
            BoundsNodeContent::Children(self.add_subtree(low), self.add_subtree(high))
        };
        self.nodes.push(BoundsNode {
            bounds,
            lowest_rule: lowest,
            highest_rule: highest,
            children_or_rules,
        });
        self.nodes.len() - 1
    }

    /// The rules from one on that may do something to packets of some boxes, in order. Each node
    /// that is examined is counted.
    pub fn rules_overlapping<'a>(
        &'a self,
        cells: &[HyperRect],
        from: usize,
        examined_nodes: &'a Counter<u64>,
    ) -> RuleSearch<'a> {
        RuleSearch::new(self, cells, from, IndexedBounds::intersects, examined_nodes)
    }

    /// The rules that may take all packets of a box at once, in order.
    pub fn rules_covering<'a>(
        &'a self,
        cell: &HyperRect,
        examined_nodes: &'a Counter<u64>,
    ) -> RuleSearch<'a> {
        let cells = std::slice::from_ref(cell);
        RuleSearch::new(self, cells, 0, IndexedBounds::covers, examined_nodes)
    }
}

fn enclosing_bounds(boxes: &[BoxOfRule<'_>]) -> Option<IndexedBounds> {
    let mut widest = IndexedBounds::of_box(boxes.first()?.0);
    boxes.iter().for_each(|b| widest.widen(&IndexedBounds::of_box(b.0)));
    Some(widest)
}

/// The field whose values are most narrow compared with the bounds around them.
fn axis_with_narrowest_boxes(boxes: &[BoxOfRule<'_>], bounds: &IndexedBounds) -> usize {
    let share = |axis: usize| {
        let width = |(lo, hi): Interval| (hi - lo) as f64 + 1.0;
        // A few boxes represent the others.
        let step = boxes.len().div_ceil(64);
        let sample = boxes.iter().step_by(step);
        let field = INDEXED_FIELDS[axis];
        sample
            .map(|b| width(b.0.interval_of_field(field)) / width(bounds.intervals[axis]))
            .sum::<f64>()
    };
    let axes = (0..INDEXED_FIELDS.len()).map(|axis| (share(axis), axis));
    axes.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |a| a.1)
}

/// Finds rules in their order; each costs what it takes to find it.
pub(super) struct RuleSearch<'a> {
    index: &'a OverlapIndex,
    wanted_bounds: Vec<IndexedBounds>,
    start_rule: usize,
    matches_wanted_bounds: fn(&IndexedBounds, &IndexedBounds) -> bool,
    /// The lowest rule first; a rule without a node is found.
    open_nodes_and_found_rules: BinaryHeap<Reverse<(usize, Option<usize>)>>,
    next_rule: usize,
    examined_nodes: &'a Counter<u64>,
}

impl<'a> RuleSearch<'a> {
    fn new(
        index: &'a OverlapIndex,
        cells: &[HyperRect],
        start_rule: usize,
        matches_wanted_bounds: fn(&IndexedBounds, &IndexedBounds) -> bool,
        examined_nodes: &'a Counter<u64>,
    ) -> RuleSearch<'a> {
        let wanted_bounds = cells.iter().map(IndexedBounds::of_box).collect();
        let open_nodes_and_found_rules = BinaryHeap::new();
        let next_rule = start_rule;
        let mut search = RuleSearch {
            index,
            wanted_bounds,
            start_rule,
            matches_wanted_bounds,
            open_nodes_and_found_rules,
            next_rule,
            examined_nodes,
        };
        index.roots.iter().for_each(|root| search.queue_node_if_wanted(*root));
        search
    }

    fn queue_node_if_wanted(&mut self, at: usize) {
        let node = &self.index.nodes[at];
        self.examined_nodes.set(self.examined_nodes.get() + 1);
        if node.highest_rule >= self.start_rule
            && self.wanted_bounds.iter().any(|w| (self.matches_wanted_bounds)(&node.bounds, w))
        {
            self.open_nodes_and_found_rules
                .push(Reverse((node.lowest_rule.max(self.start_rule), Some(at))));
        }
    }
}

impl Iterator for RuleSearch<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while let Some(Reverse((rule, node))) = self.open_nodes_and_found_rules.pop() {
            match node.map(|at| &self.index.nodes[at].children_or_rules) {
                Some(BoundsNodeContent::Children(a, b)) => {
                    self.queue_node_if_wanted(*a);
                    self.queue_node_if_wanted(*b);
                }
                Some(BoundsNodeContent::Rules(start, end)) => {
                    let rules = self.index.leaf_rules[*start..*end].iter();
                    let later = rules.filter(|rule| **rule >= self.next_rule);
                    self.open_nodes_and_found_rules
                        .extend(later.map(|rule| Reverse((*rule, None))));
                }
                None if rule >= self.next_rule => {
                    self.next_rule = rule + 1;
                    return Some(rule);
                }
                None => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use weir_model::Family;

    use super::*;

    /// A box of some sources and ports; every third leaves the source open.
    fn numbered_box(i: usize) -> HyperRect {
        let all = HyperRect::all_packets(Family::V4);
        let lo = (i * 37 % 40) as u128;
        let port = (i * 11 % 23) as u128;
        let source = match i % 3 {
            0 => Some(all),
            _ => all.restrict_to_interval(Field::Saddr, (lo, lo + (i % 7) as u128)),
        };
        let ports = (port, port + (i % 5) as u128);
        source.and_then(|c| c.restrict_to_interval(Field::Dport, ports)).expect("a box")
    }

    #[test]
    fn rules_that_overlap_or_cover_a_box_are_found_in_order() {
        let examined = Counter::new(0);
        let cells: Vec<HyperRect> = (0..200).map(numbered_box).collect();
        let mut boxes: Vec<BoxOfRule<'_>> = cells.iter().zip(0..).collect();
        let mut index =
            OverlapIndex { nodes: Vec::new(), roots: Vec::new(), leaf_rules: Vec::new() };
        let root = index.add_subtree(&mut boxes);
        index.roots.push(root);
        for i in 0..200 {
            let cell = numbered_box(i);
            for from in [0, i, 150] {
                let found: Vec<usize> =
                    index.rules_overlapping(std::slice::from_ref(&cell), from, &examined).collect();
                assert!(found.is_sorted_by(|a, b| a < b) && found.iter().all(|r| *r >= from));
                let missed = (from..200).filter(|r| !found.contains(r));
                assert_eq!(missed.filter(|r| numbered_box(*r).intersects(&cell)).count(), 0);
            }
            let found: Vec<usize> = index.rules_covering(&cell, &examined).collect();
            assert!(found.is_sorted_by(|a, b| a < b) && found.contains(&i));
            let missed = (0..200).filter(|r| !found.contains(r));
            assert_eq!(missed.filter(|r| numbered_box(*r).covers(&cell)).count(), 0);
        }
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        let index = OverlapIndex::new(&[], &|_| true);
        assert_eq!(index.rules_covering(&numbered_box(1), &Counter::new(0)).next(), None);
    }
}
