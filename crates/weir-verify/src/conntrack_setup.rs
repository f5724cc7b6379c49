//! Connections that must exist before a packet has its intended conntrack state.

use weir_kernel::conntrack::{ConntrackEntry, ConntrackTuple, TupleL4Key};
use weir_packet::{Addr, CtState, Family, Packet, Transport};

/// Entries that make conntrack see the packet in the state that it carries; none where a packet is
/// so inherently (NEW, INVALID, UNTRACKED), or cannot be made so.
///
/// `master_port` distinguishes the master connections of different packets.
pub(crate) fn build_conntrack_entries_of_packet(
    packet: &Packet,
    master_port: u32,
) -> Vec<ConntrackEntry> {
    let Some(tuple) = conntrack_tuple_of_packet(packet) else { return Vec::new() };
    let original = if packet.ct.is_reply_direction { tuple.invert() } else { tuple };
    let entry = ConntrackEntry {
        original,
        reply: original.invert(),
        seen_reply: true,
        expected_tuple: None,
        has_null_nat_binding: false,
        mark: packet.ct.mark,
    };
    match packet.ct.state {
        CtState::Established => vec![entry],
        // The nat table takes every related ICMP packet for an error that quotes another.
        CtState::Related if matches!(packet.transport, Transport::Icmp { .. }) => Vec::new(),
        // As a helper would: the connection is expected, its first packet makes it.
        CtState::Related => {
            let master = master_tuple(packet.family, master_port);
            let (reply, expected_tuple) = (master.invert(), Some(tuple));
            vec![ConntrackEntry {
                original: master,
                reply,
                seen_reply: true,
                expected_tuple,
                has_null_nat_binding: false,
                mark: 0,
            }]
        }
        CtState::New | CtState::Invalid | CtState::Untracked => Vec::new(),
    }
}

/// The connection that a related one belongs to.
fn master_tuple(family: Family, master_port: u32) -> ConntrackTuple {
    let (saddr, daddr) = match family {
        Family::V4 => (0xc000_00c8, 0xc000_00c9),
        Family::V6 => (0x0100 << 112 | 0xc8, 0x0100 << 112 | 0xc9),
    };
    let key = TupleL4Key::Ports(master_port as u16, 21);
    ConntrackTuple { family, saddr: Addr(saddr), daddr: Addr(daddr), proto: 6, l4_key: key }
}

pub(crate) fn conntrack_tuple_of_packet(packet: &Packet) -> Option<ConntrackTuple> {
    if packet.fragment.offset != 0 || packet.fragment.more_fragments {
        return None;
    }
    let key = match &packet.transport {
        Transport::Tcp { sport, dport, .. }
        | Transport::Udp { sport, dport }
        | Transport::Sctp { sport, dport, .. } => TupleL4Key::Ports(*sport, *dport),
        Transport::Icmp { kind, code, rest } if has_inverse_icmp_type(packet.family, *kind) => {
            TupleL4Key::Icmp(u16::from_be_bytes([rest[0], rest[1]]), *kind, *code)
        }
        // GRE's key is in its payload; DCCP is not tracked by ports since Linux 6.16.
        Transport::NoParsedHeader if packet.proto != 47 => TupleL4Key::None,
        Transport::Icmp { .. }
        | Transport::DccpPorts { .. }
        | Transport::NoParsedHeader
        | Transport::Truncated => return None,
    };
    let Packet { family, saddr, daddr, proto, .. } = *packet;
    Some(ConntrackTuple { family, saddr, daddr, proto, l4_key: key })
}

/// Types that conntrack has an inverse of (nf_conntrack_proto_icmp.c, _icmpv6.c).
fn has_inverse_icmp_type(family: Family, kind: u8) -> bool {
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

/// Makes an ICMP error that must be RELATED quote a packet, and gives the connection of that one.
pub(crate) fn quote_new_connection_in_icmp_error(
    packet: &mut Packet,
    number: u32,
) -> ConntrackEntry {
    let mut inner = Packet::new(packet.family, packet.daddr, packet.saddr, 17);
    let sport = 1024 + (number % 60_000) as u16;
    inner.transport = Transport::Udp { sport, dport: 53 };
    inner.payload = vec![0; 8];
    packet.payload = inner.to_bytes();
    let original = conntrack_tuple_of_packet(&inner).expect("UDP has ports");
    // nf_nat_icmp_reply_translation drops redirects of a connection that nat has not decided on.
    ConntrackEntry {
        original,
        reply: original.invert(),
        seen_reply: true,
        expected_tuple: None,
        has_null_nat_binding: true,
        mark: 0,
    }
}
