//! Runs of one study, read together.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use weir_report::{ExtraSection, NamedRun};
use weir_stats::{RunRecord, run_folder};

use crate::terminal;

/// The page of a run, in its folder.
pub(super) const REPORT_FILE: &str = "report.html";

/// Reads runs of one study, each named by its folder.
pub fn load_runs_of_same_study(
    first: &Path,
    others: &[PathBuf],
) -> Result<Vec<(String, RunRecord)>> {
    let mut runs = vec![(folder_name(first)?, run_folder::load_record_recomputing_claims(first)?)];
    for path in others {
        let record = run_folder::load_record_recomputing_claims(path)?;
        ensure_same_study((first, &runs[0].1), (path, &record))?;
        runs.push((folder_name(path)?, record));
    }
    Ok(runs)
}

/// Refuses runs of two studies.
pub fn ensure_same_study(first: (&Path, &RunRecord), second: (&Path, &RunRecord)) -> Result<()> {
    let ((path, record), (other_path, other)) = (first, second);
    ensure!(
        record.run.study == other.run.study,
        "{} is a run of {}, {} one of {}: name runs of one study",
        path.display(),
        record.run.study,
        other_path.display(),
        other.run.study
    );
    Ok(())
}

/// The last part of a folder's path, also of `.`.
fn folder_name(folder: &Path) -> Result<String> {
    let whole = fs::canonicalize(folder).with_context(|| format!("find {}", folder.display()))?;
    Ok(whole.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()))
}

/// The runs, as the report takes them.
pub fn to_named_runs(runs: &[(String, RunRecord)]) -> Vec<NamedRun<'_>> {
    runs.iter().map(|(name, record)| NamedRun { name, record }).collect()
}

/// What each run found, below its name and kernel where there are several.
pub fn render_run_summaries(runs: &[(String, RunRecord)]) -> String {
    let mut text = String::new();
    for (at, (name, record)) in runs.iter().enumerate() {
        if runs.len() > 1 {
            let gap = if at == 0 { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{name}, {}:", record.run.firewall_environment().kernel);
        }
        text.push_str(&weir_report::render_summary(record));
    }
    text
}

/// Writes the page of runs of one study, and says where it is.
pub(super) fn write_report_page(
    path: &Path,
    runs: &[NamedRun<'_>],
    extras: &[ExtraSection],
) -> Result<()> {
    fs::write(path, weir_report::render_page_with_run_overlay(runs, extras))
        .with_context(|| format!("write {}", path.display()))?;
    terminal::print_escaped_to_stderr(&format!("weir: report: {}\n", path.display()));
    Ok(())
}
