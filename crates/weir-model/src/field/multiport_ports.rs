//! The ports as `-m multiport` reads them.

use weir_packet::{Packet, Transport};

use super::FieldReading;

/// Source and destination port as `-m multiport` reads them: four bytes are enough, and a TCP
/// fragment at offset 1 is a fragment like others (net/netfilter/xt_multiport.c).
pub fn read_multiport_ports(packet: &Packet) -> (FieldReading, FieldReading) {
    if packet.fragment.offset != 0 {
        return (FieldReading::Absent, FieldReading::Absent);
    }
    let value = |v: u16| FieldReading::Value(v.into());
    match (&packet.transport, packet.ports()) {
        (_, Some((sport, dport))) => (value(sport), value(dport)),
        (Transport::Truncated, None) => match packet.payload[..] {
            [a, b, c, d, ..] => {
                (value(u16::from_be_bytes([a, b])), value(u16::from_be_bytes([c, d])))
            }
            _ => (FieldReading::Truncated, FieldReading::Truncated),
        },
        _ => (FieldReading::Absent, FieldReading::Absent),
    }
}
