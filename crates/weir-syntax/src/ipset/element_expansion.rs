//! The parts of an element, with ranges and prefixes that expand to several.

use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::{Addr, ElementPart, Family, IpSet, SetOption, SharedName, Span};

use super::icmp_names;
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::address::{self, BadAddr};
use crate::iptables::extension::option_values::bad_addr_error;
use crate::iptables::word_splitting::Word;
use crate::{strtoul, system_name_tables};

/// Maximum number of elements that one line may expand to, whatever the size of the set.
const EXPANDED_ELEMENTS_MAX: usize = 1 << 20;

/// Parses `192.0.2.1,tcp:80` into elements: several if it has ranges.
pub(super) fn parse_and_expand_element(
    word: &Word,
    set: &IpSet,
) -> ParseResult<Vec<Vec<ElementPart>>> {
    let family = set.family.unwrap_or(Family::V4);
    let texts: Vec<&str> = word.text.split(',').collect();
    // bitmap:ip,mac takes an address alone: the kernel fills the MAC in.
    let optional =
        set.kind.storage == SetStorage::Bitmap && set.kind.data_types.contains(&SetDataType::Mac);
    let fits = texts.len() == set.kind.data_types.len() || (optional && texts.len() == 1);
    if !fits {
        return Diagnostic::new(format!("{} has {} parts", word.text, texts.len()), word.span)
            .with_help(format!("elements of {} have {}", set.name, set.kind.data_types.len()))
            .into_err();
    }
    let mut out: Vec<Vec<ElementPart>> = vec![Vec::with_capacity(texts.len())];
    for (index, (text, part)) in texts.iter().zip(&set.kind.data_types).enumerate() {
        // The tool expands the first address alone (`IPSET_OPT_IP2` of hash:ip,port,ip).
        if index > 0 && *part == SetDataType::Ip && text.contains(['-', '/']) {
            return Diagnostic::new(format!("{text} is not a single address"), word.span)
                .with_help("write one line for each address, or use hash:ip,port,net")
                .into_err();
        }
        let values = expand_element_part(text, *part, set, family, word.span)?;
        if let [one] = &values[..] {
            for element in &mut out {
                element.push(one.clone());
            }
            continue;
        }
        if out.len() * values.len() > EXPANDED_ELEMENTS_MAX.min(set.maxelem_or_default()) {
            return Diagnostic::new(format!("{text} expands to too many elements"), word.span)
                .with_help("use a set of prefixes (hash:net, …)")
                .into_err();
        }
        out = out
            .iter()
            .flat_map(|e| values.iter().map(|v| [&e[..], std::slice::from_ref(v)].concat()))
            .collect();
    }
    Ok(out)
}

fn expand_element_part(
    text: &str,
    part: SetDataType,
    set: &IpSet,
    family: Family,
    span: Span,
) -> ParseResult<Vec<ElementPart>> {
    match part {
        SetDataType::Ip => expand_addresses(text, set, family, span),
        SetDataType::Net => expand_networks(text, set, family, span),
        SetDataType::Port => expand_ports(text, set, span),
        SetDataType::Mac => match parse_mac(text) {
            Some(mac) => Ok(vec![ElementPart::Mac(mac)]),
            None => Diagnostic::new(format!("{text} is not a MAC address"), span).into_err(),
        },
        SetDataType::Mark => match strtoul::parse_number_in_range(text, 0, u32::MAX.into()) {
            // The kernel masks the element when it is added (ip_set_hash_ipmark.c).
            Some(mark) => Ok(vec![ElementPart::Mark(mark as u32 & mark_mask(set))]),
            None => Diagnostic::new(format!("{text} is not a mark"), span).into_err(),
        },
        SetDataType::Iface => {
            let (physdev, name) = match text.strip_prefix("physdev:") {
                Some(name) => (true, name),
                None => (false, text),
            };
            if name.is_empty() || name.len() > 15 {
                return Diagnostic::new(format!("{name:?} is not a device name"), span)
                    .with_help("write 1 to 15 bytes")
                    .into_err();
            }
            Ok(vec![ElementPart::Iface { physdev, name: SharedName::from(name) }])
        }
        SetDataType::Set => Ok(vec![ElementPart::MemberSet(SharedName::from(text))]),
    }
}

/// What of a mark a set looks at.
fn mark_mask(set: &IpSet) -> u32 {
    let given = set.options.iter().find_map(|o| match o {
        SetOption::MarkMask(mask) => Some(*mask),
        _ => None,
    });
    given.unwrap_or(u32::MAX)
}

fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut out = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut out {
        let part = parts.next().filter(|p| (1..=2).contains(&p.len()) && !p.starts_with('+'))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(out)
}

/// First and last address of an address, a prefix, or a range.
fn parse_address_range_or_prefix(
    text: &str,
    family: Family,
    span: Span,
) -> ParseResult<(u128, u128, Option<u32>)> {
    if let Some((lo, hi)) = text.split_once('-')
        && family == Family::V4
    {
        return match (
            address::parse_inet_aton_or_ipv6(lo, family),
            address::parse_inet_aton_or_ipv6(hi, family),
        ) {
            (Some(lo), Some(hi)) => Ok((lo.0.min(hi.0), lo.0.max(hi.0), None)),
            _ => Diagnostic::new(format!("{text} is not a range of addresses"), span).into_err(),
        };
    }
    match address::parse_inet_aton_or_ipv6_net(text, family) {
        Ok((a, mask)) => match family.prefix_len_of_mask(mask.0) {
            Some(len) => {
                let lo = a.0 & mask.0;
                Ok((lo, lo | (!mask.0 & family.max_addr()), Some(len)))
            }
            None => bad_addr_error(text, span, BadAddr::InvalidMask, family, false).into_err(),
        },
        Err(bad) => bad_addr_error(text, span, bad, family, false).into_err(),
    }
}

fn expand_addresses(
    text: &str,
    set: &IpSet,
    family: Family,
    span: Span,
) -> ParseResult<Vec<ElementPart>> {
    let (lo, hi, len) = parse_address_range_or_prefix(text, family, span)?;
    let bits = family.addr_bits();
    if family == Family::V6 && len != Some(bits) {
        return Diagnostic::new(format!("{text} is not a single address"), span)
            .with_help("IPv6 address sets accept single addresses only: use hash:net for prefixes")
            .into_err();
    }
    let mut netmask = bits;
    for option in &set.options {
        match option {
            SetOption::Netmask(n) => netmask = u32::from(*n),
            SetOption::AddrRange(from, to) if lo < from.0 || hi > to.0 => {
                return Diagnostic::new(format!("{text} is outside of the set's range"), span)
                    .with_help("widen the range in the create line")
                    .into_err();
            }
            _ => {}
        }
    }
    let step = 1u128 << (bits - netmask).min(127);
    let first = lo & family.netmask(netmask);
    if first == 0
        && set.kind.storage == SetStorage::Hash
        && set.kind.data_types == [SetDataType::Ip]
    {
        return Diagnostic::new("address of all zeros in a hash:ip", span)
            .with_help("the kernel refuses it: such a set uses it to mark free slots")
            .into_err();
    }
    let count = (hi - first) / step + 1;
    if count > EXPANDED_ELEMENTS_MAX.min(set.maxelem_or_default()) as u128 {
        return Diagnostic::new(format!("{text} expands to too many elements"), span)
            .with_help("use hash:net")
            .into_err();
    }
    let part =
        |i: u128| ElementPart::AddrOrPrefix { addr: Addr(first + i * step), len: bits as u8 };
    Ok((0..count).map(part).collect())
}

fn expand_networks(
    text: &str,
    set: &IpSet,
    family: Family,
    span: Span,
) -> ParseResult<Vec<ElementPart>> {
    let (lo, hi, len) = parse_address_range_or_prefix(text, family, span)?;
    if len == Some(0) && !set.kind.data_types.contains(&SetDataType::Iface) {
        return Diagnostic::new("prefix of length 0", span)
            .with_help("the kernel refuses it: write two halves, 0.0.0.0/1 and 128.0.0.0/1")
            .into_err();
    }
    if let Some(len) = len {
        return Ok(vec![ElementPart::AddrOrPrefix { addr: Addr(lo), len: len as u8 }]);
    }
    let mut out = Vec::new();
    let mut at = lo;
    loop {
        let fits = |len: u32| {
            let mask = family.netmask(len);
            at & mask == at && at | (!mask & family.max_addr()) <= hi
        };
        let len = (1..=family.addr_bits()).find(|len| fits(*len)).unwrap_or(family.addr_bits());
        out.push(ElementPart::AddrOrPrefix { addr: Addr(at), len: len as u8 });
        let last = at | (!family.netmask(len) & family.max_addr());
        if last >= hi {
            return Ok(out);
        }
        at = last + 1;
    }
}

/// `80`, `tcp:80`, `udp:1000-1010`, `icmp:echo-request`, `gre:0`.
fn expand_ports(text: &str, set: &IpSet, span: Span) -> ParseResult<Vec<ElementPart>> {
    let (proto, port) = match text.split_once(':') {
        Some((p, port)) => (Some(parse_protocol(p, span)?), port),
        None => (None, text),
    };
    let bad = |what: String| {
        Diagnostic::new(what, span)
            .with_help("write PROTOCOL:PORT, e.g. tcp:80 or icmp:3/4")
            .into_err()
    };
    let bitmap = set.kind.storage == SetStorage::Bitmap;
    let proto = if bitmap { None } else { Some(proto.unwrap_or(6)) };
    let name = match proto {
        Some(1 | 58) => {
            let v6 = proto == Some(58);
            if v6 != (set.family == Some(Family::V6)) {
                let (has, wants) = if v6 { ("inet", "icmp") } else { ("inet6", "icmpv6") };
                return Diagnostic::new(format!("{text} in a set of family {has}"), span)
                    .with_help(format!("ipset restore refuses it: write {wants}, or another set"))
                    .into_err();
            }
            let numeric = || {
                let (kind, code) = port.split_once('/')?;
                let kind = strtoul::parse_number_in_range(kind, 0, 255)? as u16;
                Some(kind << 8 | strtoul::parse_number_in_range(code, 0, 255)? as u16)
            };
            return match icmp_names::find_packed_icmp_type_code(port, v6).or_else(numeric) {
                Some(type_and_code) => Ok(vec![ElementPart::ProtoAndPort {
                    proto,
                    port_or_icmp_type_and_code: type_and_code,
                }]),
                None => bad(format!("{port} is not an ICMP type and code")),
            };
        }
        Some(17) => "udp",
        Some(132) => "sctp",
        Some(136) => "udplite",
        Some(6) | None => "tcp",
        Some(_) if port == "0" => {
            return Ok(vec![ElementPart::ProtoAndPort { proto, port_or_icmp_type_and_code: 0 }]);
        }
        Some(_) => return bad(format!("{text}: this protocol has no ports, write 0")),
    };
    let one =
        |p: &str| strtoul::parse_u16(p).or_else(|| system_name_tables::service_port(p, Some(name)));
    let (lo, hi) = match (one(port), port.split_once('-')) {
        (Some(p), _) => (p, p),
        (None, Some((lo, hi))) => match (one(lo), one(hi)) {
            (Some(lo), Some(hi)) => (lo.min(hi), lo.max(hi)),
            _ => return bad(format!("{port} is not a range of ports")),
        },
        _ => return bad(format!("{port} is not a port")),
    };
    for option in &set.options {
        if let SetOption::PortRange(from, to) = option
            && (lo < *from || hi > *to)
        {
            return Diagnostic::new(format!("{port} is outside of the set's range"), span)
                .with_help("widen the range in the create line")
                .into_err();
        }
    }
    Ok((lo..=hi)
        .map(|port| ElementPart::ProtoAndPort { proto, port_or_icmp_type_and_code: port })
        .collect())
}

fn parse_protocol(text: &str, span: Span) -> ParseResult<u8> {
    let found = strtoul::parse_number_in_range(text, 1, 255).map(|n| n as u8).or_else(|| {
        system_name_tables::protocol_number(&text.to_ascii_lowercase()).filter(|n| *n != 0)
    });
    match found {
        Some(n) => Ok(n),
        None => Diagnostic::new(format!("no protocol {text}"), span).into_err(),
    }
}
