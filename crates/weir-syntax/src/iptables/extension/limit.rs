//! `-m limit`: a token bucket of its rule.

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
            0 => ticks = period(t, t.arg, SCALE)?,
            _ => burst = value::integer(t, 0, 10_000)?,
        }
    }
    let bucket = credits((ticks as u32).wrapping_mul(burst as u32));
    if burst == 0 || bucket < credits(ticks as u32) {
        return g
            .problem("rate and burst are more than the kernel can count")
            .help("a lower --limit-burst (1 at least), or a rate per hour in place of per day")
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

/// Ticks between two packets of `5/min`, at `scale` ticks a second.
pub(super) fn period(t: &Taken, text: &str, scale: u64) -> Fallible<u64> {
    let (count, unit) = text.split_once('/').map_or((text, None), |(c, u)| (c, Some(u)));
    let seconds = match unit {
        None => Some(1),
        Some(u) => seconds_of(u),
    };
    let count = number::atoi(count) as i32;
    let (Some(seconds), true) = (seconds, count != 0) else {
        return t
            .problem(format!("{text} is no rate"))
            .help("write a number and /second, /minute, /hour or /day")
            .fail();
    };
    // The tool computes in 32 bits: a negative count is a huge one.
    match scale * seconds / u64::from(count as u32) {
        0 => t.problem(format!("{text} is faster than the kernel's clock")).fail(),
        period => Ok(period),
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

/// The rate that the tools print for a period in ticks: count, and the unit in milliseconds.
pub(super) fn printed(period: u64, scale: u64) -> (u64, u64) {
    let units = [86_400, 3600, 60, 1].map(|seconds| seconds * scale);
    let mut chosen = 0;
    for (i, ticks) in units.iter().enumerate().skip(1) {
        if period > *ticks || ticks / period < ticks % period {
            break;
        }
        chosen = i;
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
