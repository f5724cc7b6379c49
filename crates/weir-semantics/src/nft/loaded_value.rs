//! The values that nft loads from a packet.

use weir_model::nft::{LoadExpression, ct_state, ct_status};
use weir_model::{CtState, Family, Packet};
use weir_packet::{PktType, Transport};

/// What nft loads; `None` stops the rule.
pub(super) fn load_expression_value(load: LoadExpression, packet: &Packet) -> Option<u128> {
    let ct = packet.ct;
    Some(match load {
        LoadExpression::Iifname | LoadExpression::Oifname => return None,
        LoadExpression::Saddr => packet.saddr.0,
        LoadExpression::Daddr => packet.daddr.0,
        LoadExpression::L4proto => packet.proto.into(),
        LoadExpression::Ipv4FragmentOffset => packet.fragment.offset.into(),
        LoadExpression::TransportFirstThreeBytes if packet.fragment.offset != 0 => return None,
        LoadExpression::TransportFirstThreeBytes => load_transport_bytes(packet, 0, 3)?,
        LoadExpression::Sport => load_transport_bytes(packet, 0, 2)?,
        LoadExpression::Dport => load_transport_bytes(packet, 2, 2)?,
        LoadExpression::TcpFlags => load_transport_bytes(packet, 13, 1)?,
        LoadExpression::IcmpType => load_transport_bytes(packet, 0, 1)?,
        LoadExpression::IcmpTypeCode => load_transport_bytes(packet, 0, 2)?,
        LoadExpression::EtherSaddr => packet.smac?.iter().fold(0, |n, b| n << 8 | u128::from(*b)),
        LoadExpression::CtState => u128::from(match ct.state {
            CtState::Invalid => ct_state::INVALID,
            CtState::New => ct_state::NEW,
            CtState::Related => ct_state::RELATED,
            CtState::Established => ct_state::ESTABLISHED,
            CtState::Untracked => ct_state::UNTRACKED,
        }),
        LoadExpression::CtStatus if ct.has_entry() => {
            let snat = if ct.snat { ct_status::SNAT } else { 0 };
            let dnat = if ct.dnat { ct_status::DNAT } else { 0 };
            (snat | dnat).into()
        }
        LoadExpression::CtMark if ct.has_entry() => ct.mark.into(),
        LoadExpression::CtStatus | LoadExpression::CtMark => return None,
        LoadExpression::Mark => packet.mark.into(),
        LoadExpression::MetaLength => packet.len() as u128,
        LoadExpression::Ttl => packet.ttl.into(),
        LoadExpression::Tos => packet.tos.into(),
        LoadExpression::PktType => match packet.pkttype {
            PktType::Unicast => 0,
            PktType::Broadcast => 1,
            PktType::Multicast => 2,
        },
    })
}

/// Bytes of the transport header as the fast path of nft_payload reads them: without a fragment
/// check.
fn load_transport_bytes(packet: &Packet, offset: usize, len: usize) -> Option<u128> {
    if packet.family == Family::V6 && packet.fragment.offset != 0 {
        return load_ipv6_header_bytes(packet, offset, len);
    }
    let mut header = Vec::with_capacity(20);
    match &packet.transport {
        Transport::Tcp { sport, dport, seq, ack, flags, options } => {
            header.extend(sport.to_be_bytes());
            header.extend(dport.to_be_bytes());
            header.extend(seq.to_be_bytes());
            header.extend(ack.to_be_bytes());
            header.push((5 + options.len() as u8 / 4) << 4);
            header.push(*flags);
        }
        Transport::Udp { sport, dport }
        | Transport::Sctp { sport, dport, .. }
        | Transport::DccpPorts { sport, dport } => {
            header.extend(sport.to_be_bytes());
            header.extend(dport.to_be_bytes());
        }
        // No test reads the checksum, so it has no representation.
        Transport::Icmp { kind, code, rest } => {
            header.extend([*kind, *code, 0, 0]);
            header.extend(rest);
        }
        Transport::NoParsedHeader | Transport::Truncated => {
            header.extend(packet.payload.iter().take(20))
        }
    }
    let bytes = header.get(offset..offset + len)?;
    Some(bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b)))
}

/// A later fragment of IPv6 leaves the transport offset at 0 (nft_set_pktinfo_ipv6 keeps what
/// ipv6_find_hdr did not set): the load reads the network header.
fn load_ipv6_header_bytes(packet: &Packet, offset: usize, len: usize) -> Option<u128> {
    let mut header = [0; 40];
    header[0] = 0x60 | packet.tos >> 4;
    header[1] = packet.tos << 4;
    header[8..24].copy_from_slice(&packet.saddr.0.to_be_bytes());
    header[24..40].copy_from_slice(&packet.daddr.0.to_be_bytes());
    let bytes = header.get(offset..offset + len)?;
    Some(bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b)))
}
