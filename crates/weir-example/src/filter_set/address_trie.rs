//! Random addresses that share prefixes as those of real filter sets do.
//!
//! ClassBench states for each level of the binary trie of addresses how probable it is that a
//! prefix continues in both ways, and how unequal the two are. Here a hash of the prefix decides
//! both, so that the trie needs no memory and does not depend on the order of draws.

use weir_random::Rng;

/// How the trie of addresses branches.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressBranching {
    /// For each octet, the share of prefixes with two continuations.
    pub(super) two_child_percent_of_octet: [u64; 4],
    /// Whether one of two continuations is drawn more often than the other.
    pub(super) is_skewed: bool,
}

impl AddressBranching {
    /// Of sets that need more addresses: prefixes longer than 8 branch more often, by
    /// `percent_points` up to 95 %.
    pub(super) fn with_more_branches(mut self, percent_points: u64) -> AddressBranching {
        for percent in self.two_child_percent_of_octet[1..].iter_mut().filter(|p| **p < 95) {
            *percent = (*percent + percent_points).min(95);
        }
        self
    }
}

/// Which addresses exist, and how often each is drawn.
pub(super) struct AddressTrie {
    seed: u64,
    branching: AddressBranching,
}

impl AddressTrie {
    pub(super) fn new(seed: u64, purpose: &str, branching: AddressBranching) -> AddressTrie {
        AddressTrie { seed: Rng::for_purpose(seed, purpose).next_u64(), branching }
    }

    /// An address of the trie down to `len`, at most 32, bits; later bits are 0.
    pub(super) fn draw_address(&self, random: &mut Rng, len: u32) -> u32 {
        let AddressTrie { seed, branching } = self;
        let mut address = 0;
        for level in 0..len {
            let bit = 1 << (31 - level);
            let node = u64::from(address) << 8 | u64::from(level);
            let hash = Rng::new(seed ^ node.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64();
            let is_usual_bit_set = hash >> 63 == 1;
            let branches = hash % 100 < branching.two_child_percent_of_octet[level as usize / 8];
            let usual_percent =
                if branching.is_skewed { 50 + (hash >> 32) as usize % 40 } else { 50 };
            let is_usual = !branches || random.chance_percent(usual_percent);
            if is_usual == is_usual_bit_set {
                address |= bit;
            }
        }
        address
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn only_octets_that_branch_differ() {
        let branching =
            AddressBranching { two_child_percent_of_octet: [100, 0, 0, 100], is_skewed: true };
        let trie = AddressTrie::new(1, "test", branching);
        let mut random = Rng::new(1);
        let drawn: Vec<u32> = (0..5000).map(|_| trie.draw_address(&mut random, 32)).collect();
        let distinct = |shift: u32| drawn.iter().map(|a| a >> shift).collect::<HashSet<_>>().len();
        assert!(distinct(24) > 100, "the first octet branches: {}", distinct(24));
        assert_eq!(distinct(24), distinct(8), "the two in the middle do not");
        assert!(distinct(0) > 2 * distinct(8));
    }
}
