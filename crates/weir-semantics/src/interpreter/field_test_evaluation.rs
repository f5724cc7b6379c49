//! Tests of a packet's own fields, lowered.

use weir_model::rule_match::ct_state;
use weir_model::{Field, FieldReading, Packet};

use super::packet_view::{
    MULTIPORT_DPORT_SLOT, MULTIPORT_SPORT_SLOT, PacketView, read_address_or_mac_value,
};
use super::rule_lowering::{CompactTest, LoweredTable};

/// Whether a test is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SingleTestResult {
    Holds,
    Fails,
    /// The packet is dropped immediately.
    Hotdrop,
    /// It is true, and the packet is dropped after the rule.
    HoldsThenDropsAfterRule,
}

impl From<bool> for SingleTestResult {
    fn from(held: bool) -> Self {
        if held { SingleTestResult::Holds } else { SingleTestResult::Fails }
    }
}

/// Whether the conntrack state of a packet is one of the wanted ones.
pub(crate) fn ct_state_matches(packet: &Packet, negated: bool, wanted: u16) -> bool {
    let FieldReading::Value(bits) = Field::CtState.read(packet) else {
        return false;
    };
    debug_assert!(bits < (ct_state::DNAT as u128) << 1);
    (bits & u128::from(wanted) != 0) != negated
}

/// A test of the packet's own fields.
#[inline]
pub(crate) fn evaluate_field_test(
    table: &LoweredTable<'_>,
    test: &CompactTest,
    view: &PacketView,
    packet: &Packet,
) -> SingleTestResult {
    let (slot, negated, holds) = match *test {
        CompactTest::Masked { slot, negated, value, mask } => {
            (slot, negated, view.narrow_values[slot as usize] & mask == value)
        }
        CompactTest::Span { slot, negated, lo, hi } => {
            let v = view.narrow_values[slot as usize];
            (slot, negated, lo <= v && v <= hi)
        }
        CompactTest::Spans { slot, negated, count, first } => (
            slot,
            negated,
            is_value_in_spans(table, first, count, view.narrow_values[slot as usize]),
        ),
        CompactTest::AnyBit { slot, negated, mask } => {
            (slot, negated, view.narrow_values[slot as usize] & mask != 0)
        }
        CompactTest::FieldPresent { slot } => (slot, false, true),
        CompactTest::WideMasked { slot, negated, at } => {
            let (value, mask) = table.wide_pairs[at as usize];
            (slot, negated, read_address_or_mac_value(view, slot) & mask == value)
        }
        CompactTest::WideSpan { slot, negated, at } => {
            let ((lo, hi), v) =
                (table.wide_pairs[at as usize], read_address_or_mac_value(view, slot));
            (slot, negated, lo <= v && v <= hi)
        }
        CompactTest::WidePredicate { slot, negated, at } => (
            slot,
            negated,
            table.predicates[at as usize].holds_for_value(read_address_or_mac_value(view, slot)),
        ),
        CompactTest::Device { out, negated, at } => {
            let (name, prefix) = &table.devices[at as usize];
            let device = if out { &packet.oif } else { &packet.iif };
            let holds = match prefix {
                true => device.starts_with(&**name),
                false => **device == **name,
            };
            return SingleTestResult::from(holds != negated);
        }
        CompactTest::EitherPort { negated, count, first } => {
            let port = |slot: u8| {
                is_value_in_spans(table, first, count, view.narrow_values[slot as usize])
            };
            (
                MULTIPORT_SPORT_SLOT,
                negated,
                port(MULTIPORT_SPORT_SLOT) || port(MULTIPORT_DPORT_SLOT),
            )
        }
        CompactTest::NeverMatches
        | CompactTest::SetLookup { .. }
        | CompactTest::ConntrackBeyondState { .. }
        | CompactTest::Opaque { .. } => return SingleTestResult::Fails,
    };
    if view.missing_slots >> slot & 1 != 0 {
        return if view.truncated_slots >> slot & 1 != 0 {
            SingleTestResult::Hotdrop
        } else {
            SingleTestResult::Fails
        };
    }
    SingleTestResult::from(holds != negated)
}

fn is_value_in_spans(table: &LoweredTable<'_>, first: u32, count: u16, v: u32) -> bool {
    let first = first as usize;
    table.spans[first..first + count as usize].iter().any(|&(lo, hi)| lo <= v && v <= hi)
}
