//! Matches of one header field each: length, ttl, hl, dscp, tos, pkttype, iprange.

use weir_model::matching::{Neg, OptionValue, TtlOp, Value};
use weir_model::{Addr, Family, Match};
use weir_packet::PktType;

use super::build::host;
use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::address;
use crate::iptables::option::{ANYWHERE, Extension, Given, Taken, opt};
use crate::write;

pub(super) static LENGTH: Extension<Match> = Extension {
    name: "length",
    family: None,
    options: &[opt("length", 0).invert().mandatory()],
    build: |g| {
        let Some(t) = g.first(0) else { return g.problem("length without --length").fail() };
        let (lo, hi) = value::range(t, 0xffff)?;
        Ok(Match::Length(Neg { negated: t.negated, value: (lo as u16, hi as u16) }))
    },
    place: ANYWHERE,
};

pub(super) static TTL: Extension<Match> = Extension {
    name: "ttl",
    family: Some(Family::V4),
    options: &[
        opt("ttl-eq", 0).invert().excludes(6),
        opt("ttl", 0).invert().excludes(6),
        opt("ttl-lt", 1).excludes(5),
        opt("ttl-gt", 2).excludes(3),
    ],
    build: ttl,
    place: ANYWHERE,
};

pub(super) static HL: Extension<Match> = Extension {
    name: "hl",
    family: Some(Family::V6),
    options: &[
        opt("hl-eq", 0).invert().excludes(6),
        opt("hl-lt", 1).excludes(5),
        opt("hl-gt", 2).excludes(3),
    ],
    build: ttl,
    place: ANYWHERE,
};

pub(super) static DSCP: Extension<Match> = Extension {
    name: "dscp",
    family: None,
    options: &[opt("dscp", 0).invert().excludes(2), opt("dscp-class", 1).invert().excludes(1)],
    build: |g| {
        let Some(t) = g.iter().next() else {
            return g.problem("dscp without a value").help("give --dscp or --dscp-class").fail();
        };
        Ok(Match::Dscp(Neg { negated: t.negated, value: dscp(t)? }))
    },
    place: ANYWHERE,
};

pub(super) static TOS: Extension<Match> = Extension {
    name: "tos",
    family: None,
    options: &[opt("tos", 0).invert().mandatory()],
    build: |g| {
        let Some(t) = g.first(0) else { return g.problem("tos without --tos").fail() };
        Ok(Match::Tos(Neg { negated: t.negated, value: tos(t)? }))
    },
    place: ANYWHERE,
};

pub(super) static PKTTYPE: Extension<Match> = Extension {
    name: "pkttype",
    family: None,
    options: &[opt("pkt-type", 0).invert().mandatory()],
    build: pkttype,
    place: ANYWHERE,
};

pub(super) static IPRANGE: Extension<Match> = Extension {
    name: "iprange",
    family: None,
    options: &[opt("src-range", 0).invert(), opt("dst-range", 1).invert()],
    build: iprange,
    place: ANYWHERE,
};

fn ttl(g: &Given) -> Fallible<Match> {
    let Some(t) = g.iter().next() else {
        return g.problem(format!("{} without a comparison", g.name)).fail();
    };
    let op = match (t.id, t.negated) {
        (0, false) => TtlOp::Eq,
        (0, true) => TtlOp::Ne,
        (1, _) => TtlOp::Lt,
        _ => TtlOp::Gt,
    };
    Ok(Match::Ttl { op, value: value::integer(t, 0, 255)? as u8 })
}

/// Classes of RFC 2474, 2597 and 3246.
const CLASSES: [(&str, u8); 22] = [
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
pub(super) fn dscp(t: &Taken) -> Fallible<u8> {
    if t.id == 0 {
        return value::integer(t, 0, 63).map(|n| n as u8);
    }
    match CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(t.arg)) {
        Some((_, value)) => Ok(*value),
        None => t.problem(format!("no DSCP class {}", t.arg)).help("BE, EF, CSx, AFxx").fail(),
    }
}

/// `value[/mask]` or a name, whose mask leaves the two upper bits out.
pub(super) fn tos(t: &Taken) -> Fallible<(u8, u8)> {
    const NAMES: [(&str, u8); 5] = [
        ("Minimize-Delay", 0x10),
        ("Maximize-Throughput", 0x08),
        ("Maximize-Reliability", 0x04),
        ("Minimize-Cost", 0x02),
        ("Normal-Service", 0x00),
    ];
    if let Some((_, value)) = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(t.arg)) {
        return Ok((*value, 0x3f));
    }
    let (value, mask) = value::masked(t, 0xff)?;
    Ok((value as u8, mask as u8))
}

fn pkttype(g: &Given) -> Fallible<Match> {
    let Some(t) = g.first(0) else { return g.problem("pkttype without --pkt-type").fail() };
    let value = match t.arg.to_ascii_lowercase().as_str() {
        "unicast" | "host" => PktType::Unicast,
        "broadcast" | "bcast" => PktType::Broadcast,
        "multicast" | "mcast" => PktType::Multicast,
        "otherhost" => {
            let value = Value::Word("otherhost");
            let options = vec![OptionValue { negated: t.negated, name: "pkt-type", value }];
            return Ok(host("pkttype", options));
        }
        _ => {
            return t
                .problem(format!("no packet type {}", t.arg))
                .help("use unicast, broadcast, multicast or otherhost")
                .fail();
        }
    };
    Ok(Match::PktType(Neg { negated: t.negated, value }))
}

fn iprange(g: &Given) -> Fallible<Match> {
    let range = |t: &Taken| {
        let (lo, hi) = t.arg.split_once('-').unwrap_or((t.arg, t.arg));
        match (address::addr(lo, g.family), address::addr(hi, g.family)) {
            (Some(lo), Some(hi)) => Ok(Neg { negated: t.negated, value: (lo, hi) }),
            _ => t
                .problem(format!("{} is not a range of addresses", t.arg))
                .help("write FROM-TO; a prefix is not a range: use -s or -d")
                .fail(),
        }
    };
    let (src, dst) = (g.first(0).map(range).transpose()?, g.first(1).map(range).transpose()?);
    if src.is_none() && dst.is_none() {
        return g.problem("iprange without a range").help("give --src-range or --dst-range").fail();
    }
    Ok(Match::IpRange { src, dst })
}

pub(super) fn print_length(out: &mut String, m: &Neg<(u16, u16)>) {
    out.push_str(" -m length");
    write::option(out, m.negated, "--length");
    value::print_range(out, m.value.0.into(), m.value.1.into());
}

pub(super) fn print_ttl(out: &mut String, op: TtlOp, value: u8, family: Family) {
    let (module, options) = match family {
        Family::V4 => (" -m ttl", ["--ttl-eq", "--ttl-lt", "--ttl-gt"]),
        Family::V6 => (" -m hl", ["--hl-eq", "--hl-lt", "--hl-gt"]),
    };
    out.push_str(module);
    let option = match op {
        TtlOp::Eq | TtlOp::Ne => options[0],
        TtlOp::Lt => options[1],
        TtlOp::Gt => options[2],
    };
    write::option(out, op == TtlOp::Ne, option);
    write::decimal(out, value.into());
}

pub(super) fn print_dscp(out: &mut String, m: &Neg<u8>) {
    out.push_str(" -m dscp");
    write::option(out, m.negated, "--dscp");
    write::hex_wide(out, m.value.into(), 2);
}

pub(super) fn print_tos(out: &mut String, m: &Neg<(u8, u8)>) {
    out.push_str(" -m tos");
    write::option(out, m.negated, "--tos");
    write::hex_wide(out, m.value.0.into(), 2);
    out.push('/');
    write::hex_wide(out, m.value.1.into(), 2);
}

pub(super) fn print_pkttype(out: &mut String, m: &Neg<PktType>) {
    out.push_str(" -m pkttype");
    write::option(out, m.negated, "--pkt-type");
    out.push_str(match m.value {
        PktType::Unicast => "unicast",
        PktType::Broadcast => "broadcast",
        PktType::Multicast => "multicast",
    });
}

/// An address range with its negation.
type Range = Option<Neg<(Addr, Addr)>>;

pub(super) fn print_iprange(out: &mut String, src: &Range, dst: &Range, family: Family) {
    out.push_str(" -m iprange");
    for (flag, range) in [("--src-range", src), ("--dst-range", dst)] {
        if let Some(Neg { negated, value: (lo, hi) }) = range {
            write::option(out, *negated, flag);
            write::addr(out, *lo, family);
            out.push('-');
            write::addr(out, *hi, family);
        }
    }
}
