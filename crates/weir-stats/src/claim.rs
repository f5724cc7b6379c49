//! Claims of a study, and their status.
//!
//! A claim is written in the study's file in our own words, together with its test, before anything
//! is measured. The test has two pairs of bounds: `within` for *reproduced*, and `shape`, which
//! contains it, for *in direction only*. Where the size is the statement, the two are equal.
//!
//! The interval decides, not the estimate:
//!
//! | the interval lies | outcome |
//! |---|---|
//! | inside `within` | reproduced |
//! | inside `shape`, outside `within` | in direction only |
//! | outside `shape` | refuted |
//! | across a bound of either | undecided |
//!
//! A run that falls short of [`evidence_limits`](crate::evidence_limits) decides nothing: whatever
//! its intervals are, its claims are undecided.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::estimate::{self, Estimate};
use crate::evidence_limits::{EvidenceShortcoming, MIN_SAMPLES};
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
    /// What the paper says of the number that the test measures. The bounds for *reproduced* must
    /// agree with it, so that a test in the wrong direction is refused before it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<PaperExpectation>,
    /// The hardware that is needed, where there is no test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// The kernel or program of that time that is needed, where there is no test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_old_software: Option<String>,
}

/// What a paper says of the number that a test measures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaperExpectation {
    /// This value, as the test measures it: a ratio, an exponent, or a value with its unit.
    Value(f64),
    /// Below this value: of a ratio, 1 says that the first is lower.
    Below(f64),
    /// Above this value.
    Above(f64),
}

impl PaperExpectation {
    /// Why the bounds for *reproduced* contradict it, if they do.
    pub fn contradiction(&self, within: &ClaimBounds) -> Option<String> {
        let (holds, says) = match self {
            PaperExpectation::Value(value) => {
                (within.contains_value(*value), format!("the paper's value is {value}"))
            }
            PaperExpectation::Below(value) => (
                within.max.is_some_and(|max| max <= *value),
                format!("the paper says below {value}"),
            ),
            PaperExpectation::Above(value) => (
                within.min.is_some_and(|min| min >= *value),
                format!("the paper says above {value}"),
            ),
        };
        (!holds).then(|| format!("{says}, but it is reproduced by {within}"))
    }
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
    /// Whether `value` lies within.
    pub fn contains_value(&self, value: f64) -> bool {
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }

    /// Whether no part of the interval of `estimate` lies within.
    fn excludes_interval(&self, estimate: &Estimate) -> bool {
        self.min.is_some_and(|min| estimate.hi < min)
            || self.max.is_some_and(|max| estimate.lo > max)
    }

    /// The bound that lies inside the interval of `estimate`, if one does.
    fn bound_inside_interval(&self, estimate: &Estimate) -> Option<f64> {
        let is_inside = |bound: &f64| estimate.lo <= *bound && *bound <= estimate.hi;
        [self.min, self.max].into_iter().flatten().find(is_inside)
    }

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
    #[serde(alias = "reproduced_in_shape")]
    InDirectionOnly,
    /// The interval reaches over a bound, or the run is not good enough to decide.
    #[serde(alias = "not_reproduced")]
    Undecided,
    /// The whole interval contradicts it.
    Refuted,
    /// It takes hardware that this machine has not.
    NeedsHardware,
    /// It takes a kernel or a program of that time.
    NeedsOldSoftware,
    /// The preset did not measure what the test needs.
    NotMeasured,
}

impl fmt::Display for ClaimOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClaimOutcome::Reproduced => "reproduced",
            ClaimOutcome::InDirectionOnly => "in direction only",
            ClaimOutcome::Undecided => "undecided",
            ClaimOutcome::Refuted => "refuted",
            ClaimOutcome::NeedsHardware => "needs hardware",
            ClaimOutcome::NeedsOldSoftware => "needs old software",
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
    /// The number that decided, or did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Why it is undecided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortcomings: Vec<EvidenceShortcoming>,
}

impl ClaimTest {
    /// Bounds for *reproduced*.
    pub fn reproduced_bounds(&self) -> &ClaimBounds {
        match self {
            ClaimTest::Ratio { within, .. }
            | ClaimTest::Value { within, .. }
            | ClaimTest::Growth { within, .. } => within,
        }
    }

    /// Bounds for *in direction only*.
    pub fn in_direction_bounds(&self) -> &ClaimBounds {
        match self {
            ClaimTest::Ratio { shape, .. }
            | ClaimTest::Value { shape, .. }
            | ClaimTest::Growth { shape, .. } => shape,
        }
    }

    /// The number that the test measures, of a run's trials; `None` if they do not hold it.
    pub fn estimate_from_trials(&self, trials: &[Trial]) -> Option<Estimate> {
        match self {
            ClaimTest::Ratio { quantity, of, to, .. } => {
                let first = TrialSelection::of_first_copy(*quantity, &of.subject, &of.at);
                let second = TrialSelection::of_first_copy(*quantity, &to.subject, &to.at);
                trial_selection::estimate_block_paired_ratio(first, second, trials)
            }
            ClaimTest::Value { quantity, of, .. } => {
                TrialSelection::of_first_copy(*quantity, &of.subject, &of.at)
                    .estimate_median_of_block_means(trials)
            }
            ClaimTest::Growth { .. } => estimate_growth_exponent(self, trials),
        }
    }
}

/// Decides a claim on the trials of a run, which falls short of what evidence must be by
/// `run_shortcomings`.
pub fn evaluate_claim(
    claim: &Claim,
    trials: &[Trial],
    run_shortcomings: &[EvidenceShortcoming],
) -> ClaimRecord {
    let record = |outcome, estimate, shortcomings| ClaimRecord {
        claim: claim.clone(),
        outcome,
        estimate,
        shortcomings,
    };
    let Some(test) = &claim.test else {
        let outcome = match claim.needs_old_software {
            Some(_) => ClaimOutcome::NeedsOldSoftware,
            None => ClaimOutcome::NeedsHardware,
        };
        return record(outcome, None, Vec::new());
    };
    let Some(estimate) = test.estimate_from_trials(trials) else {
        return record(ClaimOutcome::NotMeasured, None, Vec::new());
    };
    let mut shortcomings = run_shortcomings.to_vec();
    if estimate.samples < MIN_SAMPLES {
        shortcomings.push(EvidenceShortcoming::FewSamples { samples: estimate.samples });
    }
    let outcome = compare_interval_with_bounds(&estimate, test, &mut shortcomings);
    let outcome = if shortcomings.is_empty() { outcome } else { ClaimOutcome::Undecided };
    record(outcome, Some(estimate), shortcomings)
}

/// What the interval says; a bound that it reaches over is added to `shortcomings`.
fn compare_interval_with_bounds(
    estimate: &Estimate,
    test: &ClaimTest,
    shortcomings: &mut Vec<EvidenceShortcoming>,
) -> ClaimOutcome {
    let (within, shape) = (test.reproduced_bounds(), test.in_direction_bounds());
    if within.contains_interval(estimate) {
        return ClaimOutcome::Reproduced;
    }
    if shape.excludes_interval(estimate) {
        return ClaimOutcome::Refuted;
    }
    if shape.contains_interval(estimate) && within.excludes_interval(estimate) {
        return ClaimOutcome::InDirectionOnly;
    }
    let across = |bounds: &ClaimBounds| bounds.bound_inside_interval(estimate);
    if let Some(bound) = across(within).or_else(|| across(shape)) {
        shortcomings.push(EvidenceShortcoming::StraddledBound { bound });
    }
    ClaimOutcome::Undecided
}

/// Exponent of a [`ClaimTest::Growth`]: fitted in each block, its median over the blocks.
fn estimate_growth_exponent(test: &ClaimTest, trials: &[Trial]) -> Option<Estimate> {
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
    estimate::estimate_median(&exponents)
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
        (0..6).flat_map(|block| sizes.map(|rules| at(block, rules))).collect()
    }

    fn claim(test: ClaimTest) -> Claim {
        Claim {
            id: "c".to_owned(),
            by: ClaimSource::Paper,
            text: "it grows".to_owned(),
            place: None,
            test: Some(test),
            expects: None,
            needs: None,
            needs_old_software: None,
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
            evaluate_claim(&linear_growth(), &trials, &[]).outcome
        };
        assert_eq!(outcome(1.0), ClaimOutcome::Reproduced);
        assert_eq!(outcome(1.3), ClaimOutcome::InDirectionOnly);
        assert_eq!(outcome(2.0), ClaimOutcome::Refuted);
        assert_eq!(outcome(0.3), ClaimOutcome::Refuted);
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
            evaluate_claim(&claim(test), &trials, &[]).outcome
        };
        assert_eq!(outcome(0.9e6, 16), ClaimOutcome::Reproduced);
        assert_eq!(outcome(1.5e6, 16), ClaimOutcome::InDirectionOnly);
        assert_eq!(outcome(3e6, 16), ClaimOutcome::Refuted);
        assert_eq!(outcome(0.9e6, 17), ClaimOutcome::NotMeasured);
    }

    #[test]
    fn a_claim_without_measurements_is_not_measured() {
        let mut trials = rates("linear", |rules| 500.0 + rules);
        trials.retain(|trial| trial.scenario.coordinate("rules") != Some(&1024.into()));
        assert_eq!(
            evaluate_claim(&linear_growth(), &trials, &[]).outcome,
            ClaimOutcome::NotMeasured
        );
        let claim = Claim { test: None, ..linear_growth() };
        assert_eq!(evaluate_claim(&claim, &trials, &[]).outcome, ClaimOutcome::NeedsHardware);
        let old = Claim { needs_old_software: Some("Linux 2.4".to_owned()), ..claim };
        assert_eq!(evaluate_claim(&old, &trials, &[]).outcome, ClaimOutcome::NeedsOldSoftware);
    }

    /// The outcome of an interval for a test that is reproduced from 0.8 to 0.9, and in direction
    /// from 0.5 to 1.
    fn outcome_of_interval(lo: f64, hi: f64) -> (ClaimOutcome, Vec<EvidenceShortcoming>) {
        let bounds = |min, max| ClaimBounds { min: Some(min), max: Some(max) };
        let test = ClaimTest::Value {
            quantity: Quantity::Pps,
            of: SubjectPoint { subject: String::new(), at: Scenario::default() },
            within: bounds(0.8, 0.9),
            shape: bounds(0.5, 1.0),
        };
        let estimate = Estimate { value: (lo + hi) / 2.0, lo, hi, samples: 8 };
        let mut shortcomings = Vec::new();
        (compare_interval_with_bounds(&estimate, &test, &mut shortcomings), shortcomings)
    }

    #[test]
    fn an_interval_across_a_bound_is_undecided() {
        let decided = |lo, hi| {
            let (outcome, shortcomings) = outcome_of_interval(lo, hi);
            assert_eq!(shortcomings, []);
            outcome
        };
        assert_eq!(decided(0.82, 0.88), ClaimOutcome::Reproduced);
        assert_eq!(decided(0.55, 0.75), ClaimOutcome::InDirectionOnly);
        assert_eq!(decided(0.92, 0.98), ClaimOutcome::InDirectionOnly);
        assert_eq!(decided(1.02, 1.2), ClaimOutcome::Refuted);
        assert_eq!(decided(0.3, 0.4), ClaimOutcome::Refuted);
        for (lo, hi, bound) in
            [(0.7, 0.85, 0.8), (0.85, 0.95, 0.9), (0.95, 1.1, 1.0), (0.1, 5.0, 0.8)]
        {
            let across = vec![EvidenceShortcoming::StraddledBound { bound }];
            assert_eq!(outcome_of_interval(lo, hi), (ClaimOutcome::Undecided, across));
        }
    }

    #[test]
    fn a_run_with_shortcomings_leaves_claims_undecided_in_either_direction() {
        let wide = EvidenceShortcoming::WideNoiseFloor { lo: 0.8, hi: 1.2 };
        for power in [1.0, 2.0] {
            let trials = rates("linear", |rules| 500.0 + 2.0 * rules.powf(power));
            let decided = evaluate_claim(&linear_growth(), &trials, &[]);
            assert!(decided.outcome != ClaimOutcome::Undecided, "positive control");
            let record = evaluate_claim(&linear_growth(), &trials, std::slice::from_ref(&wide));
            assert_eq!(record.outcome, ClaimOutcome::Undecided);
            assert_eq!(record.estimate, decided.estimate, "the number is shown all the same");
        }
    }

    #[test]
    fn four_samples_decide_nothing_and_five_do() {
        let mut trials = rates("linear", |rules| 500.0 + 2.0 * rules);
        trials.retain(|trial| trial.block < 5);
        let five = evaluate_claim(&linear_growth(), &trials, &[]);
        assert_eq!(five.outcome, ClaimOutcome::Reproduced);
        trials.retain(|trial| trial.block < 4);
        let four = evaluate_claim(&linear_growth(), &trials, &[]);
        assert_eq!(four.shortcomings, [EvidenceShortcoming::FewSamples { samples: 4 }]);
        assert_eq!(four.outcome, ClaimOutcome::Undecided);
    }

    #[test]
    fn a_threshold_in_the_wrong_direction_contradicts_the_paper() {
        let bounds = |min, max| ClaimBounds { min, max };
        let slower = PaperExpectation::Value(0.893);
        assert_eq!(slower.contradiction(&bounds(Some(0.82), Some(0.97))), None);
        let wrong = slower.contradiction(&bounds(Some(1.03), Some(1.22))).unwrap();
        assert!(wrong.contains("0.893") && wrong.contains("1.03 to 1.22"), "{wrong}");
        let below = PaperExpectation::Below(1.0);
        assert_eq!(below.contradiction(&bounds(None, Some(0.9))), None);
        assert!(below.contradiction(&bounds(Some(0.9), None)).is_some());
        let above = PaperExpectation::Above(1.0);
        assert_eq!(above.contradiction(&bounds(Some(1.02), None)), None);
        assert!(above.contradiction(&bounds(None, Some(0.9))).is_some());
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
