//! What targets do to the fields of one packet: the values that [`weir_model::effect`] says are
//! written.

use weir_model::target::{Effect, TtlChange};
use weir_model::{Addr, CtState, Field, Packet};
use weir_packet::{Ct, Transport};

use crate::connmark::connmark;

/// What a target does to a packet, but for the values that are not known.
///
/// Whether a field may have changed.
pub(crate) fn apply(effect: &Effect, packet: &mut Packet) -> bool {
    match effect {
        Effect::Mark { value, mask } => packet.mark = (packet.mark & !mask) ^ value,
        Effect::Tos { value, mask } => packet.tos = (packet.tos & !mask) ^ value,
        Effect::Dscp(dscp) => packet.tos = packet.tos & 3 | dscp << 2,
        Effect::Ttl { op, value } => {
            packet.ttl = match op {
                TtlChange::Set => *value,
                TtlChange::Inc => packet.ttl.saturating_add(*value),
                TtlChange::Dec => packet.ttl.saturating_sub(*value),
            }
        }
        // xt_CT.c, notrack_tg and xt_ct_target: a packet that has an entry (over loopback), or the
        // template of an earlier CT, keeps it.
        Effect::Notrack | Effect::CtNotrack if !packet.ct.has_entry() => {
            packet.ct = Ct::of(CtState::Untracked);
        }
        Effect::Other(e) if e.module == "CT" && !packet.ct.has_entry() => {
            // A packet that is untracked has an entry that says so.
            if packet.ct.state == CtState::Untracked {
                return false;
            }
            packet.ct = Ct::of(CtState::New);
        }
        Effect::Other(e) if e.module == "CONNMARK" => return connmark(e, packet),
        Effect::Notrack | Effect::CtNotrack | Effect::Classify { .. } | Effect::Other(_) => {
            return false;
        }
    }
    true
}

/// The value of a field; 0 where the packet has none.
pub(crate) fn value(field: Field, packet: &Packet) -> u128 {
    match field.read(packet) {
        weir_model::Read::Value(value) => value,
        weir_model::Read::Absent | weir_model::Read::Truncated => 0,
    }
}

/// Writes a field of a packet that has it. Devices, the protocol and the place in the datagram stay
/// as they are, and a length that is too short for the headers becomes the shortest.
pub(crate) fn set(field: Field, value: u128, packet: &mut Packet) {
    match field {
        Field::Saddr => packet.saddr = Addr(value),
        Field::Daddr => packet.daddr = Addr(value),
        Field::Mark => packet.mark = value as u32,
        Field::CtMark if packet.ct.has_entry() => packet.ct.mark = value as u32,
        Field::Ttl => packet.ttl = value as u8,
        Field::Tos => packet.tos = value as u8,
        Field::Length => {
            let headers = packet.len() - packet.payload.len();
            packet.payload.resize((value as usize).saturating_sub(headers), 0);
        }
        Field::SourceMac if packet.smac.is_some() => {
            packet.smac = Some(std::array::from_fn(|i| (value >> (40 - 8 * i)) as u8));
        }
        Field::Sport | Field::Dport | Field::TcpFlags | Field::Icmp => {
            set_transport(field, value, packet);
        }
        Field::Iif
        | Field::Oif
        | Field::Proto
        | Field::Fragment
        | Field::CtState
        | Field::CtMark
        | Field::SourceMac
        | Field::PktType => {}
    }
}

fn set_transport(field: Field, value: u128, packet: &mut Packet) {
    match (&mut packet.transport, field) {
        (
            Transport::Tcp { sport, .. }
            | Transport::Udp { sport, .. }
            | Transport::Sctp { sport, .. }
            | Transport::Dccp { sport, .. },
            Field::Sport,
        ) => *sport = value as u16,
        (
            Transport::Tcp { dport, .. }
            | Transport::Udp { dport, .. }
            | Transport::Sctp { dport, .. }
            | Transport::Dccp { dport, .. },
            Field::Dport,
        ) => *dport = value as u16,
        (Transport::Tcp { flags, .. }, Field::TcpFlags) => *flags = value as u8,
        (Transport::Icmp { kind, code, .. }, Field::Icmp) => {
            [*kind, *code] = (value as u16).to_be_bytes();
        }
        _ => {}
    }
}
