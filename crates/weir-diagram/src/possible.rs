//! Packets that can exist: codes that are not redundant, headers that fit the protocol, and lengths
//! that fit the headers.
//!
//! Tests are defined for every combination of bits, so the diagrams of two rulesets may differ
//! where no packet can be. Only the part of a difference within the possible packets counts.

use weir_model::{Family, Field};

use crate::encode::unmodelled_header_bytes;
use crate::layout::{Block, Layout, ct_bit};
use crate::presence::{Presence, codes, icmp_of, masked, spans_in};
use crate::store::{Full, Ref, Store};

/// Packets that there are.
pub(crate) fn possible(store: &mut Store, layout: &Layout) -> Result<Ref, Full> {
    let p = Presence::new(store, layout)?;
    let mut out = Ref::ONE;
    for field in [Field::Iif, Field::Oif] {
        let last = layout.devices.names().len() as u128 - 1;
        let named = spans_in(store, layout.field(field), &[(0, last)])?;
        out = store.and(out, named)?;
    }
    let pkttype = codes(store, layout.field(Field::PktType), |c| c < 3)?;
    out = store.and(out, pkttype)?;
    let state = codes(store, layout.field(Field::CtState), |c| {
        let has = |bit: u32| c >> bit & 1 == 1;
        !has(ct_bit::STATE_LOW) || has(ct_bit::ENTRY) && !has(ct_bit::STATE_HIGH)
    })?;
    out = store.and(out, state)?;
    for (block, within) in [
        (Block::Redirected, Ref::ZERO),
        (Block::OffsetOne, p.later),
        (Block::CutPorts, p.truncated),
    ] {
        let bit = store.node(layout.levels(block).first, Ref::ZERO, Ref::ONE)?;
        let outside = store.minus(bit, within)?;
        out = store.minus(out, outside)?;
    }
    let lengths = lengths(store, layout, &p)?;
    store.and(out, lengths)
}

/// Headers that are there or cut, with the lengths of packets that have them. An IPv4 header has up
/// to 40 bytes of options, and any length up to there is one of a packet. IPv6 fragments carry
/// eight bytes more; whether more fragments follow is not a variable, so a head may be one.
fn lengths(store: &mut Store, layout: &Layout, p: &Presence) -> Result<Ref, Full> {
    let (base, fragment): (u128, u128) = match layout.family {
        Family::V4 => (20, 0),
        Family::V6 => (40, 8),
    };
    let options = if layout.family == Family::V4 { 40 } else { 0 };
    let levels = layout.field(Field::Length);
    let at_least = |store: &mut Store, n: u128| spans_in(store, levels, &[(n, 0xffff)]);
    let long = at_least(store, base + fragment)?;
    let mut out = store.and(p.later, long)?;
    out = store.minus(out, p.truncated)?;
    let first = store.minus(Ref::ONE, p.later)?;
    let whole = store.minus(first, p.truncated)?;
    let icmp = icmp_of(layout.family);
    let mut with_header: Vec<(u8, u128)> =
        vec![(6, 20), (17, 8), (136, 8), (132, 12), (33, 12), (icmp, 8)];
    for proto in [50, 51] {
        let bytes = unmodelled_header_bytes(proto, layout.family);
        with_header.extend((bytes > 0).then_some((proto, bytes as u128)));
    }
    let cut_ports = store.node(layout.levels(Block::CutPorts).first, Ref::ZERO, Ref::ONE)?;
    let mut others = whole;
    for (proto, header) in with_header {
        let proto_is = masked(store, layout.field(Field::Proto), proto.into(), 0xff)?;
        let enough = at_least(store, base + header)?;
        let this = store.and(whole, proto_is)?;
        let this = store.and(this, enough)?;
        out = store.over(out, this)?;
        others = store.minus(others, proto_is)?;
        // A TCP header may also lie about its length.
        let most = if proto == 6 { 0xffff } else { base + options + header - 1 };
        let with_ports = [(base + 4, most), (base + fragment + 4, base + fragment + header - 1)];
        let with_ports = spans_in(store, levels, &with_ports)?;
        let without = [(base, base + options + 3), (base + fragment, base + fragment + 3)];
        let without = spans_in(store, levels, &without)?;
        let length = store.either(cut_ports, with_ports, without)?;
        let cut = store.minus(first, whole)?;
        let cut = store.and(cut, proto_is)?;
        let cut = store.and(cut, length)?;
        out = store.over(out, cut)?;
    }
    let long = at_least(store, base)?;
    let others = store.and(others, long)?;
    store.over(out, others)
}
