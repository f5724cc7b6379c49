//! Sets of nf_tables whose keys are addresses.
//!
//! In the kernel, an interval is two elements: its first address, and the address after its last
//! one with the flag `NFT_SET_ELEM_INTERVAL_END`. The second is absent if the interval ends at the
//! highest address.

use weir_kernel::netlink::attribute::{AttributeWriter, MalformedNetlink, NetlinkAttributes};
use weir_kernel::nft_protocol::*;
use weir_kernel::nft_socket::{NftElementChange, NftSetPlace, NftSocket, push_element_requests};
use weir_model::Family;
use weir_syntax::address_list::AddressRange;

use super::address_set::{AddressSet, AddressSetElements, AddressSetName};
use super::element_diff::{ElementShape, SetElementDiff};
use crate::ApplyError;

/// nft's number of `ipv4_addr` (`TYPE_IPADDR` in nftables include/datatype.h).
const TYPE_IPADDR: u32 = 7;
/// nft's number of `ipv6_addr`.
const TYPE_IP6ADDR: u32 = 8;

pub(super) fn describe_set(
    socket: &mut NftSocket,
    place: &NftSetPlace,
) -> Result<AddressSet, ApplyError> {
    let read = socket.read_set_attributes(place, |attributes| {
        let number = |kind| attributes.find(kind).map_or(Ok(0), |value| value.be32());
        let size = match attributes.find(NFTA_SET_DESC) {
            Some(desc) => {
                let size = desc.nested_attributes()?.find(NFTA_SET_DESC_SIZE);
                size.map(|size| size.be32()).transpose()?
            }
            None => None,
        };
        Ok((number(NFTA_SET_FLAGS)?, number(NFTA_SET_KEY_TYPE)?, size))
    })?;
    let Some((flags, key_type, size)) = read else {
        let family = weir_kernel::nft_objects::nft_family_name(place.family);
        return Err(ApplyError::NoSuchSet {
            set: place.set.clone(),
            cure: format!(
                "list the sets of the table with `nft list table {family} {}`",
                place.table
            ),
        });
    };
    let (family, type_name) = match key_type {
        TYPE_IPADDR => (Family::V4, "ipv4_addr"),
        TYPE_IP6ADDR => (Family::V6, "ipv6_addr"),
        _ => {
            let reason = "its keys are not ipv4_addr or ipv6_addr".to_owned();
            return Err(ApplyError::NotAnAddressSet { set: place.set.clone(), reason });
        }
    };
    if flags & (NFT_SET_MAP | NFT_SET_OBJECT | NFT_SET_ANONYMOUS | NFT_SET_CONSTANT) != 0 {
        let reason = "it is a map, a constant set or an unnamed set".to_owned();
        return Err(ApplyError::NotAnAddressSet { set: place.set.clone(), reason });
    }
    let shape = match flags & NFT_SET_INTERVAL {
        0 => ElementShape::Address,
        _ => ElementShape::Range,
    };
    Ok(AddressSet {
        name: AddressSetName::Nft(place.clone()),
        type_name: type_name.to_owned(),
        family,
        shape,
        capacity: size.map(|size| size as usize),
        bounds: None,
    })
}

/// Elements as the kernel lists them.
#[derive(Default)]
struct ListedNftElements {
    /// Keys, and whether each starts or ends an interval; of equal keys, the end comes first.
    keys: Vec<(u128, IntervalSide)>,
    ranges_with_metadata: Vec<u128>,
    has_catchall: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum IntervalSide {
    End,
    Start,
}

pub(super) fn read_elements(
    socket: &mut NftSocket,
    place: &NftSetPlace,
    set: &AddressSet,
) -> Result<AddressSetElements, ApplyError> {
    let mut listed =
        socket.fold_set_elements(place, ListedNftElements::default, |listed, element| {
            listed.add(element)
        })?;
    if listed.has_catchall {
        let reason = "it has a catch-all element (*)".to_owned();
        return Err(ApplyError::NotAnAddressSet { set: place.set.clone(), reason });
    }
    let mut ranges = Vec::with_capacity(listed.keys.len());
    if set.shape == ElementShape::Address {
        ranges.extend(listed.keys.iter().map(|(key, _)| (*key, *key)));
    } else {
        listed.keys.sort_unstable();
        let mut keys = listed.keys.iter().peekable();
        while let Some((first, edge)) = keys.next() {
            if *edge == IntervalSide::End {
                continue;
            }
            let last = match keys.peek() {
                Some((after, _)) => after - 1,
                None => set.family.max_addr(),
            };
            ranges.push((*first, last));
        }
    }
    listed.ranges_with_metadata.sort_unstable();
    let has_metadata =
        |range: &&AddressRange| listed.ranges_with_metadata.binary_search(&range.0).is_ok();
    let ranges_with_metadata = ranges.iter().filter(has_metadata).copied().collect();
    Ok(AddressSetElements { ranges_with_metadata, ranges, first_nomatch_range: None })
}

/// Whether the user data of an element has a comment: nft also stores flags there, for intervals
/// without an end (`NFTNL_UDATA_SET_ELEM_FLAGS`).
fn has_comment(mut userdata: &[u8]) -> bool {
    const NFTNL_UDATA_SET_ELEM_COMMENT: u8 = 0;
    while let [kind, length, rest @ ..] = userdata {
        if *kind == NFTNL_UDATA_SET_ELEM_COMMENT {
            return true;
        }
        userdata = rest.get(usize::from(*length)..).unwrap_or_default();
    }
    false
}

impl ListedNftElements {
    fn add(&mut self, element: NetlinkAttributes<'_>) -> Result<(), MalformedNetlink> {
        let (mut key, mut flags, mut has_metadata) = (None, 0, false);
        for attribute in element.iter() {
            match attribute.kind {
                NFTA_SET_ELEM_KEY => {
                    let value = attribute.nested_attributes()?.require(NFTA_DATA_VALUE)?.value;
                    key = Some(value.iter().fold(0, |key, byte| key << 8 | u128::from(*byte)));
                }
                NFTA_SET_ELEM_FLAGS => flags = attribute.be32()?,
                NFTA_SET_ELEM_TIMEOUT | NFTA_SET_ELEM_EXPIRATION => has_metadata = true,
                NFTA_SET_ELEM_USERDATA => has_metadata |= has_comment(attribute.value),
                _ => {}
            }
        }
        self.has_catchall |= flags & NFT_SET_ELEM_CATCHALL != 0;
        let Some(key) = key else { return Ok(()) };
        match flags & NFT_SET_ELEM_INTERVAL_END {
            0 => self.keys.push((key, IntervalSide::Start)),
            _ => self.keys.push((key, IntervalSide::End)),
        }
        if has_metadata {
            self.ranges_with_metadata.push(key);
        }
        Ok(())
    }
}

pub(super) fn commit(
    socket: &mut NftSocket,
    place: &NftSetPlace,
    set: &AddressSet,
    plan: &SetElementDiff,
    generation: u32,
) -> Result<(), ApplyError> {
    let mut requests = Vec::new();
    let changes = [(NftElementChange::Delete, &plan.removed), (NftElementChange::Add, &plan.added)];
    for (change, ranges) in changes {
        let edges = ranges.iter().flat_map(|range| interval_edges(set, *range));
        push_element_requests(&mut requests, change, place, None, edges, |attributes, edge| {
            put_interval_edge(attributes, set.family, edge);
        });
    }
    Ok(socket.commit(requests, generation)?)
}

fn interval_edges(
    set: &AddressSet,
    (first, last): AddressRange,
) -> impl Iterator<Item = (u128, IntervalSide)> {
    let has_end = set.shape == ElementShape::Range && last != set.family.max_addr();
    let end = has_end.then(|| (last + 1, IntervalSide::End));
    std::iter::once((first, IntervalSide::Start)).chain(end)
}

fn put_interval_edge(
    attributes: &mut AttributeWriter,
    family: Family,
    (key, edge): (u128, IntervalSide),
) {
    if edge == IntervalSide::End {
        attributes.put_be32(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
    }
    attributes.put_nested(NFTA_SET_ELEM_KEY, |data| match family {
        Family::V4 => data.put_be32(NFTA_DATA_VALUE, key as u32),
        Family::V6 => data.put(NFTA_DATA_VALUE, &key.to_be_bytes()),
    });
}
