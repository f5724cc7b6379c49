//! Names of services, protocols, TCP flags and ICMP types, as numbers.

use weir_model::field::{PROTOCOL_NAMES, TCP_FLAG_NAMES};
use weir_model::nft::{NFT_ICMP_TYPE_NAMES, NFT_ICMPV6_TYPE_NAMES};

/// Bit of a TCP flag.
pub(crate) fn tcp_flag_bit(name: &str) -> Option<u8> {
    let lower = name.to_ascii_lowercase();
    let found = TCP_FLAG_NAMES.iter().find(|(n, _)| *n == lower).map(|(_, bit)| *bit);
    found.or_else(|| (lower == "none").then_some(0))
}

/// Port of a service that people write by name; any other is written by its number.
pub(crate) fn builtin_service_port(name: &str) -> Option<u16> {
    const SERVICE_PORTS: [(&str, u16); 17] = [
        ("ftp", 21),
        ("ssh", 22),
        ("telnet", 23),
        ("smtp", 25),
        ("domain", 53),
        ("bootps", 67),
        ("bootpc", 68),
        ("http", 80),
        ("pop3", 110),
        ("ntp", 123),
        ("imap", 143),
        ("snmp", 161),
        ("bgp", 179),
        ("https", 443),
        ("syslog", 514),
        ("imaps", 993),
        ("mysql", 3306),
    ];
    SERVICE_PORTS.iter().find(|(n, _)| *n == name).map(|(_, port)| *port)
}

/// Number of a protocol, by name or number.
pub(crate) fn parse_protocol_name_or_number(name: &str) -> Option<u8> {
    let known = PROTOCOL_NAMES.iter().find(|(n, _)| *n == name).map(|(_, p)| *p);
    known.or_else(|| name.parse().ok().filter(|n| *n != 0))
}

/// Number of an ICMP type (`proto` 1) or ICMPv6 type.
pub(crate) fn icmp_type_number(proto: u8, name: &str) -> Option<u8> {
    let names = if proto == 1 { NFT_ICMP_TYPE_NAMES } else { NFT_ICMPV6_TYPE_NAMES };
    let (_, kind) = names.iter().find(|(n, _)| *n == name)?;
    u8::try_from(*kind).ok()
}
