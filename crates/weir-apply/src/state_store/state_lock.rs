//! The lock that commands which change generations take.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use weir_kernel::process::PidWithStartTime;

use crate::ApplyOperationError;

/// How often a held lock is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
const NAMESPACE_FILE: &str = "/proc/thread-self/ns/net";

/// The lock of the generations of one namespace, held until it is dropped.
///
/// It consists of two locks: that of the state, and that of the namespace, which `load.sh` and
/// `unload.sh` also take.
#[derive(Debug)]
pub struct StateLock {
    state: File,
    _namespace: File,
}

/// Whether the lock of the namespace is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceLockMode {
    /// An error if it cannot be taken.
    Required,
    /// It is taken if it is free.
    IfFree,
}

impl StateLock {
    pub(super) fn acquire(
        path: &Path,
        wait: Duration,
        namespace_lock: NamespaceLockMode,
    ) -> Result<StateLock, ApplyOperationError> {
        let error = || ApplyOperationError::file("open", path);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let state = options.custom_flags(no_link).open(path).map_err(error())?;
        let end = Instant::now() + wait;
        wait_for_lock(&state, end)
            .map_err(|()| ApplyOperationError::LockHeld { holder: describe_holder(path) })?;
        // All ids have the same length, so that readers never see a partial one. If the disk is
        // full, the next command cannot report this one, which is no reason to fail.
        let _ = state.write_all_at(format!("{:<10}\n", std::process::id()).as_bytes(), 0);
        let namespace = File::open(NAMESPACE_FILE)
            .map_err(ApplyOperationError::file("open", NAMESPACE_FILE))?;
        let end = match namespace_lock {
            NamespaceLockMode::Required => end,
            NamespaceLockMode::IfFree => Instant::now(),
        };
        if wait_for_lock(&namespace, end).is_err() && namespace_lock == NamespaceLockMode::Required
        {
            let holder =
                "load.sh, unload.sh or another process that holds a lock on /proc/self/ns/net";
            return Err(ApplyOperationError::LockHeld { holder: holder.to_owned() });
        }
        Ok(StateLock { state, _namespace: namespace })
    }

    /// The file that is locked.
    pub(crate) fn file(&self) -> &File {
        &self.state
    }
}

fn wait_for_lock(file: &File, end: Instant) -> Result<(), ()> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) if Instant::now() < end => std::thread::sleep(RETRY_INTERVAL),
            Err(_) => return Err(()),
        }
    }
}

fn describe_holder(path: &Path) -> String {
    let pid = fs::read_to_string(path)
        .ok()
        .and_then(|text| text.lines().next()?.trim().parse::<u32>().ok());
    let Some(pid) = pid else { return "another weir command".to_owned() };
    match PidWithStartTime::from_pid(pid) {
        Some(_) => format!("weir (process {pid})"),
        None => format!("a tool that weir (process {pid}, which has ended) started"),
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::TempFolder;

    use super::*;

    #[test]
    fn a_held_lock_names_its_holder_and_is_released_when_dropped() {
        let folder = TempFolder::new("state-lock");
        let path = folder.path().join("lock");
        let first = StateLock::acquire(&path, Duration::ZERO, NamespaceLockMode::Required)
            .expect("it is free");
        let error = StateLock::acquire(&path, Duration::ZERO, NamespaceLockMode::Required)
            .expect_err("it is held")
            .to_string();
        assert!(error.contains(&format!("weir (process {})", std::process::id())), "{error}");
        let waiting = std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                StateLock::acquire(&path, Duration::from_secs(20), NamespaceLockMode::Required)
            });
            drop(first);
            second.join().expect("it ends")
        });
        waiting.expect("it was dropped");
    }
}
