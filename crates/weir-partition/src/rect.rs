//! Sets of packets, as boxes.
//!
//! What a rule matches is nearly always a box: a span of source addresses, and one of destination
//! addresses, and one of ports, and so on, every field for itself. A [`HyperRect`] is such a box; a
//! set of packets is a list of boxes. Two operations are all that is needed: whether two boxes have
//! a packet in common, and what of one the other leaves ([`HyperRect::minus`]), which is at most
//! two boxes a field.
//!
//! Two fields are not what they seem. The *header* axis says whether a packet's transport header
//! can be read at all: ports are three-valued, and a header that is cut short drops the packet on
//! the spot. *Atoms* are tests that are no intervals (an odd mask, membership in a set): each is
//! taken as a field of its own that holds or not. Boxes so describe more packets than there are;
//! who proves that nothing is left proves it for the real ones, too.

use weir_model::{Family, Field};

use crate::interval::Interval;

/// Fields that are spans of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberAxis {
    /// Source address.
    Saddr,
    /// Destination address.
    Daddr,
    /// Destination port.
    Dport,
    /// Source port.
    Sport,
    /// Source MAC address.
    Mac,
    /// Protocol.
    Proto,
    /// ICMP type and code.
    Icmp,
    /// Packet mark.
    Mark,
    /// Length from the network header on.
    Length,
    /// Time to live.
    Ttl,
}

impl NumberAxis {
    /// All of them.
    pub const ALL: [NumberAxis; AXES] = [
        NumberAxis::Saddr,
        NumberAxis::Daddr,
        NumberAxis::Dport,
        NumberAxis::Sport,
        NumberAxis::Mac,
        NumberAxis::Proto,
        NumberAxis::Icmp,
        NumberAxis::Mark,
        NumberAxis::Length,
        NumberAxis::Ttl,
    ];

    /// The axis of a field; `None` where it is none.
    pub fn of(field: Field) -> Option<NumberAxis> {
        NumberAxis::ALL.into_iter().find(|axis| axis.field() == field)
    }

    /// The field whose values it has.
    pub const fn field(self) -> Field {
        match self {
            NumberAxis::Saddr => Field::Saddr,
            NumberAxis::Daddr => Field::Daddr,
            NumberAxis::Dport => Field::Dport,
            NumberAxis::Sport => Field::Sport,
            NumberAxis::Mac => Field::SourceMac,
            NumberAxis::Proto => Field::Proto,
            NumberAxis::Icmp => Field::Icmp,
            NumberAxis::Mark => Field::Mark,
            NumberAxis::Length => Field::Length,
            NumberAxis::Ttl => Field::Ttl,
        }
    }
}

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

const AXES: usize = 10;
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
        let width = if family == Family::V4 { u32::MAX.into() } else { u128::MAX };
        let mut cell = HyperRect {
            spans: [(0, u32::MAX.into()); AXES],
            bits: [CodeSet::ALL; CLASSES],
            atoms: Vec::new(),
        };
        cell.spans[NumberAxis::Saddr as usize] = (0, width);
        cell.spans[NumberAxis::Daddr as usize] = (0, width);
        // One value more than there are addresses stands for the packet that has none.
        cell.spans[NumberAxis::Mac as usize] = (0, 1 << 48);
        cell
    }

    /// Its values on an axis.
    pub fn interval(&self, axis: NumberAxis) -> Interval {
        self.spans[axis as usize]
    }

    /// The part within a span; `None` where there is none.
    pub fn within(&self, axis: NumberAxis, (lo, hi): Interval) -> Option<HyperRect> {
        let (l, h) = self.spans[axis as usize];
        let span = (lo.max(l), hi.min(h));
        if span.0 > span.1 {
            return None;
        }
        let mut cell = self.clone();
        cell.spans[axis as usize] = span;
        Some(cell)
    }

    /// The part whose value is among those; `None` where there is none.
    pub fn among(&self, class: CodeAxis, bits: CodeSet) -> Option<HyperRect> {
        let both = self.bits[class as usize].and(bits);
        if both.is_empty() {
            return None;
        }
        let mut cell = self.clone();
        cell.bits[class as usize] = both;
        Some(cell)
    }

    /// The part for which a test holds (or not); `None` where there is none.
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
        all.within(NumberAxis::Saddr, saddr)
            .and_then(|c| c.within(NumberAxis::Dport, dport))
            .expect("a box")
    }

    #[test]
    fn what_is_left_of_a_cell_and_the_cut_are_the_cell() {
        let (a, b) = (cell((10, 19), (1, 9)), cell((15, 30), (5, 5)));
        let mut left = Vec::new();
        a.minus(&b, &mut left);
        let size = |c: &HyperRect| {
            let (s, d) = (c.interval(NumberAxis::Saddr), c.interval(NumberAxis::Dport));
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
