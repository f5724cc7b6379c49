//! Sets: the unnamed ones of rules, and named verdict maps.
//!
//! An interval is two elements: its first value, and the value after its last one with a flag. Like
//! nft, the encoder starts a set with an interval end at 0 unless 0 is in the set, and marks an
//! interval without an end, which reaches the highest value. weir writes no map of concatenated
//! intervals; such a map is refused.

use weir_kernel::netlink::attribute::AttributeWriter;
use weir_kernel::netlink::netfilter::NetfilterSubsystem;
use weir_kernel::netlink::{NLM_F_CREATE, NetlinkRequest};
use weir_kernel::nft_protocol::*;
use weir_kernel::nft_socket::{NftElementChange, NftSetPlace, push_element_requests};
use weir_model::Family;
use weir_model::nft::{ElementKeyPart, MapKeyExpression, Verdict, VerdictMap};

use super::expression_list::{put_expression, put_new_counter, put_value, put_verdict};
use super::loaded_value::{DEVICE_NAME_BYTES, LoadedValue, RegisterByteOrder};
use super::userdata::UserdataWriter;

/// The key type of a concatenation consists of the types of its parts, with this many bits each
/// (`TYPE_BITS`).
const CONCATENATED_TYPE_BITS: u32 = 6;
/// The data of a verdict map (`NFT_DATA_VERDICT`).
const NFT_DATA_VERDICT: u32 = 0xffff_ff00;

// User data of a set (`enum nftnl_udata_set_types`).
const NFTNL_UDATA_SET_KEYBYTEORDER: u8 = 0;
const NFTNL_UDATA_SET_DATABYTEORDER: u8 = 1;
const NFTNL_UDATA_SET_MERGE_ELEMENTS: u8 = 2;
const NFTNL_UDATA_SET_KEY_TYPEOF: u8 = 3;
const NFTNL_UDATA_SET_DATA_INTERVAL: u8 = 6;
/// `enum byteorder`.
const fn byte_order_number(byte_order: RegisterByteOrder) -> u32 {
    match byte_order {
        RegisterByteOrder::Host => 1,
        RegisterByteOrder::Network => 2,
    }
}

/// User data of the last element, whose interval has no end (`NFTNL_UDATA_SET_ELEM_FLAGS` with
/// `SET_ELEM_F_INTERVAL_OPEN`).
fn endless_interval_userdata() -> UserdataWriter {
    let mut userdata = UserdataWriter::default();
    userdata.put_number(1, 1);
    userdata
}

/// Intervals of values, both ends included, sorted and disjoint.
pub(super) type ValueIntervals = Vec<(u128, u128)>;

/// Adds an unnamed set of values and its elements.
pub(super) fn push_unnamed_set(
    requests: &mut Vec<NetlinkRequest>,
    place: &NftSetPlace,
    set_id: u32,
    value: &LoadedValue,
    intervals: &[(u128, u128)],
) {
    let has_intervals = intervals.iter().any(|(first, last)| first != last);
    let mut merged = ValueIntervals::new();
    for &(first, last) in intervals {
        match merged.last_mut() {
            Some(before) if has_intervals && before.1 + 1 == first => before.1 = last,
            _ => merged.push((first, last)),
        }
    }
    let mut flags = NFT_SET_ANONYMOUS | NFT_SET_CONSTANT;
    let mut userdata = UserdataWriter::default();
    userdata.put_number(NFTNL_UDATA_SET_KEYBYTEORDER, byte_order_number(value.byte_order));
    if has_intervals {
        flags |= NFT_SET_INTERVAL;
        userdata.put_number(NFTNL_UDATA_SET_MERGE_ELEMENTS, 1);
    }
    value.put_typeof(&mut userdata);
    let begins_later = merged.first().is_some_and(|(first, _)| *first != 0);
    let size =
        if has_intervals { merged.len() * 2 + usize::from(begins_later) } else { merged.len() };
    requests.push(new_set_request(place, set_id, |set| {
        set.put_be32(NFTA_SET_FLAGS, flags);
        set.put_be32(NFTA_SET_KEY_TYPE, value.data_type);
        set.put_be32(NFTA_SET_KEY_LEN, value.len as u32);
        set.put_nested(NFTA_SET_DESC, |desc| desc.put_be32(NFTA_SET_DESC_SIZE, size as u32));
        set.put(NFTA_SET_USERDATA, userdata.bytes());
    }));
    if has_intervals {
        let edges = interval_edges(&merged, max_value(value.len), |_| None::<&Verdict>);
        push_interval_edges(requests, place, set_id, edges, value.len);
    } else {
        let change = NftElementChange::Add;
        let values = merged.iter().map(|(value, _)| *value);
        push_element_requests(requests, change, place, Some(set_id), values, |element, key| {
            put_value(element, NFTA_SET_ELEM_KEY, &value.bytes_of(key));
        });
    }
}

fn new_set_request(
    place: &NftSetPlace,
    set_id: u32,
    fill: impl FnOnce(&mut AttributeWriter),
) -> NetlinkRequest {
    let mut request =
        NetfilterSubsystem::NfTables.new_request(NFT_MSG_NEWSET, NLM_F_CREATE, place.family, 0);
    request.attributes.put_text(NFTA_SET_TABLE, &place.table);
    request.attributes.put_text(NFTA_SET_NAME, &place.set);
    request.attributes.put_be32(NFTA_SET_ID, set_id);
    fill(&mut request.attributes);
    request
}

const fn max_value(len: usize) -> u128 {
    match len {
        16.. => u128::MAX,
        _ => (1 << (len * 8)) - 1,
    }
}

/// An element of a set of intervals.
struct IntervalEdge<'v> {
    key: u128,
    is_end: bool,
    /// Whether the interval that starts here has no end.
    has_no_end: bool,
    verdict: Option<&'v Verdict>,
}

fn interval_edges<'v, I>(
    intervals: &'v [I],
    max: u128,
    verdict: impl Fn(&'v I) -> Option<&'v Verdict> + 'v,
) -> impl Iterator<Item = IntervalEdge<'v>>
where
    I: AsInterval,
{
    let end = |key| IntervalEdge { key, is_end: true, has_no_end: false, verdict: None };
    let starts_later = intervals.first().is_some_and(|interval| interval.as_interval().0 != 0);
    let nothing = starts_later.then(|| end(0));
    let edges = intervals.iter().flat_map(move |interval| {
        let (first, last) = interval.as_interval();
        let has_no_end = last == max;
        let verdict = verdict(interval);
        let start = IntervalEdge { key: first, is_end: false, has_no_end, verdict };
        let end = (!has_no_end).then(|| end(last + 1));
        std::iter::once(start).chain(end)
    });
    nothing.into_iter().chain(edges)
}

/// A value that is or has an interval.
trait AsInterval {
    fn as_interval(&self) -> (u128, u128);
}

impl AsInterval for (u128, u128) {
    fn as_interval(&self) -> (u128, u128) {
        *self
    }
}

impl AsInterval for ((u128, u128), &Verdict) {
    fn as_interval(&self) -> (u128, u128) {
        self.0
    }
}

/// Adds the elements of a set of intervals.
fn push_interval_edges<'v>(
    requests: &mut Vec<NetlinkRequest>,
    place: &NftSetPlace,
    set_id: u32,
    edges: impl Iterator<Item = IntervalEdge<'v>>,
    key_len: usize,
) {
    let change = NftElementChange::Add;
    push_element_requests(requests, change, place, Some(set_id), edges, |element, edge| {
        put_interval_edge(element, &edge, key_len);
    });
}

/// Keys of intervals are compared byte by byte: they are in network byte order.
fn put_interval_edge(element: &mut AttributeWriter, edge: &IntervalEdge<'_>, key_len: usize) {
    put_value(element, NFTA_SET_ELEM_KEY, &edge.key.to_be_bytes()[16 - key_len..]);
    if edge.is_end {
        element.put_be32(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
    }
    if let Some(verdict) = edge.verdict {
        put_verdict(element, NFTA_SET_ELEM_DATA, verdict);
    }
    if edge.has_no_end {
        element.put(NFTA_SET_ELEM_USERDATA, endless_interval_userdata().bytes());
    }
}

/// Adds a verdict map without its elements.
///
/// # Errors
/// If a key cannot be encoded.
pub(super) fn push_map(
    requests: &mut Vec<NetlinkRequest>,
    place: &NftSetPlace,
    set_id: u32,
    map: &VerdictMap,
    family: Family,
) -> Result<(), String> {
    let values = values_of_map_key(&map.key, family);
    let is_concatenated = values.len() > 1;
    let mut flags = NFT_SET_MAP;
    if map.has_intervals {
        flags |= NFT_SET_INTERVAL;
    }
    if map.has_intervals && is_concatenated {
        return Err("a map of concatenated intervals".to_owned());
    }
    let data_type =
        values.iter().fold(0, |types, value| types << CONCATENATED_TYPE_BITS | value.data_type);
    let key_len: usize = match &values[..] {
        [value] => value.len,
        values => values.iter().map(|value| value.len.next_multiple_of(4)).sum(),
    };
    requests.push(new_set_request(place, set_id, |set| {
        set.put_be32(NFTA_SET_FLAGS, flags);
        set.put_be32(NFTA_SET_KEY_TYPE, data_type);
        set.put_be32(NFTA_SET_KEY_LEN, key_len as u32);
        set.put_be32(NFTA_SET_DATA_TYPE, NFT_DATA_VERDICT);
        set.put_nested(NFTA_SET_DESC, |desc| {
            if !map.has_intervals {
                desc.put_be32(NFTA_SET_DESC_SIZE, map.elements.len().max(1) as u32);
            }
        });
        set.put(NFTA_SET_USERDATA, map_userdata(&values).bytes());
        set.put_nested(NFTA_SET_EXPR, |expression| {
            put_expression(expression, "counter", put_new_counter);
        });
    }));
    Ok(())
}

fn map_userdata(values: &[LoadedValue]) -> UserdataWriter {
    const NO_BYTE_ORDER: u32 = 0;
    let mut userdata = UserdataWriter::default();
    match values {
        [value] => {
            userdata.put_number(NFTNL_UDATA_SET_KEYBYTEORDER, byte_order_number(value.byte_order))
        }
        _ => userdata.put_number(NFTNL_UDATA_SET_KEYBYTEORDER, NO_BYTE_ORDER),
    }
    userdata.put_number(NFTNL_UDATA_SET_DATABYTEORDER, NO_BYTE_ORDER);
    if values.len() > 1 {
        // The expression kind of a concatenation, without a description of its parts.
        const NFTNL_UDATA_SET_TYPEOF_EXPR: u8 = 0;
        const NFTNL_UDATA_SET_TYPEOF_DATA: u8 = 1;
        const KIND_CONCATENATION: u32 = 13;
        let mut expression = UserdataWriter::default();
        expression.put_number(NFTNL_UDATA_SET_TYPEOF_EXPR, KIND_CONCATENATION);
        expression.put_nested(NFTNL_UDATA_SET_TYPEOF_DATA, &UserdataWriter::default());
        userdata.put_nested(NFTNL_UDATA_SET_KEY_TYPEOF, &expression);
    }
    userdata.put_number(NFTNL_UDATA_SET_DATA_INTERVAL, 0);
    userdata
}

fn values_of_map_key(key: &[MapKeyExpression], family: Family) -> Vec<LoadedValue> {
    key.iter().map(|part| LoadedValue::of(part.expression, family)).collect()
}

/// Adds the elements of a verdict map. Their chains must exist.
///
/// # Errors
/// If a key cannot be encoded.
pub(super) fn push_map_elements(
    requests: &mut Vec<NetlinkRequest>,
    place: &NftSetPlace,
    set_id: u32,
    map: &VerdictMap,
    family: Family,
) -> Result<(), String> {
    let values = values_of_map_key(&map.key, family);
    if let ([value], true) = (&values[..], map.has_intervals) {
        let mut intervals = Vec::with_capacity(map.elements.len());
        for element in &map.elements {
            let [ElementKeyPart::Span(first, last)] = element.key[..] else {
                return Err("a device name in a map of intervals".to_owned());
            };
            intervals.push(((first, last), &element.verdict));
        }
        intervals.sort_by_key(|(interval, _)| *interval);
        let edges = interval_edges(&intervals, max_value(value.len), |(_, verdict)| Some(*verdict));
        push_interval_edges(requests, place, set_id, edges, value.len);
        return Ok(());
    }
    if map.elements.iter().flat_map(|element| &element.key).any(is_range) {
        return Err("a range in a map without intervals".to_owned());
    }
    let change = NftElementChange::Add;
    push_element_requests(requests, change, place, Some(set_id), &map.elements, |data, element| {
        let mut key = Vec::new();
        for (value, part) in values.iter().zip(&element.key) {
            // The parts of a concatenation are padded to four bytes.
            key.resize(key.len().next_multiple_of(4), 0);
            match part {
                ElementKeyPart::Span(only, _) => key.extend_from_slice(&value.bytes_of(*only)),
                ElementKeyPart::Device(name) => key.extend_from_slice(&device_name_bytes(name)),
            }
        }
        if values.len() > 1 {
            key.resize(key.len().next_multiple_of(4), 0);
        }
        put_value(data, NFTA_SET_ELEM_KEY, &key);
        put_verdict(data, NFTA_SET_ELEM_DATA, &element.verdict);
    });
    Ok(())
}

fn is_range(part: &ElementKeyPart) -> bool {
    matches!(part, ElementKeyPart::Span(first, last) if first != last)
}

/// A device name as the kernel compares it.
pub(super) fn device_name_bytes(name: &str) -> [u8; DEVICE_NAME_BYTES] {
    let mut bytes = [0; DEVICE_NAME_BYTES];
    for (byte, char) in bytes.iter_mut().zip(name.bytes()) {
        *byte = char;
    }
    bytes
}
