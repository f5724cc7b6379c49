//! Matches that test header fields. Each structure is cited where the encoder writes it.

use weir_model::rule_match::{
    IcmpTypeMatch, MaskedValue, MultiportSelector, Negatable, TcpFlagsMatch, TtlComparison,
};
use weir_model::{Addr, Family, Match, PortSpan};
use weir_packet::PktType;

use super::extension_bytes::{ExtensionBytes, negatable};
use super::{conntrack_matches, set_modules, stateful_matches, unmodelled_input_matches};
use crate::xtables::set_indices::SetIndices;

/// A match of a module and revision; `None` where the decoder does not know it.
pub(super) fn decode_match(
    family: Family,
    name: &str,
    revision: u8,
    data: &[u8],
    sets: &SetIndices,
) -> Option<Match> {
    let of_length = |length| ExtensionBytes::of_length(data, length);
    let v4 = family == Family::V4;
    Some(match (name, revision) {
        ("tcp", 0) => decode_tcp(of_length(12)?),
        ("udp", 0) => {
            let info = of_length(10)?;
            let (sport, dport) = decode_ports(info, info.u8(8));
            Match::Udp { sport, dport }
        }
        ("sctp", 0) => decode_sctp_ports(of_length(292)?),
        ("icmp", 0) if v4 => decode_icmp(of_length(4)?),
        ("icmp6", 0) if !v4 => decode_icmp(of_length(4)?),
        ("multiport", 1) => decode_multiport(of_length(48)?)?,
        ("iprange", 1) => decode_iprange(family, of_length(68)?),
        ("mac", 0) => {
            let info = of_length(12)?;
            let mac = info.0[..6].try_into().ok()?;
            Match::Mac(negatable(info.flag(8), mac))
        }
        ("mark", 1) => Match::Mark(decode_mark(of_length(12)?)),
        ("connmark", 1) => Match::ConnMark(decode_mark(of_length(12)?)),
        ("conntrack", 3) => conntrack_matches::decode_conntrack(family, of_length(164)?)?,
        ("length", 0) => {
            let info = of_length(6)?;
            Match::Length(negatable(info.flag(4), (info.u16(0), info.u16(2))))
        }
        ("ttl", 0) if v4 => decode_ttl(of_length(2)?)?,
        ("hl", 0) if !v4 => decode_ttl(of_length(2)?)?,
        ("dscp", 0) => {
            let info = of_length(2)?;
            Match::Dscp(negatable(info.flag(1), info.u8(0)))
        }
        ("tos", 1) => {
            let info = of_length(3)?;
            Match::Tos(negatable(info.flag(2), (info.u8(1), info.u8(0))))
        }
        ("pkttype", 0) => {
            let info = of_length(8)?;
            let kind = match info.u32(0) {
                0 => PktType::Unicast,
                1 => PktType::Broadcast,
                2 => PktType::Multicast,
                _ => return None,
            };
            Match::PktType(negatable(info.u32(4) != 0, kind))
        }
        ("comment", 0) => Match::Comment(of_length(256)?.text(0, 256)?),
        ("set", 4) => set_modules::decode_set_match(of_length(44)?, sets)?,
        (
            "connbytes" | "limit" | "quota" | "recent" | "statistic" | "connlimit" | "hashlimit",
            _,
        ) => stateful_matches::decode_stateful(family, name, revision, data)?,
        _ => unmodelled_input_matches::decode_unmodelled_input_match(name, revision, data)?,
    })
}

fn decode_ports_unless_any(
    info: ExtensionBytes,
    at: usize,
    negated: bool,
) -> Option<Negatable<PortSpan>> {
    let span = PortSpan { lo: info.u16(at), hi: info.u16(at + 2) };
    let tests = span != PortSpan { lo: 0, hi: u16::MAX } || negated;
    tests.then_some(Negatable { negated, value: span })
}

fn decode_ports(
    info: ExtensionBytes,
    inverse: u8,
) -> (Option<Negatable<PortSpan>>, Option<Negatable<PortSpan>>) {
    (
        decode_ports_unless_any(info, 0, inverse & 1 != 0),
        decode_ports_unless_any(info, 4, inverse & 2 != 0),
    )
}

fn decode_tcp(info: ExtensionBytes) -> Match {
    let inverse = info.u8(11);
    let (sport, dport) = decode_ports(info, inverse);
    let flags = TcpFlagsMatch { mask: info.u8(9), comp: info.u8(10) };
    let tests_flags = flags != TcpFlagsMatch { mask: 0, comp: 0 } || inverse & 4 != 0;
    let tests_option = info.u8(8) != 0 || inverse & 8 != 0;
    Match::Tcp {
        sport,
        dport,
        flags: tests_flags.then_some(negatable(inverse & 4 != 0, flags)),
        option: tests_option.then_some(negatable(inverse & 8 != 0, info.u8(8))),
    }
}

/// Tests of chunks, which are not read, make the rule unknown when it is encoded again.
fn decode_sctp_ports(info: ExtensionBytes) -> Match {
    let (tests, inverse) = (info.u32(284), info.u32(288));
    let port_test = |at: usize, bit: u32| {
        let span = PortSpan { lo: info.u16(at), hi: info.u16(at + 2) };
        (tests & bit != 0).then_some(negatable(inverse & bit != 0, span))
    };
    Match::Sctp { sport: port_test(4, 1), dport: port_test(0, 2), chunks: None }
}

fn decode_icmp(info: ExtensionBytes) -> Match {
    let value = IcmpTypeMatch { kind: info.u8(0), codes: (info.u8(1), info.u8(2)) };
    Match::Icmp(negatable(info.flag(3), value))
}

fn decode_multiport(info: ExtensionBytes) -> Option<Match> {
    let which = match info.u8(0) {
        0 => MultiportSelector::Source,
        1 => MultiportSelector::Destination,
        2 => MultiportSelector::Either,
        _ => return None,
    };
    let slots = usize::from(info.u8(1)).min(15);
    let mut ports = Vec::with_capacity(slots);
    let mut slot = 0;
    while slot < slots {
        let lo = info.u16(2 + 2 * slot);
        let is_range = info.flag(32 + slot) && slot + 1 < slots;
        slot += usize::from(is_range);
        ports.push(PortSpan { lo, hi: info.u16(2 + 2 * slot) });
        slot += 1;
    }
    Some(Match::Multiport { which, ports: negatable(info.flag(47), ports) })
}

fn decode_iprange(family: Family, info: ExtensionBytes) -> Match {
    let flags = info.u8(64);
    let range = |at: usize, bit: u8| -> Option<Negatable<(Addr, Addr)>> {
        let ends = (info.addr(at, family), info.addr(at + 16, family));
        (flags & bit != 0).then_some(negatable(flags & bit << 4 != 0, ends))
    };
    Match::IpRange { src: range(0, 1), dst: range(32, 2) }
}

fn decode_mark(info: ExtensionBytes) -> Negatable<MaskedValue> {
    negatable(info.flag(8), MaskedValue { value: info.u32(0), mask: info.u32(4) })
}

fn decode_ttl(info: ExtensionBytes) -> Option<Match> {
    let op = match info.u8(0) {
        0 => TtlComparison::Eq,
        1 => TtlComparison::Ne,
        2 => TtlComparison::Lt,
        3 => TtlComparison::Gt,
        _ => return None,
    };
    Some(Match::Ttl { op, value: info.u8(1) })
}
