//! After a boot: the generation of before the boot is in force again.
//!
//! A boot leaves nothing in the kernel. The generation that was in force is applied once more, as a
//! new one, from the artefact and the files in its folder: all that an apply refuses is refused, and
//! what other programs loaded in the meantime becomes the snapshot of this boot. A generation that
//! waited for its confirmation when the machine went down is not restored; the one before it is.

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
        let before_boot = self.store.read_generation_before_boot()?;
        let in_force = self.store.read_current()?.generation;
        if let (None, Some(generation)) = (before_boot, in_force) {
            return Ok(BootRestoration::AlreadyInForce(generation));
        }
        let Some(record) = self.find_last_not_rolled_back(before_boot)? else {
            return Ok(BootRestoration::NothingToRestore);
        };
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
        let sources = texts.iter().map(|(source, text)| (source.clone(), text.as_str()));
        let request = ApplyRequest {
            artefact: &stored.artefact,
            sources: sources.collect(),
            command,
            confirm: None,
            ignores_foreign_changes: false,
        };
        let applied = self.apply(&request, start_supervisor)?;
        Ok(BootRestoration::Restored { generation: record.generation, applied })
    }

    /// The generation, or of those before it the last one that was not rolled back; none if that is
    /// a snapshot of what others loaded.
    fn find_last_not_rolled_back(
        &self,
        generation: Option<u32>,
    ) -> Result<Option<GenerationRecord>, ApplyOperationError> {
        let mut candidate = generation;
        while let Some(generation) = candidate {
            let record = self.store.read_generation(generation)?;
            if record.kind == GenerationKind::Snapshot {
                return Ok(None);
            }
            match record.outcome {
                GenerationOutcome::Applied | GenerationOutcome::Confirmed => {
                    return Ok(Some(record));
                }
                // A generation was made after the one that it replaces.
                GenerationOutcome::Prepared | GenerationOutcome::RolledBack { .. } => {
                    candidate = record.previous.filter(|previous| *previous < generation);
                }
            }
        }
        Ok(None)
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
