//! Decodes sets and elements of the kernel into the model, like the output of `ipset save`.

use std::sync::Arc;

use weir_kernel::ipset_protocol::*;
use weir_kernel::ipset_socket::IpsetIdentity;
use weir_kernel::netlink::attribute::{MalformedNetlink, NetlinkAttribute, NetlinkAttributes};
use weir_model::ipset::{SetDataType, SetKind, SetStorage};
use weir_model::{
    Addr, Counters, Element, ElementPart, Family, IpSet, SetOption, SharedName, Span,
};
use weir_syntax::ipset::parse_ipset_type_name;

use super::ipset_encoder::AF_INET6;

/// A set under construction.
pub(crate) struct DecodedSet {
    set: IpSet,
    elements: Vec<Element>,
}

/// A type or attribute of a set that weir does not know.
pub(crate) struct UnknownIpsetPart {
    pub set: SharedName,
    /// Its type, or the number of the attribute.
    pub attribute: String,
}

/// A decoded part; the inner error is an unknown part, the outer one malformed bytes.
type DecodingResult<T> = Result<Result<T, UnknownIpsetPart>, MalformedNetlink>;

impl DecodedSet {
    /// A set without elements.
    pub(crate) fn from_header(
        identity: &IpsetIdentity,
        attributes: NetlinkAttributes<'_>,
    ) -> DecodingResult<DecodedSet> {
        let name = SharedName::from(&*identity.name);
        let undecoded = |attribute| UnknownIpsetPart { set: name.clone(), attribute };
        let Some(kind) = parse_ipset_type_name(&identity.type_name) else {
            return Ok(Err(undecoded(format!("the type {}", identity.type_name))));
        };
        let has_addresses =
            kind.data_types.iter().any(|t| matches!(t, SetDataType::Ip | SetDataType::Net));
        let family = match identity.address_family {
            _ if !has_addresses => None,
            AF_INET6 => Some(Family::V6),
            _ => Some(Family::V4),
        };
        let options = match decode_set_options(&kind, attributes)? {
            Ok(options) => options,
            Err(attribute) => return Ok(Err(undecoded(format!("attribute {attribute}")))),
        };
        let set = IpSet {
            name,
            kind,
            family,
            options,
            elements: Arc::default(),
            span: Span::NONE,
            leading_comments: Vec::new(),
        };
        Ok(Ok(DecodedSet { set, elements: Vec::new() }))
    }

    pub(crate) fn add_element(&mut self, attributes: NetlinkAttributes<'_>) -> DecodingResult<()> {
        match decode_element(&self.set, attributes)? {
            Ok(element) => self.elements.push(element),
            Err(attribute) => {
                let attribute = format!("attribute {attribute} of an element");
                return Ok(Err(UnknownIpsetPart { set: self.set.name.clone(), attribute }));
            }
        }
        Ok(Ok(()))
    }

    pub(crate) fn into_set(self) -> IpSet {
        IpSet { elements: Arc::new(self.elements), ..self.set }
    }
}

/// The options in the order of a `create` line; the error is the number of an unknown attribute.
fn decode_set_options(
    kind: &SetKind,
    attributes: NetlinkAttributes<'_>,
) -> Result<Result<Vec<SetOption>, u16>, MalformedNetlink> {
    let mut options = Vec::new();
    for attribute in attributes.iter() {
        match attribute.kind {
            IPSET_ATTR_IP => {
                let last = decode_address(attributes.require(IPSET_ATTR_IP_TO)?)?;
                options.push(SetOption::AddrRange(decode_address(attribute)?, last));
            }
            IPSET_ATTR_PORT => {
                let last = attributes.require(IPSET_ATTR_PORT_TO)?.be16()?;
                options.push(SetOption::PortRange(attribute.be16()?, last));
            }
            IPSET_ATTR_HASHSIZE => options.push(SetOption::HashSize(attribute.be32()?)),
            IPSET_ATTR_MAXELEM => options.push(SetOption::MaxElem(attribute.be32()?)),
            IPSET_ATTR_NETMASK => options.push(SetOption::Netmask(attribute.u8()?)),
            IPSET_ATTR_BUCKETSIZE => options.push(SetOption::BucketSize(attribute.u8()?)),
            IPSET_ATTR_INITVAL => options.push(SetOption::InitVal(attribute.be32()?)),
            IPSET_ATTR_SIZE => options.push(SetOption::ListSize(attribute.be32()?)),
            IPSET_ATTR_MARKMASK => options.push(SetOption::MarkMask(attribute.be32()?)),
            IPSET_ATTR_TIMEOUT => {
                options.push(SetOption::DefaultElementTimeout(attribute.be32()?));
            }
            IPSET_ATTR_CADT_FLAGS => {
                let flags = attribute.be32()?;
                let named = [
                    (IPSET_FLAG_WITH_COUNTERS, SetOption::Counters),
                    (IPSET_FLAG_WITH_COMMENT, SetOption::Comment),
                    (IPSET_FLAG_WITH_SKBINFO, SetOption::SkbInfo),
                    (IPSET_FLAG_WITH_FORCEADD, SetOption::ForceAdd),
                ];
                options.extend(named.into_iter().filter(|(bit, _)| flags & bit != 0).map(|n| n.1));
            }
            IPSET_ATTR_IP_TO
            | IPSET_ATTR_PORT_TO
            | IPSET_ATTR_ELEMENTS
            | IPSET_ATTR_REFERENCES
            | IPSET_ATTR_MEMSIZE => {}
            // For example a bit mask as netmask (Linux 6.2).
            unknown => return Ok(Err(unknown)),
        }
    }
    if kind.storage == SetStorage::Hash {
        // `ipset save` omits the default.
        options.retain(|option| *option != SetOption::MarkMask(u32::MAX));
    }
    options.sort_by_key(weir_syntax::ipset::create_line_option_position);
    Ok(Ok(options))
}

pub(crate) fn decode_address(attribute: NetlinkAttribute<'_>) -> Result<Addr, MalformedNetlink> {
    let address = attribute.nested_attributes()?;
    if let Some(v6) = address.find(IPSET_ATTR_IPADDR_IPV6) {
        return Ok(Addr(u128::from_be_bytes(v6.fixed_bytes()?)));
    }
    Ok(Addr(u128::from(address.require(IPSET_ATTR_IPADDR_IPV4)?.be32()?)))
}

/// Attributes of an element by their number.
struct ElementAttributes<'a> {
    by_number: [Option<NetlinkAttribute<'a>>; ELEMENT_ATTRIBUTE_COUNT],
}

/// One more than the largest known number.
const ELEMENT_ATTRIBUTE_COUNT: usize = IPSET_ATTR_SKBQUEUE as usize + 1;
/// Padding that aligns numbers of eight bytes.
const IPSET_ATTR_PAD: u16 = 30;

impl<'a> ElementAttributes<'a> {
    /// The error is the number of an unknown attribute.
    fn index(attributes: NetlinkAttributes<'a>) -> Result<ElementAttributes<'a>, u16> {
        let mut by_number = [None; ELEMENT_ATTRIBUTE_COUNT];
        for attribute in attributes.iter() {
            match by_number.get_mut(usize::from(attribute.kind)) {
                Some(place) => *place = Some(attribute),
                None if attribute.kind == IPSET_ATTR_PAD => {}
                None => return Err(attribute.kind),
            }
        }
        Ok(ElementAttributes { by_number })
    }

    fn find(&self, kind: u16) -> Option<NetlinkAttribute<'a>> {
        self.by_number[usize::from(kind)]
    }

    fn require(&self, kind: u16) -> Result<NetlinkAttribute<'a>, MalformedNetlink> {
        self.find(kind).ok_or(MalformedNetlink::MissingAttribute { kind })
    }
}

fn decode_element(
    set: &IpSet,
    attributes: NetlinkAttributes<'_>,
) -> Result<Result<Element, u16>, MalformedNetlink> {
    let attributes = match ElementAttributes::index(attributes) {
        Ok(attributes) => attributes,
        Err(unknown) => return Ok(Err(unknown)),
    };
    let flags = attributes.find(IPSET_ATTR_CADT_FLAGS).map_or(Ok(0), |flags| flags.be32())?;
    let mut parts = Vec::with_capacity(set.kind.data_types.len());
    let mut has_first_address = false;
    for data_type in &set.kind.data_types {
        let part = match data_type {
            SetDataType::Ip | SetDataType::Net => {
                let second = std::mem::replace(&mut has_first_address, true);
                decode_prefix(set.family.unwrap_or(Family::V4), second, &attributes)?
            }
            SetDataType::Port => ElementPart::ProtoAndPort {
                proto: match set.kind.storage {
                    SetStorage::Bitmap => None,
                    _ => Some(attributes.require(IPSET_ATTR_PROTO)?.u8()?),
                },
                port_or_icmp_type_and_code: attributes.require(IPSET_ATTR_PORT)?.be16()?,
            },
            SetDataType::Mac => match attributes.find(IPSET_ATTR_ETHER) {
                Some(mac) => ElementPart::Mac(mac.fixed_bytes()?),
                // bitmap:ip,mac: the kernel fills it in with the first packet.
                None => continue,
            },
            SetDataType::Mark => ElementPart::Mark(attributes.require(IPSET_ATTR_MARK)?.be32()?),
            SetDataType::Iface => ElementPart::Iface {
                physdev: flags & IPSET_FLAG_PHYSDEV != 0,
                name: attributes.require(IPSET_ATTR_IFACE)?.to_text().into(),
            },
            SetDataType::Set => {
                ElementPart::MemberSet(attributes.require(IPSET_ATTR_NAME)?.to_text().into())
            }
        };
        parts.push(part);
    }
    let number = |kind| attributes.find(kind).map(NetlinkAttribute::be64).transpose();
    let counters = match (number(IPSET_ATTR_PACKETS)?, number(IPSET_ATTR_BYTES)?) {
        (Some(packets), Some(bytes)) => Some(Counters { packets, bytes }),
        _ => None,
    };
    Ok(Ok(Element {
        parts,
        nomatch: flags & IPSET_FLAG_NOMATCH != 0,
        timeout: attributes.find(IPSET_ATTR_TIMEOUT).map(NetlinkAttribute::be32).transpose()?,
        counters,
        comment: attributes.find(IPSET_ATTR_COMMENT).map(NetlinkAttribute::to_text),
        other_words: decode_other_words(flags, &attributes)?,
        span: Span::NONE,
        credited_originals: Default::default(),
    }))
}

fn decode_prefix(
    family: Family,
    is_second: bool,
    attributes: &ElementAttributes<'_>,
) -> Result<ElementPart, MalformedNetlink> {
    let (address, prefix_len) = match is_second {
        false => (IPSET_ATTR_IP, IPSET_ATTR_CIDR),
        true => (IPSET_ATTR_IP2, IPSET_ATTR_CIDR2),
    };
    let len = attributes.find(prefix_len).map(NetlinkAttribute::u8).transpose()?;
    Ok(ElementPart::AddrOrPrefix {
        addr: decode_address(attributes.require(address)?)?,
        len: len.unwrap_or(family.addr_bits() as u8),
    })
}

fn decode_other_words(
    flags: u32,
    attributes: &ElementAttributes<'_>,
) -> Result<Vec<String>, MalformedNetlink> {
    let mut words = Vec::new();
    if flags & IPSET_FLAG_IFACE_WILDCARD != 0 {
        words.push("wildcard".to_owned());
    }
    if let Some(mark_and_mask) = attributes.find(IPSET_ATTR_SKBMARK) {
        let mark_and_mask = mark_and_mask.be64()?;
        let (mark, mask) = ((mark_and_mask >> 32) as u32, mark_and_mask as u32);
        let text =
            if mask == u32::MAX { format!("{mark:#x}") } else { format!("{mark:#x}/{mask:#x}") };
        words.extend(["skbmark".to_owned(), text]);
    }
    if let Some(priority) = attributes.find(IPSET_ATTR_SKBPRIO) {
        let priority = priority.be32()?;
        let text = format!("{:x}:{:x}", priority >> 16, priority & 0xffff);
        words.extend(["skbprio".to_owned(), text]);
    }
    if let Some(queue) = attributes.find(IPSET_ATTR_SKBQUEUE) {
        words.extend(["skbqueue".to_owned(), queue.be16()?.to_string()]);
    }
    Ok(words)
}
