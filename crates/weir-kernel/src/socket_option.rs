//! Options of a socket that neither the standard library nor rustix sets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Sets an option of a level, e.g. `SOL_SOCKET`, to the bytes of a value that holds no addresses.
///
/// # Errors
/// Where the kernel does not know the option, or refuses the value.
pub fn set_socket_option(
    socket: &OwnedFd,
    level: i32,
    option: i32,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the kernel reads the value, and writes nothing.
    unsafe { set_socket_option_with_addresses(socket, level, option, value) }
}

/// Sets an option to a value that holds addresses to which the kernel writes.
///
/// # Errors
/// As [`set_socket_option`].
///
/// # Safety
/// At each address in the value the caller may write as many bytes as the kernel writes there.
pub(crate) unsafe fn set_socket_option_with_addresses(
    socket: &OwnedFd,
    level: i32,
    option: i32,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the value is passed with its length; the caller answers for addresses in it.
    let result = unsafe {
        let length = value.len() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
