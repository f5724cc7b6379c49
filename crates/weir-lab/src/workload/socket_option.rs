//! Options of a socket that the standard library does not set.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Sets an option of the level of `socket`.
pub(crate) fn set_option(
    socket: &OwnedFd,
    level: i32,
    option: i32,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the value comes with its length.
    let result = unsafe {
        let length = value.len() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
