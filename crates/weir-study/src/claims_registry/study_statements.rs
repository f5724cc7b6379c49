//! A study with its kept runs, its statements and their status.

use serde::Serialize;
use weir_stats::aa_test::AaTestRecord;
use weir_stats::evidence_limits::MIN_SAMPLES;

use super::kept_runs::KeptRun;
use super::objection::Objection;
use super::statement_status::StatementWithStatus;

/// A study as the registry knows it.
#[derive(Clone, Debug, Serialize)]
pub struct StudyStatements {
    /// Name of its folder.
    pub study: String,
    /// What a reader sees.
    pub title: String,
    /// The paper; `None` for a study that repeats none.
    pub paper: Option<String>,
    /// The command that runs it; `None` if it cannot be run yet.
    pub command: Option<String>,
    /// Folder of the best complete run below the study's, e.g. `runs/2026-11-21-amd-epyc-2cpu`.
    pub run: Option<String>,
    /// All complete runs, the best first.
    pub runs: Vec<KeptRun>,
    /// The result of one of its subjects against itself, where that was measured and kept.
    pub self_test: Option<AaTestRecord>,
    /// What a referee would object to in the study as a whole.
    pub objections: Vec<Objection>,
    /// What the paper says.
    pub items: Vec<StatementWithStatus>,
    /// weir's own claims, with the outcome of them.
    pub own: Vec<StatementWithStatus>,
}

impl StudyStatements {
    /// How many objections a referee has to the study, its statements and weir's own claims.
    pub fn objection_count(&self) -> usize {
        let items = self.items.iter().chain(&self.own);
        self.objections.len() + items.map(|item| item.objections.len()).sum::<usize>()
    }

    /// Whether every number of a statement is of a run that may decide, and has enough samples:
    /// read from the runs themselves, not from the outcome of the claims.
    pub fn rests_on_sufficient_evidence(&self, item: &StatementWithStatus) -> bool {
        item.evidence.iter().all(|evidence| {
            let run = self.runs.iter().find(|run| Some(&run.folder) == evidence.run.as_ref());
            let samples = evidence.estimate.map_or(0, |estimate| estimate.samples);
            run.is_some_and(|run| run.quality.shortcomings().is_empty()) && samples >= MIN_SAMPLES
        })
    }
}
