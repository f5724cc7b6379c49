//! Progress of a run, and the estimated remaining time.

use std::time::{Duration, Instant};

use weir_stats::Trial;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress<'a> {
    /// Steps done.
    pub steps_done: u64,
    /// All steps.
    pub total_steps: u64,
    /// What is done now.
    pub message: &'a str,
    /// Remaining time, if it is known.
    pub remaining: Option<Duration>,
    /// The trials so far.
    pub trials: &'a [Trial],
}

/// Work done and work left, by what each step is expected to take.
pub(crate) struct RunProgressTracker<'a> {
    started_at: Instant,
    steps_done: u64,
    pub(super) total_steps: u64,
    spent_seconds: f64,
    pub(super) expected_seconds: f64,
    report_progress: &'a mut dyn FnMut(RunProgress<'_>),
}

impl<'a> RunProgressTracker<'a> {
    pub(super) fn new(progress: &'a mut dyn FnMut(RunProgress<'_>)) -> RunProgressTracker<'a> {
        RunProgressTracker {
            started_at: Instant::now(),
            steps_done: 0,
            total_steps: 0,
            spent_seconds: 0.0,
            expected_seconds: 0.0,
            report_progress: progress,
        }
    }

    pub(super) fn report_step_start(&mut self, message: &str, expected: f64, trials: &[Trial]) {
        let pace = self.started_at.elapsed().as_secs_f64() / self.spent_seconds.max(0.5);
        let left = (self.expected_seconds - self.spent_seconds).max(0.0) * pace.clamp(0.5, 4.0);
        (self.report_progress)(RunProgress {
            steps_done: self.steps_done.min(self.total_steps),
            total_steps: self.total_steps,
            message,
            remaining: Some(Duration::from_secs_f64(left)),
            trials,
        });
        self.steps_done += 1;
        self.spent_seconds += expected;
    }
}
