//! Presence of a packet's parts, and predicates of one field, as boolean functions of the
//! variables.

use weir_model::matching::ct_state;
use weir_model::{Family, Field};
use weir_partition::IntervalSet;

use crate::layout::{Block, Layout, Levels, ct_bit};
use crate::store::{Full, Ref, Store};

/// What a packet has, as booleans that tests share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Presence {
    /// A whole header with ports.
    pub ports: Ref,
    /// A whole TCP header.
    pub flags: Ref,
    /// A whole ICMP header.
    pub icmp: Ref,
    /// A header that is cut, or a TCP fragment that could overwrite it.
    pub cut: Ref,
    /// The ports as multiport reads them.
    pub multiport: Ref,
    /// A header that is truncated before the ports.
    pub multiport_cut: Ref,
    /// A conntrack entry.
    pub entry: Ref,
    /// A source MAC address.
    pub mac: Ref,
    /// A later fragment.
    pub later: Ref,
    /// A transport header that is cut.
    pub truncated: Ref,
}

/// Protocols whose header begins with two ports.
pub(crate) const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// The family's ICMP.
pub(crate) const fn icmp_of(family: Family) -> u8 {
    match family {
        Family::V4 => 1,
        Family::V6 => 58,
    }
}

impl Presence {
    pub fn new(store: &mut Store, layout: &Layout) -> Result<Presence, Full> {
        let bit =
            |store: &mut Store, block| store.node(layout.levels(block).first, Ref::ZERO, Ref::ONE);
        let later = bit(store, Block::Field(Field::Fragment))?;
        let offset_one = bit(store, Block::OffsetOne)?;
        let truncated = bit(store, Block::Cut)?;
        let cut_ports = bit(store, Block::CutPorts)?;
        let mac = bit(store, Block::HasMac)?;
        let ct = layout.field(Field::CtState);
        let entry = store.node(ct.of_bit(ct_bit::ENTRY), Ref::ZERO, Ref::ONE)?;
        let protocols = layout.field(Field::Proto);
        let first = store.minus(Ref::ONE, later)?;
        let whole = store.minus(first, truncated)?;
        let of = |store: &mut Store, numbers: &[u8]| {
            let spans: Vec<_> = numbers.iter().map(|n| (u128::from(*n), u128::from(*n))).collect();
            let proto = spans_in(store, protocols, &spans)?;
            store.and(whole, proto)
        };
        let ports = of(store, &WITH_PORTS)?;
        let flags = of(store, &[6])?;
        let icmp = of(store, &[icmp_of(layout.family)])?;
        let cut = store.and(first, truncated)?;
        let multiport_cut = store.minus(cut, cut_ports)?;
        let some_ports = store.and(cut, cut_ports)?;
        let multiport = store.over(ports, some_ports)?;
        // ip6_tables.c counts offsets in bytes: xt_tcpudp.c never sees a 1 there.
        let cut = match layout.family {
            Family::V6 => cut,
            Family::V4 => {
                let tcp = spans_in(store, protocols, &[(6, 6)])?;
                let one = store.and(later, offset_one)?;
                let overwrites = store.and(one, tcp)?;
                store.over(cut, overwrites)?
            }
        };
        Ok(Presence {
            ports,
            flags,
            icmp,
            cut,
            multiport,
            multiport_cut,
            entry,
            mac,
            later,
            truncated,
        })
    }

    /// Where a field is there, and where asking for it drops the packet.
    pub fn of(&self, field: Field, multiport: bool) -> (Ref, Ref) {
        match field {
            Field::Sport | Field::Dport if multiport => (self.multiport, self.multiport_cut),
            Field::Sport | Field::Dport => (self.ports, self.cut),
            Field::TcpFlags => (self.flags, self.cut),
            Field::Icmp => (self.icmp, self.cut),
            Field::SourceMac => (self.mac, Ref::ZERO),
            Field::CtMark => (self.entry, Ref::ZERO),
            _ => (Ref::ONE, Ref::ZERO),
        }
    }
}

/// Values of a block under a mask.
pub(crate) fn masked(
    store: &mut Store,
    levels: Levels,
    value: u128,
    mask: u128,
) -> Result<Ref, Full> {
    if value & !mask != 0 {
        return Ok(Ref::ZERO);
    }
    let mut out = Ref::ONE;
    for bit in 0..levels.bits {
        if mask >> bit & 1 == 1 {
            let level = levels.of_bit(bit);
            out = match value >> bit & 1 {
                1 => store.node(level, Ref::ZERO, out)?,
                _ => store.node(level, out, Ref::ZERO)?,
            };
        }
    }
    Ok(out)
}

/// Values of a block in one of the spans, in any order. Spans written backwards hold nothing.
pub(crate) fn spans_in(
    store: &mut Store,
    levels: Levels,
    spans: &[(u128, u128)],
) -> Result<Ref, Full> {
    let set = IntervalSet::of(spans.iter().copied());
    span_tree(store, levels, levels.bits, 0, set.intervals())
}

/// Of the values that begin with `base` and differ in the lowest `bits`, those in the spans.
fn span_tree(
    store: &mut Store,
    levels: Levels,
    bits: u32,
    base: u128,
    spans: &[(u128, u128)],
) -> Result<Ref, Full> {
    let end = base | low_bits(bits);
    let first = spans.partition_point(|s| s.1 < base);
    let spans = &spans[first..];
    let spans = &spans[..spans.partition_point(|s| s.0 <= end)];
    match spans {
        [] => Ok(Ref::ZERO),
        [(lo, hi)] if *lo <= base && end <= *hi => Ok(Ref::ONE),
        _ => {
            let bit = bits - 1;
            let low = span_tree(store, levels, bit, base, spans)?;
            let high = span_tree(store, levels, bit, base | 1 << bit, spans)?;
            store.node(levels.of_bit(bit), low, high)
        }
    }
}

fn low_bits(bits: u32) -> u128 {
    if bits == 128 { u128::MAX } else { (1 << bits) - 1 }
}

/// The codes of a small block for which `holds` says yes.
pub(crate) fn codes(
    store: &mut Store,
    levels: Levels,
    holds: impl Fn(u32) -> bool,
) -> Result<Ref, Full> {
    let spans: Vec<_> =
        (0..1u32 << levels.bits).filter(|c| holds(*c)).map(|c| (c.into(), c.into())).collect();
    spans_in(store, levels, &spans)
}

/// What conntrack tests see of a code of its block: bits of [`ct_state`].
pub(crate) fn ct_bits_of(code: u32) -> u16 {
    let has = |bit: u32| code >> bit & 1 == 1;
    if !has(ct_bit::ENTRY) {
        return if has(ct_bit::STATE_HIGH) { ct_state::UNTRACKED } else { ct_state::INVALID };
    }
    let state = match (has(ct_bit::STATE_HIGH), has(ct_bit::STATE_LOW)) {
        (false, false) => ct_state::NEW,
        (false, true) => ct_state::RELATED,
        (true, _) => ct_state::ESTABLISHED,
    };
    let snat = if has(ct_bit::SNAT) { ct_state::SNAT } else { 0 };
    let dnat = if has(ct_bit::DNAT) { ct_state::DNAT } else { 0 };
    state | snat | dnat
}

/// Device names for which `holds` says yes. Codes that are left over mean the last name.
pub(crate) fn devices(
    store: &mut Store,
    layout: &Layout,
    field: Field,
    holds: impl Fn(&str) -> bool,
) -> Result<Ref, Full> {
    let names = layout.devices.names();
    let last = names.len() - 1;
    let all_from = |c: usize| (c as u128, if c == last { u128::MAX } else { c as u128 });
    let spans: Vec<_> = (0..=last).filter(|c| holds(&names[*c])).map(all_from).collect();
    spans_in(store, layout.field(field), &spans)
}
