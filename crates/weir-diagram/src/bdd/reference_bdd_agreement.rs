//! Compares the engine with another one: random formulas, equal functions and numbers of solutions.

use oxidd::bdd::BDDFunction;
use oxidd::util::SatCountCache;
use oxidd::{BooleanFunction, Manager, ManagerRef};

use crate::bdd::node_store::{DiagramRef, NodeStore};

const VARIABLE_COUNT: u32 = 14;

struct FormulaPair {
    weir_ref: DiagramRef,
    oxidd_function: BDDFunction,
}

/// Numbers below a bound, out of a seed.
struct FormulaRng(u64);

impl FormulaRng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn apply_random_operator(
    store: &mut NodeStore,
    all: &[FormulaPair],
    rng: &mut FormulaRng,
) -> FormulaPair {
    let (a, b, c) = (&all[rng.below(all.len())], &all[rng.below(all.len())], &all[0]);
    let room = "room for a few functions";
    match rng.below(5) {
        0 => FormulaPair {
            weir_ref: store.and(a.weir_ref, b.weir_ref).expect(room),
            oxidd_function: a.oxidd_function.and(&b.oxidd_function).expect(room),
        },
        1 => FormulaPair {
            weir_ref: store.first_nonzero(a.weir_ref, b.weir_ref).expect(room),
            oxidd_function: a.oxidd_function.or(&b.oxidd_function).expect(room),
        },
        2 => FormulaPair {
            weir_ref: store.minus(a.weir_ref, b.weir_ref).expect(room),
            oxidd_function: b.oxidd_function.imp_strict(&a.oxidd_function).expect(room),
        },
        3 => FormulaPair {
            weir_ref: store.disagreement(a.weir_ref, b.weir_ref).expect(room),
            oxidd_function: a.oxidd_function.xor(&b.oxidd_function).expect(room),
        },
        _ => FormulaPair {
            weir_ref: store.ite(a.weir_ref, b.weir_ref, c.weir_ref).expect(room),
            oxidd_function: a.oxidd_function.ite(&b.oxidd_function, &c.oxidd_function).expect(room),
        },
    }
}

fn compute_weir_solution_share(store: &NodeStore, f: DiagramRef) -> f64 {
    if f.is_leaf() {
        return if f == DiagramRef::ZERO { 0.0 } else { 1.0 };
    }
    let (low, high) = store.branches(f);
    (compute_weir_solution_share(store, low) + compute_weir_solution_share(store, high)) / 2.0
}

#[test]
fn equality_and_solution_counts_agree_with_a_reference_bdd_library() {
    let manager = oxidd::bdd::new_manager(1 << 18, 1 << 16, 1);
    let room = "room for a few functions";
    for seed in 0..40 {
        let mut store = NodeStore::new(64 << 20);
        let mut rng = FormulaRng(seed);
        let variables: Vec<BDDFunction> = manager.with_manager_exclusive(|m| {
            let vars =
                if m.num_vars() == 0 { m.add_vars(VARIABLE_COUNT) } else { 0..VARIABLE_COUNT };
            vars.map(|i| BDDFunction::var(m, i).expect(room)).collect()
        });
        let ours = |store: &mut NodeStore, i| {
            store.make_node(i, DiagramRef::ZERO, DiagramRef::ONE).expect(room)
        };
        let mut all: Vec<FormulaPair> = variables
            .into_iter()
            .zip(0..)
            .map(|(theirs, i)| FormulaPair {
                weir_ref: ours(&mut store, i),
                oxidd_function: theirs,
            })
            .collect();
        for i in 0..150 {
            let next = apply_random_operator(&mut store, &all, &mut rng);
            all.push(next);
            if i % 40 == 39 {
                let mut roots: Vec<DiagramRef> = all.iter().map(|b| b.weir_ref).collect();
                store.sweep_young_nodes(0, &mut roots);
                all.iter_mut().zip(roots).for_each(|(b, r)| b.weir_ref = r);
            }
        }
        let mut functions = std::collections::HashSet::new();
        for both in &all {
            for other in &all {
                let (here, there) =
                    (both.weir_ref == other.weir_ref, both.oxidd_function == other.oxidd_function);
                assert_eq!(here, there, "seed {seed}");
            }
            functions.insert(both.weir_ref);
            let mut cache: SatCountCache<u64, std::hash::RandomState> = SatCountCache::default();
            let count = both.oxidd_function.sat_count(VARIABLE_COUNT, &mut cache);
            let share = compute_weir_solution_share(&store, both.weir_ref);
            assert_eq!(share * 2f64.powi(VARIABLE_COUNT as i32), count as f64, "seed {seed}");
        }
        assert!(functions.len() > 40, "seed {seed}: {} functions", functions.len());
    }
}
