//! Stateful matches: recent, statistic, quota, connlimit, connbytes.

use weir_model::Match;
use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};
use weir_model::{Addr, Family};

use super::extension_value_builders::{ModuleOptionsBuilder, stateful_match};
use super::option_value_printing::{print_option_value, print_text_quoted_if_needed};
use super::option_values;
use crate::diagnostic::ParseResult;
use crate::iptables::address;
use crate::iptables::option_specs_and_arguments::{
    Extension, ParsedExtensionOptions, ParsedOption, flag_option, option_with_argument,
};
use crate::{append_text, strtoul};

pub(super) static RECENT_MATCH: Extension<Match> = Extension {
    name: "recent",
    options: &[
        flag_option("set", 0).invertible().excludes(0b1110),
        flag_option("rcheck", 1).invertible().excludes(0b1101),
        flag_option("update", 2).invertible().excludes(0b1011),
        flag_option("remove", 3).invertible().excludes(0b0111),
        option_with_argument("seconds", 4),
        flag_option("reap", 5).requires_all(1 << 4),
        option_with_argument("hitcount", 6),
        flag_option("rttl", 7).excludes(1 << 0 | 1 << 3),
        option_with_argument("name", 8),
        option_with_argument("mask", 9),
        flag_option("rsource", 10),
        flag_option("rdest", 11),
    ],
    build: build_recent_match,
    print_value: print_text_quoted_if_needed,
    ..Extension::DEFAULT
};

pub(super) static STATISTIC_MATCH: Extension<Match> = Extension {
    name: "statistic",
    options: &[
        option_with_argument("mode", 0).mandatory(),
        option_with_argument("probability", 1).invertible().excludes(0b1100),
        option_with_argument("every", 2).invertible().excludes(0b0010).requires_all(0b1000),
        option_with_argument("packet", 3).excludes(0b0010).requires_all(0b0100),
    ],
    build: build_statistic_match,
    ..Extension::DEFAULT
};

pub(super) static QUOTA_MATCH: Extension<Match> = Extension {
    name: "quota",
    options: &[option_with_argument("quota", 0).invertible().mandatory()],
    build: |g| {
        let Some(t) = g.first_with_id(0) else {
            return g.extension_error("quota without --quota").into_err();
        };
        let value = ExtensionValue::Number(option_values::parse_integer(t, 0, u64::MAX)?);
        let options = vec![TypedExtensionOption { negated: t.negated, name: "quota", value }];
        Ok(stateful_match("quota", options))
    },
    ..Extension::DEFAULT
};

pub(super) static CONNLIMIT_MATCH: Extension<Match> = Extension {
    name: "connlimit",
    options: &[
        option_with_argument("connlimit-upto", 0).invertible().excludes(0b0010),
        option_with_argument("connlimit-above", 1).invertible().excludes(0b0001),
        option_with_argument("connlimit-mask", 2),
        flag_option("connlimit-saddr", 3).excludes(1 << 4),
        flag_option("connlimit-daddr", 4).excludes(1 << 3),
    ],
    build: build_connlimit_match,
    ..Extension::DEFAULT
};

pub(super) static CONNBYTES_MATCH: Extension<Match> = Extension {
    name: "connbytes",
    options: &[
        option_with_argument("connbytes", 0).invertible().mandatory(),
        option_with_argument("connbytes-dir", 1).mandatory(),
        option_with_argument("connbytes-mode", 2).mandatory(),
    ],
    build: build_connbytes_match,
    print_value: print_range_omitting_unlimited_end,
    ..Extension::DEFAULT
};

/// Longest list name (`XT_RECENT_NAME_LEN`, with its end mark).
const RECENT_NAME_MAX_BYTES: usize = 199;
/// Most packets that a list remembers of an address (`XT_RECENT_MAX_NSTAMPS`).
const RECENT_HITCOUNT_MAX: u64 = 65_535;

fn build_recent_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(op) = g.iter().find(|t| t.id <= 3) else {
        return g
            .extension_error("recent without an operation")
            .with_help("give --set, --rcheck, --update or --remove")
            .into_err();
    };
    let mut options = vec![TypedExtensionOption {
        negated: op.negated,
        name: g.option_name_without_dashes(op.id),
        value: ExtensionValue::Flag,
    }];
    let mut push = |name, value| options.push(TypedExtensionOption { negated: false, name, value });
    for (id, min, max) in [(4, 1, u32::MAX.into()), (5, 0, 0), (6, 0, RECENT_HITCOUNT_MAX)] {
        let Some(t) = g.first_with_id(id) else { continue };
        let given = match id {
            5 => ExtensionValue::Flag,
            _ => match option_values::parse_integer(t, min, max)? {
                0 => continue,
                n => ExtensionValue::Number(n),
            },
        };
        if matches!(op.id, 0 | 3) {
            return t
                .arg_error(format!(
                    "--{} with --{}",
                    g.option_name_without_dashes(id),
                    g.option_name_without_dashes(op.id)
                ))
                .with_help("it is an option of --rcheck and --update")
                .into_err();
        }
        push(g.option_name_without_dashes(id), given);
    }
    if g.has_option(7) {
        push("rttl", ExtensionValue::Flag);
    }
    let name = g.first_with_id(8).map_or("DEFAULT", |t| t.arg);
    if let Some(t) = g.first_with_id(8)
        && (name.is_empty()
            || name.len() > RECENT_NAME_MAX_BYTES
            || name.contains('/')
            || name == "."
            || name == "..")
    {
        return t
            .arg_error("invalid list name")
            .with_help("a name has 1 to 199 bytes and no slash")
            .into_err();
    }
    push("name", ExtensionValue::Text(name.to_owned()));
    let mask = match g.first_with_id(9) {
        Some(t) => option_values::parse_host_addr(t, g)?,
        None => Addr(g.family.max_addr()),
    };
    push("mask", ExtensionValue::Addr(mask));
    let side = g
        .iter()
        .filter(|t| t.id >= 10)
        .last()
        .map_or("rsource", |t| g.option_name_without_dashes(t.id));
    push(side, ExtensionValue::Flag);
    Ok(stateful_match("recent", options))
}

fn build_statistic_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(mode) = g.first_with_id(0) else {
        return g.extension_error("statistic without --mode").into_err();
    };
    let mut options = ModuleOptionsBuilder::default();
    match (mode.arg, g.first_with_id(1), g.first_with_id(2), g.first_with_id(3)) {
        ("random", Some(t), None, _) => {
            options.push_non_negated("mode", ExtensionValue::Keyword("random"));
            let value = ExtensionValue::Probability(parse_probability(t)?);
            options.0.push(TypedExtensionOption { negated: t.negated, name: "probability", value });
        }
        ("nth", None, Some(every), Some(packet)) => {
            options.push_non_negated("mode", ExtensionValue::Keyword("nth"));
            let n = option_values::parse_integer(every, 1, u32::MAX.into())?;
            let p = option_values::parse_integer(packet, 0, u32::MAX.into())?;
            if p >= n {
                return packet.arg_error(format!("{p} is not below --every {n}")).into_err();
            }
            let value = ExtensionValue::Number(n);
            options.0.push(TypedExtensionOption { negated: every.negated, name: "every", value });
            options.push_non_negated("packet", ExtensionValue::Number(p));
        }
        ("random", None, ..) => {
            return g.extension_error("mode random without --probability").into_err();
        }
        ("nth", ..) => return g.extension_error("mode nth needs --every and --packet").into_err(),
        ("random", ..) => return g.extension_error("mode random with options of nth").into_err(),
        (other, ..) => return mode.arg_error(format!("{other} is not random or nth")).into_err(),
    }
    Ok(stateful_match("statistic", options.0))
}

fn parse_probability(t: &ParsedOption) -> ParseResult<u32> {
    match t.arg.trim_start().parse::<f64>() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok((p * f64::from(1u32 << 31)).round() as u32),
        _ => t.arg_error(format!("{} is not a probability from 0 to 1", t.arg)).into_err(),
    }
}

fn build_connlimit_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(t) = g.iter().find(|t| t.id <= 1) else {
        return g
            .extension_error("connlimit without a limit")
            .with_help("give --connlimit-upto or --connlimit-above")
            .into_err();
    };
    let limit = option_values::parse_integer(t, 0, u32::MAX.into())?;
    let mut options = ModuleOptionsBuilder::default();
    let above = (t.id == 1) != t.negated;
    options.push_non_negated(
        if above { "connlimit-above" } else { "connlimit-upto" },
        ExtensionValue::Number(limit),
    );
    let len = match g.first_with_id(2) {
        None => g.family.addr_bits(),
        Some(t) => parse_connlimit_mask(t, g.family)?,
    };
    options.push_non_negated("connlimit-mask", ExtensionValue::Number(len.into()));
    let side = if g.has_option(4) { "connlimit-daddr" } else { "connlimit-saddr" };
    options.push_non_negated(side, ExtensionValue::Flag);
    Ok(stateful_match("connlimit", options.0))
}

/// The length of a mask. IPv4 takes any longer one for that of an address.
fn parse_connlimit_mask(t: &ParsedOption, family: Family) -> ParseResult<u32> {
    let bits = family.addr_bits();
    let len = address::parse_mask(t.arg, family).and_then(|m| family.prefix_len_of_mask(m.0));
    let is_longer = family == Family::V4
        && strtoul::parse_number_in_range(t.arg, bits.into(), u32::MAX.into()).is_some();
    match len {
        Some(len) => Ok(len),
        None if is_longer => Ok(bits),
        None => t
            .arg_error(format!("{} is not a prefix length to {bits}", t.arg))
            .with_help("iptables would count the connections of each address: write the length")
            .into_err(),
    }
}

fn build_connbytes_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let (Some(t), Some(dir), Some(mode)) =
        (g.first_with_id(0), g.first_with_id(1), g.first_with_id(2))
    else {
        return g.extension_error("connbytes needs all of its options").into_err();
    };
    let (lo, hi) = option_values::parse_number_range(t, u64::MAX)?;
    // A single number is a lower bound.
    let hi = if t.arg.contains(':') { hi } else { u64::MAX };
    if lo > hi {
        return t
            .arg_error(format!("the lower end of {} is above its upper end", t.arg))
            .into_err();
    }
    let value = ExtensionValue::Range(lo, hi);
    let word = |t: &ParsedOption, words: &[&'static str]| match words.iter().find(|w| **w == t.arg)
    {
        Some(w) => Ok(ExtensionValue::Keyword(w)),
        None => t.arg_error(format!("{} is not one of {}", t.arg, words.join(", "))).into_err(),
    };
    // The tool says "not" by swapping the bounds: with equal ones that says nothing.
    let negated = t.negated && lo != hi;
    let options = vec![
        TypedExtensionOption { negated, name: "connbytes", value },
        TypedExtensionOption {
            negated: false,
            name: "connbytes-mode",
            value: word(mode, &["packets", "bytes", "avgpkt"])?,
        },
        TypedExtensionOption {
            negated: false,
            name: "connbytes-dir",
            value: word(dir, &["original", "reply", "both"])?,
        },
    ];
    Ok(stateful_match("connbytes", options))
}

/// A range without an upper end ends after its lower one.
fn print_range_omitting_unlimited_end(out: &mut String, o: &TypedExtensionOption, family: Family) {
    let ExtensionValue::Range(lo, hi) = &o.value else { return print_option_value(out, o, family) };
    append_text::append_decimal(out, *lo);
    if *hi != u64::MAX {
        out.push(':');
        append_text::append_decimal(out, *hi);
    }
}
