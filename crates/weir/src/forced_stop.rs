//! Ends a command soon after Ctrl-C, whatever it is doing.
//!
//! A command that has namespaces catches Ctrl-C, ends in order and removes them
//! ([`weir_kernel::stop_signal`]). But it may be waiting for a tool that loads a large ruleset, or
//! be building a diagram, and neither of these checks the flag. After a short time, a second thread
//! removes the namespaces with the processes in them, and ends the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use weir_kernel::{reaper, stop_signal};

use crate::terminal;

/// How often the flag is checked.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How long a command may take to end in order.
const ORDERLY_END_TIME: Duration = Duration::from_millis(400);
/// What a command that was interrupted prints.
pub const INTERRUPTED_MESSAGE: &str = "interrupted";

/// Catches Ctrl-C and ends the process after it, until it is dropped.
#[derive(Debug)]
pub struct ForcedStop {
    is_command_over: Arc<Mutex<bool>>,
}

impl ForcedStop {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    pub fn arm() -> Result<ForcedStop> {
        stop_signal::install_stop_signal_handlers().context("catch Ctrl-C")?;
        let is_command_over = Arc::new(Mutex::new(false));
        let shared = Arc::clone(&is_command_over);
        std::thread::spawn(move || {
            while !stop_signal::is_stop_requested() {
                if *lock_ignoring_poison(&shared) {
                    return;
                }
                std::thread::sleep(SIGNAL_CHECK_INTERVAL);
            }
            std::thread::sleep(ORDERLY_END_TIME);
            // Locked until the process ends: the command does not report that its tools were
            // killed.
            let is_command_over = lock_ignoring_poison(&shared);
            if !*is_command_over {
                reaper::remove_sessions_of_this_process();
                terminal::print_below_progress(&format!("weir: {INTERRUPTED_MESSAGE}\n"));
                std::process::exit(2);
            }
        });
        Ok(ForcedStop { is_command_over })
    }
}

impl Drop for ForcedStop {
    fn drop(&mut self) {
        *lock_ignoring_poison(&self.is_command_over) = true;
    }
}

fn lock_ignoring_poison(mutex: &Mutex<bool>) -> MutexGuard<'_, bool> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
