//! Connections that must exist before a packet has its intended conntrack state.

use weir_kernel::conntrack::{ConntrackEntry, ConntrackKey, Tuple};
use weir_packet::{Addr, CtState, Family, Packet, Transport};

/// Entries that make conntrack see the packet in the state that it carries; none where a packet is
/// so inherently (NEW, INVALID, UNTRACKED), or cannot be made so.
///
/// `number` distinguishes the master connections of different packets.
pub(crate) fn entries(packet: &Packet, number: u32) -> Vec<ConntrackEntry> {
    let Some(tuple) = tuple(packet) else { return Vec::new() };
    let original = if packet.ct.reply { tuple.reversed() } else { tuple };
    let entry = ConntrackEntry {
        original,
        reply: original.reversed(),
        answered: true,
        announces: None,
        untranslated: false,
        mark: packet.ct.mark,
    };
    match packet.ct.state {
        CtState::Established => vec![entry],
        // The nat table takes every related ICMP packet for an error that quotes another.
        CtState::Related if matches!(packet.transport, Transport::Icmp { .. }) => Vec::new(),
        // As a helper would: the connection is expected, its first packet makes it.
        CtState::Related => {
            let master = master(packet.family, number);
            let (reply, announces) = (master.reversed(), Some(tuple));
            vec![ConntrackEntry {
                original: master,
                reply,
                answered: true,
                announces,
                untranslated: false,
                mark: 0,
            }]
        }
        CtState::New | CtState::Invalid | CtState::Untracked => Vec::new(),
    }
}

/// The connection that a related one belongs to.
fn master(family: Family, number: u32) -> Tuple {
    let (saddr, daddr) = match family {
        Family::V4 => (0xc000_00c8, 0xc000_00c9),
        Family::V6 => (0x0100 << 112 | 0xc8, 0x0100 << 112 | 0xc9),
    };
    let key = ConntrackKey::Ports(number as u16, 21);
    Tuple { family, saddr: Addr(saddr), daddr: Addr(daddr), proto: 6, key }
}

pub(crate) fn tuple(packet: &Packet) -> Option<Tuple> {
    if packet.fragment.offset != 0 || packet.fragment.more {
        return None;
    }
    let key = match &packet.transport {
        Transport::Tcp { sport, dport, .. }
        | Transport::Udp { sport, dport }
        | Transport::Sctp { sport, dport, .. } => ConntrackKey::Ports(*sport, *dport),
        Transport::Icmp { kind, code, rest } if is_request_or_answer(packet.family, *kind) => {
            ConntrackKey::Icmp(u16::from_be_bytes([rest[0], rest[1]]), *kind, *code)
        }
        // GRE's key is in its payload; DCCP is not tracked by ports since Linux 6.16.
        Transport::None if packet.proto != 47 => ConntrackKey::None,
        Transport::Icmp { .. }
        | Transport::Dccp { .. }
        | Transport::None
        | Transport::Truncated => return None,
    };
    let Packet { family, saddr, daddr, proto, .. } = *packet;
    Some(Tuple { family, saddr, daddr, proto, key })
}

/// Types that conntrack has an inverse of (nf_conntrack_proto_icmp.c, _icmpv6.c).
fn is_request_or_answer(family: Family, kind: u8) -> bool {
    match family {
        Family::V4 => matches!(kind, 0 | 8 | 13..=18),
        Family::V6 => matches!(kind, 128 | 129),
    }
}

/// Whether the packet is an ICMP error, which conntrack relates to the packet that it quotes.
pub(crate) fn is_icmp_error(packet: &Packet) -> bool {
    match (&packet.transport, packet.family) {
        (Transport::Icmp { kind, .. }, Family::V4) => matches!(kind, 3 | 4 | 5 | 11 | 12),
        (Transport::Icmp { kind, .. }, Family::V6) => matches!(kind, 1..=4),
        _ => false,
    }
}

/// Makes an ICMP error that shall be RELATED quote a packet, and gives the connection of that one.
pub(crate) fn quote(packet: &mut Packet, number: u32) -> ConntrackEntry {
    let mut inner = Packet::new(packet.family, packet.daddr, packet.saddr, 17);
    let sport = 1024 + (number % 60_000) as u16;
    inner.transport = Transport::Udp { sport, dport: 53 };
    inner.payload = vec![0; 8];
    packet.payload = inner.to_bytes();
    let original = tuple(&inner).expect("UDP has ports");
    // nf_nat_icmp_reply_translation drops redirects of a connection that nat has not decided on.
    ConntrackEntry {
        original,
        reply: original.reversed(),
        answered: true,
        announces: None,
        untranslated: true,
        mark: 0,
    }
}
