//! A host that sends to itself: UDP over loopback, to a port that nobody listens to.
//!
//! A socket sends as fast as it can, on the core that receives too: the kernel takes each datagram
//! through INPUT before it takes the next. What the rules let pass reaches no socket, and is
//! counted by the stack (`Udp.NoPorts`); each of these is answered by an ICMP message, which is
//! counted beside it and belongs into no sum. The socket is not connected, so the answers do not
//! stop it.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use weir_stats::Collected;

use crate::LabError;
use crate::observe::cpu::{Moment, Pinned, REALTIME_LIMIT};
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::topology::Firewall;
use crate::trial::runner::{Bench, Rules, Seen};
use weir_study::LoopbackUdp;
use weir_study::traffic::HEADERS;

/// Datagrams of one system call.
const BATCH: usize = 64;
/// Where they go.
const TO: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Datagrams of the probe before anything is measured.
const PROBE_DATAGRAMS: u64 = 1000;

/// One trial. `to_drop`: the ruleset has to drop everything.
pub(crate) fn trial(
    bench: &mut Bench,
    host: &Firewall,
    looping: LoopbackUdp,
    (duration, most): (Duration, u64),
    to_drop: bool,
    rules: Rules<'_>,
) -> Result<Seen, LabError> {
    let before = bench.before(host, rules, duration)?;
    let unheard_before = unheard(host)?;
    let failed = |source| LabError::System { action: "send over loopback", source };
    let socket = host.namespace.enter(open)?.map_err(failed)?;
    let realtime = bench.realtime && duration <= REALTIME_LIMIT;
    let (sent, seconds, earlier, later) = {
        let _pinned = Pinned::to(bench.core, realtime)?;
        let earlier = Moment::now(bench.core);
        let begun = Instant::now();
        let sent = send(&socket, looping, duration, most).map_err(failed)?;
        let seconds = begun.elapsed().as_secs_f64();
        (sent, seconds, earlier, Moment::now(bench.core))
    };
    let arrived = unheard(host)?.saturating_sub(unheard_before);
    let mut seen = Seen {
        played: Played {
            offered: sent,
            to_drop: if to_drop { sent } else { 0 },
            given_up: 0,
            finished: true,
            seconds,
        },
        arrived: match to_drop {
            true => Arrived { leaked: arrived, ..Arrived::default() },
            false => Arrived { delivered: arrived, ..Arrived::default() },
        },
        dropped: Vec::new(),
        noise: earlier.noise_until(&later, bench.best_spin()),
        collected: Collected::default(),
    };
    bench.after(host, rules, before, &mut seen)?;
    Ok(seen)
}

/// Sends to a host that has no rules yet: all must arrive at the port.
pub(crate) fn probe(
    bench: &mut Bench,
    host: &Firewall,
    looping: LoopbackUdp,
) -> Result<(), LabError> {
    let most = (Duration::from_secs(1), PROBE_DATAGRAMS);
    let seen = trial(bench, host, looping, most, false, Rules::Unwatched)?;
    if seen.arrived.delivered == seen.played.offered {
        return Ok(());
    }
    let drops = seen.dropped.iter().map(|drop| format!("{} {}", drop.counter, drop.packets));
    Err(LabError::Probe {
        of: seen.arrived.delivered,
        offered: seen.played.offered,
        namespace: host.namespace.name().to_owned(),
        why: drops.collect::<Vec<_>>().join(", "),
    })
}

/// Datagrams so far that no socket wanted.
fn unheard(host: &Firewall) -> Result<u64, LabError> {
    Ok(host.stack.values()?.get("Udp.NoPorts").copied().unwrap_or(0))
}

fn open() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(TO, 0))?;
    Ok(socket)
}

/// Sends for so long, or so many; how many it sent.
fn send(socket: &OwnedFd, looping: LoopbackUdp, duration: Duration, most: u64) -> io::Result<u64> {
    let payload = vec![0_u8; usize::from(looping.bytes - HEADERS)];
    // SAFETY: plain C structs, for which zeroes are valid; every pointer in them is to something
    // that lives as long as this function, with its length beside it, and the kernel writes to
    // `msg_len` only.
    unsafe {
        let mut to: libc::sockaddr_in = std::mem::zeroed();
        to.sin_family = libc::AF_INET as u16;
        to.sin_port = looping.port.to_be();
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
