//! The lock by which programs that change tables exclude each other.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::KernelError;

const DEFAULT_LOCK_FILE: &str = "/run/xtables.lock";
/// How often a lock that another program holds is tried.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// The xtables lock, held until it is dropped. It is one for the whole machine, across network
/// namespaces (iptables/xshared.c).
#[derive(Debug)]
pub struct XtablesLock {
    _file: File,
}

impl XtablesLock {
    /// The file that iptables locks: `XTABLES_LOCKFILE`, or `/run/xtables.lock`.
    pub fn path_from_environment() -> PathBuf {
        let named = std::env::var_os("XTABLES_LOCKFILE").filter(|path| !path.is_empty());
        named.map_or_else(|| DEFAULT_LOCK_FILE.into(), PathBuf::from)
    }

    /// Takes the lock, waiting for at most `limit` while another program holds it.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) where another program holds it for longer; where
    /// the file cannot be opened.
    pub fn acquire(path: &Path, limit: Duration) -> Result<XtablesLock, KernelError> {
        let mut options = OpenOptions::new();
        // As iptables opens it: it is created for root alone, and no link is followed.
        let options = options.read(true).create(true).append(true).mode(0o600);
        let file = options
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(KernelError::io_at_path("open lock", path))?;
        let end = Instant::now() + limit;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(XtablesLock { _file: file }),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Err(e) => {
                    return Err(KernelError::io_at_path("take lock", path)(io::Error::from(e)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_is_refused_until_it_is_dropped() {
        let path = std::env::temp_dir().join(format!("weir-lock-{}", std::process::id()));
        let first = XtablesLock::acquire(&path, Duration::ZERO).expect("a free lock");
        let second = XtablesLock::acquire(&path, Duration::ZERO);
        assert!(second.is_err(), "the lock is held");
        drop(first);
        XtablesLock::acquire(&path, Duration::ZERO).expect("a free lock");
        std::fs::remove_file(&path).expect("the file is there");
    }
}
