//! The steps that the proofs of one command share.

/// Steps that are left for the proofs of a command. Each proof may use half of them and the last
/// one all, so that one that never ends leaves something for the others, and what a proof does not
/// use is there for the next. Steps are those of
/// [`CompareOptions::steps_max`](crate::CompareOptions::steps_max).
///
/// ```
/// use weir_diagram::ProofBudget;
///
/// let mut budget = ProofBudget::new(100);
/// assert_eq!(budget.steps_for_next_proof(true), 50);
/// budget.spend(20);
/// assert_eq!(budget.steps_for_next_proof(false), 80);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofBudget {
    steps_left: u64,
    steps_spent: u64,
}

impl ProofBudget {
    /// So many steps for all proofs.
    pub const fn new(steps: u64) -> ProofBudget {
        ProofBudget { steps_left: steps, steps_spent: 0 }
    }

    /// What the next proof may use; `more_follow` states whether others come after it.
    pub const fn steps_for_next_proof(&self, more_follow: bool) -> u64 {
        if more_follow { self.steps_left / 2 } else { self.steps_left }
    }

    /// Takes what a proof used.
    pub const fn spend(&mut self, steps: u64) {
        self.steps_left = self.steps_left.saturating_sub(steps);
        self.steps_spent += steps;
    }

    /// What all proofs used so far.
    pub const fn steps_spent(&self) -> u64 {
        self.steps_spent
    }
}
