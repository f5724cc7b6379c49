//! A small seeded generator (SplitMix64): the same numbers on every machine, for ever.

/// A stream of numbers that depends on its seed alone.
pub(crate) struct ExampleRng {
    state: u64,
}

impl ExampleRng {
    /// A stream. `purpose` keeps streams of one seed apart.
    pub(crate) fn new(seed: u64, purpose: &str) -> ExampleRng {
        // FNV-1a of the purpose: a new stream must not shift the ones that exist.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in purpose.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        ExampleRng { state: seed ^ hash }
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "nothing is below 0");
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `all`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_stream() {
        // First values of SplitMix64 from state 0 (Steele, Lea, Flood 2014; Vigna's splitmix64.c).
        let mut random = ExampleRng { state: 0 };
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn purposes_keep_streams_apart() {
        assert_eq!(ExampleRng::new(1, "a").next(), ExampleRng::new(1, "a").next());
        assert_ne!(ExampleRng::new(1, "a").next(), ExampleRng::new(1, "b").next());
    }

    #[test]
    fn below_reaches_both_ends_and_no_further() {
        let mut random = ExampleRng::new(1, "ends");
        let seen: std::collections::BTreeSet<usize> = (0..1000).map(|_| random.below(5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
