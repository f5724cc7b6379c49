//! Values of fields for people: addresses, names of protocols, TCP flags and conntrack states.

use weir_packet::{Addr, Family, tcp_flag};

use super::Field;
use crate::rule_match::ct_state;

/// Names of protocols with their numbers; the first name of a number is the one that is printed.
pub const PROTOCOL_NAMES: [(&str, u8); 15] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("ospf", 89),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
];

/// Names of TCP's flags with their bits, from the lowest bit up.
pub const TCP_FLAG_NAMES: [(&str, u8); 6] = [
    ("fin", tcp_flag::FIN),
    ("syn", tcp_flag::SYN),
    ("rst", tcp_flag::RST),
    ("psh", tcp_flag::PSH),
    ("ack", tcp_flag::ACK),
    ("urg", tcp_flag::URG),
];

/// Names of the bits of [`Field::CtState`].
const CT_STATE_NAMES: [(&str, u16); 7] = [
    ("invalid", ct_state::INVALID),
    ("new", ct_state::NEW),
    ("related", ct_state::RELATED),
    ("established", ct_state::ESTABLISHED),
    ("untracked", ct_state::UNTRACKED),
    ("snat", ct_state::SNAT),
    ("dnat", ct_state::DNAT),
];

/// Name of a protocol of [`PROTOCOL_NAMES`], or its number.
pub fn format_protocol_name_or_number(proto: u8) -> String {
    let known = PROTOCOL_NAMES.iter().find(|(_, p)| *p == proto);
    known.map_or_else(|| proto.to_string(), |(name, _)| (*name).to_owned())
}

impl Field {
    /// A value of the field as people read it: `198.51.100.7`, `tcp`, `syn,ack`, `0x2`.
    ///
    /// # Units and ranges
    /// `value` is as [`Field::read`] gives it. A device's value is its index, a plain number.
    pub fn display_value(self, value: u128, family: Family) -> String {
        match self {
            Field::Saddr | Field::Daddr => Addr(value).display(family).to_string(),
            Field::Proto => format_protocol_name_or_number(value as u8),
            Field::TcpFlags => join_flag_names(value, &TCP_FLAG_NAMES),
            Field::IcmpTypeAndCode => format!("{}/{}", value >> 8, value & 0xff),
            Field::SourceMac => {
                let octets: Vec<_> =
                    (0..6).rev().map(|i| format!("{:02x}", (value >> (8 * i)) as u8)).collect();
                octets.join(":")
            }
            Field::CtState => join_flag_names(value, &CT_STATE_NAMES),
            Field::Mark | Field::CtMark | Field::Tos => format!("{value:#x}"),
            Field::PktType => ["unicast", "broadcast", "multicast"]
                .get(value as usize)
                .map_or_else(|| value.to_string(), |w| (*w).to_owned()),
            Field::IsLaterFragment => if value == 1 { "later" } else { "none or first" }.to_owned(),
            _ => value.to_string(),
        }
    }
}

/// The names of the bits that are set, joined by commas; `none` without any.
fn join_flag_names(bits: u128, names: &[(&str, impl Into<u128> + Copy)]) -> String {
    let set: Vec<_> =
        names.iter().filter(|(_, bit)| bits & (*bit).into() != 0).map(|n| n.0).collect();
    if set.is_empty() { "none".to_owned() } else { set.join(",") }
}
