//! Progress of a run: a line per subject with its last measurement, and a progress bar.
//!
//! Everything is written to standard error, and nothing if that is not a terminal. A line is
//! recomputed only after a trial of its subject, between two trials: nothing is drawn during a
//! measurement.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_report::measured;
use weir_stats::series::Selection;
use weir_stats::{Quantity, State, Trial};

use crate::terminal::Progress;

/// The lines of a run.
pub struct Live {
    lines: MultiProgress,
    bar: Progress,
    subjects: Vec<(String, ProgressBar)>,
    seen: usize,
}

impl Live {
    /// The bar alone: lines come with the first trials.
    pub fn new() -> Live {
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        let bar = Progress::below(&lines);
        Live { lines, bar, subjects: Vec::new(), seen: 0 }
    }

    /// Shows how far a run is.
    pub fn show(&mut self, progress: &weir_lab::RunProgress<'_>) {
        self.bar.show_left(progress.message, progress.done, progress.total, progress.left);
        if self.lines.is_hidden() {
            return;
        }
        for (subject, text) in latest(progress.trials, self.seen) {
            self.line(subject).set_message(format!("{subject:<20} {text}"));
        }
        self.seen = progress.trials.len();
    }

    /// The line of a subject, in the order in which they were measured first.
    fn line(&mut self, subject: &str) -> &ProgressBar {
        let at = self.subjects.iter().position(|(name, _)| name == subject);
        let at = at.unwrap_or_else(|| {
            let line = self.lines.insert(self.subjects.len(), ProgressBar::new_spinner());
            let plain = ProgressStyle::with_template("{msg}");
            line.set_style(plain.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            self.subjects.push((subject.to_owned(), line));
            self.subjects.len() - 1
        });
        &self.subjects[at].1
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.subjects.iter().for_each(|(_, line)| line.finish_and_clear());
    }
}

/// What the trials since number `seen` say: of each subject the last one that counts, with the
/// median and the interval of its point so far.
fn latest(trials: &[Trial], seen: usize) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    let new = trials.iter().skip(seen).rev();
    for trial in new.filter(|trial| trial.state == State::Accepted && trial.copy == 0) {
        if found.iter().any(|(subject, _)| *subject == trial.subject) {
            continue;
        }
        let quantity = Quantity::of_kind(trial.kind).unwrap_or(Quantity::LossRatio);
        let selection = Selection::new(quantity, &trial.subject, &trial.scenario);
        let Some(estimate) = selection.estimate(trials, 1) else { continue };
        let at = trial.scenario.to_string();
        let at = if at.is_empty() { at } else { format!(" at {at}") };
        found.push((&trial.subject, format!("{}{at}", measured(quantity, &estimate))));
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_has_its_last_trial_with_the_interval_so_far() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let run = root.join("studies/hagtheil-empty-tables/runs/2026-11-21-vm-2cpu");
        let record = weir_stats::folder::load(&run).unwrap();
        let lines = latest(&record.trials, 0);
        let mut subjects: Vec<&str> = lines.iter().map(|(subject, _)| *subject).collect();
        subjects.sort_unstable();
        assert_eq!(subjects, ["empty-filter", "empty-three", "nft-empty-three", "none"]);
        for (subject, text) in &lines {
            assert!(text.contains('[') && text.ends_with(" packets/s"), "{subject}: {text}");
        }
        assert!(latest(&record.trials, record.trials.len()).is_empty(), "nothing new, no line");
    }
}
