//! Changes from one generation to another: apply, roll back, confirm, and recovery of interrupted
//! changes.
//!
//! [`LockedGenerations::lock_and_recover`] takes the lock and recovers an interrupted change. Every command
//! therefore begins with a generation that is completely in force. A change then has five parts:
//!
//! 1. The ruleset in force is read and compared with the record of the current generation; its
//!    counters are saved in that generation.
//! 2. Everything that the change and its rollback need is written to disk.
//! 3. The journal records the change.
//! 4. The steps are executed ([`crate::apply_steps`]). After an error, the steps back are planned
//!    from the ruleset then in force.
//! 5. The ruleset is read back from the kernel and recorded, for comparison by later changes. The
//!    journal records that it is in force, and is removed.

mod apply;
mod boot;
mod confirm;
mod foreign_changes;
mod interrupted;
mod overdue;
mod rollback;
mod ruleset_change;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use weir_kernel::process::PidWithStartTime;
use weir_model::{Family, iptables_tool_name};

use crate::ApplyOperationError;
use crate::apply_conflicts::find_artefact_loaded_by_script;
use crate::kernel_ruleset::{
    FamilyTable, KernelRulesetTexts, RulesetInForce, SetSelection, empty_table_text,
    find_text_difference, read_ruleset_in_force,
};
use crate::rule_counters::OriginalRules;
use crate::state_store::{
    CurrentGeneration, GenerationKind, Journal, NamespaceLockMode, SourceFile, StateLock,
    StateStore,
};

pub use self::apply::{AppliedGeneration, ApplyRequest};
pub(crate) use self::apply::{plan_wanted_ruleset, read_affected_ruleset_in_force};
pub use self::boot::BootRestoration;
pub use self::confirm::ReachabilityProof;
pub use self::rollback::RestoredGeneration;

/// Starts a process that recovers a change if the process that makes it is killed, and returns it.
pub type StartSupervisor<'f> = &'f dyn Fn() -> Result<PidWithStartTime, ApplyOperationError>;

/// An interrupted or overdue change of which nothing is pending any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredChange {
    /// What was done, in a sentence.
    pub sentence: String,
    /// The generation that is not in force, and the one that is.
    pub rolled_back: [u32; 2],
}

/// The generations of the current network namespace, with their lock.
#[derive(Debug)]
pub struct LockedGenerations {
    pub(crate) store: StateStore,
    pub(crate) lock: StateLock,
    /// Interrupted and overdue changes that were recovered when the generations were locked.
    pub recovered: Vec<RecoveredChange>,
}

impl LockedGenerations {
    /// Takes the lock and completes or undoes an interrupted change.
    ///
    /// # Errors
    /// If the state is not safe, another command holds the lock, or the interrupted change can
    /// be neither completed nor undone.
    pub fn lock_and_recover(
        state: &Path,
        wait: Duration,
    ) -> Result<LockedGenerations, ApplyOperationError> {
        LockedGenerations::lock_and_recover_with_mode(state, wait, NamespaceLockMode::Required)
    }

    /// The same for the supervisor. Any user can hold the lock of the namespace, which exists for
    /// `load.sh`, so it must not delay a rollback at the deadline.
    ///
    /// # Errors
    /// As [`lock_and_recover`](LockedGenerations::lock_and_recover).
    pub fn lock_and_recover_at_deadline(
        state: &Path,
        wait: Duration,
    ) -> Result<LockedGenerations, ApplyOperationError> {
        LockedGenerations::lock_and_recover_with_mode(state, wait, NamespaceLockMode::IfFree)
    }

    fn lock_and_recover_with_mode(
        state: &Path,
        wait: Duration,
        namespace_lock: NamespaceLockMode,
    ) -> Result<LockedGenerations, ApplyOperationError> {
        if !rustix::process::geteuid().is_root() {
            return Err(ApplyOperationError::Refused(
                "only root can change the ruleset: run weir as root".to_owned(),
            ));
        }
        // Only root may access files of weir and of its tools.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let store = StateStore::find(state)?;
        let lock = store.lock(wait, namespace_lock)?;
        let mut generations = LockedGenerations { store, lock, recovered: Vec::new() };
        generations.recover_interrupted_or_overdue_change()?;
        Ok(generations)
    }

    /// The state.
    pub fn store(&self) -> &StateStore {
        &self.store
    }

    /// The journal of the generation that waits for its confirmation.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn read_pending_journal(&self) -> Result<Option<Journal>, ApplyOperationError> {
        self.store.read_journal()
    }
}

/// The texts of a generation for each of these tables: its own, or those from before weir.
pub(crate) fn read_ruleset_completed_from_baseline(
    store: &StateStore,
    generation: u32,
    baseline: u32,
    tables: &[FamilyTable],
) -> Result<KernelRulesetTexts, ApplyOperationError> {
    let mut ruleset = store.read_ruleset(generation)?;
    let before_weir = store.read_ruleset(baseline)?;
    for table in tables {
        if !ruleset.legacy_tables.contains_key(table) {
            let text = before_weir.legacy_tables.get(table).cloned();
            let text = text.unwrap_or_else(|| empty_table_text(table.table));
            ruleset.legacy_tables.insert(*table, text);
            for (set, text) in &before_weir.foreign_sets {
                ruleset.foreign_sets.entry(set.clone()).or_insert_with(|| text.clone());
            }
        }
    }
    Ok(ruleset)
}

/// The original rules of a generation, and where they are counted. They are unknown if it was
/// applied from a compiled directory.
pub(crate) fn read_original_rules(
    store: &StateStore,
    generation: u32,
) -> Result<OriginalRules, ApplyOperationError> {
    let record = store.read_generation_record(generation)?;
    let GenerationKind::Applied { sources, .. } = &record.kind else {
        return Ok(OriginalRules::of_legacy_tables(&store.read_ruleset(generation)?));
    };
    let folder = store.generation_folder(generation);
    let manifest = weir_artefact::read_manifest(&folder.join("artefact"))?;
    let mut texts = Vec::new();
    for source in sources {
        if let Some(family) = family_of_source_file(source) {
            let path = folder.join("source").join(&source.copy);
            let text = std::fs::read_to_string(&path);
            texts.push((family, text.map_err(ApplyOperationError::file("read", &path))?));
        }
    }
    Ok(OriginalRules::of_sources(&texts, &manifest))
}

/// The family of a file of rules; `None` for a file of sets.
pub(crate) fn family_of_source_file(source: &SourceFile) -> Option<Family> {
    let mut families = [Family::V4, Family::V6].into_iter();
    families.find(|family| iptables_tool_name(*family) == source.copy)
}

/// Reads some tables, and the sets of some rulesets, as they are in force.
pub(crate) fn read_tables_and_sets_in_force(
    tables: &[FamilyTable],
    rulesets: &[&KernelRulesetTexts],
) -> Result<RulesetInForce, ApplyOperationError> {
    let sets: BTreeSet<String> =
        rulesets.iter().flat_map(|ruleset| ruleset.sets.keys().cloned()).collect();
    let sets: Vec<String> = sets.into_iter().collect();
    read_ruleset_in_force(tables, SetSelection(&sets))
}

/// Refuses a ruleset in force that another program changed since its generation was recorded.
pub(crate) fn check_unchanged_by_others(
    recorded: &KernelRulesetTexts,
    present: &KernelRulesetTexts,
    generation: u32,
) -> Result<(), ApplyOperationError> {
    if let Some(artefact) = find_artefact_loaded_by_script(recorded, present) {
        return Err(ApplyOperationError::LoadedByScript { artefact });
    }
    for (table, text) in &recorded.legacy_tables {
        let unit = format!("table {table}");
        check_table_or_set_unchanged(unit, text, present.legacy_tables.get(table), generation)?;
    }
    check_nft_tables_unchanged_and_sets_present(recorded, present, generation)
}

/// The same for all but tables of legacy iptables.
pub(crate) fn check_nft_tables_unchanged_and_sets_present(
    recorded: &KernelRulesetTexts,
    present: &KernelRulesetTexts,
    generation: u32,
) -> Result<(), ApplyOperationError> {
    let nft_unit =
        |table: &FamilyTable| format!("nft table {} weir_{}", table.nft_family(), table.table);
    for (table, text) in &recorded.nft_tables {
        let present = present.nft_tables.get(table);
        check_table_or_set_unchanged(nft_unit(table), text, present, generation)?;
    }
    for (table, text) in &present.nft_tables {
        if !recorded.nft_tables.contains_key(table) {
            check_table_or_set_unchanged(nft_unit(table), "", Some(text), generation)?;
        }
    }
    // Elements of sets change with traffic and by other programs; only a missing set is an error.
    for (set, text) in &recorded.sets {
        if !present.sets.contains_key(set) {
            check_table_or_set_unchanged(format!("set {set}"), text, None, generation)?;
        }
    }
    Ok(())
}

fn check_table_or_set_unchanged(
    unit: String,
    recorded: &str,
    present: Option<&String>,
    generation: u32,
) -> Result<(), ApplyOperationError> {
    match find_text_difference(recorded, present.map_or("", String::as_str)) {
        None => Ok(()),
        Some(difference) => {
            let since = format!("generation {generation}");
            Err(ApplyOperationError::ChangedByOthers { unit, since, difference })
        }
    }
}

/// The generation in force and the baseline.
pub(crate) fn require_generation_and_baseline(
    current: &CurrentGeneration,
) -> Result<(u32, u32), ApplyOperationError> {
    let none = || {
        ApplyOperationError::Refused(
            "no generation is in force in this network namespace: use weir apply first".to_owned(),
        )
    };
    current.generation.zip(current.baseline).ok_or_else(none)
}
