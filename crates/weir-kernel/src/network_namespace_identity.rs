//! Which network namespace the current thread is in.
//!
//! The inode of a namespace is given to another one when it is gone; its cookie (Linux 5.14) is not
//! used again until the next boot.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::KernelError;
use crate::socket_option::read_socket_option;

/// include/uapi/asm-generic/socket.h
const SO_NETNS_COOKIE: i32 = 71;
const OWN_NAMESPACE_FILE: &str = "/proc/thread-self/ns/net";

/// A network namespace, as files name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkNamespaceIdentity {
    /// The inode of its file.
    pub inode: u64,
    /// Its cookie; none before Linux 5.14.
    pub cookie: Option<u64>,
    /// Whether it is that of process 1: the host's, or a container's own.
    pub is_namespace_of_first_process: bool,
}

impl NetworkNamespaceIdentity {
    /// That of the current thread.
    ///
    /// # Errors
    /// If `/proc` is not mounted.
    pub fn of_current_thread() -> Result<NetworkNamespaceIdentity, KernelError> {
        let own = fs::metadata(OWN_NAMESPACE_FILE)
            .map_err(KernelError::io("read", OWN_NAMESPACE_FILE))?
            .ino();
        // Reading it needs CAP_SYS_PTRACE. A process without it sees a namespace of its own.
        let of_first_process = fs::metadata("/proc/1/ns/net").map(|file| file.ino()).ok();
        Ok(NetworkNamespaceIdentity {
            inode: own,
            cookie: read_namespace_cookie().ok(),
            is_namespace_of_first_process: of_first_process == Some(own),
        })
    }
}

fn read_namespace_cookie() -> io::Result<u64> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let mut cookie = [0; 8];
    read_socket_option(&socket, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut cookie)?;
    Ok(u64::from_ne_bytes(cookie))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_of_the_namespace_identity_agree() {
        let first = NetworkNamespaceIdentity::of_current_thread().expect("an identity");
        let second = NetworkNamespaceIdentity::of_current_thread().expect("an identity");
        assert_eq!(first, second);
        assert!(first.cookie.is_some_and(|cookie| cookie > 0), "Linux 5.14: {first:?}");
    }
}
