//! Address translation: DNAT, SNAT, MASQUERADE, REDIRECT, NETMAP.

use weir_model::Hook::{Input, Output, Postrouting, Prerouting};
use weir_model::target::{NatRange, NatTarget};
use weir_model::{Addr, BaseMatch, Family, TableName, Target};

use super::option_values;
use crate::diagnostic::ParseResult;
use crate::iptables::address;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, ParsedOption, flag_option,
    option_with_argument,
};
use crate::{append_text, strtoul};

const NAT_TABLE_NAME_LIST: &[TableName] = &[TableName::Nat];

pub(super) static DNAT_TARGET: Extension<Target> = Extension {
    name: "DNAT",
    options: &[
        option_with_argument("to-destination", 0).mandatory(),
        flag_option("random", 1),
        flag_option("persistent", 2),
    ],
    build: |g| Ok(wrap_nat_target(NatTarget::Dnat(parse_nat_range(g, true)?))),
    scope: ExtensionScope::in_tables_from_hooks(NAT_TABLE_NAME_LIST, &[Prerouting, Output]),
    ..Extension::DEFAULT
};

pub(super) static SNAT_TARGET: Extension<Target> = Extension {
    name: "SNAT",
    options: &[
        option_with_argument("to-source", 0).mandatory(),
        flag_option("random", 1),
        flag_option("persistent", 2),
        flag_option("random-fully", 3),
    ],
    build: |g| Ok(wrap_nat_target(NatTarget::Snat(parse_nat_range(g, false)?))),
    scope: ExtensionScope::in_tables_from_hooks(NAT_TABLE_NAME_LIST, &[Postrouting, Input]),
    ..Extension::DEFAULT
};

pub(super) static MASQUERADE_TARGET: Extension<Target> = Extension {
    name: "MASQUERADE",
    options: &[
        option_with_argument("to-ports", 4),
        flag_option("random", 1),
        flag_option("random-fully", 3),
    ],
    build: |g| Ok(wrap_nat_target(NatTarget::Masquerade(parse_to_ports(g)?))),
    scope: ExtensionScope::in_tables_from_hooks(NAT_TABLE_NAME_LIST, &[Postrouting]),
    ..Extension::DEFAULT
};

pub(super) static REDIRECT_TARGET: Extension<Target> = Extension {
    name: "REDIRECT",
    options: &[option_with_argument("to-ports", 4), flag_option("random", 1)],
    build: |g| Ok(wrap_nat_target(NatTarget::Redirect(parse_to_ports(g)?))),
    scope: ExtensionScope::in_tables_from_hooks(NAT_TABLE_NAME_LIST, &[Prerouting, Output]),
    ..Extension::DEFAULT
};

pub(super) static NETMAP_TARGET: Extension<Target> = Extension {
    name: "NETMAP",
    options: &[option_with_argument("to", 0).mandatory()],
    build: build_netmap_target,
    scope: ExtensionScope::in_tables_from_hooks(
        NAT_TABLE_NAME_LIST,
        &[Prerouting, Output, Postrouting, Input],
    ),
    ..Extension::DEFAULT
};

fn wrap_nat_target(target: NatTarget) -> Target {
    Target::Nat(Box::new(target))
}

fn build_netmap_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let Some(t) = g.first_with_id(0) else {
        return g.extension_error("NETMAP without --to").into_err();
    };
    let (a, mask) = option_values::parse_unmasked_host_net(t, g)?;
    // The tool takes a mask that is no prefix for that of a host.
    let mask = if g.family.prefix_len_of_mask(mask.0).is_some() {
        mask
    } else {
        Addr(g.family.max_addr())
    };
    Ok(wrap_nat_target(NatTarget::Netmap(Addr(a.0 & mask.0), mask)))
}

fn set_nat_flags(g: &ParsedExtensionOptions, range: &mut NatRange) {
    range.random = g.has_option(1);
    range.persistent = g.has_option(2);
    range.random_fully = g.has_option(3);
}

fn has_port_or_icmp_protocol(base: &BaseMatch) -> bool {
    base.proto.is_some_and(|p| matches!(p.proto, 1 | 6 | 17 | 33 | 132))
}

fn require_port_or_icmp_protocol(t: &ParsedOption, g: &ParsedExtensionOptions) -> ParseResult<()> {
    if has_port_or_icmp_protocol(g.base) {
        return Ok(());
    }
    t.arg_error("ports in a rule without a protocol that has ports")
        .with_help("write -p tcp, udp, sctp, dccp or icmp")
        .into_err()
}

/// `[address[-address]][:port[-port[/base]]]`; IPv6 addresses with ports are in brackets.
fn parse_nat_range(g: &ParsedExtensionOptions, destination: bool) -> ParseResult<NatRange> {
    let mut out = NatRange::default();
    set_nat_flags(g, &mut out);
    let Some(t) = g.first_with_id(0) else {
        return g.extension_error("no address given").into_err();
    };
    let (addrs, ports) = match g.family {
        Family::V4 => match t.arg.split_once(':') {
            Some((a, p)) => (a, Some(p)),
            None => (t.arg, None),
        },
        Family::V6 => match t.arg.strip_prefix('[') {
            None => match t.arg.strip_prefix(':').filter(|p| !p.starts_with(':')) {
                Some(p) => ("", Some(p)),
                None => (t.arg, None),
            },
            Some(rest) => {
                let Some((a, p)) = rest.split_once(']') else {
                    return t.arg_error("bracket is not closed").into_err();
                };
                match p.strip_prefix(':') {
                    Some(p) => (a, Some(p)),
                    None if p.is_empty() => (a, None),
                    None => return t.arg_error(format!("{p:?} after the bracket")).into_err(),
                }
            }
        },
    };
    if let Some(p) = ports {
        require_port_or_icmp_protocol(t, g)?;
        parse_nat_ports(
            t,
            p,
            if destination { BasePortHandling::Keep } else { BasePortHandling::SetZero },
            &mut out,
        )?;
    }
    if !addrs.is_empty() {
        let (lo, hi) = addrs.split_once('-').unwrap_or((addrs, addrs));
        let read = |text: &str| match address::parse_inet_pton(text, g.family) {
            Some(a) => Ok(a),
            None => {
                let bad = address::classify_bad_addr(text, g.family);
                option_values::bad_addr_error(text, t.arg_span, bad, g.family, true).into_err()
            }
        };
        out.addrs = Some((read(lo)?, read(hi)?));
    } else if ports.is_none() {
        return t.arg_error("no address given").into_err();
    }
    Ok(out)
}

/// `port[-port[/base]]`. The first port and the base may be names of services; the end of a range
/// is a number.
fn parse_nat_ports(
    t: &ParsedOption,
    text: &str,
    shift: BasePortHandling,
    out: &mut NatRange,
) -> ParseResult<()> {
    let (lo, rest) = match strtoul::parse_leading_number(text) {
        Some((n, rest)) => (check_port_fits_16_bits(t, n)?, rest),
        // Names hold hyphens (`ftp-data`): the whole text is one.
        None => (super::port_matches::parse_port_of_protocol(t, text, "")?, ""),
    };
    out.ports = Some((lo, lo));
    if rest.is_empty() {
        return Ok(());
    }
    let Some(range) = rest.strip_prefix('-') else {
        return t
            .arg_error(format!("{rest:?} after port {lo}"))
            .with_help("a range of ports is written with a hyphen: 1000-2000")
            .into_err();
    };
    let Some((hi, rest)) = strtoul::parse_leading_number(range) else {
        return t
            .arg_error(format!("{range:?} is not a port number"))
            .with_help("a range of ports ends in a number, not in the name of a service")
            .into_err();
    };
    let hi = check_port_fits_16_bits(t, hi)?;
    if hi < lo {
        return t
            .arg_error(format!("the lower port of {text} is above its upper port"))
            .with_help("write the lower port first")
            .into_err();
    }
    out.ports = Some((lo, hi));
    if rest.is_empty() {
        return Ok(());
    }
    let Some(base) = rest.strip_prefix('/') else {
        return t
            .arg_error(format!("{rest:?} after the range of ports"))
            .with_help("only a base may follow it: 1000-2000/80")
            .into_err();
    };
    let base = super::port_matches::parse_port_of_protocol(t, base, "")?;
    if base == 0 {
        return t
            .arg_error("base port 0")
            .with_help("the base of a shifted range of ports is from 1 to 65535")
            .into_err();
    }
    out.base_port = match shift {
        BasePortHandling::Keep => Some(base),
        // The tool reads the base and does not hand it to the kernel.
        BasePortHandling::SetZero => Some(0),
        BasePortHandling::Refuse => {
            return t
                .arg_error("a shifted range of ports is only for DNAT")
                .with_help("remove the base, or use DNAT")
                .into_err();
        }
    };
    Ok(())
}

fn check_port_fits_16_bits(t: &ParsedOption, n: u64) -> ParseResult<u16> {
    match u16::try_from(n) {
        Ok(port) => Ok(port),
        Err(_) => t
            .arg_error(format!("port {n} is above 65535"))
            .with_help("ports are numbers of 16 bits")
            .into_err(),
    }
}

/// The outcome of the base of a shifted range of ports.
#[derive(Clone, Copy)]
enum BasePortHandling {
    Keep,
    SetZero,
    Refuse,
}

fn parse_to_ports(g: &ParsedExtensionOptions) -> ParseResult<NatRange> {
    let mut out = NatRange::default();
    set_nat_flags(g, &mut out);
    if let Some(t) = g.first_with_id(4) {
        require_port_or_icmp_protocol(t, g)?;
        parse_nat_ports(t, t.arg, BasePortHandling::Refuse, &mut out)?;
    }
    Ok(out)
}

pub(super) fn print_nat_target(out: &mut String, target: &NatTarget, family: Family) {
    match target {
        NatTarget::Dnat(r) => print_nat_range(out, " -j DNAT --to-destination ", r, family),
        NatTarget::Snat(r) => print_nat_range(out, " -j SNAT --to-source ", r, family),
        NatTarget::Masquerade(r) => print_to_ports(out, " -j MASQUERADE", r),
        NatTarget::Redirect(r) => print_to_ports(out, " -j REDIRECT", r),
        NatTarget::Netmap(a, mask) => {
            out.push_str(" -j NETMAP --to ");
            append_text::append_net(out, *a, *mask, family);
        }
    }
}

fn print_nat_range(out: &mut String, words: &str, r: &NatRange, family: Family) {
    out.push_str(words);
    let bracket = family == Family::V6 && r.ports.is_some();
    if let Some((lo, hi)) = r.addrs {
        if bracket {
            out.push('[');
        }
        append_text::append_addr(out, lo, family);
        if lo != hi {
            out.push('-');
            append_text::append_addr(out, hi, family);
        }
        if bracket {
            out.push(']');
        }
    }
    if let Some((lo, hi)) = r.ports {
        out.push(':');
        print_port_range_without_base(out, lo, hi);
        if let Some(base) = r.base_port {
            out.push('/');
            // SNAT loses its base, and 0 cannot be read back: any other loads as 0.
            append_text::append_decimal(out, base.max(1).into());
        }
    }
    print_nat_flags(out, r);
}

fn print_port_range_without_base(out: &mut String, lo: u16, hi: u16) {
    append_text::append_decimal(out, lo.into());
    if lo != hi {
        out.push('-');
        append_text::append_decimal(out, hi.into());
    }
}

fn print_to_ports(out: &mut String, words: &str, r: &NatRange) {
    out.push_str(words);
    if let Some((lo, hi)) = r.ports {
        out.push_str(" --to-ports ");
        print_port_range_without_base(out, lo, hi);
    }
    print_nat_flags(out, r);
}

fn print_nat_flags(out: &mut String, r: &NatRange) {
    for (set, word) in [
        (r.random, " --random"),
        (r.random_fully, " --random-fully"),
        (r.persistent, " --persistent"),
    ] {
        if set {
            out.push_str(word);
        }
    }
}
