//! A single packet as a box.

use weir_model::matching::ct_state;
use weir_model::{Field, Name, Packet, Read};
use weir_packet::Transport;

use crate::match_space::{Atom, Lowering};
use crate::rect::{CodeAxis, CodeSet, HyperRect, NO_MAC, NUMBERS, header};

/// The states in the order in which [`CodeAxis::Ct`] counts them.
const STATES: [u16; 5] = [
    ct_state::INVALID,
    ct_state::NEW,
    ct_state::RELATED,
    ct_state::ESTABLISHED,
    ct_state::UNTRACKED,
];

impl Lowering<'_> {
    /// The smallest box that contains a packet. A box of a rule of this lowering contains it if and
    /// only if it contains the packet. `in_set` says whether a set contains the packet, by the
    /// set's name and the directions that the match names (`true` for `src`).
    pub fn point(&self, packet: &Packet, in_set: &dyn Fn(&Name, &[bool]) -> bool) -> HyperRect {
        let mut point = HyperRect::all(self.family());
        for field in NUMBERS {
            let value = number(packet, field);
            point = point.within(field, (value, value)).expect("a value of the axis");
        }
        let device = |name: &str| CodeSet::of([self.device_of(name)]);
        let codes = [
            (CodeAxis::Header, CodeSet::of([header_of(packet)])),
            (CodeAxis::Iif, device(&packet.iif)),
            (CodeAxis::Oif, device(&packet.oif)),
            (CodeAxis::Ct, CodeSet::of([state_of(packet)])),
            (CodeAxis::Flags, CodeSet::of([value(packet, Field::TcpFlags) as usize])),
            (CodeAxis::PktType, CodeSet::of([value(packet, Field::PktType) as usize])),
        ];
        for (axis, code) in codes {
            point = point.among(axis, code).expect("a value of the axis");
        }
        for (atom, number) in self.atoms() {
            let holds = match atom {
                Atom::Masked { field, value: wanted, mask } => {
                    value(packet, *field) & mask == *wanted
                }
                Atom::Set { name, dirs } => in_set(name, dirs),
            };
            point = point.where_atom(number, holds).expect("a value of the axis");
        }
        point
    }
}

/// The field's value; 0 if the packet has none, which no rule reads then.
fn value(packet: &Packet, field: Field) -> u128 {
    match field.read(packet) {
        Read::Value(v) => v,
        Read::Absent | Read::Truncated => 0,
    }
}

fn number(packet: &Packet, field: Field) -> u128 {
    match field {
        Field::SourceMac if packet.smac.is_none() => NO_MAC,
        Field::Sport => ports(packet).map_or(0, |p| p.0.into()),
        Field::Dport => ports(packet).map_or(0, |p| p.1.into()),
        _ => value(packet, field),
    }
}

/// The ports as `-m multiport` reads them: four bytes of the header are enough.
fn ports(packet: &Packet) -> Option<(u16, u16)> {
    match (&packet.transport, &packet.payload[..]) {
        _ if packet.fragment.offset != 0 => None,
        (Transport::Truncated, [a, b, c, d, ..]) => {
            Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
        }
        _ => packet.ports(),
    }
}

/// How much of the transport header is present. `-m dccp` requires twelve bytes (xt_dccp.c), of
/// which eight are the packet's payload.
fn header_of(packet: &Packet) -> usize {
    match (packet.fragment.offset, &packet.transport) {
        (1, _) => header::OFFSET_1,
        (2.., _) => header::LATER,
        (0, Transport::Truncated) if packet.payload.len() < 4 => header::CUT,
        (0, Transport::Truncated) => header::PORTS,
        (0, Transport::Dccp { .. }) if packet.payload.len() < 8 => header::PORTS,
        (0, _) => header::WHOLE,
    }
}

fn state_of(packet: &Packet) -> usize {
    let bits = value(packet, Field::CtState) as u16;
    let state = STATES.iter().position(|s| bits & s != 0).expect("a packet has a state");
    let bit = |of: u16, code: usize| if bits & of != 0 { code } else { 0 };
    4 * state + bit(ct_state::SNAT, 1) + bit(ct_state::DNAT, 2)
}
