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

use weir_model::field::{FIELDS, FieldRow, Merge};
use weir_model::{Family, Field};

use crate::interval::Interval;

/// Whether a field is an axis of numbers: what a rule asks of it is a span or a mask, and every
/// packet that the rule can match has it. Of a connection's mark the latter is not known.
const fn is_number(row: &FieldRow) -> bool {
    let is_combined = matches!(row.merge, Merge::Combine);
    is_combined && !matches!(row.field, Field::PktType | Field::CtMark)
}

const AXES: usize = {
    let (mut field, mut axes) = (0, 0);
    while field < FIELDS.len() {
        axes += is_number(&FIELDS[field]) as usize;
        field += 1;
    }
    axes
};

/// The fields that are axes of numbers.
pub(crate) const NUMBERS: [Field; AXES] = {
    let mut numbers = [Field::Saddr; AXES];
    let (mut field, mut axis) = (0, 0);
    while field < FIELDS.len() {
        if is_number(&FIELDS[field]) {
            numbers[axis] = FIELDS[field].field;
            axis += 1;
        }
        field += 1;
    }
    numbers
};

/// Where the span of a field stands in a box; beyond the last axis for a field that is none.
const AXIS: [u8; FIELDS.len()] = {
    let mut axes = [AXES as u8; FIELDS.len()];
    let mut axis = 0;
    while axis < AXES {
        axes[NUMBERS[axis] as usize] = axis as u8;
        axis += 1;
    }
    axes
};

/// The axis of a field; `None` where it is none.
pub(crate) fn axis(field: Field) -> Option<usize> {
    Some(AXIS[field as usize].into()).filter(|axis| *axis < AXES)
}

/// The highest number on the axis of a field that a packet may have: packets put together by the
/// device (BIG TCP) are longer than the field of the header holds.
pub(crate) fn highest(field: Field, family: Family) -> u128 {
    match field {
        Field::Length => u32::MAX.into(),
        _ => field.max(family),
    }
}

/// The number that stands for a packet without a source MAC address: one more than there are.
pub(crate) const NO_MAC: u128 = 1 << 48;

/// Fields that are sets of few values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeAxis {
    /// How much of the transport header there is: a constant of [`header`].
    Header,
    /// Input device.
    Iif,
    /// Output device.
    Oif,
    /// State of the connection and whether it is translated.
    Ct,
    /// TCP flags.
    Flags,
    /// How the device classed the packet.
    PktType,
}

const CLASSES: usize = 6;

/// A set of numbers below 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub fn of(values: impl IntoIterator<Item = usize>) -> CodeSet {
        values.into_iter().fold(CodeSet::NONE, |mut bits, v| {
            bits.0[v / 128] |= 1 << (v % 128);
            bits
        })
    }

    /// Those in both.
    pub fn and(self, other: CodeSet) -> CodeSet {
        CodeSet([self.0[0] & other.0[0], self.0[1] & other.0[1]])
    }

    /// The others.
    pub fn complement(self) -> CodeSet {
        CodeSet([!self.0[0], !self.0[1]])
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == [0; 2]
    }
}

/// Codes of [`CodeAxis::Header`].
pub mod header {
    use super::CodeSet;

    /// The transport header is there.
    pub const WHOLE: usize = 0;
    /// Its ports are there, not all of it.
    pub const PORTS: usize = 1;
    /// Not even the ports are there.
    pub const CUT: usize = 2;
    /// A fragment at offset 1.
    pub const OFFSET_1: usize = 3;
    /// A fragment further on.
    pub const LATER: usize = 4;

    /// Second and later fragments.
    pub fn fragments() -> CodeSet {
        CodeSet::of([OFFSET_1, LATER])
    }
}

/// A box of packets.
#[derive(Clone, Debug, PartialEq)]
pub struct HyperRect {
    spans: [Interval; AXES],
    bits: [CodeSet; CLASSES],
    /// Tests by number, sorted, and whether they hold.
    atoms: Vec<(u32, bool)>,
}

impl HyperRect {
    /// All packets of a family.
    pub fn all(family: Family) -> HyperRect {
        let span = |field| match field {
            Field::SourceMac => (0, NO_MAC),
            _ => (0, highest(field, family)),
        };
        HyperRect { spans: NUMBERS.map(span), bits: [CodeSet::ALL; CLASSES], atoms: Vec::new() }
    }

    /// Its values of a number.
    ///
    /// # Panics
    /// Where the field is no axis of numbers ([`HyperRect::is_number`]).
    pub fn interval(&self, field: Field) -> Interval {
        self.spans[axis(field).expect("an axis of numbers")]
    }

    /// Whether boxes have spans of the field: its tests are spans or masks of a number.
    pub fn is_number(field: Field) -> bool {
        axis(field).is_some()
    }

    /// The part within a span of a number; `None` where there is none.
    ///
    /// # Panics
    /// Where the field is no axis of numbers ([`HyperRect::is_number`]).
    pub fn within(&self, field: Field, (lo, hi): Interval) -> Option<HyperRect> {
        let axis = axis(field).expect("an axis of numbers");
        let (l, h) = self.spans[axis];
        let span = (lo.max(l), hi.min(h));
        if span.0 > span.1 {
            return None;
        }
        let mut cell = self.clone();
        cell.spans[axis] = span;
        Some(cell)
    }

    /// The part whose value is among those; `None` if there is none.
    pub fn among(&self, class: CodeAxis, bits: CodeSet) -> Option<HyperRect> {
        let both = self.bits[class as usize].and(bits);
        if both.is_empty() {
            return None;
        }
        let mut cell = self.clone();
        cell.bits[class as usize] = both;
        Some(cell)
    }

    /// The part for which a test is true (or false); `None` if there is none.
    pub fn where_atom(&self, atom: u32, holds: bool) -> Option<HyperRect> {
        let mut cell = self.clone();
        match self.atoms.binary_search_by_key(&atom, |a| a.0) {
            Ok(at) => return (self.atoms[at].1 == holds).then_some(cell),
            Err(at) => cell.atoms.insert(at, (atom, holds)),
        }
        Some(cell)
    }

    /// What both have in common.
    pub fn and(&self, other: &HyperRect) -> Option<HyperRect> {
        if !self.meets(other) {
            return None;
        }
        let mut cell = self.clone();
        for (mine, theirs) in cell.spans.iter_mut().zip(&other.spans) {
            *mine = (mine.0.max(theirs.0), mine.1.min(theirs.1));
        }
        for (mine, theirs) in cell.bits.iter_mut().zip(&other.bits) {
            *mine = mine.and(*theirs);
        }
        for (atom, holds) in &other.atoms {
            cell = cell.where_atom(*atom, *holds)?;
        }
        Some(cell)
    }

    /// Whether there is a packet in both.
    pub fn meets(&self, other: &HyperRect) -> bool {
        self.spans.iter().zip(&other.spans).all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
            && self.bits.iter().zip(&other.bits).all(|(a, b)| !a.and(*b).is_empty())
            && self.atoms.iter().all(|(atom, holds)| other.atom(*atom) != Some(!holds))
    }

    /// Whether every packet of the other is in this one.
    pub fn holds(&self, other: &HyperRect) -> bool {
        self.spans.iter().zip(&other.spans).all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
            && self.bits.iter().zip(&other.bits).all(|(a, b)| b.and(a.complement()).is_empty())
            && self.atoms.iter().all(|(atom, holds)| other.atom(*atom) == Some(*holds))
    }

    fn atom(&self, atom: u32) -> Option<bool> {
        let at = self.atoms.binary_search_by_key(&atom, |a| a.0).ok()?;
        Some(self.atoms[at].1)
    }

    /// What of this cell the other leaves, as cells that have nothing in common, appended to `out`.
    pub fn minus(&self, other: &HyperRect, out: &mut Vec<HyperRect>) {
        if !self.meets(other) {
            out.push(self.clone());
            return;
        }
        let mut rest = self.clone();
        for (axis, (lo, hi)) in other.spans.iter().enumerate() {
            let (l, h) = rest.spans[axis];
            if l < *lo {
                let mut piece = rest.clone();
                piece.spans[axis] = (l, lo - 1);
                out.push(piece);
            }
            if *hi < h {
                let mut piece = rest.clone();
                piece.spans[axis] = (hi + 1, h);
                out.push(piece);
            }
            rest.spans[axis] = (l.max(*lo), h.min(*hi));
        }
        for (class, bits) in other.bits.iter().enumerate() {
            let outside = rest.bits[class].and(bits.complement());
            if !outside.is_empty() {
                let mut piece = rest.clone();
                piece.bits[class] = outside;
                out.push(piece);
            }
            rest.bits[class] = rest.bits[class].and(*bits);
        }
        for (atom, holds) in &other.atoms {
            out.extend(rest.where_atom(*atom, !holds));
            match rest.where_atom(*atom, *holds) {
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
        let all = HyperRect::all(Family::V4);
        all.within(Field::Saddr, saddr).and_then(|c| c.within(Field::Dport, dport)).expect("a box")
    }

    #[test]
    fn what_is_left_of_a_cell_and_the_cut_are_the_cell() {
        let (a, b) = (cell((10, 19), (1, 9)), cell((15, 30), (5, 5)));
        let mut left = Vec::new();
        a.minus(&b, &mut left);
        let size = |c: &HyperRect| {
            let (s, d) = (c.interval(Field::Saddr), c.interval(Field::Dport));
            (s.1 - s.0 + 1) * (d.1 - d.0 + 1)
        };
        let cut = a.and(&b).expect("they meet");
        assert_eq!(left.iter().map(size).sum::<u128>() + size(&cut), size(&a));
        assert!(left.iter().all(|l| !l.meets(&b) && a.holds(l)));
        for (i, l) in left.iter().enumerate() {
            assert!(left[i + 1..].iter().all(|m| !l.meets(m)));
        }
    }

    #[test]
    fn a_cell_without_itself_is_nothing_and_without_a_stranger_is_itself() {
        let a = cell((1, 5), (1, 5));
        let mut left = Vec::new();
        a.minus(&a, &mut left);
        assert_eq!(left, []);
        a.minus(&cell((6, 9), (1, 5)), &mut left);
        assert_eq!(left, [a]);
    }

    #[test]
    fn an_atom_parts_a_cell_in_two() {
        let all = HyperRect::all(Family::V4);
        let (yes, no) = (all.where_atom(3, true), all.where_atom(3, false));
        let (yes, no) = (yes.expect("it may hold"), no.expect("it may not"));
        assert!(!yes.meets(&no) && all.holds(&yes) && !yes.holds(&all));
        let mut left = Vec::new();
        all.minus(&yes, &mut left);
        assert_eq!(left, [no]);
        assert_eq!(yes.where_atom(3, false), None);
    }
}
