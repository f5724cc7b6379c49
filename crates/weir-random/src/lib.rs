//! Random numbers that a seed determines, on every machine and in every version.
//!
//! Seeds stand in studies, records, artefacts and tests: the same seed must mean the same packets,
//! the same intervals and the same example in every version. So the path from the bits to a choice
//! is part of the definition, and no crate that may change it is used.

#![forbid(unsafe_code)]

/// SplitMix64: small, good enough for resampling, shuffling and tests, never for secrets.
///
/// # Source
/// Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
///
/// ```
/// use weir_random::Rng;
///
/// let mut rng = Rng::new(1_234_567);
/// assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
/// assert!(rng.below(6) < 6);
/// ```
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// A generator for one of several purposes of a seed: what one of them draws does not shift
    /// the numbers of another.
    pub fn for_purpose(seed: u64, purpose: &str) -> Rng {
        // FNV-1a.
        let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Rng(seed ^ purpose.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next 128 bits.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// A number below `bound`, which is above 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "no number is below 0");
        // The bias of the multiply is below bound / 2^64.
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A number between two, both included.
    pub fn between(&mut self, low: u128, high: u128) -> u128 {
        match (high - low).checked_add(1) {
            Some(count) => low + self.next_u128() % count,
            None => self.next_u128(),
        }
    }

    /// True in `percent` of 100 cases.
    pub fn chance_percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of several, of which there is at least one.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// One of several; `None` where there is none.
    pub fn pick_if_any<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| self.pick(of))
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        // The first values of Vigna's splitmix64.c.
        let mut rng = Rng::new(0);
        assert_eq!(
            [rng.next_u64(), rng.next_u64()],
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]
        );
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn different_purposes_give_different_sequences() {
        let first = |purpose| Rng::for_purpose(1, purpose).next_u64();
        assert_eq!(first("a"), first("a"));
        assert_ne!(first("a"), first("b"));
    }

    #[test]
    fn random_numbers_cover_exactly_their_range() {
        let mut rng = Rng::new(1);
        let seen: std::collections::BTreeSet<usize> = (0..1000).map(|_| rng.below(5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert!((0..1000).all(|_| (3..=5).contains(&rng.between(3, 5))));
    }

    #[test]
    fn shuffling_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::new(7).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
