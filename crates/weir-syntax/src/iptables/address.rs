//! Addresses, masks and networks as iptables reads them.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_model::{Addr, Family};

use crate::strtoul;

/// A numeric address.
///
/// IPv4 takes fewer than four parts (`10.1` is 10.1.0.0), and each part in any base.
pub(crate) fn parse_xtables_numeric_addr(text: &str, family: Family) -> Option<Addr> {
    match family {
        Family::V4 => parse_dotted_ipv4(text, false).map(|a| Addr(a.into())),
        Family::V6 => text.parse::<Ipv6Addr>().ok().map(Addr::from),
    }
}

/// `address[/mask]` as `inet_aton` reads the address.
pub(crate) fn parse_inet_aton_or_ipv6_net(
    text: &str,
    family: Family,
) -> Result<(Addr, Addr), BadAddr> {
    let (name, mask) = match text.rsplit_once('/') {
        Some((name, m)) => (name, parse_mask(m, family).ok_or(BadAddr::InvalidMask)?),
        None => (text, Addr(family.max_addr())),
    };
    match parse_inet_aton_or_ipv6(name, family) {
        Some(a) => Ok((a, mask)),
        None => Err(classify_bad_addr(name, family)),
    }
}

/// An address in its standard form only (`inet_pton`).
pub(crate) fn parse_inet_pton(text: &str, family: Family) -> Option<Addr> {
    match family {
        Family::V4 => text.parse::<Ipv4Addr>().ok().map(Addr::from),
        Family::V6 => parse_xtables_numeric_addr(text, family),
    }
}

/// A numeric address as `inet_aton` reads it: the last part fills what is left (`10.1` is
/// 10.0.0.1).
pub(crate) fn parse_inet_aton_or_ipv6(text: &str, family: Family) -> Option<Addr> {
    if family == Family::V6 {
        return parse_xtables_numeric_addr(text, family);
    }
    let parts: Vec<&str> = text.split('.').collect();
    let (last, first) = parts.split_last()?;
    if first.len() > 3 || !parts.iter().all(|p| p.starts_with(|c: char| c.is_ascii_digit())) {
        return None;
    }
    let mut out = 0;
    for part in first {
        out = out << 8 | strtoul::parse_number_in_range(part, 0, 255)?;
    }
    let left = 8 * (4 - first.len() as u64);
    Some(Addr((out << left | strtoul::parse_number_in_range(last, 0, (1 << left) - 1)?).into()))
}

fn parse_dotted_ipv4(text: &str, whole: bool) -> Option<u32> {
    // Four decimal numbers without leading zeros: the only spelling that iptables-save prints.
    if let Ok(addr) = text.parse::<Ipv4Addr>() {
        return Some(addr.into());
    }
    let mut out = 0u32;
    let mut parts = 0;
    for part in text.splitn(4, '.') {
        out = out << 8 | strtoul::parse_number_in_range(part, 0, 255)? as u32;
        parts += 1;
    }
    if parts < 4 {
        if whole {
            return None;
        }
        out <<= 8 * (4 - parts);
    }
    Some(out)
}

/// A mask: a prefix length, or an address of ones and zeros in any order.
pub(crate) fn parse_mask(text: &str, family: Family) -> Option<Addr> {
    let spelled = match family {
        Family::V4 => parse_dotted_ipv4(text, true).map(|m| Addr(m.into())),
        Family::V6 => parse_xtables_numeric_addr(text, family),
    };
    spelled.or_else(|| {
        let len = strtoul::parse_number_in_range(text, 0, family.addr_bits().into())?;
        Some(Addr(family.netmask(len as u32)))
    })
}

/// What is wrong with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadAddr {
    /// Not an address: perhaps the name of a host.
    NotNumericAddress,
    /// Not a mask.
    InvalidMask,
    /// An address of the other family.
    WrongFamily,
}

/// `address[/mask]`, the address not yet under its mask.
pub(crate) fn parse_xtables_unmasked_addr_and_mask(
    text: &str,
    family: Family,
) -> Result<(Addr, Addr), BadAddr> {
    let (name, mask) = match text.rsplit_once('/') {
        Some((name, m)) => (name, parse_mask(m, family).ok_or(BadAddr::InvalidMask)?),
        None => (text, Addr(family.max_addr())),
    };
    // Under a mask of zeros the address is not parsed: `any/0`.
    if mask.0 == 0 {
        return Ok((Addr(0), mask));
    }
    // What is no address for libxtables is a name for the resolver, which reads numbers itself:
    // `10.256` is 10.0.1.0.
    match parse_xtables_numeric_addr(name, family).or_else(|| parse_inet_aton_or_ipv6(name, family))
    {
        Some(a) => Ok((a, mask)),
        None => Err(classify_bad_addr(name, family)),
    }
}

/// Why a word is not an address of the family.
pub(crate) fn classify_bad_addr(name: &str, family: Family) -> BadAddr {
    let other = match family {
        Family::V4 => name.parse::<Ipv6Addr>().is_ok(),
        Family::V6 => name.parse::<Ipv4Addr>().is_ok(),
    };
    if other { BadAddr::WrongFamily } else { BadAddr::NotNumericAddress }
}

/// The addresses of a host's name, each once, by the system's resolver.
pub(crate) fn resolve_host_name(name: &str, family: Family) -> Vec<Addr> {
    use std::net::{IpAddr, ToSocketAddrs as _};
    let Ok(found) = (name, 0).to_socket_addrs() else { return Vec::new() };
    let mut out: Vec<Addr> = Vec::new();
    for a in found {
        let a = match (a.ip(), family) {
            (IpAddr::V4(a), Family::V4) => Addr::from(a),
            (IpAddr::V6(a), Family::V6) => Addr::from(a),
            _ => continue,
        };
        if !out.contains(&a) {
            out.push(a);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_addresses_are_padded_with_zeros() {
        assert_eq!(parse_xtables_numeric_addr("10.1", Family::V4), Some(Addr(0x0a01_0000)));
        assert_eq!(parse_xtables_numeric_addr("0x7f.0.0.010", Family::V4), Some(Addr(0x7f00_0008)));
        assert_eq!(parse_xtables_numeric_addr("10.1.2.300", Family::V4), None);
        assert_eq!(parse_xtables_numeric_addr("10.1.2.3.4", Family::V4), None);
    }

    #[test]
    fn numbers_above_255_are_parsed_like_the_resolver() {
        let read =
            |text| parse_xtables_unmasked_addr_and_mask(text, Family::V4).map(|(addr, _)| addr);
        assert_eq!(read("255"), Ok(Addr(0xff00_0000)));
        assert_eq!(read("256"), Ok(Addr(0x0000_0100)));
        assert_eq!(read("10.256"), Ok(Addr(0x0a00_0100)));
        assert_eq!(read("10.+256"), Err(BadAddr::NotNumericAddress));
        assert_eq!(read("1.2.65536"), Err(BadAddr::NotNumericAddress));
    }

    #[test]
    fn masks_are_prefix_lengths_or_arbitrary_bits() {
        assert_eq!(parse_mask("24", Family::V4), Some(Addr(0xffff_ff00)));
        assert_eq!(parse_mask("255.0.255.0", Family::V4), Some(Addr(0xff00_ff00)));
        assert_eq!(parse_mask("33", Family::V4), None);
        assert_eq!(parse_mask("255.255", Family::V4), None);
        assert_eq!(
            parse_xtables_unmasked_addr_and_mask("any/0", Family::V4),
            Ok((Addr(0), Addr(0)))
        );
    }
}
