//! Listing the generations of a network namespace. Nothing is locked or changed.

use std::path::Path;

use serde::Serialize;
use weir_kernel::process::PidWithStartTime;

use crate::ApplyOperationError;
use crate::generation_changes::{check_unchanged_by_others, read_tables_and_sets_in_force};
use crate::state_store::{GenerationRecord, JournalStage, StateStore};

/// The generations of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GenerationListing {
    /// The generation in force; none if nothing was applied since the boot.
    pub in_force: Option<u32>,
    /// Whether another program changed its ruleset since; none if that cannot be read.
    pub is_changed_by_others: Option<bool>,
    /// The generation that waits for its confirmation.
    pub pending: Option<PendingConfirmation>,
    /// The change in progress or interrupted.
    pub unfinished: Option<UnfinishedChange>,
    /// All generations, the oldest first.
    pub generations: Vec<GenerationRecord>,
}

/// A generation that is rolled back unless it is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PendingConfirmation {
    /// Its number.
    pub generation: u32,
    /// The generation that a rollback restores.
    pub previous: u32,
    /// Seconds until the deadline; 0 if it has passed.
    pub seconds_left: u64,
    /// Whether the supervisor that rolls back is running; if not, the next command that changes
    /// something rolls back.
    pub is_supervised: bool,
}

/// A change between two generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UnfinishedChange {
    /// The generation that was in force.
    pub from: u32,
    /// The generation that it leads to.
    pub to: u32,
    /// Whether its process is running; if not, the next command that changes something recovers
    /// it.
    pub is_at_work: bool,
}

/// Lists the generations of the current network namespace.
///
/// # Errors
/// If the state is not safe or cannot be read.
pub fn list_generations(state: &Path) -> Result<GenerationListing, ApplyOperationError> {
    let store = StateStore::find(state)?;
    let mut listing = GenerationListing { in_force: None, ..GenerationListing::default() };
    listing.in_force = store.read_current_of_this_boot()?.generation;
    for generation in store.list_generations()? {
        listing.generations.push(store.read_generation_record(generation)?);
    }
    let journal = store.read_journal()?;
    let is_changed =
        listing.in_force.and_then(|generation| is_changed_by_others(&store, generation));
    // A change that passed meanwhile is not one by others.
    if store.read_current_of_this_boot()?.generation == listing.in_force
        && store.read_journal()? == journal
    {
        listing.is_changed_by_others = is_changed;
    }
    let Some(journal) = journal else { return Ok(listing) };
    match (journal.stage, journal.seconds_left()) {
        (JournalStage::InForce, Some(seconds_left)) => {
            let (generation, previous) = (journal.to, journal.from);
            let is_supervised = journal.supervisor.is_some_and(PidWithStartTime::is_alive);
            listing.pending =
                Some(PendingConfirmation { generation, previous, seconds_left, is_supervised });
        }
        _ => {
            let is_at_work = journal.owner.is_alive();
            let (from, to) = (journal.from, journal.to);
            listing.unfinished = Some(UnfinishedChange { from, to, is_at_work });
            listing.is_changed_by_others = None;
        }
    }
    Ok(listing)
}

fn is_changed_by_others(store: &StateStore, generation: u32) -> Option<bool> {
    let recorded = store.read_ruleset(generation).ok()?;
    let present = read_tables_and_sets_in_force(&recorded.tables(), &[&recorded]).ok()?.ruleset;
    match check_unchanged_by_others(&recorded, &present, generation) {
        Ok(()) => Some(false),
        Err(
            ApplyOperationError::ChangedByOthers { .. }
            | ApplyOperationError::LoadedByScript { .. },
        ) => Some(true),
        Err(_) => None,
    }
}

impl GenerationListing {
    /// The generation in force and the pending confirmation as text; empty if nothing was applied.
    pub fn render_summary(&self) -> String {
        let mut out = String::new();
        let record =
            self.generations.iter().find(|record| Some(record.generation) == self.in_force);
        if let Some(record) = record {
            let artefact = record.artefact_id().map(|id| format!(" {id}")).unwrap_or_default();
            let changed = match self.is_changed_by_others {
                Some(true) => "; changed since by another program",
                _ => "",
            };
            out.push_str(&format!(
                "generation {} in force: {}{artefact}, {}{changed}\n",
                record.generation,
                record.form_name_or_snapshot(),
                record.describe_outcome()
            ));
        }
        if let Some(pending) = self.pending {
            let PendingConfirmation { generation, previous, seconds_left, is_supervised } = pending;
            let by = match is_supervised {
                true => "",
                false => " by the next weir apply, confirm or rollback: no supervisor is running",
            };
            out.push_str(&format!(
                "generation {generation} waits for its confirmation: {seconds_left} s left, then \
                 generation {previous} is restored{by}\n"
            ));
        }
        if let Some(UnfinishedChange { from, to, is_at_work }) = self.unfinished {
            let state = match is_at_work {
                true => "is in progress",
                false => "was interrupted: the next weir apply, confirm or rollback recovers it",
            };
            out.push_str(&format!("the change from generation {from} to {to} {state}\n"));
        }
        out
    }

    /// All generations as text, one per line.
    pub fn render_history(&self) -> String {
        let mut out = self.render_summary();
        for record in &self.generations {
            let mark = if Some(record.generation) == self.in_force { '*' } else { ' ' };
            out.push_str(&format!(
                "{mark}{:>4}  {}  {:<8}  {}; {}\n",
                record.generation,
                record.format_creation_time(),
                record.form_name_or_snapshot(),
                record.describe_outcome(),
                record.describe_sources_or_command()
            ));
        }
        if self.generations.is_empty() {
            out.push_str("no generations in this network namespace\n");
        }
        out
    }
}
