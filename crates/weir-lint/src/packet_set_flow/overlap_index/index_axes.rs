//! What distinguishes the boxes of an index, as numbers next to each other.
//!
//! Only the fields in which boxes differ are kept. Sets of codes are folded into 64 bits: what
//! intersects or is covered still does and is, so a search finds no fewer boxes.

use std::ops::Range;

use weir_model::Field;
use weir_partition::{CodeAxis, CodeSet, HyperRect, Interval};

/// The numbers that large rulesets differ in.
const INDEXED_FIELDS: [Field; 6] =
    [Field::Saddr, Field::Daddr, Field::Dport, Field::Sport, Field::Proto, Field::SourceMac];
/// The sets of few values that they differ in.
const INDEXED_CODE_AXES: [CodeAxis; 3] = [CodeAxis::HeaderPresence, CodeAxis::Iif, CodeAxis::Oif];

/// The axes on which some boxes differ, with the smallest bounds around all of them.
#[derive(Clone, Default)]
pub(super) struct IndexAxes {
    /// Numbers of at most 64 bits.
    narrow: Vec<(Field, Interval)>,
    /// Other numbers.
    wide: Vec<(Field, Interval)>,
    codes: Vec<(CodeAxis, CodeSet)>,
}

impl IndexAxes {
    pub fn that_distinguish<'b>(mut boxes: impl Iterator<Item = &'b HyperRect>) -> IndexAxes {
        let Some(first) = boxes.next() else { return IndexAxes::default() };
        let numbers_of = |cell: &HyperRect| INDEXED_FIELDS.map(|f| cell.interval_of_field(f));
        let codes_of = |cell: &HyperRect| INDEXED_CODE_AXES.map(|axis| cell.codes_of_axis(axis));
        let (mut numbers, mut codes) = (numbers_of(first), codes_of(first));
        let (mut numbers_differ, mut codes_differ) = ([false; 6], [false; 3]);
        for cell in boxes {
            for (axis, (lo, hi)) in numbers_of(cell).into_iter().enumerate() {
                let widest = &mut numbers[axis];
                numbers_differ[axis] |= *widest != (lo, hi);
                *widest = (widest.0.min(lo), widest.1.max(hi));
            }
            for (axis, of) in codes_of(cell).into_iter().enumerate() {
                codes_differ[axis] |= codes[axis] != of;
                codes[axis] = codes[axis].or(of);
            }
        }
        let mut axes = IndexAxes::default();
        for (axis, field) in
            INDEXED_FIELDS.into_iter().enumerate().filter(|(a, _)| numbers_differ[*a])
        {
            let is_narrow = numbers[axis].1 <= u64::MAX.into();
            let list = if is_narrow { &mut axes.narrow } else { &mut axes.wide };
            list.push((field, numbers[axis]));
        }
        let codes = INDEXED_CODE_AXES.into_iter().zip(codes).zip(codes_differ);
        axes.codes.extend(codes.filter(|(_, differs)| *differs).map(|(axis, _)| axis));
        axes
    }
}

/// Bounds of boxes or of nodes, by number.
pub(super) struct BoundsList {
    narrow_count: usize,
    wide_count: usize,
    code_count: usize,
    /// The spans of all bounds, one after another.
    narrow: Vec<(u64, u64)>,
    wide: Vec<Interval>,
    codes: Vec<u64>,
}

impl BoundsList {
    pub fn new(axes: &IndexAxes) -> BoundsList {
        BoundsList {
            narrow_count: axes.narrow.len(),
            wide_count: axes.wide.len(),
            code_count: axes.codes.len(),
            narrow: Vec::new(),
            wide: Vec::new(),
            codes: Vec::new(),
        }
    }

    pub fn push_box(&mut self, axes: &IndexAxes, cell: &HyperRect) {
        // A box that is looked for may have higher numbers than those of the index.
        let clamp = |number: u128| number.min(u64::MAX.into()) as u64;
        self.narrow.extend(axes.narrow.iter().map(|(field, _)| {
            let (lo, hi) = cell.interval_of_field(*field);
            (clamp(lo), clamp(hi))
        }));
        self.wide.extend(axes.wide.iter().map(|(field, _)| cell.interval_of_field(*field)));
        let codes = axes.codes.iter().map(|(axis, _)| cell.codes_of_axis(*axis).folded_bits());
        self.codes.extend(codes);
    }

    pub fn push_copy(&mut self, other: &BoundsList, number: usize) {
        let (narrow, wide, codes) = other.bounds(number);
        self.narrow.extend_from_slice(narrow);
        self.wide.extend_from_slice(wide);
        self.codes.extend_from_slice(codes);
    }

    /// Appends bounds that are set later.
    pub fn push_unbounded(&mut self, count: usize) {
        self.narrow.resize(self.narrow.len() + count * self.narrow_count, (0, u64::MAX));
        self.wide.resize(self.wide.len() + count * self.wide_count, (0, u128::MAX));
        self.codes.resize(self.codes.len() + count * self.code_count, u64::MAX);
    }

    /// Sets the smallest bounds around some of another list.
    pub fn set_enclosing(&mut self, at: usize, other: &BoundsList, mut numbers: Range<usize>) {
        let Some(first) = numbers.next() else { return };
        let (narrow, wide, codes) = self.bounds_mut(at);
        let of_first = other.bounds(first);
        narrow.copy_from_slice(of_first.0);
        wide.copy_from_slice(of_first.1);
        codes.copy_from_slice(of_first.2);
        for number in numbers {
            let theirs = other.bounds(number);
            for (mine, theirs) in narrow.iter_mut().zip(theirs.0) {
                *mine = (mine.0.min(theirs.0), mine.1.max(theirs.1));
            }
            for (mine, theirs) in wide.iter_mut().zip(theirs.1) {
                *mine = (mine.0.min(theirs.0), mine.1.max(theirs.1));
            }
            for (mine, theirs) in codes.iter_mut().zip(theirs.2) {
                *mine |= theirs;
            }
        }
    }

    /// Sets the smallest bounds around two of this list.
    pub fn set_enclosing_two(&mut self, at: usize, [a, b]: [usize; 2]) {
        for axis in 0..self.narrow_count {
            let of = |number: usize| self.narrow[number * self.narrow_count + axis];
            let (a, b) = (of(a), of(b));
            self.narrow[at * self.narrow_count + axis] = (a.0.min(b.0), a.1.max(b.1));
        }
        for axis in 0..self.wide_count {
            let of = |number: usize| self.wide[number * self.wide_count + axis];
            let (a, b) = (of(a), of(b));
            self.wide[at * self.wide_count + axis] = (a.0.min(b.0), a.1.max(b.1));
        }
        for axis in 0..self.code_count {
            let of = |number: usize| self.codes[number * self.code_count + axis];
            self.codes[at * self.code_count + axis] = of(a) | of(b);
        }
    }

    #[inline]
    fn bounds(&self, number: usize) -> (&[(u64, u64)], &[Interval], &[u64]) {
        let narrow = &self.narrow[number * self.narrow_count..][..self.narrow_count];
        let wide = &self.wide[number * self.wide_count..][..self.wide_count];
        let codes = &self.codes[number * self.code_count..][..self.code_count];
        (narrow, wide, codes)
    }

    fn bounds_mut(&mut self, number: usize) -> (&mut [(u64, u64)], &mut [Interval], &mut [u64]) {
        let narrow = &mut self.narrow[number * self.narrow_count..][..self.narrow_count];
        let wide = &mut self.wide[number * self.wide_count..][..self.wide_count];
        let codes = &mut self.codes[number * self.code_count..][..self.code_count];
        (narrow, wide, codes)
    }

    /// Whether the bounds of a number may have something in common with others.
    #[inline]
    pub fn intersects(&self, number: usize, (other, other_number): (&BoundsList, usize)) -> bool {
        let (narrow, wide, codes) = self.bounds(number);
        let (other_narrow, other_wide, other_codes) = other.bounds(other_number);
        narrow.iter().zip(other_narrow).all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
            && codes.iter().zip(other_codes).all(|(a, b)| a & b != 0)
            && wide.iter().zip(other_wide).all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
    }

    /// Whether the bounds of a number may cover others.
    #[inline]
    pub fn covers(&self, number: usize, (other, other_number): (&BoundsList, usize)) -> bool {
        let (narrow, wide, codes) = self.bounds(number);
        let (other_narrow, other_wide, other_codes) = other.bounds(other_number);
        narrow.iter().zip(other_narrow).all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
            && codes.iter().zip(other_codes).all(|(a, b)| b & !a == 0)
            && wide.iter().zip(other_wide).all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
    }

    /// The interval of an axis of numbers: those of at most 64 bits are the first.
    #[inline]
    pub fn interval(&self, number: usize, axis: usize) -> Interval {
        match axis.checked_sub(self.narrow_count) {
            None => {
                let (lo, hi) = self.narrow[number * self.narrow_count + axis];
                (lo.into(), hi.into())
            }
            // Boxes that only differ in codes are divided by their rules.
            Some(wide) if wide >= self.wide_count => (0, 0),
            Some(wide) => self.wide[number * self.wide_count + wide],
        }
    }

    /// The axis whose intervals are most narrow compared with the bounds around some of them.
    pub fn most_selective_axis(&self, sample: impl Iterator<Item = u32> + Clone) -> usize {
        let width = |(lo, hi): Interval| (hi - lo) as f64 + 1.0;
        let share = |axis: usize| {
            let (mut lowest, mut highest, mut widths) = (u128::MAX, 0, 0.0);
            for number in sample.clone() {
                let (lo, hi) = self.interval(number as usize, axis);
                (lowest, highest) = (lo.min(lowest), hi.max(highest));
                widths += width((lo, hi));
            }
            widths / width((lowest, highest))
        };
        let axes = (0..self.narrow_count + self.wide_count).map(|axis| (share(axis), axis));
        axes.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |a| a.1)
    }
}
