//! From what is in force to a ruleset, by steps.

use std::cell::RefCell;

use super::{LockedGenerations, read_tables_and_sets_in_force};
use crate::ApplyOperationError;
use crate::apply_steps::{ApplyStep, plan_apply_steps};
use crate::kernel_ruleset::{
    FamilyTable, KernelRuleset, RulesetInForce, find_artefact_mark, have_equal_rules,
};
use crate::rule_counters::{CountersByLocation, read_counters_in_force};
use crate::step_execution::StepExecution;

impl LockedGenerations {
    /// Plans the steps from `present` to `wanted` and carries them out. Returns what tables of
    /// legacy iptables had counted when they were replaced.
    pub(super) fn change_ruleset_to(
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
        let missing_sets = execution.restore_foreign_sets()?;
        let mut not_restored = Vec::new();
        for mut step in plan_apply_steps(present, wanted) {
            exclude_tables_from_removal(&mut step, &not_restored);
            match (execution.run(&step), &step) {
                // Somebody else uses a set of weir: all that packets traverse is in force, and the
                // set is left.
                (Err(_), ApplyStep::DestroySet { .. }) | (Ok(()), _) => {}
                // The other tables are restored all the same.
                (Err(_), ApplyStep::ReplaceLegacyTable { table })
                    if missing_sets
                        .iter()
                        .any(|(set, _)| wanted.table_has_rule_naming_set(*table, set)) =>
                {
                    not_restored.push(*table);
                }
                (Err(error), _) => return Err(error),
            }
        }
        match missing_sets.into_iter().next() {
            Some((set, cause)) => {
                Err(ApplyOperationError::SetNotRestored { set, cause: Box::new(cause) })
            }
            None => Ok(execution.replaced_counters.into_inner()),
        }
    }

    /// Reads the counters of all that `present` has, as they are now.
    pub(super) fn read_current_counters(
        &self,
        present: &KernelRuleset,
    ) -> Result<CountersByLocation, ApplyOperationError> {
        read_counters_in_force(
            &read_tables_and_sets_in_force(&present.tables(), &[present])?.ruleset,
        )
    }

    /// Goes to `wanted` from whatever is in force of it and of `other`.
    pub(super) fn restore_ruleset(
        &self,
        wanted: &KernelRuleset,
        other: &KernelRuleset,
    ) -> Result<(), ApplyOperationError> {
        let tables: Vec<_> = wanted.legacy_tables.keys().copied().collect();
        let present = read_tables_and_sets_in_force(&tables, &[wanted, other])?;
        let mut back = wanted.clone();
        for (table, text) in &present.ruleset.legacy_tables {
            let new = other.legacy_tables.get(table).map(String::as_str).unwrap_or_default();
            let is_new = find_artefact_mark(text)
                .is_some_and(|id| find_artefact_mark(new) == Some(id))
                || have_equal_rules(new, text);
            if !is_new {
                // It was not replaced, or somebody else changed it meanwhile: it stays as it is.
                back.legacy_tables.insert(*table, text.clone());
            }
        }
        self.change_ruleset_to(&present, &back).map(drop)
    }
}

/// nft tables that stand for tables of legacy iptables that could not be restored stay.
fn exclude_tables_from_removal(step: &mut ApplyStep, not_restored: &[FamilyTable]) {
    match step {
        ApplyStep::RemoveNftTables { tables }
        | ApplyStep::RemoveNftCopies { tables }
        | ApplyStep::RecreateNftTables { removed: tables, .. } => {
            tables.retain(|table| !not_restored.contains(table));
        }
        _ => {}
    }
}
