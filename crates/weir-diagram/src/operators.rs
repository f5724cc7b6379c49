//! Operators on sets; on boolean functions these are union, intersection and difference.

use crate::store::{Full, Operator, Ref, Store};

impl Store {
    /// Both hold; or: `g` where `f` holds, else nothing. `f` is boolean.
    pub fn and(&mut self, f: Ref, g: Ref) -> Result<Ref, Full> {
        self.apply(&mut And, f, g)
    }

    /// `f` if it is decided, else `g`. Associative.
    pub fn over(&mut self, f: Ref, g: Ref) -> Result<Ref, Full> {
        self.apply(&mut Over, f, g)
    }

    /// `f` where `g` says nothing.
    pub fn minus(&mut self, f: Ref, g: Ref) -> Result<Ref, Full> {
        self.apply(&mut Minus, f, g)
    }

    /// True where both are different.
    pub fn differ(&mut self, f: Ref, g: Ref) -> Result<Ref, Full> {
        self.apply(&mut Differ, f, g)
    }

    /// `g` where `f` holds, else `h`. `f` is boolean.
    pub fn either(&mut self, f: Ref, g: Ref, h: Ref) -> Result<Ref, Full> {
        let yes = self.and(f, g)?;
        let no = self.minus(h, f)?;
        self.over(yes, no)
    }
}

struct And;

impl Operator for And {
    fn code(&self, store: &Store) -> u32 {
        store.fixed_code(0)
    }

    fn known(&mut self, f: Ref, g: Ref) -> Option<Ref> {
        match (f, g) {
            (Ref::ZERO, _) | (_, Ref::ZERO) => Some(Ref::ZERO),
            (Ref::ONE, _) => Some(g),
            _ if f == g => Some(f),
            _ => None,
        }
    }
}

/// The operator of [`Store::over`].
pub(crate) struct Over;

impl Operator for Over {
    fn code(&self, store: &Store) -> u32 {
        store.fixed_code(1)
    }

    fn known(&mut self, f: Ref, g: Ref) -> Option<Ref> {
        match (f, g) {
            (Ref::ZERO, _) => Some(g),
            (_, Ref::ZERO) => Some(f),
            _ if f.is_leaf() || f == g => Some(f),
            _ => None,
        }
    }
}

struct Minus;

impl Operator for Minus {
    fn code(&self, store: &Store) -> u32 {
        store.fixed_code(2)
    }

    fn known(&mut self, f: Ref, g: Ref) -> Option<Ref> {
        match (f, g) {
            (Ref::ZERO, _) => Some(Ref::ZERO),
            (_, Ref::ZERO) => Some(f),
            _ if f == g || g.is_leaf() => Some(Ref::ZERO),
            _ => None,
        }
    }
}

struct Differ;

impl Operator for Differ {
    fn code(&self, store: &Store) -> u32 {
        store.fixed_code(3)
    }

    fn known(&mut self, f: Ref, g: Ref) -> Option<Ref> {
        match f == g {
            true => Some(Ref::ZERO),
            false if f.is_leaf() && g.is_leaf() => Some(Ref::ONE),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{of_table, table};

    #[test]
    fn operations_do_point_by_point_what_they_say() {
        let mut store = Store::new(1 << 20);
        for seed in 0..300 {
            let (a, b, p) = (table(seed, 4), table(seed + 1000, 4), table(seed + 2000, 2));
            let [f, g, h] = [&a, &b, &p].map(|t| of_table(&mut store, t, 0));
            let over = store.over(f, g).expect("room");
            let and = store.and(h, g).expect("room");
            let minus = store.minus(f, g).expect("room");
            let differ = store.differ(f, g).expect("room");
            let either = store.either(h, f, g).expect("room");
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
                assert_eq!(found, of_table(&mut store, &table, 0), "seed {seed}");
            }
        }
    }
}
