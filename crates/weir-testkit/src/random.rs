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

use weir_random::Rng;

/// Choices of tests. A number below another is the remainder of the bits, unlike those of
/// [`Rng`]: seeds that found something stand in tests.
#[derive(Clone, Debug)]
pub struct TestRng(Rng);

impl TestRng {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        TestRng(Rng::new(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.bits()
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
