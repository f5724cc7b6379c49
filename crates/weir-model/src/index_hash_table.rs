//! A hash table of indices: finds an item of a slice by its content, without a copy of its key.

use std::hash::{Hash, Hasher};

/// Finds items of a slice by their hashes. Open addressing: a slot holds an index, and the caller
/// compares what is under it.
#[derive(Clone, Debug, Default)]
pub struct IndexHashTable {
    /// A power of two, at most half of them used; none at first.
    slots: Vec<u32>,
    used_slot_count: usize,
}

const EMPTY_INDEX_SLOT: u32 = u32::MAX;

impl IndexHashTable {
    /// A table that takes so many items before it grows.
    pub fn with_capacity(items: usize) -> IndexHashTable {
        let mut table = IndexHashTable::default();
        if items > 0 {
            table.slots = vec![EMPTY_INDEX_SLOT; (items * 2).next_power_of_two()];
        }
        table
    }

    /// The item of that hash for which `is_same` holds.
    pub fn find(&self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        self.slots
            .get(self.find_used_or_free_slot(hash, is_same)?)
            .copied()
            .filter(|i| *i != EMPTY_INDEX_SLOT)
    }

    /// Puts an item in; returns the one that was the same and is replaced. `hash_of` gives the hash
    /// of every item that is in the table.
    pub fn insert_or_replace(
        &mut self,
        index: u32,
        hash_of: impl Fn(u32) -> u64,
        is_same: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if (self.used_slot_count + 1) * 2 > self.slots.len() {
            self.grow(&hash_of);
        }
        let slot = self
            .find_used_or_free_slot(hash_of(index), is_same)
            .expect("half of the slots are free");
        let old = std::mem::replace(&mut self.slots[slot], index);
        if old == EMPTY_INDEX_SLOT {
            self.used_slot_count += 1;
            return None;
        }
        Some(old)
    }

    /// Its slot, or the free one where it would be.
    fn find_used_or_free_slot(&self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != EMPTY_INDEX_SLOT && !is_same(self.slots[slot]) {
            slot = (slot + 1) & mask;
        }
        Some(slot)
    }

    fn grow(&mut self, hash_of: &impl Fn(u32) -> u64) {
        let larger = vec![EMPTY_INDEX_SLOT; (self.slots.len() * 2).max(8)];
        let old = std::mem::replace(&mut self.slots, larger);
        for index in old.into_iter().filter(|i| *i != EMPTY_INDEX_SLOT) {
            let slot =
                self.find_used_or_free_slot(hash_of(index), |_| false).expect("it is larger");
            self.slots[slot] = index;
        }
    }
}

/// The hash of a value for an [`IndexHashTable`].
pub fn hash_for_index_table(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = MultiplicativeHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A multiplicative hash: keys are addresses and ports, and there is no attacker.
#[derive(Debug, Default)]
pub struct MultiplicativeHasher(u64);

impl Hasher for MultiplicativeHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64);
        self.write_u64((n >> 64) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_by_their_content() {
        let words: Vec<String> = (0..1000).map(|i| (i % 700).to_string()).collect();
        for capacity in [0, 3, 1000] {
            let mut table = IndexHashTable::with_capacity(capacity);
            let hash_of = |i: u32| hash_for_index_table(&words[i as usize]);
            for i in 0..1000 {
                let same = |other: u32| words[other as usize] == words[i as usize];
                let replaced = table.insert_or_replace(i, hash_of, same);
                assert_eq!(replaced, i.checked_sub(700), "item {i}");
            }
            for i in 0..700u32 {
                let same = |other: u32| words[other as usize] == words[i as usize];
                let last = if i < 300 { i + 700 } else { i };
                assert_eq!(table.find(hash_of(i), same), Some(last));
            }
            let unknown = "no number".to_owned();
            let same = |other: u32| words[other as usize] == unknown;
            assert_eq!(table.find(hash_for_index_table(&unknown), same), None);
        }
    }
}
