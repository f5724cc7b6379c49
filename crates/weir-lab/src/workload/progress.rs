//! Completed connections over the time of a trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::LabError;
use crate::observe::cpu::REALTIME_LIMIT;
use crate::program::tcp::{CompletedCounter, TcpEnds};

/// Looks in one trial, about.
const SAMPLES: u32 = 120;
/// Longest time between two of them.
const LONGEST_PERIOD: Duration = Duration::from_secs(1);

/// Seconds since the beginning, and connections completed until then.
type CompletedSamples = Vec<(f64, u64)>;

/// A thread that looks now and then.
pub(crate) struct ProgressSampler {
    over: Arc<AtomicBool>,
    thread: JoinHandle<CompletedSamples>,
}

impl ProgressSampler {
    /// Begins; `None` for a trial that is too short to have a course.
    pub(crate) fn start(
        ends: &mut TcpEnds,
        expected: Duration,
    ) -> Result<Option<ProgressSampler>, LabError> {
        if expected <= REALTIME_LIMIT {
            return Ok(None);
        }
        // What an earlier trial completed is not a beginning.
        ends.clear()?;
        let progress = ends.progress()?;
        let period = (expected / SAMPLES).min(LONGEST_PERIOD);
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || sample(&progress, period, &seen))
            .map_err(|source| LabError::System { action: "follow a trial", source })?;
        Ok(Some(ProgressSampler { over, thread }))
    }

    /// Ends; what was seen.
    pub(crate) fn stop(self) -> CompletedSamples {
        self.over.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

/// Time begins with the first connection: the kernel prepares a trial for a while before it.
fn sample(progress: &CompletedCounter, period: Duration, over: &AtomicBool) -> CompletedSamples {
    let mut begun: Option<Instant> = None;
    let mut samples = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let completed = progress.completed();
        if completed == 0 {
            std::thread::park_timeout(Duration::from_millis(1));
            continue;
        }
        let begun = begun.get_or_insert_with(Instant::now);
        samples.push((begun.elapsed().as_secs_f64(), completed));
        std::thread::park_timeout(period);
    }
    samples
}
