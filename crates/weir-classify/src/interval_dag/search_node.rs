//! Search nodes: 15 ascending keys and 16 children, two cache lines.
//!
//! Word 0 of a node is the word of the key that it compares, words 1 to 15 are the keys, words 16
//! to 31 the children. A search follows the child of the index that is the number of keys not
//! above the value. Unused keys are the largest value, and unused children repeat the last one:
//! then even the largest value, which is above all unused keys, finds the last child.

use std::collections::HashMap;

use super::word_hasher::BuildWordHasher;

/// Words of a node.
pub(super) const NODE_WORDS: usize = 32;
/// Children of a node.
pub(super) const FANOUT: usize = 16;

/// A child: the index of a node, or with [`LEAF_FLAG`] what the owner of the nodes reads from the
/// rest.
pub(super) type NodeRef = u32;
/// Marks a child that is no node.
pub(super) const LEAF_FLAG: NodeRef = 1 << 31;

/// A node as the block has it.
pub(super) type NodeContent = [u32; NODE_WORDS];

/// Nodes of one group, each content once. A child has a smaller index than its parents.
#[derive(Debug, Default)]
pub(super) struct NodeTable {
    pub(super) nodes: Vec<NodeContent>,
    index_of_content: HashMap<NodeContent, u32, BuildWordHasher>,
}

impl NodeTable {
    /// The search for the piece that contains a value: `pieces` are the first value of each, from
    /// 0 ascending, and what it leads to. Neighbours with the same target become one.
    pub(super) fn add_search_levels(
        &mut self,
        word: usize,
        pieces: Vec<(u32, NodeRef)>,
    ) -> NodeRef {
        let mut level = pieces;
        level.dedup_by(|next, before| next.1 == before.1);
        while level.len() > 1 {
            level = level
                .chunks(FANOUT)
                .map(|children| (children[0].0, self.add_node(word, children)))
                .collect();
        }
        level[0].1
    }

    /// Adds the nodes of another table behind its own.
    pub(super) fn append_rebased(&mut self, other: NodeTable, rebase: impl Fn(NodeRef) -> NodeRef) {
        self.nodes.extend(other.nodes.into_iter().map(|mut node| {
            node[FANOUT..].iter_mut().for_each(|child| *child = rebase(*child));
            node
        }));
    }

    fn add_node(&mut self, word: usize, children: &[(u32, NodeRef)]) -> NodeRef {
        if let [(_, only)] = children {
            return *only;
        }
        let mut node = [u32::MAX; NODE_WORDS];
        node[0] = word as u32;
        for (place, (start, _)) in node[1..FANOUT].iter_mut().zip(&children[1..]) {
            *place = *start;
        }
        let last = children[children.len() - 1].1;
        node[FANOUT..].fill(last);
        for (place, (_, child)) in node[FANOUT..].iter_mut().zip(children) {
            *place = *child;
        }
        let next = self.nodes.len() as u32;
        let index = *self.index_of_content.entry(node).or_insert(next);
        if index == next {
            self.nodes.push(node);
        }
        index
    }
}
