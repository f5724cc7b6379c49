//! The bits of a packet that a set tests, and the terminals of its membership diagram.

use weir_model::{Element, Family, Field, IpSet, SetOption};

use crate::bdd::node_store::DiagramRef;

/// In the set; the terminal 0 is *not in it*.
pub(crate) const MEMBER_LEAF: DiagramRef = DiagramRef::leaf(1);
/// Under an exception.
pub(crate) const NOMATCH_LEAF: DiagramRef = DiagramRef::leaf(2);

/// What an element means for the packets in it.
pub(crate) const fn select_element_terminal(element: &Element) -> DiagramRef {
    if element.nomatch { NOMATCH_LEAF } else { MEMBER_LEAF }
}

/// The address that a direction of `-m set` tests.
pub(crate) const fn select_address_field(src: bool) -> Field {
    if src { Field::Saddr } else { Field::Daddr }
}

/// Bits of an address that the set tests.
pub(crate) fn find_ipset_netmask(set: &IpSet, family: Family) -> u128 {
    let netmask = set.options.iter().find_map(|o| match o {
        SetOption::Netmask(len) => Some(family.netmask((*len).into())),
        _ => None,
    });
    netmask.unwrap_or(family.max_addr())
}

/// Bits of a mark that the set tests.
pub(crate) fn find_ipset_mark_mask(set: &IpSet) -> u128 {
    let mask = set.options.iter().find_map(|o| match o {
        SetOption::MarkMask(mask) => Some(*mask),
        _ => None,
    });
    mask.unwrap_or(u32::MAX).into()
}
