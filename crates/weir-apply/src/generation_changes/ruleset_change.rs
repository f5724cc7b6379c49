//! Execution of the steps from the ruleset in force to another one.

use std::cell::RefCell;

use super::{LockedGenerations, read_tables_and_sets_in_force};
use crate::ApplyOperationError;
use crate::apply_steps::{ApplyStep, plan_apply_steps};
use crate::kernel_ruleset::{
    FamilyTable, KernelRulesetTexts, RulesetInForce, are_texts_equal_except_counters,
    find_artefact_mark,
};
use crate::rule_counters::{CountersByCounterLocation, read_counters_in_force};
use crate::step_execution::StepExecution;

impl LockedGenerations {
    /// Plans the steps from `present` to `wanted` and executes them. Returns the counters of tables
    /// of legacy iptables at their replacement.
    pub(super) fn change_ruleset_to(
        &self,
        present: &RulesetInForce,
        wanted: &KernelRulesetTexts,
    ) -> Result<CountersByCounterLocation, ApplyOperationError> {
        let execution = StepExecution {
            expected: &present.ruleset,
            wanted,
            lock: self.lock.file(),
            replaced_counters: RefCell::default(),
        };
        let missing_sets = execution.create_missing_foreign_sets()?;
        let mut not_restored = Vec::new();
        for mut step in plan_apply_steps(present, wanted) {
            exclude_tables_from_removal(&mut step, &not_restored);
            match (execution.run(&step), &step) {
                // Another program uses a set of weir: all rules are in force, and the set is left
                // in place.
                (Err(_), ApplyStep::DestroySet { .. }) | (Ok(()), _) => {}
                // The other tables are still restored.
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

    /// Creates the sets of other programs that rules of a recorded ruleset use, if they are missing.
    pub(super) fn create_missing_foreign_sets_of(
        &self,
        recorded: &KernelRulesetTexts,
    ) -> Result<(), ApplyOperationError> {
        let execution = StepExecution {
            expected: recorded,
            wanted: recorded,
            lock: self.lock.file(),
            replaced_counters: RefCell::default(),
        };
        match execution.create_missing_foreign_sets()?.into_iter().next() {
            Some((set, cause)) => {
                Err(ApplyOperationError::SetNotRestored { set, cause: Box::new(cause) })
            }
            None => Ok(()),
        }
    }

    /// Reads the current counters of the tables and sets of `present`.
    pub(super) fn read_current_counters(
        &self,
        present: &KernelRulesetTexts,
    ) -> Result<CountersByCounterLocation, ApplyOperationError> {
        read_counters_in_force(
            &read_tables_and_sets_in_force(&present.tables(), &[present])?.ruleset,
        )
    }

    /// Restores `wanted` from any state between it and `other`.
    pub(super) fn undo_partial_change(
        &self,
        wanted: &KernelRulesetTexts,
        other: &KernelRulesetTexts,
    ) -> Result<(), ApplyOperationError> {
        let tables: Vec<_> = wanted.legacy_tables.keys().copied().collect();
        let present = read_tables_and_sets_in_force(&tables, &[wanted, other])?;
        let mut back = wanted.clone();
        for (table, text) in &present.ruleset.legacy_tables {
            let new = other.legacy_tables.get(table).map(String::as_str).unwrap_or_default();
            let is_new = find_artefact_mark(text)
                .is_some_and(|id| find_artefact_mark(new) == Some(id))
                || are_texts_equal_except_counters(new, text);
            if !is_new {
                // It was not replaced, or another program changed it in the meantime: it is left
                // unchanged.
                back.legacy_tables.insert(*table, text.clone());
            }
        }
        self.change_ruleset_to(&present, &back).map(drop)
    }
}

/// Keeps nft tables whose replacements in legacy iptables could not be loaded.
fn exclude_tables_from_removal(step: &mut ApplyStep, not_restored: &[FamilyTable]) {
    match step {
        ApplyStep::RemoveNftTables { tables }
        | ApplyStep::RemoveNftCopies { tables }
        | ApplyStep::RecreateNftTables { removed: tables, .. } => {
            tables.retain(|table| !not_restored.contains(table));
        }
        ApplyStep::DestroySpareSet { .. }
        | ApplyStep::CreateSet { .. }
        | ApplyStep::FillSpareSet { .. }
        | ApplyStep::AddNftCopies { .. }
        | ApplyStep::ReplaceLegacyTable { .. }
        | ApplyStep::ReplaceNftTables { .. }
        | ApplyStep::SwapSet { .. }
        | ApplyStep::DestroySet { .. } => {}
    }
}
