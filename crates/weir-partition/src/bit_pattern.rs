//! Sets of numbers with the same values in some bits.
//!
//! A test with a mask tests some bits of a number: a prefix the highest ones, `--mark 4/4` one bit,
//! `--tcp-flags SYN,ACK SYN` two. The intersection of two such tests is again such a test. A mask
//! with holes represents many intervals, so it is not converted to intervals; only a prefix is.

use weir_model::mask::interval_of_value_under_mask;

use crate::interval::Interval;

/// The numbers whose bits under a mask are those of a value.
///
/// ```
/// use weir_partition::BitPattern;
/// let syn = BitPattern::new(0x02, 0x12); // SYN set, ACK not
/// let no_ack = BitPattern::new(0x00, 0x10);
/// assert!(no_ack.covers(syn) && syn.contains(0x02) && !syn.contains(0x12));
/// assert_eq!(BitPattern::new(0x10, 0x10).and(syn), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BitPattern {
    value: u128,
    mask: u128,
}

impl BitPattern {
    /// All numbers.
    pub const ALL: BitPattern = BitPattern { value: 0, mask: 0 };

    /// The numbers with these bits under a mask. A value with a bit outside the mask matches no
    /// number.
    pub const fn new(value: u128, mask: u128) -> BitPattern {
        BitPattern { value, mask }
    }

    /// The bits wanted.
    pub const fn value(self) -> u128 {
        self.value
    }

    /// The bits that are tested.
    pub const fn mask(self) -> u128 {
        self.mask
    }

    /// Whether no number is in it.
    pub const fn has_value_bit_outside_mask(self) -> bool {
        self.value & !self.mask != 0
    }

    /// Whether a number is in it.
    pub const fn contains(self, number: u128) -> bool {
        number & self.mask == self.value
    }

    /// Whether no number is in both.
    pub const fn is_disjoint(self, other: BitPattern) -> bool {
        self.has_value_bit_outside_mask()
            || other.has_value_bit_outside_mask()
            || (self.value ^ other.value) & self.mask & other.mask != 0
    }

    /// The numbers in both, `None` if there are none.
    pub const fn and(self, other: BitPattern) -> Option<BitPattern> {
        if self.is_disjoint(other) {
            return None;
        }
        Some(BitPattern { value: self.value | other.value, mask: self.mask | other.mask })
    }

    /// Whether every number of the other is in it.
    pub const fn covers(self, other: BitPattern) -> bool {
        other.has_value_bit_outside_mask()
            || !self.has_value_bit_outside_mask()
                && self.mask & !other.mask == 0
                && other.value & self.mask == self.value
    }

    /// The numbers in it that are not in the other, as patterns that have no number in common.
    pub fn minus(self, other: BitPattern) -> Vec<BitPattern> {
        let mut out = Vec::new();
        if self.is_disjoint(other) {
            out.extend((!self.has_value_bit_outside_mask()).then_some(self));
            return out;
        }
        // One bit after the other: those that differ in it first.
        let mut rest = self;
        for bit in (0..128).map(|i| 1 << i).filter(|bit| other.mask & !self.mask & bit != 0) {
            let wanted = other.value & bit;
            out.push(BitPattern { value: rest.value | (wanted ^ bit), mask: rest.mask | bit });
            rest = BitPattern { value: rest.value | wanted, mask: rest.mask | bit };
        }
        out
    }

    /// A number with the bits that are wanted, and those of another number elsewhere.
    ///
    /// ```
    /// use weir_partition::BitPattern;
    /// assert_eq!(BitPattern::new(0x0a00, 0xff00).fill_unmasked_bits_from(0x1234), 0x0a34);
    /// ```
    pub const fn fill_unmasked_bits_from(self, number: u128) -> u128 {
        number & !self.mask | self.value
    }

    /// Its numbers up to `max` (all ones) as one interval; `None` if the mask has holes.
    pub const fn to_interval(self, max: u128) -> Option<Interval> {
        interval_of_value_under_mask(self.value, self.mask, max)
    }
}
