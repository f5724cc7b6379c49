//! `-m limit`: a token bucket per rule.

use weir_model::Match;
use weir_model::match_module_constants::{LIMIT_DEFAULT_BURST_PACKETS, LIMIT_TICKS_PER_SECOND};
use weir_model::rule_match::{ExtensionValue, StatefulMatch, TypedExtensionOption};

use super::option_values;
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ParsedExtensionOptions, ParsedOption, option_with_argument,
};
use crate::strtoul;

pub(super) static LIMIT_MATCH: Extension<Match> = Extension {
    name: "limit",
    options: &[option_with_argument("limit", 0), option_with_argument("limit-burst", 1)],
    build: build_limit_match,
    ..Extension::DEFAULT
};

fn build_limit_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let mut ticks = LIMIT_TICKS_PER_SECOND * 3600 / 3;
    let mut burst = u64::from(LIMIT_DEFAULT_BURST_PACKETS);
    for t in g.iter() {
        match t.id {
            // The tool keeps the count in 32 bits: a negative one is huge.
            0 => {
                ticks = parse_rate_period(t, LIMIT_TICKS_PER_SECOND, |n| u64::from(n as u32))?
                    .ticks_between_packets
            }
            _ => burst = option_values::parse_integer(t, 0, 10_000)?,
        }
    }
    let bucket = credits_of_ticks((ticks as u32).wrapping_mul(burst as u32));
    if burst == 0 || bucket < credits_of_ticks(ticks as u32) {
        return g
            .extension_error(
                "the burst is too large for so low a rate: the kernel counts credits in 32 bits",
            )
            .with_help(
                "use a lower --limit-burst (at least 1), or a rate per hour instead of per day",
            )
            .into_err();
    }
    let (count, unit) = compute_rate_count_and_unit_millis(ticks, LIMIT_TICKS_PER_SECOND);
    let value = ExtensionValue::RateCountPerMilliseconds(count, unit);
    let mut options = vec![TypedExtensionOption { negated: false, name: "limit", value }];
    if burst != u64::from(LIMIT_DEFAULT_BURST_PACKETS) {
        let value = ExtensionValue::Number(burst);
        options.push(TypedExtensionOption { negated: false, name: "limit-burst", value });
    }
    Ok(Match::Stateful(Box::new(StatefulMatch { module: "limit", options })))
}

/// A rate as the tool computes it.
pub(super) struct PacketIntervalAndUnit {
    /// Ticks between two packets.
    pub ticks_between_packets: u64,
    /// Seconds of the unit that was written.
    pub unit_seconds: u64,
}

/// The period of `5/min`, at `scale` ticks a second; `narrow` makes of the count what the tool
/// keeps of it.
pub(super) fn parse_rate_period(
    t: &ParsedOption,
    scale: u64,
    narrow: fn(i64) -> u64,
) -> ParseResult<PacketIntervalAndUnit> {
    let (count, unit) = t.arg.split_once('/').map_or((t.arg, None), |(c, u)| (c, Some(u)));
    let seconds = match unit {
        None => Some(1),
        Some(u) => seconds_of_unit(u),
    };
    let count = narrow(strtoul::parse_atoi(count));
    let (Some(seconds), true) = (seconds, count != 0) else {
        return t
            .arg_error(format!("{} is not a rate", t.arg))
            .with_help("write a number and /second, /minute, /hour or /day")
            .into_err();
    };
    match scale * seconds / count {
        0 => t
            .arg_error(format!("{} is faster than the kernel's clock", t.arg))
            .with_help(format!("the fastest rate is {scale}/sec"))
            .into_err(),
        ticks => Ok(PacketIntervalAndUnit { ticks_between_packets: ticks, unit_seconds: seconds }),
    }
}

/// Seconds of a unit, which may be abbreviated.
pub(super) fn seconds_of_unit(unit: &str) -> Option<u64> {
    [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400)]
        .into_iter()
        .find(|(name, _)| {
            !unit.is_empty()
                && unit.len() <= name.len()
                && name.as_bytes()[..unit.len()].eq_ignore_ascii_case(unit.as_bytes())
        })
        .map(|(_, seconds)| seconds)
}

/// The rate for a period of `scale` ticks a second, at most a day: count, and the unit in
/// milliseconds.
///
/// It is what the tools print, unless that would be read back as another period: `80/sec`
/// represents 125 ticks of a ten-thousandth of a second, and `iptables-save` prints it for 124,
/// too. Then it is the rate in the next larger unit that is read back correctly; in days every
/// period is, because each is a whole part of a day's ticks divided by a count.
pub fn compute_rate_count_and_unit_millis(period: u64, scale: u64) -> (u64, u64) {
    let units = [86_400, 3600, 60, 1].map(|seconds| seconds * scale);
    let mut chosen = 0;
    for (i, ticks) in units.iter().enumerate().skip(1) {
        if period > *ticks || ticks / period < ticks % period {
            break;
        }
        chosen = i;
    }
    let reads_back = |ticks: u64| ticks / (ticks / period) == period;
    while chosen > 0 && !reads_back(units[chosen]) {
        chosen -= 1;
    }
    (units[chosen] / period, units[chosen] / scale * 1000)
}

/// Credits that the kernel gives for ticks, in its own 32 bits (`user2credits` in
/// net/netfilter/xt_limit.c, for kernels of 250 or 1000 ticks a second).
fn credits_of_ticks(ticks: u32) -> u32 {
    const CREDITS_PER_SECOND: u32 = 32_000;
    if ticks > u32::MAX / CREDITS_PER_SECOND {
        return (ticks / LIMIT_TICKS_PER_SECOND as u32).wrapping_mul(CREDITS_PER_SECOND);
    }
    ticks.wrapping_mul(CREDITS_PER_SECOND) / LIMIT_TICKS_PER_SECOND as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every period that a rate can have: those of all counts a day, which hold those of the
    /// shorter units.
    fn periods(scale: u64) -> impl Iterator<Item = u64> {
        let day = 86_400 * scale;
        std::iter::successors(Some(day), move |p| {
            let next = day / (day / p + 1);
            (next > 0).then_some(next)
        })
    }

    #[test]
    fn every_period_round_trips_through_its_printed_rate() {
        for scale in [LIMIT_TICKS_PER_SECOND, 1_000_000] {
            let mut count = 0;
            for period in periods(scale) {
                let (rate, millis) = compute_rate_count_and_unit_millis(period, scale);
                assert_eq!(scale * millis / 1000 / rate, period, "{rate} in {millis} ms");
                count += 1;
            }
            assert!(count > 50_000, "{count} periods at {scale}");
        }
    }

    #[test]
    fn a_rate_that_would_not_round_trip_uses_a_larger_unit() {
        assert_eq!(compute_rate_count_and_unit_millis(125, LIMIT_TICKS_PER_SECOND), (80, 1000));
        assert_eq!(compute_rate_count_and_unit_millis(124, LIMIT_TICKS_PER_SECOND), (4838, 60_000));
    }
}
