//! Samples of the connection table's size during a trial.
//!
//! The machine that has the table samples it: a request per sample would add packets while packets
//! are measured, and the connection between two hosts would limit the rate. So over hosts, times
//! count from the start of the agent's sampling, which is one reply before the trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::observe::counters::ConntrackReader;

/// Seconds since the beginning, and entries then.
pub(crate) type TableSamples = Vec<(f64, u64)>;

/// A thread that counts connections on this machine.
pub(crate) struct Sampler {
    over: Arc<AtomicBool>,
    thread: JoinHandle<TableSamples>,
}

impl Sampler {
    /// Begins; `None` if there is nothing to read.
    pub(crate) fn start(reader: ConntrackReader, period: Duration) -> Option<Sampler> {
        if !reader.has_table() {
            return None;
        }
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let look = move || {
            let begun = Instant::now();
            let mut samples = Vec::new();
            while !seen.load(Ordering::SeqCst) {
                if let Ok(table) = reader.read() {
                    samples.push((begun.elapsed().as_secs_f64(), table.entries));
                }
                // Woken up at the end of the trial.
                std::thread::park_timeout(period);
            }
            samples
        };
        let thread = std::thread::Builder::new().name("sampler".to_owned()).spawn(look).ok()?;
        Some(Sampler { over, thread })
    }

    /// Ends; what was seen.
    pub(crate) fn stop(self) -> TableSamples {
        self.over.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}
