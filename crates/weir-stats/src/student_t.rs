//! Student's t: intervals and p-values of a few values that scatter normally.
//!
//! Two runs of a study have no blocks in common, so they cannot be compared by ratios within
//! blocks, as everything in one run is ([`estimate`](crate::estimate)): the means of their
//! logarithms are compared by t, and many points at once by Holm's method.

/// A mean with what is known of its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleMean {
    /// The mean.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Degrees of freedom.
    pub degrees_of_freedom: f64,
}

impl SampleMean {
    /// Of at least two values.
    pub fn from_values(values: &[f64]) -> Option<SampleMean> {
        let n = values.len() as f64;
        if values.len() < 2 {
            return None;
        }
        let value = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (n - 1.0);
        Some(SampleMean {
            value,
            standard_error: (variance / n).sqrt(),
            degrees_of_freedom: n - 1.0,
        })
    }

    /// This mean less another one, of other values (B. L. Welch, Biometrika 34, 1947).
    pub fn welch_difference(self, other: SampleMean) -> SampleMean {
        let (a, b) = (self.standard_error.powi(2), other.standard_error.powi(2));
        let parts = a * a / self.degrees_of_freedom + b * b / other.degrees_of_freedom;
        let freedom = if parts > 0.0 { (a + b).powi(2) / parts } else { self.degrees_of_freedom };
        SampleMean {
            value: self.value - other.value,
            standard_error: (a + b).sqrt(),
            degrees_of_freedom: freedom,
        }
    }

    /// Half the width of the interval that contains the true mean 95 times in 100.
    pub fn interval_half_width_95_percent(self) -> f64 {
        self.standard_error * t_quantile(0.975, self.degrees_of_freedom)
    }

    /// How likely a mean as far from 0 is where the true one is 0.
    pub fn p_value(self) -> f64 {
        if self.standard_error == 0.0 {
            return if self.value == 0.0 { 1.0 } else { 0.0 };
        }
        let t = (self.value / self.standard_error).abs();
        2.0 * (1.0 - t_cdf(t, self.degrees_of_freedom))
    }
}

/// Which of many p-values are below `level` together (S. Holm, Scand. J. Statistics 6, 1979): one
/// false alarm in any of them happens no more often than `level`.
///
/// ```
/// use weir_stats::student_t::find_significant_after_holm;
/// assert_eq!(find_significant_after_holm(&[0.04, 0.01, 0.3], 0.05), [false, true, false]);
/// ```
pub fn find_significant_after_holm(ps: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|a, b| ps[*a].total_cmp(&ps[*b]));
    let mut below = vec![false; ps.len()];
    for (rank, at) in order.iter().enumerate() {
        if ps[*at] > level / (ps.len() - rank) as f64 {
            break;
        }
        below[*at] = true;
    }
    below
}

/// Share of the distribution below `t` (at least 0).
fn t_cdf(t: f64, freedom: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The `t` below which a share of the distribution (at least a half) lies.
fn t_quantile(share: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if t_cdf(middle, freedom) < share { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun,
/// 26.5.8), evaluated after Lentz.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    let tiny = 1e-300;
    let nonzero = |v: f64| if v.abs() < tiny { tiny } else { v };
    let (mut c, mut d) = (1.0, 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / nonzero(1.0 + term * d);
            c = nonzero(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front.exp() * fraction / a
}

/// Logarithm of the gamma function of `x` above 0: Stirling's series, behind the recurrence.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_random::Rng;

    #[test]
    fn t_quantiles_agree_with_published_tables() {
        for (freedom, t) in [(1.0, 12.706), (3.0, 3.182), (7.0, 2.365), (30.0, 2.042)] {
            assert!((t_quantile(0.975, freedom) - t).abs() < 0.001, "{freedom}");
        }
    }

    #[test]
    fn a_zero_mean_is_significant_in_five_percent_of_samples() {
        let mut random = Rng::new(1);
        let mut normal = || (0..12).map(|_| random.below(1000) as f64 / 1000.0 - 0.5).sum::<f64>();
        let different = (0..1000).filter(|_| {
            SampleMean::from_values(&[normal(), normal(), normal(), normal()]).unwrap().p_value()
                < 0.05
        });
        assert!((30..=70).contains(&different.count()));
    }

    #[test]
    fn holm_correction_reduces_false_positives() {
        let ps: Vec<f64> = (1..=20).map(|n| f64::from(n) / 21.0).collect();
        assert!(ps.iter().any(|p| *p < 0.05));
        assert!(find_significant_after_holm(&ps, 0.05).iter().all(|below| !below));
        assert_eq!(find_significant_after_holm(&[], 0.05), Vec::<bool>::new());
        assert_eq!(
            find_significant_after_holm(&[0.001, 0.02], 0.05),
            [true, true],
            "the second is tried at the whole level"
        );
    }

    #[test]
    fn a_single_value_gives_no_sample_mean() {
        assert_eq!(SampleMean::from_values(&[1.0]), None);
        assert_eq!(SampleMean::from_values(&[2.0, 2.0]).unwrap().p_value(), 0.0);
    }
}
