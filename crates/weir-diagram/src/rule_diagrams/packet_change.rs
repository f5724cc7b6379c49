//! Changes that rules make to the fields of a packet.
//!
//! A change gives for each bit that it writes the source of the new value: a constant, another bit,
//! or the exclusive or of several bits (`--set-xmark` flips, `--save-mark` copies). These are
//! affine maps, so their composition is one as well. The TTL is added to and clamped, which is also
//! closed under composition.

use std::collections::{BTreeMap, HashMap};

/// The source of a bit: the exclusive or of some bits and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct XorBitSource {
    /// Levels of the bits before the change, ascending, none twice.
    pub xor_levels: Vec<u32>,
    /// Flipped in the end.
    pub is_inverted: bool,
}

impl XorBitSource {
    pub const fn constant(value: bool) -> XorBitSource {
        XorBitSource { xor_levels: Vec::new(), is_inverted: value }
    }

    pub fn from_level(level: u32, flip: bool) -> XorBitSource {
        XorBitSource { xor_levels: vec![level], is_inverted: flip }
    }

    /// Adds another source, modulo two.
    pub fn xor_with(&mut self, other: &XorBitSource) {
        for level in &other.xor_levels {
            match self.xor_levels.binary_search(level) {
                Ok(at) => drop(self.xor_levels.remove(at)),
                Err(at) => self.xor_levels.insert(at, *level),
            }
        }
        self.is_inverted ^= other.is_inverted;
    }
}

/// `t` becomes `t + add`, but at least `lo` and at most `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TtlTransform {
    delta: i32,
    lo: i32,
    hi: i32,
}

impl TtlTransform {
    pub const IDENTITY: TtlTransform = TtlTransform { delta: 0, lo: 0, hi: 255 };

    /// The bounds are the least and the greatest result, and what is constant adds nothing: equal
    /// functions are equal values.
    fn new(delta: i32, lo: i32, hi: i32) -> TtlTransform {
        let clamp = |ttl: i32| (ttl + delta).clamp(lo, hi);
        let (lo, hi) = (clamp(0), clamp(255));
        TtlTransform { delta: if lo == hi { 0 } else { delta }, lo, hi }
    }

    pub fn set_to(value: u8) -> TtlTransform {
        TtlTransform::new(0, value.into(), value.into())
    }

    pub fn add_clamped(by: i32) -> TtlTransform {
        TtlTransform::new(by, 0, 255)
    }

    pub fn apply_to(self, ttl: u8) -> u8 {
        (i32::from(ttl) + self.delta).clamp(self.lo, self.hi) as u8
    }

    /// This, then another.
    pub fn followed_by(self, next: TtlTransform) -> TtlTransform {
        let clamp = |t: i32| (t + next.delta).clamp(next.lo, next.hi);
        TtlTransform::new(self.delta + next.delta, clamp(self.lo), clamp(self.hi))
    }
}

/// What was done to a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PacketChange {
    /// New bits by level; bits that are not listed are unchanged.
    pub bit_sources: BTreeMap<u32, XorBitSource>,
    /// The time to live after its bits are replaced.
    pub ttl_transform: TtlTransform,
    /// The bits of the time to live are among those replaced.
    pub writes_ttl: bool,
    /// Digests of targets that changed what no field says, in their order.
    pub unmodelled_targets: Vec<u64>,
}

impl Default for PacketChange {
    fn default() -> Self {
        PacketChange {
            bit_sources: BTreeMap::new(),
            ttl_transform: TtlTransform::IDENTITY,
            writes_ttl: false,
            unmodelled_targets: Vec::new(),
        }
    }
}

impl PacketChange {
    /// The value of a bit after this change, in terms of the bits before. `question` renames what
    /// is not a bit of a field.
    fn compose_bit_source(
        &self,
        source: &XorBitSource,
        fields_end: u32,
        question: &mut dyn FnMut(u32) -> u32,
    ) -> XorBitSource {
        let mut out = XorBitSource::constant(source.is_inverted);
        for level in &source.xor_levels {
            match self.bit_sources.get(level) {
                Some(earlier) => out.xor_with(earlier),
                None if *level < fields_end => {
                    out.xor_with(&XorBitSource::from_level(*level, false))
                }
                None => out.xor_with(&XorBitSource::from_level(question(*level), false)),
            }
        }
        out
    }

    /// This, then another.
    pub fn followed_by(
        &self,
        next: &PacketChange,
        fields_end: u32,
        question: &mut dyn FnMut(u32) -> u32,
    ) -> PacketChange {
        let mut out = PacketChange {
            bit_sources: self.bit_sources.clone(),
            ttl_transform: if next.writes_ttl {
                next.ttl_transform
            } else {
                self.ttl_transform.followed_by(next.ttl_transform)
            },
            writes_ttl: self.writes_ttl || next.writes_ttl,
            unmodelled_targets: [&self.unmodelled_targets[..], &next.unmodelled_targets[..]]
                .concat(),
        };
        for (level, source) in &next.bit_sources {
            let source = self.compose_bit_source(source, fields_end, question);
            if source == XorBitSource::from_level(*level, false) {
                out.bit_sources.remove(level);
            } else {
                out.bit_sources.insert(*level, source);
            }
        }
        out
    }
}

/// Values that occurred before have the same number.
#[derive(Debug)]
pub(crate) struct ValueInterner<T> {
    number_by_value: HashMap<T, u32>,
    values: Vec<T>,
}

impl<T: Clone + Eq + std::hash::Hash> ValueInterner<T> {
    /// `first` has number 0.
    pub fn with_first_value(first: T) -> Self {
        let mut interner = ValueInterner { number_by_value: HashMap::new(), values: Vec::new() };
        interner.intern(&first);
        interner
    }

    pub fn intern(&mut self, value: &T) -> u32 {
        if let Some(number) = self.number_by_value.get(value) {
            return *number;
        }
        let number = self.values.len() as u32;
        self.number_by_value.insert(value.clone(), number);
        self.values.push(value.clone());
        number
    }

    pub fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composed_ttl_transforms_are_equal_exactly_if_their_functions_are() {
        let maps = [
            TtlTransform::IDENTITY,
            TtlTransform::set_to(7),
            TtlTransform::add_clamped(-1),
            TtlTransform::add_clamped(200),
            TtlTransform::add_clamped(-200).followed_by(TtlTransform::add_clamped(30)),
            TtlTransform::new(5, 10, 20),
        ];
        for a in maps {
            for b in maps {
                for ttl in 0..=255 {
                    assert_eq!(
                        a.followed_by(b).apply_to(ttl),
                        b.apply_to(a.apply_to(ttl)),
                        "{a:?} {b:?} {ttl}"
                    );
                }
                let same = |x: TtlTransform, y: TtlTransform| {
                    (0..=255).all(|ttl| x.apply_to(ttl) == y.apply_to(ttl))
                };
                for other in maps {
                    let (one, other) = (a.followed_by(b), other.followed_by(a));
                    assert_eq!(one == other, same(one, other), "{one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn changes_compose_bit_by_bit() {
        let change = |bits: &[(u32, XorBitSource)]| PacketChange {
            bit_sources: bits.iter().cloned().collect(),
            ..PacketChange::default()
        };
        let copy = change(&[(1, XorBitSource::from_level(2, true))]);
        let set =
            change(&[(2, XorBitSource::constant(true)), (1, XorBitSource::from_level(1, true))]);
        let mut same = |level| level;
        // 1 is a flipped copy of 2, flipped again: 2 unchanged.
        let both = copy.followed_by(&set, 10, &mut same);
        assert_eq!(
            both,
            change(&[(1, XorBitSource::from_level(2, false)), (2, XorBitSource::constant(true))])
        );
        let other_way = set.followed_by(&copy, 10, &mut same);
        assert_eq!(other_way.bit_sources[&1], XorBitSource::constant(false));
        let twice = change(&[(1, XorBitSource::from_level(1, true))]);
        assert_eq!(twice.followed_by(&twice, 10, &mut same), PacketChange::default());
    }
}
