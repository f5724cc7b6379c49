//! Matches of one protocol's ports: tcp, udp, sctp, dccp, and multiport over all of them.

use weir_model::matching::{Neg, PortSide, TcpFlags};
use weir_model::{Match, PortSpan};

use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::option::{Extension, ExtensionScope, Given, Opt, Taken, opt};
use crate::{names, number, write};

const SPORT: u8 = 0;
const DPORT: u8 = 1;
const FLAGS: u8 = 2;
const OPTION: u8 = 3;
const CHUNKS: u8 = 2;
const TYPES: u8 = 2;

/// Options of every protocol that has ports.
const PORTS: [Opt; 4] = [
    opt("source-port", SPORT).invert(),
    opt("sport", SPORT).invert(),
    opt("destination-port", DPORT).invert(),
    opt("dport", DPORT).invert(),
];

pub(super) static TCP: Extension<Match> = Extension {
    name: "tcp",
    family: None,
    options: &[
        PORTS[0],
        PORTS[1],
        PORTS[2],
        PORTS[3],
        Opt { arity: crate::iptables::option::Arity::Flag, ..opt("syn", FLAGS).invert() },
        opt("tcp-flags", FLAGS).invert().two(),
        opt("tcp-option", OPTION).invert(),
    ],
    build: tcp,
    place: ExtensionScope::protocols(&[6]),
};

pub(super) static UDP: Extension<Match> = Extension {
    name: "udp",
    family: None,
    options: &PORTS,
    build: |g| {
        let (sport, dport) = both_ports(g, "udp")?;
        Ok(Match::Udp { sport, dport })
    },
    place: ExtensionScope::protocols(&[17]),
};

pub(super) static SCTP: Extension<Match> = Extension {
    name: "sctp",
    family: None,
    options: &[PORTS[0], PORTS[1], PORTS[2], PORTS[3], opt("chunk-types", CHUNKS).invert().two()],
    build: |g| {
        let (sport, dport) = both_ports(g, "sctp")?;
        let chunks = g.first(CHUNKS).map(super::chunks::parse).transpose()?;
        Ok(Match::Sctp { sport, dport, chunks })
    },
    place: ExtensionScope::protocols(&[132]),
};

pub(super) static DCCP: Extension<Match> = Extension {
    name: "dccp",
    family: None,
    options: &[
        PORTS[0],
        PORTS[1],
        PORTS[2],
        PORTS[3],
        opt("dccp-types", TYPES).invert(),
        opt("dccp-option", OPTION).invert(),
    ],
    build: dccp,
    place: ExtensionScope::protocols(&[33]),
};

pub(super) static MULTIPORT: Extension<Match> = Extension {
    name: "multiport",
    family: None,
    options: &[
        opt("source-ports", 0).invert().excludes(6),
        opt("sports", 0).invert().excludes(6),
        opt("destination-ports", 1).invert().excludes(5),
        opt("dports", 1).invert().excludes(5),
        opt("ports", 2).invert().excludes(3),
    ],
    build: multiport,
    place: ExtensionScope::protocols(&[6, 17, 33, 132, 136]),
};

type PortTest = Option<Neg<PortSpan>>;

fn both_ports(g: &Given, protocol: &str) -> Fallible<(PortTest, PortTest)> {
    let mut ports = [None, None];
    for t in g.iter().filter(|t| t.id <= DPORT) {
        let value = span(t, t.arg, protocol)?;
        // For tcp and udp the kernel stores the whole range if no port is tested, and it is not
        // printed back; for sctp and dccp it is a separate test.
        let flagged = matches!(protocol, "sctp" | "dccp");
        if flagged || t.negated || value.lo != 0 || value.hi != u16::MAX {
            ports[t.id as usize] = Some(Neg { negated: t.negated, value });
        }
    }
    let [sport, dport] = ports;
    Ok((sport, dport))
}

/// `80`, `http`, `1024:`, `:1023`, `a:b`.
pub(super) fn span(t: &Taken, text: &str, protocol: &str) -> Fallible<PortSpan> {
    // tcp and sctp read by hand, the others by the system's resolver.
    let strict = matches!(protocol, "tcp" | "sctp");
    let one = |text| if strict { port(t, text, protocol) } else { resolved_port(t, text) };
    let Some((lo, hi)) = text.split_once(':') else {
        let p = one(text)?;
        return Ok(PortSpan { lo: p, hi: p });
    };
    let lo = if lo.is_empty() { 0 } else { one(lo)? };
    let hi = if hi.is_empty() { u16::MAX } else { one(hi)? };
    // For udp, dccp and conntrack the tools accept an empty range of ports.
    if lo > hi && strict {
        return t
            .problem(format!("the lower port of {text} is above its upper port"))
            .help(format!("write {hi}:{lo}"))
            .fail();
    }
    Ok(PortSpan { lo, hi })
}

/// A port's number or service name.
pub(super) fn port(t: &Taken, text: &str, protocol: &str) -> Fallible<u16> {
    if let Some(p) = number::word16(text) {
        return Ok(p);
    }
    // getservbyname takes any protocol where there is no name for one.
    let filter = (!protocol.is_empty()).then_some(protocol);
    match names::service(text, filter) {
        Some(p) => Ok(p),
        None => bad_port(t, text, protocol).fail(),
    }
}

/// A port as the system's resolver reads it: decimal, or a name of any protocol.
///
/// The resolver wraps numbers above 65535 around and takes nothing for 0: both are refused here.
pub(super) fn resolved_port(t: &Taken, text: &str) -> Fallible<u16> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse() {
            Ok(p) => Ok(p),
            Err(_) => above(t, text).fail(),
        };
    }
    match names::service(text, None) {
        Some(p) => Ok(p),
        None if text.is_empty() => t.problem("empty port").help("write its number").fail(),
        None => bad_port(t, text, "any protocol").fail(),
    }
}

fn above(t: &Taken, text: &str) -> Diagnostic {
    t.problem(format!("port {text} is above 65535")).help("ports are numbers of 16 bits")
}

fn bad_port(t: &Taken, text: &str, protocol: &str) -> Diagnostic {
    if number::whole(text, 0, u64::MAX).is_some() {
        return above(t, text);
    }
    if text.contains('-') && text.split('-').all(|p| number::word16(p).is_some()) {
        return t
            .problem(format!("{text} is not a port"))
            .help(format!("a range of ports is written with a colon: {}", text.replace('-', ":")));
    }
    if text.contains(',') {
        return t
            .problem(format!("{text} is not a port"))
            .help(format!("several ports need multiport: -m multiport --dports {text}"));
    }
    let help = match names::service(text, None) {
        Some(_) => format!("/etc/services knows {text}, but not for {protocol}: write the number"),
        None => "write the port's number, or a name that /etc/services has".to_owned(),
    };
    let of = if protocol.is_empty() { "any protocol" } else { protocol };
    t.problem(format!("no service {text} of {of}")).help(help)
}

fn tcp(g: &Given) -> Fallible<Match> {
    let (sport, dport) = both_ports(g, "tcp")?;
    let mut flags = None;
    let mut option = None;
    for t in g.iter() {
        match t.id {
            FLAGS => {
                let value = match t.second {
                    "" if t.arg.is_empty() => TcpFlags { mask: 0x17, comp: 0x02 },
                    _ => TcpFlags {
                        mask: flag_set(t, t.arg, false)?,
                        comp: flag_set(t, t.second, true)?,
                    },
                };
                flags = Some(Neg { negated: t.negated, value });
            }
            OPTION => option = Some(option_number(t)?),
            _ => {}
        }
    }
    // A mask and flags of zero test nothing and are not printed back.
    let empty = Neg { negated: false, value: TcpFlags { mask: 0, comp: 0 } };
    Ok(Match::Tcp { sport, dport, flags: flags.filter(|f| *f != empty), option })
}

fn option_number(t: &Taken) -> Fallible<Neg<u8>> {
    match number::whole(t.arg, 1, 255) {
        Some(n) => Ok(Neg { negated: t.negated, value: n as u8 }),
        None => t.problem(format!("{} is not an option number from 1 to 255", t.arg)).fail(),
    }
}

const TCP_FLAGS: [(&str, u8); 8] = [
    ("FIN", 0x01),
    ("SYN", 0x02),
    ("RST", 0x04),
    ("PSH", 0x08),
    ("ACK", 0x10),
    ("URG", 0x20),
    ("ALL", 0x3f),
    ("NONE", 0),
];

fn flag_set(t: &Taken, text: &str, second: bool) -> Fallible<u8> {
    let mut out = 0;
    for word in text.split(',').filter(|w| !w.is_empty()) {
        match TCP_FLAGS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
            Some((_, bits)) => out |= bits,
            None => {
                let message = format!("no TCP flag {word}");
                let problem = if second { t.second_problem(message) } else { t.problem(message) };
                return problem.help("use FIN, SYN, RST, PSH, ACK, URG, ALL and NONE").fail();
            }
        }
    }
    Ok(out)
}

fn multiport(g: &Given) -> Fallible<Match> {
    let Some(t) = g.iter().next() else {
        return g
            .problem("multiport without ports")
            .help("give --sports, --dports or --ports")
            .fail();
    };
    let protocol = match t.proto {
        (6, false) => "tcp",
        (17, false) => "udp",
        (33, false) => "dccp",
        (132, false) => "sctp",
        (136, false) => "udplite",
        _ => {
            return Diagnostic::new("multiport without a protocol that has ports", t.span)
                .help("write -p tcp, udp, udplite, sctp or dccp before it")
                .fail();
        }
    };
    let mut ports = Vec::with_capacity(1 + t.arg.bytes().filter(|b| *b == b',').count());
    let mut slots = 0;
    for part in t.arg.split(',') {
        slots += 1;
        let value = match part.split_once(':') {
            None => {
                let p = port(t, part, protocol)?;
                PortSpan { lo: p, hi: p }
            }
            Some((lo, hi)) => {
                slots += 1;
                let (lo, hi) = (port(t, lo, protocol)?, port(t, hi, protocol)?);
                if lo >= hi {
                    return t
                        .problem(format!("the lower port of {part} is not below its upper port"))
                        .fail();
                }
                PortSpan { lo, hi }
            }
        };
        ports.push(value);
    }
    if slots > 15 {
        return t
            .problem("more than 15 ports in one multiport")
            .help("a range counts as two of the 15: write several rules")
            .fail();
    }
    let which = [PortSide::Source, PortSide::Destination, PortSide::Either][t.id as usize];
    Ok(Match::Multiport { which, ports: Neg { negated: t.negated, value: ports } })
}

const DCCP_TYPES: [&str; 10] = [
    "REQUEST", "RESPONSE", "DATA", "ACK", "DATAACK", "CLOSEREQ", "CLOSE", "RESET", "SYNC",
    "SYNCACK",
];

fn dccp(g: &Given) -> Fallible<Match> {
    let (sport, dport) = both_ports(g, "dccp")?;
    let mut types = None;
    let mut option = None;
    for t in g.iter() {
        match t.id {
            TYPES => types = Some(Neg { negated: t.negated, value: dccp_types(t)? }),
            OPTION => option = Some(option_number(t)?),
            _ => {}
        }
    }
    Ok(Match::Dccp { sport, dport, types, option })
}

fn dccp_types(t: &Taken) -> Fallible<String> {
    let mut bits = 0u16;
    for word in t.arg.split(',').filter(|w| !w.is_empty()) {
        match DCCP_TYPES.iter().position(|name| name.eq_ignore_ascii_case(word)) {
            Some(i) => bits |= 1 << i,
            None if word.eq_ignore_ascii_case("INVALID") => bits |= 1 << 10,
            None => return t.problem(format!("no DCCP packet type {word}")).fail(),
        }
    }
    let names = DCCP_TYPES.iter().copied().chain(["INVALID"]);
    let set: Vec<_> =
        names.enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, n)| n).collect();
    Ok(set.join(","))
}

/// Appends ` --sport … --dport …`.
fn print_ports(out: &mut String, sport: &PortTest, dport: &PortTest) {
    for (flag, test) in [("--sport", sport), ("--dport", dport)] {
        if let Some(Neg { negated, value }) = test {
            write::option(out, *negated, flag);
            print_span(out, *value);
        }
    }
}

/// Appends `80` or `1:1023`.
pub(super) fn print_span(out: &mut String, span: PortSpan) {
    write::decimal(out, span.lo.into());
    if span.lo != span.hi {
        out.push(':');
        write::decimal(out, span.hi.into());
    }
}

pub(super) fn print_tcp(
    out: &mut String,
    sport: &PortTest,
    dport: &PortTest,
    flags: Option<&Neg<TcpFlags>>,
    option: Option<&Neg<u8>>,
) {
    out.push_str(" -m tcp");
    print_ports(out, sport, dport);
    print_option(out, "--tcp-option", option);
    // A mask of zero with flags never matches; iptables-save omits it.
    if let Some(Neg { negated, value }) = flags {
        write::option(out, *negated, "--tcp-flags");
        print_flags(out, value.mask);
        out.push(' ');
        print_flags(out, value.comp);
    }
}

fn print_flags(out: &mut String, bits: u8) {
    if bits == 0 {
        out.push_str("NONE");
    }
    let set = TCP_FLAGS[..6].iter().filter(|(_, bit)| bits & bit != 0);
    write::comma_list(out, set, |out, (name, _)| out.push_str(name));
}

fn print_option(out: &mut String, flag: &str, option: Option<&Neg<u8>>) {
    if let Some(Neg { negated, value }) = option {
        write::option(out, *negated, flag);
        write::decimal(out, (*value).into());
    }
}

pub(super) fn print_udp(out: &mut String, sport: &PortTest, dport: &PortTest) {
    out.push_str(" -m udp");
    print_ports(out, sport, dport);
}

pub(super) fn print_sctp(
    out: &mut String,
    sport: &PortTest,
    dport: &PortTest,
    chunks: Option<&Neg<String>>,
) {
    out.push_str(" -m sctp");
    print_ports(out, sport, dport);
    if let Some(Neg { negated, value }) = chunks {
        write::option(out, *negated, "--chunk-types");
        out.push_str(value);
    }
}

pub(super) fn print_dccp(
    out: &mut String,
    sport: &PortTest,
    dport: &PortTest,
    types: Option<&Neg<String>>,
    option: Option<&Neg<u8>>,
) {
    out.push_str(" -m dccp");
    print_ports(out, sport, dport);
    if let Some(Neg { negated, value }) = types {
        write::option(out, *negated, "--dccp-types");
        out.push_str(value);
    }
    print_option(out, "--dccp-option", option);
}

pub(super) fn print_multiport(out: &mut String, which: PortSide, ports: &Neg<Vec<PortSpan>>) {
    out.push_str(" -m multiport");
    let flag = match which {
        PortSide::Source => "--sports",
        PortSide::Destination => "--dports",
        PortSide::Either => "--ports",
    };
    write::option(out, ports.negated, flag);
    write::comma_list(out, &ports.value, |out, p| print_span(out, *p));
}
