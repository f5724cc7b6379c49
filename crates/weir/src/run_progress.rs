//! Progress of a run: a line per subject with its last measurement, and a progress bar.
//!
//! Everything is written to standard error. If that is not a terminal, a plain line is written from
//! time to time instead. A line is recomputed only after a trial of its subject, between two
//! trials: nothing is drawn during a measurement.

use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_report::format_estimate_with_unit;
use weir_stats::trial_selection::TrialSelection;
use weir_stats::{Quantity, Trial, TrialState};

use crate::terminal::{self, TerminalProgress};

/// How often a plain line is written at most.
const PLAIN_LINE_INTERVAL: Duration = Duration::from_secs(30);

/// The lines of a run.
pub struct RunProgressDisplay {
    lines: MultiProgress,
    bar: TerminalProgress,
    subject_lines: Vec<(String, ProgressBar)>,
    seen_trial_count: usize,
    plain_line_timer: PlainLineTimer,
}

impl RunProgressDisplay {
    /// The bar alone: lines come with the first trials.
    pub fn new() -> RunProgressDisplay {
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        let bar = TerminalProgress::new_below_lines(&lines);
        RunProgressDisplay {
            lines,
            bar,
            subject_lines: Vec::new(),
            seen_trial_count: 0,
            plain_line_timer: PlainLineTimer::default(),
        }
    }

    /// Shows how far a run is.
    pub fn update_bar_and_subject_lines(&mut self, progress: &weir_lab::RunProgress<'_>) {
        self.bar.show_with_time_left(
            progress.message,
            progress.steps_done,
            progress.total_steps,
            progress.estimated_remaining_time,
        );
        if self.lines.is_hidden() {
            if self.plain_line_timer.start_interval_if_due(Instant::now()) {
                terminal::print_escaped_to_stderr(&format_plain_progress_line(progress));
            }
            return;
        }
        for (subject, text) in
            format_estimate_of_updated_subjects(progress.trials, self.seen_trial_count)
        {
            self.find_or_insert_subject_line(subject).set_message(format!("{subject:<20} {text}"));
        }
        self.seen_trial_count = progress.trials.len();
    }

    /// The line of a subject, in the order in which they were measured first.
    fn find_or_insert_subject_line(&mut self, subject: &str) -> &ProgressBar {
        let at = self.subject_lines.iter().position(|(name, _)| name == subject);
        let at = at.unwrap_or_else(|| {
            let line = self.lines.insert(self.subject_lines.len(), ProgressBar::new_spinner());
            let plain = ProgressStyle::with_template("{msg}");
            line.set_style(plain.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            self.subject_lines.push((subject.to_owned(), line));
            self.subject_lines.len() - 1
        });
        &self.subject_lines[at].1
    }
}

impl Drop for RunProgressDisplay {
    fn drop(&mut self) {
        self.subject_lines.iter().for_each(|(_, line)| line.finish_and_clear());
    }
}

/// When a plain line was written last.
#[derive(Debug, Default)]
struct PlainLineTimer {
    last_line: Option<Instant>,
}

impl PlainLineTimer {
    /// Whether a line is due now: the first one, and others at intervals.
    fn start_interval_if_due(&mut self, now: Instant) -> bool {
        let start_interval_if_due = self
            .last_line
            .is_none_or(|last| now.saturating_duration_since(last) >= PLAIN_LINE_INTERVAL);
        if start_interval_if_due {
            self.last_line = Some(now);
        }
        start_interval_if_due
    }
}

/// How far a run is, in a line.
fn format_plain_progress_line(progress: &weir_lab::RunProgress<'_>) -> String {
    let (done, total) = (progress.steps_done, progress.total_steps);
    let left = progress.estimated_remaining_time;
    let left = left.map(|left| format!(", {} s left", left.as_secs())).unwrap_or_default();
    format!("weir: step {done} of {total}{left}: {}\n", progress.message)
}

/// What the trials since number `seen` say: of each subject the last one that counts, with the
/// median and the interval of its point so far.
fn format_estimate_of_updated_subjects(trials: &[Trial], seen: usize) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    let new = trials.iter().skip(seen).rev();
    for trial in new.filter(|trial| trial.state == TrialState::Accepted && trial.copy_index == 0) {
        if found.iter().any(|(subject, _)| *subject == trial.subject) {
            continue;
        }
        let quantity = Quantity::primary_of_trial_kind(trial.kind).unwrap_or(Quantity::LossRatio);
        let selection = TrialSelection::of_first_copy(quantity, &trial.subject, &trial.scenario);
        let Some(estimate) = selection.estimate_median_of_block_means(trials) else { continue };
        let at = trial.scenario.to_string();
        let at = if at.is_empty() { at } else { format!(" at {at}") };
        found.push((
            &trial.subject,
            format!("{}{at}", format_estimate_with_unit(quantity, &estimate)),
        ));
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_are_written_at_the_start_and_at_intervals() {
        let (mut timer, start) = (PlainLineTimer::default(), Instant::now());
        let due: Vec<u64> = (0..100)
            .filter(|seconds| timer.start_interval_if_due(start + Duration::from_secs(*seconds)))
            .collect();
        assert_eq!(due, [0, 30, 60, 90]);
        let progress = weir_lab::RunProgress {
            steps_done: 3,
            total_steps: 96,
            message: "nft at 16 rules",
            estimated_remaining_time: Some(Duration::from_secs(120)),
            trials: &[],
        };
        assert_eq!(
            format_plain_progress_line(&progress),
            "weir: step 3 of 96, 120 s left: nft at 16 rules\n"
        );
    }

    #[test]
    fn each_updated_subject_has_its_current_estimate_with_interval() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let run = root.join("studies/hagtheil-empty-tables/runs/2026-11-21-amd-epyc-2cpu");
        let record = weir_stats::run_folder::load_record_recomputing_claims(&run).unwrap();
        let lines = format_estimate_of_updated_subjects(&record.trials, 0);
        let mut subjects: Vec<&str> = lines.iter().map(|(subject, _)| *subject).collect();
        subjects.sort_unstable();
        assert_eq!(subjects, ["empty-filter", "empty-three", "nft-empty-three", "none"]);
        for (subject, text) in &lines {
            assert!(text.contains('[') && text.ends_with(" packets/s"), "{subject}: {text}");
        }
        assert!(
            format_estimate_of_updated_subjects(&record.trials, record.trials.len()).is_empty(),
            "nothing new, no line"
        );
    }
}
