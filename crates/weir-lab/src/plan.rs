//! The order of trials.
//!
//! A *block* is one pass over the whole grid. Its points come in an order of their own, drawn from
//! the seed. At each point every subject is measured on the way there and again on the way back
//! (A B C C B A): what drifts slowly meets all subjects alike. The order of subjects is drawn for
//! each block and point too, so that none is always first. Comparisons are made within a block,
//! and blocks are what is repeated.

use std::collections::BTreeMap;

use weir_stats::random::Random;
use weir_stats::{Coordinate, Scenario};

/// A subject, or the second copy of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arm {
    /// The subject.
    pub subject: String,
    /// 0, or 1 for the second copy.
    pub copy: u32,
}

/// One trial to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where.
    pub scenario: Scenario,
    /// What.
    pub arm: Arm,
    /// Which pass.
    pub block: u32,
    /// Place in the pass.
    pub order: u32,
    /// 0 on the way there, 1 on the way back.
    pub leg: u32,
}

/// All points of a grid, in the order of its axes.
pub fn grid(axes: &BTreeMap<String, Vec<Coordinate>>) -> Vec<Scenario> {
    let mut points = vec![Scenario::default()];
    for (axis, values) in axes {
        points = points
            .iter()
            .flat_map(|point| values.iter().map(move |value| point.with(axis, value.clone())))
            .collect();
    }
    points
}

/// One block: every point with the arms that `arms` says, there and back.
pub fn block(
    points: &[Scenario],
    arms: impl Fn(&Scenario) -> Vec<Arm>,
    block: u32,
    seed: u64,
) -> Vec<Step> {
    let mut random = Random::new(seed ^ (u64::from(block) << 32));
    let mut points: Vec<&Scenario> = points.iter().collect();
    random.shuffle(&mut points);
    let mut steps = Vec::new();
    for scenario in points {
        let mut arms = arms(scenario);
        random.shuffle(&mut arms);
        let there = arms.iter().map(|arm| (0, arm));
        for (leg, arm) in there.chain(arms.iter().rev().map(|arm| (1, arm))) {
            let order = steps.len() as u32;
            steps.push(Step { scenario: scenario.clone(), arm: arm.clone(), block, order, leg });
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

    fn arms(_: &Scenario) -> Vec<Arm> {
        ["a", "b", "c"].map(|name| Arm { subject: name.to_owned(), copy: 0 }).to_vec()
    }

    #[test]
    fn a_grid_has_every_combination_once() {
        let points = grid(&axes());
        assert_eq!(points.len(), 4);
        assert_eq!(points[1].to_string(), "rules=0 source=near");
    }

    #[test]
    fn each_point_goes_there_and_back() {
        let steps = block(&grid(&axes()), arms, 0, 1);
        assert_eq!(steps.len(), 4 * 3 * 2);
        for point in steps.chunks(6) {
            assert!(point.iter().all(|step| step.scenario == point[0].scenario));
            let mirrored: Vec<&Arm> = point.iter().rev().map(|step| &step.arm).collect();
            let forward: Vec<&Arm> = point.iter().map(|step| &step.arm).collect();
            assert_eq!(forward, mirrored);
            assert_eq!(point.iter().map(|step| step.leg).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
        }
        let orders: Vec<u32> = steps.iter().map(|step| step.order).collect();
        assert_eq!(orders, (0..24).collect::<Vec<_>>());
    }

    #[test]
    fn blocks_differ_and_seeds_repeat() {
        let points = grid(&axes());
        assert_eq!(block(&points, arms, 0, 1), block(&points, arms, 0, 1));
        let names = |steps: Vec<Step>| -> Vec<(Scenario, Arm)> {
            steps.into_iter().map(|step| (step.scenario, step.arm)).collect()
        };
        assert_ne!(names(block(&points, arms, 0, 1)), names(block(&points, arms, 1, 1)));
    }
}
