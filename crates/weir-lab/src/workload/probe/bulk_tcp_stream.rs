//! One bulk TCP stream through a firewall, between kernel sockets.
//!
//! Source and sink have one address each, on every link; `SO_BINDTODEVICE` selects the link.
//! Segments are not merged before the firewall (`gso_max_segs 1`), so that each is a packet for the
//! rules, as on a router with network cards of that time.

use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use weir_kernel::set_socket_option;
use weir_stats::BulkTcpStreamResult;

use crate::LabError;
use crate::host::router_config::SINK_ADDRESS;
use crate::observe::core_pinning::CorePinGuard;
use crate::topology::probe_routes::ProbeLinks;

/// The port of ttcp.
const TTCP_PORT: u16 = 5001;
/// How long the other end may be silent.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends for `duration`, both ends on `core`.
pub(crate) fn run_bulk_tcp_stream(
    ends: &ProbeLinks<'_>,
    core: u32,
    realtime: bool,
    duration: Duration,
) -> Result<BulkTcpStreamResult, LabError> {
    let failed = |source| LabError::SystemCall { action: "send a stream of TCP", source };
    let listener = ends.sink.call_inside(|| listen_on_device(ends.sink_device))?.map_err(failed)?;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let _pinned = CorePinGuard::pin_to_core(core, realtime)?;
            receive_stream(&listener).map_err(failed)
        });
        let _pinned = CorePinGuard::pin_to_core(core, realtime)?;
        let sent = ends
            .source
            .call_inside(|| send_stream_and_count_retransmits(ends.source_device, duration))?;
        let (bytes, seconds) = receiver.join().expect("the receiver does not panic")?;
        Ok(BulkTcpStreamResult { bytes, seconds, retransmits: sent.map_err(failed)? })
    })
}

fn listen_on_device(device: &str) -> io::Result<TcpListener> {
    let socket = open_device_bound_socket(device)?;
    let on = 1_i32;
    set_socket_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, &on.to_ne_bytes())?;
    rustix::net::bind(&socket, &SocketAddrV4::new(SINK_ADDRESS, TTCP_PORT))?;
    rustix::net::listen(&socket, 1)?;
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Reads to the end: bytes, and the time from the first until the last.
fn receive_stream(listener: &TcpListener) -> io::Result<(u64, f64)> {
    let mut socket = accept_stream(listener)?;
    socket.set_read_timeout(Some(PEER_TIMEOUT))?;
    let mut bytes = 0;
    let mut first = None;
    let mut last = Instant::now();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                last = Instant::now();
                // The time for the data of the first read was before that.
                if first.is_some() {
                    bytes += length as u64;
                }
                first.get_or_insert(last);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let seconds = first.map_or(0.0, |first| last.duration_since(first).as_secs_f64());
    Ok((bytes, seconds))
}

fn accept_stream(listener: &TcpListener) -> io::Result<TcpStream> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec { tv_sec: PEER_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    if poll(&mut fds, Some(&limit))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let (socket, _) = listener.accept()?;
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Connects and sends; how many segments were sent again.
fn send_stream_and_count_retransmits(device: &str, duration: Duration) -> io::Result<u64> {
    let socket = open_device_bound_socket(device)?;
    // Also the limit of a connect.
    let patience = libc::timeval { tv_sec: PEER_TIMEOUT.as_secs() as libc::time_t, tv_usec: 0 };
    // SAFETY: a plain C struct seen as its bytes.
    let bytes: [u8; size_of::<libc::timeval>()] = unsafe { std::mem::transmute(patience) };
    set_socket_option(&socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &bytes)?;
    rustix::net::connect(&socket, &SocketAddrV4::new(SINK_ADDRESS, TTCP_PORT))?;
    let mut socket = TcpStream::from(socket);
    let begun = Instant::now();
    let chunk = vec![0; 64 * 1024];
    while begun.elapsed() < duration {
        match socket.write(&chunk) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let again = read_retransmits(&socket)?;
    socket.shutdown(std::net::Shutdown::Write)?;
    Ok(again)
}

/// A TCP socket of the current namespace that uses this device only.
fn open_device_bound_socket(device: &str) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the descriptor is checked before it is owned.
    let socket = unsafe {
        let raw = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(raw)
    };
    set_socket_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_bytes())?;
    Ok(socket)
}

/// `tcpi_total_retrans` of a connection.
fn read_retransmits(socket: &TcpStream) -> io::Result<u64> {
    // SAFETY: a plain C struct that the kernel fills as far as the given length.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        let result = libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        );
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(u64::from(info.tcpi_total_retrans))
    }
}
