//! Rulesets by chance, and edits of rulesets, as text: the same for the same seed, everywhere.
//!
//! [`ruleset`] writes `iptables-save` text, weighted like published rulesets. [`semantic_edit`]
//! changes one rule so that the meaning probably changes; [`neutral_edit`] changes the text so that
//! it cannot.

mod edit;
mod rules;
mod wide;

pub use edit::{RandomEdit, neutral_edit, semantic_edit};
pub use rules::{RulesShape, ruleset};
pub use wide::sets;

/// Numbers by chance: splitmix64, whose sequence is its seed's alone.
#[derive(Clone, Debug)]
pub struct TestRng(u64);

impl TestRng {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        TestRng(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is above 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// One of several, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, of: &[(usize, T)]) -> T {
        let mut at = self.below(of.iter().map(|(weight, _)| weight).sum());
        for (weight, what) in of {
            if at < *weight {
                return *what;
            }
            at -= weight;
        }
        unreachable!("below the sum of the weights")
    }
}
