//! Finds the rules of a chain that overlap or cover a box, in their order, one after another.
//!
//! Most questions are answered by the first few such rules, although a rule that tests the source
//! overlaps all that test the destination. So the boxes form a tree whose nodes know the bounds of
//! the boxes below them and their lowest rule, and the search always opens the node with the lowest
//! rule: rules are found in order, and those after the last one that is requested cost nothing.
//!
//! Boxes that leave different fields open are in different trees. In one tree, a box that leaves a
//! field open would widen the bounds of every node above it.
//!
//! A box has hundreds of bytes, and a list of ports has many boxes. The tree has copies of what
//! distinguishes them ([`index_axes`]): a few numbers next to each other, by which a leaf also
//! selects its boxes.

mod index_axes;

use std::cell::Cell as Counter;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

use weir_partition::{HyperRect, RulePacketBoxes};

use self::index_axes::{BoundsList, IndexAxes};
use super::first_covering_rules::list_boxes_of_rule;

/// Boxes below a node without children.
const MAX_BOXES_PER_LEAF: usize = 8;
/// Boxes that represent the others of a node when it is divided.
const MAX_SAMPLED_BOXES: usize = 64;

/// The rules of a chain by their boxes.
pub(super) struct OverlapIndex {
    axes: IndexAxes,
    nodes: Vec<BoundsNode>,
    /// Of each node.
    node_bounds: BoundsList,
    /// The root of each tree.
    roots: Vec<usize>,
    /// The rules of all leaves, one for each of their boxes.
    leaf_rules: Vec<usize>,
    /// The boxes of all leaves.
    leaf_bounds: BoundsList,
}

struct BoundsNode {
    lowest_rule: usize,
    highest_rule: usize,
    children_or_boxes: BoundsNodeContent,
}

enum BoundsNodeContent {
    Children(usize, usize),
    /// A range of the boxes of leaves.
    Boxes(usize, usize),
}

/// The boxes that an index is built of.
struct IndexedBoxes {
    bounds: BoundsList,
    /// The rule of each box.
    rules: Vec<usize>,
}

impl OverlapIndex {
    /// Those rules of a chain that are wanted.
    pub fn new(reaches: &[RulePacketBoxes], wanted: &dyn Fn(usize) -> bool) -> OverlapIndex {
        let rules = reaches.iter().enumerate().filter(|(i, _)| wanted(*i));
        OverlapIndex::of_boxes(&|| {
            Box::new(
                rules.clone().flat_map(|(i, r)| list_boxes_of_rule(r).map(move |cell| (cell, i))),
            )
        })
    }

    /// Of boxes with their rules.
    fn of_boxes<'b>(
        list: &dyn Fn() -> Box<dyn Iterator<Item = (&'b HyperRect, usize)> + 'b>,
    ) -> OverlapIndex {
        let axes = IndexAxes::that_distinguish(list().map(|(cell, _)| cell));
        let mut boxes = IndexedBoxes { bounds: BoundsList::new(&axes), rules: Vec::new() };
        let mut trees: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (cell, rule) in list() {
            let number = boxes.rules.len() as u32;
            trees.entry(axes.unconstrained_axes_mask(cell)).or_default().push(number);
            boxes.bounds.push_box(&axes, cell);
            boxes.rules.push(rule);
        }
        let mut index = OverlapIndex {
            nodes: Vec::new(),
            node_bounds: BoundsList::new(&axes),
            roots: Vec::new(),
            leaf_rules: Vec::new(),
            leaf_bounds: BoundsList::new(&axes),
            axes,
        };
        for mut numbers in trees.into_values() {
            let root = index.add_subtree(&boxes, &mut numbers);
            index.roots.push(root);
        }
        index
    }

    /// Boxes are numbered; the number of the root of their tree. The bounds of a node are those of
    /// its children, so that each box is widened once.
    fn add_subtree(&mut self, boxes: &IndexedBoxes, numbers: &mut [u32]) -> usize {
        if numbers.len() <= MAX_BOXES_PER_LEAF {
            return self.add_leaf(boxes, numbers);
        }
        let step = numbers.len().div_ceil(MAX_SAMPLED_BOXES);
        let axis = boxes.bounds.axis_with_narrowest_boxes(numbers.iter().step_by(step).copied());
        let middle = numbers.len() / 2;
        numbers.select_nth_unstable_by_key(middle, |number| {
            (boxes.bounds.interval(*number, axis), boxes.rules[*number as usize])
        });
        let (low, high) = numbers.split_at_mut(middle);
        let children = [self.add_subtree(boxes, low), self.add_subtree(boxes, high)];
        let [a, b] = children.map(|child| &self.nodes[child]);
        let node = BoundsNode {
            lowest_rule: a.lowest_rule.min(b.lowest_rule),
            highest_rule: a.highest_rule.max(b.highest_rule),
            children_or_boxes: BoundsNodeContent::Children(children[0], children[1]),
        };
        self.node_bounds.push_enclosing_two(children);
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn add_leaf(&mut self, boxes: &IndexedBoxes, numbers: &[u32]) -> usize {
        let start = self.leaf_rules.len();
        let rules = numbers.iter().map(|number| boxes.rules[*number as usize]);
        self.leaf_rules.extend(rules);
        for number in numbers {
            self.leaf_bounds.push_copy(&boxes.bounds, *number as usize);
        }
        self.node_bounds.push_enclosing(&self.leaf_bounds, start..self.leaf_rules.len());
        let rules = self.leaf_rules[start..].iter();
        let (lowest, highest) = rules.fold((usize::MAX, 0), |(l, h), r| (l.min(*r), h.max(*r)));
        self.nodes.push(BoundsNode {
            lowest_rule: lowest,
            highest_rule: highest,
            children_or_boxes: BoundsNodeContent::Boxes(start, self.leaf_rules.len()),
        });
        self.nodes.len() - 1
    }

    /// The rules of a range that may do something to packets of some boxes, in order. Each node
    /// that is examined is counted.
    pub fn rules_overlapping<'a>(
        &'a self,
        cells: &[HyperRect],
        rules: Range<usize>,
        examined_nodes: &'a Counter<u64>,
    ) -> RuleSearch<'a> {
        RuleSearch::new(self, cells, rules, WantedRelation::Intersects, examined_nodes)
    }

    /// The rules of a range that may take all packets of a box at once, in order.
    pub fn rules_covering<'a>(
        &'a self,
        cell: &HyperRect,
        rules: Range<usize>,
        examined_nodes: &'a Counter<u64>,
    ) -> RuleSearch<'a> {
        let cells = std::slice::from_ref(cell);
        RuleSearch::new(self, cells, rules, WantedRelation::Covers, examined_nodes)
    }
}

/// What boxes must do to a box that is looked for.
#[derive(Clone, Copy)]
enum WantedRelation {
    Intersects,
    Covers,
}

/// Finds rules in their order; each costs what it takes to find it.
pub(super) struct RuleSearch<'a> {
    index: &'a OverlapIndex,
    wanted_bounds: BoundsList,
    wanted_count: usize,
    relation: WantedRelation,
    /// The lowest rule first; a rule without a node is found.
    open_nodes_and_found_rules: BinaryHeap<Reverse<(usize, Option<usize>)>>,
    /// The rules that are not found yet.
    next_rules: Range<usize>,
    examined_nodes: &'a Counter<u64>,
}

impl<'a> RuleSearch<'a> {
    fn new(
        index: &'a OverlapIndex,
        cells: &[HyperRect],
        rules: Range<usize>,
        relation: WantedRelation,
        examined_nodes: &'a Counter<u64>,
    ) -> RuleSearch<'a> {
        let mut wanted_bounds = BoundsList::new(&index.axes);
        cells.iter().for_each(|cell| wanted_bounds.push_box(&index.axes, cell));
        let mut search = RuleSearch {
            index,
            wanted_bounds,
            wanted_count: cells.len(),
            relation,
            open_nodes_and_found_rules: BinaryHeap::new(),
            next_rules: rules,
            examined_nodes,
        };
        index.roots.iter().for_each(|root| search.queue_node_if_wanted(*root));
        search
    }

    fn is_wanted(&self, list: &BoundsList, number: usize) -> bool {
        let mut wanted = 0..self.wanted_count;
        match self.relation {
            WantedRelation::Intersects => {
                wanted.any(|wanted| list.intersects(number, (&self.wanted_bounds, wanted)))
            }
            WantedRelation::Covers => {
                wanted.any(|wanted| list.covers(number, (&self.wanted_bounds, wanted)))
            }
        }
    }

    fn queue_node_if_wanted(&mut self, at: usize) {
        let node = &self.index.nodes[at];
        self.examined_nodes.set(self.examined_nodes.get() + 1);
        if node.highest_rule >= self.next_rules.start
            && node.lowest_rule < self.next_rules.end
            && self.is_wanted(&self.index.node_bounds, at)
        {
            let lowest = node.lowest_rule.max(self.next_rules.start);
            self.open_nodes_and_found_rules.push(Reverse((lowest, Some(at))));
        }
    }
}

impl Iterator for RuleSearch<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while let Some(Reverse((rule, node))) = self.open_nodes_and_found_rules.pop() {
            match node.map(|at| &self.index.nodes[at].children_or_boxes) {
                Some(BoundsNodeContent::Children(a, b)) => {
                    self.queue_node_if_wanted(*a);
                    self.queue_node_if_wanted(*b);
                }
                Some(BoundsNodeContent::Boxes(start, end)) => {
                    for at in *start..*end {
                        let rule = self.index.leaf_rules[at];
                        if self.next_rules.contains(&rule)
                            && self.is_wanted(&self.index.leaf_bounds, at)
                        {
                            self.open_nodes_and_found_rules.push(Reverse((rule, None)));
                        }
                    }
                }
                None if rule >= self.next_rules.start => {
                    self.next_rules.start = rule + 1;
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
    use weir_model::{Family, Field};

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
        let index = OverlapIndex::of_boxes(&|| Box::new(cells.iter().zip(0..)));
        for i in 0..200 {
            let cell = numbered_box(i);
            for rules in [0..200, i..200, 150..200, 20..160] {
                let found: Vec<usize> = index
                    .rules_overlapping(std::slice::from_ref(&cell), rules.clone(), &examined)
                    .collect();
                assert!(found.is_sorted_by(|a, b| a < b));
                let expected = rules.filter(|r| numbered_box(*r).intersects(&cell));
                assert_eq!(found, expected.collect::<Vec<usize>>());
            }
            for end in [200, i + 1, 100] {
                let found: Vec<usize> = index.rules_covering(&cell, 0..end, &examined).collect();
                let expected = (0..end).filter(|r| numbered_box(*r).covers(&cell));
                assert_eq!(found, expected.collect::<Vec<usize>>());
            }
        }
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        let index = OverlapIndex::new(&[], &|_| true);
        assert_eq!(index.rules_covering(&numbered_box(1), 0..9, &Counter::new(0)).next(), None);
    }
}
