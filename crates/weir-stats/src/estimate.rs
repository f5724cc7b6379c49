//! Computes estimates with intervals from samples.
//!
//! Disturbance on a shared machine is one-sided (it only slows) and comes in bursts, so means and
//! their standard errors mislead. An estimate of this module is a median, of values from the same
//! block if two things are compared. Samples are blocks, because blocks were repeated and packets
//! were not.
//!
//! The interval is that of order statistics: how many of `n` samples lie below the median is
//! binomial whatever their distribution, so the interval from the `d`-th smallest sample to the
//! `d`-th largest contains the median with a probability that is known exactly. No `d` gives just
//! 95 %; the ends are interpolated between the two intervals whose probabilities are on either side
//! of it (T. Hettmansperger and S. Sheather, *Confidence intervals based on interpolated order
//! statistics*, Statistics & Probability Letters 4, 1986). A bootstrap of the median, which was
//! used before, contained 1 in only seven of eight A/A comparisons of four blocks.
//!
//! With fewer than six samples, the interval is their range: it contains the median with a
//! probability of 93.75 % for five, 87.5 % for four, 75 % for three, 50 % for two. Claims are
//! therefore decided on five samples or more ([`evidence_limits`](crate::evidence_limits)). The
//! interval says nothing about another machine or another boot.

use serde::{Deserialize, Serialize};

/// Probability with which an interval contains the median.
const INTERVAL_COVERAGE: f64 = 0.95;

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
    pub fn classify_ratio_difference_beyond(&self, threshold: f64) -> RatioDifference {
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

/// Median of `samples` with its 95 % interval (see the head of the module); `None` if there are
/// none, or one that is not finite.
///
/// # Example
/// ```
/// let five = weir_stats::estimate::estimate_median(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
/// assert_eq!((five.value, five.lo, five.hi), (3.0, 1.0, 5.0));
/// ```
pub fn estimate_median(samples: &[f64]) -> Option<Estimate> {
    let value = median(samples).filter(|_| samples.iter().all(|sample| sample.is_finite()))?;
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let order = interpolated_order_of_interval_end(sorted.len());
    // Orders count from 1; the share between two samples is interpolated.
    let below = order.floor() as usize;
    let share = order - order.floor();
    let from_low = |order: usize| sorted[(order - 1).min(sorted.len() - 1)];
    let from_high = |order: usize| sorted[sorted.len().saturating_sub(order)];
    let between = |first: f64, second: f64| first + share * (second - first);
    Some(Estimate {
        value,
        lo: between(from_low(below), from_low(below + 1)),
        hi: between(from_high(below), from_high(below + 1)),
        samples: sorted.len(),
    })
}

/// Order, from the outside and with a share, of the samples at which the interval of the median of
/// `samples` values ends: 1 is the smallest and the largest.
fn interpolated_order_of_interval_end(samples: usize) -> f64 {
    let n = samples as f64;
    // Probability that fewer than `order` of the samples lie below the median, times two: the
    // interval from the `order`-th smallest to the `order`-th largest misses it so often.
    let mut probability = 0.5_f64.powf(n);
    let mut missed = 2.0 * probability;
    if missed > 1.0 - INTERVAL_COVERAGE {
        return 1.0;
    }
    let mut order = 1.0;
    loop {
        probability *= (n - order + 1.0) / order;
        let missed_by_next = missed + 2.0 * probability;
        if missed_by_next > 1.0 - INTERVAL_COVERAGE {
            let part = ((1.0 - missed) - INTERVAL_COVERAGE) / (missed_by_next - missed);
            return order + (n - order) * part / (order + (n - 2.0 * order) * part);
        }
        (missed, order) = (missed_by_next, order + 1.0);
    }
}

/// Median of the ratios of `pairs` (first by second), each measured in one block.
///
/// `None` without pairs, or where a second value is 0.
///
/// # Example
/// ```
/// let ratio = weir_stats::estimate::estimate_median_of_pair_ratios(&[(2.0, 1.0), (4.0,
/// 2.0)]).unwrap(); assert_eq!((ratio.value, ratio.lo, ratio.hi), (2.0, 2.0, 2.0));
/// ```
pub fn estimate_median_of_pair_ratios(pairs: &[(f64, f64)]) -> Option<Estimate> {
    if pairs.iter().any(|(_, second)| *second == 0.0) {
        return None;
    }
    let ratios: Vec<f64> = pairs.iter().map(|(first, second)| first / second).collect();
    estimate_median(&ratios)
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
    use weir_random::Rng;

    /// Samples around `centre`, uniformly within `width`, from a fixed seed.
    fn noisy(centre: f64, width: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut random = Rng::new(seed);
        let unit = |random: &mut Rng| random.below(1_000_000) as f64 / 1e6 - 0.5;
        (0..count).map(|_| centre + width * unit(&mut random)).collect()
    }

    /// Rates of one subject in one block: usual ones, or with bursts of other work, which only
    /// slow.
    fn block_rate(random: &mut Rng, has_bursts: bool) -> f64 {
        let unit = |random: &mut Rng| random.below(1_000_000) as f64 / 1e6;
        let scatter = (0..12).map(|_| unit(random)).sum::<f64>() - 6.0;
        let burst = if has_bursts && unit(random) < 0.2 { 0.6 + 0.4 * unit(random) } else { 1.0 };
        1e6 * (1.0 + 0.02 * scatter) * burst
    }

    /// Whether the interval of the ratio of a subject to itself, over so many blocks, contains 1.
    fn does_interval_of_aa_comparison_contain_1(
        seed: u64,
        blocks: usize,
        has_bursts: bool,
    ) -> bool {
        let mut random = Rng::new(seed * 1000 + blocks as u64);
        let pairs: Vec<(f64, f64)> = (0..blocks)
            .map(|_| (block_rate(&mut random, has_bursts), block_rate(&mut random, has_bursts)))
            .collect();
        let ratio = estimate_median_of_pair_ratios(&pairs).unwrap();
        ratio.lo <= 1.0 && 1.0 <= ratio.hi
    }

    fn count_intervals_containing_1(comparisons: u64, blocks: usize, has_bursts: bool) -> usize {
        (0..comparisons)
            .filter(|seed| does_interval_of_aa_comparison_contain_1(*seed, blocks, has_bursts))
            .count()
    }

    /// Two hundred comparisons, of studies of every size that decides claims. A single size varies
    /// by 1.5 % in 200 comparisons; the next test has 4,000 of each.
    #[test]
    fn the_interval_contains_1_in_93_percent_of_200_simulated_aa_comparisons() {
        let blocks = [5, 6, 8, 12, 24];
        let covered = (0..200_u64)
            .filter(|at| {
                does_interval_of_aa_comparison_contain_1(
                    *at,
                    blocks[(*at % 5) as usize],
                    at % 2 == 1,
                )
            })
            .count();
        assert!(covered >= 186, "{covered} of 200");
    }

    #[test]
    fn the_interval_misses_the_median_no_more_often_than_stated_and_is_not_too_wide() {
        for blocks in 5..=24 {
            for has_bursts in [false, true] {
                let covered = count_intervals_containing_1(4000, blocks, has_bursts);
                let least = if blocks == 5 { 3700 } else { 3744 };
                assert!(
                    (least..=3860).contains(&covered),
                    "{covered} of 4000 with {blocks} blocks, {has_bursts}"
                );
            }
        }
    }

    #[test]
    fn four_blocks_miss_more_often_than_a_claim_may() {
        let covered = count_intervals_containing_1(4000, 4, false);
        assert!((3400..3600).contains(&covered), "{covered} of 4000: 7/8 by the binomial");
    }

    #[test]
    fn interval_ends_lie_between_the_order_statistics_of_published_tables() {
        let of = interpolated_order_of_interval_end;
        assert_eq!((of(1), of(5)), (1.0, 1.0));
        // n = 6: the range covers 96.875 %, the second samples 78.125 %.
        assert!((of(6) - (1.0 + 5.0 * 0.1 / (1.0 + 4.0 * 0.1))).abs() < 1e-9, "{}", of(6));
        // n = 9: the second samples cover 96.1 %, the third ones 82.0 %.
        assert!((2.0..2.5).contains(&of(9)), "{}", of(9));
        // n = 100: about 50 - 1.96 · 5.
        assert!((40.0..41.0).contains(&of(100)), "{}", of(100));
    }

    #[test]
    fn one_slow_block_does_not_move_a_ratio() {
        let mut pairs = vec![(2.0, 1.0); 8];
        pairs.push((0.3, 1.0));
        let ratio = estimate_median_of_pair_ratios(&pairs).unwrap();
        assert_eq!(ratio.value, 2.0);
        assert_eq!(
            ratio.classify_ratio_difference_beyond(0.02),
            RatioDifference::Higher,
            "its interval: {ratio:?}"
        );
    }

    #[test]
    fn a_difference_requires_interval_and_value_beyond_the_threshold() {
        let small = Estimate { value: 1.01, lo: 1.005, hi: 1.015, samples: 9 };
        assert_eq!(small.classify_ratio_difference_beyond(0.02), RatioDifference::None);
        assert_eq!(small.classify_ratio_difference_beyond(0.005), RatioDifference::Higher);
        let wide = Estimate { value: 1.3, lo: 0.9, hi: 1.5, samples: 9 };
        assert_eq!(wide.classify_ratio_difference_beyond(0.02), RatioDifference::None);
        let low = Estimate { value: 0.5, lo: 0.4, hi: 0.6, samples: 9 };
        assert_eq!(low.classify_ratio_difference_beyond(0.02), RatioDifference::Lower);
    }

    #[test]
    fn identical_distributions_are_not_a_difference() {
        let one = noisy(1000.0, 60.0, 12, 1);
        let two = noisy(1000.0, 60.0, 12, 2);
        let pairs: Vec<(f64, f64)> = one.into_iter().zip(two).collect();
        assert_eq!(
            estimate_median_of_pair_ratios(&pairs).unwrap().classify_ratio_difference_beyond(0.02),
            RatioDifference::None
        );
    }

    #[test]
    fn insufficient_samples_give_no_estimate() {
        assert_eq!(estimate_median(&[]), None);
        assert_eq!(estimate_median_of_pair_ratios(&[(1.0, 0.0)]), None);
        assert_eq!(fit_power_law_exponent(&[(1.0, 1.0)]), None);
    }
}
