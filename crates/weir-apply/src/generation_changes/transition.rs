//! From what is in force to a ruleset, by steps.

use super::{LockedGenerations, read_present};
use crate::ApplyOperationError;
use crate::apply_steps::plan_steps;
use crate::kernel_ruleset::{KernelRuleset, RulesetInForce};
use crate::step_execution::StepExecution;

impl LockedGenerations {
    /// Plans the steps from `present` to `wanted` and carries them out.
    pub(super) fn change_to(
        &self,
        present: &RulesetInForce,
        wanted: &KernelRuleset,
    ) -> Result<(), ApplyOperationError> {
        let execution =
            StepExecution { expected: &present.ruleset, wanted, lock: self.lock.file() };
        for step in plan_steps(present, wanted) {
            execution.run(&step)?;
        }
        Ok(())
    }

    /// Goes to `wanted` from whatever is in force of it and of `other`.
    pub(super) fn go_back_to(
        &self,
        wanted: &KernelRuleset,
        other: &KernelRuleset,
    ) -> Result<(), ApplyOperationError> {
        let tables: Vec<_> = wanted.legacy_tables.keys().copied().collect();
        let present = read_present(&tables, &[wanted, other])?;
        self.change_to(&present, wanted)
    }
}
