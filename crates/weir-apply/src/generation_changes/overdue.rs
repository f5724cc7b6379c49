//! Rollback of a generation that was not confirmed in time.
//!
//! Its administrator may be locked out, so only an error of the kernel may prevent the rollback. A
//! full disk does not, because the journal of the pending confirmation is enough for another
//! attempt. Neither do foreign changes, which are saved as a generation if possible.

use super::foreign_changes::add_foreign_sets;
use super::interrupted::rolled_back_outcome;
use super::{
    LockedGenerations, RecoveredChange, check_unchanged_by_others, read_original_rules,
    read_ruleset_completed_from_baseline, read_tables_and_sets_in_force,
};
use crate::ApplyOperationError;
use crate::apply_steps::plan_apply_steps;
use crate::kernel_ruleset::KernelRulesetTexts;
use crate::rule_counters::{carry_counters, read_counters_in_force};
use crate::state_store::{Journal, JournalOperation};

impl LockedGenerations {
    pub(super) fn roll_back_unconfirmed(
        &mut self,
        pending: &Journal,
    ) -> Result<(), ApplyOperationError> {
        let (unconfirmed, previous) = (pending.to, pending.from);
        let limit_seconds = pending.confirm_seconds.unwrap_or_default();
        let reason = format!("it was not confirmed within {limit_seconds} s");
        // Its texts may be damaged: the rollback needs only their names.
        let recorded = self.store.read_ruleset(unconfirmed).ok();
        let mut tables = self.store.list_ruleset_tables(unconfirmed)?;
        tables.extend(self.store.read_ruleset(previous)?.tables());
        tables.sort();
        tables.dedup();
        let mut wanted =
            read_ruleset_completed_from_baseline(&self.store, previous, pending.baseline, &tables)?;
        let known: Vec<&KernelRulesetTexts> = recorded.iter().chain([&wanted]).collect();
        let present = read_tables_and_sets_in_force(&tables, &known)?;
        // Failures here must not prevent the rollback.
        if let Some(recorded) = &recorded {
            let _ = self.save_unconfirmed_ruleset(unconfirmed, recorded, &present.ruleset);
        }
        let _ = self.carry_counters_back(unconfirmed, previous, &present.ruleset, &mut wanted);
        let ids = [unconfirmed, previous, pending.baseline];
        let boot_id = pending.boot_id.clone();
        let mut journal = Journal::new_change(JournalOperation::Rollback, ids, boot_id);
        reason.clone_into(&mut journal.reason);
        journal.confirm_seconds = pending.confirm_seconds;
        journal.steps = plan_apply_steps(&present, &wanted);
        let _ = self.store.write_journal(&journal);
        self.change_ruleset_to(&present, &wanted)?;
        self.store.write_current(previous, pending.baseline)?;
        self.record_outcome(unconfirmed, &rolled_back_outcome(&reason))?;
        self.store.remove_journal()?;
        self.recovered.push(RecoveredChange {
            sentence: format!(
                "generation {unconfirmed} was rolled back because {reason}: generation {previous} \
                 is in force"
            ),
            rolled_back: [unconfirmed, previous],
        });
        Ok(())
    }

    /// Saves the ruleset in force in the unconfirmed generation, or as a generation of its own if
    /// another program changed it.
    fn save_unconfirmed_ruleset(
        &self,
        unconfirmed: u32,
        recorded: &KernelRulesetTexts,
        present: &KernelRulesetTexts,
    ) -> Result<(), ApplyOperationError> {
        let mut leaving = present.clone();
        leaving.legacy_tables.retain(|table, _| recorded.legacy_tables.contains_key(table));
        leaving.sets.retain(|set, _| recorded.sets.contains_key(set));
        if check_unchanged_by_others(recorded, &leaving, unconfirmed).is_ok() {
            return self.store.write_ruleset(unconfirmed, &add_foreign_sets(leaving)?);
        }
        let command = ["weir".to_owned(), "supervise".to_owned()];
        self.save_changes_by_others(unconfirmed, present.clone(), &command).map(drop)
    }

    fn carry_counters_back(
        &self,
        unconfirmed: u32,
        previous: u32,
        present: &KernelRulesetTexts,
        wanted: &mut KernelRulesetTexts,
    ) -> Result<(), ApplyOperationError> {
        let old = read_original_rules(&self.store, unconfirmed)?;
        let new = read_original_rules(&self.store, previous)?;
        let counters = read_counters_in_force(present)?;
        carry_counters(&old, &counters, &new, wanted);
        Ok(())
    }
}
