//! Operators on sets; on boolean functions these are union, intersection and difference.

use crate::bdd::node_store::{DiagramRef, LimitReached, NodeStore, Operator};

impl NodeStore {
    /// Both hold; or: `g` where `f` holds, else nothing. `f` is boolean.
    pub fn and(&mut self, f: DiagramRef, g: DiagramRef) -> Result<DiagramRef, LimitReached> {
        self.apply_operator(&mut AndOperator, f, g)
    }

    /// `f` if it is decided, else `g`. Associative.
    pub fn first_nonzero(
        &mut self,
        f: DiagramRef,
        g: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        self.apply_operator(&mut FirstNonzeroOperator, f, g)
    }

    /// `f` where `g` says nothing.
    pub fn minus(&mut self, f: DiagramRef, g: DiagramRef) -> Result<DiagramRef, LimitReached> {
        self.apply_operator(&mut MinusOperator, f, g)
    }

    /// True where both are different.
    pub fn disagreement(
        &mut self,
        f: DiagramRef,
        g: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        self.apply_operator(&mut DisagreementOperator, f, g)
    }

    /// `g` where `f` holds, else `h`. `f` is boolean.
    pub fn ite(
        &mut self,
        f: DiagramRef,
        g: DiagramRef,
        h: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let yes = self.and(f, g)?;
        let no = self.minus(h, f)?;
        self.first_nonzero(yes, no)
    }
}

struct AndOperator;

impl Operator for AndOperator {
    fn cache_code(&self, store: &NodeStore) -> u32 {
        store.fixed_cache_code(0)
    }

    fn terminal_case(&mut self, f: DiagramRef, g: DiagramRef) -> Option<DiagramRef> {
        match (f, g) {
            (DiagramRef::ZERO, _) | (_, DiagramRef::ZERO) => Some(DiagramRef::ZERO),
            (DiagramRef::ONE, _) => Some(g),
            _ if f == g => Some(f),
            _ => None,
        }
    }
}

/// The operator of [`NodeStore::overlay`].
pub(crate) struct FirstNonzeroOperator;

impl Operator for FirstNonzeroOperator {
    fn cache_code(&self, store: &NodeStore) -> u32 {
        store.fixed_cache_code(1)
    }

    fn terminal_case(&mut self, f: DiagramRef, g: DiagramRef) -> Option<DiagramRef> {
        match (f, g) {
            (DiagramRef::ZERO, _) => Some(g),
            (_, DiagramRef::ZERO) => Some(f),
            _ if f.is_leaf() || f == g => Some(f),
            _ => None,
        }
    }
}

struct MinusOperator;

impl Operator for MinusOperator {
    fn cache_code(&self, store: &NodeStore) -> u32 {
        store.fixed_cache_code(2)
    }

    fn terminal_case(&mut self, f: DiagramRef, g: DiagramRef) -> Option<DiagramRef> {
        match (f, g) {
            (DiagramRef::ZERO, _) => Some(DiagramRef::ZERO),
            (_, DiagramRef::ZERO) => Some(f),
            _ if f == g || g.is_leaf() => Some(DiagramRef::ZERO),
            _ => None,
        }
    }
}

struct DisagreementOperator;

impl Operator for DisagreementOperator {
    fn cache_code(&self, store: &NodeStore) -> u32 {
        store.fixed_cache_code(3)
    }

    fn terminal_case(&mut self, f: DiagramRef, g: DiagramRef) -> Option<DiagramRef> {
        match f == g {
            true => Some(DiagramRef::ZERO),
            false if f.is_leaf() && g.is_leaf() => Some(DiagramRef::ONE),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bdd::node_store::tests::{build_diagram_of_truth_table, random_truth_table};

    #[test]
    fn operators_are_correct_at_every_point() {
        let mut store = NodeStore::new(1 << 20);
        for seed in 0..300 {
            let (a, b, p) = (
                random_truth_table(seed, 4),
                random_truth_table(seed + 1000, 4),
                random_truth_table(seed + 2000, 2),
            );
            let [f, g, h] = [&a, &b, &p].map(|t| build_diagram_of_truth_table(&mut store, t, 0));
            let over = store.first_nonzero(f, g).expect("room");
            let and = store.and(h, g).expect("room");
            let minus = store.minus(f, g).expect("room");
            let differ = store.disagreement(f, g).expect("room");
            let either = store.ite(h, f, g).expect("room");
            let want = |of: &dyn Fn(usize) -> u32| -> [u32; 16] { std::array::from_fn(of) };
            let wanted = [
                (over, want(&|i| if a[i] != 0 { a[i] } else { b[i] })),
                (and, want(&|i| if p[i] != 0 { b[i] } else { 0 })),
                (minus, want(&|i| if b[i] == 0 { a[i] } else { 0 })),
                (differ, want(&|i| u32::from(a[i] != b[i]))),
                (either, want(&|i| if p[i] != 0 { a[i] } else { b[i] })),
            ];
            for (found, table) in wanted {
                // Hash-consing: the same function is the same node.
                assert_eq!(
                    found,
                    build_diagram_of_truth_table(&mut store, &table, 0),
                    "seed {seed}"
                );
            }
        }
    }
}
