//! Errors of applying, confirming and rolling back. Each says what is in force if it may be asked.

use std::io;
use std::path::{Path, PathBuf};

use crate::ApplyError;
use crate::kernel_ruleset::{FamilyTable, TextDifference};

/// An operation on generations that was refused or failed. Unless it says otherwise, the ruleset
/// that was in force before is still in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyOperationError {
    /// A tool is not there.
    #[error("{tool} is not installed: install package {package}")]
    MissingTool {
        /// The tool.
        tool: String,
        /// The Debian package that has it.
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
        /// What was tried, e.g. `write`.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A folder or file of the state that somebody else could have put there.
    #[error("{} {problem}: look at it, then {cure}", path.display())]
    UnsafeStatePath {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
        /// What to do.
        cure: String,
    },
    /// A file of the state that weir cannot read.
    #[error("{} is no state file that this weir reads: {message}", path.display())]
    UnreadableState {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Another command is at work.
    #[error("{holder} is changing the ruleset of this namespace: wait, or give --wait SECONDS")]
    LockHeld {
        /// The process, in words.
        holder: String,
    },
    /// An apply waits to be confirmed.
    #[error(
        "generation {generation} waits for its confirmation, {seconds_left} s from now at most: \
         weir confirm keeps it, weir rollback goes back"
    )]
    ConfirmationPending {
        /// The generation.
        generation: u32,
        /// Seconds until it is rolled back.
        seconds_left: u64,
    },
    /// Nothing waits to be confirmed.
    #[error("no generation waits for a confirmation")]
    NothingToConfirm,
    /// The session cannot show that the host can still be reached.
    #[error("{reason}; generation {generation} is not confirmed, {seconds_left} s are left")]
    NotReachable {
        /// Why, and the cure.
        reason: String,
        /// The generation.
        generation: u32,
        /// Seconds until it is rolled back.
        seconds_left: u64,
    },
    /// Somebody else changed what a generation put in force.
    #[error(
        "{unit} is not as weir left it ({since}): take the changes into the ruleset, or give \
         --force, which keeps a copy of them; the difference:{difference}"
    )]
    ChangedByOthers {
        /// The table or set.
        unit: String,
        /// As of when it is known.
        since: String,
        /// What is different.
        difference: TextDifference,
    },
    /// A table changed between the last look and the replacement.
    #[error("{table} was changed by another program meanwhile: start again")]
    TableChangedMeanwhile {
        /// The table.
        table: FamilyTable,
    },
    /// A set of others that rules of a generation name cannot be created again.
    #[error(
        "set {set}, which rules of the generation name, is gone and cannot be created again: \
         {cause}; everything else is restored: create the set, then start weir rollback again"
    )]
    SetNotRestored {
        /// The set.
        set: String,
        /// Why.
        cause: Box<ApplyOperationError>,
    },
    /// A text of a generation is not the one that was saved.
    #[error(
        "{} {problem} since it was saved: nothing was changed; restore the file, or name another \
         generation: weir rollback NUMBER",
        path.display()
    )]
    DamagedGeneration {
        /// The file.
        path: PathBuf,
        /// `is gone` or `was changed`.
        problem: &'static str,
    },
    /// Something about the machine speaks against it.
    #[error("{0}")]
    Refused(String),
    /// There is no such generation.
    #[error("there is no generation {generation}: weir history lists them")]
    NoSuchGeneration {
        /// The number.
        generation: u32,
    },
    /// A change failed, and so did the way back.
    #[error(
        "{cause}; going back to generation {generation} failed as well: {undo}; weir rollback tries \
         again"
    )]
    UndoFailed {
        /// Why the change failed.
        cause: Box<ApplyOperationError>,
        /// Where it was going back to.
        generation: u32,
        /// Why that failed.
        undo: Box<ApplyOperationError>,
    },
    /// Tables in memory.
    #[error(transparent)]
    Table(#[from] ApplyError),
    /// The artefact's folder.
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
