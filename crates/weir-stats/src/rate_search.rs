//! The highest load that a firewall sustains with at most a given loss, between two bounds.
//!
//! After *Multiple Loss Ratio Search* (draft-ietf-bmwg-mlrsearch), in its simple form: one goal at
//! a time, trials of full length. A load is a *lower bound* if the loss was within the goal for
//! enough of the time that was spent on it, an *upper bound* if it exceeded the goal for enough; a
//! single bad trial decides nothing if the goal allows some (`exceed_ratio`). The search halves the
//! geometric interval between both until it is narrow enough. How a trial is run is a function
//! parameter, so this module is plain arithmetic.

use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchGoal {
    /// Loss ratio that a good trial may have: 0 for the zero-loss rate, 0.005 for half a percent.
    pub loss_ratio: f64,
    /// Share of the time at a load that may be bad: 0 as RFC 2544 has it, 0.5 as the draft advises.
    pub exceed_ratio: f64,
    /// Trials at a load until it is decided.
    #[serde(rename = "trials")]
    pub max_trials_per_rate: u32,
    /// Width of the last interval, as a share of its upper end.
    pub width: f64,
}

impl SearchGoal {
    /// No loss in any trial (RFC 2544).
    pub const ZERO_LOSS: SearchGoal =
        SearchGoal { loss_ratio: 0.0, exceed_ratio: 0.0, max_trials_per_rate: 1, width: 0.01 };
    /// Half a percent of loss, which half of the trials may exceed (the draft's recommendation).
    pub const HALF_PERCENT_MEDIAN_LOSS: SearchGoal =
        SearchGoal { loss_ratio: 0.005, exceed_ratio: 0.5, max_trials_per_rate: 3, width: 0.01 };
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// Highest load that is a lower bound; `None` where even the lowest is none.
    pub lower: Option<f64>,
    /// Lowest load above it that is an upper bound; `None` where even the highest is carried.
    pub upper: Option<f64>,
    /// What was carried at the lower bound in its worst trial that counts: load less loss.
    pub conditional_throughput: Option<f64>,
    /// Trials that it took.
    pub trials: u32,
}

/// One search with its trials: a line of `search.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateSearchRecord {
    /// Of which subject.
    pub subject: String,
    /// Where.
    pub scenario: Scenario,
    /// What was searched.
    pub goal: SearchGoal,
    /// What was found.
    pub found: SearchResult,
    /// Its trials, in their order.
    #[serde(default)]
    pub steps: Vec<SearchTrial>,
}

/// One trial of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchTrial {
    /// Load that was offered, packets per second.
    pub rate_pps: f64,
    /// Share of it that was lost, or could not be offered in time.
    #[serde(rename = "loss_ratio")]
    pub lost_or_unoffered_ratio: f64,
}

/// What the trials at one load say.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RateClass {
    LowerBound { worst_loss: f64 },
    UpperBound,
}

/// Searches between `low` and `high`; `trial` offers a load and says which share was lost.
///
/// # Errors
/// Those of `trial`.
pub fn search_highest_rate<E>(
    goal: &SearchGoal,
    low: f64,
    high: f64,
    trial: &mut dyn FnMut(f64) -> Result<f64, E>,
) -> Result<SearchResult, E> {
    let mut found =
        SearchResult { lower: None, upper: None, conditional_throughput: None, trials: 0 };
    let mut classify = |load: f64, found: &mut SearchResult| -> Result<bool, E> {
        let class = run_trials_to_classify_rate(goal, load, trial, &mut found.trials)?;
        Ok(match class {
            RateClass::LowerBound { worst_loss } => {
                found.lower = Some(load);
                found.conditional_throughput = Some(load * (1.0 - worst_loss));
                true
            }
            RateClass::UpperBound => {
                found.upper = Some(load);
                false
            }
        })
    };
    if classify(high, &mut found)? || !classify(low, &mut found)? {
        return Ok(found);
    }
    while let (Some(lower), Some(upper)) = (found.lower, found.upper) {
        if (upper - lower) / upper <= goal.width {
            break;
        }
        classify((lower * upper).sqrt(), &mut found)?;
    }
    Ok(found)
}

/// Runs trials at a load until they can no longer change what it is.
fn run_trials_to_classify_rate<E>(
    goal: &SearchGoal,
    load: f64,
    trial: &mut dyn FnMut(f64) -> Result<f64, E>,
    count: &mut u32,
) -> Result<RateClass, E> {
    let trials = goal.max_trials_per_rate.max(1);
    let may_be_bad = (f64::from(trials) * goal.exceed_ratio).floor() as u32;
    let (mut good, mut bad, mut worst_loss) = (0, 0, 0.0_f64);
    loop {
        let loss = trial(load)?;
        *count += 1;
        if loss <= goal.loss_ratio {
            good += 1;
            worst_loss = worst_loss.max(loss);
        } else {
            bad += 1;
        }
        if bad > may_be_bad {
            return Ok(RateClass::UpperBound);
        }
        if good >= trials - may_be_bad {
            return Ok(RateClass::LowerBound { worst_loss });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_random::Rng;

    /// A firewall that carries `capacity` and loses the rest; one trial in `noisy` loses a tenth
    /// more.
    fn firewall(capacity: f64, noisy: usize, seed: u64) -> impl FnMut(f64) -> Result<f64, ()> {
        let mut random = Rng::new(seed);
        move |load| {
            let lost = (1.0 - capacity / load).max(0.0);
            let disturbed = noisy > 0 && random.below(noisy) == 0;
            Ok(if disturbed { lost + 0.1 } else { lost })
        }
    }

    #[test]
    fn both_search_bounds_enclose_the_capacity() {
        for capacity in [1e4, 3.3e5, 9e6] {
            let found = search_highest_rate(
                &SearchGoal::ZERO_LOSS,
                1e3,
                1e7,
                &mut firewall(capacity, 0, 1),
            )
            .unwrap();
            let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
            assert!(lower <= capacity && capacity < upper, "{found:?}");
            assert!((upper - lower) / upper <= 0.01 && found.trials < 20, "{found:?}");
            assert_eq!(found.conditional_throughput, Some(lower));
        }
    }

    #[test]
    fn some_loss_allows_a_higher_load() {
        let goal = SearchGoal { loss_ratio: 0.1, ..SearchGoal::ZERO_LOSS };
        let found = search_highest_rate(&goal, 1e3, 1e7, &mut firewall(1e6, 0, 1)).unwrap();
        let lower = found.lower.unwrap();
        assert!((1.08e6..=1.12e6).contains(&lower), "{found:?}");
        assert!(found.conditional_throughput.unwrap() <= 1e6 * 1.001, "{found:?}");
    }

    #[test]
    fn bad_trials_mislead_a_zero_loss_goal_more_often() {
        let near = |goal: SearchGoal| {
            (0..50)
                .filter(|seed| {
                    let found = search_highest_rate(&goal, 1e3, 1e7, &mut firewall(1e6, 10, *seed))
                        .unwrap();
                    found.lower.is_some_and(|lower| lower > 0.95e6)
                })
                .count()
        };
        let (zero, partial) =
            (near(SearchGoal::ZERO_LOSS), near(SearchGoal::HALF_PERCENT_MEDIAN_LOSS));
        assert!(partial >= 40 && zero < partial, "{zero} and {partial} of 50");
    }

    #[test]
    fn a_missing_search_bound_is_none() {
        let all = search_highest_rate(&SearchGoal::ZERO_LOSS, 1e3, 1e7, &mut firewall(1e9, 0, 1))
            .unwrap();
        assert_eq!((all.lower, all.upper), (Some(1e7), None));
        let none = search_highest_rate(&SearchGoal::ZERO_LOSS, 1e3, 1e7, &mut firewall(10.0, 0, 1))
            .unwrap();
        assert_eq!((none.lower, none.upper), (None, Some(1e3)));
    }
}
