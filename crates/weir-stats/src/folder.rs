//! A run as a folder of plain files.
//!
//! | file | holds |
//! |---|---|
//! | `run.json` | [`Run`] |
//! | `trials.jsonl` | one [`Trial`] a line, in the order in which they were run |
//! | `search.jsonl` | one [`Search`] a line, where rates were searched |
//! | `study.toml`, `subjects.toml` | copies of what was measured |
//! | `rulesets/` | generated rulesets that are small enough to keep |

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::run::{FORMAT, Run};
use crate::search::Search;
use crate::trial::Trial;

/// A run with its trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What was done, and where.
    pub run: Run,
    /// All trials, accepted or not.
    pub trials: Vec<Trial>,
    /// Searches of a rate, in their order; most runs have none.
    pub searches: Vec<Search>,
}

/// Why records could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// `read`, `write`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{}:{line}: {source}", path.display())]
    Json {
        /// Which file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The folder was written by another version.
    #[error("{}: record format {found}, this program reads {FORMAT}", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// Reads a run's folder.
///
/// # Errors
/// A file that is missing, that does not hold what it should, or of another format.
pub fn load(dir: &Path) -> Result<Record, RecordError> {
    load_until(dir, str::len)
}

/// Reads the folder of a run that may go on meanwhile: a line that is not whole yet is left out.
///
/// # Errors
/// As [`load`].
pub fn load_growing(dir: &Path) -> Result<Record, RecordError> {
    load_until(dir, whole_lines)
}

/// Reads a folder, each file of lines as far as `end` says.
fn load_until(dir: &Path, end: fn(&str) -> usize) -> Result<Record, RecordError> {
    let path = dir.join("run.json");
    let text = read(&path)?;
    let run: Run = serde_json::from_str(&text).map_err(|source| RecordError::Json {
        path: path.clone(),
        line: source.line(),
        source,
    })?;
    if run.format != FORMAT {
        return Err(RecordError::Format { path, found: run.format });
    }
    let trials = lines(&dir.join("trials.jsonl"), end)?;
    let path = dir.join("search.jsonl");
    let searches = if path.exists() { lines(&path, end)? } else { Vec::new() };
    Ok(Record { run, trials, searches })
}

/// The values of a file that has one a line, as far as `end` says.
fn lines<T: DeserializeOwned>(path: &Path, end: fn(&str) -> usize) -> Result<Vec<T>, RecordError> {
    let text = read(path)?;
    let lines = text[..end(&text)].lines().enumerate().filter(|(_, line)| !line.is_empty());
    let value = |(at, line)| {
        serde_json::from_str(line).map_err(|source| RecordError::Json {
            path: path.to_owned(),
            line: at + 1,
            source,
        })
    };
    lines.map(value).collect()
}

/// Where the last whole line ends.
fn whole_lines(text: &str) -> usize {
    text.rfind('\n').map_or(0, |at| at + 1)
}

/// Reads the folder of a run that was interrupted, perhaps in the middle of a line: what is behind
/// the last whole line of `trials.jsonl` is cut off, in the file too.
///
/// # Errors
/// As [`load`], and where the file cannot be cut.
pub fn load_interrupted(dir: &Path) -> Result<Record, RecordError> {
    let path = dir.join("trials.jsonl");
    let text = read(&path)?;
    let whole = whole_lines(&text);
    if whole < text.len() {
        let failed = |source| RecordError::File { action: "cut", path: path.clone(), source };
        let file = fs::File::options().write(true).open(&path).map_err(failed)?;
        file.set_len(whole as u64).map_err(failed)?;
    }
    load(dir)
}

/// Writes `run.json`, in place of the one that is there.
///
/// # Errors
/// The file cannot be written.
pub fn save_run(dir: &Path, run: &Run) -> Result<(), RecordError> {
    let path = dir.join("run.json");
    let failed = |source| RecordError::File { action: "write", path: path.clone(), source };
    let mut text = serde_json::to_string_pretty(run).map_err(|source| RecordError::Json {
        path: path.clone(),
        line: 0,
        source,
    })?;
    text.push('\n');
    let partial = dir.join("run.json.partial");
    fs::write(&partial, text).map_err(failed)?;
    fs::rename(&partial, &path).map_err(failed)
}

/// Adds a trial to `trials.jsonl`.
///
/// # Errors
/// The file cannot be written.
pub fn append_trial(dir: &Path, trial: &Trial) -> Result<(), RecordError> {
    append_trials(dir, std::slice::from_ref(trial))
}

/// Adds trials to `trials.jsonl`, in one piece: a run that is killed leaves all of them or cuts
/// one short.
///
/// # Errors
/// The file cannot be written.
pub fn append_trials(dir: &Path, trials: &[Trial]) -> Result<(), RecordError> {
    append(&dir.join("trials.jsonl"), trials)
}

/// Adds a search to `search.jsonl`.
///
/// # Errors
/// The file cannot be written.
pub fn append_search(dir: &Path, search: &Search) -> Result<(), RecordError> {
    append(&dir.join("search.jsonl"), std::slice::from_ref(search))
}

/// Adds values to a file, a line each, in one piece.
fn append<T: Serialize>(path: &Path, values: &[T]) -> Result<(), RecordError> {
    let failed = |source| RecordError::File { action: "write", path: path.to_owned(), source };
    let mut lines = String::new();
    for value in values {
        let line = serde_json::to_string(value).map_err(|source| RecordError::Json {
            path: path.to_owned(),
            line: 0,
            source,
        })?;
        lines.push_str(&line);
        lines.push('\n');
    }
    let mut file = fs::File::options().create(true).append(true).open(path).map_err(failed)?;
    file.write_all(lines.as_bytes()).map_err(failed)
}

fn read(path: &Path) -> Result<String, RecordError> {
    let failed = |source| RecordError::File { action: "read", path: path.to_owned(), source };
    fs::read_to_string(path).map_err(failed)
}
