//! Sockets that send packets: frames onto a link, packets out of a host.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sockopt};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use weir_packet::{Family, Packet};

use crate::packet_socket::open_packet_socket;
use crate::socket_option::set_socket_option;
use crate::{KernelError, Namespace};

/// Sends Ethernet frames out of one device.
#[derive(Debug)]
pub struct FrameSocket {
    fd: OwnedFd,
}

impl FrameSocket {
    /// Opens a socket on a device of a namespace.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn open(namespace: &Namespace, device: &str) -> Result<FrameSocket, KernelError> {
        let index = namespace.ifindex(device)?;
        let fd = namespace
            .call_inside(|| open_packet_socket(index, 0))?
            .map_err(KernelError::io("open packet socket on", device))?;
        Ok(FrameSocket { fd })
    }

    /// Sends frames that arrive in this order on the other end of a veth. Gives the result of each:
    /// an error where the device is down or the frame too long.
    ///
    /// The thread stays on one CPU meanwhile. Each CPU has a backlog of its own
    /// (`enqueue_to_backlog` in net/core/dev.c), and under load a frame sent from one CPU would be
    /// received before an earlier frame sent from another.
    ///
    /// # Errors
    /// If the thread cannot be kept on its CPU.
    pub fn send_in_order_from_one_cpu<'f>(
        &self,
        frames: impl IntoIterator<Item = &'f [u8]>,
    ) -> io::Result<Vec<io::Result<()>>> {
        let before = sched_getaffinity(None)?;
        let mut only = CpuSet::new();
        only.set(sched_getcpu());
        sched_setaffinity(None, &only)?;
        let results = frames
            .into_iter()
            .map(|f| rustix::net::send(&self.fd, f, SendFlags::empty()).map(drop))
            .map(|r| r.map_err(io::Error::from))
            .collect();
        sched_setaffinity(None, &before)?;
        Ok(results)
    }
}

/// Sends whole packets, network header included, out of a host: they pass OUTPUT.
#[derive(Debug)]
pub struct RawIpSocket {
    fd: OwnedFd,
}

impl RawIpSocket {
    /// Opens a socket whose packets leave by a device.
    ///
    /// # Errors
    /// If the kernel refuses (not root, no such device).
    pub fn open_bound_to_device(
        namespace: &Namespace,
        family: Family,
        device: &str,
    ) -> Result<RawIpSocket, KernelError> {
        let index = namespace.ifindex(device)?;
        let fd = namespace
            .call_inside(|| open_raw_ip_socket(family, index))?
            .map_err(KernelError::io("open raw socket on", device))?;
        Ok(RawIpSocket { fd })
    }

    /// Sends one packet.
    ///
    /// # Errors
    /// If the kernel refuses the packet, a firewall that drops it included (`EPERM`).
    pub fn send(&self, packet: &Packet, bytes: &[u8]) -> io::Result<()> {
        let to = SocketAddr::new(packet.daddr.to_ip_addr(packet.family), 0);
        match to.ip() {
            IpAddr::V4(_) | IpAddr::V6(_) => {
                rustix::net::sendto(&self.fd, bytes, SendFlags::DONTWAIT, &to)?;
            }
        }
        Ok(())
    }

    /// Gives all later packets a mark.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        set_socket_option(&self.fd, libc::SOL_SOCKET, libc::SO_MARK, &mark.to_ne_bytes())
    }
}

fn open_raw_ip_socket(family: Family, index: u32) -> io::Result<OwnedFd> {
    let domain = match family {
        Family::V4 => AddressFamily::INET,
        Family::V6 => AddressFamily::INET6,
    };
    // A raw socket of protocol RAW takes packets with their header and receives none.
    let fd = rustix::net::socket_with(
        domain,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(ipproto::RAW),
    )?;
    sockopt::set_socket_send_buffer_size_force(&fd, 16 << 20)?;
    if family == Family::V4 {
        sockopt::set_socket_broadcast(&fd, true)?;
    }
    set_socket_option(&fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &index.to_ne_bytes())?;
    Ok(fd)
}
