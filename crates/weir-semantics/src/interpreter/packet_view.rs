//! A packet's fields, read once, so that a rule costs one comparison.
//!
//! The traversal tries thousands of rules on one packet: [`PacketView`] reads every field of the
//! table once and stores it in an array that the compact tests of
//! [`rule_lowering`](super::rule_lowering) index by slot. It is read again when a target has
//! changed the packet.

use weir_model::field::{FIELDS, read_multiport_ports};
use weir_model::{Family, Field, FieldReading, Packet};
use weir_packet::Transport;

/// Slots of a view: the fields of the table, then the two ports as `-m multiport` reads them.
pub(crate) const SLOT_COUNT: usize = FIELDS.len() + 2;
/// Source port, as `-m multiport` reads it.
pub(crate) const MULTIPORT_SPORT_SLOT: u8 = FIELDS.len() as u8;
/// Destination port, as `-m multiport` reads it.
pub(crate) const MULTIPORT_DPORT_SLOT: u8 = MULTIPORT_SPORT_SLOT + 1;

/// The fields of one packet.
pub(crate) struct PacketView {
    /// Values of at most 32 bits, by slot.
    pub narrow_values: [u32; SLOT_COUNT],
    /// Source and destination address, source MAC.
    pub wide_values: [u128; 3],
    /// Slots whose test is false whatever it says.
    pub missing_slots: u32,
    /// Of those, the slots whose test drops the packet.
    pub truncated_slots: u32,
}

/// Where a wide field is in [`PacketView::wide_values`].
pub(crate) fn find_wide_value_index(field: Field) -> Option<usize> {
    match field {
        Field::Saddr => Some(0),
        Field::Daddr => Some(1),
        Field::SourceMac => Some(2),
        _ => None,
    }
}

impl PacketView {
    /// Reads all fields.
    pub fn from_packet(packet: &Packet) -> PacketView {
        let mut view = PacketView {
            narrow_values: [0; SLOT_COUNT],
            wide_values: [0; 3],
            missing_slots: 0,
            truncated_slots: 0,
        };
        // Names of devices are compared in place.
        let is_device = |field| matches!(field, Field::Iif | Field::Oif);
        for field in FIELDS.iter().map(|row| row.field).filter(|field| !is_device(*field)) {
            let read = match field {
                Field::Sport | Field::Dport | Field::TcpFlags | Field::IcmpTypeAndCode => {
                    read_field_as_protocol_match(field, packet)
                }
                _ => field.read(packet),
            };
            view.store_field_value(field as u8, read);
            if let (Some(i), FieldReading::Value(v)) = (find_wide_value_index(field), read) {
                view.wide_values[i] = v;
            }
        }
        let (sport, dport) = read_multiport_ports(packet);
        view.store_field_value(MULTIPORT_SPORT_SLOT, sport);
        view.store_field_value(MULTIPORT_DPORT_SLOT, dport);
        view
    }

    fn store_field_value(&mut self, slot: u8, read: FieldReading) {
        match read {
            FieldReading::Value(v) => self.narrow_values[slot as usize] = v as u32,
            FieldReading::Absent => self.missing_slots |= 1 << slot,
            FieldReading::Truncated => {
                self.missing_slots |= 1 << slot;
                self.truncated_slots |= 1 << slot;
            }
        }
    }
}

/// The value of an address or of the source MAC, by the slot of its field.
pub(crate) fn read_address_or_mac_value(view: &PacketView, slot: u8) -> u128 {
    const SADDR_FIELD_SLOT: u8 = Field::Saddr as u8;
    const DADDR_FIELD_SLOT: u8 = Field::Daddr as u8;
    // As `find_wide_value_index` numbers them; the MAC address is the other one.
    view.wide_values[match slot {
        SADDR_FIELD_SLOT => 0,
        DADDR_FIELD_SLOT => 1,
        _ => 2,
    }]
}

/// A field as the match of its own protocol reads it: the whole header must be present. `-m dccp`
/// requires twelve bytes (xt_dccp.c), of which eight are the packet's payload.
fn read_field_as_protocol_match(field: Field, packet: &Packet) -> FieldReading {
    match packet.transport {
        Transport::DccpPorts { .. } if packet.payload.len() < 8 && packet.fragment.offset == 0 => {
            FieldReading::Truncated
        }
        _ => field.read(packet),
    }
}

/// Whether a narrow slot holds the field in this family.
pub(crate) fn is_field_at_most_32_bits(field: Field, family: Family) -> bool {
    field.bit_width(family) <= 32
}
