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

use super::http::{reply, request};
use super::limits::PATIENCE;
use super::plan::SocketPlan;
use crate::workload::latency;
use weir_kernel::set_socket_option;

/// Connections that are opened before replies are looked at again.
const BURST: u32 = 32;
/// Events per poll.
const EVENTS: usize = 256;
/// Longest text of a reply.
const REPLY_BYTES: usize = 256;
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// What is fetched, and from where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetching<'a> {
    pub(super) plan: SocketPlan<'a>,
    /// The first client address that is used, counted from that of the endpoints.
    pub(super) first: u32,
    /// The device that leads to the firewall.
    pub(super) device: &'a str,
}

/// The outcome of it.
pub(super) struct Fetched {
    /// Connections that were begun.
    pub(super) offered: u64,
    /// Connections whose reply was right.
    pub(super) completed: u64,
    /// Connections of the rate that could not be opened in time.
    pub(super) given_up: u64,
    /// The others that were begun, by what went wrong.
    pub(super) failed: BTreeMap<&'static str, u64>,
    /// From the planned time until the connection was there, nanoseconds.
    pub(super) establish: Histogram<u64>,
    /// From the planned time until the reply was, nanoseconds.
    pub(super) whole: Histogram<u64>,
    /// From the first connection until the last reply, or until the plan's end.
    pub(super) seconds: f64,
}

/// One connection.
struct ClientSession {
    socket: TcpStream,
    number: u64,
    planned: Duration,
    is_open: bool,
    reply: Vec<u8>,
}

struct SocketClient<'a> {
    fetching: &'a Fetching<'a>,
    epoll: rustix::fd::OwnedFd,
    sessions: Slab<ClientSession>,
    /// Places and numbers of connections with their deadlines, rising.
    deadlines: VecDeque<(Duration, usize, u64)>,
    begun: Instant,
    last_reply: Duration,
    fetched: Fetched,
}

/// Opens connections as planned, and waits for each of them; in the current namespace.
pub(super) fn fetch(fetching: &Fetching<'_>) -> io::Result<Fetched> {
    let mut client = SocketClient {
        fetching,
        epoll: epoll::create(CreateFlags::CLOEXEC)?,
        sessions: Slab::new(),
        deadlines: VecDeque::new(),
        begun: Instant::now(),
        last_reply: Duration::ZERO,
        fetched: Fetched {
            offered: 0,
            completed: 0,
            given_up: 0,
            failed: BTreeMap::new(),
            establish: latency::histogram(),
            whole: latency::histogram(),
            seconds: 0.0,
        },
    };
    let SocketPlan { rate, duration, .. } = fetching.plan;
    let planned = |number: u64| Duration::from_secs_f64(number as f64 / rate.max(1) as f64);
    let all = fetching.plan.planned();
    let mut events = Vec::with_capacity(EVENTS);
    loop {
        let now = client.begun.elapsed();
        for _ in 0..BURST {
            let number = client.fetched.offered;
            if number < all && now < duration && planned(number) <= now {
                client.open(number, planned(number));
            }
        }
        client.expire(now);
        let next = client.fetched.offered;
        let is_opening = next < all && now < duration;
        if !is_opening && client.sessions.is_empty() {
            break;
        }
        let opens = is_opening.then(|| planned(next));
        let ends = client.deadlines.front().map(|(deadline, ..)| *deadline);
        let until = opens.into_iter().chain(ends).min().unwrap_or(now);
        client.look(&mut events, until.saturating_sub(now))?;
    }
    client.fetched.given_up = all - client.fetched.offered;
    client.fetched.seconds = client.last_reply.max(duration).as_secs_f64();
    Ok(client.fetched)
}

impl SocketClient<'_> {
    fn open(&mut self, number: u64, planned: Duration) {
        self.fetched.offered += 1;
        let opened = self.connect(number).and_then(|socket| {
            let session =
                ClientSession { socket, number, planned, is_open: false, reply: Vec::new() };
            let slot = self.sessions.insert(session);
            let socket = &self.sessions[slot].socket;
            let data = EventData::new_u64(slot as u64);
            let added = epoll::add(&self.epoll, socket, data, EventFlags::OUT);
            if added.is_err() {
                self.sessions.try_remove(slot);
            }
            added?;
            Ok(slot)
        });
        match opened {
            Ok(slot) => {
                let deadline = self.begun.elapsed() + PATIENCE;
                self.deadlines.push_back((deadline, slot, number));
            }
            Err(error) => self.fail(kind_of(&error)),
        }
    }

    /// Each connection has the next client's address, and the next server's.
    fn connect(&self, number: u64) -> io::Result<TcpStream> {
        let SocketPlan { endpoints, clients, .. } = self.fetching.plan;
        let nonblocking = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, nonblocking, None)?;
        let on = 1_i32.to_ne_bytes();
        set_socket_option(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on)?;
        let device = self.fetching.device.as_bytes();
        set_socket_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device)?;
        let at = |first: Ipv4Addr, number: u64| Ipv4Addr::from(u32::from(first) + number as u32);
        let used = u64::from(self.fetching.first) + number % u64::from(clients);
        let client = at(endpoints.client, used % u64::from(endpoints.clients));
        let round = number / u64::from(clients);
        let server = at(endpoints.server, round % u64::from(endpoints.servers));
        rustix::net::bind(&socket, &SocketAddrV4::new(client, 0))?;
        match rustix::net::connect(&socket, &SocketAddrV4::new(server, endpoints.port)) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives up what has waited for too long.
    fn expire(&mut self, now: Duration) {
        while let Some((deadline, slot, number)) = self.deadlines.front().copied() {
            let is_there = self.sessions.get(slot).is_some_and(|s| s.number == number);
            if is_there && deadline > now {
                return;
            }
            self.deadlines.pop_front();
            if is_there {
                self.sessions.try_remove(slot);
                self.fail("timed out");
            }
        }
    }

    /// Takes what is there, and waits for it so long at most.
    fn look(&mut self, events: &mut Vec<Event>, limit: Duration) -> io::Result<()> {
        if !limit.is_zero() {
            // epoll counts milliseconds; a plan is finer.
            latency::wait(self.epoll.as_fd(), limit)?;
        }
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&NO_TIME)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.iter() {
            let slot = event.data.u64() as usize;
            match self.go_on(slot) {
                Ok(false) => {}
                Ok(true) => {
                    self.sessions.try_remove(slot);
                    self.fetched.completed += 1;
                }
                Err(kind) => {
                    self.sessions.try_remove(slot);
                    self.fail(kind);
                }
            }
        }
        Ok(())
    }

    /// Goes on with a connection; whether it is complete, or what is wrong.
    fn go_on(&mut self, slot: usize) -> Result<bool, &'static str> {
        let now = self.begun.elapsed();
        let Some(session) = self.sessions.get_mut(slot) else { return Ok(false) };
        let late = now.saturating_sub(session.planned).as_nanos() as u64;
        if !session.is_open {
            let opened = sockopt::socket_error(&session.socket).and_then(|result| result);
            opened.map_err(|error| kind_of(&error.into()))?;
            self.fetched.establish.saturating_record(late);
            session.is_open = true;
            let text = request(session.number);
            session.socket.write_all(text.as_bytes()).map_err(|error| kind_of(&error))?;
            let data = EventData::new_u64(slot as u64);
            epoll::modify(&self.epoll, &session.socket, data, EventFlags::IN)
                .map_err(|error| kind_of(&error.into()))?;
            return Ok(false);
        }
        let mut chunk = [0; REPLY_BYTES];
        match session.socket.read(&mut chunk) {
            Ok(0) => Err("closed early"),
            Ok(length) => {
                session.reply.extend_from_slice(&chunk[..length]);
                let wanted = reply(&format!("{:016x}", session.number));
                if session.reply == wanted.as_bytes() {
                    self.last_reply = now;
                    self.fetched.whole.saturating_record(late);
                    return Ok(true);
                }
                let is_part = wanted.as_bytes().starts_with(&session.reply);
                if is_part { Ok(false) } else { Err("wrong reply") }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(kind_of(&error)),
        }
    }

    fn fail(&mut self, kind: &'static str) {
        *self.fetched.failed.entry(kind).or_default() += 1;
    }
}

/// What a user would call an error.
fn kind_of(error: &io::Error) -> &'static str {
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
    fn errors_have_the_names_that_users_give_them() {
        let kind = |error: Errno| kind_of(&error.into());
        assert_eq!(kind(Errno::CONNREFUSED), "refused");
        assert_eq!(kind(Errno::ADDRNOTAVAIL), "address not available");
        assert_eq!(kind(Errno::MFILE), "descriptors");
        assert_eq!(kind(Errno::INVAL), "another error");
    }
}
