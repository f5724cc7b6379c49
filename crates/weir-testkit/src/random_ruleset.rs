//! Rulesets by chance, and edits of rulesets, as text: the same for the same seed, everywhere.
//!
//! [`generate_ruleset`] writes `iptables-save` text, weighted like published rulesets.
//! [`make_probably_meaning_changing_edit`] changes one rule so that the meaning probably changes;
//! [`make_meaning_preserving_edit`] changes the text so that it cannot.

mod rare_modules;
mod ruleset_edit;
mod ruleset_writer;

pub use rare_modules::format_fixed_ipset_text;
pub use ruleset_edit::{
    RandomRulesetEdit, make_meaning_preserving_edit, make_probably_meaning_changing_edit,
};
pub use ruleset_writer::{RulesetShape, generate_ruleset};

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
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`, which is above 0.
    pub fn number_below(&mut self, end: usize) -> usize {
        (self.next_u64() % end as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub fn chance_percent(&mut self, percent: usize) -> bool {
        self.number_below(100) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.number_below(of.len())]
    }

    /// One of several, each as often as its weight says.
    pub fn pick_weighted<T: Copy>(&mut self, of: &[(usize, T)]) -> T {
        let mut at = self.number_below(of.iter().map(|(weight, _)| weight).sum());
        for (weight, what) in of {
            if at < *weight {
                return *what;
            }
            at -= weight;
        }
        unreachable!("below the sum of the weights")
    }
}
