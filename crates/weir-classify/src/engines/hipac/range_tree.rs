//! The nested range tree: nodes, look-up, insertion and removal.

use std::collections::HashSet;
use std::sync::Arc;

use crate::build_limits::ClassifierBuildError;
use crate::engines::build_budget::BuildBudget;
use crate::engines::dimension::Dimension;
use crate::filter_set::{NO_RULE, WordTest};

/// A field of the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeAxis {
    pub(super) dimension: Dimension,
    /// Nodes of the field have a subtree for rules that do not test it.
    pub(super) has_wildcard_subtree: bool,
}

/// What a rule requires of one field of the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisConstraint {
    axis: u32,
    lo: u32,
    hi: u32,
}

/// The fields that a rule tests, in the order of the tree.
pub(super) type RuleBox = Vec<AxisConstraint>;

type NodeLink = Option<Arc<RangeNode>>;

#[derive(Clone, Debug, PartialEq)]
enum RangeNode {
    Fork(RangeInnerNode),
    Leaf(RangeLeaf),
}

/// The intervals of one field.
#[derive(Clone, Debug, PartialEq)]
struct RangeInnerNode {
    axis: u32,
    /// Last value of each interval; of the last one, the largest of the field.
    ends: Vec<u32>,
    children: Vec<NodeLink>,
    wildcard: NodeLink,
}

/// The rules that match at the end of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RangeLeaf {
    /// The first of them that decides, or [`NO_RULE`].
    pub(super) first_deciding: u32,
    /// Ascending.
    pub(super) rules: Vec<u32>,
}

/// What is done at every leaf within a box.
#[derive(Clone, Copy)]
pub(super) enum TreeChange<'a> {
    Insert { rule: u32, is_deciding: bool },
    Remove { rule: u32, decides: &'a dyn Fn(u32) -> bool },
}

/// The tree. A clone shares its nodes.
#[derive(Clone, Debug)]
pub(super) struct RangeTree {
    axes: Vec<TreeAxis>,
    top: NodeLink,
    /// What insertions have allocated; the limit is checked against it.
    cumulative_insertion_bytes: usize,
}

const INTERVAL_BYTES: usize = size_of::<u32>() + size_of::<NodeLink>();
/// Both counters of an [`Arc`], and the node.
const NODE_BYTES: usize = 2 * size_of::<usize>() + size_of::<RangeNode>();

impl RangeTree {
    pub(super) fn new(axes: Vec<TreeAxis>) -> RangeTree {
        RangeTree { axes, top: None, cumulative_insertion_bytes: 0 }
    }

    pub(super) fn list_constraints(&self, tests: &[WordTest]) -> RuleBox {
        let of_axis = |(axis, of): (u32, &TreeAxis)| {
            let (lo, hi) = of.dimension.interval(tests);
            of.dimension.is_constrained((lo, hi)).then_some(AxisConstraint { axis, lo, hi })
        };
        (0..).zip(&self.axes).filter_map(of_axis).collect()
    }

    /// Prepares an empty tree for rules: cuts the first field at all their ends, so that they do
    /// not move its intervals one by one.
    pub(super) fn cut_first_field_at_ends<'a>(
        &mut self,
        boxes: impl Iterator<Item = &'a RuleBox> + Clone,
    ) {
        let firsts = boxes.filter_map(|of_rule| of_rule.first());
        let Some(axis) = firsts.clone().map(|first| first.axis).min() else { return };
        let mut ends = vec![self.axes[axis as usize].dimension.max];
        for first in firsts.filter(|first| first.axis == axis) {
            ends.extend(first.lo.checked_sub(1));
            ends.push(first.hi);
        }
        ends.sort_unstable();
        ends.dedup();
        self.cumulative_insertion_bytes += NODE_BYTES + ends.len() * INTERVAL_BYTES;
        let children = vec![None; ends.len()];
        let fork = RangeInnerNode { axis, ends, children, wildcard: None };
        self.top = Some(Arc::new(RangeNode::Fork(fork)));
    }

    /// Changes every leaf within a box.
    pub(super) fn change_leaves_in_box(
        &mut self,
        change: TreeChange<'_>,
        of_rule: &[AxisConstraint],
        budget: &mut BuildBudget,
    ) -> Result<(), ClassifierBuildError> {
        let mut run = RangeTreeChanger {
            axes: &self.axes,
            change,
            bytes: &mut self.cumulative_insertion_bytes,
            budget,
        };
        run.change_link(&mut self.top, of_rule)
    }

    /// Calls `visit` with each leaf whose part of the space has the key: at most four.
    #[inline]
    pub(super) fn visit_leaves(&self, key: &[u32], visit: &mut impl FnMut(&RangeLeaf)) {
        self.visit_leaves_below_link(&self.top, key, visit);
    }

    fn visit_leaves_below_link(
        &self,
        link: &NodeLink,
        key: &[u32],
        visit: &mut impl FnMut(&RangeLeaf),
    ) {
        let mut link = link;
        while let Some(node) = link {
            match &**node {
                RangeNode::Leaf(leaf) => return visit(leaf),
                RangeNode::Fork(fork) => {
                    if fork.wildcard.is_some() {
                        self.visit_leaves_below_link(&fork.wildcard, key, visit);
                    }
                    let value = self.axes[fork.axis as usize].dimension.value(key);
                    link = &fork.children[fork.ends.partition_point(|end| *end < value)];
                }
            }
        }
    }

    /// Bytes of the nodes, each counted once.
    pub(super) fn count_bytes(&self) -> usize {
        let mut seen = HashSet::new();
        let mut open: Vec<&Arc<RangeNode>> = self.top.iter().collect();
        let mut bytes = 0;
        while let Some(node) = open.pop() {
            if !seen.insert(Arc::as_ptr(node)) {
                continue;
            }
            bytes += NODE_BYTES;
            match &**node {
                RangeNode::Leaf(leaf) => bytes += leaf.rules.len() * size_of::<u32>(),
                RangeNode::Fork(fork) => {
                    bytes += fork.ends.len() * INTERVAL_BYTES;
                    open.extend(fork.children.iter().chain([&fork.wildcard]).flatten());
                }
            }
        }
        bytes
    }
}

/// One change of one box.
struct RangeTreeChanger<'a, 'b> {
    axes: &'a [TreeAxis],
    change: TreeChange<'a>,
    bytes: &'b mut usize,
    budget: &'b mut BuildBudget,
}

impl RangeTreeChanger<'_, '_> {
    fn charge_allocated_bytes(&mut self, bytes: usize) -> Result<(), ClassifierBuildError> {
        *self.bytes += bytes;
        self.budget.check_bytes(*self.bytes)
    }

    fn change_link(
        &mut self,
        link: &mut NodeLink,
        constraints: &[AxisConstraint],
    ) -> Result<(), ClassifierBuildError> {
        self.budget.take_steps(1)?;
        let axis_of_link = match link.as_deref() {
            Some(RangeNode::Fork(fork)) => fork.axis,
            _ => u32::MAX,
        };
        let next = constraints.first();
        match next {
            None if axis_of_link == u32::MAX => return self.change_leaf(link),
            Some(next) if next.axis < axis_of_link => {
                self.insert_inner_node_above(link, next.axis)?
            }
            _ => {}
        }
        let Some(node) = link else { return Ok(()) };
        if Arc::strong_count(node) > 1 {
            self.charge_allocated_bytes(count_own_bytes(node))?;
        }
        let RangeNode::Fork(fork) = Arc::make_mut(node) else { return Ok(()) };
        match next {
            Some(next) if next.axis == fork.axis => {
                let cuts = next.lo.checked_sub(1).into_iter().chain([next.hi]);
                let added = cuts.filter(|end| fork.cut_at(*end)).count();
                self.charge_allocated_bytes(added * INTERVAL_BYTES)?;
                let from = fork.ends.partition_point(|end| *end < next.lo);
                let to = fork.ends.partition_point(|end| *end < next.hi) + 1;
                self.change_children(&mut fork.children[from..to], &constraints[1..])?;
            }
            _ if self.axes[fork.axis as usize].has_wildcard_subtree => {
                self.change_link(&mut fork.wildcard, constraints)?;
            }
            _ => self.change_children(&mut fork.children, constraints)?,
        }
        if matches!(self.change, TreeChange::Remove { .. }) {
            fork.merge_equal_neighbours();
            let has_wildcard_subtree = self.axes[fork.axis as usize].has_wildcard_subtree;
            if let Some(simpler) = fork.take_replacement_if_trivial(has_wildcard_subtree) {
                *link = simpler;
            }
        }
        Ok(())
    }

    /// Neighbours that share a subtree share what it becomes.
    fn change_children(
        &mut self,
        children: &mut [NodeLink],
        constraints: &[AxisConstraint],
    ) -> Result<(), ClassifierBuildError> {
        let mut at = 0;
        while at < children.len() {
            let mut child = children[at].take();
            let same = |other: &&mut NodeLink| is_same_node_pointer(other, &child);
            let count = 1 + children[at + 1..].iter_mut().take_while(same).count();
            children[at..at + count].fill(None);
            self.change_link(&mut child, constraints)?;
            children[at..at + count].fill(child);
            at += count;
        }
        Ok(())
    }

    /// Puts a node of an earlier field above what does not test it.
    fn insert_inner_node_above(
        &mut self,
        link: &mut NodeLink,
        axis: u32,
    ) -> Result<(), ClassifierBuildError> {
        let TreeAxis { dimension, has_wildcard_subtree } = self.axes[axis as usize];
        let (child, wildcard) = match has_wildcard_subtree {
            true => (None, link.take()),
            false => (link.take(), None),
        };
        let fork =
            RangeInnerNode { axis, ends: vec![dimension.max], children: vec![child], wildcard };
        *link = Some(Arc::new(RangeNode::Fork(fork)));
        self.charge_allocated_bytes(NODE_BYTES + INTERVAL_BYTES)
    }

    fn change_leaf(&mut self, link: &mut NodeLink) -> Result<(), ClassifierBuildError> {
        match self.change {
            TreeChange::Insert { rule, is_deciding } => {
                if link.is_none() {
                    self.charge_allocated_bytes(NODE_BYTES)?;
                } else if link.as_ref().is_some_and(|node| Arc::strong_count(node) > 1) {
                    self.charge_allocated_bytes(link.as_deref().map_or(0, count_own_bytes))?;
                }
                self.charge_allocated_bytes(size_of::<u32>())?;
                let empty = RangeLeaf { first_deciding: NO_RULE, rules: vec![] };
                let node = link.get_or_insert_with(|| Arc::new(RangeNode::Leaf(empty)));
                if let RangeNode::Leaf(leaf) = Arc::make_mut(node) {
                    if let Err(at) = leaf.rules.binary_search(&rule) {
                        leaf.rules.insert(at, rule);
                    }
                    if is_deciding {
                        leaf.first_deciding = leaf.first_deciding.min(rule);
                    }
                }
            }
            TreeChange::Remove { rule, decides } => {
                let Some(node) = link else { return Ok(()) };
                if let RangeNode::Leaf(leaf) = Arc::make_mut(node) {
                    leaf.rules.retain(|other| *other != rule);
                    let first = leaf.rules.iter().find(|rule| decides(**rule));
                    leaf.first_deciding = first.copied().unwrap_or(NO_RULE);
                    if leaf.rules.is_empty() {
                        *link = None;
                    }
                }
            }
        }
        Ok(())
    }
}

impl RangeInnerNode {
    /// Ends an interval at a value, if none ends there; its subtree then belongs to both parts.
    fn cut_at(&mut self, end: u32) -> bool {
        let at = self.ends.partition_point(|other| *other < end);
        let is_new = self.ends[at] != end;
        if is_new {
            self.ends.insert(at, end);
            self.children.insert(at, self.children[at].clone());
        }
        is_new
    }

    fn merge_equal_neighbours(&mut self) {
        let mut kept = 0;
        for at in 1..self.ends.len() {
            let (before, after) = self.children.split_at(at);
            if is_same_node_pointer(&before[kept], &after[0]) || before[kept] == after[0] {
                self.ends[kept] = self.ends[at];
            } else {
                kept += 1;
                self.ends.swap(kept, at);
                self.children.swap(kept, at);
            }
        }
        self.ends.truncate(kept + 1);
        self.children.truncate(kept + 1);
    }

    /// What takes the place of a node of one interval. A rule that tests an address stays below a
    /// node of that field, where its removal finds it.
    fn take_replacement_if_trivial(&mut self, has_wildcard_subtree: bool) -> Option<NodeLink> {
        match &mut self.children[..] {
            [None] => Some(self.wildcard.take()),
            [child] if !has_wildcard_subtree => Some(child.take()),
            _ => None,
        }
    }
}

fn is_same_node_pointer(a: &NodeLink, b: &NodeLink) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

fn count_own_bytes(node: &RangeNode) -> usize {
    NODE_BYTES
        + match node {
            RangeNode::Leaf(leaf) => leaf.rules.len() * size_of::<u32>(),
            RangeNode::Fork(fork) => fork.ends.len() * INTERVAL_BYTES,
        }
}
