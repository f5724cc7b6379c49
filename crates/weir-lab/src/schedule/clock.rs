//! Progress of a run, and the estimated remaining time.

use std::time::{Duration, Instant};

use weir_stats::Trial;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress<'a> {
    /// Steps done.
    pub done: u64,
    /// All steps.
    pub total: u64,
    /// What is done now.
    pub message: &'a str,
    /// Remaining time, if it is known.
    pub left: Option<Duration>,
    /// The trials so far.
    pub trials: &'a [Trial],
}

/// Work done and work left, by what each step is expected to take.
pub(crate) struct RunClock<'a> {
    begun: Instant,
    done: u64,
    pub(super) total: u64,
    spent: f64,
    pub(super) expected: f64,
    progress: &'a mut dyn FnMut(RunProgress<'_>),
}

impl<'a> RunClock<'a> {
    pub(super) fn new(progress: &'a mut dyn FnMut(RunProgress<'_>)) -> RunClock<'a> {
        RunClock { begun: Instant::now(), done: 0, total: 0, spent: 0.0, expected: 0.0, progress }
    }

    pub(super) fn step(&mut self, message: &str, expected: f64, trials: &[Trial]) {
        let pace = self.begun.elapsed().as_secs_f64() / self.spent.max(0.5);
        let left = (self.expected - self.spent).max(0.0) * pace.clamp(0.5, 4.0);
        (self.progress)(RunProgress {
            done: self.done.min(self.total),
            total: self.total,
            message,
            left: Some(Duration::from_secs_f64(left)),
            trials,
        });
        self.done += 1;
        self.spent += expected;
    }
}
