//! Packet sockets: whole frames out of a device, and in by it (packet(7)).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::socket_option::set_socket_option;

/// `PACKET_IGNORE_OUTGOING` of linux/if_packet.h.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// Opens a packet socket on a device of the current network namespace. It receives the frames of
/// one Ethernet protocol that come in by the device, e.g. `ETH_P_IP`; of protocol 0 there are none.
///
/// # Errors
/// If there is no such device, or weir is not root.
pub fn open_packet_socket(index: u32, protocol: u16) -> io::Result<OwnedFd> {
    // SAFETY: plain system calls; the descriptor is checked before it is owned; the address is a
    // zeroed sockaddr_ll, which is valid, and every pointer comes with its length.
    unsafe {
        // Protocol 0 until it is bound: nothing of other devices is received.
        let raw = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = OwnedFd::from_raw_fd(raw);
        // A kernel before 4.20 does not know it: then what is sent is received too.
        let on = 1i32.to_ne_bytes();
        let _ = set_socket_option(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &on);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        if libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(fd)
    }
}
