//! Ends a command that takes longer than `--timeout`.
//!
//! Reading, proving and checking do not look at a clock: a second thread ends the process. Before a
//! command writes or prints its result it [disarms](ProcessTimeout::disarm) the timeout, so that a
//! result is written as a whole or not at all.

use std::io::{self, IsTerminal as _};
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cli::TimeLimitArgs;
use crate::terminal;

/// Ends the process when the time of `--timeout` is over, unless it is disarmed.
#[derive(Debug)]
pub struct ProcessTimeout {
    is_disarmed: Arc<(Mutex<bool>, Condvar)>,
}

impl ProcessTimeout {
    /// From now on, the command has as long as the options allow.
    pub fn arm(limit: &TimeLimitArgs) -> ProcessTimeout {
        let is_disarmed = Arc::new((Mutex::new(false), Condvar::new()));
        if let Some(seconds) = limit.timeout {
            let shared = Arc::clone(&is_disarmed);
            std::thread::spawn(move || end_process_unless_disarmed(&shared, seconds));
        }
        ProcessTimeout { is_disarmed }
    }

    /// The result is known, and writing it takes as long as it takes.
    pub fn disarm(&self) {
        *lock_ignoring_poison(&self.is_disarmed.0) = true;
        self.is_disarmed.1.notify_all();
    }
}

impl Drop for ProcessTimeout {
    fn drop(&mut self) {
        self.disarm();
    }
}

fn lock_ignoring_poison(mutex: &Mutex<bool>) -> MutexGuard<'_, bool> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end_process_unless_disarmed((mutex, changed): &(Mutex<bool>, Condvar), seconds: u64) {
    let start = Instant::now();
    let limit = Duration::from_secs(seconds);
    let mut is_disarmed = lock_ignoring_poison(mutex);
    while !*is_disarmed {
        let Some(left) = limit.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
            // The lock is held until the end: nothing is written meanwhile.
            let clear_line = if io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
            terminal::print_colored_to_stderr(&format!(
                "{clear_line}weir: not finished after {seconds} s (--timeout), and nothing was \
                 written: allow more time, or less work (--steps, --packets)\n"
            ));
            process::exit(2);
        };
        let waited = changed.wait_timeout(is_disarmed, left);
        is_disarmed = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}
