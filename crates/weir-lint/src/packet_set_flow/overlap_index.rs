//! Finds the rules of a chain that overlap or cover a box, in their order, one after another.
//!
//! Most questions are answered by the first few such rules, although a rule that tests the source
//! overlaps all that test the destination. So the boxes form a tree whose nodes know the bounds of
//! the boxes below them and their lowest rule, and the search always opens the node with the lowest
//! rule: rules are found in order, and those after the last one that is requested cost nothing.
//!
//! A node divides its boxes on the axis on which they are most narrow. Boxes that are wide there
//! would widen the bounds of every node below, so they are a subtree of their own, which divides
//! them on another axis. If all rules of a list test the source, only the source divides them,
//! whatever else they test.
//!
//! A box has hundreds of bytes. The tree has copies of what distinguishes boxes ([`index_axes`]): a
//! few numbers next to each other, by which a leaf also selects its boxes. A box that many rules
//! have ([`ChainBoxes`]) is in the tree once, with the list of its rules.

mod index_axes;

use std::cell::Cell as Counter;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use weir_partition::HyperRect;

use self::index_axes::{BoundsList, IndexAxes};
use super::chain_boxes::{BoxNumber, ChainBoxes};

/// Boxes below a node without children.
const MAX_BOXES_PER_LEAF: usize = 8;
/// Boxes that represent the others of a node when it is divided.
const MAX_SAMPLED_BOXES: usize = 64;
/// Nodes further below the root are halved: no ruleset makes the recursion deep.
const MAX_DEPTH_OF_WIDE_SUBTREES: usize = 96;

/// The rules of a chain by their boxes.
pub(super) struct OverlapIndex {
    axes: IndexAxes,
    /// The first one is the root; two children are next to each other.
    nodes: Vec<BoundsNode>,
    /// Of each node.
    node_bounds: BoundsList,
    /// The boxes of all leaves.
    leaf_boxes: Vec<BoxNumber>,
    leaf_bounds: BoundsList,
    rules_of_boxes: RulesOfBoxes,
}

#[derive(Clone, Copy)]
struct BoundsNode {
    lowest_rule: u32,
    highest_rule: u32,
    children_or_boxes: BoundsNodeContent,
}

#[derive(Clone, Copy)]
enum BoundsNodeContent {
    /// This node and the next one.
    Children(u32),
    /// A range of the boxes of leaves.
    Boxes(u32, u32),
}

impl OverlapIndex {
    /// Those rules of a chain that are wanted.
    pub fn new(chain: &ChainBoxes, wanted: &dyn Fn(usize) -> bool) -> OverlapIndex {
        let rules_of_boxes = RulesOfBoxes::of_chain(chain, wanted);
        let boxes = chain.distinct_boxes();
        let mut numbers: Vec<BoxNumber> = (0..boxes.len() as BoxNumber)
            .filter(|number| !rules_of_boxes.of_box(*number).is_empty())
            .collect();
        let cells = numbers.iter().map(|number| chain.distinct_box(*number));
        let axes = IndexAxes::that_distinguish(cells);
        let mut box_bounds = BoundsList::new(&axes);
        boxes.iter().for_each(|cell| box_bounds.push_box(&axes, cell));
        let mut index = OverlapIndex {
            nodes: Vec::new(),
            node_bounds: BoundsList::new(&axes),
            leaf_boxes: Vec::with_capacity(numbers.len()),
            leaf_bounds: BoundsList::new(&axes),
            axes,
            rules_of_boxes,
        };
        if !numbers.is_empty() {
            index.add_nodes(1);
            index.build_subtree(0, &box_bounds, &mut numbers, 0);
        }
        index
    }

    /// The number of the first one.
    fn add_nodes(&mut self, count: usize) -> usize {
        let first = self.nodes.len();
        let boxes = BoundsNodeContent::Boxes(0, 0);
        let node = BoundsNode { lowest_rule: 0, highest_rule: 0, children_or_boxes: boxes };
        self.nodes.resize(first + count, node);
        self.node_bounds.push_unbounded(count);
        first
    }

    /// The bounds of a node are those of its children, so that each box is widened once.
    fn build_subtree(
        &mut self,
        at: usize,
        box_bounds: &BoundsList,
        numbers: &mut [BoxNumber],
        depth: usize,
    ) {
        if numbers.len() <= MAX_BOXES_PER_LEAF {
            return self.build_leaf(at, box_bounds, numbers);
        }
        let middle = self.divide_boxes(box_bounds, numbers, depth);
        let (low, high) = numbers.split_at_mut(middle);
        let child = self.add_nodes(2);
        self.build_subtree(child, box_bounds, low, depth + 1);
        self.build_subtree(child + 1, box_bounds, high, depth + 1);
        let [a, b] = [child, child + 1].map(|child| self.nodes[child]);
        self.node_bounds.set_enclosing_two(at, [child, child + 1]);
        self.nodes[at] = BoundsNode {
            lowest_rule: a.lowest_rule.min(b.lowest_rule),
            highest_rule: a.highest_rule.max(b.highest_rule),
            children_or_boxes: BoundsNodeContent::Children(child as u32),
        };
    }

    /// Sorts boxes into those of the two children of a node; how many are of the first one.
    fn divide_boxes(
        &self,
        box_bounds: &BoundsList,
        numbers: &mut [BoxNumber],
        depth: usize,
    ) -> usize {
        let middle = numbers.len() / 2;
        let first_rule = |number: &BoxNumber| self.rules_of_boxes.of_box(*number)[0];
        let step = numbers.len().div_ceil(MAX_SAMPLED_BOXES);
        let axis = box_bounds.most_selective_axis(numbers.iter().step_by(step).copied());
        let interval = |number: &BoxNumber| box_bounds.interval(*number as usize, axis);
        let bounds = numbers.iter().map(interval);
        let (lo, hi) = bounds.fold((u128::MAX, 0), |(l, h), (lo, hi)| (lo.min(l), hi.max(h)));
        let is_wide = |number: &BoxNumber| {
            let (l, h) = interval(number);
            h - l > (hi - lo) / 2
        };
        if depth < MAX_DEPTH_OF_WIDE_SUBTREES {
            numbers.sort_unstable_by_key(is_wide);
        }
        match numbers.partition_point(|number| !is_wide(number)) {
            // No axis divides them.
            0 => {
                numbers.select_nth_unstable_by_key(middle, first_rule);
                middle
            }
            narrow if narrow < numbers.len() && depth < MAX_DEPTH_OF_WIDE_SUBTREES => narrow,
            _ => {
                let key = |number: &BoxNumber| (interval(number).0, first_rule(number));
                numbers.select_nth_unstable_by_key(middle, key);
                middle
            }
        }
    }

    fn build_leaf(&mut self, at: usize, box_bounds: &BoundsList, numbers: &[BoxNumber]) {
        let start = self.leaf_boxes.len();
        let (mut lowest, mut highest) = (u32::MAX, 0);
        for number in numbers {
            let rules = self.rules_of_boxes.of_box(*number);
            lowest = rules.first().map_or(lowest, |rule| lowest.min(*rule));
            highest = rules.last().map_or(highest, |rule| highest.max(*rule));
            self.leaf_boxes.push(*number);
            self.leaf_bounds.push_copy(box_bounds, *number as usize);
        }
        let end = self.leaf_boxes.len();
        self.node_bounds.set_enclosing(at, &self.leaf_bounds, start..end);
        self.nodes[at] = BoundsNode {
            lowest_rule: lowest,
            highest_rule: highest,
            children_or_boxes: BoundsNodeContent::Boxes(start as u32, end as u32),
        };
    }

    /// The rules of a range that may do something to packets of some boxes, in order. Each node
    /// that is examined is counted.
    pub fn rules_overlapping<'a, 'b>(
        &'a self,
        cells: impl Iterator<Item = &'b HyperRect>,
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
        let cells = std::iter::once(cell);
        RuleSearch::new(self, cells, rules, WantedRelation::Covers, examined_nodes)
    }
}

/// The rules that have each box, in ascending order.
struct RulesOfBoxes {
    /// Where the rules of a box begin; those of the next box are the end.
    starts: Vec<usize>,
    rules: Vec<u32>,
}

impl RulesOfBoxes {
    fn of_chain(chain: &ChainBoxes, wanted: &dyn Fn(usize) -> bool) -> RulesOfBoxes {
        let numbered = chain.rules_from(0).enumerate().filter(|(rule, _)| wanted(*rule));
        let mut starts = vec![0; chain.distinct_boxes().len() + 1];
        let numbers = numbered.clone().flat_map(|(_, boxes)| boxes.numbers());
        numbers.for_each(|number| starts[*number as usize + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut rules = vec![0; starts.last().copied().unwrap_or(0)];
        let mut next = starts.clone();
        for (rule, boxes) in numbered {
            for number in boxes.numbers() {
                let next = &mut next[*number as usize];
                rules[*next] = u32::try_from(rule).expect("fewer than 2^32 rules");
                *next += 1;
            }
        }
        RulesOfBoxes { starts, rules }
    }

    #[inline]
    fn of_box(&self, number: BoxNumber) -> &[u32] {
        &self.rules[self.starts[number as usize]..self.starts[number as usize + 1]]
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
    /// The lowest rule first.
    open_nodes_and_found_boxes: BinaryHeap<Reverse<(u32, NodeOrBox)>>,
    /// The rules that are not found yet.
    next_rules: Range<u32>,
    examined_nodes: &'a Counter<u64>,
}

/// What is ordered by its lowest rule that is not found yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NodeOrBox {
    Box(BoxNumber),
    Node(u32),
}

impl<'a> RuleSearch<'a> {
    fn new<'b>(
        index: &'a OverlapIndex,
        cells: impl Iterator<Item = &'b HyperRect>,
        rules: Range<usize>,
        relation: WantedRelation,
        examined_nodes: &'a Counter<u64>,
    ) -> RuleSearch<'a> {
        let mut wanted_bounds = BoundsList::new(&index.axes);
        let mut wanted_count = 0;
        for cell in cells {
            wanted_bounds.push_box(&index.axes, cell);
            wanted_count += 1;
        }
        let mut search = RuleSearch {
            index,
            wanted_bounds,
            wanted_count,
            relation,
            open_nodes_and_found_boxes: BinaryHeap::new(),
            next_rules: rules.start as u32..rules.end as u32,
            examined_nodes,
        };
        if !index.nodes.is_empty() {
            search.queue_node_if_wanted(0);
        }
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

    fn queue_node_if_wanted(&mut self, at: u32) {
        let node = &self.index.nodes[at as usize];
        self.examined_nodes.set(self.examined_nodes.get() + 1);
        if node.highest_rule >= self.next_rules.start
            && node.lowest_rule < self.next_rules.end
            && self.is_wanted(&self.index.node_bounds, at as usize)
        {
            let lowest = node.lowest_rule.max(self.next_rules.start);
            self.open_nodes_and_found_boxes.push(Reverse((lowest, NodeOrBox::Node(at))));
        }
    }

    /// Queues a box with its first rule that is not found yet.
    fn queue_box(&mut self, number: BoxNumber) {
        let rules = self.index.rules_of_boxes.of_box(number);
        let next = rules.partition_point(|rule| *rule < self.next_rules.start);
        if let Some(rule) = rules.get(next).filter(|rule| **rule < self.next_rules.end) {
            self.open_nodes_and_found_boxes.push(Reverse((*rule, NodeOrBox::Box(number))));
        }
    }
}

impl Iterator for RuleSearch<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while let Some(Reverse((rule, found))) = self.open_nodes_and_found_boxes.pop() {
            let node = match found {
                NodeOrBox::Node(at) => self.index.nodes[at as usize].children_or_boxes,
                NodeOrBox::Box(number) => {
                    let is_new = rule >= self.next_rules.start;
                    if is_new {
                        self.next_rules.start = rule + 1;
                    }
                    self.queue_box(number);
                    match is_new {
                        true => return Some(rule as usize),
                        false => continue,
                    }
                }
            };
            match node {
                BoundsNodeContent::Children(first) => {
                    self.queue_node_if_wanted(first);
                    self.queue_node_if_wanted(first + 1);
                }
                BoundsNodeContent::Boxes(start, end) => {
                    for at in start as usize..end as usize {
                        if self.is_wanted(&self.index.leaf_bounds, at) {
                            self.queue_box(self.index.leaf_boxes[at]);
                        }
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use weir_model::{Family, Field};
    use weir_partition::RulePacketBoxes;

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
        // Some boxes are those of two rules.
        let box_of_rule = |rule: usize| numbered_box(rule % 130);
        let rule = |rule, _| RulePacketBoxes {
            matched_boxes: vec![box_of_rule(rule)],
            ..RulePacketBoxes::default()
        };
        let index = OverlapIndex::new(&ChainBoxes::of_rules(0..200, rule), &|_| true);
        for i in 0..200 {
            let cell = numbered_box(i);
            for rules in [0..200, i..200, 150..200, 20..160] {
                let found: Vec<usize> = index
                    .rules_overlapping(std::iter::once(&cell), rules.clone(), &examined)
                    .collect();
                assert!(found.is_sorted_by(|a, b| a < b));
                let expected = rules.filter(|r| box_of_rule(*r).intersects(&cell));
                assert_eq!(found, expected.collect::<Vec<usize>>());
            }
            for end in [200, i + 1, 100] {
                let found: Vec<usize> = index.rules_covering(&cell, 0..end, &examined).collect();
                let expected = (0..end).filter(|r| box_of_rule(*r).covers(&cell));
                assert_eq!(found, expected.collect::<Vec<usize>>());
            }
        }
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        let index = OverlapIndex::new(&ChainBoxes::default(), &|_| true);
        assert_eq!(index.rules_covering(&numbered_box(1), 0..9, &Counter::new(0)).next(), None);
    }
}
