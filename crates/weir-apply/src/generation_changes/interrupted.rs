//! Recovery of interrupted changes and of missed confirmations.
//!
//! An interrupted apply is undone and an interrupted rollback is completed: both lead to a ruleset
//! that was in force before. A table that matches neither of the two generations was changed by
//! another program: it is saved as a generation, and it is left unchanged if it only has rules in
//! addition to those that are restored.

use super::foreign_changes::find_foreign_table_changes;
use super::{
    LockedGenerations, RecoveredChange, read_ruleset_completed_from_baseline,
    read_tables_and_sets_in_force,
};
use crate::ApplyOperationError;
use crate::state_store::{
    GenerationKind, GenerationOutcome, Journal, JournalOperation, JournalStage,
};

impl LockedGenerations {
    pub(super) fn recover_interrupted_or_overdue_change(
        &mut self,
    ) -> Result<(), ApplyOperationError> {
        let Some(journal) = self.store.read_journal()? else { return Ok(()) };
        if journal.boot_id != weir_kernel::boot_clock::read_boot_id()? {
            if journal.operation == JournalOperation::Rollback {
                self.record_rolled_back([journal.from, journal.to], &journal.reason)?;
                self.record_restored(journal.to)?;
                return self.store.remove_journal();
            }
            if journal.stage == JournalStage::InForce && !self.is_unconfirmed(&journal)? {
                self.record_boot_generation(journal.to)?;
                return self.store.remove_journal();
            }
            self.recovered.push(RecoveredChange {
                sentence: format!(
                    "generation {} was not confirmed before the machine was rebooted, and is not \
                     in force",
                    journal.to
                ),
                rolled_back: [journal.to, journal.from],
            });
            self.record_outcome(journal.to, &rolled_back_outcome("the machine was rebooted"))?;
            return self.store.remove_journal();
        }
        match (journal.stage, journal.operation) {
            (JournalStage::InForce, _) if journal.is_overdue() => {
                self.roll_back_unconfirmed(&journal)
            }
            (JournalStage::InForce, operation) => {
                self.store.write_current(journal.to, journal.baseline)?;
                if operation == JournalOperation::Rollback {
                    self.record_rolled_back([journal.from, journal.to], &journal.reason)?;
                    self.record_restored(journal.to)?;
                } else if self.is_unconfirmed(&journal)? {
                    return Ok(());
                } else {
                    self.record_boot_generation(journal.to)?;
                }
                self.store.remove_journal()
            }
            (JournalStage::Changing, JournalOperation::Apply) => {
                let in_force =
                    self.restore_after_interruption(&journal, journal.from, journal.to)?;
                self.recovered.push(RecoveredChange {
                    sentence: format!(
                        "the interrupted apply of generation {} was undone: generation {in_force} \
                         is in force",
                        journal.to
                    ),
                    rolled_back: [journal.to, in_force],
                });
                self.record_outcome(journal.to, &rolled_back_outcome("its apply was interrupted"))?;
                self.store.write_current(in_force, journal.baseline)?;
                self.store.remove_journal()
            }
            (JournalStage::Changing, JournalOperation::Rollback) => {
                let in_force =
                    self.restore_after_interruption(&journal, journal.to, journal.from)?;
                self.recovered.push(RecoveredChange {
                    sentence: format!(
                        "the interrupted rollback to generation {} was completed: generation \
                         {in_force} is in force",
                        journal.to
                    ),
                    rolled_back: [journal.from, in_force],
                });
                self.record_rolled_back([journal.from, journal.to], &journal.reason)?;
                self.store.write_current(in_force, journal.baseline)?;
                self.record_restored(in_force)?;
                self.store.remove_journal()
            }
        }
    }

    /// Whether a generation that was applied still waits for its confirmation.
    fn is_unconfirmed(&self, journal: &Journal) -> Result<bool, ApplyOperationError> {
        let outcome = self.store.read_generation_record(journal.to)?.outcome;
        Ok(journal.confirm_seconds.is_some() && outcome != GenerationOutcome::Confirmed)
    }

    /// Restores a generation from any state between it and another one. Returns the generation that
    /// is then in force: a new one if a table with foreign changes is kept.
    fn restore_after_interruption(
        &self,
        journal: &Journal,
        wanted: u32,
        other: u32,
    ) -> Result<u32, ApplyOperationError> {
        let (store, baseline) = (&self.store, journal.baseline);
        let mut tables = store.read_ruleset(wanted)?.tables();
        tables.extend(store.read_ruleset(other)?.tables());
        tables.sort();
        tables.dedup();
        let mut wanted_ruleset =
            read_ruleset_completed_from_baseline(store, wanted, baseline, &tables)?;
        let other_ruleset = read_ruleset_completed_from_baseline(store, other, baseline, &tables)?;
        let present = read_tables_and_sets_in_force(&tables, &[&wanted_ruleset, &other_ruleset])?;
        let other_record = store.read_generation_record(other)?;
        let rulesets = [&wanted_ruleset, &other_ruleset];
        let mut foreign =
            find_foreign_table_changes(rulesets, other_record.artefact_id(), &present.ruleset);
        if journal.operation == JournalOperation::Rollback && journal.confirm_seconds.is_some() {
            // A deadline has passed: foreign changes may be what locks the administrator out.
            foreign.tables_to_overwrite.append(&mut foreign.tables_with_added_rules);
        }
        let command = ["weir".to_owned(), "supervise".to_owned()];
        if !foreign.tables_to_overwrite.is_empty() {
            let saved = self.save_changes_by_others(other, present.ruleset.clone(), &command);
            // A rollback at the deadline does not depend on free disk space.
            if journal.confirm_seconds.is_none() {
                saved?;
            }
        }
        for table in &foreign.tables_with_added_rules {
            let text = present.ruleset.legacy_tables[table].clone();
            wanted_ruleset.legacy_tables.insert(*table, text);
        }
        self.change_ruleset_to(&present, &wanted_ruleset)?;
        if foreign.tables_with_added_rules.is_empty() {
            return Ok(wanted);
        }
        let mut in_force = read_tables_and_sets_in_force(&tables, &[&wanted_ruleset])?.ruleset;
        in_force.sets.retain(|set, _| wanted_ruleset.sets.contains_key(set));
        self.save_changes_by_others(wanted, in_force, &command)
    }

    /// Records that a rollback from one generation to another ended the first. If another program
    /// had changed its ruleset, `from` is the snapshot of the changed ruleset, and the generation that
    /// was changed has ended, too.
    pub(super) fn record_rolled_back(
        &self,
        [from, to]: [u32; 2],
        reason: &str,
    ) -> Result<(), ApplyOperationError> {
        let outcome = rolled_back_outcome(reason);
        self.record_outcome(from, &outcome)?;
        let record = self.store.read_generation_record(from)?;
        let changed = record.previous.filter(|_| record.kind == GenerationKind::Snapshot);
        if let Some(changed) = changed.filter(|changed| *changed != to) {
            // The rollback does not need this generation: if its record is lost, nothing fails.
            let _ = self.record_outcome(changed, &outcome);
        }
        Ok(())
    }

    pub(super) fn record_outcome(
        &self,
        generation: u32,
        outcome: &GenerationOutcome,
    ) -> Result<(), ApplyOperationError> {
        let mut record = self.store.read_generation_record(generation)?;
        record.outcome = outcome.clone();
        self.store.write_generation_record(&record)
    }
}

pub(super) fn rolled_back_outcome(reason: &str) -> GenerationOutcome {
    GenerationOutcome::RolledBack { reason: reason.to_owned() }
}
