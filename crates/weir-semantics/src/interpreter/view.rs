//! A packet's fields, read once, so that a rule costs one comparison.
//!
//! The traversal tries thousands of rules on one packet: [`View`] reads every field of the table
//! once and stores it in an array that the compact tests of [`lower`](super::lower) index by slot.
//! It is read again when a target has changed the packet.

use weir_model::field::FIELDS;
use weir_model::{Family, Field, Packet, Read};
use weir_packet::Transport;

/// Slots of a view: the fields of the table, then the two ports as `-m multiport` reads them.
pub(crate) const SLOTS: usize = FIELDS.len() + 2;
/// Source port, as `-m multiport` reads it.
pub(crate) const MULTIPORT_SPORT: u8 = FIELDS.len() as u8;
/// Destination port, as `-m multiport` reads it.
pub(crate) const MULTIPORT_DPORT: u8 = MULTIPORT_SPORT + 1;

/// The fields of one packet.
pub(crate) struct View {
    /// Values of at most 32 bits, by slot.
    pub narrow: [u32; SLOTS],
    /// Source and destination address, source MAC.
    pub wide: [u128; 3],
    /// Slots whose test is false whatever it says.
    pub missing: u32,
    /// Of those, the slots whose test drops the packet.
    pub truncated: u32,
}

/// Where a wide field is in [`View::wide`].
pub(crate) fn wide_slot(field: Field) -> Option<usize> {
    match field {
        Field::Saddr => Some(0),
        Field::Daddr => Some(1),
        Field::SourceMac => Some(2),
        _ => None,
    }
}

impl View {
    /// Reads all fields.
    pub fn of(packet: &Packet) -> View {
        let mut view = View { narrow: [0; SLOTS], wide: [0; 3], missing: 0, truncated: 0 };
        // Names of devices are compared in place.
        let is_device = |field| matches!(field, Field::Iif | Field::Oif);
        for field in FIELDS.iter().map(|row| row.field).filter(|field| !is_device(*field)) {
            let read = match field {
                Field::Sport | Field::Dport | Field::TcpFlags | Field::Icmp => {
                    read_header(field, packet)
                }
                _ => field.read(packet),
            };
            view.put(field as u8, read);
            if let (Some(i), Read::Value(v)) = (wide_slot(field), read) {
                view.wide[i] = v;
            }
        }
        let (sport, dport) = read_multiport(packet);
        view.put(MULTIPORT_SPORT, sport);
        view.put(MULTIPORT_DPORT, dport);
        view
    }

    fn put(&mut self, slot: u8, read: Read) {
        match read {
            Read::Value(v) => self.narrow[slot as usize] = v as u32,
            Read::Absent => self.missing |= 1 << slot,
            Read::Truncated => {
                self.missing |= 1 << slot;
                self.truncated |= 1 << slot;
            }
        }
    }
}

/// A field as the match of its own protocol reads it: the whole header must be present. `-m dccp`
/// requires twelve bytes (xt_dccp.c), of which eight are the packet's payload.
fn read_header(field: Field, packet: &Packet) -> Read {
    match packet.transport {
        Transport::Dccp { .. } if packet.payload.len() < 8 && packet.fragment.offset == 0 => {
            Read::Truncated
        }
        _ => field.read(packet),
    }
}

/// The ports as `-m multiport` reads them: four bytes are enough, and a TCP fragment at offset 1
/// is a fragment like others (xt_multiport.c).
fn read_multiport(packet: &Packet) -> (Read, Read) {
    if packet.fragment.offset != 0 {
        return (Read::Absent, Read::Absent);
    }
    let value = |v: u16| Read::Value(v.into());
    match (&packet.transport, packet.ports()) {
        (_, Some((sport, dport))) => (value(sport), value(dport)),
        (Transport::Truncated, None) => match packet.payload[..] {
            [a, b, c, d, ..] => {
                (value(u16::from_be_bytes([a, b])), value(u16::from_be_bytes([c, d])))
            }
            _ => (Read::Truncated, Read::Truncated),
        },
        _ => (Read::Absent, Read::Absent),
    }
}

/// Whether a narrow slot holds the field in this family.
pub(crate) fn is_narrow(field: Field, family: Family) -> bool {
    field.bits(family) <= 32
}
