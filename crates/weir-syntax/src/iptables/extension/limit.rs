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
    let mut rate = from_period(SCALE * 3600 / 3);
    let mut burst = BURST;
    for t in g.iter() {
        match t.id {
            0 => rate = from_period(period(t, t.arg, SCALE)?),
            _ => burst = value::integer(t, 0, 10_000)?,
        }
    }
    let mut options = vec![OptionValue { negated: false, name: "limit", value: rate }];
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

/// The rate that the tools print for a period in ticks.
fn from_period(period: u64) -> Value {
    let units = [86_400, 3600, 60, 1].map(|seconds| seconds * SCALE);
    let mut chosen = 0;
    for (i, ticks) in units.iter().enumerate().skip(1) {
        if period > *ticks || ticks / period < ticks % period {
            break;
        }
        chosen = i;
    }
    Value::Rate(units[chosen] / period, units[chosen] / SCALE * 1000)
}
