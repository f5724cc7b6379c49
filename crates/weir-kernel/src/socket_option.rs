//! Options of a socket that neither the standard library nor rustix sets or reads.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Sets an option of a level, e.g. `SOL_SOCKET`, to the bytes of a value that holds no addresses.
///
/// # Errors
/// If the kernel does not know the option, or refuses the value.
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

/// Reads an option into a buffer, which may also say what is asked for.
///
/// # Errors
/// If the kernel does not know the option, or refuses the request.
pub(crate) fn read_socket_option(
    fd: &OwnedFd,
    level: i32,
    option: i32,
    value: &mut [u8],
) -> io::Result<()> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the buffer is passed with its length.
    let result = unsafe {
        let pointer = value.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), level, option, pointer, &mut length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
