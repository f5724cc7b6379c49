//! `-m hashlimit`: token buckets by address and port, shared by name.
//!
//! For packets, a rate is the time between two packets, in microseconds; for bytes, it is a cost
//! per 16 bytes, from which the printed value is computed.

use weir_model::Match;
use weir_model::match_module_constants::{
    HASHLIMIT_DEFAULT_GC_INTERVAL_MILLIS, HASHLIMIT_TICKS_PER_SECOND,
};
use weir_model::rule_match::ExtensionValue;

use super::extension_value_builders::{ModuleOptionsBuilder, stateful_match};
use super::limit::{PacketIntervalAndUnit, seconds_of_unit};
use super::option_value_printing::print_text_quoted_if_needed;
use super::option_values;
use crate::diagnostic::ParseResult;
use crate::iptables::address;
use crate::iptables::option_specs_and_arguments::{
    Extension, ParsedExtensionOptions, ParsedOption, option_with_argument,
};
use crate::strtoul;

pub(super) static HASHLIMIT_MATCH: Extension<Match> = Extension {
    name: "hashlimit",
    options: &[
        option_with_argument("hashlimit-upto", 0).invertible().excludes(1 << 1),
        option_with_argument("hashlimit", 0).invertible().excludes(1 << 1),
        option_with_argument("hashlimit-above", 1).invertible().excludes(1 << 0),
        option_with_argument("hashlimit-srcmask", 2),
        option_with_argument("hashlimit-dstmask", 3),
        option_with_argument("hashlimit-burst", 4),
        option_with_argument("hashlimit-htable-size", 5),
        option_with_argument("hashlimit-htable-max", 6),
        option_with_argument("hashlimit-htable-gcinterval", 7),
        option_with_argument("hashlimit-htable-expire", 8),
        option_with_argument("hashlimit-mode", 9),
        option_with_argument("hashlimit-name", 10).mandatory(),
        crate::iptables::option_specs_and_arguments::flag_option("hashlimit-rate-match", 11),
        option_with_argument("hashlimit-rate-interval", 12),
    ],
    build: build_hashlimit_match,
    // Names and rates in bytes.
    print_value: print_text_quoted_if_needed,
    ..Extension::DEFAULT
};

const RATE_MATCH_FLAG_OPTION_ID: u8 = 11;
const DEFAULT_BURST_PACKETS: u64 = 5;
const BURST_MAX_PACKETS: u64 = 1_000_000;
/// Most entries and buckets: the kernel lowers what is above (`HASHLIMIT_MAX_SIZE`).
const HASH_TABLE_MAX_ENTRIES_OR_BUCKETS: u64 = 1_048_576;

/// A rate, with the milliseconds after which an idle entry expires by default as the tool computes
/// it when reading, and as it assumes it when printing.
struct HashlimitRateBurstAndExpiryDefaults {
    rate_value: ExtensionValue,
    burst: Option<ExtensionValue>,
    /// Seconds, for a match of the rate itself.
    rate_match_interval_seconds: u64,
    default_expire_millis_when_read: u64,
    default_expire_millis_when_printed: u64,
}

fn build_hashlimit_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(t) = g.iter().find(|t| t.id <= 1) else {
        return g
            .extension_error("hashlimit without a rate")
            .with_help("give --hashlimit-upto or --hashlimit-above")
            .into_err();
    };
    let rate = if t.arg.contains("b/s") && !t.arg.starts_with("b/s") {
        parse_byte_rate_and_burst(t, g)?
    } else {
        parse_packet_rate_and_burst(t, g)?
    };
    let mut options = ModuleOptionsBuilder::default();
    let option = if (t.id == 1) != t.negated { "hashlimit-above" } else { "hashlimit-upto" };
    options.push_non_negated(option, rate.rate_value);
    if let Some(burst) = rate.burst {
        options.push_non_negated("hashlimit-burst", burst);
    }
    if let Some(mode) = g.first_with_id(9)
        && let Some(modes) = parse_hashlimit_modes_as_keywords(mode)?
    {
        options.push_non_negated("hashlimit-mode", modes);
    }
    let Some(name) = g.first_with_id(10) else {
        return g.extension_error("no --hashlimit-name").into_err();
    };
    options.push_non_negated("hashlimit-name", parse_hash_table_name(name)?);
    let default_expire = rate.default_expire_millis_when_printed;
    let plain =
        [(5, 0), (6, 0), (7, HASHLIMIT_DEFAULT_GC_INTERVAL_MILLIS.into()), (8, default_expire)];
    for (id, silent) in plain {
        let n = match g.first_with_id(id) {
            // A table that is never, or always, swept is refused by the kernel.
            Some(t) if id < 7 => option_values::parse_integer(t, 0, u32::MAX.into())?
                .min(HASH_TABLE_MAX_ENTRIES_OR_BUCKETS),
            Some(t) => option_values::parse_integer(t, 1, u32::MAX.into())?,
            None if id == 8 => rate.default_expire_millis_when_read,
            None => continue,
        };
        if n != silent {
            options.push_non_negated(g.option_name_without_dashes(id), ExtensionValue::Number(n));
        }
    }
    for id in [2, 3] {
        let Some(t) = g.first_with_id(id) else { continue };
        let bits = g.family.addr_bits();
        match address::parse_mask(t.arg, g.family).map(|m| g.family.prefix_len_of_mask(m.0)) {
            Some(Some(len)) if len == bits => {}
            Some(Some(len)) => options.push_non_negated(
                g.option_name_without_dashes(id),
                ExtensionValue::Number(len.into()),
            ),
            _ => {
                return t
                    .arg_error(format!("{} is not a prefix length to {bits}", t.arg))
                    .into_err();
            }
        }
    }
    if g.has_option(RATE_MATCH_FLAG_OPTION_ID) {
        options.push_non_negated("hashlimit-rate-match", ExtensionValue::Flag);
    }
    let interval = match g.first_with_id(12) {
        Some(t) => parse_rate_interval(t)?,
        None => rate.rate_match_interval_seconds,
    };
    if g.has_option(RATE_MATCH_FLAG_OPTION_ID) && interval != 1 {
        options.push_non_negated("hashlimit-rate-interval", ExtensionValue::Number(interval));
    }
    Ok(stateful_match("hashlimit", options.0))
}

/// The name of a hash table, which rules share; its file below /proc/net has it, too.
fn parse_hash_table_name(t: &ParsedOption) -> ParseResult<ExtensionValue> {
    if t.arg.is_empty() || t.arg.len() > 254 || t.arg.contains('/') || t.arg == "." || t.arg == ".."
    {
        return t
            .arg_error("invalid table name")
            .with_help("a name has 1 to 254 bytes and no slash")
            .into_err();
    }
    Ok(ExtensionValue::Text(t.arg.to_owned()))
}

/// Seconds in which packets are counted, for a match of the rate itself.
/// Seconds as `atoi` reads them, which wraps a number above 2³¹ around; it is refused.
fn parse_rate_interval(t: &ParsedOption) -> ParseResult<u64> {
    match strtoul::parse_atoi(t.arg) {
        n if n > 0 && n <= i32::MAX.into() => Ok(n as u64),
        _ => t
            .arg_error(format!("{} is not an interval from 1 second to 2³¹ - 1", t.arg))
            .with_help("write a number of seconds")
            .into_err(),
    }
}

fn parse_packet_rate_and_burst(
    t: &ParsedOption,
    g: &ParsedExtensionOptions,
) -> ParseResult<HashlimitRateBurstAndExpiryDefaults> {
    let PacketIntervalAndUnit { ticks_between_packets: ticks, unit_seconds: seconds } =
        super::limit::parse_rate_period(t, HASHLIMIT_TICKS_PER_SECOND, |n| n as u64)?;
    let burst = match g.first_with_id(4) {
        None => DEFAULT_BURST_PACKETS,
        Some(t) => match parse_burst_packets_or_bytes(t)? {
            n if n <= BURST_MAX_PACKETS => n,
            n => {
                return t
                    .arg_error(format!("{n} is not from 1 to {BURST_MAX_PACKETS}"))
                    .with_help("give a lower burst")
                    .into_err();
            }
        },
    };
    let expire_read = seconds * 1000;
    // A flow's rate is compared with a number of packets in an interval: the unit is the interval.
    if g.has_option(RATE_MATCH_FLAG_OPTION_ID) {
        let ticks = ticks / seconds;
        if ticks == 0 {
            return t
                .arg_error(format!("{} is faster than the kernel's clock", t.arg))
                .with_help("the fastest rate is 1000000/sec")
                .into_err();
        }
        let (count, millis) =
            super::limit::compute_rate_count_and_unit_millis(ticks, HASHLIMIT_TICKS_PER_SECOND);
        let rate_value = ExtensionValue::RateCountPerMilliseconds(count, millis);
        let burst = Some(ExtensionValue::Number(burst));
        return Ok(HashlimitRateBurstAndExpiryDefaults {
            rate_value,
            burst,
            rate_match_interval_seconds: seconds,
            default_expire_millis_when_read: expire_read,
            default_expire_millis_when_printed: millis,
        });
    }
    if compute_wrapping_credits_of_ticks(ticks.wrapping_mul(burst))
        < compute_wrapping_credits_of_ticks(ticks)
    {
        return t
            .arg_error(
                "the burst is too large for so low a rate: the kernel counts credits in 32 bits",
            )
            .with_help("use a lower --hashlimit-burst, or a rate per hour instead of per day")
            .into_err();
    }
    let (count, millis) =
        super::limit::compute_rate_count_and_unit_millis(ticks, HASHLIMIT_TICKS_PER_SECOND);
    let (rate_value, burst) = (
        ExtensionValue::RateCountPerMilliseconds(count, millis),
        Some(ExtensionValue::Number(burst)),
    );
    Ok(HashlimitRateBurstAndExpiryDefaults {
        rate_value,
        burst,
        rate_match_interval_seconds: 1,
        default_expire_millis_when_read: expire_read,
        default_expire_millis_when_printed: millis,
    })
}

/// Credits that the kernel gives for ticks, in its own 64 bits (`user2credits` in
/// net/netfilter/xt_hashlimit.c, for kernels of 250 or 1000 ticks a second).
fn compute_wrapping_credits_of_ticks(ticks: u64) -> u64 {
    ticks.wrapping_mul(137_438_953)
}

/// `512kb/s`.
///
/// The kernel stores a cost of 16 bytes, 2^32 divided by the rate: neighbouring rates have one
/// cost, and are one value. Its text is what the tool prints of it.
fn parse_byte_rate_and_burst(
    t: &ParsedOption,
    g: &ParsedExtensionOptions,
) -> ParseResult<HashlimitRateBurstAndExpiryDefaults> {
    let Some(bytes) = parse_bytes_per_second(t.arg) else {
        return t
            .arg_error(format!("{} is not a rate", t.arg))
            .with_help("write e.g. 512kb/s")
            .into_err();
    };
    // The least cost gives no credit (`user2credits_byte` in net/netfilter/xt_hashlimit.c).
    let least = if g.has_option(RATE_MATCH_FLAG_OPTION_ID) { 1 } else { 2 };
    let Some(cost) = cost_of_byte_rate(bytes).filter(|cost| *cost >= least) else {
        return t
            .arg_error(format!("{} is too fast for the kernel", t.arg))
            .with_help("rates are below 32768mb/s")
            .into_err();
    };
    let stored_byte_rate = compute_slowest_byte_rate_of_cost(cost);
    let mut rate = HashlimitRateBurstAndExpiryDefaults {
        rate_value: ExtensionValue::Text(format!("{}/s", format_byte_rate_of_cost(cost))),
        burst: None,
        rate_match_interval_seconds: 1,
        default_expire_millis_when_read: 15_000,
        default_expire_millis_when_printed: 15_000,
    };
    if let Some(t) = g.first_with_id(4) {
        let burst = parse_burst_packets_or_bytes(t)?;
        if burst < stored_byte_rate || stored_byte_rate == 0 {
            return t
                .arg_error(format!("burst is below the rate of {stored_byte_rate} bytes"))
                .with_help("give a burst of at least the rate, or a rate of at least 32 bytes")
                .into_err();
        }
        rate.default_expire_millis_when_read = 60_000;
        let seconds = burst_in_seconds_of_rate(burst, stored_byte_rate);
        if seconds != 0 {
            rate.default_expire_millis_when_printed = 60_000;
            rate.burst =
                Some(ExtensionValue::Text(format_byte_burst_of_seconds(seconds, stored_byte_rate)));
        }
    }
    Ok(rate)
}

/// Bytes a second of `512kb/s`: decimal, in units of 1, 2^10 or 2^20 bytes.
fn parse_bytes_per_second(text: &str) -> Option<u64> {
    let (rate, second) = text.split_once("b/")?;
    seconds_of_unit(second).filter(|s| *s == 1)?;
    let (count, factor) = match rate.as_bytes().last()? {
        b'k' => (&rate[..rate.len() - 1], 1 << 10),
        b'm' => (&rate[..rate.len() - 1], 1 << 20),
        _ => (rate, 1u64),
    };
    let digits = count.bytes().all(|b| b.is_ascii_digit());
    count.parse::<u64>().ok().filter(|n| digits && *n > 0)?.checked_mul(factor)
}

/// What the kernel stores for a rate: none where it is too fast for 32 bits.
fn cost_of_byte_rate(bytes: u64) -> Option<u64> {
    // The tool's 32 bits: what does not fit would wrap around to a slow rate.
    let units = u32::try_from(bytes >> 4).ok().filter(|n| *n != u32::MAX)?;
    Some(u64::from(u32::MAX / (units + 1)))
}

/// The slowest rate of a cost.
fn compute_slowest_byte_rate_of_cost(cost: u64) -> u64 {
    (u64::from(u32::MAX) / cost - 1) << 4
}

/// A rate of that cost in the largest unit that can say it, as the tool chooses it.
fn format_byte_rate_of_cost(cost: u64) -> String {
    let bytes = compute_slowest_byte_rate_of_cost(cost);
    // Below 16 bytes per second the tool prints 0, and refuses to read it.
    if bytes == 0 {
        return "1b".to_owned();
    }
    for (unit, name) in [(1u64 << 20, "mb"), (1 << 10, "kb")] {
        // The tool's mask has 32 bits.
        let rounded = bytes & u64::from(!(unit as u32 - 1));
        if bytes >= unit && cost_of_byte_rate(rounded) == Some(cost) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}b")
}

/// The burst that the kernel stores: a number of times the rate, computed in 32 bits.
fn burst_in_seconds_of_rate(burst: u64, stored_byte_rate: u64) -> u64 {
    let whole = u64::from(burst as u32) / stored_byte_rate;
    whole + u64::from(!burst.is_multiple_of(stored_byte_rate))
}

/// A burst that is read back as that number of seconds, in the largest unit that can say it.
fn format_byte_burst_of_seconds(seconds: u64, stored_byte_rate: u64) -> String {
    let bytes = match seconds * stored_byte_rate {
        bytes if bytes <= u32::MAX.into() => bytes,
        // Of a rate above 32 bits no whole second fits, only a rest.
        _ => (seconds - 1) * stored_byte_rate + 1,
    };
    let bytes = if bytes < stored_byte_rate { stored_byte_rate + 1 } else { bytes };
    for (unit, name) in [(1u64 << 20, "mb"), (1 << 10, "kb")] {
        let rounded = bytes / unit * unit;
        if rounded >= stored_byte_rate
            && burst_in_seconds_of_rate(rounded, stored_byte_rate) == seconds
        {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}b")
}

/// A burst: a number, the unit by the letter that follows it.
fn parse_burst_packets_or_bytes(t: &ParsedOption) -> ParseResult<u64> {
    let read = || {
        let (count, unit) = strtoul::parse_leading_number(t.arg).filter(|(n, _)| *n > 0)?;
        if unit.is_empty() && count > BURST_MAX_PACKETS {
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
            .arg_error(format!("{} is not a burst", t.arg))
            .with_help(format!(
                "write a number from 1 to {BURST_MAX_PACKETS}, or one with a unit: 64kb"
            ))
            .into_err(),
    }
}

fn parse_hashlimit_modes_as_keywords(t: &ParsedOption) -> ParseResult<Option<ExtensionValue>> {
    // In the order of printing.
    const HASHLIMIT_MODE_NAMES: [&str; 4] = ["srcip", "srcport", "dstip", "dstport"];
    let mut set = [false; 4];
    for word in t.arg.split([',', '|']).filter(|w| !w.is_empty()) {
        match HASHLIMIT_MODE_NAMES.iter().position(|m| *m == word) {
            Some(i) => set[i] = true,
            None => {
                return t
                    .arg_error(format!("{word} is not one of {}", HASHLIMIT_MODE_NAMES.join(", ")))
                    .into_err();
            }
        }
    }
    let chosen: Vec<_> = (0..4).filter(|i| set[*i]).map(|i| HASHLIMIT_MODE_NAMES[i]).collect();
    Ok((!chosen.is_empty()).then_some(ExtensionValue::KeywordList(chosen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_round_trips_through_its_printed_rate() {
        let all = u64::from(u32::MAX);
        let costs = std::iter::successors(Some(all), |cost| {
            let next = all / (all / cost + 1);
            (next > 0).then_some(next)
        });
        let mut count = 0;
        for cost in costs {
            let text = format_byte_rate_of_cost(cost);
            let read = parse_bytes_per_second(&format!("{text}/s")).and_then(cost_of_byte_rate);
            assert_eq!(read, Some(cost), "{text}");
            count += 1;
        }
        assert!(count > 130_000, "{count} costs");
    }

    #[test]
    fn every_burst_round_trips_through_its_printed_form() {
        for stored_byte_rate in [16, 1024, 2_096_176, 1 << 31, 1 << 33] {
            let most = u64::from(u32::MAX) / stored_byte_rate + 1;
            for seconds in (1..=most.min(1000)).chain([most]) {
                let text = format_byte_burst_of_seconds(seconds, stored_byte_rate);
                let (n, unit) = strtoul::parse_leading_number(&text).expect("a number");
                let bytes = n * [1, 1 << 10, 1 << 20]
                    [usize::from(unit == "kb") + 2 * usize::from(unit == "mb")];
                assert!(bytes >= stored_byte_rate, "{text} of {stored_byte_rate}");
                assert_eq!(
                    burst_in_seconds_of_rate(bytes, stored_byte_rate),
                    seconds,
                    "{text} of {stored_byte_rate}"
                );
            }
        }
    }
}
