//! Why records could not be read or written.

use std::path::PathBuf;

use crate::run::RECORD_FORMAT_VERSION;

/// Why records could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    FileAccess {
        /// `read`, `write`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{}:{line}: {source}", path.display())]
    InvalidJson {
        /// Which file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The folder was written by another version.
    #[error("{}: record format {found}, this program reads {RECORD_FORMAT_VERSION}", path.display())]
    UnsupportedFormat {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The same records are there plain and compressed, and one of the files may be stale.
    #[error(
        "{0} and {1} are both there: if `zcat {1} | cmp - {0}` prints nothing, remove {0}; \
         otherwise keep the one that belongs to run.json",
        plain.display(),
        compressed.display()
    )]
    BothFormsExist {
        /// The plain file.
        plain: PathBuf,
        /// The compressed file.
        compressed: PathBuf,
    },
    /// A compressed file is larger than any run.
    #[error("decompress {}: it holds more than {limit} bytes", path.display())]
    DecompressedTooLarge {
        /// Which file.
        path: PathBuf,
        /// The largest size that is read, bytes.
        limit: u64,
    },
}
