//! The table of fields.
//!
//! Each header or metadata field that rules test is one row of [`FIELDS`]: its width, its header,
//! its names in weir and in iptables, and how a pass may treat rules that differ in it. The packet
//! language, the interpreter, passes and tests read this table; the spelling in nft is in the
//! parser and the printer of nft (`weir-syntax/src/nft`). A field that is not in the table acts as
//! a barrier: safe by default.
//!
//! [`Field::read`] and [`Field::write_if_present`] say where a packet has a field. A row with a usual value is
//! a *plain* field ([`Field::freely_settable_number_fields`]): interpreter, diagrams, boxes,
//! traffic and the packet language need to know nothing else about it.

mod display;
mod multiport_ports;

use weir_packet::{Addr, CtState, Family, Packet, PktType, Transport};

pub use self::display::{PROTOCOL_NAMES, TCP_FLAG_NAMES, format_protocol_name_or_number};
pub use self::multiport_ports::read_multiport_ports;
use crate::rule_match::ct_state;

/// A field that rules test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// Input device.
    Iif,
    /// Output device.
    Oif,
    /// Source address.
    Saddr,
    /// Destination address.
    Daddr,
    /// Protocol; for IPv6 the last header.
    Proto,
    /// 1 on second and later fragments.
    IsLaterFragment,
    /// Source port.
    Sport,
    /// Destination port.
    Dport,
    /// TCP flags octet.
    TcpFlags,
    /// ICMP type (upper eight bits) and code.
    IcmpTypeAndCode,
    /// Source MAC address.
    SourceMac,
    /// Conntrack state as one bit of [`ct_state`], plus its SNAT and DNAT bits.
    CtState,
    /// Packet mark.
    Mark,
    /// Connection mark.
    CtMark,
    /// Length of the packet from the network header on.
    Length,
    /// Time to live / hop limit.
    Ttl,
    /// Type of service / traffic class octet.
    Tos,
    /// Unicast 0, broadcast 1, multicast 2 (include/uapi/linux/if_packet.h).
    PktType,
}

/// The header that a field is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// What the kernel knows in addition to the bytes.
    Meta,
    /// Ethernet header.
    Link,
    /// IP header.
    Network,
    /// TCP, UDP, … header.
    Transport,
}

/// How a pass may treat two rules that differ in a field (after pf's rule field classes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleMergeClass {
    /// The values may be folded into one set: an exact value, a prefix or a range.
    Mergeable,
    /// May differ inside a compiled run, but never merged: bit tests.
    MayDifferWithinRun,
    /// Must be equal inside a merged group.
    MustBeEqual,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct FieldRow {
    /// Which field.
    pub field: Field,
    /// weir's word for it, as in `--packet` and JSON.
    pub name: &'static str,
    /// Header it is part of.
    pub layer: Layer,
    /// Width in bits for IPv4 and IPv6; 0 for names, and for a plain field in a family whose
    /// header has none: there it reads as 0 and writing changes nothing.
    pub bit_widths: (u32, u32),
    /// iptables' option.
    pub iptables_option: &'static str,
    /// How a pass may treat it.
    pub merge_class: RuleMergeClass,
    /// The value of an ordinary packet, for a *plain* field: a number that every packet has, that
    /// may have any value of its width, and that can change alone.
    pub ordinary_value_if_freely_settable: Option<u128>,
}

const fn field_row(
    field: Field,
    name: &'static str,
    layer: Layer,
    bits: (u32, u32),
    iptables: &'static str,
    merge: RuleMergeClass,
    usual: Option<u128>,
) -> FieldRow {
    FieldRow {
        field,
        name,
        layer,
        bit_widths: bits,
        iptables_option: iptables,
        merge_class: merge,
        ordinary_value_if_freely_settable: usual,
    }
}

/// All fields, in the order of [`Field`].
#[rustfmt::skip]
pub const FIELDS: [FieldRow; 18] = {
    use Layer::{Link, Meta, Network, Transport};
    use RuleMergeClass::{MustBeEqual, Mergeable, MayDifferWithinRun};
    [
        field_row(Field::Iif,       "iif",      Meta,      (0, 0),     "-i",              MustBeEqual,   None),
        field_row(Field::Oif,       "oif",      Meta,      (0, 0),     "-o",              MustBeEqual,   None),
        field_row(Field::Saddr,     "saddr",    Network,   (32, 128),  "-s",              Mergeable, None),
        field_row(Field::Daddr,     "daddr",    Network,   (32, 128),  "-d",              Mergeable, None),
        field_row(Field::Proto,     "proto",    Network,   (8, 8),     "-p",              Mergeable, None),
        field_row(Field::IsLaterFragment,  "fragment", Network,   (1, 1),     "-f",              MayDifferWithinRun,    None),
        field_row(Field::Sport,     "sport",    Transport, (16, 16),   "--sport",         Mergeable, None),
        field_row(Field::Dport,     "dport",    Transport, (16, 16),   "--dport",         Mergeable, None),
        field_row(Field::TcpFlags,  "flags",    Transport, (8, 8),     "--tcp-flags",     MayDifferWithinRun,    None),
        field_row(Field::IcmpTypeAndCode,      "icmp",     Transport, (16, 16),   "--icmp-type",     Mergeable, None),
        field_row(Field::SourceMac, "smac",     Link,      (48, 48),   "--mac-source",    Mergeable, None),
        field_row(Field::CtState,   "ct state", Meta,      (7, 7),     "--ctstate",       MayDifferWithinRun,    None),
        field_row(Field::Mark,      "mark",     Meta,      (32, 32),   "--mark",          Mergeable, Some(0)),
        field_row(Field::CtMark,    "ct mark",  Meta,      (32, 32),   "--mark",          Mergeable, None),
        field_row(Field::Length,    "length",   Network,   (16, 16),   "--length",        Mergeable, None),
        field_row(Field::Ttl,       "ttl",      Network,   (8, 8),     "--ttl-eq",        Mergeable, Some(64)),
        field_row(Field::Tos,       "tos",      Network,   (8, 8),     "--tos",           Mergeable, Some(0)),
        field_row(Field::PktType,   "pkttype",  Meta,      (3, 3),     "--pkt-type",      Mergeable, None),
    ]
};

/// Protocols whose header begins with two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
pub const PORT_PROTOCOLS: [u8; 5] = [6, 17, 33, 132, 136];

/// What a packet has in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldReading {
    /// A value.
    Value(u128),
    /// The packet has no such field: the test is false, whether negated or not.
    Absent,
    /// The header is truncated: legacy iptables drops the packet immediately (hotdrop).
    Truncated,
}

impl FieldReading {
    /// The value; 0 if there is none.
    pub fn value_or_zero(self) -> u128 {
        match self {
            FieldReading::Value(value) => value,
            FieldReading::Absent | FieldReading::Truncated => 0,
        }
    }
}

impl Field {
    /// The field's row.
    pub fn row(self) -> &'static FieldRow {
        &FIELDS[self as usize]
    }

    /// Width in bits; 0 for device names.
    pub fn bit_width(self, family: Family) -> u32 {
        match family {
            Family::V4 => self.row().bit_widths.0,
            Family::V6 => self.row().bit_widths.1,
        }
    }

    /// The largest value that the field can hold.
    pub fn max_value(self, family: Family) -> u128 {
        match self.bit_width(family) {
            0 => 0,
            128 => u128::MAX,
            n => (1 << n) - 1,
        }
    }

    /// The device name, for the two fields that are names. A missing device is the empty name.
    pub fn device_name(self, packet: &Packet) -> Option<&str> {
        match self {
            Field::Iif => Some(&packet.iif),
            Field::Oif => Some(&packet.oif),
            _ => None,
        }
    }

    /// The plain fields ([`FieldRow::ordinary_value_if_freely_settable`]): those of headers, then
    /// metadata.
    pub fn freely_settable_number_fields() -> impl Iterator<Item = Field> {
        let of = |meta: bool| {
            let is_plain = move |row: &&FieldRow| {
                row.ordinary_value_if_freely_settable.is_some()
                    && (row.layer == Layer::Meta) == meta
            };
            FIELDS.iter().filter(is_plain).map(|row| row.field)
        };
        of(false).chain(of(true))
    }

    /// The value that the packet has in this field; 0 if it has none.
    pub fn read_or_zero(self, packet: &Packet) -> u128 {
        self.read(packet).value_or_zero()
    }

    /// What the packet has in this field, as legacy iptables reads it.
    ///
    /// Ports, flags and ICMP types are absent on later fragments (net/netfilter/xt_tcpudp.c,
    /// xt_multiport.c, xt_sctp.c), the MAC address where there is no Ethernet header
    /// (xt_mac.c), the connection mark where there is no connection (xt_connmark.c). A TCP
    /// fragment at offset 1 could overwrite flags: xt_tcpudp.c drops it.
    pub fn read(self, packet: &Packet) -> FieldReading {
        match self {
            Field::Iif | Field::Oif => FieldReading::Absent,
            Field::Saddr => FieldReading::Value(packet.saddr.0),
            Field::Daddr => FieldReading::Value(packet.daddr.0),
            Field::Proto => FieldReading::Value(packet.proto.into()),
            Field::IsLaterFragment => FieldReading::Value((packet.fragment.offset != 0).into()),
            Field::Sport | Field::Dport | Field::TcpFlags | Field::IcmpTypeAndCode => {
                self.read_transport(packet)
            }
            Field::SourceMac => match packet.smac {
                Some(m) => FieldReading::Value(m.iter().fold(0, |n, b| n << 8 | u128::from(*b))),
                None => FieldReading::Absent,
            },
            Field::CtState => FieldReading::Value(encode_ct_state_and_nat_bits(packet).into()),
            Field::Mark => FieldReading::Value(packet.mark.into()),
            Field::CtMark if packet.ct.has_entry() => FieldReading::Value(packet.ct.mark.into()),
            Field::CtMark => FieldReading::Absent,
            Field::Length => FieldReading::Value(packet.len() as u128),
            Field::Ttl => FieldReading::Value(packet.ttl.into()),
            Field::Tos => FieldReading::Value(packet.tos.into()),
            Field::PktType => FieldReading::Value(match packet.pkttype {
                PktType::Unicast => 0,
                PktType::Broadcast => 1,
                PktType::Multicast => 2,
            }),
        }
    }

    /// Writes a field of a packet that has it; one that the packet lacks stays absent. Bits above
    /// the field's width are dropped.
    ///
    /// The length is that of the payload, at least zero. Devices and the state of the connection
    /// are no numbers, and the protocol and the place in the datagram decide what else the packet
    /// has: these stay as they are.
    pub fn write_if_present(self, packet: &mut Packet, value: u128) {
        match self {
            Field::Saddr => packet.saddr = Addr(value),
            Field::Daddr => packet.daddr = Addr(value),
            Field::Sport | Field::Dport | Field::TcpFlags | Field::IcmpTypeAndCode => {
                self.write_transport(packet, value);
            }
            Field::SourceMac if packet.smac.is_some() => {
                packet.smac = Some(std::array::from_fn(|i| (value >> (40 - 8 * i)) as u8));
            }
            Field::Mark => packet.mark = value as u32,
            Field::CtMark if packet.ct.has_entry() => packet.ct.mark = value as u32,
            Field::Length => {
                let headers = packet.len() - packet.payload.len();
                packet.payload.resize((value as usize).saturating_sub(headers), 0);
            }
            Field::Ttl => packet.ttl = value as u8,
            Field::Tos => packet.tos = value as u8,
            Field::PktType => {
                packet.pkttype = match value {
                    0 => PktType::Unicast,
                    1 => PktType::Broadcast,
                    _ => PktType::Multicast,
                }
            }
            Field::SourceMac | Field::CtMark => {}
            Field::Iif | Field::Oif | Field::Proto | Field::IsLaterFragment | Field::CtState => {}
        }
    }

    fn write_transport(self, packet: &mut Packet, value: u128) {
        match (&mut packet.transport, self) {
            (
                Transport::Tcp { sport, .. }
                | Transport::Udp { sport, .. }
                | Transport::Sctp { sport, .. }
                | Transport::DccpPorts { sport, .. },
                Field::Sport,
            ) => *sport = value as u16,
            (
                Transport::Tcp { dport, .. }
                | Transport::Udp { dport, .. }
                | Transport::Sctp { dport, .. }
                | Transport::DccpPorts { dport, .. },
                Field::Dport,
            ) => *dport = value as u16,
            (Transport::Tcp { flags, .. }, Field::TcpFlags) => *flags = value as u8,
            (Transport::Icmp { kind, code, .. }, Field::IcmpTypeAndCode) => {
                [*kind, *code] = (value as u16).to_be_bytes();
            }
            _ => {}
        }
    }

    fn read_transport(self, packet: &Packet) -> FieldReading {
        // ip6_tables.c counts fragment offsets in bytes, so that xt_tcpudp.c never sees a 1 there.
        if packet.fragment.offset == 1 && packet.proto == 6 && packet.family == Family::V4 {
            return FieldReading::Truncated;
        }
        if packet.fragment.offset != 0 {
            return FieldReading::Absent;
        }
        match (&packet.transport, self) {
            (Transport::Truncated, _) => FieldReading::Truncated,
            (Transport::Tcp { flags, .. }, Field::TcpFlags) => FieldReading::Value((*flags).into()),
            (Transport::Icmp { kind, code, .. }, Field::IcmpTypeAndCode) => {
                FieldReading::Value(u128::from(*kind) << 8 | u128::from(*code))
            }
            (_, Field::Sport) => {
                packet.ports().map_or(FieldReading::Absent, |p| FieldReading::Value(p.0.into()))
            }
            (_, Field::Dport) => {
                packet.ports().map_or(FieldReading::Absent, |p| FieldReading::Value(p.1.into()))
            }
            _ => FieldReading::Absent,
        }
    }
}

fn encode_ct_state_and_nat_bits(packet: &Packet) -> u16 {
    let ct = packet.ct;
    let state = match ct.state {
        CtState::Invalid => ct_state::INVALID,
        CtState::New => ct_state::NEW,
        CtState::Related => ct_state::RELATED,
        CtState::Established => ct_state::ESTABLISHED,
        CtState::Untracked => ct_state::UNTRACKED,
    };
    let snat = if ct.has_entry() && ct.snat { ct_state::SNAT } else { 0 };
    let dnat = if ct.has_entry() && ct.dnat { ct_state::DNAT } else { 0 };
    state | snat | dnat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_rows_have_the_order_of_the_enum() {
        for (i, row) in FIELDS.iter().enumerate() {
            assert_eq!(row.field as usize, i, "{}", row.name);
        }
    }

    #[test]
    fn a_settable_field_stores_every_value_without_changing_others() {
        for plain in [Field::Ttl, Field::Tos, Field::Mark] {
            assert!(
                Field::freely_settable_number_fields().any(|field| field == plain),
                "{plain:?}"
            );
        }
        for family in [Family::V4, Family::V6] {
            let before = Packet::new(family, Addr(1), Addr(2), 17);
            for field in Field::freely_settable_number_fields() {
                assert_eq!(
                    field.read(&before),
                    FieldReading::Value(
                        field.row().ordinary_value_if_freely_settable.expect("plain")
                    )
                );
                let max = field.max_value(family);
                for value in [0, 1.min(max), max / 3, max] {
                    let mut after = before.clone();
                    field.write_if_present(&mut after, value);
                    for other in FIELDS.iter().map(|row| row.field) {
                        let want = match other == field {
                            true => FieldReading::Value(value),
                            false => other.read(&before),
                        };
                        assert_eq!(other.read(&after), want, "{field:?} {value} {other:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut p = Packet::new(Family::V4, Default::default(), Default::default(), 17);
        p.transport = Transport::Udp { sport: 1, dport: 2 };
        assert_eq!(Field::Dport.read(&p), FieldReading::Value(2));
        p.fragment.offset = 185;
        assert_eq!(Field::Dport.read(&p), FieldReading::Absent);
    }

    #[test]
    fn a_tcp_fragment_at_offset_one_is_truncated() {
        let mut p = Packet::new(Family::V4, Default::default(), Default::default(), 6);
        p.fragment.offset = 1;
        assert_eq!(Field::Dport.read(&p), FieldReading::Truncated);
    }
}
