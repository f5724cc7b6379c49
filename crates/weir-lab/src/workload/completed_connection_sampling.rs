//! Completed connections over the time of a trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::LabError;
use crate::bpf_program::stateless_tcp::{CompletedConnectionCounter, StatelessTcpEndpoints};
use crate::observe::core_pinning::MAX_REALTIME_TRIAL;

/// Looks in one trial, about.
const SAMPLES_PER_TRIAL: u32 = 120;
/// Longest time between two of them.
const MAX_SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// Seconds since the beginning, and connections completed until then.
type CompletedConnectionSamples = Vec<(f64, u64)>;

/// A thread that looks now and then.
pub(crate) struct CompletedConnectionSampler {
    stop_flag: Arc<AtomicBool>,
    thread: JoinHandle<CompletedConnectionSamples>,
}

impl CompletedConnectionSampler {
    /// Begins; `None` for a trial that is too short to have a course.
    pub(crate) fn start_for_long_trial(
        ends: &mut StatelessTcpEndpoints,
        expected: Duration,
    ) -> Result<Option<CompletedConnectionSampler>, LabError> {
        if expected <= MAX_REALTIME_TRIAL {
            return Ok(None);
        }
        // What an earlier trial completed is not a beginning.
        ends.clear_counters()?;
        let progress = ends.completed_connection_counter()?;
        let period = (expected / SAMPLES_PER_TRIAL).min(MAX_SAMPLE_PERIOD);
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || sample_completed_connections(&progress, period, &seen))
            .map_err(|source| LabError::SystemCall { action: "follow a trial", source })?;
        Ok(Some(CompletedConnectionSampler { stop_flag: over, thread }))
    }

    /// Ends; what was seen.
    pub(crate) fn stop(self) -> CompletedConnectionSamples {
        self.stop_flag.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

/// Time begins with the first connection: the kernel prepares a trial for a while before it.
fn sample_completed_connections(
    progress: &CompletedConnectionCounter,
    period: Duration,
    over: &AtomicBool,
) -> CompletedConnectionSamples {
    let mut begun: Option<Instant> = None;
    let mut samples = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let completed = progress.read_completed();
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
