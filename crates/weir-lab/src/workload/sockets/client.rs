//! The clients: one thread that opens sockets at planned times and waits for replies.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use slab::Slab;

use super::client_limits::REPLY_TIMEOUT;
use super::http::{format_numbered_reply, format_numbered_request};
use super::socket_plan::SocketPlan;
use crate::workload::response_time;
use weir_kernel::set_socket_option;

/// Connections that are opened before replies are read again.
const OPEN_BURST_CONNECTIONS: u32 = 32;
/// Events per poll.
const MAX_EVENTS_PER_EPOLL_WAIT: usize = 256;
/// Longest text of a reply.
const REPLY_READ_CHUNK_BYTES: usize = 256;
const ZERO_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// What is fetched, and from where.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchPlan<'a> {
    pub(super) socket_plan: SocketPlan<'a>,
    /// The first client address that is used, counted from that of the endpoints.
    pub(super) first_client_offset: u32,
    /// The device that leads to the firewall.
    pub(super) device: &'a str,
}

/// The outcome of it.
pub(super) struct FetchResult {
    /// Connections that were begun.
    pub(super) offered: u64,
    /// Connections whose reply was right.
    pub(super) completed: u64,
    /// Connections of the rate that could not be opened in time.
    pub(super) skipped_behind_schedule: u64,
    /// The others that were begun, by what went wrong.
    pub(super) failures_by_kind: BTreeMap<&'static str, u64>,
    /// From the planned time until the connection was there, nanoseconds.
    pub(super) planned_to_established_times_ns: Histogram<u64>,
    /// From the planned time until the reply was, nanoseconds.
    pub(super) planned_to_reply_times_ns: Histogram<u64>,
    /// From the first connection until the last reply, or until the plan's end.
    pub(super) seconds: f64,
}

/// One connection.
struct ClientConnection {
    socket: TcpStream,
    connection_number: u64,
    planned_start: Duration,
    is_connected: bool,
    reply: Vec<u8>,
}

struct SocketClient<'a> {
    fetch_plan: &'a FetchPlan<'a>,
    epoll: rustix::fd::OwnedFd,
    connections: Slab<ClientConnection>,
    /// Places and numbers of connections with their deadlines, rising.
    deadlines: VecDeque<(Duration, usize, u64)>,
    started_at: Instant,
    last_reply_time: Duration,
    fetch_result: FetchResult,
}

/// Opens connections as planned, and waits for each of them; in the current namespace.
pub(super) fn run_fetches(fetching: &FetchPlan<'_>) -> io::Result<FetchResult> {
    let mut client = SocketClient {
        fetch_plan: fetching,
        epoll: epoll::create(CreateFlags::CLOEXEC)?,
        connections: Slab::new(),
        deadlines: VecDeque::new(),
        started_at: Instant::now(),
        last_reply_time: Duration::ZERO,
        fetch_result: FetchResult {
            offered: 0,
            completed: 0,
            skipped_behind_schedule: 0,
            failures_by_kind: BTreeMap::new(),
            planned_to_established_times_ns: response_time::new_latency_histogram(),
            planned_to_reply_times_ns: response_time::new_latency_histogram(),
            seconds: 0.0,
        },
    };
    let SocketPlan { rate, duration, .. } = fetching.socket_plan;
    let planned = |number: u64| Duration::from_secs_f64(number as f64 / rate.max(1) as f64);
    let all = fetching.socket_plan.planned_connections();
    let mut events = Vec::with_capacity(MAX_EVENTS_PER_EPOLL_WAIT);
    loop {
        let now = client.started_at.elapsed();
        for _ in 0..OPEN_BURST_CONNECTIONS {
            let number = client.fetch_result.offered;
            if number < all && now < duration && planned(number) <= now {
                client.open_connection(number, planned(number));
            }
        }
        client.expire_deadlines(now);
        let next = client.fetch_result.offered;
        let is_opening = next < all && now < duration;
        if !is_opening && client.connections.is_empty() {
            break;
        }
        let opens = is_opening.then(|| planned(next));
        let ends = client.deadlines.front().map(|(deadline, ..)| *deadline);
        let until = opens.into_iter().chain(ends).min().unwrap_or(now);
        client.poll_and_advance_connections(&mut events, until.saturating_sub(now))?;
    }
    client.fetch_result.skipped_behind_schedule = all - client.fetch_result.offered;
    client.fetch_result.seconds = client.last_reply_time.max(duration).as_secs_f64();
    Ok(client.fetch_result)
}

impl SocketClient<'_> {
    fn open_connection(&mut self, number: u64, planned: Duration) {
        self.fetch_result.offered += 1;
        let opened = self.connect_socket(number).and_then(|socket| {
            let session = ClientConnection {
                socket,
                connection_number: number,
                planned_start: planned,
                is_connected: false,
                reply: Vec::new(),
            };
            let slot = self.connections.insert(session);
            let socket = &self.connections[slot].socket;
            let data = EventData::new_u64(slot as u64);
            let added = epoll::add(&self.epoll, socket, data, EventFlags::OUT);
            if added.is_err() {
                self.connections.try_remove(slot);
            }
            added?;
            Ok(slot)
        });
        match opened {
            Ok(slot) => {
                let deadline = self.started_at.elapsed() + REPLY_TIMEOUT;
                self.deadlines.push_back((deadline, slot, number));
            }
            Err(error) => self.count_failure(classify_socket_error(&error)),
        }
    }

    /// Each connection has the next client's address, and the next server's.
    fn connect_socket(&self, number: u64) -> io::Result<TcpStream> {
        let SocketPlan { endpoints, clients, .. } = self.fetch_plan.socket_plan;
        let nonblocking = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, nonblocking, None)?;
        let on = 1_i32.to_ne_bytes();
        set_socket_option(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on)?;
        let device = self.fetch_plan.device.as_bytes();
        set_socket_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device)?;
        let at = |first: Ipv4Addr, number: u64| Ipv4Addr::from(u32::from(first) + number as u32);
        let used = u64::from(self.fetch_plan.first_client_offset) + number % u64::from(clients);
        let client = at(endpoints.first_client, used % u64::from(endpoints.client_count));
        let round = number / u64::from(clients);
        let server = at(endpoints.first_server, round % u64::from(endpoints.server_count));
        rustix::net::bind(&socket, &SocketAddrV4::new(client, 0))?;
        match rustix::net::connect(&socket, &SocketAddrV4::new(server, endpoints.server_port)) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives up what has waited for too long.
    fn expire_deadlines(&mut self, now: Duration) {
        while let Some((deadline, slot, number)) = self.deadlines.front().copied() {
            let is_there =
                self.connections.get(slot).is_some_and(|s| s.connection_number == number);
            if is_there && deadline > now {
                return;
            }
            self.deadlines.pop_front();
            if is_there {
                self.connections.try_remove(slot);
                self.count_failure("timed out");
            }
        }
    }

    /// Takes what is there, and waits for it so long at most.
    fn poll_and_advance_connections(
        &mut self,
        events: &mut Vec<Event>,
        limit: Duration,
    ) -> io::Result<()> {
        if !limit.is_zero() {
            // epoll counts milliseconds; a plan is finer.
            response_time::sleep_until_readable_or_limit(self.epoll.as_fd(), limit)?;
        }
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&ZERO_TIMEOUT)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.iter() {
            let slot = event.data.u64() as usize;
            match self.advance_connection(slot) {
                Ok(false) => {}
                Ok(true) => {
                    self.connections.try_remove(slot);
                    self.fetch_result.completed += 1;
                }
                Err(kind) => {
                    self.connections.try_remove(slot);
                    self.count_failure(kind);
                }
            }
        }
        Ok(())
    }

    /// Goes on with a connection; whether it is complete, or what is wrong.
    fn advance_connection(&mut self, slot: usize) -> Result<bool, &'static str> {
        let now = self.started_at.elapsed();
        let Some(session) = self.connections.get_mut(slot) else { return Ok(false) };
        let late = now.saturating_sub(session.planned_start).as_nanos() as u64;
        if !session.is_connected {
            let opened = sockopt::socket_error(&session.socket).and_then(|result| result);
            opened.map_err(|error| classify_socket_error(&error.into()))?;
            self.fetch_result.planned_to_established_times_ns.saturating_record(late);
            session.is_connected = true;
            let text = format_numbered_request(session.connection_number);
            session
                .socket
                .write_all(text.as_bytes())
                .map_err(|error| classify_socket_error(&error))?;
            let data = EventData::new_u64(slot as u64);
            epoll::modify(&self.epoll, &session.socket, data, EventFlags::IN)
                .map_err(|error| classify_socket_error(&error.into()))?;
            return Ok(false);
        }
        let mut chunk = [0; REPLY_READ_CHUNK_BYTES];
        match session.socket.read(&mut chunk) {
            Ok(0) => Err("closed early"),
            Ok(length) => {
                session.reply.extend_from_slice(&chunk[..length]);
                let wanted = format_numbered_reply(&format!("{:016x}", session.connection_number));
                if session.reply == wanted.as_bytes() {
                    self.last_reply_time = now;
                    self.fetch_result.planned_to_reply_times_ns.saturating_record(late);
                    return Ok(true);
                }
                let is_part = wanted.as_bytes().starts_with(&session.reply);
                if is_part { Ok(false) } else { Err("wrong reply") }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(classify_socket_error(&error)),
        }
    }

    fn count_failure(&mut self, kind: &'static str) {
        *self.fetch_result.failures_by_kind.entry(kind).or_default() += 1;
    }
}

/// What a user would call an error.
fn classify_socket_error(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => "refused",
        Some(Errno::CONNRESET | Errno::PIPE) => "reset",
        Some(Errno::TIMEDOUT) => "timed out",
        Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => "address not available",
        Some(Errno::MFILE | Errno::NFILE) => "descriptors",
        Some(Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN) => "buffers",
        Some(Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::ACCESS | Errno::PERM) => "unreachable",
        _ => "another error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_errors_are_classified_by_readable_names() {
        let kind = |error: Errno| classify_socket_error(&error.into());
        assert_eq!(kind(Errno::CONNREFUSED), "refused");
        assert_eq!(kind(Errno::ADDRNOTAVAIL), "address not available");
        assert_eq!(kind(Errno::MFILE), "descriptors");
        assert_eq!(kind(Errno::INVAL), "another error");
    }
}
