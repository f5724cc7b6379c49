//! The order of trials.
//!
//! A *block* is one pass over the whole grid. Its points are shuffled by the seed. At each point
//! every subject is measured once in order and once in reverse order (A B C C B A), so that slow
//! drift affects all subjects equally. The order of subjects is also shuffled for each block and
//! point, so that none is always first. Comparisons are made within a block, and blocks are
//! repeated.

use std::collections::BTreeMap;

use weir_random::Rng;
use weir_stats::{Coordinate, Scenario};

/// A subject, or the second copy of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubjectCopy {
    /// The subject.
    pub subject: String,
    /// 0, or 1 for the second copy.
    pub copy_index: u32,
}

/// One trial to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTrial {
    /// Where.
    pub scenario: Scenario,
    /// What.
    pub subject_copy: SubjectCopy,
    /// Which pass.
    pub block: u32,
    /// Place in the pass.
    pub order_in_block: u32,
    /// 0 in forward order, 1 in reverse order.
    pub abba_leg: u32,
}

/// All points of a grid, in the order of its axes.
pub fn list_grid_points(axes: &BTreeMap<String, Vec<Coordinate>>) -> Vec<Scenario> {
    let mut points = vec![Scenario::default()];
    for (axis, values) in axes {
        points = points
            .iter()
            .flat_map(|point| {
                values.iter().map(move |value| point.with_coordinate(axis, value.clone()))
            })
            .collect();
    }
    points
}

/// One block: every point with the variants that `variants` says, there and back.
pub fn plan_abba_block(
    points: &[Scenario],
    variants: impl Fn(&Scenario) -> Vec<SubjectCopy>,
    block: u32,
    seed: u64,
) -> Vec<PlannedTrial> {
    let mut random = Rng::new(seed ^ (u64::from(block) << 32));
    let mut points: Vec<&Scenario> = points.iter().collect();
    random.shuffle(&mut points);
    let mut steps = Vec::new();
    for scenario in points {
        let mut variants = variants(scenario);
        random.shuffle(&mut variants);
        let there = variants.iter().map(|subject_copy| (0, subject_copy));
        for (leg, subject_copy) in
            there.chain(variants.iter().rev().map(|subject_copy| (1, subject_copy)))
        {
            let order = steps.len() as u32;
            steps.push(PlannedTrial {
                scenario: scenario.clone(),
                subject_copy: subject_copy.clone(),
                block,
                order_in_block: order,
                abba_leg: leg,
            });
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> BTreeMap<String, Vec<Coordinate>> {
        BTreeMap::from([
            ("rules".to_owned(), vec![0.into(), 16.into()]),
            ("source".to_owned(), vec!["far".into(), "near".into()]),
        ])
    }

    fn variants(_: &Scenario) -> Vec<SubjectCopy> {
        ["a", "b", "c"].map(|name| SubjectCopy { subject: name.to_owned(), copy_index: 0 }).to_vec()
    }

    #[test]
    fn a_grid_has_every_combination_once() {
        let points = list_grid_points(&axes());
        assert_eq!(points.len(), 4);
        assert_eq!(points[1].to_string(), "rules=0 source=near");
    }

    #[test]
    fn each_point_is_measured_in_forward_and_reverse_order() {
        let steps = plan_abba_block(&list_grid_points(&axes()), variants, 0, 1);
        assert_eq!(steps.len(), 4 * 3 * 2);
        for point in steps.chunks(6) {
            assert!(point.iter().all(|step| step.scenario == point[0].scenario));
            let mirrored: Vec<&SubjectCopy> =
                point.iter().rev().map(|step| &step.subject_copy).collect();
            let forward: Vec<&SubjectCopy> = point.iter().map(|step| &step.subject_copy).collect();
            assert_eq!(forward, mirrored);
            assert_eq!(
                point.iter().map(|step| step.abba_leg).collect::<Vec<_>>(),
                [0, 0, 0, 1, 1, 1]
            );
        }
        let orders: Vec<u32> = steps.iter().map(|step| step.order_in_block).collect();
        assert_eq!(orders, (0..24).collect::<Vec<_>>());
    }

    #[test]
    fn blocks_differ_and_seeds_are_reproducible() {
        let points = list_grid_points(&axes());
        assert_eq!(
            plan_abba_block(&points, variants, 0, 1),
            plan_abba_block(&points, variants, 0, 1)
        );
        let names = |steps: Vec<PlannedTrial>| -> Vec<(Scenario, SubjectCopy)> {
            steps.into_iter().map(|step| (step.scenario, step.subject_copy)).collect()
        };
        assert_ne!(
            names(plan_abba_block(&points, variants, 0, 1)),
            names(plan_abba_block(&points, variants, 1, 1))
        );
    }
}
