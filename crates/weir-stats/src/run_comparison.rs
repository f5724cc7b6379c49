//! Compares two runs of a study.
//!
//! A point is a subject in a scenario. Its values, one per block, are compared as logarithms, so
//! that differences are ratios. If a run has a subject without rules, rates are first divided by
//! its rates, block by block: two runs on different days then compare firewalls rather than
//! machines. Differences are significant at 5 % over all points together (Holm).

use serde::Serialize;

use crate::estimate::Estimate;
use crate::quantity::{BetterDirection, Quantity};
use crate::run_folder::RunRecord;
use crate::scenario::Scenario;
use crate::student_t::{SampleMean, find_significant_after_holm};
use crate::trial::{Trial, TrialState};
use crate::trial_selection::TrialSelection;

/// Level of all decisions.
const SIGNIFICANCE_LEVEL: f64 = 0.05;

/// What a point says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeClass {
    /// Worse by more than the margin.
    Regression,
    /// Better by more than the margin.
    Improvement,
    /// The interval lies within the margin.
    Same,
    /// The interval is too wide to say.
    Unclear,
}

/// One point of both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedPoint {
    /// What is compared.
    pub quantity: Quantity,
    /// The subject.
    pub subject: String,
    /// Where.
    pub scenario: Scenario,
    /// Second run by first, with its 95 % interval.
    pub ratio: Estimate,
    /// How likely that is where nothing changed.
    pub p: f64,
    /// Whether it is different over all points together.
    pub different: bool,
    /// What follows for the margin.
    pub verdict: ChangeClass,
}

/// Compares the points that both runs have: rates of packets and connections, memory, times to
/// load.
///
/// `margin` is the tolerated relative change: 0.05 is a twentieth. `absolute` compares absolute
/// rates instead of rates relative to the subject without rules.
pub fn compare_runs(
    first: &RunRecord,
    second: &RunRecord,
    margin: f64,
    absolute: bool,
) -> Vec<ComparedPoint> {
    let mut points = Vec::new();
    let is_compared = |one: &Quantity| one.comparison_name_and_direction().is_some();
    for quantity in Quantity::list_traffic_first().into_iter().filter(is_compared) {
        for (subject, scenario) in measured_points(first, quantity) {
            let logs = |record| {
                log_block_values_over_baseline(record, quantity, &subject, &scenario, absolute)
            };
            let (Some(before), Some(after)) = (logs(first), logs(second)) else { continue };
            let blocks = before.len().min(after.len());
            let (Some(before), Some(after)) =
                (SampleMean::from_values(&before), SampleMean::from_values(&after))
            else {
                continue;
            };
            let difference = after.welch_difference(before);
            let half = difference.interval_half_width_95_percent();
            let ratio = Estimate {
                value: difference.value.exp(),
                lo: (difference.value - half).exp(),
                hi: (difference.value + half).exp(),
                samples: blocks,
            };
            let (different, verdict) = (false, ChangeClass::Unclear);
            let p = difference.p_value();
            points.push(ComparedPoint {
                quantity,
                subject,
                scenario,
                ratio,
                p,
                different,
                verdict,
            });
        }
    }
    let ps: Vec<f64> = points.iter().map(|point| point.p).collect();
    for (point, different) in
        points.iter_mut().zip(find_significant_after_holm(&ps, SIGNIFICANCE_LEVEL))
    {
        point.different = different;
        point.verdict = classify_change(point, margin);
    }
    points
}

/// Whether less of a compared quantity is better: times and memory.
fn is_lower_better(quantity: Quantity) -> bool {
    quantity
        .comparison_name_and_direction()
        .is_some_and(|comparison| comparison.better == BetterDirection::Less)
}

fn classify_change(point: &ComparedPoint, margin: f64) -> ChangeClass {
    let (low, high) = (1.0 / (1.0 + margin), 1.0 + margin);
    let is_cost = is_lower_better(point.quantity);
    if point.different && point.ratio.hi < low {
        return if is_cost { ChangeClass::Improvement } else { ChangeClass::Regression };
    }
    if point.different && point.ratio.lo > high {
        return if is_cost { ChangeClass::Regression } else { ChangeClass::Improvement };
    }
    if point.ratio.lo >= low && point.ratio.hi <= high {
        ChangeClass::Same
    } else {
        ChangeClass::Unclear
    }
}

/// Subjects and scenarios that a run measured.
fn measured_points(record: &RunRecord, quantity: Quantity) -> Vec<(String, Scenario)> {
    let wanted = |trial: &&Trial| {
        trial.kind == quantity.trial_kind()
            && trial.state == TrialState::Accepted
            && trial.copy_index == 0
    };
    let mut places: Vec<(String, Scenario)> = record
        .trials
        .iter()
        .filter(wanted)
        .map(|trial| (trial.subject.clone(), trial.scenario.clone()))
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Logarithms of a point's values, one per block; `None` for the subject that others are taken
/// against.
fn log_block_values_over_baseline(
    record: &RunRecord,
    quantity: Quantity,
    subject: &str,
    scenario: &Scenario,
    absolute: bool,
) -> Option<Vec<f64>> {
    let values =
        TrialSelection::of_first_copy(quantity, subject, scenario).block_means(&record.trials);
    let subjects = &record.run.subjects;
    // A study of routing only has no other subject for comparison.
    let baseline = subjects.iter().find(|subject| subject.loads_no_rules && subjects.len() > 1);
    let base = match baseline {
        Some(base) if !absolute && !is_lower_better(quantity) => {
            if base.name == subject {
                return None;
            }
            Some(
                TrialSelection::of_first_copy(quantity, &base.name, scenario)
                    .block_means(&record.trials),
            )
        }
        _ => None,
    };
    let log = |(block, value): (&u32, &f64)| {
        let base = match &base {
            Some(base) => *base.get(block)?,
            None => 1.0,
        };
        (*value > 0.0 && base > 0.0).then(|| (value / base).ln())
    };
    Some(values.iter().filter_map(log).collect())
}

/// Points whose interval contains 1: the logarithms of both runs' ratios differ by 0, as far as
/// these blocks can show.
pub fn count_points_compatible_with_ratio_one(points: &[ComparedPoint]) -> usize {
    points.iter().filter(|point| point.ratio.lo <= 1.0 && point.ratio.hi >= 1.0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(quantity: Quantity, lo: f64, hi: f64, different: bool) -> ComparedPoint {
        ComparedPoint {
            quantity,
            subject: String::new(),
            scenario: Scenario::default(),
            ratio: Estimate { value: (lo + hi) / 2.0, lo, hi, samples: 4 },
            p: 0.0,
            different,
            verdict: ChangeClass::Unclear,
        }
    }

    #[test]
    fn a_regression_requires_the_whole_interval_beyond_the_margin() {
        let of = |quantity, lo, hi| classify_change(&point(quantity, lo, hi, true), 0.05);
        assert_eq!(of(Quantity::Pps, 0.80, 0.90), ChangeClass::Regression);
        assert_eq!(of(Quantity::Pps, 0.90, 0.97), ChangeClass::Unclear);
        assert_eq!(of(Quantity::Pps, 0.97, 1.03), ChangeClass::Same);
        assert_eq!(of(Quantity::Pps, 1.10, 1.20), ChangeClass::Improvement);
        assert_eq!(of(Quantity::ConnectionsPerSecond, 0.80, 0.90), ChangeClass::Regression);
        assert_eq!(of(Quantity::LoadSeconds, 1.10, 1.20), ChangeClass::Regression);
        assert_eq!(of(Quantity::BytesPerConnection, 1.10, 1.20), ChangeClass::Regression);
        assert_eq!(of(Quantity::LoadSeconds, 0.80, 0.90), ChangeClass::Improvement);
        assert_eq!(
            classify_change(&point(Quantity::Pps, 0.8, 0.9, false), 0.05),
            ChangeClass::Unclear
        );
    }

    #[test]
    fn points_are_compatible_if_the_interval_contains_1() {
        let points = [(0.9, 1.1), (1.0, 1.2), (1.01, 1.2), (0.8, 0.99)]
            .map(|(lo, hi)| point(Quantity::Pps, lo, hi, false));
        assert_eq!(
            (
                count_points_compatible_with_ratio_one(&points),
                count_points_compatible_with_ratio_one(&[])
            ),
            (2, 0)
        );
    }
}
