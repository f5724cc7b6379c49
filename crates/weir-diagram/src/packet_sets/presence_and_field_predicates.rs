//! Presence of a packet's parts, and predicates of one field, as boolean functions of the
//! variables.

use weir_model::field::PORT_PROTOCOLS;
use weir_model::rule_match::ct_state;
use weir_model::{Family, Field};
use weir_partition::IntervalSet;

use crate::bdd::node_store::{DiagramRef, LimitReached, NodeStore};
use crate::packet_sets::variable_layout::{LevelRange, VariableBlock, VariableLayout, ct_code_bit};

/// What a packet has, as booleans that tests share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketPartPresence {
    /// A whole header with ports.
    pub complete_header_with_ports: DiagramRef,
    /// A whole TCP header.
    pub complete_tcp_header: DiagramRef,
    /// A whole ICMP header.
    pub icmp: DiagramRef,
    /// A truncated header, or a TCP fragment that could overwrite it.
    pub unreadable_header: DiagramRef,
    /// The ports as multiport reads them.
    pub multiport_ports: DiagramRef,
    /// A header that is truncated before the ports.
    pub multiport_truncated: DiagramRef,
    /// A conntrack entry.
    pub ct_entry: DiagramRef,
    /// A source MAC address.
    pub source_mac: DiagramRef,
    /// A later fragment.
    pub later_fragment: DiagramRef,
    /// A truncated transport header.
    pub truncated_header: DiagramRef,
}

/// The family's ICMP.
pub(crate) const fn icmp_protocol(family: Family) -> u8 {
    match family {
        Family::V4 => 1,
        Family::V6 => 58,
    }
}

impl PacketPartPresence {
    pub fn new(
        store: &mut NodeStore,
        layout: &VariableLayout,
    ) -> Result<PacketPartPresence, LimitReached> {
        let bit = |store: &mut NodeStore, block| {
            store.make_node(layout.block_levels(block).first, DiagramRef::ZERO, DiagramRef::ONE)
        };
        let later = bit(store, VariableBlock::Field(Field::IsLaterFragment))?;
        let offset_one = bit(store, VariableBlock::FragmentOffsetOne)?;
        let truncated = bit(store, VariableBlock::AnyHeaderTruncation)?;
        let cut_ports = bit(store, VariableBlock::TruncatedWithReadablePorts)?;
        let mac = bit(store, VariableBlock::HasMac)?;
        let ct = layout.field_levels(Field::CtState);
        let entry = store.make_node(
            ct.level_of_bit_from_lowest(ct_code_bit::HAS_ENTRY),
            DiagramRef::ZERO,
            DiagramRef::ONE,
        )?;
        let protocols = layout.field_levels(Field::Proto);
        let first = store.minus(DiagramRef::ONE, later)?;
        let whole = store.minus(first, truncated)?;
        let of = |store: &mut NodeStore, numbers: &[u8]| {
            let spans: Vec<_> = numbers.iter().map(|n| (u128::from(*n), u128::from(*n))).collect();
            let proto = build_span_union_predicate(store, protocols, &spans)?;
            store.and(whole, proto)
        };
        let ports = of(store, &PORT_PROTOCOLS)?;
        let flags = of(store, &[6])?;
        let icmp = of(store, &[icmp_protocol(layout.family)])?;
        let cut = store.and(first, truncated)?;
        let multiport_cut = store.minus(cut, cut_ports)?;
        let some_ports = store.and(cut, cut_ports)?;
        let multiport = store.first_nonzero(ports, some_ports)?;
        // ip6_tables.c counts offsets in bytes: xt_tcpudp.c never sees a 1 there.
        let cut = match layout.family {
            Family::V6 => cut,
            Family::V4 => {
                let tcp = build_span_union_predicate(store, protocols, &[(6, 6)])?;
                let one = store.and(later, offset_one)?;
                let overwrites = store.and(one, tcp)?;
                store.first_nonzero(cut, overwrites)?
            }
        };
        Ok(PacketPartPresence {
            complete_header_with_ports: ports,
            complete_tcp_header: flags,
            icmp,
            unreadable_header: cut,
            multiport_ports: multiport,
            multiport_truncated: multiport_cut,
            ct_entry: entry,
            source_mac: mac,
            later_fragment: later,
            truncated_header: truncated,
        })
    }

    /// Where a field is there, and where asking for it drops the packet.
    pub fn field_presence_and_hotdrop(
        &self,
        field: Field,
        multiport: bool,
    ) -> (DiagramRef, DiagramRef) {
        match field {
            Field::Sport | Field::Dport if multiport => {
                (self.multiport_ports, self.multiport_truncated)
            }
            Field::Sport | Field::Dport => {
                (self.complete_header_with_ports, self.unreadable_header)
            }
            Field::TcpFlags => (self.complete_tcp_header, self.unreadable_header),
            Field::IcmpTypeAndCode => (self.icmp, self.unreadable_header),
            Field::SourceMac => (self.source_mac, DiagramRef::ZERO),
            Field::CtMark => (self.ct_entry, DiagramRef::ZERO),
            _ => (DiagramRef::ONE, DiagramRef::ZERO),
        }
    }
}

/// Values of a block under a mask.
pub(crate) fn build_masked_predicate(
    store: &mut NodeStore,
    levels: LevelRange,
    value: u128,
    mask: u128,
) -> Result<DiagramRef, LimitReached> {
    if value & !mask != 0 {
        return Ok(DiagramRef::ZERO);
    }
    let mut out = DiagramRef::ONE;
    for bit in 0..levels.bit_count {
        if mask >> bit & 1 == 1 {
            let level = levels.level_of_bit_from_lowest(bit);
            out = match value >> bit & 1 {
                1 => store.make_node(level, DiagramRef::ZERO, out)?,
                _ => store.make_node(level, out, DiagramRef::ZERO)?,
            };
        }
    }
    Ok(out)
}

/// Values of a block in one of the spans, in any order. Spans written backwards hold nothing.
pub(crate) fn build_span_union_predicate(
    store: &mut NodeStore,
    levels: LevelRange,
    spans: &[(u128, u128)],
) -> Result<DiagramRef, LimitReached> {
    let set = IntervalSet::from_intervals(spans.iter().copied());
    build_span_subtree(store, levels, levels.bit_count, 0, set.intervals())
}

/// Of the values that begin with `base` and differ in the lowest `bits`, those in the spans.
fn build_span_subtree(
    store: &mut NodeStore,
    levels: LevelRange,
    bits: u32,
    base: u128,
    spans: &[(u128, u128)],
) -> Result<DiagramRef, LimitReached> {
    let end = base | low_bit_mask(bits);
    let first = spans.partition_point(|s| s.1 < base);
    let spans = &spans[first..];
    let spans = &spans[..spans.partition_point(|s| s.0 <= end)];
    match spans {
        [] => Ok(DiagramRef::ZERO),
        [(lo, hi)] if *lo <= base && end <= *hi => Ok(DiagramRef::ONE),
        _ => {
            let bit = bits - 1;
            let low = build_span_subtree(store, levels, bit, base, spans)?;
            let high = build_span_subtree(store, levels, bit, base | 1 << bit, spans)?;
            store.make_node(levels.level_of_bit_from_lowest(bit), low, high)
        }
    }
}

fn low_bit_mask(bits: u32) -> u128 {
    if bits == 128 { u128::MAX } else { (1 << bits) - 1 }
}

/// The codes of a small block for which `holds` says yes.
pub(crate) fn build_small_block_predicate(
    store: &mut NodeStore,
    levels: LevelRange,
    holds: impl Fn(u32) -> bool,
) -> Result<DiagramRef, LimitReached> {
    let spans: Vec<_> =
        (0..1u32 << levels.bit_count).filter(|c| holds(*c)).map(|c| (c.into(), c.into())).collect();
    build_span_union_predicate(store, levels, &spans)
}

/// What conntrack tests see of a code of its block: bits of [`ct_state`].
pub(crate) fn decode_ct_state(code: u32) -> u16 {
    let has = |bit: u32| code >> bit & 1 == 1;
    if !has(ct_code_bit::HAS_ENTRY) {
        return if has(ct_code_bit::STATE_HIGH) { ct_state::UNTRACKED } else { ct_state::INVALID };
    }
    let state = match (has(ct_code_bit::STATE_HIGH), has(ct_code_bit::STATE_LOW)) {
        (false, false) => ct_state::NEW,
        (false, true) => ct_state::RELATED,
        (true, _) => ct_state::ESTABLISHED,
    };
    let snat = if has(ct_code_bit::SNAT) { ct_state::SNAT } else { 0 };
    let dnat = if has(ct_code_bit::DNAT) { ct_state::DNAT } else { 0 };
    state | snat | dnat
}

/// Device names for which `holds` says yes. Codes that are left over mean the last name.
pub(crate) fn build_device_predicate(
    store: &mut NodeStore,
    layout: &VariableLayout,
    field: Field,
    holds: impl Fn(&str) -> bool,
) -> Result<DiagramRef, LimitReached> {
    let names = layout.device_classes.class_example_names();
    let last = names.len() - 1;
    let all_from = |c: usize| (c as u128, if c == last { u128::MAX } else { c as u128 });
    let spans: Vec<_> = (0..=last).filter(|c| holds(&names[*c])).map(all_from).collect();
    build_span_union_predicate(store, layout.field_levels(field), &spans)
}
