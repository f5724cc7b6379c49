//! Estimates as text.

use weir_stats::Estimate;

/// `0.97 (0.95 to 0.99)`.
pub fn format_estimate(estimate: &Estimate) -> String {
    let Estimate { value, lo, hi, .. } = estimate;
    format!(
        "{} ({} to {})",
        format_three_significant_digits(*value),
        format_three_significant_digits(*lo),
        format_three_significant_digits(*hi)
    )
}

/// Three digits that count, without an exponent.
fn format_three_significant_digits(value: f64) -> String {
    let size = value.abs().max(1e-9).log10().floor() as i32;
    let decimals = usize::try_from((2 - size).clamp(0, 6)).unwrap_or(0);
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown = [0.001234, 0.97, 12.345, 1234567.0].map(format_three_significant_digits);
        assert_eq!(shown, ["0.00123", "0.970", "12.3", "1234567"]);
    }
}
