//! Calls of `BPF_PROG_TEST_RUN` with live frames: one call per trial, which the program paces
//! (`bpf/pace.h`) and a [`StoppedTestRunInterrupter`] ends.

use std::time::{Duration, Instant};

use libbpf_rs::{ProgramInput, ProgramMut};
use weir_kernel::Namespace;

use crate::BpfError;
use crate::stopped_test_run_interrupter::StoppedTestRunInterrupter;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES_FLAG: u32 = 1 << 1;
/// Pages that the kernel takes through the program before it sends them.
const KERNEL_DEFAULT_PAGES_PER_BATCH: u64 = 64;
/// No machine processes a page faster than this; limits a call whose signal is lost.
const ASSUMED_FASTEST_PAGES_PER_SECOND: f64 = 50e6;
/// What may be made at once when a rate is late.
pub const MAX_CATCH_UP_BURST_FRAMES: u64 = 256;

/// Pages for a trial: `rate` per second (0: unlimited), at most `most` (0: no limit).
pub fn count_pages_for_trial(duration: Duration, rate: u64, most: u64) -> u64 {
    let pages = ((duration.as_secs_f64() + 1.0) * ASSUMED_FASTEST_PAGES_PER_SECOND) as u64;
    let pages = match (rate, most) {
        // Each page is a packet; one batch more, in which the program sees that it is done.
        (0, 1..) => pages.min(
            most.next_multiple_of(KERNEL_DEFAULT_PAGES_PER_BATCH) + KERNEL_DEFAULT_PAGES_PER_BATCH,
        ),
        _ => pages,
    };
    pages.clamp(KERNEL_DEFAULT_PAGES_PER_BATCH, i32::MAX as u64)
}

/// Calls the program for so many pages, each as long as `page`, in a namespace and on the current
/// core, until `is_silent` says that it has fallen silent. One call is enough but
/// for long trials at a rate, in which more pages go by than a call can have.
///
/// # Errors
/// If the kernel refuses the call.
pub fn run_live_frames_until_silent(
    program: &ProgramMut<'_>,
    watcher: &StoppedTestRunInterrupter,
    namespace: &Namespace,
    duration: Duration,
    page: &[u8],
    pages: u64,
    is_silent: &dyn Fn() -> bool,
) -> Result<(), BpfError> {
    let input = || ProgramInput {
        data_in: Some(page),
        flags: LIVE_FRAMES_FLAG,
        repeat: pages as u32,
        ..ProgramInput::default()
    };
    let call = || {
        let _watched = watcher.watch_next_call(duration);
        let begun = Instant::now();
        loop {
            match program.test_run(input()) {
                Ok(_) if is_silent() || begun.elapsed() > duration => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => return Ok(()),
                Err(error) => {
                    return Err(BpfError::from_libbpf("run a program with live frames")(error));
                }
            }
        }
    };
    namespace.call_inside(call)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_count_covers_the_requested_packets_or_duration() {
        let second = Duration::from_secs(1);
        assert_eq!(count_pages_for_trial(second, 0, 1000), 1024 + 64);
        assert_eq!(count_pages_for_trial(second, 0, 0), 100_000_000);
        assert_eq!(
            count_pages_for_trial(second, 5, 1000),
            100_000_000,
            "at a rate, some pages send no packet"
        );
        assert_eq!(count_pages_for_trial(Duration::from_secs(1 << 20), 0, 0), i32::MAX as u64);
    }
}
