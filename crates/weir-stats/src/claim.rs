//! Claims of a study, and their status.
//!
//! A claim is written in the study's file in our own words, together with its test, before anything
//! is measured. The test has two bounds: one for *reproduced*, and a wider one for *qualitatively
//! reproduced*. The end of the interval that is closer to the bound decides, not the estimate: a
//! claim that the trials cannot decide is not reproduced.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::estimate::{self, Estimate};
use crate::quantity::Quantity;
use crate::scenario::Scenario;
use crate::trial::Trial;
use crate::trial_selection::{self, TrialSelection};

/// A sentence and its test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Short, stable name.
    pub id: String,
    /// Whose claim it is: the paper's, or weir's own.
    pub by: ClaimSource,
    /// The sentence.
    pub text: String,
    /// Where the paper says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// How it is decided; without a test it needs something that this machine is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<ClaimTest>,
    /// What is needed, where there is no test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
}

/// Whose claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimSource {
    /// The paper's.
    Paper,
    /// weir's.
    Weir,
}

/// A subject at a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubjectPoint {
    /// The subject.
    pub subject: String,
    /// The point, or a part of one.
    pub at: Scenario,
}

/// How a claim is decided. Bounds that are not given do not bind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ClaimTest {
    /// Ratio of a quantity at two places, paired by block.
    Ratio {
        /// What is compared.
        quantity: Quantity,
        /// First.
        of: SubjectPoint,
        /// Second.
        to: SubjectPoint,
        /// Bounds for *reproduced*.
        within: ClaimBounds,
        /// Bounds for *qualitatively reproduced*.
        shape: ClaimBounds,
    },
    /// A quantity at one place, as an absolute value: for quantities that do not depend on the
    /// machine.
    Value {
        /// What is measured.
        quantity: Quantity,
        /// Where.
        of: SubjectPoint,
        /// Bounds for *reproduced*.
        within: ClaimBounds,
        /// Bounds for *qualitatively reproduced*.
        shape: ClaimBounds,
    },
    /// Exponent with which a quantity grows along an axis, from `from` to `to`: 0 is flat, 1 is
    /// linear, above 1 faster than linear.
    Growth {
        /// What grows.
        quantity: Quantity,
        /// Of which subject.
        subject: String,
        /// Along which axis, whose values are numbers.
        axis: String,
        /// The rest of the point.
        at: Scenario,
        /// First value on the axis.
        from: u64,
        /// Last value on the axis.
        to: u64,
        /// Take away the quantity of this subject at this point first, so that what remains is
        /// the cost of the rules.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        above: Option<SubjectPoint>,
        /// Bounds for *reproduced*.
        within: ClaimBounds,
        /// Bounds for *qualitatively reproduced*.
        shape: ClaimBounds,
    },
}

/// An interval; a missing end does not bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimBounds {
    /// Lower end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl ClaimBounds {
    /// Whether the whole interval of `estimate` lies within.
    pub fn contains_interval(&self, estimate: &Estimate) -> bool {
        self.min.is_none_or(|min| estimate.lo >= min)
            && self.max.is_none_or(|max| estimate.hi <= max)
    }
}

impl fmt::Display for ClaimBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) => write!(f, "{min} to {max}"),
            (Some(min), None) => write!(f, "at least {min}"),
            (None, Some(max)) => write!(f, "at most {max}"),
            (None, None) => f.write_str("anything"),
        }
    }
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimOutcome {
    /// Seen here too.
    Reproduced,
    /// The same direction, not the same size.
    ReproducedInShape,
    /// Not seen here.
    #[serde(rename = "not_reproduced")]
    NotReproducedOrUndecided,
    /// This machine cannot decide it.
    NeedsHardware,
    /// The preset did not measure what the test needs.
    NotMeasured,
}

impl fmt::Display for ClaimOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClaimOutcome::Reproduced => "reproduced",
            ClaimOutcome::ReproducedInShape => "qualitatively reproduced",
            ClaimOutcome::NotReproducedOrUndecided => "not reproduced",
            ClaimOutcome::NeedsHardware => "needs hardware",
            ClaimOutcome::NotMeasured => "not measured",
        })
    }
}

/// A claim with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// The claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// The outcome of it.
    pub outcome: ClaimOutcome,
    /// The number that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

/// Decides a claim on the trials of a run.
pub fn evaluate_claim(claim: &Claim, trials: &[Trial], seed: u64) -> ClaimRecord {
    let Some(test) = &claim.test else {
        let outcome = ClaimOutcome::NeedsHardware;
        return ClaimRecord { claim: claim.clone(), outcome, estimate: None };
    };
    let (estimate, within, shape) = match test {
        ClaimTest::Ratio { quantity, of, to, within, shape } => {
            let first = TrialSelection::of_first_copy(*quantity, &of.subject, &of.at);
            let second = TrialSelection::of_first_copy(*quantity, &to.subject, &to.at);
            (
                trial_selection::estimate_block_paired_ratio(first, second, trials, seed),
                within,
                shape,
            )
        }
        ClaimTest::Value { quantity, of, within, shape } => {
            let selection = TrialSelection::of_first_copy(*quantity, &of.subject, &of.at);
            (selection.estimate_median_of_block_means(trials, seed), within, shape)
        }
        ClaimTest::Growth { within, shape, .. } => {
            (estimate_growth_exponent(test, trials, seed), within, shape)
        }
    };
    let outcome = match &estimate {
        None => ClaimOutcome::NotMeasured,
        Some(estimate) if within.contains_interval(estimate) => ClaimOutcome::Reproduced,
        Some(estimate) if shape.contains_interval(estimate) => ClaimOutcome::ReproducedInShape,
        Some(_) => ClaimOutcome::NotReproducedOrUndecided,
    };
    ClaimRecord { claim: claim.clone(), outcome, estimate }
}

/// Exponent of a [`ClaimTest::Growth`]: fitted in each block, its median over the blocks.
fn estimate_growth_exponent(test: &ClaimTest, trials: &[Trial], seed: u64) -> Option<Estimate> {
    let ClaimTest::Growth { quantity, subject, axis, at, from, to, above, .. } = test else {
        return None;
    };
    let base = above.as_ref().map(|place| {
        TrialSelection::of_first_copy(*quantity, &place.subject, &place.at).block_means(trials)
    });
    let mut values: Vec<u64> = TrialSelection::of_first_copy(*quantity, subject, at)
        .matching_accepted_trials(trials)
        .filter_map(|trial| trial.scenario.coordinate(axis)?.as_number())
        .filter(|value| (*from..=*to).contains(value))
        .collect();
    values.sort_unstable();
    values.dedup();
    if values.first() != Some(from) || values.last() != Some(to) {
        return None;
    }
    let mut blocks: std::collections::BTreeMap<u32, Vec<(f64, f64)>> = Default::default();
    for value in values {
        let point = at.with_coordinate(axis, value);
        for (block, y) in
            TrialSelection::of_first_copy(*quantity, subject, &point).block_means(trials)
        {
            let base = match &base {
                Some(base) => match base.get(&block) {
                    Some(base) => *base,
                    None => continue,
                },
                None => 0.0,
            };
            blocks.entry(block).or_default().push((value as f64, y - base));
        }
    }
    let exponents: Vec<f64> =
        blocks.values().filter_map(|points| estimate::fit_power_law_exponent(points)).collect();
    estimate::estimate_median(&exponents, seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::tests::trial;

    /// Trials of a subject whose packet takes `ns(rules)`.
    fn rates(subject: &str, ns: impl Fn(f64) -> f64) -> Vec<Trial> {
        let sizes = [0_u64, 16, 64, 256, 1024];
        let point = |rules| {
            Scenario::default().with_coordinate("rules", rules).with_coordinate("source", "near")
        };
        let at = |block: u32, rules: u64| Trial {
            subject: subject.to_owned(),
            scenario: point(rules),
            block,
            correct_verdict_pps: 1e9 / ns(rules as f64),
            ..trial(1, 1, &[])
        };
        (0..4).flat_map(|block| sizes.map(|rules| at(block, rules))).collect()
    }

    fn claim(test: ClaimTest) -> Claim {
        Claim {
            id: "c".to_owned(),
            by: ClaimSource::Paper,
            text: "it grows".to_owned(),
            place: None,
            test: Some(test),
            needs: None,
        }
    }

    fn linear_growth() -> Claim {
        let none = Scenario::default().with_coordinate("rules", 0);
        claim(ClaimTest::Growth {
            quantity: Quantity::NsPerPacket,
            subject: "linear".to_owned(),
            axis: "rules".to_owned(),
            at: Scenario::default().with_coordinate("source", "near"),
            from: 16,
            to: 1024,
            above: Some(SubjectPoint { subject: "linear".to_owned(), at: none }),
            within: ClaimBounds { min: Some(0.9), max: Some(1.1) },
            shape: ClaimBounds { min: Some(0.7), max: Some(1.4) },
        })
    }

    #[test]
    fn linear_growth_is_distinguished_from_other_growth() {
        let outcome = |power: f64| {
            let trials = rates("linear", |rules| 500.0 + 2.0 * rules.powf(power));
            evaluate_claim(&linear_growth(), &trials, 1).outcome
        };
        assert_eq!(outcome(1.0), ClaimOutcome::Reproduced);
        assert_eq!(outcome(1.3), ClaimOutcome::ReproducedInShape);
        assert_eq!(outcome(2.0), ClaimOutcome::NotReproducedOrUndecided);
        assert_eq!(outcome(0.3), ClaimOutcome::NotReproducedOrUndecided);
    }

    #[test]
    fn a_value_claim_is_evaluated_at_its_measured_point() {
        let trials = rates("linear", |_| 1000.0);
        let outcome = |min: f64, rules: u64| {
            let of = SubjectPoint {
                subject: "linear".to_owned(),
                at: Scenario::default().with_coordinate("rules", rules),
            };
            let at_least = |min| ClaimBounds { min: Some(min), max: None };
            let (within, shape) = (at_least(min), at_least(min / 2.0));
            let test = ClaimTest::Value { quantity: Quantity::Pps, of, within, shape };
            evaluate_claim(&claim(test), &trials, 1).outcome
        };
        assert_eq!(outcome(0.9e6, 16), ClaimOutcome::Reproduced);
        assert_eq!(outcome(1.5e6, 16), ClaimOutcome::ReproducedInShape);
        assert_eq!(outcome(3e6, 16), ClaimOutcome::NotReproducedOrUndecided);
        assert_eq!(outcome(0.9e6, 17), ClaimOutcome::NotMeasured);
    }

    #[test]
    fn a_claim_without_measurements_is_not_measured() {
        let mut trials = rates("linear", |rules| 500.0 + rules);
        trials.retain(|trial| trial.scenario.coordinate("rules") != Some(&1024.into()));
        assert_eq!(evaluate_claim(&linear_growth(), &trials, 1).outcome, ClaimOutcome::NotMeasured);
        let claim = Claim { test: None, ..linear_growth() };
        assert_eq!(evaluate_claim(&claim, &trials, 1).outcome, ClaimOutcome::NeedsHardware);
    }

    #[test]
    fn an_interval_beyond_the_bounds_is_not_contained() {
        let bounds = ClaimBounds { min: Some(0.8), max: None };
        let narrow = Estimate { value: 0.9, lo: 0.85, hi: 0.95, samples: 5 };
        assert!(bounds.contains_interval(&narrow));
        assert!(!bounds.contains_interval(&Estimate { lo: 0.7, ..narrow }));
    }

    #[test]
    fn a_claim_round_trips_through_json() {
        let text = serde_json::to_string(&linear_growth()).unwrap();
        assert_eq!(serde_json::from_str::<Claim>(&text).unwrap(), linear_growth());
        assert!(serde_json::from_str::<Claim>(&text.replace("above", "abvoe")).is_err());
    }
}
