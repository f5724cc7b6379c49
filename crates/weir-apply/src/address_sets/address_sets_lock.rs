//! The lock that updates of sets from lists take.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use weir_kernel::KernelError;
use weir_kernel::xtables::XtablesLock;

use crate::ApplyError;

const LOCK_DIRECTORY: &str = "/run/weir";
const NETWORK_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// The lock of one network namespace, held until it is dropped.
#[derive(Debug)]
pub struct AddressSetsLock {
    _lock: XtablesLock,
}

impl AddressSetsLock {
    /// Takes the lock of the current network namespace, waiting for at most `limit`.
    ///
    /// # Errors
    /// If another process holds it for longer, or the lock file cannot be opened.
    pub fn acquire(limit: Duration) -> Result<AddressSetsLock, ApplyError> {
        let lock_error = |source| ApplyError::SetLockNotOpened { source };
        let namespace = fs::metadata(NETWORK_NAMESPACE).map_err(lock_error)?.ino();
        let mut directory = fs::DirBuilder::new();
        directory.recursive(true).mode(0o755).create(LOCK_DIRECTORY).map_err(lock_error)?;
        let path = Path::new(LOCK_DIRECTORY).join(format!("sets-{namespace}.lock"));
        match XtablesLock::acquire(&path, limit) {
            Ok(lock) => Ok(AddressSetsLock { _lock: lock }),
            Err(error) if KernelError::kind(&error) == Some(std::io::ErrorKind::WouldBlock) => {
                Err(ApplyError::SetLockHeld { path })
            }
            Err(error) => Err(error.into()),
        }
    }
}
