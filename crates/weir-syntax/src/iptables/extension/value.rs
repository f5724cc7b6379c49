//! Values that several extensions share: numbers, ranges, masks, addresses.

use weir_model::Addr;

use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::address::{self, BadAddr};
use crate::iptables::option::{Given, Taken};
use crate::{number, write};

/// A number from `min` to `max`.
pub(super) fn integer(t: &Taken, min: u64, max: u64) -> Fallible<u64> {
    match number::whole(t.arg, min, max) {
        Some(n) => Ok(n),
        None => not_a_number(t, t.arg, min, max).fail(),
    }
}

fn not_a_number(t: &Taken, text: &str, min: u64, max: u64) -> Diagnostic {
    match number::whole(text, 0, u64::MAX) {
        Some(_) => t
            .problem(format!("{text} is not from {min} to {max}"))
            .help(format!("the minimum is {min}, the maximum {max}")),
        None => t.problem(format!("{text:?} is not a number")).help("decimal, 0x… or 0… (octal)"),
    }
}

/// `a`, `a:b`, `a:`, `:b`.
pub(super) fn range(t: &Taken, max: u64) -> Fallible<(u64, u64)> {
    let mut parts = [0, max];
    let mut count = 0;
    for part in t.arg.split(':') {
        if count == 2 {
            return t.problem(format!("{} has more than two parts", t.arg)).fail();
        }
        if !part.is_empty() {
            parts[count] = match number::whole(part, 0, max) {
                Some(n) => n,
                None => return not_a_number(t, part, 0, max).fail(),
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
pub(super) fn masked(t: &Taken, max: u64) -> Fallible<(u64, u64)> {
    let (value, mask) = match t.arg.split_once('/') {
        Some((v, m)) => (v, Some(m)),
        None => (t.arg, None),
    };
    let Some(v) = number::whole(value, 0, max) else {
        return not_a_number(t, value, 0, max).fail();
    };
    match mask.map(|m| (m, number::whole(m, 0, max))) {
        None => Ok((v, max)),
        Some((_, Some(m))) => Ok((v, m)),
        Some((m, None)) => not_a_number(t, m, 0, max).fail(),
    }
}

/// An address as the system's resolver reads it (`inet_aton` for IPv4).
pub(super) fn host(t: &Taken, g: &Given) -> Fallible<Addr> {
    match address::host(t.arg, g.family) {
        Some(a) => Ok(a),
        None => named_host(t, t.arg, g),
    }
}

/// `address[/mask]` as the system's resolver reads it, the address not under its mask.
pub(super) fn host_net(t: &Taken, g: &Given) -> Fallible<(Addr, Addr)> {
    let (name, mask) = match t.arg.rsplit_once('/') {
        Some((name, m)) => (name, address::mask(m, g.family)),
        None => (t.arg, Some(Addr(g.family.max()))),
    };
    let Some(mask) = mask else {
        return bad_addr(t.arg, t.arg_span, BadAddr::Mask, g.family, g.resolve).fail();
    };
    match address::host(name, g.family) {
        Some(a) => Ok((a, mask)),
        None => Ok((named_host(t, name, g)?, mask)),
    }
}

fn named_host(t: &Taken, text: &str, g: &Given) -> Fallible<Addr> {
    let bad = address::not_an_addr(text, g.family);
    if g.resolve && bad == BadAddr::Name && looks_like_host(text) {
        let found = address::resolve(text, g.family);
        match found[..] {
            [a] => return Ok(a),
            [] => {}
            _ => return t.problem(format!("{text} has several addresses")).fail(),
        }
    }
    bad_addr(text, t.arg_span, bad, g.family, g.resolve).fail()
}

/// Whether a word could be the name of a host.
pub(crate) fn looks_like_host(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

/// The error for a word that is no address.
pub(crate) fn bad_addr(
    text: &str,
    span: weir_model::Span,
    bad: BadAddr,
    family: weir_model::Family,
    resolve: bool,
) -> Diagnostic {
    use weir_model::Family;
    let d = |message: String| Diagnostic::new(message, span);
    match bad {
        BadAddr::Mask => {
            let mask = text.rsplit_once('/').map_or("", |(_, m)| m);
            d(format!("{mask:?} is not a mask")).help(match family {
                Family::V4 => "write a prefix length from 0 to 32, or a mask like 255.255.255.0",
                Family::V6 => "write a prefix length from 0 to 128",
            })
        }
        BadAddr::Family => match family {
            Family::V4 => d(format!("{text} is an IPv6 address in an IPv4 ruleset"))
                .help("give IPv6 rules from ip6tables-save as a separate text (--ip6 FILE)"),
            Family::V6 => d(format!("{text} is an IPv4 address in an IPv6 ruleset"))
                .help("give IPv4 rules from iptables-save as a separate text"),
        },
        BadAddr::Name if looks_like_host(text) && !resolve => d(format!(
            "host name {text} instead of an address"
        ))
        .help("write the address (iptables-save always does), or give --resolve to look it up now"),
        BadAddr::Name if looks_like_host(text) => {
            d(format!("no address of host {text}")).help("it cannot be resolved: write the address")
        }
        BadAddr::Name => d(format!("{text:?} is not an address")).help(match family {
            Family::V4 => "four numbers separated by dots, optionally a slash and a length or mask",
            Family::V6 => "e.g. 2001:db8::1, optionally a slash and a prefix length",
        }),
    }
}

/// Appends `lo:hi`, or one number where both are equal.
pub(super) fn print_range(out: &mut String, lo: u64, hi: u64) {
    write::decimal(out, lo);
    if lo != hi {
        out.push(':');
        write::decimal(out, hi);
    }
}

/// Appends `0x…/0x…`, without the mask where it is all ones.
pub(super) fn print_masked(out: &mut String, value: u64, mask: u64, all: u64) {
    write::hex(out, value);
    if mask != all {
        out.push('/');
        write::hex(out, mask);
    }
}
