//! Merges many diagrams.
//!
//! Merging them one by one is too slow: each step traverses everything that was merged before. An
//! associative operator allows a balanced tree of merges instead, in which most work is done on
//! small diagrams. 95 of 100 nodes are then garbage, which is swept along the way.

use crate::store::{Full, Operator, Ref, Store};

/// Values that can be merged as a balanced tree: diagrams in sequence, and an associative way to
/// join two.
pub(crate) trait Merging {
    type Error: From<Full>;
    fn store(&mut self) -> &mut Store;
    /// Makes a diagram; keeps no reference from one call to the next.
    fn leaf(&mut self, number: usize) -> Result<Ref, Self::Error>;
    fn join(&mut self, first: Ref, second: Ref) -> Result<Ref, Self::Error>;
    /// Whether a sweep may help.
    fn is_full(error: &Self::Error) -> bool;
}

/// Merges `count` diagrams; nothing at all where there are none.
pub(crate) fn merge<M: Merging>(m: &mut M, count: usize) -> Result<Ref, M::Error> {
    let from = m.store().len();
    let mut stack: Vec<Ref> = Vec::new();
    for i in 0..count {
        let leaf = match m.leaf(i) {
            Err(e) if M::is_full(&e) => {
                m.store().sweep(from, &mut stack);
                m.leaf(i)?
            }
            other => other?,
        };
        stack.push(leaf);
        // As many merges as the number of leaves so far has zeros at its end.
        for _ in 0..(i + 1).trailing_zeros() {
            merge_top(m, from, &mut stack)?;
        }
        if m.store().wants_sweep() {
            m.store().sweep(from, &mut stack);
        }
    }
    while stack.len() > 1 {
        merge_top(m, from, &mut stack)?;
        if m.store().wants_sweep() {
            m.store().sweep(from, &mut stack);
        }
    }
    Ok(stack.pop().unwrap_or(Ref::ZERO))
}

/// Merges the two last of the stack; with swept memory where it is full.
fn merge_top<M: Merging>(m: &mut M, from: usize, stack: &mut Vec<Ref>) -> Result<(), M::Error> {
    let n = stack.len();
    let merged = match m.join(stack[n - 2], stack[n - 1]) {
        Err(e) if M::is_full(&e) => {
            m.store().sweep(from, stack);
            m.join(stack[n - 2], stack[n - 1])?
        }
        other => other?,
    };
    stack.truncate(n - 2);
    stack.push(merged);
    Ok(())
}

impl Store {
    /// Merges `count` diagrams, built when they are needed, by an associative operator, in order. 0
    /// is neutral.
    ///
    /// `leaf` must not keep references from one call to the next.
    pub fn merge<O: Operator>(
        &mut self,
        op: O,
        count: usize,
        leaf: impl FnMut(&mut Store, usize) -> Result<Ref, Full>,
    ) -> Result<Ref, Full> {
        merge(&mut ByOperator { store: self, op, leaf }, count)
    }
}

/// Diagrams made by a function, joined by an operator.
struct ByOperator<'s, O, L> {
    store: &'s mut Store,
    op: O,
    leaf: L,
}

impl<O: Operator, L: FnMut(&mut Store, usize) -> Result<Ref, Full>> Merging
    for ByOperator<'_, O, L>
{
    type Error = Full;

    fn store(&mut self) -> &mut Store {
        self.store
    }

    fn leaf(&mut self, number: usize) -> Result<Ref, Full> {
        (self.leaf)(self.store, number)
    }

    fn join(&mut self, first: Ref, second: Ref) -> Result<Ref, Full> {
        self.store.apply(&mut self.op, first, second)
    }

    fn is_full(error: &Full) -> bool {
        *error == Full::Memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::Over;
    use crate::store::tests::{of_table, table};

    #[test]
    fn balanced_merging_lets_the_first_decide() {
        let mut store = Store::new(1 << 20);
        for count in [0usize, 1, 2, 3, 7, 8, 100] {
            let tables: Vec<_> = (0..count).map(|i| table(i as u64 * 7, 9)).collect();
            let sparse: Vec<[u32; 16]> =
                tables.iter().map(|t| t.map(|v| if v > 1 { 0 } else { v })).collect();
            let merged =
                store.merge(Over, count, |s, i| Ok(of_table(s, &sparse[i], 0))).expect("room");
            let first = |at: usize| sparse.iter().map(|t| t[at]).find(|v| *v != 0).unwrap_or(0);
            let want: [u32; 16] = std::array::from_fn(first);
            assert_eq!(merged, of_table(&mut store, &want, 0), "{count} diagrams");
        }
    }
}
