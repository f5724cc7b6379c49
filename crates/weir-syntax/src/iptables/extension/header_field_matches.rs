//! Matches of one header field each: length, ttl, hl, dscp, tos, pkttype, iprange.

use weir_model::rule_match::{ExtensionValue, Negatable, TtlComparison, TypedExtensionOption};
use weir_model::{Addr, Family, Match};
use weir_packet::PktType;

use super::extension_value_builders::unmodelled_input_match;
use super::option_values;
use crate::append_text;
use crate::diagnostic::ParseResult;
use crate::iptables::address;
use crate::iptables::option_specs_and_arguments::{
    Extension, ParsedExtensionOptions, ParsedOption, option_with_argument,
};

pub(super) static LENGTH_MATCH: Extension<Match> = Extension {
    name: "length",
    options: &[option_with_argument("length", 0).invertible().mandatory()],
    build: |g| {
        let Some(t) = g.first_with_id(0) else {
            return g.extension_error("length without --length").into_err();
        };
        let (lo, hi) = option_values::parse_number_range(t, 0xffff)?;
        Ok(Match::Length(Negatable { negated: t.negated, value: (lo as u16, hi as u16) }))
    },
    ..Extension::DEFAULT
};

pub(super) static TTL_MATCH: Extension<Match> = Extension {
    name: "ttl",
    family: Some(Family::V4),
    options: &[
        option_with_argument("ttl-eq", 0).invertible().excludes(6),
        option_with_argument("ttl", 0).invertible().excludes(6),
        option_with_argument("ttl-lt", 1).excludes(5),
        option_with_argument("ttl-gt", 2).excludes(3),
    ],
    build: build_ttl_or_hl_comparison,
    ..Extension::DEFAULT
};

pub(super) static HL_MATCH: Extension<Match> = Extension {
    name: "hl",
    family: Some(Family::V6),
    options: &[
        option_with_argument("hl-eq", 0).invertible().excludes(6),
        option_with_argument("hl", 0).invertible().excludes(6),
        option_with_argument("hl-lt", 1).excludes(5),
        option_with_argument("hl-gt", 2).excludes(3),
    ],
    build: build_ttl_or_hl_comparison,
    ..Extension::DEFAULT
};

pub(super) static DSCP_MATCH: Extension<Match> = Extension {
    name: "dscp",
    options: &[
        option_with_argument("dscp", 0).invertible().excludes(2),
        option_with_argument("dscp-class", 1).invertible().excludes(1),
    ],
    build: |g| {
        let Some(t) = g.iter().next() else {
            return g
                .extension_error("dscp without a value")
                .with_help("give --dscp or --dscp-class")
                .into_err();
        };
        Ok(Match::Dscp(Negatable { negated: t.negated, value: parse_dscp(t)? }))
    },
    ..Extension::DEFAULT
};

pub(super) static TOS_MATCH: Extension<Match> = Extension {
    name: "tos",
    options: &[option_with_argument("tos", 0).invertible().mandatory()],
    build: |g| {
        let Some(t) = g.first_with_id(0) else {
            return g.extension_error("tos without --tos").into_err();
        };
        Ok(Match::Tos(Negatable { negated: t.negated, value: parse_tos(t)? }))
    },
    ..Extension::DEFAULT
};

pub(super) static PKTTYPE_MATCH: Extension<Match> = Extension {
    name: "pkttype",
    options: &[option_with_argument("pkt-type", 0).invertible().mandatory()],
    build: build_pkttype_match,
    ..Extension::DEFAULT
};

pub(super) static IPRANGE_MATCH: Extension<Match> = Extension {
    name: "iprange",
    options: &[
        option_with_argument("src-range", 0).invertible(),
        option_with_argument("dst-range", 1).invertible(),
    ],
    build: build_iprange_match,
    ..Extension::DEFAULT
};

fn build_ttl_or_hl_comparison(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(t) = g.iter().next() else {
        return g.extension_error(format!("{} without a comparison", g.name)).into_err();
    };
    let op = match (t.id, t.negated) {
        (0, false) => TtlComparison::Eq,
        (0, true) => TtlComparison::Ne,
        (1, _) => TtlComparison::Lt,
        _ => TtlComparison::Gt,
    };
    Ok(Match::Ttl { op, value: option_values::parse_integer(t, 0, 255)? as u8 })
}

/// Classes of RFC 2474, 2597 and 3246.
const DSCP_CLASSES: [(&str, u8); 22] = [
    ("CS0", 0),
    ("CS1", 8),
    ("CS2", 16),
    ("CS3", 24),
    ("CS4", 32),
    ("CS5", 40),
    ("CS6", 48),
    ("CS7", 56),
    ("BE", 0),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("EF", 46),
];

/// `--dscp` (id 0) or a class name (id 1).
pub(super) fn parse_dscp(t: &ParsedOption) -> ParseResult<u8> {
    if t.id == 0 {
        return option_values::parse_integer(t, 0, 63).map(|n| n as u8);
    }
    match DSCP_CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(t.arg)) {
        Some((_, value)) => Ok(*value),
        None => t
            .arg_error(format!("no DSCP class {}", t.arg))
            .with_help("use BE, EF, CSx or AFxx")
            .into_err(),
    }
}

/// `value[/mask]` or a name, whose mask leaves the two upper bits out.
pub(super) fn parse_tos(t: &ParsedOption) -> ParseResult<(u8, u8)> {
    const TOS_NAMES: [(&str, u8); 5] = [
        ("Minimize-Delay", 0x10),
        ("Maximize-Throughput", 0x08),
        ("Maximize-Reliability", 0x04),
        ("Minimize-Cost", 0x02),
        ("Normal-Service", 0x00),
    ];
    if let Some((_, value)) = TOS_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(t.arg)) {
        return Ok((*value, 0x3f));
    }
    let (value, mask) = option_values::parse_masked_number(t, 0xff)?;
    Ok((value as u8, mask as u8))
}

fn build_pkttype_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(t) = g.first_with_id(0) else {
        return g.extension_error("pkttype without --pkt-type").into_err();
    };
    let value = match t.arg.to_ascii_lowercase().as_str() {
        "unicast" | "host" => PktType::Unicast,
        "broadcast" | "bcast" => PktType::Broadcast,
        "multicast" | "mcast" => PktType::Multicast,
        "otherhost" => {
            let value = ExtensionValue::Keyword("otherhost");
            let options =
                vec![TypedExtensionOption { negated: t.negated, name: "pkt-type", value }];
            return Ok(unmodelled_input_match("pkttype", options));
        }
        _ => {
            return t
                .arg_error(format!("no packet type {}", t.arg))
                .with_help("use unicast, broadcast, multicast or otherhost")
                .into_err();
        }
    };
    Ok(Match::PktType(Negatable { negated: t.negated, value }))
}

fn build_iprange_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let range = |t: &ParsedOption| {
        let (lo, hi) = t.arg.split_once('-').unwrap_or((t.arg, t.arg));
        match (
            address::parse_xtables_numeric_addr(lo, g.family),
            address::parse_xtables_numeric_addr(hi, g.family),
        ) {
            (Some(lo), Some(hi)) => Ok(Negatable { negated: t.negated, value: (lo, hi) }),
            _ => t
                .arg_error(format!("{} is not a range of addresses", t.arg))
                .with_help("write FROM-TO; a prefix is not a range: use -s or -d")
                .into_err(),
        }
    };
    let (src, dst) =
        (g.first_with_id(0).map(range).transpose()?, g.first_with_id(1).map(range).transpose()?);
    if src.is_none() && dst.is_none() {
        return g
            .extension_error("iprange without a range")
            .with_help("give --src-range or --dst-range")
            .into_err();
    }
    Ok(Match::IpRange { src, dst })
}

pub(super) fn print_length_match(out: &mut String, m: &Negatable<(u16, u16)>) {
    out.push_str(" -m length");
    append_text::append_negatable_option_name(out, m.negated, "--length");
    option_values::print_number_range(out, m.value.0.into(), m.value.1.into());
}

pub(super) fn print_ttl_or_hl_comparison(
    out: &mut String,
    op: TtlComparison,
    value: u8,
    family: Family,
) {
    let (module, options) = match family {
        Family::V4 => (" -m ttl", ["--ttl-eq", "--ttl-lt", "--ttl-gt"]),
        Family::V6 => (" -m hl", ["--hl-eq", "--hl-lt", "--hl-gt"]),
    };
    out.push_str(module);
    let option = match op {
        TtlComparison::Eq | TtlComparison::Ne => options[0],
        TtlComparison::Lt => options[1],
        TtlComparison::Gt => options[2],
    };
    append_text::append_negatable_option_name(out, op == TtlComparison::Ne, option);
    append_text::append_decimal(out, value.into());
}

pub(super) fn print_dscp_match(out: &mut String, m: &Negatable<u8>) {
    out.push_str(" -m dscp");
    append_text::append_negatable_option_name(out, m.negated, "--dscp");
    append_text::append_0x_hex_of_width(out, m.value.into(), 2);
}

pub(super) fn print_tos_match(out: &mut String, m: &Negatable<(u8, u8)>) {
    out.push_str(" -m tos");
    append_text::append_negatable_option_name(out, m.negated, "--tos");
    append_text::append_0x_hex_of_width(out, m.value.0.into(), 2);
    out.push('/');
    append_text::append_0x_hex_of_width(out, m.value.1.into(), 2);
}

pub(super) fn print_pkttype_match(out: &mut String, m: &Negatable<PktType>) {
    out.push_str(" -m pkttype");
    append_text::append_negatable_option_name(out, m.negated, "--pkt-type");
    out.push_str(match m.value {
        PktType::Unicast => "unicast",
        PktType::Broadcast => "broadcast",
        PktType::Multicast => "multicast",
    });
}

/// An address range with its negation.
type OptionalAddrRangeMatch = Option<Negatable<(Addr, Addr)>>;

pub(super) fn print_iprange_match(
    out: &mut String,
    src: &OptionalAddrRangeMatch,
    dst: &OptionalAddrRangeMatch,
    family: Family,
) {
    out.push_str(" -m iprange");
    for (flag, range) in [("--src-range", src), ("--dst-range", dst)] {
        if let Some(Negatable { negated, value: (lo, hi) }) = range {
            append_text::append_negatable_option_name(out, *negated, flag);
            append_text::append_addr(out, *lo, family);
            out.push('-');
            append_text::append_addr(out, *hi, family);
        }
    }
}
