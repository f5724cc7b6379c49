//! The ICMP types of REJECT: iptables' name and nft's.

use weir_model::Family;

/// The keyword of the family's ICMP in nft.
pub(super) const fn icmp_keyword(family: Family) -> &'static str {
    match family {
        Family::V4 => "icmp",
        Family::V6 => "icmpv6",
    }
}

/// Rows of iptables' and nft's name.
pub(super) const fn reject_type_names(family: Family) -> &'static [(&'static str, &'static str)] {
    match family {
        Family::V4 => &[
            ("icmp-net-unreachable", "net-unreachable"),
            ("icmp-host-unreachable", "host-unreachable"),
            ("icmp-proto-unreachable", "prot-unreachable"),
            ("icmp-port-unreachable", "port-unreachable"),
            ("icmp-net-prohibited", "net-prohibited"),
            ("icmp-host-prohibited", "host-prohibited"),
            ("icmp-admin-prohibited", "admin-prohibited"),
        ],
        Family::V6 => &[
            ("icmp6-no-route", "no-route"),
            ("icmp6-adm-prohibited", "admin-prohibited"),
            ("icmp6-addr-unreachable", "addr-unreachable"),
            ("icmp6-port-unreachable", "port-unreachable"),
            ("icmp6-policy-fail", "policy-fail"),
            ("icmp6-reject-route", "reject-route"),
        ],
    }
}
