//! `-m hashlimit`: token buckets by address and port, kept under a name.
//!
//! In packets a rate is the time between two packets, in units of a millionth of a second; in
//! bytes it is a cost per 16 bytes, and what is printed is computed back from that cost.

use weir_model::Match;
use weir_model::matching::Value;

use super::limit::seconds_of;
use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::address;
use crate::iptables::option::{ANYWHERE, Extension, Given, Taken, opt};
use crate::{number, write};

pub(super) static HASHLIMIT: Extension<Match> = Extension {
    name: "hashlimit",
    family: None,
    options: &[
        opt("hashlimit-upto", 0).invert().excludes(1 << 1),
        opt("hashlimit", 0).invert().excludes(1 << 1),
        opt("hashlimit-above", 1).invert().excludes(1 << 0),
        opt("hashlimit-srcmask", 2),
        opt("hashlimit-dstmask", 3),
        opt("hashlimit-burst", 4),
        opt("hashlimit-htable-size", 5),
        opt("hashlimit-htable-max", 6),
        opt("hashlimit-htable-gcinterval", 7),
        opt("hashlimit-htable-expire", 8),
        opt("hashlimit-mode", 9),
        opt("hashlimit-name", 10).mandatory(),
        crate::iptables::option::flag("hashlimit-rate-match", 11),
        opt("hashlimit-rate-interval", 12),
    ],
    build: hashlimit,
    place: ANYWHERE,
};

/// Ticks a second (`XT_HASHLIMIT_SCALE_v2`).
const SCALE: u64 = 1_000_000;
const RATE_MATCH: u8 = 11;
const BURST: u64 = 5;
const BURST_MAX: u64 = 1_000_000;
/// Milliseconds between two sweeps where not given; not printed back.
const GC_INTERVAL: u64 = 1000;

/// A rate, with the milliseconds after which an idle entry expires by default as the tool computes
/// it when reading, and as it assumes it when printing.
struct Rate {
    value: Value,
    burst: Option<Value>,
    /// Seconds, for a match of the rate itself.
    interval: u64,
    expire_read: u64,
    expire_print: u64,
}

fn hashlimit(g: &Given) -> Fallible<Match> {
    let Some(t) = g.iter().find(|t| t.id <= 1) else {
        return g
            .problem("hashlimit without a rate")
            .help("give --hashlimit-upto or --hashlimit-above")
            .fail();
    };
    let rate = if t.arg.contains("b/s") { in_bytes(t, g)? } else { in_packets(t, g)? };
    let mut options = super::Options::default();
    let above = (t.id == 1) != t.negated;
    options.push(if above { "hashlimit-above" } else { "hashlimit-upto" }, rate.value);
    if let Some(burst) = rate.burst {
        options.push("hashlimit-burst", burst);
    }
    if let Some(mode) = g.first(9)
        && let Some(modes) = modes(mode)?
    {
        options.push("hashlimit-mode", modes);
    }
    let Some(name) = g.first(10) else { return g.problem("no --hashlimit-name").fail() };
    if name.arg.is_empty()
        || name.arg.len() > 254
        || name.arg.contains('/')
        || name.arg == "."
        || name.arg == ".."
    {
        return name.problem("no name of a table").help("1 to 254 bytes, without a slash").fail();
    }
    options.push("hashlimit-name", Value::Text(name.arg.to_owned()));
    let plain = [(5, 0), (6, 0), (7, GC_INTERVAL), (8, rate.expire_print)];
    for (id, silent) in plain {
        let n = match g.first(id) {
            // A table that is never, or always, swept is refused by the kernel.
            Some(t) => value::integer(t, u64::from(id >= 7), u32::MAX.into())?,
            None if id == 8 => rate.expire_read,
            None => continue,
        };
        if n != silent {
            options.push(g.spelled(id), Value::Number(n));
        }
    }
    for id in [2, 3] {
        let Some(t) = g.first(id) else { continue };
        let bits = g.family.bits();
        match address::mask(t.arg, g.family).map(|m| g.family.prefix_len(m.0)) {
            Some(Some(len)) if len == bits => {}
            Some(Some(len)) => options.push(g.spelled(id), Value::Number(len.into())),
            _ => return t.problem(format!("{} is no prefix length to {bits}", t.arg)).fail(),
        }
    }
    if g.has(RATE_MATCH) {
        options.push("hashlimit-rate-match", Value::Flag);
    }
    let interval = match g.first(12) {
        Some(t) => match number::atoi(t.arg) {
            n if n > 0 => n as u64,
            _ => return t.problem(format!("{} is no interval from 1 second on", t.arg)).fail(),
        },
        None => rate.interval,
    };
    if g.has(RATE_MATCH) && interval != 1 {
        options.push("hashlimit-rate-interval", Value::Number(interval));
    }
    Ok(super::stateful("hashlimit", options.0))
}

fn in_packets(t: &Taken, g: &Given) -> Fallible<Rate> {
    let unit = t.arg.split_once('/').map_or(Some(1), |(_, u)| seconds_of(u));
    let period = super::limit::period(t, t.arg, SCALE)?;
    let (count, millis) = super::limit::printed(period, SCALE);
    let burst = match g.first(4) {
        None => BURST,
        Some(t) => match leading_bytes(t.arg) {
            Some(n) if (1..=BURST_MAX).contains(&n) => n,
            _ => return t.problem(format!("{} is not from 1 to {BURST_MAX}", t.arg)).fail(),
        },
    };
    let expire_read = unit.unwrap_or(1) * 1000;
    let burst = Some(Value::Number(burst));
    // A flow's rate is compared with a number per interval: no period is computed.
    if g.has(RATE_MATCH) {
        let count = number::atoi(t.arg).max(0) as u64;
        let (value, interval) = (Value::Rate(count, 1000), expire_read / 1000);
        return Ok(Rate { value, burst, interval, expire_read, expire_print: 1000 });
    }
    let value = Value::Rate(count, millis);
    Ok(Rate { value, burst, interval: 1, expire_read, expire_print: millis })
}

/// `512kb/s`.
fn in_bytes(t: &Taken, g: &Given) -> Fallible<Rate> {
    let Some(bytes) = byte_count(t.arg.trim_end_matches("/s")) else {
        return t.problem(format!("{} is no rate", t.arg)).help("write e.g. 512kb/s").fail();
    };
    let cost = u64::from(u32::MAX) / ((bytes >> 4) + 1);
    if bytes >> 4 == 0 || cost == 0 {
        return t.problem(format!("{} is too slow or too fast for the kernel", t.arg)).fail();
    }
    let real = (u64::from(u32::MAX) / cost - 1) << 4;
    let burst = match g.first(4) {
        None => None,
        Some(t) => match leading_bytes(t.arg) {
            Some(burst) if burst < real => {
                return t.problem(format!("burst is below the rate of {real} bytes")).fail();
            }
            Some(burst) => Some(Value::Text(spelled(burst.div_ceil(real) * real))),
            None => return t.problem(format!("{} is no number of bytes", t.arg)).fail(),
        },
    };
    let expire = if burst.is_some() { 60_000 } else { 15_000 };
    Ok(Rate {
        value: Value::Text(format!("{}/s", spelled(real))),
        burst,
        interval: 1,
        expire_read: expire,
        expire_print: expire,
    })
}

/// A burst: what follows the number counts only where it is a unit.
fn leading_bytes(text: &str) -> Option<u64> {
    byte_count(text).or_else(|| Some(number::leading(text)?.0)).filter(|n| *n <= u32::MAX.into())
}

/// `10b`, `5kb`, `1mb`.
fn byte_count(text: &str) -> Option<u64> {
    let (count, unit) = number::leading(text)?;
    let factor = match unit {
        "b" => 1,
        "kb" => 1 << 10,
        "mb" => 1 << 20,
        _ => return None,
    };
    count.checked_mul(factor).filter(|n| *n <= u32::MAX.into())
}

fn spelled(bytes: u64) -> String {
    let (factor, unit) = match bytes {
        b if b >= 1 << 20 => (1 << 20, "mb"),
        b if b >= 1 << 10 => (1 << 10, "kb"),
        _ => (1, "b"),
    };
    format!("{}{unit}", bytes / factor)
}

fn modes(t: &Taken) -> Fallible<Option<Value>> {
    // In the order of printing.
    const MODES: [&str; 4] = ["srcip", "srcport", "dstip", "dstport"];
    let mut set = [false; 4];
    for word in t.arg.split(',').filter(|w| !w.is_empty()) {
        match MODES.iter().position(|m| *m == word) {
            Some(i) => set[i] = true,
            None => return t.problem(format!("{word} is not one of {}", MODES.join(", "))).fail(),
        }
    }
    let chosen: Vec<_> = (0..4).filter(|i| set[*i]).map(|i| MODES[i]).collect();
    Ok((!chosen.is_empty()).then_some(Value::Words(chosen)))
}

/// Names and rates in bytes are printed as they are.
pub(super) fn print_value(out: &mut String, v: &Value) -> bool {
    let Value::Text(text) = v else { return false };
    write::word(out, text);
    true
}
