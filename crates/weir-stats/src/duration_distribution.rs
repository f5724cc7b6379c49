//! Distributions of durations: counts by value, and the statistics that are recorded.

use serde::{Deserialize, Serialize};

/// A distribution of durations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DurationDistribution {
    /// How many were measured.
    pub count: u64,
    /// Mean, nanoseconds.
    pub mean_ns: f64,
    /// Shares of the count and the duration that is not exceeded by them, rising.
    pub quantiles: Vec<Quantile>,
}

/// A share and its duration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// 0 to 1.
    pub share: f64,
    /// Nanoseconds; known to 3 %.
    pub ns: f64,
}

impl DurationDistribution {
    /// The recorded quantiles: the minimum, the quartiles, then each time half of the rest, like
    /// the axes of latency spectra.
    pub const RECORDED_QUANTILES: [f64; 12] =
        [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0];

    /// Made of rising values, each with its count.
    ///
    /// ```
    /// use weir_stats::DurationDistribution;
    /// let distribution = DurationDistribution::from_counts(&[(100.0, 98), (900.0, 2)]);
    /// assert_eq!(distribution.duration_at_quantile(0.5), Some(100.0));
    /// assert_eq!(distribution.duration_at_quantile(0.99), Some(900.0));
    /// assert_eq!(distribution.mean_ns, 116.0);
    /// ```
    pub fn from_counts(counts: &[(f64, u64)]) -> DurationDistribution {
        let count: u64 = counts.iter().map(|(_, count)| count).sum();
        if count == 0 {
            return DurationDistribution::default();
        }
        let sum: f64 = counts.iter().map(|(value, count)| value * *count as f64).sum();
        let quantile = |share: f64| {
            let rank = ((share * count as f64).ceil() as u64).max(1);
            let mut seen = 0;
            let value = counts.iter().find(|(_, count)| {
                seen += count;
                seen >= rank
            });
            Quantile { share, ns: value.map_or(0.0, |(value, _)| *value) }
        };
        let quantiles =
            DurationDistribution::RECORDED_QUANTILES.iter().map(|share| quantile(*share)).collect();
        DurationDistribution { count, mean_ns: sum / count as f64, quantiles }
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The duration at one of [`DurationDistribution::RECORDED_QUANTILES`]; `None` for others, and
    /// where nothing was measured.
    pub fn duration_at_quantile(&self, share: f64) -> Option<f64> {
        self.quantiles.iter().find(|quantile| quantile.share == share).map(|quantile| quantile.ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_distribution_has_no_quantiles() {
        assert_eq!(DurationDistribution::from_counts(&[]).duration_at_quantile(0.5), None);
        assert_eq!(DurationDistribution::from_counts(&[(5.0, 0)]).count, 0);
    }

    #[test]
    fn extreme_quantiles_are_minimum_and_maximum() {
        let spectrum = DurationDistribution::from_counts(&[(1.0, 1), (2.0, 1_000_000), (3.0, 1)]);
        let at = |share| spectrum.duration_at_quantile(share).unwrap();
        assert_eq!((at(0.0), at(0.5), at(0.9999), at(1.0)), (1.0, 2.0, 2.0, 3.0));
    }
}
