//! `-m hashlimit`: token buckets by address and port, shared by name.
//!
//! For packets, a rate is the time between two packets, in microseconds; for bytes, it is a cost
//! per 16 bytes, from which the printed value is computed.

use weir_model::Match;
use weir_model::matching::Value;

use super::build::{ModuleOptions, stateful};
use super::limit::{Period, seconds_of};
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
/// Most entries and buckets: the kernel lowers what is above (`HASHLIMIT_MAX_SIZE`).
const TABLE_MAX: u64 = 1_048_576;
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
    let rate = if t.arg.contains("b/s") && !t.arg.starts_with("b/s") {
        in_bytes(t, g)?
    } else {
        in_packets(t, g)?
    };
    let mut options = ModuleOptions::default();
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
        return name
            .problem("invalid table name")
            .help("a name has 1 to 254 bytes and no slash")
            .fail();
    }
    options.push("hashlimit-name", Value::Text(name.arg.to_owned()));
    let plain = [(5, 0), (6, 0), (7, GC_INTERVAL), (8, rate.expire_print)];
    for (id, silent) in plain {
        let n = match g.first(id) {
            // A table that is never, or always, swept is refused by the kernel.
            Some(t) if id < 7 => value::integer(t, 0, u32::MAX.into())?.min(TABLE_MAX),
            Some(t) => value::integer(t, 1, u32::MAX.into())?,
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
            _ => return t.problem(format!("{} is not a prefix length to {bits}", t.arg)).fail(),
        }
    }
    if g.has(RATE_MATCH) {
        options.push("hashlimit-rate-match", Value::Flag);
    }
    let interval = match g.first(12) {
        Some(t) => match number::atoi(t.arg) {
            n if n > 0 => n as u64,
            _ => return t.problem(format!("{} is not an interval from 1 second on", t.arg)).fail(),
        },
        None => rate.interval,
    };
    if g.has(RATE_MATCH) && interval != 1 {
        options.push("hashlimit-rate-interval", Value::Number(interval));
    }
    Ok(stateful("hashlimit", options.0))
}

fn in_packets(t: &Taken, g: &Given) -> Fallible<Rate> {
    let Period { ticks, seconds } = super::limit::period(t, SCALE, |n| n as u64)?;
    let burst = match g.first(4) {
        None => BURST,
        Some(t) => match burst_of(t)? {
            n if n <= BURST_MAX => n,
            n => {
                return t
                    .problem(format!("{n} is not from 1 to {BURST_MAX}"))
                    .help("give a lower burst")
                    .fail();
            }
        },
    };
    let expire_read = seconds * 1000;
    // A flow's rate is compared with a number of packets in an interval: the unit is the interval.
    if g.has(RATE_MATCH) {
        let ticks = ticks / seconds;
        if ticks == 0 {
            return t
                .problem(format!("{} is faster than the kernel's clock", t.arg))
                .help("the fastest rate is 1000000/sec")
                .fail();
        }
        let (count, millis) = super::limit::printed(ticks, SCALE);
        let value = Value::Rate(count, millis);
        let burst = Some(Value::Number(burst));
        return Ok(Rate { value, burst, interval: seconds, expire_read, expire_print: millis });
    }
    if credits(ticks.wrapping_mul(burst)) < credits(ticks) {
        return t
            .problem("rate and burst exceed what the kernel can count")
            .help("use a lower --hashlimit-burst, or a rate per hour instead of per day")
            .fail();
    }
    let (count, millis) = super::limit::printed(ticks, SCALE);
    let (value, burst) = (Value::Rate(count, millis), Some(Value::Number(burst)));
    Ok(Rate { value, burst, interval: 1, expire_read, expire_print: millis })
}

/// Credits that the kernel gives for ticks, in its own 64 bits (`user2credits` in
/// net/netfilter/xt_hashlimit.c, for kernels of 250 or 1000 ticks a second).
fn credits(ticks: u64) -> u64 {
    ticks.wrapping_mul(137_438_953)
}

/// `512kb/s`.
///
/// The kernel stores a cost of 16 bytes, 2^32 divided by the rate: neighbouring rates have one
/// cost, and are one value. Its text is what the tool prints of it.
fn in_bytes(t: &Taken, g: &Given) -> Fallible<Rate> {
    let Some(bytes) = byte_rate(t.arg) else {
        return t.problem(format!("{} is not a rate", t.arg)).help("write e.g. 512kb/s").fail();
    };
    // The least cost gives no credit (`user2credits_byte` in net/netfilter/xt_hashlimit.c).
    let least = if g.has(RATE_MATCH) { 1 } else { 2 };
    let Some(cost) = cost_of(bytes).filter(|cost| *cost >= least) else {
        return t
            .problem(format!("{} is too fast for the kernel", t.arg))
            .help("rates are below 32768mb/s")
            .fail();
    };
    let real = bytes_of(cost);
    let mut rate = Rate {
        value: Value::Text(format!("{}/s", rate_text(cost))),
        burst: None,
        interval: 1,
        expire_read: 15_000,
        expire_print: 15_000,
    };
    if let Some(t) = g.first(4) {
        let burst = burst_of(t)?;
        if burst < real || real == 0 {
            return t
                .problem(format!("burst is below the rate of {real} bytes"))
                .help("give a burst of at least the rate, or a rate of at least 32 bytes")
                .fail();
        }
        rate.expire_read = 60_000;
        let seconds = seconds_of_burst(burst, real);
        if seconds != 0 {
            rate.expire_print = 60_000;
            rate.burst = Some(Value::Text(burst_text(seconds, real)));
        }
    }
    Ok(rate)
}

/// Bytes a second of `512kb/s`: decimal, in units of 1, 2^10 or 2^20 bytes.
fn byte_rate(text: &str) -> Option<u64> {
    let (rate, second) = text.split_once("b/")?;
    seconds_of(second).filter(|s| *s == 1)?;
    let (count, factor) = match rate.as_bytes().last()? {
        b'k' => (&rate[..rate.len() - 1], 1 << 10),
        b'm' => (&rate[..rate.len() - 1], 1 << 20),
        _ => (rate, 1u64),
    };
    let digits = count.bytes().all(|b| b.is_ascii_digit());
    count.parse::<u64>().ok().filter(|n| digits && *n > 0)?.checked_mul(factor)
}

/// What the kernel stores for a rate: none where it is too fast for 32 bits.
fn cost_of(bytes: u64) -> Option<u64> {
    // The tool's 32 bits: what does not fit would wrap around to a slow rate.
    let units = u32::try_from(bytes >> 4).ok().filter(|n| *n != u32::MAX)?;
    Some(u64::from(u32::MAX / (units + 1)))
}

/// The slowest rate of a cost.
fn bytes_of(cost: u64) -> u64 {
    (u64::from(u32::MAX) / cost - 1) << 4
}

/// A rate of that cost in the largest unit that can say it, as the tool chooses it.
fn rate_text(cost: u64) -> String {
    let bytes = bytes_of(cost);
    // Below 16 bytes per second the tool prints 0, and refuses to read it.
    if bytes == 0 {
        return "1b".to_owned();
    }
    for (unit, name) in [(1u64 << 20, "mb"), (1 << 10, "kb")] {
        // The tool's mask has 32 bits.
        let rounded = bytes & u64::from(!(unit as u32 - 1));
        if bytes >= unit && cost_of(rounded) == Some(cost) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}b")
}

/// The burst that the kernel stores: a number of times the rate, computed in 32 bits.
fn seconds_of_burst(burst: u64, real: u64) -> u64 {
    let whole = u64::from(burst as u32) / real;
    whole + u64::from(!burst.is_multiple_of(real))
}

/// A burst that is read back as that number of seconds, in the largest unit that can say it.
fn burst_text(seconds: u64, real: u64) -> String {
    let bytes = match seconds * real {
        bytes if bytes <= u32::MAX.into() => bytes,
        // Of a rate above 32 bits no whole second fits, only a rest.
        _ => (seconds - 1) * real + 1,
    };
    let bytes = if bytes < real { real + 1 } else { bytes };
    for (unit, name) in [(1u64 << 20, "mb"), (1 << 10, "kb")] {
        let rounded = bytes / unit * unit;
        if rounded >= real && seconds_of_burst(rounded, real) == seconds {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}b")
}

/// A burst: a number, the unit by the letter that follows it.
fn burst_of(t: &Taken) -> Fallible<u64> {
    let read = || {
        let (count, unit) = number::leading(t.arg).filter(|(n, _)| *n > 0)?;
        if unit.is_empty() && count > BURST_MAX {
            return None;
        }
        count.checked_mul(match unit.as_bytes().first() {
            Some(b'k') => 1 << 10,
            Some(b'm') => 1 << 20,
            _ => 1,
        })
    };
    match read() {
        Some(n) => Ok(n),
        None => t
            .problem(format!("{} is not a burst", t.arg))
            .help(format!("a number from 1 to {BURST_MAX}, or one with a unit: 64kb"))
            .fail(),
    }
}

fn modes(t: &Taken) -> Fallible<Option<Value>> {
    // In the order of printing.
    const MODES: [&str; 4] = ["srcip", "srcport", "dstip", "dstport"];
    let mut set = [false; 4];
    for word in t.arg.split([',', '|']).filter(|w| !w.is_empty()) {
        match MODES.iter().position(|m| *m == word) {
            Some(i) => set[i] = true,
            None => return t.problem(format!("{word} is not one of {}", MODES.join(", "))).fail(),
        }
    }
    let chosen: Vec<_> = (0..4).filter(|i| set[*i]).map(|i| MODES[i]).collect();
    Ok((!chosen.is_empty()).then_some(Value::Words(chosen)))
}

/// Names and rates in bytes are printed unchanged.
pub(super) fn print_value(out: &mut String, v: &Value) -> bool {
    let Value::Text(text) = v else { return false };
    write::word(out, text);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_is_printed_as_a_rate_that_is_read_back_as_it() {
        let all = u64::from(u32::MAX);
        let costs = std::iter::successors(Some(all), |cost| {
            let next = all / (all / cost + 1);
            (next > 0).then_some(next)
        });
        let mut count = 0;
        for cost in costs {
            let text = rate_text(cost);
            let read = byte_rate(&format!("{text}/s")).and_then(cost_of);
            assert_eq!(read, Some(cost), "{text}");
            count += 1;
        }
        assert!(count > 130_000, "{count} costs");
    }

    #[test]
    fn every_burst_is_printed_as_one_that_is_read_back_as_it() {
        for real in [16, 1024, 2_096_176, 1 << 31, 1 << 33] {
            let most = u64::from(u32::MAX) / real + 1;
            for seconds in (1..=most.min(1000)).chain([most]) {
                let text = burst_text(seconds, real);
                let (n, unit) = number::leading(&text).expect("a number");
                let bytes = n * [1, 1 << 10, 1 << 20]
                    [usize::from(unit == "kb") + 2 * usize::from(unit == "mb")];
                assert!(bytes >= real, "{text} of {real}");
                assert_eq!(seconds_of_burst(bytes, real), seconds, "{text} of {real}");
            }
        }
    }
}
