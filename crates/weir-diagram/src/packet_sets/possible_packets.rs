//! Packets that can exist: codes that are not redundant, headers that fit the protocol, and lengths
//! that fit the headers.
//!
//! Tests are defined for every combination of bits, so the diagrams of two rulesets may differ
//! where no packet can be. Only the part of a difference within the possible packets counts.

use weir_model::{Family, Field};

use crate::bdd::node_store::{DiagramRef, LimitReached, NodeStore};
use crate::packet_sets::packet_bit_codec::count_esp_or_ah_header_bytes;
use crate::packet_sets::presence_and_field_predicates::{
    PacketPartPresence, build_masked_predicate, build_small_block_predicate,
    build_span_union_predicate, icmp_protocol,
};
use crate::packet_sets::variable_layout::{VariableBlock, VariableLayout, ct_code_bit};

/// Packets that there are.
pub(crate) fn build_packets_possible_anywhere(
    store: &mut NodeStore,
    layout: &VariableLayout,
) -> Result<DiagramRef, LimitReached> {
    let p = PacketPartPresence::new(store, layout)?;
    let mut out = DiagramRef::ONE;
    for field in [Field::Iif, Field::Oif] {
        let last = layout.device_classes.class_example_names().len() as u128 - 1;
        let named = build_span_union_predicate(store, layout.field_levels(field), &[(0, last)])?;
        out = store.and(out, named)?;
    }
    let pkttype =
        build_small_block_predicate(store, layout.field_levels(Field::PktType), |c| c < 3)?;
    out = store.and(out, pkttype)?;
    let state = build_small_block_predicate(store, layout.field_levels(Field::CtState), |c| {
        let has = |bit: u32| c >> bit & 1 == 1;
        !has(ct_code_bit::STATE_LOW) || has(ct_code_bit::HAS_ENTRY) && !has(ct_code_bit::STATE_HIGH)
    })?;
    out = store.and(out, state)?;
    for (block, within) in [
        (VariableBlock::Redirected, DiagramRef::ZERO),
        (VariableBlock::FragmentOffsetOne, p.later_fragment),
        (VariableBlock::TruncatedWithReadablePorts, p.truncated_header),
    ] {
        let bit =
            store.make_node(layout.block_levels(block).first, DiagramRef::ZERO, DiagramRef::ONE)?;
        let outside = store.minus(bit, within)?;
        out = store.minus(out, outside)?;
    }
    let lengths = build_possible_lengths(store, layout, &p)?;
    store.and(out, lengths)
}

/// Headers that are there or cut, with the lengths of packets that have them. An IPv4 header has up
/// to 40 bytes of options, and any length up to there is one of a packet. IPv6 fragments carry
/// eight bytes more; whether more fragments follow is not a variable, so a head may be one.
fn build_possible_lengths(
    store: &mut NodeStore,
    layout: &VariableLayout,
    p: &PacketPartPresence,
) -> Result<DiagramRef, LimitReached> {
    let (base, fragment): (u128, u128) = match layout.family {
        Family::V4 => (20, 0),
        Family::V6 => (40, 8),
    };
    let options = if layout.family == Family::V4 { 40 } else { 0 };
    let levels = layout.field_levels(Field::Length);
    let at_least =
        |store: &mut NodeStore, n: u128| build_span_union_predicate(store, levels, &[(n, 0xffff)]);
    let long = at_least(store, base + fragment)?;
    let mut out = store.and(p.later_fragment, long)?;
    out = store.minus(out, p.truncated_header)?;
    let first = store.minus(DiagramRef::ONE, p.later_fragment)?;
    let whole = store.minus(first, p.truncated_header)?;
    let icmp = icmp_protocol(layout.family);
    let mut with_header: Vec<(u8, u128)> =
        vec![(6, 20), (17, 8), (136, 8), (132, 12), (33, 12), (icmp, 8)];
    for proto in [50, 51] {
        let bytes = count_esp_or_ah_header_bytes(proto, layout.family);
        with_header.extend((bytes > 0).then_some((proto, bytes as u128)));
    }
    let cut_ports = store.make_node(
        layout.block_levels(VariableBlock::TruncatedWithReadablePorts).first,
        DiagramRef::ZERO,
        DiagramRef::ONE,
    )?;
    let mut others = whole;
    for (proto, header) in with_header {
        let proto_is =
            build_masked_predicate(store, layout.field_levels(Field::Proto), proto.into(), 0xff)?;
        let enough = at_least(store, base + header)?;
        let this = store.and(whole, proto_is)?;
        let this = store.and(this, enough)?;
        out = store.first_nonzero(out, this)?;
        others = store.minus(others, proto_is)?;
        // A TCP header may also lie about its length.
        let most = if proto == 6 { 0xffff } else { base + options + header - 1 };
        let with_ports = [(base + 4, most), (base + fragment + 4, base + fragment + header - 1)];
        let with_ports = build_span_union_predicate(store, levels, &with_ports)?;
        let without = [(base, base + options + 3), (base + fragment, base + fragment + 3)];
        let without = build_span_union_predicate(store, levels, &without)?;
        let length = store.ite(cut_ports, with_ports, without)?;
        let cut = store.minus(first, whole)?;
        let cut = store.and(cut, proto_is)?;
        let cut = store.and(cut, length)?;
        out = store.first_nonzero(out, cut)?;
    }
    let long = at_least(store, base)?;
    let others = store.and(others, long)?;
    store.first_nonzero(out, others)
}
