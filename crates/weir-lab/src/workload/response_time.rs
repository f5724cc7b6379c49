//! Response times, and waiting for a response.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_stats::DurationDistribution;

/// Digits of a time that are kept, and the longest one, nanoseconds: an hour.
const HISTOGRAM_SIGNIFICANT_DIGITS: u8 = 3;
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// Times, none yet.
pub(crate) fn new_latency_histogram() -> Histogram<u64> {
    Histogram::new_with_max(MAX_LATENCY_NS, HISTOGRAM_SIGNIFICANT_DIGITS)
        .expect("three digits are kept")
}

/// Waits for an answer, so long at most.
pub(crate) fn sleep_until_readable_or_limit(
    readable: BorrowedFd<'_>,
    limit: Duration,
) -> io::Result<()> {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let mut fds = [PollFd::from_borrowed_fd(readable, PollFlags::IN)];
    match poll(&mut fds, Some(&limit)) {
        Err(error) if error != rustix::io::Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

/// What is kept of the times.
pub(crate) fn summarise_latencies(times: &Histogram<u64>) -> DurationDistribution {
    let counts: Vec<(f64, u64)> = times
        .iter_recorded()
        .map(|value| (value.value_iterated_to() as f64, value.count_at_value()))
        .collect();
    DurationDistribution::from_counts(&counts)
}
