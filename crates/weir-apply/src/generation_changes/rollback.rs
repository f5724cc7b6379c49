//! Restoring an earlier generation.

use super::foreign_changes::add_foreign_sets;
use super::{
    LockedGenerations, RecoveredChange, StartSupervisor, check_unchanged_by_others,
    read_original_rules, read_ruleset_completed_from_baseline, read_tables_and_sets_in_force,
    require_generation_and_baseline,
};
use crate::ApplyOperationError;
use crate::apply_steps::plan_apply_steps;
use crate::kernel_ruleset::{KernelRulesetTexts, are_texts_equal_except_counters};
use crate::rule_counters::{add_counts_during_change, carry_counters};
use crate::state_store::{
    GenerationKind, GenerationOutcome, Journal, JournalOperation, JournalStage,
};

/// The reason recorded for a rollback by command.
const REQUESTED_ROLLBACK_REASON: &str = "weir rollback";

/// The result of a rollback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredGeneration {
    /// The generation that was in force.
    pub from: u32,
    /// The generation that is in force now.
    pub to: u32,
}

impl LockedGenerations {
    /// Restores a generation, by default the one before the current one. Without a number, a
    /// rollback that recovered an interrupted or overdue change is what was asked for.
    ///
    /// # Errors
    /// If there is none, or another program changed the current one and `ignores_foreign_changes`
    /// is not set. If it is set, the changed ruleset is saved as a generation of its own.
    pub fn roll_back(
        &mut self,
        generation: Option<u32>,
        ignores_foreign_changes: bool,
        start_supervisor: StartSupervisor<'_>,
    ) -> Result<RestoredGeneration, ApplyOperationError> {
        let (current, _) =
            require_generation_and_baseline(&self.store.read_current_of_this_boot()?)?;
        let to = match generation {
            Some(generation) => generation,
            None => {
                // This command has just done it: see `LockedGenerations::recovered`.
                if let Some(RecoveredChange { rolled_back: [from, to], .. }) = self.recovered.last()
                {
                    return Ok(RestoredGeneration { from: *from, to: *to });
                }
                self.refuse_rollback_after_automatic_rollback(current)?;
                self.store.read_generation_record(current)?.previous.ok_or_else(|| {
                    ApplyOperationError::Refused(format!("generation {current} is the first one"))
                })?
            }
        };
        if to == current && self.is_recorded_ruleset_in_force(current)? {
            return Err(ApplyOperationError::Refused(format!(
                "generation {to} is already in force"
            )));
        }
        let from = self.restore_generation(
            to,
            REQUESTED_ROLLBACK_REASON,
            ignores_foreign_changes,
            start_supervisor,
        )?;
        Ok(RestoredGeneration { from, to })
    }

    /// Whether the tables and sets of the current generation are as it recorded them, but for
    /// counters.
    fn is_recorded_ruleset_in_force(&self, current: u32) -> Result<bool, ApplyOperationError> {
        let recorded = self.store.read_ruleset(current)?;
        let present = read_tables_and_sets_in_force(&recorded.tables(), &[&recorded])?.ruleset;
        Ok(check_unchanged_by_others(&recorded, &present, current).is_ok())
    }

    /// Refuses a rollback without a number after an automatic rollback: the generation that the
    /// user wants to leave has already been rolled back.
    fn refuse_rollback_after_automatic_rollback(
        &self,
        current: u32,
    ) -> Result<(), ApplyOperationError> {
        // Later snapshots contain foreign changes.
        let mut in_force = current;
        let mut records = Vec::new();
        for generation in self.store.list_generations()?.into_iter().rev() {
            let record = self.store.read_generation_record(generation)?;
            if record.generation == in_force && record.kind == GenerationKind::Snapshot {
                in_force = record.previous.unwrap_or(in_force);
            } else if record.kind != GenerationKind::Snapshot {
                records.push(record);
                break;
            }
        }
        let Some(record) = records.pop() else { return Ok(()) };
        let newest = record.generation;
        let GenerationOutcome::RolledBack { reason } = &record.outcome else { return Ok(()) };
        if reason == REQUESTED_ROLLBACK_REASON || record.previous != Some(in_force) {
            return Ok(());
        }
        Err(ApplyOperationError::Refused(format!(
            "generation {newest} was already rolled back because {reason}: generation {current} is in \
             force; to go back further, give the generation: weir rollback NUMBER"
        )))
    }

    /// Puts a generation in force again. Returns the one that was in force: if it was changed by
    /// another program, the one that its changed ruleset was saved as.
    pub(super) fn restore_generation(
        &mut self,
        to: u32,
        reason: &str,
        ignores_foreign_changes: bool,
        start_supervisor: StartSupervisor<'_>,
    ) -> Result<u32, ApplyOperationError> {
        let (current, baseline) =
            require_generation_and_baseline(&self.store.read_current_of_this_boot()?)?;
        let target = self.store.read_generation_record(to)?;
        if target.outcome == GenerationOutcome::Prepared {
            return Err(ApplyOperationError::Refused(format!(
                "generation {to} was never in force: apply its files instead"
            )));
        }
        let recorded = self.store.read_ruleset(current)?;
        let mut tables = recorded.tables();
        tables.extend(self.store.read_ruleset(to)?.tables());
        tables.sort();
        tables.dedup();
        let mut wanted = read_ruleset_completed_from_baseline(&self.store, to, baseline, &tables)?;
        let present = read_tables_and_sets_in_force(&tables, &[&recorded, &wanted])?;
        let from = self.save_outgoing_generation(
            &recorded,
            &present.ruleset,
            ignores_foreign_changes,
            &["weir".to_owned(), "rollback".to_owned()],
        )?;
        let originals =
            [read_original_rules(&self.store, from)?, read_original_rules(&self.store, to)?];
        let pending = self.store.read_journal()?;
        let boot_id = weir_kernel::boot_clock::read_boot_id()?;
        let ids = [from, to, baseline];
        let mut journal = Journal::new_change(JournalOperation::Rollback, ids, boot_id);
        reason.clone_into(&mut journal.reason);
        journal.steps = plan_apply_steps(&present, &wanted);
        journal.supervisor = Some(start_supervisor()?);
        self.store.write_journal(&journal)?;
        let mut change = || {
            let counters = self.read_current_counters(&present.ruleset)?;
            carry_counters(&originals[0], &counters, &originals[1], &mut wanted);
            let replaced = self.change_ruleset_to(&present, &wanted)?;
            add_counts_during_change(&originals[0], [&counters, &replaced], &originals[1])
        };
        if let Err(cause) = change() {
            let back = read_ruleset_completed_from_baseline(&self.store, from, baseline, &tables)?;
            if let Err(undo) = self.undo_partial_change(&back, &wanted) {
                let (cause, undo) = (Box::new(cause), Box::new(undo));
                return Err(ApplyOperationError::UndoFailed { cause, generation: from, undo });
            }
            match pending {
                Some(pending) => self.store.write_journal(&pending)?,
                None => self.store.remove_journal()?,
            }
            return Err(cause);
        }
        journal.stage = JournalStage::InForce;
        self.store.write_journal(&journal)?;
        self.store.write_current(to, baseline)?;
        self.record_rolled_back([from, to], reason)?;
        self.record_restored(to)?;
        self.store.remove_journal()?;
        self.check_restored_legacy_tables(&wanted)?;
        Ok(from)
    }

    /// Compares the ruleset in force with the restored one.
    fn check_restored_legacy_tables(
        &self,
        wanted: &KernelRulesetTexts,
    ) -> Result<(), ApplyOperationError> {
        let tables: Vec<_> = wanted.legacy_tables.keys().copied().collect();
        let present = read_tables_and_sets_in_force(&tables, &[wanted])?.ruleset;
        for (table, text) in &wanted.legacy_tables {
            if !are_texts_equal_except_counters(text, &present.legacy_tables[table]) {
                return Err(ApplyOperationError::Refused(format!(
                    "table {table} was restored, but the kernel now lists other rules"
                )));
            }
        }
        Ok(())
    }

    /// Saves the ruleset in force, with counters, in the current generation. With
    /// `ignores_foreign_changes`, a changed ruleset is saved as a generation of its own. Returns
    /// the generation that is in force.
    pub(super) fn save_outgoing_generation(
        &mut self,
        recorded: &KernelRulesetTexts,
        present: &KernelRulesetTexts,
        ignores_foreign_changes: bool,
        command: &[String],
    ) -> Result<u32, ApplyOperationError> {
        let (current, baseline) =
            require_generation_and_baseline(&self.store.read_current_of_this_boot()?)?;
        let mut leaving = present.clone();
        leaving.legacy_tables.retain(|table, _| recorded.legacy_tables.contains_key(table));
        leaving.sets.retain(|set, _| recorded.sets.contains_key(set));
        match check_unchanged_by_others(recorded, &leaving, current) {
            Ok(()) => {
                self.store.write_ruleset(current, &add_foreign_sets(leaving)?)?;
                Ok(current)
            }
            Err(_) if ignores_foreign_changes => {
                let generation = self.save_changes_by_others(current, leaving, command)?;
                self.store.write_current(generation, baseline)?;
                Ok(generation)
            }
            Err(error) => Err(error),
        }
    }
}
