//! Samples of the connection table's size during a trial.
//!
//! The machine that has the table samples it: a request per sample would add packets while packets
//! are measured, and the connection between two hosts would limit the rate. So over hosts, times
//! count from the start of the agent's sampling, which is one reply before the trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::observe::kernel_counters::ConntrackStatReader;

/// Seconds since the beginning, and entries then.
pub(crate) type ConntrackSamples = Vec<(f64, u64)>;

/// A thread that counts connections on this machine.
pub(crate) struct ConntrackSampler {
    stop_flag: Arc<AtomicBool>,
    thread: JoinHandle<ConntrackSamples>,
}

impl ConntrackSampler {
    /// Begins; `None` if there is nothing to read.
    pub(crate) fn start(reader: ConntrackStatReader, period: Duration) -> Option<ConntrackSampler> {
        if !reader.has_conntrack() {
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
        Some(ConntrackSampler { stop_flag: over, thread })
    }

    /// Ends; what was seen.
    pub(crate) fn stop(self) -> ConntrackSamples {
        self.stop_flag.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}
