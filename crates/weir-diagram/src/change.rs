//! Changes that rules make to the fields of a packet.
//!
//! A change gives for each bit that it writes the source of the new value: a constant, another bit,
//! or the exclusive or of several bits (`--set-xmark` flips, `--save-mark` copies). These are
//! affine maps, so their composition is one as well. The TTL is added to and clamped, which is also
//! closed under composition.

use std::collections::{BTreeMap, HashMap};

/// The source of a bit: the exclusive or of some bits and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct BitSource {
    /// Levels of the bits before the change, ascending, none twice.
    pub bits: Vec<u32>,
    /// Flipped in the end.
    pub flip: bool,
}

impl BitSource {
    pub const fn constant(value: bool) -> BitSource {
        BitSource { bits: Vec::new(), flip: value }
    }

    pub fn bit(level: u32, flip: bool) -> BitSource {
        BitSource { bits: vec![level], flip }
    }

    /// Adds another source, modulo two.
    pub fn xor(&mut self, other: &BitSource) {
        for level in &other.bits {
            match self.bits.binary_search(level) {
                Ok(at) => drop(self.bits.remove(at)),
                Err(at) => self.bits.insert(at, *level),
            }
        }
        self.flip ^= other.flip;
    }
}

/// `t` becomes `t + add`, but at least `lo` and at most `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TtlMap {
    add: i32,
    lo: i32,
    hi: i32,
}

impl TtlMap {
    pub const SAME: TtlMap = TtlMap { add: 0, lo: 0, hi: 255 };

    pub fn set(value: u8) -> TtlMap {
        TtlMap { add: 0, lo: value.into(), hi: value.into() }
    }

    pub fn add(by: i32) -> TtlMap {
        TtlMap { add: by, ..TtlMap::SAME }
    }

    pub fn of(self, ttl: u8) -> u8 {
        (i32::from(ttl) + self.add).clamp(self.lo, self.hi) as u8
    }

    /// This, then another.
    pub fn then(self, next: TtlMap) -> TtlMap {
        let clamp = |t: i32| (t + next.add).clamp(next.lo, next.hi);
        TtlMap { add: self.add + next.add, lo: clamp(self.lo), hi: clamp(self.hi) }
    }
}

/// What was done to a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PacketChange {
    /// New bits by level; bits that are not listed are unchanged.
    pub bits: BTreeMap<u32, BitSource>,
    /// The time to live after its bits are replaced.
    pub ttl: TtlMap,
    /// The bits of the time to live are among those replaced.
    pub writes_ttl: bool,
    /// Digests of targets that changed what no field says, in their order.
    pub unmodelled: Vec<u64>,
}

impl Default for PacketChange {
    fn default() -> Self {
        PacketChange {
            bits: BTreeMap::new(),
            ttl: TtlMap::SAME,
            writes_ttl: false,
            unmodelled: Vec::new(),
        }
    }
}

impl PacketChange {
    /// The value of a bit after this change, in terms of the bits before. `question` renames what
    /// is not a bit of a field.
    fn resolve(
        &self,
        source: &BitSource,
        fields_end: u32,
        question: &mut dyn FnMut(u32) -> u32,
    ) -> BitSource {
        let mut out = BitSource::constant(source.flip);
        for level in &source.bits {
            match self.bits.get(level) {
                Some(earlier) => out.xor(earlier),
                None if *level < fields_end => out.xor(&BitSource::bit(*level, false)),
                None => out.xor(&BitSource::bit(question(*level), false)),
            }
        }
        out
    }

    /// This, then another.
    pub fn then(
        &self,
        next: &PacketChange,
        fields_end: u32,
        question: &mut dyn FnMut(u32) -> u32,
    ) -> PacketChange {
        let mut out = PacketChange {
            bits: self.bits.clone(),
            ttl: if next.writes_ttl { next.ttl } else { self.ttl.then(next.ttl) },
            writes_ttl: self.writes_ttl || next.writes_ttl,
            unmodelled: [&self.unmodelled[..], &next.unmodelled[..]].concat(),
        };
        for (level, source) in &next.bits {
            let source = self.resolve(source, fields_end, question);
            if source == BitSource::bit(*level, false) {
                out.bits.remove(level);
            } else {
                out.bits.insert(*level, source);
            }
        }
        out
    }
}

/// Values that occurred before have the same number.
#[derive(Debug)]
pub(crate) struct ValueInterner<T> {
    numbers: HashMap<T, u32>,
    all: Vec<T>,
}

impl<T: Clone + Eq + std::hash::Hash> ValueInterner<T> {
    /// `first` has number 0.
    pub fn new(first: T) -> Self {
        let mut interner = ValueInterner { numbers: HashMap::new(), all: Vec::new() };
        interner.number(&first);
        interner
    }

    pub fn number(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.numbers.insert(value.clone(), number);
        self.all.push(value.clone());
        number
    }

    pub fn get(&self, number: u32) -> &T {
        &self.all[number as usize]
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamped_additions_compose() {
        let maps = [
            TtlMap::SAME,
            TtlMap::set(7),
            TtlMap::add(-1),
            TtlMap::add(200),
            TtlMap::add(-200).then(TtlMap::add(30)),
            TtlMap { add: 5, lo: 10, hi: 20 },
        ];
        for a in maps {
            for b in maps {
                for ttl in 0..=255 {
                    assert_eq!(a.then(b).of(ttl), b.of(a.of(ttl)), "{a:?} {b:?} {ttl}");
                }
            }
        }
    }

    #[test]
    fn changes_compose_bit_by_bit() {
        let change = |bits: &[(u32, BitSource)]| PacketChange {
            bits: bits.iter().cloned().collect(),
            ..PacketChange::default()
        };
        let copy = change(&[(1, BitSource::bit(2, true))]);
        let set = change(&[(2, BitSource::constant(true)), (1, BitSource::bit(1, true))]);
        let mut same = |level| level;
        // 1 is a flipped copy of 2, flipped again: 2 unchanged.
        let both = copy.then(&set, 10, &mut same);
        assert_eq!(both, change(&[(1, BitSource::bit(2, false)), (2, BitSource::constant(true))]));
        let other_way = set.then(&copy, 10, &mut same);
        assert_eq!(other_way.bits[&1], BitSource::constant(false));
        let twice = change(&[(1, BitSource::bit(1, true))]);
        assert_eq!(twice.then(&twice, 10, &mut same), PacketChange::default());
    }
}
