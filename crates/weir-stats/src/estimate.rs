//! Computes estimates with intervals from samples.
//!
//! Disturbance on a shared machine is one-sided (it only slows) and comes in bursts, so means and
//! their standard errors mislead. An estimate of this module is a median, of values from the same
//! block if two things are compared. Its interval is the percentile bootstrap over blocks, because
//! blocks were repeated and packets were not.
//!
//! With few blocks such an interval is correct but coarse: with four it is close to the range of
//! the four. It says nothing about another machine or another boot.

use weir_random::Rng;

use serde::{Deserialize, Serialize};

/// Resamples of a bootstrap.
const BOOTSTRAP_RESAMPLES: usize = 2000;

/// A value with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimated value, as the function that made it defines it: a median, or the exponential
    /// of a difference of mean logarithms.
    pub value: f64,
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// Number of samples (blocks) that it rests on.
    pub samples: usize,
}

/// What a ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RatioDifference {
    /// The first is higher.
    Higher,
    /// The first is lower.
    Lower,
    /// No difference that these trials can see.
    None,
}

impl Estimate {
    /// Whether this ratio is a difference: only where the interval excludes 1 and the effect is
    /// above `threshold` (0.02 is two percent either way).
    pub fn classify_significant_ratio_above(&self, threshold: f64) -> RatioDifference {
        if self.lo > 1.0 && self.value > 1.0 + threshold {
            RatioDifference::Higher
        } else if self.hi < 1.0 && self.value < 1.0 / (1.0 + threshold) {
            RatioDifference::Lower
        } else {
            RatioDifference::None
        }
    }
}

/// Median of `samples`; `None` if there are none.
///
/// # Example
/// ```
/// assert_eq!(weir_stats::estimate::median(&[3.0, 1.0, 2.0, 10.0]), Some(2.5));
/// ```
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

/// Median of `samples` with its percentile bootstrap interval (95 %).
pub fn estimate_median(samples: &[f64], seed: u64) -> Option<Estimate> {
    bootstrap_estimate(samples, seed, |resample| median(resample).unwrap_or(f64::NAN))
}

/// Median of the ratios of `pairs` (first by second), each measured in one block.
///
/// `None` without pairs, or where a second value is 0.
///
/// # Example
/// ```
/// let ratio = weir_stats::estimate::estimate_median_of_pair_ratios(&[(2.0, 1.0), (4.0, 2.0)], 1).unwrap();
/// assert_eq!((ratio.value, ratio.lo, ratio.hi), (2.0, 2.0, 2.0));
/// ```
pub fn estimate_median_of_pair_ratios(pairs: &[(f64, f64)], seed: u64) -> Option<Estimate> {
    if pairs.iter().any(|(_, second)| *second == 0.0) {
        return None;
    }
    let ratios: Vec<f64> = pairs.iter().map(|(first, second)| first / second).collect();
    estimate_median(&ratios, seed)
}

/// `statistic` of `samples` with its percentile bootstrap interval (95 %): `samples` are resampled
/// with replacement, and the interval contains the middle 95 % of the statistic's values.
pub fn bootstrap_estimate<T: Clone>(
    samples: &[T],
    seed: u64,
    statistic: impl Fn(&[T]) -> f64,
) -> Option<Estimate> {
    if samples.is_empty() {
        return None;
    }
    let value = statistic(samples);
    let mut random = Rng::new(seed);
    let mut resample = samples.to_vec();
    let mut values: Vec<f64> = Vec::with_capacity(BOOTSTRAP_RESAMPLES);
    for _ in 0..BOOTSTRAP_RESAMPLES {
        for slot in &mut resample {
            *slot = samples[random.below(samples.len())].clone();
        }
        values.push(statistic(&resample));
    }
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    if values.is_empty() || !value.is_finite() {
        return None;
    }
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    Some(Estimate { value, lo: at(0.025), hi: at(0.975), samples: samples.len() })
}

/// Exponent `b` of `y = a·x^b`, fitted by least squares to the logarithms; `None` with fewer than
/// two points above 0.
///
/// # Example
/// ```
/// let square: Vec<(f64, f64)> = (1..9).map(|x| (f64::from(x), f64::from(x * x))).collect();
/// assert!((weir_stats::estimate::fit_power_law_exponent(&square).unwrap() - 2.0).abs() < 1e-9);
/// ```
pub fn fit_power_law_exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points
        .iter()
        .filter(|(x, y)| *x > 0.0 && *y > 0.0)
        .map(|(x, y)| (x.ln(), y.ln()))
        .collect();
    let n = logs.len() as f64;
    let (mean_x, mean_y) =
        (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let spread: f64 = logs.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let common: f64 = logs.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    (logs.len() >= 2 && spread > 0.0).then(|| common / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples around `centre`, uniformly within `width`, from a fixed seed.
    fn noisy(centre: f64, width: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut random = Rng::new(seed);
        let unit = |random: &mut Rng| random.below(1_000_000) as f64 / 1e6 - 0.5;
        (0..count).map(|_| centre + width * unit(&mut random)).collect()
    }

    #[test]
    fn the_median_interval_covers_the_median_in_95_percent() {
        let held = (0..200)
            .filter(|seed| {
                let estimate = estimate_median(&noisy(10.0, 2.0, 25, *seed), *seed).unwrap();
                estimate.lo <= 10.0 && 10.0 <= estimate.hi
            })
            .count();
        assert!((175..=200).contains(&held), "{held} of 200");
    }

    #[test]
    fn one_slow_block_does_not_move_a_ratio() {
        let mut pairs = vec![(2.0, 1.0); 8];
        pairs.push((0.3, 1.0));
        let ratio = estimate_median_of_pair_ratios(&pairs, 1).unwrap();
        assert_eq!(ratio.value, 2.0);
        assert_eq!(
            ratio.classify_significant_ratio_above(0.02),
            RatioDifference::Higher,
            "its interval: {ratio:?}"
        );
    }

    #[test]
    fn a_difference_requires_interval_and_value_beyond_the_threshold() {
        let small = Estimate { value: 1.01, lo: 1.005, hi: 1.015, samples: 9 };
        assert_eq!(small.classify_significant_ratio_above(0.02), RatioDifference::None);
        assert_eq!(small.classify_significant_ratio_above(0.005), RatioDifference::Higher);
        let wide = Estimate { value: 1.3, lo: 0.9, hi: 1.5, samples: 9 };
        assert_eq!(wide.classify_significant_ratio_above(0.02), RatioDifference::None);
        let low = Estimate { value: 0.5, lo: 0.4, hi: 0.6, samples: 9 };
        assert_eq!(low.classify_significant_ratio_above(0.02), RatioDifference::Lower);
    }

    #[test]
    fn identical_distributions_are_not_a_difference() {
        let one = noisy(1000.0, 60.0, 12, 1);
        let two = noisy(1000.0, 60.0, 12, 2);
        let pairs: Vec<(f64, f64)> = one.into_iter().zip(two).collect();
        assert_eq!(
            estimate_median_of_pair_ratios(&pairs, 3)
                .unwrap()
                .classify_significant_ratio_above(0.02),
            RatioDifference::None
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let samples = noisy(5.0, 1.0, 9, 4);
        assert_eq!(estimate_median(&samples, 1), estimate_median(&samples, 1));
    }

    #[test]
    fn insufficient_samples_give_no_estimate() {
        assert_eq!(estimate_median(&[], 1), None);
        assert_eq!(estimate_median_of_pair_ratios(&[(1.0, 0.0)], 1), None);
        assert_eq!(fit_power_law_exponent(&[(1.0, 1.0)]), None);
    }
}
