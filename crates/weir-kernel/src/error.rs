//! Errors of operations on the machine.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Output};

use crate::netlink;

/// An operation on the machine that failed, with its object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A system call or a file operation.
    #[error("{action} {object}: {source}")]
    Io {
        /// What was tried, e.g. `write`.
        action: &'static str,
        /// On what.
        object: String,
        /// The system's error.
        source: io::Error,
    },
    /// A request to the kernel.
    #[error("{action} {object}: {source}")]
    Netlink {
        /// What was requested, e.g. `add address`.
        action: &'static str,
        /// On what.
        object: String,
        /// What the kernel said.
        source: netlink::NetlinkError,
    },
    /// A tool ended with an error.
    #[error("{tool} failed ({status}): {message}")]
    ToolFailed {
        /// The command.
        tool: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote to standard error.
        message: String,
    },
    /// A name that cannot be used for a namespace or a device.
    #[error("{what} name `{name}` is not usable: {why}")]
    InvalidNamespaceOrDeviceName {
        /// `namespace` or `device`.
        what: &'static str,
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// A device of the user's that cannot be used.
    #[error("device {name}: {why}")]
    UnusableDevice {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// Process ids do not mean here what `/proc` says.
    #[error("{message}")]
    ForeignProcMount {
        /// Why, and what to do.
        message: String,
    },
    /// A session file that is not what weir writes.
    #[error("read session file {path}: {message}")]
    InvalidSessionFile {
        /// Its path.
        path: String,
        /// What is wrong with it.
        message: String,
    },
}

impl KernelError {
    /// The kind of the system's error, where the system or the kernel gave one.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            KernelError::Io { source, .. } => Some(source.kind()),
            KernelError::Netlink { source, .. } => {
                source.errno().map(|errno| io::Error::from_raw_os_error(errno).kind())
            }
            _ => None,
        }
    }

    /// Wraps a system error.
    pub(crate) fn io(
        action: &'static str,
        object: impl ToString,
    ) -> impl FnOnce(io::Error) -> KernelError {
        let object = object.to_string();
        move |source| KernelError::Io { action, object, source }
    }

    /// Wraps an error of a request to the kernel.
    pub(crate) fn netlink(
        action: &'static str,
        object: impl ToString,
    ) -> impl FnOnce(netlink::NetlinkError) -> KernelError {
        let object = object.to_string();
        move |source| KernelError::Netlink { action, object, source }
    }

    /// Wraps a system error of an operation on a path.
    pub(crate) fn io_at_path(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> KernelError {
        KernelError::io(action, path.display())
    }

    /// Checks how a tool ended.
    pub(crate) fn check_exit_status(tool: &str, output: &Output) -> Result<(), KernelError> {
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(KernelError::ToolFailed { tool: tool.to_owned(), status: output.status, message })
    }
}
