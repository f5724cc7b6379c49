//! The one table of fields.
//!
//! Each header or metadata field that rules test is one row of [`FIELDS`]: how wide it is, where it
//! lies, what iptables and nft call it, and how a pass may treat rules that differ in it. Parser,
//! printers, interpreter, back ends and tests read this table. A field that is not here acts as a
//! barrier: safe by default.
//!
//! `ARCHITECTURE.md` lists what else a new field needs.

mod display;

use weir_packet::{CtState, Family, Packet, PktType, Transport};

pub use self::display::{PROTOCOL_NAMES, TCP_FLAG_NAMES, protocol_name};
use crate::matching::ct_state;

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
    Fragment,
    /// Source port.
    Sport,
    /// Destination port.
    Dport,
    /// TCP flags octet.
    TcpFlags,
    /// ICMP type (upper eight bits) and code.
    Icmp,
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
    /// What the kernel knows beside the bytes.
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
pub enum Merge {
    /// The values may be folded into one set: an exact value, a prefix or a range.
    Combine,
    /// May differ inside a compiled run, but never merged: bit tests.
    Keep,
    /// Must be equal inside a merged group.
    Break,
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
    /// Width in bits for IPv4 and IPv6; 0 for names.
    pub bits: (u32, u32),
    /// Byte offset in its header for IPv4 and IPv6, where it lies in one.
    pub offset: Option<(u16, u16)>,
    /// iptables' option.
    pub iptables: &'static str,
    /// nft's expression for IPv4 and IPv6; `th` stands for the transport protocol's name.
    pub nft: (&'static str, &'static str),
    /// How a pass may treat it.
    pub merge: Merge,
}

#[expect(clippy::too_many_arguments, reason = "the columns of the table below")]
const fn row(
    field: Field,
    name: &'static str,
    layer: Layer,
    bits: (u32, u32),
    offset: Option<(u16, u16)>,
    iptables: &'static str,
    nft: (&'static str, &'static str),
    merge: Merge,
) -> FieldRow {
    FieldRow { field, name, layer, bits, offset, iptables, nft, merge }
}

/// All fields, in the order of [`Field`].
#[rustfmt::skip]
pub const FIELDS: [FieldRow; 18] = {
    use Layer::{Link, Meta, Network, Transport};
    use Merge::{Break, Combine, Keep};
    [
        row(Field::Iif,       "iif",      Meta,      (0, 0),     None,           "-i",              ("iifname", "iifname"),             Break),
        row(Field::Oif,       "oif",      Meta,      (0, 0),     None,           "-o",              ("oifname", "oifname"),             Break),
        row(Field::Saddr,     "saddr",    Network,   (32, 128),  Some((12, 8)),  "-s",              ("ip saddr", "ip6 saddr"),          Combine),
        row(Field::Daddr,     "daddr",    Network,   (32, 128),  Some((16, 24)), "-d",              ("ip daddr", "ip6 daddr"),          Combine),
        row(Field::Proto,     "proto",    Network,   (8, 8),     Some((9, 6)),   "-p",              ("meta l4proto", "meta l4proto"),   Combine),
        row(Field::Fragment,  "fragment", Network,   (1, 1),     Some((6, 40)),  "-f",              ("ip frag-off & 0x1fff != 0", ""),  Keep),
        row(Field::Sport,     "sport",    Transport, (16, 16),   Some((0, 0)),   "--sport",         ("th sport", "th sport"),           Combine),
        row(Field::Dport,     "dport",    Transport, (16, 16),   Some((2, 2)),   "--dport",         ("th dport", "th dport"),           Combine),
        row(Field::TcpFlags,  "flags",    Transport, (8, 8),     Some((13, 13)), "--tcp-flags",     ("tcp flags", "tcp flags"),         Keep),
        row(Field::Icmp,      "icmp",     Transport, (16, 16),   Some((0, 0)),   "--icmp-type",     ("icmp type", "icmpv6 type"),       Combine),
        row(Field::SourceMac, "smac",     Link,      (48, 48),   Some((6, 6)),   "--mac-source",    ("ether saddr", "ether saddr"),     Combine),
        row(Field::CtState,   "ct state", Meta,      (7, 7),     None,           "--ctstate",       ("ct state", "ct state"),           Keep),
        row(Field::Mark,      "mark",     Meta,      (32, 32),   None,           "--mark",          ("meta mark", "meta mark"),         Combine),
        row(Field::CtMark,    "ct mark",  Meta,      (32, 32),   None,           "--mark",          ("ct mark", "ct mark"),             Combine),
        row(Field::Length,    "length",   Network,   (16, 16),   None,           "--length",        ("meta length", "meta length"),     Combine),
        row(Field::Ttl,       "ttl",      Network,   (8, 8),     Some((8, 7)),   "--ttl-eq",        ("ip ttl", "ip6 hoplimit"),         Combine),
        row(Field::Tos,       "tos",      Network,   (8, 8),     None,           "--tos",           ("ip dscp", "ip6 dscp"),            Combine),
        row(Field::PktType,   "pkttype",  Meta,      (3, 3),     None,           "--pkt-type",      ("meta pkttype", "meta pkttype"),   Combine),
    ]
};

/// What a packet has in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// A value.
    Value(u128),
    /// The packet has no such field: the test is false, whether negated or not.
    Absent,
    /// The header is cut short: legacy iptables drops the packet on the spot (hotdrop).
    Truncated,
}

impl Field {
    /// The field's row.
    pub fn row(self) -> &'static FieldRow {
        &FIELDS[self as usize]
    }

    /// Width in bits; 0 for device names.
    pub fn bits(self, family: Family) -> u32 {
        match family {
            Family::V4 => self.row().bits.0,
            Family::V6 => self.row().bits.1,
        }
    }

    /// The largest value that the field can hold.
    pub fn max(self, family: Family) -> u128 {
        match self.bits(family) {
            0 => 0,
            128 => u128::MAX,
            n => (1 << n) - 1,
        }
    }

    /// The device name, for the two fields that are names. A missing device is the empty name.
    pub fn device(self, packet: &Packet) -> Option<&str> {
        match self {
            Field::Iif => Some(&packet.iif),
            Field::Oif => Some(&packet.oif),
            _ => None,
        }
    }

    /// What the packet has in this field, as legacy iptables reads it.
    ///
    /// Ports, flags and ICMP types are absent on later fragments (net/netfilter/xt_tcpudp.c,
    /// xt_multiport.c, xt_sctp.c), the MAC address where there is no Ethernet header
    /// (xt_mac.c), the connection mark where there is no connection (xt_connmark.c). A TCP
    /// fragment at offset 1 could overwrite flags: xt_tcpudp.c drops it.
    pub fn read(self, packet: &Packet) -> Read {
        match self {
            Field::Iif | Field::Oif => Read::Absent,
            Field::Saddr => Read::Value(packet.saddr.0),
            Field::Daddr => Read::Value(packet.daddr.0),
            Field::Proto => Read::Value(packet.proto.into()),
            Field::Fragment => Read::Value((packet.fragment.offset != 0).into()),
            Field::Sport | Field::Dport | Field::TcpFlags | Field::Icmp => {
                self.read_transport(packet)
            }
            Field::SourceMac => match packet.smac {
                Some(m) => Read::Value(m.iter().fold(0, |n, b| n << 8 | u128::from(*b))),
                None => Read::Absent,
            },
            Field::CtState => Read::Value(ct_bits(packet).into()),
            Field::Mark => Read::Value(packet.mark.into()),
            Field::CtMark if packet.ct.has_entry() => Read::Value(packet.ct.mark.into()),
            Field::CtMark => Read::Absent,
            Field::Length => Read::Value(packet.len() as u128),
            Field::Ttl => Read::Value(packet.ttl.into()),
            Field::Tos => Read::Value(packet.tos.into()),
            Field::PktType => Read::Value(match packet.pkttype {
                PktType::Unicast => 0,
                PktType::Broadcast => 1,
                PktType::Multicast => 2,
            }),
        }
    }

    fn read_transport(self, packet: &Packet) -> Read {
        // ip6_tables.c counts fragment offsets in bytes, so that xt_tcpudp.c never sees a 1 there.
        if packet.fragment.offset == 1 && packet.proto == 6 && packet.family == Family::V4 {
            return Read::Truncated;
        }
        if packet.fragment.offset != 0 {
            return Read::Absent;
        }
        match (&packet.transport, self) {
            (Transport::Truncated, _) => Read::Truncated,
            (Transport::Tcp { flags, .. }, Field::TcpFlags) => Read::Value((*flags).into()),
            (Transport::Icmp { kind, code, .. }, Field::Icmp) => {
                Read::Value(u128::from(*kind) << 8 | u128::from(*code))
            }
            (_, Field::Sport) => packet.ports().map_or(Read::Absent, |p| Read::Value(p.0.into())),
            (_, Field::Dport) => packet.ports().map_or(Read::Absent, |p| Read::Value(p.1.into())),
            _ => Read::Absent,
        }
    }
}

fn ct_bits(packet: &Packet) -> u16 {
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
    fn rows_stand_in_the_order_of_the_enum() {
        for (i, row) in FIELDS.iter().enumerate() {
            assert_eq!(row.field as usize, i, "{}", row.name);
        }
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut p = Packet::new(Family::V4, Default::default(), Default::default(), 17);
        p.transport = Transport::Udp { sport: 1, dport: 2 };
        assert_eq!(Field::Dport.read(&p), Read::Value(2));
        p.fragment.offset = 185;
        assert_eq!(Field::Dport.read(&p), Read::Absent);
    }

    #[test]
    fn a_tcp_fragment_at_offset_one_is_truncated() {
        let mut p = Packet::new(Family::V4, Default::default(), Default::default(), 6);
        p.fragment.offset = 1;
        assert_eq!(Field::Dport.read(&p), Read::Truncated);
    }
}
