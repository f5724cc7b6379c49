//! Ctrl-C sets a flag, so that loops end in order and sessions clean up.
//!
//! The handler only sets the flag. Blocking system calls are interrupted (no `SA_RESTART`), so a
//! loop that checks [`is_stop_requested`] after each of them ends at once.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP_REQUESTED: AtomicBool = AtomicBool::new(false);

extern "C" fn set_stop_flag(_signal: libc::c_int) {
    STOP_REQUESTED.store(true, Ordering::SeqCst);
}

/// Catches SIGINT, SIGTERM and SIGHUP from now on.
///
/// # Errors
/// If the system refuses a handler.
pub fn install_stop_signal_handlers() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: a zeroed sigaction is valid; the handler only stores to an atomic, which is
        // async-signal-safe, and lives as long as the program.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = set_stop_flag as *const () as usize;
            libc::sigaction(signal, &action, std::ptr::null_mut())
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Whether one of the signals arrived since [`install_stop_signal_handlers`].
pub fn is_stop_requested() -> bool {
    STOP_REQUESTED.load(Ordering::SeqCst)
}
