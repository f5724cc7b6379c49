//! Options of a socket that neither the standard library nor rustix sets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Sets an option of a level, e.g. `SOL_SOCKET`, to the bytes of a value.
///
/// # Errors
/// Where the kernel does not know the option, or refuses the value.
pub fn set_socket_option(
    socket: &OwnedFd,
    level: i32,
    option: i32,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the value is passed with its length.
    let result = unsafe {
        let length = value.len() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
