//! `-j RATEEST`: an estimator of a rate, of that name.

use weir_model::Target;

use super::{TruncatedText, build_verbatim_target};
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionArguments, ParsedOption, option_with_argument,
};
use crate::strtod::parse_leading_double;

const NAME: u8 = 0;
const INTERVAL: u8 = 1;
const EWMALOG: u8 = 2;

/// Bytes of a name that iptables keeps (`IFNAMSIZ`, with a zero at the end).
const RATEEST_NAME_MAX: usize = 15;

/// The longest interval: 8 seconds, in microseconds.
const INTERVAL_US_MAX: u32 = 8_000_000;

pub(in crate::iptables::extension) static RATEEST_TARGET: Extension<Target> = Extension {
    name: "RATEEST",
    options: &[
        option_with_argument("rateest-name", NAME).mandatory(),
        option_with_argument("rateest-interval", INTERVAL).mandatory(),
        option_with_argument("rateest-ewmalog", EWMALOG).mandatory(),
    ],
    build: build_rateest_target,
    ..Extension::PRINTED_AS_WRITTEN
};

fn build_rateest_target(g: &ExtensionArguments) -> ParseResult<Target> {
    let mut times_us = [0, 0];
    for t in g.iter().filter(|t| t.id != NAME) {
        times_us[usize::from(t.id - INTERVAL)] = parse_time_us(t)?;
    }
    let [interval_us, average_us] = times_us;
    if let Some(t) = g.first_with_id(INTERVAL)
        && interval_us > INTERVAL_US_MAX
    {
        return t
            .arg_error(format!("the interval {} is above 8s", t.arg))
            .with_help("write a time of at most 8s")
            .into_err();
    }
    if let Some(t) = g.first_with_id(EWMALOG)
        && !(1..=30).contains(&find_ewma_log(interval_us, average_us))
    {
        return t
            .arg_error(format!("{} is out of range for an average over the interval", t.arg))
            .with_help("write a time of at least 1.45 intervals, and much below 2³⁰ of them")
            .into_err();
    }
    build_verbatim_target(g, &[(NAME, TruncatedText(0, RATEEST_NAME_MAX))])
}

/// The weight that `RATEEST_final_check` of libxt_RATEEST.c finds for a time constant: the average
/// keeps `1 - 2^-log` of its value at each interval.
fn find_ewma_log(interval_us: u32, average_us: u32) -> u32 {
    let is_above = |log: &u32| {
        let kept = 1.0 - 1.0 / f64::from(1u32 << log);
        f64::from(interval_us) / -kept.ln() > f64::from(average_us)
    };
    (1..31).find(is_above).unwrap_or(32) - 1
}

/// A time as `RATEEST_get_time` reads it: a number without unit is one of microseconds.
///
/// The tool wraps times of 2³² microseconds and negative ones around; they are refused here.
fn parse_time_us(t: &ParsedOption) -> ParseResult<u32> {
    let unit_us = |unit: &str| match unit.to_ascii_lowercase().as_str() {
        "" | "us" | "usec" | "usecs" => Some(1.0),
        "ms" | "msec" | "msecs" => Some(1e3),
        "s" | "sec" | "secs" => Some(1e6),
        _ => None,
    };
    match parse_leading_double(t.arg).map(|(number, unit)| (number, unit_us(unit))) {
        Some((number, Some(unit))) if (0.0..4_294_967_296.0).contains(&(number * unit)) => {
            Ok((number * unit) as u32)
        }
        Some((_, Some(_))) => t
            .arg_error(format!("{} is not a time from 0 to 4294s", t.arg))
            .with_help("iptables would take another time for it: write a smaller one")
            .into_err(),
        _ => t.arg_error(format!("{} is not a time", t.arg)).with_help("e.g. 250ms").into_err(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_is_the_one_that_iptables_stores() {
        // Measured: iptables-save prints the interval, rounded up to a power of two of 250 ms,
        // times 2^log.
        assert_eq!(find_ewma_log(250_000, 500_000), 1);
        assert_eq!(find_ewma_log(1_000_000, 8_000_000), 3);
        assert_eq!(find_ewma_log(8_000_000, 4_000_000_000), 8);
        assert_eq!(find_ewma_log(250_000, 0), 0);
        assert_eq!(find_ewma_log(1, 4_000_000_000), 31);
    }
}
