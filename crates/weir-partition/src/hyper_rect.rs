//! Sets of packets, as boxes.
//!
//! What a rule matches is nearly always a box: an interval of source addresses, one of destination
//! addresses, one of ports, and so on, independently for each field. A [`HyperRect`] is such a box;
//! a set of packets is a list of boxes. Two operations are needed: whether two boxes have a packet
//! in common, and what remains of one without the other ([`HyperRect::minus`]), which is at most
//! two boxes per field.
//!
//! Two kinds of axes are special. The *header* axis says whether a packet's transport header can be
//! read: ports are three-valued, and a truncated header drops the packet. *Atoms* are tests that
//! are not intervals (a mask with holes, membership in a set): each is treated as a separate
//! boolean field. Boxes therefore describe more packets than exist; a proof that nothing is left
//! holds for the existing ones as well.

use weir_model::field::{FIELDS, FieldRow, RuleMergeClass};
use weir_model::{Family, Field};

use crate::interval::Interval;

/// Whether a field is an axis of numbers: what a rule tests of it is a span or a mask, and every
/// packet that the rule can match has it. Of a connection's mark the latter is not known.
const fn is_number_axis_field(row: &FieldRow) -> bool {
    let is_combined = matches!(row.merge_class, RuleMergeClass::Mergeable);
    is_combined && !matches!(row.field, Field::PktType | Field::CtMark)
}

const NUMBER_AXIS_COUNT: usize = {
    let (mut field, mut axes) = (0, 0);
    while field < FIELDS.len() {
        axes += is_number_axis_field(&FIELDS[field]) as usize;
        field += 1;
    }
    axes
};

/// The fields that are axes of numbers.
pub(crate) const NUMBER_AXIS_FIELDS: [Field; NUMBER_AXIS_COUNT] = {
    let mut numbers = [Field::Saddr; NUMBER_AXIS_COUNT];
    let (mut field, mut axis) = (0, 0);
    while field < FIELDS.len() {
        if is_number_axis_field(&FIELDS[field]) {
            numbers[axis] = FIELDS[field].field;
            axis += 1;
        }
        field += 1;
    }
    numbers
};

/// Where the span of a field stands in a box; beyond the last axis for a field that is none.
const NUMBER_AXIS_BY_FIELD: [u8; FIELDS.len()] = {
    let mut axes = [NUMBER_AXIS_COUNT as u8; FIELDS.len()];
    let mut axis = 0;
    while axis < NUMBER_AXIS_COUNT {
        axes[NUMBER_AXIS_FIELDS[axis] as usize] = axis as u8;
        axis += 1;
    }
    axes
};

/// The axes of addresses; they are the first. Numbers of all others have at most 64 bits.
const ADDRESS_AXIS_COUNT: usize = 2;

const _: () = assert!(matches!(NUMBER_AXIS_FIELDS[0], Field::Saddr));
const _: () = assert!(matches!(NUMBER_AXIS_FIELDS[1], Field::Daddr));

/// The axis of a field; `None` where it is none.
#[inline]
pub(crate) fn find_number_axis(field: Field) -> Option<usize> {
    Some(NUMBER_AXIS_BY_FIELD[field as usize].into()).filter(|axis| *axis < NUMBER_AXIS_COUNT)
}

/// The highest number on the axis of a field that a packet may have: packets put together by the
/// device (BIG TCP) are longer than the field of the header holds.
pub(crate) fn highest_present_axis_value(field: Field, family: Family) -> u128 {
    match field {
        Field::Length => u32::MAX.into(),
        _ => field.max_value(family),
    }
}

/// The number that stands for a packet without a source MAC address: one more than there are.
pub(crate) const MISSING_MAC_VALUE: u128 = 1 << 48;

/// Fields that are sets of few values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeAxis {
    /// How much of the transport header there is: a constant of [`header_code`].
    HeaderPresence,
    /// Input device.
    Iif,
    /// Output device.
    Oif,
    /// State of the connection and whether it is translated.
    CtStateAndNat,
    /// TCP flags.
    TcpFlagsByte,
    /// How the device classed the packet.
    PktType,
}

const CODE_AXIS_COUNT: usize = 6;

impl CodeAxis {
    /// All of them.
    pub const ALL: [CodeAxis; CODE_AXIS_COUNT] = [
        CodeAxis::HeaderPresence,
        CodeAxis::Iif,
        CodeAxis::Oif,
        CodeAxis::CtStateAndNat,
        CodeAxis::TcpFlagsByte,
        CodeAxis::PktType,
    ];
}

/// A set of numbers below 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeSet([u128; 2]);

impl CodeSet {
    /// None of them.
    pub const NONE: CodeSet = CodeSet([0; 2]);
    /// All of them.
    pub const ALL: CodeSet = CodeSet([u128::MAX; 2]);

    /// Some numbers.
    ///
    /// # Panics
    /// Where one is above 255.
    pub fn from_codes(values: impl IntoIterator<Item = usize>) -> CodeSet {
        values.into_iter().fold(CodeSet::NONE, |mut bits, v| {
            bits.0[v / 128] |= 1 << (v % 128);
            bits
        })
    }

    /// Those in both.
    #[inline]
    pub fn and(self, other: CodeSet) -> CodeSet {
        CodeSet([self.0[0] & other.0[0], self.0[1] & other.0[1]])
    }

    /// Those in either.
    #[inline]
    pub fn or(self, other: CodeSet) -> CodeSet {
        CodeSet([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// The others.
    #[inline]
    pub fn complement(self) -> CodeSet {
        CodeSet([!self.0[0], !self.0[1]])
    }

    /// A bit for each number modulo 64 that is in it. What two sets have in common they still have
    /// then, and a set within another still is.
    #[inline]
    pub fn folded_bits(self) -> u64 {
        let fold = |bits: u128| bits as u64 | (bits >> 64) as u64;
        fold(self.0[0]) | fold(self.0[1])
    }

    /// Whether one of them is in it; never for a number above 255.
    pub fn contains(self, code: usize) -> bool {
        code < 256 && self.0[code / 128] >> (code % 128) & 1 == 1
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == [0; 2]
    }
}

/// Codes of [`CodeAxis::HeaderPresence`].
pub mod header_code {
    use super::CodeSet;

    /// The transport header is there.
    pub const COMPLETE_HEADER: usize = 0;
    /// Its ports are there, not all of it.
    pub const TRUNCATED_AFTER_PORTS: usize = 1;
    /// Not even the ports are there.
    pub const TRUNCATED_BEFORE_PORTS: usize = 2;
    /// A fragment at offset 1.
    pub const FRAGMENT_OFFSET_1: usize = 3;
    /// A fragment further on.
    pub const FRAGMENT_OFFSET_ABOVE_1: usize = 4;

    /// Second and later fragments.
    pub fn collect_later_fragment_codes() -> CodeSet {
        CodeSet::from_codes([FRAGMENT_OFFSET_1, FRAGMENT_OFFSET_ABOVE_1])
    }
}

/// A box of packets. Large rulesets have millions of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HyperRect {
    address_spans: [Interval; ADDRESS_AXIS_COUNT],
    /// Of the other axes.
    narrow_spans: [(u64, u64); NUMBER_AXIS_COUNT - ADDRESS_AXIS_COUNT],
    code_sets: [CodeSet; CODE_AXIS_COUNT],
    /// Tests by number, sorted, and whether they hold.
    axisless_tests: Vec<(u32, bool)>,
}

impl HyperRect {
    /// All packets of a family.
    pub fn all_packets(family: Family) -> HyperRect {
        let span = |field| match field {
            Field::SourceMac => (0, MISSING_MAC_VALUE),
            _ => (0, highest_present_axis_value(field, family)),
        };
        let mut all = HyperRect {
            address_spans: [(0, 0); ADDRESS_AXIS_COUNT],
            narrow_spans: [(0, 0); NUMBER_AXIS_COUNT - ADDRESS_AXIS_COUNT],
            code_sets: [CodeSet::ALL; CODE_AXIS_COUNT],
            axisless_tests: Vec::new(),
        };
        for (axis, field) in NUMBER_AXIS_FIELDS.into_iter().enumerate() {
            all.set_span(axis, span(field));
        }
        all
    }

    #[inline]
    fn span(&self, axis: usize) -> Interval {
        match axis.checked_sub(ADDRESS_AXIS_COUNT) {
            None => self.address_spans[axis],
            Some(narrow) => {
                let (lo, hi) = self.narrow_spans[narrow];
                (lo.into(), hi.into())
            }
        }
    }

    fn set_span(&mut self, axis: usize, (lo, hi): Interval) {
        match axis.checked_sub(ADDRESS_AXIS_COUNT) {
            None => self.address_spans[axis] = (lo, hi),
            Some(narrow) => {
                let is_narrow = lo <= u64::MAX.into() && hi <= u64::MAX.into();
                assert!(is_narrow, "only addresses have more than 64 bits");
                self.narrow_spans[narrow] = (lo as u64, hi as u64);
            }
        }
    }

    /// Its values of a number.
    ///
    /// # Panics
    /// Where the field is no axis of numbers ([`HyperRect::has_number_axis`]).
    #[inline]
    pub fn interval_of_field(&self, field: Field) -> Interval {
        self.span(find_number_axis(field).expect("an axis of numbers"))
    }

    /// Its values of a field that is a set of few.
    #[inline]
    pub fn codes_of_axis(&self, axis: CodeAxis) -> CodeSet {
        self.code_sets[axis as usize]
    }

    /// The fields that are axes of numbers.
    pub fn number_axis_fields() -> &'static [Field] {
        &NUMBER_AXIS_FIELDS
    }

    /// Its tests without an axis, by their numbers in ascending order, and whether they hold.
    pub fn axisless_tests(&self) -> &[(u32, bool)] {
        &self.axisless_tests
    }

    /// Whether boxes have spans of the field: its tests are spans or masks of a number.
    pub fn has_number_axis(field: Field) -> bool {
        find_number_axis(field).is_some()
    }

    /// The part within a span of a number; `None` where there is none.
    ///
    /// # Panics
    /// Where the field is no axis of numbers ([`HyperRect::has_number_axis`]).
    pub fn restrict_to_interval(&self, field: Field, (lo, hi): Interval) -> Option<HyperRect> {
        let axis = find_number_axis(field).expect("an axis of numbers");
        let (l, h) = self.span(axis);
        let span = (lo.max(l), hi.min(h));
        if span.0 > span.1 {
            return None;
        }
        let mut cell = self.clone();
        cell.set_span(axis, span);
        Some(cell)
    }

    /// The part whose value is among those; `None` if there is none.
    pub fn restrict_to_codes(&self, class: CodeAxis, bits: CodeSet) -> Option<HyperRect> {
        let both = self.code_sets[class as usize].and(bits);
        if both.is_empty() {
            return None;
        }
        let mut cell = self.clone();
        cell.code_sets[class as usize] = both;
        Some(cell)
    }

    /// The part for which a test is true (or false); `None` if there is none.
    pub fn restrict_by_axisless_test(&self, atom: u32, holds: bool) -> Option<HyperRect> {
        let mut cell = self.clone();
        match self.axisless_tests.binary_search_by_key(&atom, |a| a.0) {
            Ok(at) => return (self.axisless_tests[at].1 == holds).then_some(cell),
            Err(at) => cell.axisless_tests.insert(at, (atom, holds)),
        }
        Some(cell)
    }

    /// What both have in common.
    pub fn and(&self, other: &HyperRect) -> Option<HyperRect> {
        if !self.intersects(other) {
            return None;
        }
        let mut cell = self.clone();
        for (mine, theirs) in cell.address_spans.iter_mut().zip(&other.address_spans) {
            *mine = (mine.0.max(theirs.0), mine.1.min(theirs.1));
        }
        for (mine, theirs) in cell.narrow_spans.iter_mut().zip(&other.narrow_spans) {
            *mine = (mine.0.max(theirs.0), mine.1.min(theirs.1));
        }
        for (mine, theirs) in cell.code_sets.iter_mut().zip(&other.code_sets) {
            *mine = mine.and(*theirs);
        }
        for (atom, holds) in &other.axisless_tests {
            cell = cell.restrict_by_axisless_test(*atom, *holds)?;
        }
        Some(cell)
    }

    /// Whether there is a packet in both.
    #[inline]
    pub fn intersects(&self, other: &HyperRect) -> bool {
        let narrow = self.narrow_spans.iter().zip(&other.narrow_spans);
        let addresses = self.address_spans.iter().zip(&other.address_spans);
        narrow.into_iter().all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
            && addresses.into_iter().all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
            && self.code_sets.iter().zip(&other.code_sets).all(|(a, b)| !a.and(*b).is_empty())
            && self
                .axisless_tests
                .iter()
                .all(|(atom, holds)| other.axisless_test_result(*atom) != Some(!holds))
    }

    /// Whether every packet of the other is in this one.
    #[inline]
    pub fn covers(&self, other: &HyperRect) -> bool {
        let narrow = self.narrow_spans.iter().zip(&other.narrow_spans);
        let addresses = self.address_spans.iter().zip(&other.address_spans);
        narrow.into_iter().all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
            && addresses.into_iter().all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
            && self
                .code_sets
                .iter()
                .zip(&other.code_sets)
                .all(|(a, b)| b.and(a.complement()).is_empty())
            && self
                .axisless_tests
                .iter()
                .all(|(atom, holds)| other.axisless_test_result(*atom) == Some(*holds))
    }

    fn axisless_test_result(&self, atom: u32) -> Option<bool> {
        let at = self.axisless_tests.binary_search_by_key(&atom, |a| a.0).ok()?;
        Some(self.axisless_tests[at].1)
    }

    /// What of this cell the other leaves, as cells that have nothing in common, appended to `out`.
    pub fn minus(&self, other: &HyperRect, out: &mut Vec<HyperRect>) {
        if !self.intersects(other) {
            out.push(self.clone());
            return;
        }
        let mut rest = self.clone();
        for axis in 0..NUMBER_AXIS_COUNT {
            let ((l, h), (lo, hi)) = (rest.span(axis), other.span(axis));
            if l < lo {
                let mut piece = rest.clone();
                piece.set_span(axis, (l, lo - 1));
                out.push(piece);
            }
            if hi < h {
                let mut piece = rest.clone();
                piece.set_span(axis, (hi + 1, h));
                out.push(piece);
            }
            rest.set_span(axis, (l.max(lo), h.min(hi)));
        }
        for (class, bits) in other.code_sets.iter().enumerate() {
            let outside = rest.code_sets[class].and(bits.complement());
            if !outside.is_empty() {
                let mut piece = rest.clone();
                piece.code_sets[class] = outside;
                out.push(piece);
            }
            rest.code_sets[class] = rest.code_sets[class].and(*bits);
        }
        for (atom, holds) in &other.axisless_tests {
            out.extend(rest.restrict_by_axisless_test(*atom, !holds));
            match rest.restrict_by_axisless_test(*atom, *holds) {
                Some(inside) => rest = inside,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(saddr: Interval, dport: Interval) -> HyperRect {
        let all = HyperRect::all_packets(Family::V4);
        all.restrict_to_interval(Field::Saddr, saddr)
            .and_then(|c| c.restrict_to_interval(Field::Dport, dport))
            .expect("a box")
    }

    #[test]
    fn the_difference_and_the_intersection_partition_a_box() {
        let (a, b) = (cell((10, 19), (1, 9)), cell((15, 30), (5, 5)));
        let mut left = Vec::new();
        a.minus(&b, &mut left);
        let size = |c: &HyperRect| {
            let (s, d) = (c.interval_of_field(Field::Saddr), c.interval_of_field(Field::Dport));
            (s.1 - s.0 + 1) * (d.1 - d.0 + 1)
        };
        let cut = a.and(&b).expect("they meet");
        assert_eq!(left.iter().map(size).sum::<u128>() + size(&cut), size(&a));
        assert!(left.iter().all(|l| !l.intersects(&b) && a.covers(l)));
        for (i, l) in left.iter().enumerate() {
            assert!(left[i + 1..].iter().all(|m| !l.intersects(m)));
        }
    }

    #[test]
    fn subtracting_itself_is_empty_and_a_disjoint_box_nothing() {
        let a = cell((1, 5), (1, 5));
        let mut left = Vec::new();
        a.minus(&a, &mut left);
        assert_eq!(left, []);
        a.minus(&cell((6, 9), (1, 5)), &mut left);
        assert_eq!(left, [a]);
    }

    #[test]
    fn a_test_without_an_axis_splits_a_box_in_two() {
        let all = HyperRect::all_packets(Family::V4);
        let (yes, no) =
            (all.restrict_by_axisless_test(3, true), all.restrict_by_axisless_test(3, false));
        let (yes, no) = (yes.expect("it may hold"), no.expect("it may not"));
        assert!(!yes.intersects(&no) && all.covers(&yes) && !yes.covers(&all));
        let mut left = Vec::new();
        all.minus(&yes, &mut left);
        assert_eq!(left, [no]);
        assert_eq!(yes.restrict_by_axisless_test(3, false), None);
    }
}
