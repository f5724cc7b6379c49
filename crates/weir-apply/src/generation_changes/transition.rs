//! From what is in force to a ruleset, by steps.

use std::cell::RefCell;

use super::{LockedGenerations, read_present};
use crate::ApplyOperationError;
use crate::apply_steps::plan_steps;
use crate::kernel_ruleset::{KernelRuleset, RulesetInForce};
use crate::rule_counters::{CountersByLocation, read_counters_in_force};
use crate::step_execution::StepExecution;

impl LockedGenerations {
    /// Plans the steps from `present` to `wanted` and carries them out. Returns what tables of
    /// legacy iptables had counted when they were replaced.
    pub(super) fn change_to(
        &self,
        present: &RulesetInForce,
        wanted: &KernelRuleset,
    ) -> Result<CountersByLocation, ApplyOperationError> {
        let execution = StepExecution {
            expected: &present.ruleset,
            wanted,
            lock: self.lock.file(),
            replaced_counters: RefCell::default(),
        };
        for step in plan_steps(present, wanted) {
            execution.run(&step)?;
        }
        Ok(execution.replaced_counters.into_inner())
    }

    /// Reads the counters of all that `present` has, as they are now.
    pub(super) fn read_counters_now(
        &self,
        present: &KernelRuleset,
    ) -> Result<CountersByLocation, ApplyOperationError> {
        read_counters_in_force(&read_present(&present.tables(), &[present])?.ruleset)
    }

    /// Goes to `wanted` from whatever is in force of it and of `other`.
    pub(super) fn go_back_to(
        &self,
        wanted: &KernelRuleset,
        other: &KernelRuleset,
    ) -> Result<(), ApplyOperationError> {
        let tables: Vec<_> = wanted.legacy_tables.keys().copied().collect();
        let present = read_present(&tables, &[wanted, other])?;
        self.change_to(&present, wanted).map(drop)
    }
}
