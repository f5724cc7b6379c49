//! Address prefixes.

use std::fmt;

use weir_model::{Addr, AddrMatch, Family};

/// An address prefix; its owner knows the family.
///
/// Ordered by address, the wider first: a prefix is before everything inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// Lowest address.
    pub addr: u128,
    /// Length in bits.
    pub len: u32,
}

impl Prefix {
    /// The prefix of all addresses.
    pub const ALL: Prefix = Prefix { addr: 0, len: 0 };

    /// The prefix of that length that contains the address.
    ///
    /// ```
    /// use weir_partition::Prefix;
    /// use weir_model::Family;
    /// let p = Prefix::containing_addr(Family::V4, 0xc000_02ff, 24);
    /// assert_eq!(p.addr, 0xc000_0200);
    /// ```
    pub const fn containing_addr(family: Family, addr: u128, len: u32) -> Prefix {
        Prefix { addr: addr & family.netmask(len), len }
    }

    /// The prefix that a match names; `None` if it is negated or its mask has holes.
    pub fn from_match(family: Family, m: &AddrMatch) -> Option<Prefix> {
        if m.negated {
            return None;
        }
        let len = family.prefix_len_of_mask(m.mask.0)?;
        Some(Prefix { addr: m.addr.0, len })
    }

    /// The match that names the prefix.
    pub fn to_match(self, family: Family) -> AddrMatch {
        AddrMatch { negated: false, addr: Addr(self.addr), mask: Addr(family.netmask(self.len)) }
    }

    /// Whether every address of `other` is in this prefix.
    pub const fn covers(self, family: Family, other: Prefix) -> bool {
        self.len <= other.len && other.addr & family.netmask(self.len) == self.addr
    }

    /// Whether the two share an address: one covers the other.
    pub const fn overlaps(self, family: Family, other: Prefix) -> bool {
        self.covers(family, other) || other.covers(family, self)
    }

    /// The longest prefix that covers both.
    pub fn longest_common(self, family: Family, other: Prefix) -> Prefix {
        let differing = self.addr ^ other.addr;
        let above = 128 - family.addr_bits();
        let equal = (differing << above).leading_zeros().min(family.addr_bits());
        Prefix::containing_addr(family, self.addr, equal.min(self.len).min(other.len))
    }

    /// The highest address.
    pub const fn last_addr(self, family: Family) -> u128 {
        self.addr | (family.max_addr() & !family.netmask(self.len))
    }

    /// Text as the kernel's tools print it: `192.0.2.0/24`.
    pub fn display(self, family: Family) -> impl fmt::Display {
        format!("{}/{}", Addr(self.addr).display(family), self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Family = Family::V4;

    #[test]
    fn a_prefix_covers_only_prefixes_inside_it() {
        let wide = Prefix::containing_addr(V4, 0x0a00_0000, 8);
        let inside = Prefix::containing_addr(V4, 0x0a0b_0000, 16);
        let outside = Prefix::containing_addr(V4, 0x0b00_0000, 16);
        assert!(wide.covers(V4, inside) && wide.covers(V4, wide));
        assert!(!wide.covers(V4, outside) && !inside.covers(V4, wide));
        assert!(inside.overlaps(V4, wide) && !inside.overlaps(V4, outside));
    }

    #[test]
    fn the_common_prefix_is_the_longest() {
        let a = Prefix::containing_addr(V4, 0x0a00_0001, 32);
        let b = Prefix::containing_addr(V4, 0x0a00_0002, 32);
        assert_eq!(a.longest_common(V4, b), Prefix::containing_addr(V4, 0x0a00_0000, 30));
        assert_eq!(a.longest_common(V4, a), a);
        let v6 = Prefix::containing_addr(Family::V6, 1, 128);
        assert_eq!(
            v6.longest_common(Family::V6, Prefix::containing_addr(Family::V6, 1 << 127, 1)),
            Prefix::ALL
        );
    }

    #[test]
    fn noncontiguous_masks_and_negated_matches_are_not_prefixes() {
        let plain = AddrMatch { negated: false, addr: Addr(0x0a00_0000), mask: Addr(0xff00_0000) };
        assert_eq!(
            Prefix::from_match(V4, &plain),
            Some(Prefix::containing_addr(V4, 0x0a00_0000, 8))
        );
        assert_eq!(Prefix::from_match(V4, &AddrMatch { negated: true, ..plain }), None);
        assert_eq!(Prefix::from_match(V4, &AddrMatch { mask: Addr(0xff00_00ff), ..plain }), None);
    }
}
