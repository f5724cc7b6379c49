//! Formats numbers for readers: few digits, and the same number of them in a value and its
//! interval.

use weir_stats::{Coordinate, Estimate, Quantity, QuantityUnit};

/// A space that does not break the line.
const NARROW_NO_BREAK_SPACE: char = '\u{202f}';

/// A count with its thousands apart: `16,384`.
pub(crate) fn format_count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The value on an axis, numbers with their thousands apart.
pub(crate) fn format_coordinate(value: &Coordinate) -> String {
    match value {
        Coordinate::Number(n) => format_count(*n),
        Coordinate::Text(text) => text.clone(),
    }
}

/// `value` with `digits` significant digits, never as a power of ten.
fn format_significant_digits(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (digits as i32 - 1 - magnitude).clamp(0, 9) as usize;
    // Rounding may carry into a new digit (9.96 with two digits is 10, not 10.0).
    let rounded = format!("{value:.decimals$}");
    let carried = rounded.parse::<f64>().unwrap_or(value).abs().log10().floor() as i32;
    if carried > magnitude && decimals > 0 {
        return format!("{value:.*}", decimals - 1);
    }
    rounded
}

/// A value with its thousand's prefix: `1.42 M`, `41.2 k`, `12 µ`; `unit` follows the prefix.
fn format_with_si_prefix(value: f64, digits: usize, unit: &str) -> String {
    const SI_PREFIXES: [(f64, &str); 7] =
        [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")];
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return if unit.is_empty() {
            "0".to_owned()
        } else {
            format!("0{NARROW_NO_BREAK_SPACE}{unit}")
        };
    }
    // Half a unit in the last place belongs to the next prefix: 999.9 k is 1.00 M.
    let rounded = value.abs() * (1.0 + 0.5 * 10f64.powi(-(digits as i32)));
    let (scale, prefix) =
        SI_PREFIXES.iter().copied().find(|(scale, _)| rounded >= *scale).unwrap_or(SI_PREFIXES[6]);
    let number = format_significant_digits(value / scale, digits);
    let suffix = format!("{prefix}{unit}");
    if suffix.is_empty() { number } else { format!("{number}{NARROW_NO_BREAK_SPACE}{suffix}") }
}

/// Packets a second, without the words: `1.42 M`.
pub(crate) fn format_rate_without_unit(value: f64) -> String {
    format_with_si_prefix(value, 3, "")
}

/// A time: `41.2 ms`.
pub(crate) fn format_si_seconds(value: f64) -> String {
    format_with_si_prefix(value, 3, "s")
}

/// What the values of a drawing are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueUnit {
    /// Packets a second.
    Rate,
    /// Seconds.
    Seconds,
}

impl From<QuantityUnit> for ValueUnit {
    fn from(unit: QuantityUnit) -> ValueUnit {
        match unit {
            QuantityUnit::Count => ValueUnit::Rate,
            QuantityUnit::Seconds => ValueUnit::Seconds,
        }
    }
}

impl ValueUnit {
    /// A value, with three digits.
    pub(crate) fn format_value(self, value: f64) -> String {
        match self {
            ValueUnit::Rate => format_rate_without_unit(value),
            ValueUnit::Seconds => format_si_seconds(value),
        }
    }

    /// A value next to an axis with even steps, with the digits that it needs: `1.5 M`, `250 ms`.
    pub(crate) fn format_without_trailing_zeros(self, value: f64) -> String {
        let text = self.format_value(value);
        let number: String = text.chars().take_while(|c| *c != NARROW_NO_BREAK_SPACE).collect();
        if !number.contains('.') {
            return text;
        }
        let short = number.trim_end_matches('0').trim_end_matches('.');
        format!("{short}{}", &text[number.len()..])
    }

    /// A round value next to an axis, with the digit that it has: `1 M`, `20 ms`.
    pub(crate) fn format_single_digit_tick(self, value: f64) -> String {
        match self {
            ValueUnit::Rate => format_with_si_prefix(value, 1, ""),
            ValueUnit::Seconds => format_with_si_prefix(value, 1, "s"),
        }
    }
}

/// A ratio: `31×`, `3.1×`, `0.95×`.
pub(crate) fn format_ratio(value: f64) -> String {
    format!("{}×", format_ratio_without_times_sign(value))
}

/// A ratio without its sign: three digits around 1, where they matter, two elsewhere.
pub(crate) fn format_ratio_without_times_sign(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match value.abs() {
        v if v >= 99.5 => format_count(value.round() as u64),
        v if v >= 9.95 => format_significant_digits(value, 2),
        v if (0.095..1.995).contains(&v) => format!("{value:.2}"),
        _ => format_significant_digits(value, 2),
    }
}

/// A ratio close to 1, to a thousandth: the difference of two equal things.
pub(crate) fn format_ratio_near_one(value: f64) -> String {
    if value.is_finite() { format!("{value:.3}") } else { "–".to_owned() }
}

/// An interval: `[28, 34]`; a single sample has none.
pub(crate) fn format_interval(estimate: &Estimate, print: impl Fn(f64) -> String) -> String {
    if estimate.samples == 1 {
        return "(measured once)".to_owned();
    }
    format!("[{}, {}]", print(estimate.lo), print(estimate.hi))
}

/// An estimate with its interval and unit, for a terminal: `1.42 M [1.40 M, 1.44 M] packets/s`.
pub fn format_estimate_with_unit(quantity: Quantity, estimate: &Estimate) -> String {
    use Quantity as Q;
    let nanoseconds: fn(f64) -> String = |value| format_si_seconds(value / 1e9);
    let (print, unit): (fn(f64) -> String, &str) = match quantity {
        Q::Pps => (format_rate_without_unit, " packets/s"),
        Q::ConnectionsPerSecond | Q::ConnectionsResetPerSecond => {
            (format_rate_without_unit, " connections/s")
        }
        Q::HandshakesPerSecond => (format_rate_without_unit, " handshakes/s"),
        Q::LookupsPerSecond => (format_rate_without_unit, " look-ups/s"),
        Q::BytesPerConnection => (format_rate_without_unit, " bytes per connection"),
        Q::LoadSeconds => (format_si_seconds, " to load"),
        Q::AddSeconds => (format_si_seconds, " to add a rule"),
        Q::RoundTripNsP50 => (nanoseconds, " there and back"),
        Q::ResponseNsP50 => (nanoseconds, " to answer"),
        Q::StreamBytesPerSecond => (format_rate_without_unit, " bytes/s"),
        Q::LossRatio => (format_percent, " lost"),
        _ => (format_ratio_without_times_sign, ""),
    };
    let text = format!("{} {}{unit}", print(estimate.value), format_interval(estimate, print));
    text.replace(NARROW_NO_BREAK_SPACE, " ")
}

/// A share as percent: `3.2 %`.
pub(crate) fn format_percent(share: f64) -> String {
    if !share.is_finite() {
        return "–".to_owned();
    }
    let value = share * 100.0;
    if value >= 999.5 {
        return format!("{}{NARROW_NO_BREAK_SPACE}%", format_count(value.round() as u64));
    }
    let digits = if value.abs() >= 9.95 || value == 0.0 { 0 } else { 1 };
    format!("{value:.digits$}{NARROW_NO_BREAK_SPACE}%")
}

/// A number of bytes: `12.3 kB`.
pub(crate) fn format_bytes(n: u64) -> String {
    if n < 1000 {
        format!("{n}{NARROW_NO_BREAK_SPACE}B")
    } else {
        format_with_si_prefix(n as f64, 3, "B")
    }
}

/// A length of time: `4 min 12 s`.
pub(crate) fn format_duration_with_units(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "–".to_owned();
    }
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s}{NARROW_NO_BREAK_SPACE}s"),
        (0, m, s) => format!("{m}{NARROW_NO_BREAK_SPACE}min {s}{NARROW_NO_BREAK_SPACE}s"),
        (h, m, _) => format!("{h}{NARROW_NO_BREAK_SPACE}h {m}{NARROW_NO_BREAK_SPACE}min"),
    }
}

/// A number for a coordinate of a drawing: one decimal, no `-0`.
pub(crate) fn format_svg_coordinate(value: f64) -> String {
    assert!(value.is_finite(), "a drawing has no place for {value}");
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// The day of an RFC 3339 time, and its hour and minute.
pub(crate) fn format_rfc3339_to_minute(text: &str) -> String {
    match (text.get(..10), text.get(11..16)) {
        (Some(day), Some(time)) => format!("{day}, {time} UTC"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated_by_commas() {
        assert_eq!(format_count(0), "0");
        assert_eq!(format_count(999), "999");
        assert_eq!(format_count(16_384), "16,384");
        assert_eq!(format_count(1_234_567), "1,234,567");
    }

    #[test]
    fn rates_have_three_significant_digits() {
        let plain = |value| format_rate_without_unit(value).replace(NARROW_NO_BREAK_SPACE, " ");
        assert_eq!(plain(1_424_000.0), "1.42 M");
        assert_eq!(plain(41_230.0), "41.2 k");
        assert_eq!(plain(999_900.0), "1.00 M");
        assert_eq!(plain(999_400.0), "999 k");
        assert_eq!(plain(412.3), "412");
        assert_eq!(plain(0.0), "0");
        assert_eq!(plain(f64::NAN), "–");
    }

    #[test]
    fn times_have_their_unit() {
        let plain = |value| format_si_seconds(value).replace(NARROW_NO_BREAK_SPACE, " ");
        assert_eq!(plain(0.0412), "41.2 ms");
        assert_eq!(plain(1.5), "1.50 s");
        assert_eq!(plain(0.000_001_5), "1.50 µs");
        assert_eq!(plain(0.0), "0 s");
    }

    #[test]
    fn ticks_are_formatted_without_trailing_zeros() {
        let plain = |value| {
            ValueUnit::Rate.format_single_digit_tick(value).replace(NARROW_NO_BREAK_SPACE, " ")
        };
        assert_eq!(plain(1e6), "1 M");
        assert_eq!(plain(500_000.0), "500 k");
        assert_eq!(plain(20.0), "20");
        let short = |value| {
            ValueUnit::Rate.format_without_trailing_zeros(value).replace(NARROW_NO_BREAK_SPACE, " ")
        };
        assert_eq!(
            [short(1.5e6), short(2e6), short(0.0), short(600.0)],
            ["1.5 M", "2 M", "0", "600"]
        );
        assert_eq!(
            ValueUnit::Seconds.format_single_digit_tick(0.005).replace(NARROW_NO_BREAK_SPACE, " "),
            "5 ms"
        );
    }

    #[test]
    fn ratios_are_rounded_by_their_magnitude() {
        assert_eq!(format_ratio(31.4), "31×");
        assert_eq!(format_ratio(3.12), "3.1×");
        assert_eq!(format_ratio(1.004), "1.00×");
        assert_eq!(format_ratio(0.947), "0.95×");
        assert_eq!(format_ratio(0.0123), "0.012×");
        assert_eq!(format_ratio(1234.0), "1,234×");
        assert_eq!(format_ratio(9.96), "10×");
        assert_eq!(format_ratio(f64::INFINITY), "–×");
    }

    #[test]
    fn estimates_are_formatted_with_interval_and_unit() {
        let estimate = Estimate { value: 1.42e6, lo: 1.4e6, hi: 1.44e6, samples: 3 };
        let said = format_estimate_with_unit(Quantity::Pps, &estimate);
        assert_eq!(said, "1.42 M [1.40 M, 1.44 M] packets/s");
        let once = Estimate { value: 4.2e4, lo: 4.2e4, hi: 4.2e4, samples: 1 };
        let said = format_estimate_with_unit(Quantity::RoundTripNsP50, &once);
        assert_eq!(said, "42.0 µs (measured once) there and back");
    }

    #[test]
    fn drawings_never_hold_minus_zero() {
        assert_eq!(format_svg_coordinate(-0.01), "0");
        assert_eq!(format_svg_coordinate(12.0), "12");
        assert_eq!(format_svg_coordinate(12.25), "12.2");
    }
}
