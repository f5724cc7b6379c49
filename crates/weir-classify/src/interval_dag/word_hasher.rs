//! Hashes of lists of words. The construction looks up hundreds of thousands of short lists; the
//! library's hash, which resists chosen collisions, would be a third of its time. What collides
//! here costs time alone, since contents are compared.

use std::hash::{BuildHasherDefault, Hasher};

/// Builds [`WordHasher`]s.
pub(super) type BuildWordHasher = BuildHasherDefault<WordHasher>;

/// Multiply and rotate, eight bytes a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WordHasher(u64);

impl WordHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.add(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.add(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}
