//! A change that was interrupted, and a confirmation that did not come.
//!
//! An apply that was interrupted is undone, a rollback is completed: both lead to a ruleset that was
//! in force before. Of a table that is neither as the one nor as the other generation has it,
//! somebody else is the author, and it is not touched.

use super::{LockedGenerations, read_present, resolve_ruleset};
use crate::ApplyOperationError;
use crate::kernel_ruleset::{
    KernelRuleset, artefact_mark_of_text, find_text_difference, have_equal_rules,
};
use crate::state_store::{
    GenerationOutcome, GenerationRecord, Journal, JournalOperation, JournalStage,
};

impl LockedGenerations {
    pub(super) fn end_interrupted_change(
        &mut self,
        ignores_changes: bool,
    ) -> Result<(), ApplyOperationError> {
        let Some(journal) = self.store.read_journal()? else { return Ok(()) };
        if journal.boot_id != weir_kernel::boot_clock::read_boot_id()? {
            self.recovered.push(format!(
                "generation {} was not confirmed before the machine was started again, and is not \
                 in force",
                journal.to
            ));
            self.record_outcome(journal.to, &rolled_back("the machine was started again"))?;
            return self.store.remove_journal();
        }
        match (journal.stage, journal.operation) {
            (JournalStage::InForce, _) if journal.is_overdue() => self.roll_back_overdue(&journal),
            (JournalStage::InForce, operation) => {
                self.store.write_current(journal.to, journal.baseline)?;
                if operation == JournalOperation::Rollback {
                    self.record_outcome(journal.from, &rolled_back(&journal.reason))?;
                } else if journal.confirm_seconds.is_some() {
                    return Ok(());
                }
                self.store.remove_journal()
            }
            (JournalStage::Changing, JournalOperation::Apply) => {
                self.restore_interrupted(&journal, journal.from, journal.to, ignores_changes)?;
                self.recovered.push(format!(
                    "the interrupted apply of generation {} was undone: generation {} is in force",
                    journal.to, journal.from
                ));
                self.record_outcome(journal.to, &rolled_back("its apply was interrupted"))?;
                self.store.write_current(journal.from, journal.baseline)?;
                self.store.remove_journal()
            }
            (JournalStage::Changing, JournalOperation::Rollback) => {
                let ignores_changes = ignores_changes || journal.confirm_seconds.is_some();
                self.restore_interrupted(&journal, journal.to, journal.from, ignores_changes)?;
                self.recovered.push(format!(
                    "the interrupted rollback to generation {} was completed",
                    journal.to
                ));
                self.record_outcome(journal.from, &rolled_back(&journal.reason))?;
                self.store.write_current(journal.to, journal.baseline)?;
                self.store.remove_journal()
            }
        }
    }

    /// Puts a generation in force from anything between it and another one.
    fn restore_interrupted(
        &self,
        journal: &Journal,
        wanted: u32,
        other: u32,
        ignores_changes: bool,
    ) -> Result<(), ApplyOperationError> {
        let (store, baseline) = (&self.store, journal.baseline);
        let mut tables = store.read_ruleset(wanted)?.tables();
        tables.extend(store.read_ruleset(other)?.tables());
        tables.sort();
        tables.dedup();
        let wanted_ruleset = resolve_ruleset(store, wanted, baseline, &tables)?;
        let other_ruleset = resolve_ruleset(store, other, baseline, &tables)?;
        let present = read_present(&tables, &[&wanted_ruleset, &other_ruleset])?;
        if !ignores_changes {
            let other_record = store.read_generation(other)?;
            refuse_tables_of_neither(
                [&wanted_ruleset, &other_ruleset],
                &other_record,
                &present.ruleset,
            )?;
        }
        self.change_to(&present, &wanted_ruleset).map(drop)
    }

    pub(super) fn record_outcome(
        &self,
        generation: u32,
        outcome: &GenerationOutcome,
    ) -> Result<(), ApplyOperationError> {
        let mut record = self.store.read_generation(generation)?;
        record.outcome = outcome.clone();
        self.store.write_generation(&record)
    }
}

pub(super) fn rolled_back(reason: &str) -> GenerationOutcome {
    GenerationOutcome::RolledBack { reason: reason.to_owned() }
}

/// Refuses tables that neither of two generations put in force. The kernel prints what a generation
/// loaded in other words than its artefact: then the mark of the artefact tells.
fn refuse_tables_of_neither(
    [wanted, other]: [&KernelRuleset; 2],
    other_record: &GenerationRecord,
    present: &KernelRuleset,
) -> Result<(), ApplyOperationError> {
    for (table, text) in &present.legacy_tables {
        let is_of = |ruleset: &KernelRuleset| {
            ruleset.legacy_tables.get(table).is_some_and(|known| have_equal_rules(known, text))
        };
        let has_mark =
            artefact_mark_of_text(text).is_some_and(|id| other_record.artefact_id() == Some(id));
        let known = wanted.legacy_tables.get(table).map(String::as_str).unwrap_or_default();
        if !is_of(wanted)
            && !is_of(other)
            && !has_mark
            && let Some(difference) = find_text_difference(known, text)
        {
            return Err(ApplyOperationError::ChangedByOthers {
                unit: format!("table {table}"),
                since: "an interrupted change".to_owned(),
                difference,
            });
        }
    }
    Ok(())
}
