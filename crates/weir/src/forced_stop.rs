//! Ends a command soon after Ctrl-C, whatever it is doing.
//!
//! A command that has namespaces catches Ctrl-C and ends in order ([`weir_kernel::stop_signal`]). But
//! it may be waiting for a tool that loads a large ruleset, or be building a diagram, and neither
//! looks at the signal. After a short time, a second thread removes the namespaces with the processes
//! in them, and ends the process.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use weir_kernel::{reaper, stop_signal};

use crate::terminal;

/// How often the signal is looked for.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How long a command may take to end in order.
const ORDERLY_END_TIME: Duration = Duration::from_millis(400);
/// What a command that was interrupted prints.
pub const INTERRUPTED_MESSAGE: &str = "interrupted";

/// Catches Ctrl-C and ends the process after it, until it is dropped.
#[derive(Debug)]
pub struct ForcedStop {
    _command: mpsc::Sender<()>,
}

impl ForcedStop {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    pub fn arm() -> Result<ForcedStop> {
        stop_signal::install_stop_signal_handlers().context("catch Ctrl-C")?;
        let (command, end_of_command) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            let is_over =
                |time| end_of_command.recv_timeout(time) == Err(RecvTimeoutError::Disconnected);
            while !stop_signal::is_stop_requested() {
                if is_over(SIGNAL_CHECK_INTERVAL) {
                    return;
                }
            }
            if !is_over(ORDERLY_END_TIME) {
                reaper::remove_sessions_of_this_process();
                terminal::print_escaped_to_stderr(&format!("weir: {INTERRUPTED_MESSAGE}\n"));
                std::process::exit(2);
            }
        });
        Ok(ForcedStop { _command: command })
    }
}
