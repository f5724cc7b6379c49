//! Matches of one protocol's ports: tcp, udp, sctp, dccp, and multiport over all of them.

use weir_model::rule_match::{MultiportSelector, Negatable, TcpFlagsMatch};
use weir_model::{Match, PortSpan};

use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, OptionSpec, ParsedExtensionOptions, ParsedOption,
    option_with_argument,
};
use crate::{append_text, strtoul, system_name_tables};

const SPORT_OPTION_ID: u8 = 0;
const DPORT_OPTION_ID: u8 = 1;
const TCP_FLAGS_OPTION_ID: u8 = 2;
const TCP_DCCP_OPTION_NUMBER_ID: u8 = 3;
const CHUNK_TYPES_OPTION_ID: u8 = 2;
const DCCP_TYPES_OPTION_ID: u8 = 2;

/// Options of every protocol that has ports.
const PORT_OPTIONS: [OptionSpec; 4] = [
    option_with_argument("source-port", SPORT_OPTION_ID).invertible(),
    option_with_argument("sport", SPORT_OPTION_ID).invertible(),
    option_with_argument("destination-port", DPORT_OPTION_ID).invertible(),
    option_with_argument("dport", DPORT_OPTION_ID).invertible(),
];

pub(super) static TCP_MATCH: Extension<Match> = Extension {
    name: "tcp",
    options: &[
        PORT_OPTIONS[0],
        PORT_OPTIONS[1],
        PORT_OPTIONS[2],
        PORT_OPTIONS[3],
        OptionSpec {
            arity: crate::iptables::option_specs_and_arguments::OptionArity::Flag,
            ..option_with_argument("syn", TCP_FLAGS_OPTION_ID).invertible()
        },
        option_with_argument("tcp-flags", TCP_FLAGS_OPTION_ID).invertible().with_two_arguments(),
        option_with_argument("tcp-option", TCP_DCCP_OPTION_NUMBER_ID).invertible(),
    ],
    build: build_tcp_match,
    scope: ExtensionScope::for_protocols(&[6]),
    ..Extension::DEFAULT
};

pub(super) static UDP_MATCH: Extension<Match> = Extension {
    name: "udp",
    options: &PORT_OPTIONS,
    build: |g| {
        let (sport, dport) = parse_sport_and_dport(g, "udp")?;
        Ok(Match::Udp { sport, dport })
    },
    scope: ExtensionScope::for_protocols(&[17]),
    ..Extension::DEFAULT
};

pub(super) static SCTP_MATCH: Extension<Match> = Extension {
    name: "sctp",
    options: &[
        PORT_OPTIONS[0],
        PORT_OPTIONS[1],
        PORT_OPTIONS[2],
        PORT_OPTIONS[3],
        option_with_argument("chunk-types", CHUNK_TYPES_OPTION_ID)
            .invertible()
            .with_two_arguments(),
    ],
    build: |g| {
        let (sport, dport) = parse_sport_and_dport(g, "sctp")?;
        let chunks = g
            .first_with_id(CHUNK_TYPES_OPTION_ID)
            .map(super::sctp_chunks::canonicalize_chunk_types)
            .transpose()?;
        Ok(Match::Sctp { sport, dport, chunks })
    },
    scope: ExtensionScope::for_protocols(&[132]),
    ..Extension::DEFAULT
};

pub(super) static DCCP_MATCH: Extension<Match> = Extension {
    name: "dccp",
    options: &[
        PORT_OPTIONS[0],
        PORT_OPTIONS[1],
        PORT_OPTIONS[2],
        PORT_OPTIONS[3],
        option_with_argument("dccp-types", DCCP_TYPES_OPTION_ID).invertible(),
        option_with_argument("dccp-option", TCP_DCCP_OPTION_NUMBER_ID).invertible(),
    ],
    build: build_dccp_match,
    scope: ExtensionScope::for_protocols(&[33]),
    ..Extension::DEFAULT
};

pub(super) static MULTIPORT_MATCH: Extension<Match> = Extension {
    name: "multiport",
    options: &[
        option_with_argument("source-ports", 0).invertible().excludes(6),
        option_with_argument("sports", 0).invertible().excludes(6),
        option_with_argument("destination-ports", 1).invertible().excludes(5),
        option_with_argument("dports", 1).invertible().excludes(5),
        option_with_argument("ports", 2).invertible().excludes(3),
    ],
    build: build_multiport_match,
    scope: ExtensionScope::for_protocols(&[6, 17, 33, 132, 136]),
    ..Extension::DEFAULT
};

type OptionalPortTest = Option<Negatable<PortSpan>>;

fn parse_sport_and_dport(
    g: &ParsedExtensionOptions,
    protocol: &str,
) -> ParseResult<(OptionalPortTest, OptionalPortTest)> {
    let mut ports = [None, None];
    for t in g.iter().filter(|t| t.id <= DPORT_OPTION_ID) {
        let value = parse_port_span(t, t.arg, protocol)?;
        // For tcp and udp the kernel stores the whole range if no port is tested, and it is not
        // printed back; for sctp and dccp it is a separate test.
        let flagged = matches!(protocol, "sctp" | "dccp");
        if flagged || t.negated || value.lo != 0 || value.hi != u16::MAX {
            ports[t.id as usize] = Some(Negatable { negated: t.negated, value });
        }
    }
    let [sport, dport] = ports;
    Ok((sport, dport))
}

/// `80`, `http`, `1024:`, `:1023`, `a:b`.
pub(super) fn parse_port_span(
    t: &ParsedOption,
    text: &str,
    protocol: &str,
) -> ParseResult<PortSpan> {
    // tcp and sctp read by hand, the others by the system's resolver.
    let strict = matches!(protocol, "tcp" | "sctp");
    let one = |text| {
        if strict {
            parse_port_of_protocol(t, text, protocol)
        } else {
            parse_resolver_port(t, text)
        }
    };
    let Some((lo, hi)) = text.split_once(':') else {
        let p = one(text)?;
        return Ok(PortSpan { lo: p, hi: p });
    };
    let lo = if lo.is_empty() { 0 } else { one(lo)? };
    let hi = if hi.is_empty() { u16::MAX } else { one(hi)? };
    // For udp, dccp and conntrack the tools accept an empty range of ports.
    if lo > hi && strict {
        return t
            .arg_error(format!("the lower port of {text} is above its upper port"))
            .with_help(format!("write {hi}:{lo}"))
            .into_err();
    }
    Ok(PortSpan { lo, hi })
}

/// A port's number or service name.
pub(super) fn parse_port_of_protocol(
    t: &ParsedOption,
    text: &str,
    protocol: &str,
) -> ParseResult<u16> {
    if let Some(p) = strtoul::parse_u16(text) {
        return Ok(p);
    }
    // getservbyname takes any protocol where there is no name for one.
    let filter = (!protocol.is_empty()).then_some(protocol);
    match system_name_tables::service_port(text, filter) {
        Some(p) => Ok(p),
        None => bad_port_error(t, text, protocol).into_err(),
    }
}

/// A port as the system's resolver reads it: decimal with a sign or without (`strtoul` of base 10
/// in glibc's `getaddrinfo`), or a name of any protocol.
///
/// The resolver wraps numbers above 65535 around and takes nothing for 0: both are refused here.
pub(super) fn parse_resolver_port(t: &ParsedOption, text: &str) -> ParseResult<u16> {
    let body = text.trim_start_matches(strtoul::STRTOUL_BLANKS);
    let (negative, digits) = match body.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, body.strip_prefix('+').unwrap_or(body)),
    };
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        match digits.parse() {
            Ok(0) => return Ok(0),
            // A number below 0 is looked up as a name.
            _ if negative => {}
            Ok(p) => return Ok(p),
            Err(_) => return port_too_large_error(t, text).into_err(),
        }
    }
    match system_name_tables::service_port(text, None) {
        Some(p) => Ok(p),
        None if text.is_empty() => {
            t.arg_error("empty port").with_help("write its number").into_err()
        }
        None => bad_port_error(t, text, "any protocol").into_err(),
    }
}

fn port_too_large_error(t: &ParsedOption, text: &str) -> Diagnostic {
    t.arg_error(format!("port {text} is above 65535")).with_help("ports are numbers of 16 bits")
}

fn bad_port_error(t: &ParsedOption, text: &str, protocol: &str) -> Diagnostic {
    if strtoul::parse_number_in_range(text, 0, u64::MAX).is_some() {
        return port_too_large_error(t, text);
    }
    if text.contains('-') && text.split('-').all(|p| strtoul::parse_u16(p).is_some()) {
        return t.arg_error(format!("{text} is not a port")).with_help(format!(
            "a range of ports is written with a colon: {}",
            text.replace('-', ":")
        ));
    }
    if text.contains(',') {
        return t
            .arg_error(format!("{text} is not a port"))
            .with_help(format!("several ports need multiport: -m multiport --dports {text}"));
    }
    let help = match system_name_tables::service_port(text, None) {
        Some(_) => format!("/etc/services knows {text}, but not for {protocol}: write the number"),
        None => "write the port's number, or a name that /etc/services has".to_owned(),
    };
    let of = if protocol.is_empty() { "any protocol" } else { protocol };
    t.arg_error(format!("no service {text} of {of}")).with_help(help)
}

fn build_tcp_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let (sport, dport) = parse_sport_and_dport(g, "tcp")?;
    let mut flags = None;
    let mut option = None;
    for t in g.iter() {
        match t.id {
            TCP_FLAGS_OPTION_ID => {
                let value = match t.second_arg {
                    "" if t.arg.is_empty() => TcpFlagsMatch { mask: 0x17, comp: 0x02 },
                    _ => TcpFlagsMatch {
                        mask: parse_tcp_flag_set(t, t.arg, false)?,
                        comp: parse_tcp_flag_set(t, t.second_arg, true)?,
                    },
                };
                flags = Some(Negatable { negated: t.negated, value });
            }
            TCP_DCCP_OPTION_NUMBER_ID => option = Some(parse_tcp_dccp_option_number(t)?),
            _ => {}
        }
    }
    // A mask and flags of zero test nothing and are not printed back.
    let empty = Negatable { negated: false, value: TcpFlagsMatch { mask: 0, comp: 0 } };
    Ok(Match::Tcp { sport, dport, flags: flags.filter(|f| *f != empty), option })
}

fn parse_tcp_dccp_option_number(t: &ParsedOption) -> ParseResult<Negatable<u8>> {
    match strtoul::parse_number_in_range(t.arg, 1, 255) {
        Some(n) => Ok(Negatable { negated: t.negated, value: n as u8 }),
        None => t.arg_error(format!("{} is not an option number from 1 to 255", t.arg)).into_err(),
    }
}

const IPTABLES_TCP_FLAG_NAMES: [(&str, u8); 8] = [
    ("FIN", 0x01),
    ("SYN", 0x02),
    ("RST", 0x04),
    ("PSH", 0x08),
    ("ACK", 0x10),
    ("URG", 0x20),
    ("ALL", 0x3f),
    ("NONE", 0),
];

fn parse_tcp_flag_set(t: &ParsedOption, text: &str, second: bool) -> ParseResult<u8> {
    let mut out = 0;
    for word in text.split(',').filter(|w| !w.is_empty()) {
        match IPTABLES_TCP_FLAG_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
            Some((_, bits)) => out |= bits,
            None => {
                let message = format!("no TCP flag {word}");
                let problem =
                    if second { t.second_arg_error(message) } else { t.arg_error(message) };
                return problem
                    .with_help("use FIN, SYN, RST, PSH, ACK, URG, ALL and NONE")
                    .into_err();
            }
        }
    }
    Ok(out)
}

fn build_multiport_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(t) = g.iter().next() else {
        return g
            .extension_error("multiport without ports")
            .with_help("give --sports, --dports or --ports")
            .into_err();
    };
    let protocol = match t.proto_so_far {
        (6, false) => "tcp",
        (17, false) => "udp",
        (33, false) => "dccp",
        (132, false) => "sctp",
        (136, false) => "udplite",
        _ => {
            return Diagnostic::new(
                "multiport without a protocol that has ports",
                t.negation_to_arguments_span,
            )
            .with_help("write -p tcp, udp, udplite, sctp or dccp before it")
            .into_err();
        }
    };
    let mut ports = Vec::with_capacity(1 + t.arg.bytes().filter(|b| *b == b',').count());
    let mut slots = 0;
    for part in t.arg.split(',') {
        slots += 1;
        let value = match part.split_once(':') {
            None => {
                let p = parse_port_of_protocol(t, part, protocol)?;
                PortSpan { lo: p, hi: p }
            }
            Some((lo, hi)) => {
                slots += 1;
                let (lo, hi) = (
                    parse_port_of_protocol(t, lo, protocol)?,
                    parse_port_of_protocol(t, hi, protocol)?,
                );
                if lo >= hi {
                    return t
                        .arg_error(format!("the lower port of {part} is not below its upper port"))
                        .into_err();
                }
                PortSpan { lo, hi }
            }
        };
        ports.push(value);
    }
    if slots > 15 {
        return t
            .arg_error("more than 15 ports in one multiport")
            .with_help("a range counts as two of the 15: write several rules")
            .into_err();
    }
    let which =
        [MultiportSelector::Source, MultiportSelector::Destination, MultiportSelector::Either]
            [t.id as usize];
    Ok(Match::Multiport { which, ports: Negatable { negated: t.negated, value: ports } })
}

const DCCP_TYPE_NAMES: [&str; 10] = [
    "REQUEST", "RESPONSE", "DATA", "ACK", "DATAACK", "CLOSEREQ", "CLOSE", "RESET", "SYNC",
    "SYNCACK",
];

fn build_dccp_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let (sport, dport) = parse_sport_and_dport(g, "dccp")?;
    let mut types = None;
    let mut option = None;
    for t in g.iter() {
        match t.id {
            DCCP_TYPES_OPTION_ID => {
                types = Some(Negatable { negated: t.negated, value: canonicalize_dccp_types(t)? })
            }
            TCP_DCCP_OPTION_NUMBER_ID => option = Some(parse_tcp_dccp_option_number(t)?),
            _ => {}
        }
    }
    Ok(Match::Dccp { sport, dport, types, option })
}

fn canonicalize_dccp_types(t: &ParsedOption) -> ParseResult<String> {
    let mut bits = 0u16;
    for word in t.arg.split(',').filter(|w| !w.is_empty()) {
        match DCCP_TYPE_NAMES.iter().position(|name| name.eq_ignore_ascii_case(word)) {
            Some(i) => bits |= 1 << i,
            None if word.eq_ignore_ascii_case("INVALID") => bits |= 1 << 10,
            None => return t.arg_error(format!("no DCCP packet type {word}")).into_err(),
        }
    }
    let names = DCCP_TYPE_NAMES.iter().copied().chain(["INVALID"]);
    let set: Vec<_> =
        names.enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, n)| n).collect();
    Ok(set.join(","))
}

/// Appends ` --sport … --dport …`.
fn print_port_tests(out: &mut String, sport: &OptionalPortTest, dport: &OptionalPortTest) {
    for (flag, test) in [("--sport", sport), ("--dport", dport)] {
        if let Some(Negatable { negated, value }) = test {
            append_text::append_negatable_option_name(out, *negated, flag);
            print_port_span(out, *value);
        }
    }
}

/// Appends `80` or `1:1023`.
pub(super) fn print_port_span(out: &mut String, span: PortSpan) {
    append_text::append_decimal(out, span.lo.into());
    if span.lo != span.hi {
        out.push(':');
        append_text::append_decimal(out, span.hi.into());
    }
}

pub(super) fn print_tcp_match(
    out: &mut String,
    sport: &OptionalPortTest,
    dport: &OptionalPortTest,
    flags: Option<&Negatable<TcpFlagsMatch>>,
    option: Option<&Negatable<u8>>,
) {
    out.push_str(" -m tcp");
    print_port_tests(out, sport, dport);
    print_tcp_dccp_option_number(out, "--tcp-option", option);
    // A mask of zero with flags never matches; iptables-save omits it.
    if let Some(Negatable { negated, value }) = flags {
        append_text::append_negatable_option_name(out, *negated, "--tcp-flags");
        print_one_tcp_flag_set(out, value.mask);
        out.push(' ');
        print_one_tcp_flag_set(out, value.comp);
    }
}

fn print_one_tcp_flag_set(out: &mut String, bits: u8) {
    if bits == 0 {
        out.push_str("NONE");
    }
    let set = IPTABLES_TCP_FLAG_NAMES[..6].iter().filter(|(_, bit)| bits & bit != 0);
    append_text::append_comma_list(out, set, |out, (name, _)| out.push_str(name));
}

fn print_tcp_dccp_option_number(out: &mut String, flag: &str, option: Option<&Negatable<u8>>) {
    if let Some(Negatable { negated, value }) = option {
        append_text::append_negatable_option_name(out, *negated, flag);
        append_text::append_decimal(out, (*value).into());
    }
}

pub(super) fn print_udp_match(
    out: &mut String,
    sport: &OptionalPortTest,
    dport: &OptionalPortTest,
) {
    out.push_str(" -m udp");
    print_port_tests(out, sport, dport);
}

pub(super) fn print_sctp_match(
    out: &mut String,
    sport: &OptionalPortTest,
    dport: &OptionalPortTest,
    chunks: Option<&Negatable<String>>,
) {
    out.push_str(" -m sctp");
    print_port_tests(out, sport, dport);
    if let Some(Negatable { negated, value }) = chunks {
        append_text::append_negatable_option_name(out, *negated, "--chunk-types");
        out.push_str(value);
    }
}

pub(super) fn print_dccp_match(
    out: &mut String,
    sport: &OptionalPortTest,
    dport: &OptionalPortTest,
    types: Option<&Negatable<String>>,
    option: Option<&Negatable<u8>>,
) {
    out.push_str(" -m dccp");
    print_port_tests(out, sport, dport);
    if let Some(Negatable { negated, value }) = types {
        append_text::append_negatable_option_name(out, *negated, "--dccp-types");
        // No type at all: iptables-save prints nothing, which cannot be read back.
        out.push_str(if value.is_empty() { "\"\"" } else { value });
    }
    print_tcp_dccp_option_number(out, "--dccp-option", option);
}

pub(super) fn print_multiport_match(
    out: &mut String,
    which: MultiportSelector,
    ports: &Negatable<Vec<PortSpan>>,
) {
    out.push_str(" -m multiport");
    let flag = match which {
        MultiportSelector::Source => "--sports",
        MultiportSelector::Destination => "--dports",
        MultiportSelector::Either => "--ports",
    };
    append_text::append_negatable_option_name(out, ports.negated, flag);
    append_text::append_comma_list(out, &ports.value, |out, p| print_port_span(out, *p));
}
