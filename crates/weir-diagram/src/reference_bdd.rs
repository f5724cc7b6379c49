//! Compares the engine with another one: random formulas, equal functions and numbers of solutions.

use oxidd::bdd::BDDFunction;
use oxidd::util::SatCountCache;
use oxidd::{BooleanFunction, Manager, ManagerRef};

use crate::store::{Ref, Store};

const VARIABLES: u32 = 14;

struct Both {
    ours: Ref,
    theirs: BDDFunction,
}

/// Numbers below a bound, out of a seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn step(store: &mut Store, all: &[Both], rng: &mut Rng) -> Both {
    let (a, b, c) = (&all[rng.below(all.len())], &all[rng.below(all.len())], &all[0]);
    let room = "room for a few functions";
    match rng.below(5) {
        0 => Both {
            ours: store.and(a.ours, b.ours).expect(room),
            theirs: a.theirs.and(&b.theirs).expect(room),
        },
        1 => Both {
            ours: store.over(a.ours, b.ours).expect(room),
            theirs: a.theirs.or(&b.theirs).expect(room),
        },
        2 => Both {
            ours: store.minus(a.ours, b.ours).expect(room),
            theirs: b.theirs.imp_strict(&a.theirs).expect(room),
        },
        3 => Both {
            ours: store.differ(a.ours, b.ours).expect(room),
            theirs: a.theirs.xor(&b.theirs).expect(room),
        },
        _ => Both {
            ours: store.either(a.ours, b.ours, c.ours).expect(room),
            theirs: a.theirs.ite(&b.theirs, &c.theirs).expect(room),
        },
    }
}

fn solutions(store: &Store, f: Ref) -> f64 {
    if f.is_leaf() {
        return if f == Ref::ZERO { 0.0 } else { 1.0 };
    }
    let (low, high) = store.branches(f);
    (solutions(store, low) + solutions(store, high)) / 2.0
}

#[test]
fn random_formulas_are_equal_here_exactly_when_they_are_equal_there() {
    let manager = oxidd::bdd::new_manager(1 << 18, 1 << 16, 1);
    let room = "room for a few functions";
    for seed in 0..40 {
        let mut store = Store::new(64 << 20);
        let mut rng = Rng(seed);
        let variables: Vec<BDDFunction> = manager.with_manager_exclusive(|m| {
            let vars = if m.num_vars() == 0 { m.add_vars(VARIABLES) } else { 0..VARIABLES };
            vars.map(|i| BDDFunction::var(m, i).expect(room)).collect()
        });
        let ours = |store: &mut Store, i| store.node(i, Ref::ZERO, Ref::ONE).expect(room);
        let mut all: Vec<Both> = variables
            .into_iter()
            .zip(0..)
            .map(|(theirs, i)| Both { ours: ours(&mut store, i), theirs })
            .collect();
        for i in 0..150 {
            let next = step(&mut store, &all, &mut rng);
            all.push(next);
            if i % 40 == 39 {
                let mut roots: Vec<Ref> = all.iter().map(|b| b.ours).collect();
                store.sweep(0, &mut roots);
                all.iter_mut().zip(roots).for_each(|(b, r)| b.ours = r);
            }
        }
        let mut functions = std::collections::HashSet::new();
        for both in &all {
            for other in &all {
                let (here, there) = (both.ours == other.ours, both.theirs == other.theirs);
                assert_eq!(here, there, "seed {seed}");
            }
            functions.insert(both.ours);
            let mut cache: SatCountCache<u64, std::hash::RandomState> = SatCountCache::default();
            let count = both.theirs.sat_count(VARIABLES, &mut cache);
            let share = solutions(&store, both.ours);
            assert_eq!(share * 2f64.powi(VARIABLES as i32), count as f64, "seed {seed}");
        }
        assert!(functions.len() > 40, "seed {seed}: {} functions", functions.len());
    }
}
