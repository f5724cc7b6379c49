//! Errors of applying, confirming and rolling back. If the ruleset in force may be in doubt, the
//! message states it.

use std::io;
use std::path::{Path, PathBuf};

use crate::ApplyError;
use crate::kernel_ruleset::{FamilyTable, TextDifference};

/// An operation on generations that was refused or failed. Unless it says otherwise, the ruleset
/// that was in force before is still in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyOperationError {
    /// A tool is not installed.
    #[error("{tool} is not installed: install package {package}")]
    MissingTool {
        /// The tool.
        tool: String,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// A tool ended with an error.
    #[error("{command}: {message}")]
    ToolFailed {
        /// The tool and its arguments.
        command: String,
        /// What it wrote to standard error.
        message: String,
    },
    /// A file operation.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// The operation, e.g. `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A folder or file of the state that another user could have created or changed.
    #[error("{} {problem}: inspect it, then {cure}", path.display())]
    UnsafeStatePath {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
        /// What to do.
        cure: String,
    },
    /// A file of the state that weir cannot read.
    #[error("{} is not a state file that this version of weir can read: {message}", path.display())]
    UnreadableState {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Another command holds the lock.
    #[error("{holder} is changing the ruleset of this namespace: wait, or use --wait SECONDS")]
    LockHeld {
        /// A description of the process.
        holder: String,
    },
    /// A generation waits for its confirmation.
    #[error(
        "generation {generation} waits for its confirmation ({seconds_left} s left): weir confirm \
         keeps it, weir rollback restores the previous generation"
    )]
    ConfirmationPending {
        /// The generation.
        generation: u32,
        /// Seconds until it is rolled back.
        seconds_left: u64,
    },
    /// No generation waits for its confirmation.
    #[error("no generation waits for its confirmation{}",
        .newest.as_ref().map(|newest| format!(": {newest}")).unwrap_or_default())]
    NothingToConfirm {
        /// What became of the newest generation, if it was rolled back.
        newest: Option<String>,
    },
    /// The session does not prove that the host can still be reached.
    #[error("{reason}; generation {generation} is not confirmed, {seconds_left} s left")]
    NotReachable {
        /// Why, and the cure.
        reason: String,
        /// The generation.
        generation: u32,
        /// Seconds until it is rolled back.
        seconds_left: u64,
    },
    /// Another program changed the ruleset of a generation.
    #[error(
        "{unit} was changed by another program since {since}: add the changes to the ruleset, or use \
         --force, which saves the changed ruleset as a generation; the difference:{difference}"
    )]
    ChangedByOthers {
        /// The table or set.
        unit: String,
        /// The generation that it is compared with.
        since: String,
        /// The difference.
        difference: TextDifference,
    },
    /// An artefact that `load.sh` loaded.
    #[error(
        "{artefact} is in force and was not loaded by weir apply: run unload.sh of its folder first; \
         without that folder, use --force, which saves the ruleset in force as a generation"
    )]
    LoadedByScript {
        /// The artefact, or its nft table.
        artefact: String,
    },
    /// The counters of a ruleset that is not the one of the current generation.
    #[error(
        "{change}, so that counters cannot be attributed to the rules of generation {generation}: \
         {cure}; iptables-save -c prints the counters in force{difference}"
    )]
    CountersOfOtherRuleset {
        /// What differs.
        change: String,
        /// The current generation.
        generation: u32,
        /// What to do.
        cure: String,
        /// The difference, if it is not a whole artefact.
        difference: String,
    },
    /// A table changed between the last comparison and the replacement.
    #[error("{table} was changed by another program in the meantime: try again")]
    TableChangedMeanwhile {
        /// The table.
        table: FamilyTable,
    },
    /// A foreign set that rules of a generation use cannot be created again.
    #[error(
        "set {set}, which rules of the generation use, is missing and cannot be created again: \
         {cause}; everything else is restored: create the set, then run weir rollback again"
    )]
    SetNotRestored {
        /// The set.
        set: String,
        /// The reason.
        cause: Box<ApplyOperationError>,
    },
    /// A file of a generation is missing or differs from the one that was saved.
    #[error(
        "{} {problem}: nothing was changed; restore the file, or choose another \
         generation: weir rollback NUMBER",
        path.display()
    )]
    DamagedGeneration {
        /// The file.
        path: PathBuf,
        /// `is missing` or `was changed since it was saved`.
        problem: &'static str,
    },
    /// Refused for another reason, which the message states.
    #[error("{0}")]
    Refused(String),
    /// The generation does not exist.
    #[error("generation {generation} does not exist: weir history lists all generations")]
    NoSuchGeneration {
        /// The number.
        generation: u32,
    },
    /// A change failed, and so did its undo.
    #[error(
        "{cause}; restoring generation {generation} failed as well: {undo}; weir rollback tries \
         again"
    )]
    UndoFailed {
        /// Why the change failed.
        cause: Box<ApplyOperationError>,
        /// The generation to restore.
        generation: u32,
        /// Why the undo failed.
        undo: Box<ApplyOperationError>,
    },
    /// Reading, encoding or loading failed.
    #[error(transparent)]
    Table(#[from] ApplyError),
    /// The folder of the artefact cannot be read.
    #[error(transparent)]
    Artefact(#[from] weir_artefact::ReadError),
    /// An artefact could not be written to the state.
    #[error(transparent)]
    ArtefactNotWritten(#[from] weir_artefact::WriteError),
}

impl ApplyOperationError {
    /// Wraps an error of a file operation.
    pub(crate) fn file(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> ApplyOperationError {
        let path = path.as_ref().to_owned();
        move |source| ApplyOperationError::File { action, path, source }
    }
}

impl From<weir_kernel::KernelError> for ApplyOperationError {
    fn from(error: weir_kernel::KernelError) -> ApplyOperationError {
        ApplyError::from(error).into()
    }
}
