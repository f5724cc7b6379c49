//! After a boot: the generation of before the boot is in force again.
//!
//! A boot leaves nothing in the kernel. A file of the state names the generation that a boot
//! restores. It is written when a generation is in force for good: after an apply without
//! confirmation, a confirmation, or a rollback. A generation that still waits for its confirmation
//! does not change it. So whatever is interrupted or fails, also at a boot, the next boot restores
//! the same generation.
//!
//! The generation is applied once more, as a new one, from the artefact and the files in its
//! directory: all that an apply refuses is refused, and what other programs loaded in the meantime
//! becomes the snapshot of this boot.

use std::path::Path;

use super::apply::{AppliedGeneration, ApplyRequest};
use super::{LockedGenerations, StartSupervisor};
use crate::ApplyOperationError;
use crate::state_store::{GenerationKind, GenerationOutcome, GenerationRecord, SourceFile};

/// What was to be done after a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootRestoration {
    /// This generation is in force since the boot: nothing was changed.
    AlreadyInForce(u32),
    /// Before the boot, no generation of weir was in force: nothing was changed.
    NothingToRestore,
    /// A generation was applied once more.
    Restored {
        /// The generation that was in force before the boot.
        generation: u32,
        /// The new one.
        applied: AppliedGeneration,
    },
}

impl LockedGenerations {
    /// Applies the generation again that was in force before the machine was started.
    ///
    /// # Errors
    /// As [`apply`](LockedGenerations::apply), and where files of the generation were changed.
    pub fn restore_after_boot(
        &mut self,
        command: Vec<String>,
        start_supervisor: StartSupervisor<'_>,
    ) -> Result<BootRestoration, ApplyOperationError> {
        if let Some(generation) = self.store.read_current_of_this_boot()?.generation {
            let record = self.store.read_generation_record(generation)?;
            // The snapshot of a boot is no reason to leave its ruleset in force.
            if record.kind != GenerationKind::Snapshot || record.previous.is_some() {
                return Ok(BootRestoration::AlreadyInForce(generation));
            }
        }
        let generation = match self.store.read_boot_generation()? {
            Some(Some(generation)) => generation,
            Some(None) => return Ok(BootRestoration::NothingToRestore),
            None => {
                self.refuse_missing_boot_file()?;
                return Ok(BootRestoration::NothingToRestore);
            }
        };
        let record = self.store.read_generation_record(generation)?;
        let folder = self.store.generation_folder(record.generation);
        let stored = weir_artefact::read_artefact(&folder.join("artefact"))?;
        if let Some(edited) = stored.edited_files.first() {
            return Err(ApplyOperationError::Refused(format!(
                "{} was changed after generation {} was applied: apply its file again",
                folder.join("artefact").join(edited).display(),
                record.generation
            )));
        }
        let texts = read_source_texts(&record, &folder)?;
        self.create_missing_foreign_sets_of(&self.store.read_ruleset(generation)?)?;
        let sources = texts.iter().map(|(source, text)| (source.clone(), text.as_str()));
        let request = ApplyRequest {
            artefact: &stored.artefact,
            sources: sources.collect(),
            command,
            confirm: None,
            ignores_foreign_changes: record.ignores_foreign_changes,
        };
        let applied = self.apply(&request, start_supervisor)?;
        // A rollback leads to what was there before the restored generation, not to the snapshot of
        // the boot.
        let mut new_record = self.store.read_generation_record(applied.generation)?;
        new_record.previous = record.previous.or(new_record.previous);
        self.store.write_generation_record(&new_record)?;
        Ok(BootRestoration::Restored { generation, applied })
    }

    /// Records that a generation is in force for good, so that a boot restores it. Of a ruleset that
    /// other programs changed, a boot restores the generation that they changed.
    pub(super) fn record_boot_generation(&self, in_force: u32) -> Result<(), ApplyOperationError> {
        let mut candidate = Some(in_force);
        while let Some(generation) = candidate {
            let record = self.store.read_generation_record(generation)?;
            if record.kind != GenerationKind::Snapshot {
                break;
            }
            // A snapshot is made after the generation that was changed.
            candidate = record.previous.filter(|previous| *previous < generation);
        }
        self.store.write_boot_generation(candidate)
    }

    /// Records that a generation that was left is in force again.
    pub(super) fn record_restored(&self, generation: u32) -> Result<(), ApplyOperationError> {
        let outcome = self.store.read_generation_record(generation)?.outcome;
        if matches!(outcome, GenerationOutcome::RolledBack { .. }) {
            self.record_outcome(generation, &GenerationOutcome::Applied)?;
        }
        self.record_boot_generation(generation)
    }

    /// Refuses if generations were in force for good and the file that names the last one is gone.
    fn refuse_missing_boot_file(&self) -> Result<(), ApplyOperationError> {
        for generation in self.store.list_generations()? {
            let record = self.store.read_generation_record(generation)?;
            let was_kept =
                matches!(record.outcome, GenerationOutcome::Applied | GenerationOutcome::Confirmed);
            if record.kind != GenerationKind::Snapshot && was_kept {
                return Err(ApplyOperationError::Refused(format!(
                    "{} is missing: it names the generation to restore; weir history lists \
                     generations: apply the file of one again",
                    self.store.boot_file().display()
                )));
            }
        }
        Ok(())
    }
}

/// The files that a generation was compiled from.
fn read_source_texts(
    record: &GenerationRecord,
    folder: &Path,
) -> Result<Vec<(SourceFile, String)>, ApplyOperationError> {
    let GenerationKind::Applied { sources, .. } = &record.kind else { return Ok(Vec::new()) };
    let read = |source: &SourceFile| {
        let path = folder.join("source").join(&source.copy);
        let text =
            std::fs::read_to_string(&path).map_err(ApplyOperationError::file("read", &path))?;
        if weir_artefact::sha256_hex(text.as_bytes()) != source.sha256 {
            return Err(ApplyOperationError::Refused(format!(
                "{} was changed after generation {} was applied: apply its file again",
                path.display(),
                record.generation
            )));
        }
        Ok((source.clone(), text))
    };
    sources.iter().map(read).collect()
}
