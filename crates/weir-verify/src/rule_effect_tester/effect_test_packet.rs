//! Packets for a bench: every protocol, complete and truncated at every length, fragments,
//! extension headers, boundary values of ports and fields.

use weir_kernel::conntrack;
use weir_packet::tcp_flag::{ACK, FIN, PSH, RST, SYN, URG};
use weir_packet::{Addr, ConntrackInfo, CtState, Family, FragmentPosition, Mac, Packet, Transport};

use super::copy_number::{read_copy_number, write_copy_number};
use crate::conntrack_setup;

/// A packet to be sent through every rule of a bench.
#[derive(Clone, Debug)]
pub struct EffectTestPacket {
    /// What it is, in words.
    pub name: String,
    /// Its bytes from the network header on; the number of each copy is written into them.
    pub bytes: Vec<u8>,
    /// As the interpreter sees it, where it can.
    pub packet: Option<Packet>,
    /// Source MAC, where it is not the usual one.
    pub smac: Option<Mac>,
    /// The host may refuse it before the first hook.
    pub may_be_dropped_before_first_hook: bool,
}

impl EffectTestPacket {
    /// A packet that can be modelled.
    pub fn from_packet(name: impl Into<String>, packet: Packet) -> EffectTestPacket {
        let bytes = packet.to_bytes();
        let smac = packet.smac;
        EffectTestPacket {
            name: name.into(),
            bytes,
            packet: Some(packet),
            smac,
            may_be_dropped_before_first_hook: false,
        }
    }

    /// Bytes from the network header on.
    fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> EffectTestPacket {
        // A TCP header that is all there, but says another length: no packet of the model.
        // Nor is AH of IPv6, which is an extension header.
        let is_modelled = |p: &Packet| match p.proto {
            6 => p.transport != Transport::Truncated || p.payload.len() < 20,
            51 => p.family == Family::V4,
            _ => true,
        };
        let mut packet = Packet::parse(&bytes).ok().filter(is_modelled);
        if let Some(packet) = &mut packet {
            packet.ct = ConntrackInfo::from_state(CtState::Invalid);
        }
        EffectTestPacket {
            name: name.into(),
            bytes,
            packet,
            smac: None,
            may_be_dropped_before_first_hook: false,
        }
    }

    /// Connections that must be there before it is sent.
    pub(super) fn needed_conntrack_entries(&self) -> Vec<conntrack::ConntrackEntry> {
        self.packet
            .as_ref()
            .map_or(Vec::new(), |p| conntrack_setup::build_conntrack_entries_of_packet(p, 1))
    }

    /// What was logged of a copy, without its number: as the packet itself would have been logged.
    pub(super) fn without_copy_number(&self, mut logged: Vec<u8>) -> Vec<u8> {
        write_copy_number(&mut logged, read_copy_number(&self.bytes));
        logged
    }

    /// The frame of the copy of that number.
    pub(super) fn frame_of_copy(&self, dmac: Mac, smac: Mac, number: u32) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let kind: [u8; 2] = if bytes[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        write_copy_number(&mut bytes, number);
        let pkttype = self.packet.as_ref().map(|p| p.to_frame_with_dmac(dmac)[..6].to_vec());
        let mut frame = pkttype.unwrap_or(dmac.to_vec());
        frame.extend_from_slice(&self.smac.unwrap_or(smac));
        frame.extend_from_slice(&kind);
        frame.extend_from_slice(&bytes);
        frame
    }
}

/// The usual addresses: 192.0.2.1 to 198.51.100.7, and 2001:db8::1 to 2001:db8:ff::7.
pub(super) fn default_addrs(family: Family) -> (Addr, Addr) {
    match family {
        Family::V4 => (Addr(0xc000_0201), Addr(0xc633_6407)),
        Family::V6 => (Addr(0x2001_0db8 << 96 | 1), Addr(0x2001_0db8_00ff << 80 | 7)),
    }
}

fn packet_without_transport(family: Family, proto: u8) -> Packet {
    let (saddr, daddr) = default_addrs(family);
    let mut p = Packet::new(family, saddr, daddr, proto);
    p.ct = ConntrackInfo::from_state(CtState::Invalid);
    p
}

fn build_tcp_packet_with_options(
    family: Family,
    sport: u16,
    dport: u16,
    flags: u8,
    options: &[u8],
) -> Packet {
    let mut p = packet_without_transport(family, 6);
    p.transport = Transport::Tcp { sport, dport, seq: 1, ack: 0, flags, options: options.to_vec() };
    p
}

/// A network header of the family before `body`.
fn prepend_network_header(
    family: Family,
    proto: u8,
    fragment: FragmentPosition,
    body: &[u8],
) -> Vec<u8> {
    let mut p = packet_without_transport(family, proto);
    (p.fragment, p.payload) = (fragment, body.to_vec());
    p.to_bytes()
}

const UNFRAGMENTED: FragmentPosition = FragmentPosition { offset: 0, more_fragments: false };

/// Complete transport headers with data after them, by protocol.
fn sample_transports(family: Family) -> Vec<(&'static str, u8, Vec<u8>)> {
    let body = |p: &Packet| p.to_bytes()[if family == Family::V4 { 20 } else { 40 }..].to_vec();
    let ports = |proto: u8, transport: Transport, payload: &[u8]| {
        let mut p = packet_without_transport(family, proto);
        (p.transport, p.payload) = (transport, payload.to_vec());
        body(&p)
    };
    let (sport, dport) = (40_000, 80);
    let mss = [2, 4, 5, 0xb4, 1, 1, 1, 0];
    let data = [0, 3, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    let request: Vec<u8> =
        [6, 0, 0, 0, 0x01, 0, 0, 1, 0, 0, 0, 42, 1, 2, 6, 3].into_iter().collect();
    let icmp = if family == Family::V4 { (1, 8) } else { (58, 128) };
    let echo = Transport::Icmp { kind: icmp.1, code: 0, rest: [0, 1, 0, 1] };
    vec![
        ("tcp", 6, body(&build_tcp_packet_with_options(family, sport, dport, SYN, &mss))),
        ("udp", 17, ports(17, Transport::Udp { sport, dport }, &[1, 2, 3, 4])),
        ("udplite", 136, ports(136, Transport::Udp { sport, dport }, &[1, 2, 3, 4])),
        ("icmp", icmp.0, ports(icmp.0, echo, &[1, 2, 3, 4])),
        ("sctp", 132, ports(132, Transport::Sctp { sport, dport, tag: 7 }, &data)),
        ("dccp", 33, ports(33, Transport::DccpPorts { sport, dport }, &request)),
        ("esp", 50, vec![0, 0, 1, 0xf4, 0, 0, 0, 1, 9, 9, 9, 9]),
        (
            "ah",
            51,
            vec![59, 4, 0, 0, 0, 0, 1, 0xf4, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        ),
        ("gre", 47, vec![0x20, 0, 0x88, 0xbe, 0, 0, 0, 1, 1, 2, 3, 4]),
        ("ipip", 4, vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("ospf", 89, vec![2, 1, 0, 24, 1, 2, 3, 4]),
        ("255", 255, vec![0, 80, 0, 80, 1, 2, 3, 4]),
    ]
}

/// All packets of the family that need no connection.
pub fn generate_packets_without_ct_entry(family: Family) -> Vec<EffectTestPacket> {
    let mut out = Vec::new();
    push_transport_field_packets(&mut out, family);
    push_truncated_packets(&mut out, family);
    push_fragments(&mut out, family);
    push_malformed_transport_packets(&mut out, family);
    push_network_and_link_field_packets(&mut out, family);
    match family {
        Family::V4 => push_transports_behind_ipv4_options(&mut out),
        Family::V6 => push_single_ipv6_extension_packets(&mut out),
    }
    out
}

/// Flags, options, ports at their edges, types of ICMP.
fn push_transport_field_packets(out: &mut Vec<EffectTestPacket>, family: Family) {
    let flags = [
        0,
        FIN,
        SYN,
        RST,
        PSH,
        ACK,
        URG,
        0x40,
        0x80,
        SYN | ACK,
        FIN | ACK,
        SYN | FIN,
        SYN | RST,
        0x3f,
        0xff,
        SYN | 0xc0,
        ACK | PSH,
    ];
    for flags in flags {
        out.push(EffectTestPacket::from_packet(
            format!("tcp flags {flags:#04x}"),
            build_tcp_packet_with_options(family, 1024, 80, flags, &[]),
        ));
    }
    let lists: [&[u8]; 9] = [
        &[2, 4, 5, 0xb4],
        &[2, 4, 2, 0],
        &[2, 4, 0xff, 0xff],
        &[1, 1, 2, 4, 5, 0xb4, 0, 0],
        &[3, 3, 7, 0],
        &[4, 2, 1, 1],
        &[8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0],
        &[0, 2, 4, 5, 0xb4, 0, 0, 0],
        &[1, 1, 1, 1],
    ];
    for list in lists {
        for flags in [SYN, ACK, SYN | ACK] {
            let name = format!("tcp flags {flags:#04x} options {list:02x?}");
            out.push(EffectTestPacket::from_packet(
                name,
                build_tcp_packet_with_options(family, 1024, 80, flags, list),
            ));
        }
    }
    for port in [0, 1, 21, 22, 79, 80, 81, 1023, 1024, 65_534, 65_535] {
        for (name, proto, _) in sample_transports(family).into_iter().filter(|b| has_ports(b.1)) {
            for (sport, dport) in [(port, 9), (9, port)] {
                let mut p = packet_without_transport(family, proto);
                p.transport = transport_with_ports(proto, sport, dport);
                p.payload = vec![0; 24];
                out.push(EffectTestPacket::from_packet(format!("{name} {sport} > {dport}"), p));
            }
        }
    }
    let (proto, kinds) = match family {
        Family::V4 => (1, [0, 3, 4, 5, 8, 11, 12, 13, 17, 18, 255]),
        Family::V6 => (58, [1, 2, 3, 4, 128, 129, 133, 135, 136, 137, 255]),
    };
    for kind in kinds {
        for code in [0, 1, 4, 255] {
            let mut p = packet_without_transport(family, proto);
            p.transport = Transport::Icmp { kind, code, rest: [0, 1, 0, 1] };
            out.push(EffectTestPacket::from_packet(format!("icmp {kind}/{code}"), p));
        }
    }
}

fn has_ports(proto: u8) -> bool {
    matches!(proto, 6 | 17 | 136 | 132 | 33)
}

fn transport_with_ports(proto: u8, sport: u16, dport: u16) -> Transport {
    match proto {
        6 => Transport::Tcp { sport, dport, seq: 1, ack: 0, flags: SYN, options: Vec::new() },
        132 => Transport::Sctp { sport, dport, tag: 7 },
        33 => Transport::DccpPorts { sport, dport },
        _ => Transport::Udp { sport, dport },
    }
}

/// Every protocol, cut after each byte.
fn push_truncated_packets(out: &mut Vec<EffectTestPacket>, family: Family) {
    for (name, proto, body) in sample_transports(family) {
        for length in 0..=body.len() {
            let bytes = prepend_network_header(family, proto, UNFRAGMENTED, &body[..length]);
            out.push(EffectTestPacket::from_bytes(format!("{name} of {length} bytes"), bytes));
        }
    }
}

/// First, second and later pieces, whole and cut.
fn push_fragments(out: &mut Vec<EffectTestPacket>, family: Family) {
    let piece = |offset, more| FragmentPosition { offset, more_fragments: more };
    for (name, proto, body) in sample_transports(family) {
        for length in [8, 16, 24].into_iter().filter(|n| *n <= body.len()) {
            let bytes = prepend_network_header(family, proto, piece(0, true), &body[..length]);
            out.push(EffectTestPacket::from_bytes(
                format!("{name} first fragment of {length} bytes"),
                bytes,
            ));
        }
        for (offset, more, length) in [
            (1, false, 3),
            (1, true, 8),
            (2, false, 8),
            (3, false, 1),
            (185, true, 8),
            (185, false, 4),
        ] {
            let bytes = prepend_network_header(family, proto, piece(offset, more), &body[..length]);
            let more = if more { "+" } else { "" };
            let name = format!("{name} fragment {offset}{more} of {length} bytes");
            out.push(EffectTestPacket::from_bytes(name, bytes));
        }
    }
    if family == Family::V6 {
        // xt_tcpmss reads the network header of a later fragment as TCP's: the length of the
        // header lies in the source address.
        for words in [4_u8, 5, 15] {
            for length in [3, 8, 24] {
                let mut bytes =
                    prepend_network_header(family, 6, piece(185, length > 3), &vec![7; length]);
                bytes[12] = words << 4;
                let name = format!("fragment 185 of {length} bytes from 2001:db8:{words:x}000::1");
                out.push(EffectTestPacket::from_bytes(name, bytes));
            }
        }
    }
}

/// Headers that contradict themselves.
fn push_malformed_transport_packets(out: &mut Vec<EffectTestPacket>, family: Family) {
    let mut push = |name: &str, proto: u8, body: &[u8]| {
        out.push(EffectTestPacket::from_bytes(
            name,
            prepend_network_header(family, proto, UNFRAGMENTED, body),
        ));
    };
    let header = |words: u8, flags: u8, options: &[u8]| {
        let mut b = vec![4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, words << 4, flags, 8, 0, 0, 0, 0, 0];
        b.extend_from_slice(options);
        b
    };
    for words in [0, 1, 4, 5, 6, 7, 15] {
        for flags in [SYN, ACK] {
            push(&format!("tcp of {words} words flags {flags:#x}"), 6, &header(words, flags, &[]));
        }
    }
    push("tcp option of length 0", 6, &header(6, SYN, &[2, 0, 5, 5]));
    push("tcp option of length 1", 6, &header(6, SYN, &[2, 1, 5, 5]));
    push("tcp option beyond the header", 6, &header(6, SYN, &[1, 1, 2, 4]));
    push("tcp option without length", 6, &header(6, SYN, &[1, 1, 1, 2]));
    push("tcp option of length 9", 6, &header(6, SYN, &[2, 9, 5, 5]));
    push("tcp options cut", 6, &header(7, SYN, &[2, 4, 5, 0xb4]));
    push("tcp options behind a bad one", 6, &header(7, SYN, &[3, 0, 0, 0, 2, 4, 5, 0xb4]));
    let sctp = |chunks: &[u8]| {
        let mut b = vec![4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0];
        b.extend_from_slice(chunks);
        b
    };
    push("sctp without chunks", 132, &sctp(&[]));
    push("sctp chunk cut", 132, &sctp(&[0, 3]));
    push("sctp chunk of length 0", 132, &sctp(&[0, 3, 0, 0]));
    push("sctp chunk of length 2", 132, &sctp(&[0, 3, 0, 2]));
    push("sctp chunk INIT", 132, &sctp(&[1, 0, 0, 4]));
    push("sctp chunk DATA flags 7", 132, &sctp(&[0, 7, 0, 4]));
    push("sctp chunks DATA INIT", 132, &sctp(&[0, 3, 0, 4, 1, 0, 0, 4]));
    push("sctp chunks DATA DATA", 132, &sctp(&[0, 3, 0, 4, 0, 3, 0, 4]));
    push("sctp chunk DATA beyond", 132, &sctp(&[0, 3, 0, 40]));
    push("sctp chunks DATA and cut", 132, &sctp(&[0, 3, 0, 4, 1, 0]));
    push("sctp chunks DATA and 0", 132, &sctp(&[0, 3, 0, 4, 1, 0, 0, 0]));
    let dccp = |words: u8, kind: u8, options: &[u8]| {
        let mut b = vec![4, 0, 0, 80, words, 0, 0, 0, kind << 1 | 1, 0, 0, 1, 0, 0, 0, 42];
        b.extend_from_slice(options);
        b
    };
    for words in [0, 2, 3, 4, 5, 9] {
        push(&format!("dccp of {words} words"), 33, &dccp(words, 0, &[0, 0, 0, 42, 1, 2, 6, 3]));
    }
    for kind in 0..10 {
        push(&format!("dccp type {kind}"), 33, &dccp(6, kind, &[0, 0, 0, 42, 1, 2, 6, 3]));
    }
    push("dccp option of length 0", 33, &dccp(6, 0, &[0, 0, 0, 42, 40, 0, 0, 0]));
    push("dccp option beyond", 33, &dccp(6, 0, &[0, 0, 0, 42, 1, 1, 40, 8]));
    push("dccp options cut", 33, &dccp(8, 0, &[0, 0, 0, 42, 1, 1, 1, 1]));
}

/// Values of the network header's fields, lengths, MAC addresses.
fn push_network_and_link_field_packets(out: &mut Vec<EffectTestPacket>, family: Family) {
    let udp = |payload: usize| {
        let mut p = packet_without_transport(family, 17);
        p.transport = Transport::Udp { sport: 40_000, dport: 53 };
        p.payload = vec![b'a'; payload];
        p
    };
    for tos in [1, 2, 3, 0x10, 0x28, 0xb8, 0xff] {
        let mut p = udp(4);
        p.tos = tos;
        out.push(EffectTestPacket::from_packet(format!("tos {tos:#x}"), p));
    }
    for ttl in [2, 3, 9, 10, 11, 12, 63, 65, 66, 254, 255] {
        let mut p = udp(4);
        p.ttl = ttl;
        out.push(EffectTestPacket::from_packet(format!("ttl {ttl}"), p));
    }
    for payload in [0, 11, 12, 71, 72, 73, 1000] {
        out.push(EffectTestPacket::from_packet(format!("udp with {payload} bytes"), udp(payload)));
    }
    for (last, smac) in [(5, [2, 0, 0, 0, 0, 5]), (6, [2, 0, 0, 0, 0, 6])] {
        let mut p = udp(4);
        p.smac = Some(smac);
        out.push(EffectTestPacket::from_packet(format!("from MAC …:{last}"), p));
    }
    for pkttype in [weir_packet::PktType::Broadcast, weir_packet::PktType::Multicast] {
        let mut p = udp(4);
        p.pkttype = pkttype;
        // A group's frame to an address of one host is not forwarded, but traverses PREROUTING.
        out.push(EffectTestPacket::from_packet(format!("{pkttype:?} frame"), p));
    }
    let (saddr, daddr) = default_addrs(family);
    for bit in [0, 1, 7, 8, 16, if family == Family::V4 { 24 } else { 64 }] {
        let mut p = udp(4);
        p.saddr = Addr(saddr.0 ^ 1 << bit);
        out.push(EffectTestPacket::from_packet(format!("source bit {bit}"), p));
        let mut p = udp(4);
        p.daddr = Addr(daddr.0 ^ 1 << bit);
        out.push(EffectTestPacket::from_packet(format!("destination bit {bit}"), p));
    }
}

/// IPv4 headers with options.
fn push_transports_behind_ipv4_options(out: &mut Vec<EffectTestPacket>) {
    for (name, proto, body) in sample_transports(Family::V4) {
        for length in [0, 3, body.len()] {
            let mut bytes = prepend_network_header(Family::V4, proto, UNFRAGMENTED, &[]);
            bytes[0] = 0x46;
            bytes.extend_from_slice(&[1, 1, 1, 0]);
            bytes.extend_from_slice(&body[..length]);
            let total = bytes.len() as u16;
            bytes[2..4].copy_from_slice(&total.to_be_bytes());
            out.push(EffectTestPacket::from_bytes(
                format!("{name} of {length} bytes behind IP options"),
                bytes,
            ));
        }
    }
}

/// IPv6 extension headers: each kind alone, several, cut at every length.
fn push_single_ipv6_extension_packets(out: &mut Vec<EffectTestPacket>) {
    let headers: [(&str, u8, &[u8]); 6] = [
        ("hop-by-hop", 0, &[0, 0, 1, 4, 0, 0, 0, 0]),
        ("destination", 60, &[0, 0, 1, 4, 0, 0, 0, 0]),
        ("routing", 43, &[0, 0, 4, 0, 0, 0, 0, 0]),
        ("atomic fragment", 44, &[0, 0, 0, 0, 0, 0, 0, 1]),
        ("ah", 51, &[0, 1, 0, 0, 0, 0, 1, 0xf4, 0, 0, 0, 1]),
        ("mobility", 135, &[0, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (name, number, header) in headers {
        for (of, proto, body) in sample_transports(Family::V6) {
            for length in [0, 3, 8, body.len()] {
                let mut bytes = ipv6_header_with_next(number);
                bytes.push(proto);
                bytes.extend_from_slice(&header[1..]);
                bytes.extend_from_slice(&body[..length.min(body.len())]);
                out.push(EffectTestPacket::from_bytes(
                    format!("{of} of {length} bytes behind {name}"),
                    write_ipv6_payload_length(bytes),
                ));
            }
        }
        for length in 0..header.len() {
            let mut bytes = ipv6_header_with_next(number);
            bytes.extend_from_slice(&header[..length]);
            if length > 0 {
                bytes[40] = 17;
            }
            let mut sample = EffectTestPacket::from_bytes(
                format!("{name} of {length} bytes"),
                write_ipv6_payload_length(bytes),
            );
            sample.may_be_dropped_before_first_hook = true;
            out.push(sample);
        }
    }
    for next in [59, 50] {
        out.push(EffectTestPacket::from_bytes(
            format!("next header {next} alone"),
            write_ipv6_payload_length(ipv6_header_with_next(next)),
        ));
    }
    let hop_by_hop = |s: &&mut EffectTestPacket| s.name.contains("hop-by-hop");
    out.iter_mut().filter(hop_by_hop).for_each(|s| s.may_be_dropped_before_first_hook = true);
}

/// An IPv6 header with that next header.
fn ipv6_header_with_next(next: u8) -> Vec<u8> {
    let mut bytes = prepend_network_header(Family::V6, 59, UNFRAGMENTED, &[]);
    bytes[6] = next;
    bytes
}

/// Writes the length into an IPv6 header.
fn write_ipv6_payload_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = (bytes.len() - 40) as u16;
    bytes[4..6].copy_from_slice(&length.to_be_bytes());
    bytes
}
