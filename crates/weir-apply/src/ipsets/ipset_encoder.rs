//! Encodes sets and elements of the model as netlink attributes
//! (net/netfilter/ipset/ip_set_hash_*.c, ip_set_bitmap_*.c, ip_set_list_set.c).

use weir_kernel::ipset_protocol::*;
use weir_kernel::ipset_socket::{IpsetIdentity, IpsetSocket};
use weir_kernel::netlink::attribute::AttributeWriter;
use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::{Addr, Element, ElementPart, Family, IpSet, SetOption};
use weir_syntax::ipset::ipset_type_name;

use crate::ApplyError;

/// The latest revision of each type that ipset 7.17 knows: it could not list a set of a later one.
pub(crate) const LATEST_KNOWN_TYPE_REVISIONS: [(&str, u8); 16] = [
    ("bitmap:ip", 3),
    ("bitmap:ip,mac", 3),
    ("bitmap:port", 3),
    ("hash:ip", 6),
    ("hash:ip,mac", 1),
    ("hash:ip,mark", 3),
    ("hash:ip,port", 7),
    ("hash:ip,port,ip", 6),
    ("hash:ip,port,net", 8),
    ("hash:mac", 1),
    ("hash:net", 7),
    ("hash:net,iface", 8),
    ("hash:net,net", 4),
    ("hash:net,port", 8),
    ("hash:net,port,net", 3),
    ("list:set", 3),
];

/// `hash:net`.
pub(crate) fn type_name(set: &IpSet) -> String {
    ipset_type_name(&set.kind)
}

/// The name and type of a set, in the latest revision that the kernel and ipset know.
pub(crate) fn identify_with_latest_known_revision(
    socket: &mut IpsetSocket,
    set: &IpSet,
) -> Result<IpsetIdentity, ApplyError> {
    let type_name = type_name(set);
    let address_family = match set.family {
        Some(Family::V4) => address_family_number(Family::V4),
        Some(Family::V6) => address_family_number(Family::V6),
        None => AF_UNSPEC,
    };
    let kernel = socket.read_type_revisions(&type_name, address_family)?;
    let known = LATEST_KNOWN_TYPE_REVISIONS.iter().find(|(name, _)| *name == type_name);
    let revision = known.map_or(*kernel.start(), |(_, last)| (*last).min(*kernel.end()));
    Ok(IpsetIdentity { name: set.name.to_string(), type_name, revision, address_family })
}

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
pub(super) const AF_INET6: u8 = 10;

const fn address_family_number(family: Family) -> u8 {
    match family {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    }
}

/// Writes the options of a `create` line.
pub(crate) fn put_set_options(data: &mut AttributeWriter, set: &IpSet) {
    let mut flags = 0;
    for option in &set.options {
        match option {
            SetOption::AddrRange(first, last) => {
                put_address(data, IPSET_ATTR_IP, *first, Family::V4);
                put_address(data, IPSET_ATTR_IP_TO, *last, Family::V4);
            }
            SetOption::PortRange(first, last) => {
                data.put_with_network_order_flag(IPSET_ATTR_PORT, &first.to_be_bytes());
                data.put_with_network_order_flag(IPSET_ATTR_PORT_TO, &last.to_be_bytes());
            }
            SetOption::Netmask(len) => data.put(IPSET_ATTR_NETMASK, &[*len]),
            SetOption::HashSize(size) => put_network_order_u32(data, IPSET_ATTR_HASHSIZE, *size),
            SetOption::BucketSize(size) => data.put(IPSET_ATTR_BUCKETSIZE, &[*size]),
            SetOption::InitVal(value) => put_network_order_u32(data, IPSET_ATTR_INITVAL, *value),
            SetOption::MaxElem(count) => put_network_order_u32(data, IPSET_ATTR_MAXELEM, *count),
            SetOption::DefaultElementTimeout(seconds) => {
                put_network_order_u32(data, IPSET_ATTR_TIMEOUT, *seconds);
            }
            SetOption::ListSize(size) => put_network_order_u32(data, IPSET_ATTR_SIZE, *size),
            SetOption::MarkMask(mask) => put_network_order_u32(data, IPSET_ATTR_MARKMASK, *mask),
            SetOption::Counters => flags |= IPSET_FLAG_WITH_COUNTERS,
            SetOption::Comment => flags |= IPSET_FLAG_WITH_COMMENT,
            SetOption::SkbInfo => flags |= IPSET_FLAG_WITH_SKBINFO,
            SetOption::ForceAdd => flags |= IPSET_FLAG_WITH_FORCEADD,
        }
    }
    if flags != 0 {
        put_network_order_u32(data, IPSET_ATTR_CADT_FLAGS, flags);
    }
}

fn put_network_order_u32(data: &mut AttributeWriter, attribute: u16, number: u32) {
    data.put_with_network_order_flag(attribute, &number.to_be_bytes());
}

/// Writes an address as `nla_put_ipaddr4` and `nla_put_ipaddr6` do.
pub(crate) fn put_address(data: &mut AttributeWriter, attribute: u16, addr: Addr, family: Family) {
    data.put_nested(attribute, |address| match family {
        Family::V4 => {
            let bytes = (addr.0 as u32).to_be_bytes();
            address.put_with_network_order_flag(IPSET_ATTR_IPADDR_IPV4, &bytes);
        }
        Family::V6 => {
            address.put_with_network_order_flag(IPSET_ATTR_IPADDR_IPV6, &addr.0.to_be_bytes());
        }
    });
}

/// An element and its set.
#[derive(Clone, Copy)]
pub(crate) struct EncodableElement<'a> {
    pub set: &'a IpSet,
    pub element: &'a Element,
}

/// A word of an element, or a part of another kind than its set has, that [`put_element`] does not
/// know.
pub(crate) fn find_unencodable_word(set: &IpSet, element: &Element) -> Option<String> {
    let types = &set.kind.data_types;
    let has_optional_mac = set.kind.storage == SetStorage::Bitmap && types.len() == 2;
    let part_count = element.parts.len();
    if part_count != types.len() && !(has_optional_mac && part_count == 1) {
        return Some(format!("{part_count} parts"));
    }
    let strange = element.parts.iter().zip(types).find(|(part, data_type)| {
        !matches!(
            (part, data_type),
            (ElementPart::AddrOrPrefix { .. }, SetDataType::Ip | SetDataType::Net)
                | (ElementPart::ProtoAndPort { .. }, SetDataType::Port)
                | (ElementPart::Mac(_), SetDataType::Mac)
                | (ElementPart::Mark(_), SetDataType::Mark)
                | (ElementPart::Iface { .. }, SetDataType::Iface)
                | (ElementPart::MemberSet(_), SetDataType::Set)
        )
    });
    if let Some((part, _)) = strange {
        return Some(format!("the part {part:?}"));
    }
    let mut words = element.other_words.iter();
    while let Some(word) = words.next() {
        let is_known = match word.as_str() {
            "wildcard" => true,
            "skbmark" => words.next().is_some_and(|value| parse_skbmark(value).is_some()),
            "skbprio" => words.next().is_some_and(|value| parse_skbprio(value).is_some()),
            "skbqueue" => words.next().is_some_and(|value| value.parse::<u16>().is_ok()),
            _ => false,
        };
        if !is_known {
            return Some(word.clone());
        }
    }
    None
}

/// `0x5/0xff`: mark in the upper half, mask in the lower.
fn parse_skbmark(text: &str) -> Option<u64> {
    let number = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let (mark, mask) = match text.split_once('/') {
        Some((mark, mask)) => (number(mark)?, number(mask)?),
        None => (number(text)?, u32::MAX),
    };
    Some(u64::from(mark) << 32 | u64::from(mask))
}

/// `1:10`, both hexadecimal.
fn parse_skbprio(text: &str) -> Option<u32> {
    let number = |text: &str| {
        u16::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok().map(u32::from)
    };
    let (major, minor) = text.split_once(':')?;
    Some(number(major)? << 16 | number(minor)?)
}

/// Writes the attributes of an element in which [`find_unencodable_word`] finds nothing.
pub(crate) fn put_element(data: &mut AttributeWriter, encodable: EncodableElement<'_>) {
    let EncodableElement { set, element } = encodable;
    let family = set.family.unwrap_or(Family::V4);
    let mut flags = if element.nomatch { IPSET_FLAG_NOMATCH } else { 0 };
    // The second address of a type has attributes of its own.
    let mut address_attributes =
        [(IPSET_ATTR_IP, IPSET_ATTR_CIDR), (IPSET_ATTR_IP2, IPSET_ATTR_CIDR2)].into_iter();
    for (part, data_type) in element.parts.iter().zip(&set.kind.data_types) {
        match part {
            ElementPart::AddrOrPrefix { addr, len } => {
                let Some((address, prefix_len)) = address_attributes.next() else { continue };
                put_address(data, address, *addr, family);
                if *data_type == SetDataType::Net {
                    data.put(prefix_len, &[*len]);
                }
            }
            ElementPart::ProtoAndPort { proto, port_or_icmp_type_and_code } => {
                data.put_with_network_order_flag(
                    IPSET_ATTR_PORT,
                    &port_or_icmp_type_and_code.to_be_bytes(),
                );
                if let Some(proto) = proto {
                    data.put(IPSET_ATTR_PROTO, &[*proto]);
                }
            }
            ElementPart::Mac(mac) => data.put(IPSET_ATTR_ETHER, mac),
            ElementPart::Mark(mark) => put_network_order_u32(data, IPSET_ATTR_MARK, *mark),
            ElementPart::Iface { physdev, name } => {
                data.put_text(IPSET_ATTR_IFACE, name);
                flags |= if *physdev { IPSET_FLAG_PHYSDEV } else { 0 };
            }
            ElementPart::MemberSet(name) => data.put_text(IPSET_ATTR_NAME, name),
        }
    }
    if let Some(seconds) = element.timeout {
        put_network_order_u32(data, IPSET_ATTR_TIMEOUT, seconds);
    }
    if let Some(counters) = element.counters {
        data.put_with_network_order_flag(IPSET_ATTR_PACKETS, &counters.packets.to_be_bytes());
        data.put_with_network_order_flag(IPSET_ATTR_BYTES, &counters.bytes.to_be_bytes());
    }
    if let Some(comment) = &element.comment {
        data.put_text(IPSET_ATTR_COMMENT, comment);
    }
    flags |= put_other_words(data, element);
    if flags != 0 {
        put_network_order_u32(data, IPSET_ATTR_CADT_FLAGS, flags);
    }
}

/// Writes the `skbinfo` attributes; returns the flags of other words.
fn put_other_words(data: &mut AttributeWriter, element: &Element) -> u32 {
    let mut flags = 0;
    let mut words = element.other_words.iter();
    while let Some(word) = words.next() {
        if word == "wildcard" {
            flags |= IPSET_FLAG_IFACE_WILDCARD;
            continue;
        }
        let value = words.next().map_or("", String::as_str);
        match word.as_str() {
            "skbmark" => {
                let mark = parse_skbmark(value).unwrap_or_default();
                data.put_with_network_order_flag(IPSET_ATTR_SKBMARK, &mark.to_be_bytes());
            }
            "skbprio" => {
                put_network_order_u32(
                    data,
                    IPSET_ATTR_SKBPRIO,
                    parse_skbprio(value).unwrap_or_default(),
                );
            }
            _ => {
                let queue: u16 = value.parse().unwrap_or_default();
                data.put_with_network_order_flag(IPSET_ATTR_SKBQUEUE, &queue.to_be_bytes());
            }
        }
    }
    flags
}
