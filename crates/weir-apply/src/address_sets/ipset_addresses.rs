//! Sets of ipset whose elements are single addresses or prefixes.

use weir_kernel::ipset_error::IpsetError;
use weir_kernel::ipset_protocol::*;
use weir_kernel::ipset_socket::{ElementChange, IpsetIdentity, IpsetListingItem, IpsetSocket};
use weir_kernel::netlink::attribute::{AttributeWriter, MalformedNetlink, NetlinkAttributes};
use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::{Addr, Family, SetOption};
use weir_syntax::address_list::AddressRange;

use super::address_ranges::prefix_len_of_range;
use super::address_set::{AddressSet, AddressSetElements, AddressSetName};
use super::element_diff::{ElementShape, SetElementDiff};
use crate::ApplyError;
use crate::ipsets::ipset_decoder::{DecodedSet, decode_address};
use crate::ipsets::ipset_encoder::put_address;

/// Shortest prefix of a set: the kernel refuses length 0.
const MIN_PREFIX_LEN: u32 = 1;

pub(super) fn describe_set(socket: &mut IpsetSocket, name: &str) -> Result<AddressSet, ApplyError> {
    let header = socket.fold_set_headers(
        Some(name),
        || None,
        |found: &mut Option<DecodedIpsetHeader>, part| {
            if let IpsetListingItem::Header(identity, attributes) = part {
                *found = Some(DecodedIpsetHeader::decode(identity, attributes)?);
            }
            Ok(())
        },
    );
    let header = match header {
        Err(error) if error.is_missing_set() => None,
        found => found?,
    };
    let missing = || ApplyError::NoSuchSet {
        set: name.to_owned(),
        cure: format!(
            "create it, e.g. with `ipset create {name} hash:net maxelem 1048576`, or give family \
             and table with --nft"
        ),
    };
    let header = header.ok_or_else(missing)?;
    header.into_address_set()
}

/// The header of a set, as listed by the kernel.
struct DecodedIpsetHeader {
    identity: IpsetIdentity,
    /// `None` if weir does not know its type or an attribute of it.
    decoded: Option<weir_model::IpSet>,
}

impl DecodedIpsetHeader {
    fn decode(
        identity: IpsetIdentity,
        attributes: NetlinkAttributes<'_>,
    ) -> Result<DecodedIpsetHeader, MalformedNetlink> {
        let decoded = DecodedSet::from_header(&identity, attributes)?;
        Ok(DecodedIpsetHeader { decoded: decoded.ok().map(DecodedSet::into_set), identity })
    }

    fn into_address_set(self) -> Result<AddressSet, ApplyError> {
        let IpsetIdentity { name, type_name, .. } = self.identity;
        let unmanaged = |reason: &str| ApplyError::NotAnAddressSet {
            set: name.clone(),
            reason: format!("{type_name}{reason}"),
        };
        let set =
            self.decoded.ok_or_else(|| unmanaged(" has an option that weir does not know"))?;
        let shape = match set.kind.data_types[..] {
            [SetDataType::Ip] => ElementShape::Address,
            [SetDataType::Net] => ElementShape::Prefix { min_prefix_len: MIN_PREFIX_LEN },
            _ => return Err(unmanaged(" has elements other than addresses or prefixes")),
        };
        let mut bounds = None;
        for option in &set.options {
            match option {
                SetOption::Netmask(_) => return Err(unmanaged(" with a netmask")),
                SetOption::AddrRange(first, last) => bounds = Some((first.0, last.0)),
                _ => {}
            }
        }
        let is_hash = set.kind.storage == SetStorage::Hash;
        let capacity = is_hash.then(|| set.maxelem_or_default());
        Ok(AddressSet {
            family: set.family.unwrap_or(Family::V4),
            name: AddressSetName::Ipset(name),
            type_name,
            shape,
            capacity,
            bounds,
        })
    }
}

pub(super) fn read_elements(
    socket: &mut IpsetSocket,
    name: &str,
    family: Family,
) -> Result<AddressSetElements, ApplyError> {
    let elements =
        socket.fold_sets(Some(name), AddressSetElements::default, |elements, part| match part {
            IpsetListingItem::Header(..) => Ok(()),
            IpsetListingItem::Element(attributes) => {
                add_listed_element(elements, attributes, family)
            }
        })?;
    Ok(elements)
}

fn add_listed_element(
    elements: &mut AddressSetElements,
    attributes: NetlinkAttributes<'_>,
    family: Family,
) -> Result<(), MalformedNetlink> {
    let (mut addr, mut len, mut has_metadata) = (None, family.addr_bits(), false);
    let mut is_nomatch = false;
    for attribute in attributes.iter() {
        match attribute.kind {
            IPSET_ATTR_IP => addr = Some(decode_address(attribute)?.0),
            IPSET_ATTR_CIDR => len = u32::from(attribute.u8()?),
            IPSET_ATTR_TIMEOUT => has_metadata |= attribute.be32()? != 0,
            IPSET_ATTR_CADT_FLAGS => is_nomatch = attribute.be32()? & IPSET_FLAG_NOMATCH != 0,
            IPSET_ATTR_COMMENT | IPSET_ATTR_SKBMARK | IPSET_ATTR_SKBPRIO | IPSET_ATTR_SKBQUEUE => {
                has_metadata = true;
            }
            _ => {}
        }
    }
    let addr = addr.ok_or(MalformedNetlink::MissingAttribute { kind: IPSET_ATTR_IP })?;
    let host_bits = !family.netmask(len.min(family.addr_bits())) & family.max_addr();
    let range = (addr & !host_bits, addr | host_bits);
    elements.ranges.push(range);
    if has_metadata {
        elements.ranges_with_metadata.push(range);
    }
    if is_nomatch {
        elements.first_nomatch_range.get_or_insert(range);
    }
    Ok(())
}

/// Changes the elements. They are added first if there is room for the old and the new ones.
pub(super) fn commit(
    socket: &mut IpsetSocket,
    set: &AddressSet,
    plan: &SetElementDiff,
    present_element_count: usize,
) -> Result<(), ApplyError> {
    let has_room =
        set.capacity.is_none_or(|capacity| present_element_count + plan.added.len() <= capacity);
    // Because of other programs and timeouts, elements to add may exist, and elements to delete may
    // not.
    let add = (ElementChange::AddOrReplace, &plan.added[..]);
    let delete = (ElementChange::DeleteIfPresent, &plan.removed[..]);
    let steps = if has_room { [add, delete] } else { [delete, add] };
    for (step_index, (change, ranges)) in steps.into_iter().enumerate() {
        let Err(error) = change_elements(socket, set, change, ranges) else { continue };
        let done = match &error {
            IpsetError::Refused { element_index: Some(index), .. } => *index,
            _ => 0,
        };
        undo_element_changes(socket, set, &steps[..step_index], (change, &ranges[..done]));
        return Err(match (ranges.get(done), error) {
            (Some(range), error @ IpsetError::Refused { .. }) => ApplyError::SetElement {
                element: set.display_range(*range),
                span: weir_model::Span::NONE,
                source: Box::new(error),
            },
            (_, error) => error.into(),
        });
    }
    Ok(())
}

/// Undoes complete steps and a part of one. Errors are ignored: the caller reports the error that
/// made this necessary.
fn undo_element_changes(
    socket: &mut IpsetSocket,
    set: &AddressSet,
    whole_steps: &[(ElementChange, &[AddressRange])],
    partial_step: (ElementChange, &[AddressRange]),
) {
    for (change, ranges) in std::iter::once(&partial_step).chain(whole_steps) {
        let opposite = match change {
            ElementChange::Delete | ElementChange::DeleteIfPresent => ElementChange::AddOrReplace,
            ElementChange::Add | ElementChange::AddOrReplace => ElementChange::DeleteIfPresent,
        };
        let _ = change_elements(socket, set, opposite, ranges);
    }
}

fn change_elements(
    socket: &mut IpsetSocket,
    set: &AddressSet,
    change: ElementChange,
    ranges: &[AddressRange],
) -> Result<(), IpsetError> {
    let name = set.name.set_name();
    socket.change_elements(change, name, &set.type_name, ranges, |data, range| {
        put_address_or_prefix_element(data, set, *range);
    })
}

fn put_address_or_prefix_element(
    data: &mut AttributeWriter,
    set: &AddressSet,
    range: AddressRange,
) {
    put_address(data, IPSET_ATTR_IP, Addr(range.0), set.family);
    if matches!(set.shape, ElementShape::Prefix { .. })
        && let Some(len) = prefix_len_of_range(range, set.family)
    {
        data.put(IPSET_ATTR_CIDR, &[len as u8]);
    }
}
