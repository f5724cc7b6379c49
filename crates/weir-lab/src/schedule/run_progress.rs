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
    pub estimated_remaining_time: Option<Duration>,
    /// The trials so far.
    pub trials: &'a [Trial],
}

/// Work done and work left, by what each step is expected to take.
pub(crate) struct RunProgressTracker<'a> {
    started_at: Instant,
    steps_done: u64,
    pub(super) total_steps: u64,
    expected_seconds_of_started_steps: f64,
    pub(super) expected_seconds_of_all_steps: f64,
    progress_callback: &'a mut dyn FnMut(RunProgress<'_>),
}

impl<'a> RunProgressTracker<'a> {
    pub(super) fn new(progress: &'a mut dyn FnMut(RunProgress<'_>)) -> RunProgressTracker<'a> {
        RunProgressTracker {
            started_at: Instant::now(),
            steps_done: 0,
            total_steps: 0,
            expected_seconds_of_started_steps: 0.0,
            expected_seconds_of_all_steps: 0.0,
            progress_callback: progress,
        }
    }

    pub(super) fn report_step_start(&mut self, message: &str, expected: f64, trials: &[Trial]) {
        let pace = self.started_at.elapsed().as_secs_f64()
            / self.expected_seconds_of_started_steps.max(0.5);
        let left = (self.expected_seconds_of_all_steps - self.expected_seconds_of_started_steps)
            .max(0.0)
            * pace.clamp(0.5, 4.0);
        (self.progress_callback)(RunProgress {
            steps_done: self.steps_done.min(self.total_steps),
            total_steps: self.total_steps,
            message,
            estimated_remaining_time: Some(Duration::from_secs_f64(left)),
            trials,
        });
        self.steps_done += 1;
        self.expected_seconds_of_started_steps += expected;
    }
}
