//! Values as nft writes them: numbers, addresses and names.

use weir_model::mask::interval_of_value_under_mask;
use weir_model::nft::{LoadExpression, NFT_ICMP_TYPE_NAMES, NFT_ICMPV6_TYPE_NAMES, ct_state};
use weir_model::{Addr, Family};

use crate::{strtoul, system_name_tables};

type NamedValues = &'static [(&'static str, u128)];

const ICMP_CODE_NAMES: NamedValues = &[
    ("net-unreachable", 0),
    ("host-unreachable", 1),
    ("prot-unreachable", 2),
    ("port-unreachable", 3),
    ("frag-needed", 4),
    ("net-prohibited", 9),
    ("host-prohibited", 10),
    ("admin-prohibited", 13),
];

const ICMPV6_CODE_NAMES: NamedValues = &[
    ("no-route", 0),
    ("admin-prohibited", 1),
    ("addr-unreachable", 3),
    ("port-unreachable", 4),
    ("policy-fail", 5),
    ("reject-route", 6),
];

const DSCP_NAMES: NamedValues = &[
    ("cs0", 0),
    ("df", 0),
    ("be", 0),
    ("lephb", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

const ECN_NAMES: NamedValues = &[("not-ect", 0), ("ect1", 1), ("ect0", 2), ("ce", 3)];

const PKTTYPE_NAMES: NamedValues =
    &[("unicast", 0), ("host", 0), ("broadcast", 1), ("multicast", 2)];

const NFT_TCP_FLAG_NAMES: NamedValues = &[
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ecn", 64),
    ("cwr", 128),
];

const NFT_CT_STATE_NAMES: NamedValues = &[
    ("invalid", ct_state::INVALID as u128),
    ("established", ct_state::ESTABLISHED as u128),
    ("related", ct_state::RELATED as u128),
    ("new", ct_state::NEW as u128),
    ("untracked", ct_state::UNTRACKED as u128),
];

const CT_STATUS_NAMES: NamedValues = &[
    ("expected", 1),
    ("seen-reply", 2),
    ("assured", 4),
    ("confirmed", 8),
    ("snat", 16),
    ("dnat", 32),
    ("dying", 512),
];

fn value_of_name(names: NamedValues, word: &str) -> Option<u128> {
    names.iter().find(|(n, _)| *n == word).map(|(_, v)| *v)
}

/// Names of values of a load.
fn value_names_for_expression(load: LoadExpression, family: Family) -> NamedValues {
    match load {
        LoadExpression::IcmpType if family == Family::V4 => NFT_ICMP_TYPE_NAMES,
        LoadExpression::IcmpType => NFT_ICMPV6_TYPE_NAMES,
        LoadExpression::PktType => PKTTYPE_NAMES,
        LoadExpression::TcpFlags => NFT_TCP_FLAG_NAMES,
        LoadExpression::CtState => NFT_CT_STATE_NAMES,
        LoadExpression::CtStatus => CT_STATUS_NAMES,
        _ => &[],
    }
}

/// A plain number.
pub(super) fn parse_integer(word: &str, max: u128) -> Option<u128> {
    let max = u64::try_from(max).unwrap_or(u64::MAX);
    strtoul::parse_number_in_range(word, 0, max).map(u128::from)
}

/// One value.
pub(super) fn parse_value(load: LoadExpression, word: &str, family: Family) -> Option<u128> {
    if let Some(value) = value_of_name(value_names_for_expression(load, family), word) {
        return Some(value);
    }
    match load {
        LoadExpression::Saddr | LoadExpression::Daddr => parse_address(word, family).map(|a| a.0),
        LoadExpression::EtherSaddr => parse_mac(word),
        LoadExpression::L4proto => match parse_integer(word, 255) {
            None if word == "ip" => Some(0),
            None => system_name_tables::protocol_number(word).map(u128::from),
            number => number,
        },
        _ => parse_integer(word, load.max_value(family)),
    }
}

/// An address of the family.
pub(super) fn parse_address(word: &str, family: Family) -> Option<Addr> {
    match family {
        Family::V4 => word.parse::<std::net::Ipv4Addr>().ok().map(Addr::from),
        Family::V6 => word.parse::<std::net::Ipv6Addr>().ok().map(Addr::from),
    }
}

fn parse_mac(word: &str) -> Option<u128> {
    let mut value = 0;
    let mut count = 0;
    for byte in word.split(':') {
        let digits = byte.len() == 2 && byte.bytes().all(|b| b.is_ascii_hexdigit());
        value = value << 8 | u128::from(u8::from_str_radix(byte, 16).ok().filter(|_| digits)?);
        count += 1;
    }
    (count == 6).then_some(value)
}

/// A value, a prefix or `lo-hi`.
pub(super) fn parse_value_interval(
    load: LoadExpression,
    word: &str,
    family: Family,
) -> Option<(u128, u128)> {
    if let Some(one) = parse_value(load, word, family) {
        return Some((one, one));
    }
    if let Some((addr, len)) = word.split_once('/') {
        let is_address = matches!(load, LoadExpression::Saddr | LoadExpression::Daddr);
        let len = parse_integer(len, family.addr_bits().into()).filter(|_| is_address)? as u32;
        let (addr, mask) = (parse_value(load, addr, family)?, family.netmask(len));
        return interval_of_value_under_mask(addr, mask, family.max_addr());
    }
    let (lo, hi) = word.split_once('-')?;
    let (lo, hi) = (parse_value(load, lo, family)?, parse_value(load, hi, family)?);
    (lo <= hi).then_some((lo, hi))
}

/// Names of bits joined by commas, or a number.
pub(super) fn parse_flag_bits(load: LoadExpression, word: &str, family: Family) -> Option<u128> {
    let names = value_names_for_expression(load, family);
    if let Some(number) = parse_integer(word, load.max_value(family)) {
        return Some(number);
    }
    word.split(',').try_fold(0, |bits, name| Some(bits | value_of_name(names, name)?))
}

/// A code of ICMP.
pub(super) fn parse_icmp_code(word: &str, family: Family) -> Option<u128> {
    let names = if family == Family::V4 { ICMP_CODE_NAMES } else { ICMPV6_CODE_NAMES };
    value_of_name(names, word).or_else(|| parse_integer(word, 255))
}

/// A code point of type of service.
pub(super) fn parse_unshifted_dscp(word: &str) -> Option<u128> {
    value_of_name(DSCP_NAMES, word).or_else(|| parse_integer(word, 63))
}

/// The two bits of congestion notification.
pub(super) fn parse_ecn(word: &str) -> Option<u128> {
    value_of_name(ECN_NAMES, word).or_else(|| parse_integer(word, 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_prefixes_and_names_with_hyphens_are_told_apart() {
        let v4 = |load, word| parse_value_interval(load, word, Family::V4);
        assert_eq!(v4(LoadExpression::Saddr, "10.0.0.0/8"), Some((0x0a00_0000, 0x0aff_ffff)));
        assert_eq!(
            v4(LoadExpression::Saddr, "10.0.0.1/8"),
            None,
            "nft would have masked the address"
        );
        assert_eq!(v4(LoadExpression::IcmpType, "echo-request"), Some((8, 8)));
        assert_eq!(v4(LoadExpression::Dport, "80-443"), Some((80, 443)));
        assert_eq!(v4(LoadExpression::Dport, "443-80"), None);
        assert_eq!(v4(LoadExpression::Dport, "70000"), None);
        assert_eq!(
            v4(LoadExpression::EtherSaddr, "02:00:00:00:00:0a"),
            Some((0x0200_0000_000a, 0x0200_0000_000a))
        );
        let v6 = parse_value_interval(LoadExpression::Daddr, "2001:db8::1-2001:db8::5", Family::V6);
        assert_eq!(v6.map(|(lo, hi)| hi - lo), Some(4));
        assert_eq!(parse_flag_bits(LoadExpression::TcpFlags, "syn,ack", Family::V4), Some(0x12));
    }
}
