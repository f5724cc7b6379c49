//! Tests of a packet's own fields, lowered.

use weir_model::matching::ct_state;
use weir_model::{Field, Packet, Read};

use super::lower::{Compact, TableIndex};
use super::view::{MULTIPORT_DPORT, MULTIPORT_SPORT, View};

/// Whether a test is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Yes,
    No,
    /// The packet is dropped immediately.
    Hotdrop,
    /// It is true, and the packet is dropped after the rule.
    YesAndHotdrop,
}

impl From<bool> for Held {
    fn from(held: bool) -> Self {
        if held { Held::Yes } else { Held::No }
    }
}

/// Whether the conntrack state of a packet is one of the wanted ones.
pub(crate) fn state_holds(packet: &Packet, negated: bool, wanted: u16) -> bool {
    let Read::Value(bits) = Field::CtState.read(packet) else {
        return false;
    };
    debug_assert!(bits < (ct_state::DNAT as u128) << 1);
    (bits & u128::from(wanted) != 0) != negated
}

/// A test of the packet's own fields.
#[inline]
pub(crate) fn field_test(
    table: &TableIndex<'_>,
    test: &Compact,
    view: &View,
    packet: &Packet,
) -> Held {
    let (slot, negated, holds) = match *test {
        Compact::Masked { slot, negated, value, mask } => {
            (slot, negated, view.narrow[slot as usize] & mask == value)
        }
        Compact::Span { slot, negated, lo, hi } => {
            let v = view.narrow[slot as usize];
            (slot, negated, lo <= v && v <= hi)
        }
        Compact::Spans { slot, negated, count, first } => {
            (slot, negated, in_spans(table, first, count, view.narrow[slot as usize]))
        }
        Compact::AnyBit { slot, negated, mask } => {
            (slot, negated, view.narrow[slot as usize] & mask != 0)
        }
        Compact::Present { slot } => (slot, false, true),
        Compact::WideMasked { slot, negated, at } => {
            let (value, mask) = table.wide[at as usize];
            (slot, negated, wide(view, slot) & mask == value)
        }
        Compact::WideSpan { slot, negated, at } => {
            let ((lo, hi), v) = (table.wide[at as usize], wide(view, slot));
            (slot, negated, lo <= v && v <= hi)
        }
        Compact::Other { slot, negated, at } => {
            (slot, negated, table.predicates[at as usize].holds(wide(view, slot)))
        }
        Compact::Device { out, negated, at } => {
            let (name, prefix) = &table.devices[at as usize];
            let device = if out { &packet.oif } else { &packet.iif };
            let holds = match prefix {
                true => device.starts_with(&**name),
                false => **device == **name,
            };
            return Held::from(holds != negated);
        }
        Compact::EitherPort { negated, count, first } => {
            let port = |slot: u8| in_spans(table, first, count, view.narrow[slot as usize]);
            (MULTIPORT_SPORT, negated, port(MULTIPORT_SPORT) || port(MULTIPORT_DPORT))
        }
        Compact::Never
        | Compact::Set { .. }
        | Compact::Conntrack { .. }
        | Compact::Opaque { .. } => return Held::No,
    };
    if view.missing >> slot & 1 != 0 {
        return if view.truncated >> slot & 1 != 0 { Held::Hotdrop } else { Held::No };
    }
    Held::from(holds != negated)
}

fn wide(view: &View, slot: u8) -> u128 {
    const SADDR: u8 = Field::Saddr as u8;
    const DADDR: u8 = Field::Daddr as u8;
    // As `wide_slot` numbers them; the MAC address is the other one.
    view.wide[match slot {
        SADDR => 0,
        DADDR => 1,
        _ => 2,
    }]
}

fn in_spans(table: &TableIndex<'_>, first: u32, count: u16, v: u32) -> bool {
    let first = first as usize;
    table.spans[first..first + count as usize].iter().any(|&(lo, hi)| lo <= v && v <= hi)
}
