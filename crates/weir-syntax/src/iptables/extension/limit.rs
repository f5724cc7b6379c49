//! `-m limit`: a token bucket per rule.

use weir_model::Match;
use weir_model::matching::{OptionValue, Stateful, Value};

use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, Given, Taken, opt};
use crate::number;

pub(super) static LIMIT: Extension<Match> = Extension {
    name: "limit",
    family: None,
    options: &[opt("limit", 0), opt("limit-burst", 1)],
    build,
    place: ANYWHERE,
};

/// Ticks of the kernel's clock a second (`XT_LIMIT_SCALE`).
const SCALE: u64 = 10_000;
/// Burst where none is given; it is not printed back.
const BURST: u64 = 5;

fn build(g: &Given) -> Fallible<Match> {
    let mut ticks = SCALE * 3600 / 3;
    let mut burst = BURST;
    for t in g.iter() {
        match t.id {
            // The tool keeps the count in 32 bits: a negative one is huge.
            0 => ticks = period(t, SCALE, |n| u64::from(n as u32))?.ticks,
            _ => burst = value::integer(t, 0, 10_000)?,
        }
    }
    let bucket = credits((ticks as u32).wrapping_mul(burst as u32));
    if burst == 0 || bucket < credits(ticks as u32) {
        return g
            .problem("rate and burst exceed what the kernel can count")
            .help("use a lower --limit-burst (at least 1), or a rate per hour instead of per day")
            .fail();
    }
    let (count, unit) = printed(ticks, SCALE);
    let value = Value::Rate(count, unit);
    let mut options = vec![OptionValue { negated: false, name: "limit", value }];
    if burst != BURST {
        let value = Value::Number(burst);
        options.push(OptionValue { negated: false, name: "limit-burst", value });
    }
    Ok(Match::Stateful(Box::new(Stateful { module: "limit", options })))
}

/// A rate as the tool computes it.
pub(super) struct Period {
    /// Ticks between two packets.
    pub ticks: u64,
    /// Seconds of the unit that was written.
    pub seconds: u64,
}

/// The period of `5/min`, at `scale` ticks a second; `narrow` makes of the count what the tool
/// keeps of it.
pub(super) fn period(t: &Taken, scale: u64, narrow: fn(i64) -> u64) -> Fallible<Period> {
    let (count, unit) = t.arg.split_once('/').map_or((t.arg, None), |(c, u)| (c, Some(u)));
    let seconds = match unit {
        None => Some(1),
        Some(u) => seconds_of(u),
    };
    let count = narrow(number::atoi(count));
    let (Some(seconds), true) = (seconds, count != 0) else {
        return t
            .problem(format!("{} is not a rate", t.arg))
            .help("write a number and /second, /minute, /hour or /day")
            .fail();
    };
    match scale * seconds / count {
        0 => t
            .problem(format!("{} is faster than the kernel's clock", t.arg))
            .help(format!("the fastest rate is {scale}/sec"))
            .fail(),
        ticks => Ok(Period { ticks, seconds }),
    }
}

/// Seconds of a unit, which may be abbreviated.
pub(super) fn seconds_of(unit: &str) -> Option<u64> {
    [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400)]
        .into_iter()
        .find(|(name, _)| {
            !unit.is_empty()
                && unit.len() <= name.len()
                && name.as_bytes()[..unit.len()].eq_ignore_ascii_case(unit.as_bytes())
        })
        .map(|(_, seconds)| seconds)
}

/// The rate for a period in ticks: count, and the unit in milliseconds.
///
/// It is what the tools print, unless that would be read back as another period: `80/sec`
/// represents 125 ticks of a ten-thousandth of a second, and `iptables-save` prints it for 124,
/// too. Then it is the rate in the next larger unit that is read back correctly; in days every
/// period is, because each is a whole part of a day's ticks divided by a count.
pub(super) fn printed(period: u64, scale: u64) -> (u64, u64) {
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
fn credits(ticks: u32) -> u32 {
    const PER_SECOND: u32 = 32_000;
    if ticks > u32::MAX / PER_SECOND {
        return (ticks / SCALE as u32).wrapping_mul(PER_SECOND);
    }
    ticks.wrapping_mul(PER_SECOND) / SCALE as u32
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
    fn every_period_is_printed_as_a_rate_that_is_read_back_as_it() {
        for scale in [SCALE, 1_000_000] {
            let mut count = 0;
            for period in periods(scale) {
                let (rate, millis) = printed(period, scale);
                assert_eq!(scale * millis / 1000 / rate, period, "{rate} in {millis} ms");
                count += 1;
            }
            assert!(count > 50_000, "{count} periods at {scale}");
        }
    }

    #[test]
    fn a_rate_that_would_be_read_back_otherwise_has_a_larger_unit() {
        assert_eq!(printed(125, SCALE), (80, 1000));
        assert_eq!(printed(124, SCALE), (4838, 60_000));
    }
}
