//! Merges many diagrams.
//!
//! Merging them one by one is too slow: each step traverses everything that was merged before. An
//! associative operator allows a balanced tree of merges instead, in which most work is done on
//! small diagrams. 95 of 100 nodes are then garbage, which is swept along the way.

use crate::bdd::node_store::{DiagramRef, LimitReached, NodeStore, Operator};

/// Values that can be merged as a balanced tree: diagrams in sequence, and an associative way to
/// join two.
pub(crate) trait BalancedMerge {
    type Error: From<LimitReached>;
    fn node_store(&mut self) -> &mut NodeStore;
    /// Makes a diagram; keeps no reference from one call to the next.
    fn build_operand(&mut self, number: usize) -> Result<DiagramRef, Self::Error>;
    fn join_diagrams(
        &mut self,
        first: DiagramRef,
        second: DiagramRef,
    ) -> Result<DiagramRef, Self::Error>;
    /// Whether a sweep may help.
    fn is_memory_limit(error: &Self::Error) -> bool;
}

/// Merges `count` diagrams; nothing at all where there are none.
pub(crate) fn merge_balanced<M: BalancedMerge>(
    m: &mut M,
    count: usize,
) -> Result<DiagramRef, M::Error> {
    let from = m.node_store().node_count();
    let mut stack: Vec<DiagramRef> = Vec::new();
    for i in 0..count {
        let leaf = match m.build_operand(i) {
            Err(e) if M::is_memory_limit(&e) => {
                m.node_store().sweep_young_nodes(from, &mut stack);
                m.build_operand(i)?
            }
            other => other?,
        };
        stack.push(leaf);
        // As many merges as the number of leaves so far has zeros at its end.
        for _ in 0..(i + 1).trailing_zeros() {
            merge_top_two(m, from, &mut stack)?;
        }
        if m.node_store().needs_sweep() {
            m.node_store().sweep_young_nodes(from, &mut stack);
        }
    }
    while stack.len() > 1 {
        merge_top_two(m, from, &mut stack)?;
        if m.node_store().needs_sweep() {
            m.node_store().sweep_young_nodes(from, &mut stack);
        }
    }
    Ok(stack.pop().unwrap_or(DiagramRef::ZERO))
}

/// Merges the two last of the stack; with swept memory where it is full.
fn merge_top_two<M: BalancedMerge>(
    m: &mut M,
    from: usize,
    stack: &mut Vec<DiagramRef>,
) -> Result<(), M::Error> {
    let n = stack.len();
    let merged = match m.join_diagrams(stack[n - 2], stack[n - 1]) {
        Err(e) if M::is_memory_limit(&e) => {
            m.node_store().sweep_young_nodes(from, stack);
            m.join_diagrams(stack[n - 2], stack[n - 1])?
        }
        other => other?,
    };
    stack.truncate(n - 2);
    stack.push(merged);
    Ok(())
}

impl NodeStore {
    /// Merges `count` diagrams, built when they are needed, by an associative operator, in order. 0
    /// is neutral.
    ///
    /// `leaf` must not keep references from one call to the next.
    pub fn build_and_merge_diagrams<O: Operator>(
        &mut self,
        op: O,
        count: usize,
        leaf: impl FnMut(&mut NodeStore, usize) -> Result<DiagramRef, LimitReached>,
    ) -> Result<DiagramRef, LimitReached> {
        merge_balanced(&mut BuiltOperandsMerge { store: self, op, build_operand: leaf }, count)
    }
}

/// Diagrams made by a function, joined by an operator.
struct BuiltOperandsMerge<'s, O, L> {
    store: &'s mut NodeStore,
    op: O,
    build_operand: L,
}

impl<O: Operator, L: FnMut(&mut NodeStore, usize) -> Result<DiagramRef, LimitReached>> BalancedMerge
    for BuiltOperandsMerge<'_, O, L>
{
    type Error = LimitReached;

    fn node_store(&mut self) -> &mut NodeStore {
        self.store
    }

    fn build_operand(&mut self, number: usize) -> Result<DiagramRef, LimitReached> {
        (self.build_operand)(self.store, number)
    }

    fn join_diagrams(
        &mut self,
        first: DiagramRef,
        second: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        self.store.apply_operator(&mut self.op, first, second)
    }

    fn is_memory_limit(error: &LimitReached) -> bool {
        *error == LimitReached::Memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bdd::node_store::tests::{build_diagram_of_truth_table, random_truth_table};
    use crate::bdd::operators::FirstNonzeroOperator;

    #[test]
    fn balanced_merging_gives_precedence_to_the_first_diagram() {
        let mut store = NodeStore::new(1 << 20);
        for count in [0usize, 1, 2, 3, 7, 8, 100] {
            let tables: Vec<_> = (0..count).map(|i| random_truth_table(i as u64 * 7, 9)).collect();
            let sparse: Vec<[u32; 16]> =
                tables.iter().map(|t| t.map(|v| if v > 1 { 0 } else { v })).collect();
            let merged = store
                .build_and_merge_diagrams(FirstNonzeroOperator, count, |s, i| {
                    Ok(build_diagram_of_truth_table(s, &sparse[i], 0))
                })
                .expect("room");
            let first = |at: usize| sparse.iter().map(|t| t[at]).find(|v| *v != 0).unwrap_or(0);
            let want: [u32; 16] = std::array::from_fn(first);
            assert_eq!(
                merged,
                build_diagram_of_truth_table(&mut store, &want, 0),
                "{count} diagrams"
            );
        }
    }
}
