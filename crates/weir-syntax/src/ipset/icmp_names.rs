//! Names of ICMP types and codes as ipset writes them.

/// Name, type, code.
type IcmpNameRow = (&'static str, u8, u8);

const ICMPV4_NAMES: [IcmpNameRow; 35] = [
    ("echo-reply", 0, 0),
    ("network-unreachable", 3, 0),
    ("host-unreachable", 3, 1),
    ("protocol-unreachable", 3, 2),
    ("port-unreachable", 3, 3),
    ("fragmentation-needed", 3, 4),
    ("source-route-failed", 3, 5),
    ("network-unknown", 3, 6),
    ("host-unknown", 3, 7),
    ("network-prohibited", 3, 9),
    ("host-prohibited", 3, 10),
    ("TOS-network-unreachable", 3, 11),
    ("TOS-host-unreachable", 3, 12),
    ("communication-prohibited", 3, 13),
    ("host-precedence-violation", 3, 14),
    ("precedence-cutoff", 3, 15),
    ("source-quench", 4, 0),
    ("network-redirect", 5, 0),
    ("host-redirect", 5, 1),
    ("TOS-network-redirect", 5, 2),
    ("TOS-host-redirect", 5, 3),
    ("echo-request", 8, 0),
    ("router-advertisement", 9, 0),
    ("router-solicitation", 10, 0),
    ("ttl-zero-during-transit", 11, 0),
    ("ttl-zero-during-reassembly", 11, 1),
    ("ip-header-bad", 12, 0),
    ("required-option-missing", 12, 1),
    ("timestamp-request", 13, 0),
    ("timestamp-reply", 14, 0),
    ("address-mask-request", 17, 0),
    ("address-mask-reply", 18, 0),
    // Other names of the above: read, never printed.
    ("ping", 8, 0),
    ("pong", 0, 0),
    ("ttl-exceeded", 11, 0),
];

const ICMPV6_NAMES: [IcmpNameRow; 20] = [
    ("no-route", 1, 0),
    ("communication-prohibited", 1, 1),
    ("address-unreachable", 1, 3),
    ("port-unreachable", 1, 4),
    ("packet-too-big", 2, 0),
    ("ttl-zero-during-transit", 3, 0),
    ("ttl-zero-during-reassembly", 3, 1),
    ("bad-header", 4, 0),
    ("unknown-header-type", 4, 1),
    ("unknown-option", 4, 2),
    ("echo-request", 128, 0),
    ("echo-reply", 129, 0),
    ("router-solicitation", 133, 0),
    ("router-advertisement", 134, 0),
    ("neighbour-solicitation", 135, 0),
    ("neighbour-advertisement", 136, 0),
    ("redirect", 137, 0),
    ("ping", 128, 0),
    ("pong", 129, 0),
    ("neighbor-solicitation", 135, 0),
];

fn icmp_name_rows(v6: bool) -> &'static [IcmpNameRow] {
    if v6 { &ICMPV6_NAMES } else { &ICMPV4_NAMES }
}

/// Type and code of a name, as the two bytes of a port.
pub(super) fn find_packed_icmp_type_code(name: &str, v6: bool) -> Option<u16> {
    let row = icmp_name_rows(v6).iter().find(|r| r.0.eq_ignore_ascii_case(name))?;
    Some(u16::from(row.1) << 8 | u16::from(row.2))
}

/// The name of a type and code.
pub(super) fn find_icmp_name_of_packed_type_code(port: u16, v6: bool) -> Option<&'static str> {
    let [kind, code] = port.to_be_bytes();
    icmp_name_rows(v6).iter().find(|r| r.1 == kind && r.2 == code).map(|r| r.0)
}
