//! Changes of sessions, and their end while other threads are still working.
//!
//! Who creates something that outlives the process holds the guard of [`begin_session_change`]. The
//! thread that removes all sessions before it ends the process ([`forbid_session_changes`]) waits
//! for these guards. After that, other threads wait in `begin_session_change` until the process
//! ends, and processes of sessions no longer start: what is removed is not created again.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

static SESSION_CHANGES_LOCK: RwLock<()> = RwLock::new(());
static ARE_PROCESSES_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Allows the calling thread to change a session until the guard is dropped. One thread must not
/// have two guards: the second would wait for a thread that waits for the first.
pub(crate) fn begin_session_change() -> RwLockReadGuard<'static, ()> {
    SESSION_CHANGES_LOCK.read().unwrap_or_else(PoisonError::into_inner)
}

/// Forbids changes of sessions until the process ends; waits for those that have begun.
pub(crate) fn forbid_session_changes() {
    ARE_PROCESSES_FORBIDDEN.store(true, Ordering::SeqCst);
    // Never unlocked.
    std::mem::forget(SESSION_CHANGES_LOCK.write().unwrap_or_else(PoisonError::into_inner));
}

/// Refuses to start a process after [`forbid_session_changes`]. Called between fork and exec: a
/// process that was forked before sees the value of that time, and is found when the processes of
/// the session are killed.
pub(crate) fn refuse_process_if_forbidden() -> io::Result<()> {
    match ARE_PROCESSES_FORBIDDEN.load(Ordering::SeqCst) {
        true => Err(io::ErrorKind::Interrupted.into()),
        false => Ok(()),
    }
}
