//! Measures durations, for benchmarks.

use std::fmt;
use std::time::{Duration, Instant};

/// Wall-clock time, and the processor time of this thread, which other programs on the machine
/// disturb less.
///
/// ```
/// let clock = weir_testkit::WallAndCpuClock::start();
/// assert!(clock.to_string().ends_with("of processor)"));
/// ```
#[derive(Debug)]
pub struct WallAndCpuClock(Instant, Duration);

impl WallAndCpuClock {
    /// Begins now.
    pub fn start() -> WallAndCpuClock {
        WallAndCpuClock(Instant::now(), read_thread_cpu_time())
    }
}

/// Both times since the start: `1.20s (1.19s of processor)`.
impl fmt::Display for WallAndCpuClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2?} ({:.2?} of processor)", self.0.elapsed(), read_thread_cpu_time() - self.1)
    }
}

/// What this thread has had of the processor (Documentation/scheduler/sched-stats.rst).
fn read_thread_cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next().and_then(|n| n.parse().ok());
    Duration::from_nanos(first.unwrap_or(0))
}
