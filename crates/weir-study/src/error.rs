//! Reasons why a study cannot be read, or cannot be run as requested.

use std::path::{Path, PathBuf};

use weir_stats::RecordError;

/// Why a study cannot be read, or cannot be run as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// A study, its subjects or its hosts cannot be read as such.
    #[error("{}:{line}: {message}", path.display())]
    InvalidFile {
        /// Which file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A study has no such preset.
    #[error("{} has no preset `{name}`; its presets are {known}", path.display())]
    UnknownPreset {
        /// The study's file.
        path: PathBuf,
        /// The request.
        name: String,
        /// What there is.
        known: String,
    },
    /// Options that exclude each other, or that the study cannot be run with.
    #[error("{0}")]
    InvalidOptions(String),
    /// A file could not be read.
    #[error("{action} {}: {source}", path.display())]
    FileAccess {
        /// `read`.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The records of a run cannot be read.
    #[error(transparent)]
    UnreadableRecord(#[from] RecordError),
}

impl StudyError {
    /// For `map_err`: a file that could not be read.
    pub(crate) fn file_access_error(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| StudyError::FileAccess { action, path, source }
    }
}
