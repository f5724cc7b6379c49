//! A run as a folder of files.
//!
//! | file | holds |
//! |---|---|
//! | `run.json` | [`Run`] |
//! | `trials.jsonl` | one [`Trial`] a line, in the order in which they were run |
//! | `search.jsonl` | one [`RateSearchRecord`] a line, where rates were searched |
//! | `study.toml`, `subjects.toml` | copies of what was measured |
//! | `rulesets/` | generated rulesets that are small enough to keep |
//!
//! Files of lines are plain while the run goes on; of a complete run they are `trials.jsonl.gz` and
//! `search.jsonl.gz`.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::claim;
use crate::error::RecordError;
use crate::rate_search::RateSearchRecord;
use crate::record_file::{RecordFile, RecordText};
use crate::run::{NoiseFloor, RECORD_FORMAT_VERSION, Run};
use crate::run_quality::RunQuality;
use crate::trial::Trial;
use crate::trial_selection;

/// A run with its trials.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// What was done, and where.
    pub run: Run,
    /// All trials, accepted or not.
    pub trials: Vec<Trial>,
    /// Searches of a rate, in their order; most runs have none.
    pub searches: Vec<RateSearchRecord>,
}

/// The files that [`load_record_recomputing_claims`] reads, of which a run has some: others see by
/// them that it changed.
pub const RECORD_FILE_NAMES: [&str; 5] =
    ["run.json", "trials.jsonl", "trials.jsonl.gz", "search.jsonl", "search.jsonl.gz"];

fn trials_file(dir: &Path) -> RecordFile {
    RecordFile::new(dir, "trials.jsonl")
}

fn searches_file(dir: &Path) -> RecordFile {
    RecordFile::new(dir, "search.jsonl")
}

/// Reads a run's folder.
///
/// # Errors
/// A file that is missing, that does not hold what it should, or of another format.
pub fn load_record_recomputing_claims(dir: &Path) -> Result<RunRecord, RecordError> {
    load_record_with_reader(dir, RecordFile::read_sole_form)
}

/// Reads the folder of a run that may be in progress: an incomplete line is omitted.
///
/// # Errors
/// As [`load_record_recomputing_claims`].
pub fn load_record_of_run_in_progress(dir: &Path) -> Result<RunRecord, RecordError> {
    let whole_lines = |file: &RecordFile| {
        let mut read = file.read_preferring_plain()?;
        read.text.truncate(read.text.rfind('\n').map_or(0, |at| at + 1));
        Ok(read)
    };
    load_record_with_reader(dir, whole_lines)
}

/// Reads a folder, each file of lines by `read`.
fn load_record_with_reader(
    dir: &Path,
    read: fn(&RecordFile) -> Result<RecordText, RecordError>,
) -> Result<RunRecord, RecordError> {
    let run = load_run_json(dir)?;
    let trials = parse_json_lines(&read(&trials_file(dir))?)?;
    let file = searches_file(dir);
    let searches = if file.exists() { parse_json_lines(&read(&file)?)? } else { Vec::new() };
    let mut record = RunRecord { run, trials, searches };
    record.compute_floor_and_claims();
    Ok(record)
}

impl RunRecord {
    /// Computes the noise floor and the outcome of every claim from the trials. It is called
    /// whenever records are read: those that `run.json` holds are of the version that wrote it.
    pub fn compute_floor_and_claims(&mut self) {
        let trials = &self.trials;
        self.run.noise_floor = self.run.noise_floor.take().and_then(|stored| {
            let ratio = trial_selection::estimate_noise_floor(trials, &stored.subject)?;
            Some(NoiseFloor { ratio, ..stored })
        });
        let shortcomings = RunQuality::from_run(&self.run).shortcomings();
        for record in &mut self.run.claims {
            *record = claim::evaluate_claim(&record.claim, &self.trials, &shortcomings);
        }
    }
}

fn load_run_json(dir: &Path) -> Result<Run, RecordError> {
    let path = dir.join("run.json");
    let failed = |source| RecordError::FileAccess { action: "read", path: path.clone(), source };
    let text = fs::read_to_string(&path).map_err(failed)?;
    let run: Run = serde_json::from_str(&text).map_err(|source| RecordError::InvalidJson {
        path: path.clone(),
        line: source.line(),
        source,
    })?;
    if run.format != RECORD_FORMAT_VERSION {
        return Err(RecordError::UnsupportedFormat { path, found: run.format });
    }
    Ok(run)
}

/// The values of a file that has one a line.
fn parse_json_lines<T: DeserializeOwned>(read: &RecordText) -> Result<Vec<T>, RecordError> {
    let lines = read.text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    let value = |(at, line)| {
        serde_json::from_str(line).map_err(|source| RecordError::InvalidJson {
            path: read.path.clone(),
            line: at + 1,
            source,
        })
    };
    lines.map(value).collect()
}

/// The trials of a run as text, one a line.
///
/// # Errors
/// The file cannot be read.
pub fn read_trials_text(dir: &Path) -> Result<String, RecordError> {
    trials_file(dir).read_sole_form().map(|read| read.text)
}

/// Reads the folder of a run that was interrupted, perhaps in the middle of a line, and makes it
/// ready to go on: its files are plain again, and what is behind the last whole line of
/// `trials.jsonl` is cut off. Of a complete run, the files that are still plain are compressed.
///
/// # Errors
/// As [`load_record_recomputing_claims`], and where a file cannot be changed.
pub fn prepare_and_load_run_to_resume(dir: &Path) -> Result<RunRecord, RecordError> {
    if load_run_json(dir)?.complete {
        compress_records(dir)?;
        return load_record_recomputing_claims(dir);
    }
    searches_file(dir).expand_to_plain()?;
    let file = trials_file(dir);
    file.expand_to_plain()?;
    file.cut_partial_line()?;
    load_record_recomputing_claims(dir)
}

/// Compresses the records of a complete run. A kill meanwhile loses nothing.
///
/// # Errors
/// A file cannot be read or written.
pub fn compress_records(dir: &Path) -> Result<(), RecordError> {
    trials_file(dir).compress()?;
    searches_file(dir).compress()
}

/// Writes `run.json`, in place of the one that is there.
///
/// # Errors
/// The file cannot be written.
pub fn save_run_json(dir: &Path, run: &Run) -> Result<(), RecordError> {
    let path = dir.join("run.json");
    let failed = |source| RecordError::FileAccess { action: "write", path: path.clone(), source };
    let mut text = serde_json::to_string_pretty(run)
        .map_err(|source| RecordError::InvalidJson { path: path.clone(), line: 0, source })?;
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
    self::trials_file(dir).append_json_lines(trials)
}

/// Adds a search to `search.jsonl`.
///
/// # Errors
/// The file cannot be written.
pub fn append_search(dir: &Path, search: &RateSearchRecord) -> Result<(), RecordError> {
    searches_file(dir).append_json_lines(std::slice::from_ref(search))
}
