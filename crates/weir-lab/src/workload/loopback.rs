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

use weir_study::traffic::IPV4_UDP_HEADER_BYTES;
use weir_study::traffic::loopback::LoopbackUdpToClosedPort;

use crate::LabError;
use crate::topology::FirewallWithCounters;
use crate::workload::datagram_outcome::DatagramCounts;
use crate::workload::workload_planner::{
    EMPTY_FIREWALL_CHECK_PACKETS, PlannedWorkload, TrialParameters, WorkloadPlanner,
};
use crate::workload::workload_resources::WorkloadResources;
use crate::workload::workload_trait::{Workload, WorkloadOutcome};

/// Datagrams of one system call.
const SENDMMSG_BATCH: usize = 64;
/// Where they go.
const LOOPBACK_ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A host of a study that sends to itself.
pub(crate) struct LoopbackWorkloadPlanner {
    udp: LoopbackUdpToClosedPort,
    drops_all: bool,
}

impl LoopbackWorkloadPlanner {
    /// `drops_all` says that the ruleset has to drop everything.
    pub(crate) fn new(udp: LoopbackUdpToClosedPort, drops_all: bool) -> LoopbackWorkloadPlanner {
        LoopbackWorkloadPlanner { udp, drops_all }
    }
}

impl<'a> WorkloadPlanner<'a> for LoopbackWorkloadPlanner {
    fn create_firewall(
        &self,
        resources: &mut WorkloadResources,
        _ipv6: bool,
    ) -> Result<FirewallWithCounters, LabError> {
        resources.topology.create_loopback_host()
    }

    fn plan_trial(
        &self,
        _resources: &mut WorkloadResources,
        trial: &TrialParameters<'_>,
    ) -> Result<PlannedWorkload<'a>, LabError> {
        let workload = LoopbackWorkload::new(self.udp, (trial.duration, 0), self.drops_all);
        Ok(PlannedWorkload::of_packets(workload, self.drops_all))
    }

    fn plan_empty_firewall_trial(
        &self,
        _resources: &mut WorkloadResources,
        _trial: &TrialParameters<'_>,
    ) -> Result<Box<dyn Workload + 'a>, LabError> {
        let length = (Duration::from_secs(1), EMPTY_FIREWALL_CHECK_PACKETS);
        Ok(Box::new(LoopbackWorkload::new(self.udp, length, false)))
    }
}

/// Sends datagrams over the loopback device.
pub(crate) struct LoopbackWorkload {
    udp: LoopbackUdpToClosedPort,
    duration: Duration,
    /// Datagrams after which it stops; 0: no limit.
    max_datagrams: u64,
    /// The ruleset has to drop everything.
    drops_all: bool,
    socket: Option<OwnedFd>,
    no_ports_before: u64,
    datagrams_sent: u64,
    seconds: f64,
}

impl LoopbackWorkload {
    /// Sends for a duration or a number of datagrams, whichever is reached first; with `drops_all`
    /// the ruleset has to drop all of them.
    pub(crate) fn new(
        udp: LoopbackUdpToClosedPort,
        (duration, most): (Duration, u64),
        drops_all: bool,
    ) -> LoopbackWorkload {
        LoopbackWorkload {
            udp,
            duration,
            max_datagrams: most,
            drops_all,
            socket: None,
            no_ports_before: 0,
            datagrams_sent: 0,
            seconds: 0.0,
        }
    }
}

fn loopback_error(source: io::Error) -> LabError {
    LabError::SystemCall { action: "send over loopback", source }
}

impl Workload for LoopbackWorkload {
    fn duration(&self) -> Duration {
        self.duration
    }

    fn begin_trial(
        &mut self,
        _stage: &mut WorkloadResources,
        host: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        self.no_ports_before = read_udp_no_ports(host)?;
        self.socket = Some(host.namespace.call_inside(open_udp_socket)?.map_err(loopback_error)?);
        Ok(())
    }

    fn send_traffic(
        &mut self,
        _stage: &mut WorkloadResources,
        _host: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        let socket = self.socket.as_ref().expect("prepared before");
        let begun = Instant::now();
        self.datagrams_sent = send_batches_until_duration_or_count(
            socket,
            self.udp,
            self.duration,
            self.max_datagrams,
        )
        .map_err(loopback_error)?;
        self.seconds = begun.elapsed().as_secs_f64();
        Ok(())
    }

    fn await_packets_accounted_for(
        &mut self,
        _stage: &mut WorkloadResources,
        host: &FirewallWithCounters,
    ) -> Result<WorkloadOutcome, LabError> {
        let received = read_udp_no_ports(host)?.saturating_sub(self.no_ports_before);
        let counts = DatagramCounts { sent: self.datagrams_sent, received, seconds: self.seconds };
        Ok(counts.to_workload_outcome(self.drops_all))
    }
}

/// Datagrams so far for which there was no socket.
fn read_udp_no_ports(host: &FirewallWithCounters) -> Result<u64, LabError> {
    Ok(host.stack_counters.read_all_counters()?.get("Udp.NoPorts").copied().unwrap_or(0))
}

fn open_udp_socket() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(LOOPBACK_ADDRESS, 0))?;
    Ok(socket)
}

/// Sends for a duration or a number of datagrams, whichever is reached first; returns how many.
fn send_batches_until_duration_or_count(
    socket: &OwnedFd,
    udp: LoopbackUdpToClosedPort,
    duration: Duration,
    datagrams_max_or_zero: u64,
) -> io::Result<u64> {
    let payload = vec![0_u8; usize::from(udp.packet_bytes - IPV4_UDP_HEADER_BYTES)];
    // SAFETY: plain C structs, for which zeroes are valid; every pointer in them is to something
    // that lives as long as this function, with its length next to it, and the kernel writes to
    // `msg_len` only.
    unsafe {
        let mut to: libc::sockaddr_in = std::mem::zeroed();
        to.sin_family = libc::AF_INET as u16;
        to.sin_port = udp.closed_port.to_be();
        to.sin_addr.s_addr = u32::from_ne_bytes(LOOPBACK_ADDRESS.octets());
        let mut part =
            libc::iovec { iov_base: payload.as_ptr() as *mut libc::c_void, iov_len: payload.len() };
        let mut message: libc::mmsghdr = std::mem::zeroed();
        message.msg_hdr.msg_name = (&raw mut to).cast();
        message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        message.msg_hdr.msg_iov = &raw mut part;
        message.msg_hdr.msg_iovlen = 1;
        let mut batch = [message; SENDMMSG_BATCH];
        let begun = Instant::now();
        let mut sent = 0;
        while begun.elapsed() < duration
            && (datagrams_max_or_zero == 0 || sent < datagrams_max_or_zero)
        {
            let length = if datagrams_max_or_zero == 0 {
                SENDMMSG_BATCH as u64
            } else {
                (datagrams_max_or_zero - sent).min(SENDMMSG_BATCH as u64)
            };
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
