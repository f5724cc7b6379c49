//! Values that several extensions share: numbers, ranges, masks, addresses.

use weir_model::Addr;

use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::address::{self, BadAddr};
use crate::iptables::option_specs_and_arguments::{ParsedExtensionOptions, ParsedOption};
use crate::{append_text, strtoul};

/// A number from `min` to `max`.
pub(super) fn parse_integer(t: &ParsedOption, min: u64, max: u64) -> ParseResult<u64> {
    match strtoul::parse_number_in_range(t.arg, min, max) {
        Some(n) => Ok(n),
        None => number_or_range_error(t, t.arg, min, max).into_err(),
    }
}

fn number_or_range_error(t: &ParsedOption, text: &str, min: u64, max: u64) -> Diagnostic {
    match strtoul::parse_number_in_range(text, 0, u64::MAX) {
        Some(_) => t
            .arg_error(format!("{text} is not from {min} to {max}"))
            .with_help(format!("the minimum is {min}, the maximum {max}")),
        None => t
            .arg_error(format!("{text:?} is not a number"))
            .with_help("write it as decimal, 0x… or 0… (octal)"),
    }
}

/// `a`, `a:b`, `a:`, `:b`.
pub(super) fn parse_number_range(t: &ParsedOption, max: u64) -> ParseResult<(u64, u64)> {
    let mut parts = [0, max];
    let mut count = 0;
    for part in t.arg.split(':') {
        if count == 2 {
            return t.arg_error(format!("{} has more than two parts", t.arg)).into_err();
        }
        if !part.is_empty() {
            parts[count] = match strtoul::parse_number_in_range(part, 0, max) {
                Some(n) => n,
                None => return number_or_range_error(t, part, 0, max).into_err(),
            };
        }
        count += 1;
    }
    if count == 1 {
        parts[1] = parts[0];
    }
    Ok((parts[0], parts[1]))
}

/// `value[/mask]`, the mask all ones where it is not given.
pub(super) fn parse_masked_number(t: &ParsedOption, max: u64) -> ParseResult<(u64, u64)> {
    let (value, mask) = match t.arg.split_once('/') {
        Some((v, m)) => (v, Some(m)),
        None => (t.arg, None),
    };
    let Some(v) = strtoul::parse_number_in_range(value, 0, max) else {
        return number_or_range_error(t, value, 0, max).into_err();
    };
    match mask.map(|m| (m, strtoul::parse_number_in_range(m, 0, max))) {
        None => Ok((v, max)),
        Some((_, Some(m))) => Ok((v, m)),
        Some((m, None)) => number_or_range_error(t, m, 0, max).into_err(),
    }
}

/// An address as the system's resolver reads it (`inet_aton` for IPv4).
pub(super) fn parse_host_addr(t: &ParsedOption, g: &ParsedExtensionOptions) -> ParseResult<Addr> {
    match address::parse_inet_aton_or_ipv6(t.arg, g.family) {
        Some(a) => Ok(a),
        None => resolve_single_host(t, t.arg, g),
    }
}

/// `address[/mask]` as the system's resolver reads it, the address not under its mask.
pub(super) fn parse_unmasked_host_net(
    t: &ParsedOption,
    g: &ParsedExtensionOptions,
) -> ParseResult<(Addr, Addr)> {
    let (name, mask) = match t.arg.rsplit_once('/') {
        Some((name, m)) => (name, address::parse_mask(m, g.family)),
        None => (t.arg, Some(Addr(g.family.max_addr()))),
    };
    let Some(mask) = mask else {
        return bad_addr_error(
            t.arg,
            t.arg_span,
            BadAddr::InvalidMask,
            g.family,
            g.resolve_host_names,
        )
        .into_err();
    };
    match address::parse_inet_aton_or_ipv6(name, g.family) {
        Some(a) => Ok((a, mask)),
        None => Ok((resolve_single_host(t, name, g)?, mask)),
    }
}

fn resolve_single_host(
    t: &ParsedOption,
    text: &str,
    g: &ParsedExtensionOptions,
) -> ParseResult<Addr> {
    let bad = address::classify_bad_addr(text, g.family);
    if g.resolve_host_names && bad == BadAddr::NotNumericAddress && looks_like_host_name(text) {
        let found = address::resolve_host_name(text, g.family);
        match found[..] {
            [a] => return Ok(a),
            [] => {}
            _ => return t.arg_error(format!("{text} has several addresses")).into_err(),
        }
    }
    bad_addr_error(text, t.arg_span, bad, g.family, g.resolve_host_names).into_err()
}

/// Whether a word could be the name of a host.
pub(crate) fn looks_like_host_name(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

/// The error for a word that is no address.
pub(crate) fn bad_addr_error(
    text: &str,
    span: weir_model::Span,
    bad: BadAddr,
    family: weir_model::Family,
    resolve: bool,
) -> Diagnostic {
    use weir_model::Family;
    let d = |message: String| Diagnostic::new(message, span);
    match bad {
        BadAddr::InvalidMask => {
            let mask = text.rsplit_once('/').map_or("", |(_, m)| m);
            d(format!("{mask:?} is not a mask")).with_help(match family {
                Family::V4 => "write a prefix length from 0 to 32, or a mask like 255.255.255.0",
                Family::V6 => "write a prefix length from 0 to 128",
            })
        }
        BadAddr::WrongFamily => match family {
            Family::V4 => d(format!("{text} is an IPv6 address in an IPv4 ruleset"))
                .with_help("give IPv6 rules from ip6tables-save as a separate text (--ip6 FILE)"),
            Family::V6 => d(format!("{text} is an IPv4 address in an IPv6 ruleset"))
                .with_help("give IPv4 rules from iptables-save as a separate text"),
        },
        BadAddr::NotNumericAddress if looks_like_host_name(text) && !resolve => d(format!(
            "host name {text} instead of an address"
        ))
        .with_help(
            "write the address (iptables-save always does), or give --resolve to look it up now",
        ),
        BadAddr::NotNumericAddress if looks_like_host_name(text) => {
            d(format!("no address of host {text}"))
                .with_help("it cannot be resolved: write the address")
        }
        BadAddr::NotNumericAddress => {
            d(format!("{text:?} is not an address")).with_help(match family {
                Family::V4 => {
                    "write four numbers separated by dots, optionally a slash and a length or mask"
                }
                Family::V6 => {
                    "write for example 2001:db8::1, optionally a slash and a prefix length"
                }
            })
        }
    }
}

/// Appends `lo:hi`, or one number where both are equal.
pub(super) fn print_number_range(out: &mut String, lo: u64, hi: u64) {
    append_text::append_decimal(out, lo);
    if lo != hi {
        out.push(':');
        append_text::append_decimal(out, hi);
    }
}

/// Appends `0x…/0x…`, without the mask where it is all ones.
pub(super) fn print_masked_hex(out: &mut String, value: u64, mask: u64, all: u64) {
    append_text::append_0x_hex(out, value);
    if mask != all {
        out.push('/');
        append_text::append_0x_hex(out, mask);
    }
}
