//! `-j RATEEST`: an estimator of a rate, of that name.
//!
//! The kernel has two exponents: of the interval, 250 ms times a power of two, and of the weight of
//! the average. Both are printed as times, as `iptables-save` does.

use weir_model::Target;

use super::{TruncatedText, check_and_copy_options};
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ParsedExtensionOptions, ParsedOption, option_with_argument,
};
use crate::strtod::parse_leading_double;

const NAME_OPTION_ID: u8 = 0;
const INTERVAL_OPTION_ID: u8 = 1;
const EWMALOG_OPTION_ID: u8 = 2;

/// In the order in which `iptables-save` prints them.
const RATEEST_OPTION_NAMES: [&str; 3] = ["rateest-name", "rateest-interval", "rateest-ewmalog"];

/// Bytes of a name that iptables keeps (`IFNAMSIZ`, with a zero at the end).
const RATEEST_NAME_BYTES_KEPT: usize = 15;

/// The shortest interval of the kernel.
const INTERVAL_US_MIN: u32 = 250_000;
/// The longest interval: 8 seconds.
const INTERVAL_US_MAX: u32 = 8_000_000;

pub(in crate::iptables::extension) static RATEEST_TARGET: Extension<Target> = Extension {
    name: "RATEEST",
    options: &[
        option_with_argument(RATEEST_OPTION_NAMES[NAME_OPTION_ID as usize], NAME_OPTION_ID)
            .mandatory(),
        option_with_argument(RATEEST_OPTION_NAMES[INTERVAL_OPTION_ID as usize], INTERVAL_OPTION_ID)
            .mandatory(),
        option_with_argument(RATEEST_OPTION_NAMES[EWMALOG_OPTION_ID as usize], EWMALOG_OPTION_ID)
            .mandatory(),
    ],
    build: build_rateest_target,
    keeps_spelling: false,
    ..Extension::PRINTED_AS_WRITTEN
};

fn build_rateest_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut times_us = [0, 0];
    for t in g.iter().filter(|t| t.id != NAME_OPTION_ID) {
        times_us[usize::from(t.id - INTERVAL_OPTION_ID)] = parse_time_us(t)?;
    }
    let [interval_us, average_us] = times_us;
    if let Some(t) = g.first_with_id(INTERVAL_OPTION_ID)
        && interval_us > INTERVAL_US_MAX
    {
        return t
            .arg_error(format!("the interval {} is above 8s", t.arg))
            .with_help("write a time of at most 8s")
            .into_err();
    }
    if let Some(t) = g.first_with_id(EWMALOG_OPTION_ID)
        && !(1..=30).contains(&find_ewma_log(interval_us, average_us))
    {
        return t
            .arg_error(format!("{} is out of range for an average over the interval", t.arg))
            .with_help("write a time of at least 1.45 intervals, and much below 2³⁰ of them")
            .into_err();
    }
    let mut options =
        check_and_copy_options(g, &[(NAME_OPTION_ID, TruncatedText(0, RATEEST_NAME_BYTES_KEPT))])?;
    let saved_times = times_printed_by_save_us(interval_us, average_us);
    let place = |name: &str| RATEEST_OPTION_NAMES.iter().position(|known| *known == name);
    options.sort_by_key(|option| place(option.name));
    for (option, time_us) in options[1..].iter_mut().zip(saved_times.into_iter().flatten()) {
        option.argument = Some(format_saved_time(time_us));
    }
    Ok(Target::from_written_options(g.name, options))
}

/// The two times of which `iptables-save` prints what the kernel has. `None` if it prints others:
/// it computes with 32 bits, and what it prints for averages over more than 4294 seconds is not
/// what it loaded.
fn times_printed_by_save_us(interval_us: u32, average_us: u32) -> Option<[u32; 2]> {
    let intervals = (0..6).map(|exponent| INTERVAL_US_MIN << exponent);
    let interval = intervals.into_iter().find(|interval| interval_us <= *interval)?;
    let average = u64::from(interval) << find_ewma_log(interval_us, average_us);
    Some([interval, u32::try_from(average).ok()?])
}

/// A time as `RATEEST_print_time` prints it.
fn format_saved_time(time_us: u32) -> String {
    match time_us {
        1_000_000.. => format!("{:.1}s", f64::from(time_us) / 1e6),
        _ => format!("{:.1}ms", f64::from(time_us) / 1e3),
    }
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
        _ => t
            .arg_error(format!("{} is not a time", t.arg))
            .with_help("write for example 250ms")
            .into_err(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rateest_times_are_those_printed_by_iptables_save() {
        let saved = |interval_us, average_us| {
            times_printed_by_save_us(interval_us, average_us)
                .map(|times| times.map(format_saved_time))
        };
        let as_saved = |interval: &str, average: &str| Some([interval, average].map(str::to_owned));
        // Measured.
        assert_eq!(saved(250_000, 500_000), as_saved("250.0ms", "500.0ms"));
        assert_eq!(saved(300_000, 2_000_000), as_saved("500.0ms", "2.0s"));
        assert_eq!(saved(1, 300), as_saved("250.0ms", "64.0s"));
        assert_eq!(saved(8_000_000, 4_000_000_000), as_saved("8.0s", "2048.0s"));
        // It prints 3897.0s here, which is 2^13 intervals, for 2^15.
        assert_eq!(saved(100_000, 4_000_000_000), None);
    }

    #[test]
    fn the_ewma_weight_is_the_one_stored_by_iptables() {
        // Measured: iptables-save prints the interval, rounded up to a power of two of 250 ms,
        // times 2^log.
        assert_eq!(find_ewma_log(250_000, 500_000), 1);
        assert_eq!(find_ewma_log(1_000_000, 8_000_000), 3);
        assert_eq!(find_ewma_log(8_000_000, 4_000_000_000), 8);
        assert_eq!(find_ewma_log(250_000, 0), 0);
        assert_eq!(find_ewma_log(1, 4_000_000_000), 31);
    }
}
