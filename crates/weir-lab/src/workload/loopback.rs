//! A host that sends to itself: UDP over loopback, to a port on which nobody listens.
//!
//! A socket sends as fast as it can, on the core that also receives: the kernel takes each datagram
//! through INPUT before it accepts the next one. Packets that the rules accept reach no socket, and
//! are counted by the stack (`Udp.NoPorts`). The host replies to each of these with an ICMP
//! message, which is recorded separately and not part of any sum. The socket is not connected, so
//! the replies do not stop it.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use weir_study::LoopbackUdp;
use weir_study::traffic::HEADERS;

use crate::LabError;
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::topology::TestFirewall;
use crate::workload::contract::{Workload, WorkloadOutcome};
use crate::workload::stage::Stage;
use weir_stats::Measured;

/// Datagrams of one system call.
const BATCH: usize = 64;
/// Where they go.
const TO: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Datagrams over loopback for a time.
pub(crate) struct LoopbackWorkload {
    udp: LoopbackUdp,
    duration: Duration,
    /// Stop after so many; 0: after the time only.
    most: u64,
    /// The ruleset has to drop everything.
    to_drop: bool,
    socket: Option<OwnedFd>,
    unheard_before: u64,
    sent: u64,
    seconds: f64,
}

impl LoopbackWorkload {
    /// For so long, or so many; `to_drop` says that the ruleset has to drop everything.
    pub(crate) fn new(
        udp: LoopbackUdp,
        (duration, most): (Duration, u64),
        to_drop: bool,
    ) -> LoopbackWorkload {
        LoopbackWorkload {
            udp,
            duration,
            most,
            to_drop,
            socket: None,
            unheard_before: 0,
            sent: 0,
            seconds: 0.0,
        }
    }
}

fn failed(source: io::Error) -> LabError {
    LabError::System { action: "send over loopback", source }
}

impl Workload for LoopbackWorkload {
    fn duration(&self) -> Duration {
        self.duration
    }

    fn prepare(&mut self, _stage: &mut Stage, host: &TestFirewall) -> Result<(), LabError> {
        self.unheard_before = unheard(host)?;
        self.socket = Some(host.namespace.enter(open)?.map_err(failed)?);
        Ok(())
    }

    fn play(&mut self, _stage: &mut Stage, _host: &TestFirewall) -> Result<(), LabError> {
        let socket = self.socket.as_ref().expect("prepared before");
        let begun = Instant::now();
        self.sent = send(socket, self.udp, self.duration, self.most).map_err(failed)?;
        self.seconds = begun.elapsed().as_secs_f64();
        Ok(())
    }

    fn settle(
        &mut self,
        _stage: &mut Stage,
        host: &TestFirewall,
    ) -> Result<WorkloadOutcome, LabError> {
        let arrived = unheard(host)?.saturating_sub(self.unheard_before);
        let played = Played {
            offered: self.sent,
            to_drop: if self.to_drop { self.sent } else { 0 },
            given_up: 0,
            finished: true,
            seconds: self.seconds,
        };
        let arrived = match self.to_drop {
            true => Arrived { leaked: arrived, ..Arrived::default() },
            false => Arrived { delivered: arrived, ..Arrived::default() },
        };
        Ok(WorkloadOutcome { played, arrived, measured: Measured::Sums })
    }
}

/// Datagrams so far that no socket wanted.
fn unheard(host: &TestFirewall) -> Result<u64, LabError> {
    Ok(host.stack.values()?.get("Udp.NoPorts").copied().unwrap_or(0))
}

fn open() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(TO, 0))?;
    Ok(socket)
}

/// Sends for so long, or so many; how many it sent.
fn send(socket: &OwnedFd, udp: LoopbackUdp, duration: Duration, most: u64) -> io::Result<u64> {
    let payload = vec![0_u8; usize::from(udp.bytes - HEADERS)];
    // SAFETY: plain C structs, for which zeroes are valid; every pointer in them is to something
    // that lives as long as this function, with its length next to it, and the kernel writes to
    // `msg_len` only.
    unsafe {
        let mut to: libc::sockaddr_in = std::mem::zeroed();
        to.sin_family = libc::AF_INET as u16;
        to.sin_port = udp.port.to_be();
        to.sin_addr.s_addr = u32::from_ne_bytes(TO.octets());
        let mut part =
            libc::iovec { iov_base: payload.as_ptr() as *mut libc::c_void, iov_len: payload.len() };
        let mut message: libc::mmsghdr = std::mem::zeroed();
        message.msg_hdr.msg_name = (&raw mut to).cast();
        message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        message.msg_hdr.msg_iov = &raw mut part;
        message.msg_hdr.msg_iovlen = 1;
        let mut batch = [message; BATCH];
        let begun = Instant::now();
        let mut sent = 0;
        while begun.elapsed() < duration && (most == 0 || sent < most) {
            let length = if most == 0 { BATCH as u64 } else { (most - sent).min(BATCH as u64) };
            let now = libc::sendmmsg(socket.as_raw_fd(), batch.as_mut_ptr(), length as u32, 0);
            match (now, io::Error::last_os_error()) {
                (0.., _) => sent += now as u64,
                (_, error) if error.kind() == io::ErrorKind::Interrupted => {}
                (_, error) => return Err(error),
            }
        }
        Ok(sent)
    }
}
