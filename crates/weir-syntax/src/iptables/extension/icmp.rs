//! `-m icmp --icmp-type` and `-m icmp6 --icmpv6-type`.

use weir_model::rule_match::{IcmpTypeMatch, Negatable};
use weir_model::{Family, Match};

use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, option_with_argument,
};
use crate::{append_text, strtoul};

pub(super) static ICMP_MATCH: Extension<Match> = Extension {
    name: "icmp",
    family: Some(Family::V4),
    options: &[option_with_argument("icmp-type", 0).invertible().mandatory()],
    build: build_icmp_match,
    scope: ExtensionScope::for_protocols(&[1]),
    ..Extension::DEFAULT
};

pub(super) static ICMP6_MATCH: Extension<Match> = Extension {
    name: "icmp6",
    family: Some(Family::V6),
    options: &[option_with_argument("icmpv6-type", 0).invertible().mandatory()],
    build: build_icmp_match,
    scope: ExtensionScope::for_protocols(&[58]),
    ..Extension::DEFAULT
};

/// Name, type, lowest and highest code.
type IcmpTypeRow = (&'static str, u8, u8, u8);

const ICMPV4_TYPE_NAMES: [IcmpTypeRow; 40] = [
    ("any", 255, 0, 255),
    ("echo-reply", 0, 0, 255),
    ("pong", 0, 0, 255),
    ("destination-unreachable", 3, 0, 255),
    ("network-unreachable", 3, 0, 0),
    ("host-unreachable", 3, 1, 1),
    ("protocol-unreachable", 3, 2, 2),
    ("port-unreachable", 3, 3, 3),
    ("fragmentation-needed", 3, 4, 4),
    ("source-route-failed", 3, 5, 5),
    ("network-unknown", 3, 6, 6),
    ("host-unknown", 3, 7, 7),
    ("network-prohibited", 3, 9, 9),
    ("host-prohibited", 3, 10, 10),
    ("TOS-network-unreachable", 3, 11, 11),
    ("TOS-host-unreachable", 3, 12, 12),
    ("communication-prohibited", 3, 13, 13),
    ("host-precedence-violation", 3, 14, 14),
    ("precedence-cutoff", 3, 15, 15),
    ("source-quench", 4, 0, 255),
    ("redirect", 5, 0, 255),
    ("network-redirect", 5, 0, 0),
    ("host-redirect", 5, 1, 1),
    ("TOS-network-redirect", 5, 2, 2),
    ("TOS-host-redirect", 5, 3, 3),
    ("echo-request", 8, 0, 255),
    ("ping", 8, 0, 255),
    ("router-advertisement", 9, 0, 255),
    ("router-solicitation", 10, 0, 255),
    ("time-exceeded", 11, 0, 255),
    ("ttl-exceeded", 11, 0, 255),
    ("ttl-zero-during-transit", 11, 0, 0),
    ("ttl-zero-during-reassembly", 11, 1, 1),
    ("parameter-problem", 12, 0, 255),
    ("ip-header-bad", 12, 0, 0),
    ("required-option-missing", 12, 1, 1),
    ("timestamp-request", 13, 0, 255),
    ("timestamp-reply", 14, 0, 255),
    ("address-mask-request", 17, 0, 255),
    ("address-mask-reply", 18, 0, 255),
];

const IPTABLES_ICMPV6_TYPE_NAMES: [IcmpTypeRow; 28] = [
    ("destination-unreachable", 1, 0, 255),
    ("no-route", 1, 0, 0),
    ("communication-prohibited", 1, 1, 1),
    ("beyond-scope", 1, 2, 2),
    ("address-unreachable", 1, 3, 3),
    ("port-unreachable", 1, 4, 4),
    ("failed-policy", 1, 5, 5),
    ("reject-route", 1, 6, 6),
    ("packet-too-big", 2, 0, 255),
    ("time-exceeded", 3, 0, 255),
    ("ttl-exceeded", 3, 0, 255),
    ("ttl-zero-during-transit", 3, 0, 0),
    ("ttl-zero-during-reassembly", 3, 1, 1),
    ("parameter-problem", 4, 0, 255),
    ("bad-header", 4, 0, 0),
    ("unknown-header-type", 4, 1, 1),
    ("unknown-option", 4, 2, 2),
    ("echo-request", 128, 0, 255),
    ("ping", 128, 0, 255),
    ("echo-reply", 129, 0, 255),
    ("pong", 129, 0, 255),
    ("router-solicitation", 133, 0, 255),
    ("router-advertisement", 134, 0, 255),
    ("neighbour-solicitation", 135, 0, 255),
    ("neighbor-solicitation", 135, 0, 255),
    ("neighbour-advertisement", 136, 0, 255),
    ("neighbor-advertisement", 136, 0, 255),
    ("redirect", 137, 0, 255),
];

fn build_icmp_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(t) = g.first_with_id(0) else { return g.extension_error("no type given").into_err() };
    let value = match parse_numeric_icmp_type(t.arg) {
        Some(v) => v,
        None => parse_named_icmp_type(t.arg, g.family).or_else(|message| {
            let tool = if g.family == Family::V4 { "icmp" } else { "icmpv6" };
            t.arg_error(message)
                .with_help(format!("`iptables -p {tool} -h` lists the names"))
                .into_err()
        })?,
    };
    if value.codes.0 > value.codes.1 {
        return t
            .arg_error(format!("no code is from {} to {}", value.codes.0, value.codes.1))
            .with_help("write the lower code first: iptables would load a rule for no packet")
            .into_err();
    }
    // Type 255 of IPv4 is any type, whatever the code.
    let any = g.family == Family::V4 && value.kind == 255;
    let value = if any { IcmpTypeMatch { kind: 255, codes: (0, 255) } } else { value };
    Ok(Match::Icmp(Negatable { negated: t.negated, value }))
}

/// `TYPE`, `TYPE/CODE` or `TYPE/CODE:CODE`.
fn parse_numeric_icmp_type(text: &str) -> Option<IcmpTypeMatch> {
    let octet = |text| strtoul::parse_number_in_range(text, 0, 255).map(|n| n as u8);
    let (kind, codes) = match text.split_once('/') {
        Some((kind, codes)) => {
            let (lo, hi) = codes.split_once(':').unwrap_or((codes, codes));
            (kind, (octet(lo)?, octet(hi)?))
        }
        None => (text, (0, 255)),
    };
    Some(IcmpTypeMatch { kind: octet(kind)?, codes })
}

fn parse_named_icmp_type(text: &str, family: Family) -> Result<IcmpTypeMatch, String> {
    let rows: &[IcmpTypeRow] = match family {
        Family::V4 => &ICMPV4_TYPE_NAMES,
        Family::V6 => &IPTABLES_ICMPV6_TYPE_NAMES,
    };
    let begins = |row: &&IcmpTypeRow| {
        row.0.len() >= text.len()
            && row.0.as_bytes()[..text.len()].eq_ignore_ascii_case(text.as_bytes())
    };
    let mut found = rows.iter().filter(begins);
    let Some(&(name, kind, lo, hi)) = found.next() else {
        return Err(format!("no ICMP type {text}"));
    };
    match found.next() {
        Some(other) => Err(format!("ICMP type {text} may be {name} or {}", other.0)),
        None => Ok(IcmpTypeMatch { kind, codes: (lo, hi) }),
    }
}

pub(super) fn print_icmp_match(out: &mut String, m: &Negatable<IcmpTypeMatch>, family: Family) {
    let (module, flag) = match family {
        Family::V4 => (" -m icmp", "--icmp-type"),
        Family::V6 => (" -m icmp6", "--icmpv6-type"),
    };
    out.push_str(module);
    append_text::append_negatable_option_name(out, m.negated, flag);
    if family == Family::V4 && m.value.kind == 255 {
        out.push_str("any");
        return;
    }
    append_text::append_decimal(out, m.value.kind.into());
    if m.value.codes != (0, 255) {
        out.push('/');
        append_text::append_decimal(out, m.value.codes.0.into());
        // iptables-save 1.8.9 omits the end of a range.
        if m.value.codes.0 != m.value.codes.1 {
            out.push(':');
            append_text::append_decimal(out, m.value.codes.1.into());
        }
    }
}
