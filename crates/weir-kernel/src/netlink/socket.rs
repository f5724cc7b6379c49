//! A socket that sends requests and matches the answers to them.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::attribute::Malformed;
use super::error::{KernelRefusal, NetlinkError};
use super::message::{Message, ReplyStatus, messages};
use super::netfilter::{Subsystem, batch};
use super::request::{ACK, NetlinkRequest};
use crate::socket_option::set_socket_option;

/// Receive buffer: a burst of log messages must not be lost before it is read.
const RECEIVE_BYTES: usize = 128 << 20;
const SEND_BYTES: usize = 16 << 20;
/// The kernel answers before `send` returns; one that takes longer is broken.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// A dump that is changed meanwhile is asked for so often.
const DUMP_ATTEMPTS: u32 = 10;

/// What a socket talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetlinkProtocol {
    /// Links, addresses, routes.
    Route,
    /// The subsystems of netfilter.
    Netfilter,
}

/// A socket to the kernel, in the network namespace that it was opened in.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// The number of the next request.
    sequence: u32,
}

/// Requests that were sent together.
#[derive(Clone, Copy)]
struct SentRequests {
    first: u32,
    count: usize,
}

impl SentRequests {
    /// Which of them a message answers; `None` for an event or the answer to an earlier request.
    fn index(self, message: &Message<'_>) -> Option<usize> {
        let index = message.sequence.wrapping_sub(self.first) as usize;
        (index < self.count).then_some(index)
    }
}

impl Socket {
    /// Opens a socket in the current network namespace.
    ///
    /// # Errors
    /// Where the kernel has no such protocol, or weir is not root there.
    pub fn open(protocol: NetlinkProtocol) -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = match protocol {
            NetlinkProtocol::Route => None,
            NetlinkProtocol::Netfilter => Some(netlink::NETFILTER),
        };
        let fd =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        // In a user namespace of its own, root gets what `net.core.rmem_max` allows.
        sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BYTES)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BYTES))?;
        sockopt::set_socket_send_buffer_size_force(&fd, SEND_BYTES)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&fd, SEND_BYTES))?;
        // The kernel's own words about errors, without a copy of the request (Linux 4.12, 4.3).
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            set_socket_option(&fd, libc::SOL_NETLINK, option, &1i32.to_ne_bytes())?;
        }
        Ok(Socket { fd, buffer: vec![0; 1 << 15], sequence: 1 })
    }

    /// Sets how many bytes of messages may wait to be read; the kernel takes twice the number.
    ///
    /// # Errors
    /// Where weir is not root.
    pub fn set_receive_bytes(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_recv_buffer_size_force(&self.fd, bytes)?)
    }

    /// Sends requests together and returns those that the kernel refused, in their order. The
    /// others are done.
    ///
    /// # Errors
    /// Where the socket is broken, or answers are lost or malformed.
    pub fn transact(
        &mut self,
        requests: &[NetlinkRequest],
    ) -> Result<Vec<KernelRefusal>, NetlinkError> {
        let Some(last) = requests.len().checked_sub(1) else { return Ok(Vec::new()) };
        self.exchange(requests, last, |answered| answered == last, |_| Ok(()))
    }

    /// Sends requests together and fails with the first that the kernel refuses.
    ///
    /// # Errors
    /// As [`transact`](Socket::transact), and where one is refused. The others are done.
    pub fn request(&mut self, requests: &[NetlinkRequest]) -> Result<(), NetlinkError> {
        first(self.transact(requests)?)
    }

    /// Sends requests as one batch: all of them are done, or none.
    ///
    /// # Errors
    /// As [`request`](Socket::request). What the kernel refuses of the batch as a whole is told of
    /// its first request.
    pub fn commit(
        &mut self,
        subsystem: Subsystem,
        requests: impl IntoIterator<Item = NetlinkRequest>,
    ) -> Result<(), NetlinkError> {
        let batch = batch(subsystem, requests);
        // Before Linux 6.10 the end of a batch is not acknowledged.
        let last = batch.len() - 2;
        if last == 0 {
            return Ok(());
        }
        let is_end = |answered| answered == last || answered == 0;
        let mut refusals = self.exchange(&batch, last, is_end, |_| Ok(()))?;
        for refusal in &mut refusals {
            refusal.request = refusal.request.saturating_sub(1);
        }
        first(refusals)
    }

    /// Asks for one object and returns what `read` makes of it.
    ///
    /// # Errors
    /// As [`request`](Socket::request), and where the kernel answers without an object.
    pub fn get<T>(
        &mut self,
        request: &NetlinkRequest,
        mut read: impl FnMut(Message<'_>) -> Result<T, Malformed>,
    ) -> Result<T, NetlinkError> {
        let mut value = None;
        let each = |message: Message<'_>| {
            value = Some(read(message)?);
            Ok(())
        };
        first(self.exchange(std::slice::from_ref(request), 0, |_| true, each)?)?;
        value.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
    }

    /// Asks for all objects. `step` is called with a state from `start` and each of them; the last
    /// state is returned. Where the objects change meanwhile, it begins again.
    ///
    /// # Errors
    /// Where the kernel refuses, an object is malformed, it takes longer than `limit`, or the
    /// objects changed in every attempt.
    pub fn dump<S>(
        &mut self,
        request: &NetlinkRequest,
        limit: Duration,
        start: impl Fn() -> S,
        mut step: impl FnMut(&mut S, Message<'_>) -> Result<(), Malformed>,
    ) -> Result<S, NetlinkError> {
        let end = Instant::now() + limit;
        for _ in 0..DUMP_ATTEMPTS {
            let mut state = start();
            if self.dump_once(request, end, |message| step(&mut state, message))? {
                return Ok(state);
            }
        }
        Err(NetlinkError::Interrupted { attempts: DUMP_ATTEMPTS })
    }

    /// One attempt at a dump; false where the objects changed meanwhile.
    fn dump_once(
        &mut self,
        request: &NetlinkRequest,
        end: Instant,
        mut step: impl FnMut(Message<'_>) -> Result<(), Malformed>,
    ) -> Result<bool, NetlinkError> {
        let sent = self.send(std::slice::from_ref(request), None)?;
        let (mut is_done, mut is_whole) = (false, true);
        let mut failed: Option<NetlinkError> = None;
        while !is_done {
            self.receive_by(end, |message| {
                if sent.index(&message).is_none() {
                    return Ok(());
                }
                is_whole &= !message.is_interrupted();
                match message.answer()? {
                    // The rest is read even after an error: a socket has one dump at a time.
                    ReplyStatus::Data if failed.is_none() => {
                        failed = step(message).err().map(NetlinkError::from);
                    }
                    ReplyStatus::Data => {}
                    ReplyStatus::Done => is_done = true,
                    ReplyStatus::Refused(refusal) => {
                        is_done = true;
                        failed.get_or_insert(refusal.into());
                    }
                }
                Ok(())
            })?;
        }
        failed.map_or(Ok(is_whole), Err)
    }

    /// Sends requests of which `acknowledged` is the last that is answered in any case, and reads
    /// answers until `is_end` says so of one.
    fn exchange(
        &mut self,
        requests: &[NetlinkRequest],
        acknowledged: usize,
        is_end: impl Fn(usize) -> bool,
        mut each: impl FnMut(Message<'_>) -> Result<(), NetlinkError>,
    ) -> Result<Vec<KernelRefusal>, NetlinkError> {
        let sent = self.send(requests, Some(acknowledged))?;
        let end = Instant::now() + ANSWER_LIMIT;
        let mut refusals = Vec::new();
        let mut is_done = false;
        while !is_done {
            self.receive_by(end, |message| {
                let Some(index) = sent.index(&message) else { return Ok(()) };
                match message.answer()? {
                    ReplyStatus::Data => return each(message),
                    ReplyStatus::Done => {}
                    ReplyStatus::Refused(refusal) => {
                        refusals.push(KernelRefusal { request: index, ..refusal });
                    }
                }
                is_done |= is_end(index);
                Ok(())
            })?;
        }
        Ok(refusals)
    }

    /// Sends requests as one datagram, the one at `acknowledged` with a wish for an answer.
    fn send(
        &mut self,
        requests: &[NetlinkRequest],
        acknowledged: Option<usize>,
    ) -> Result<SentRequests, NetlinkError> {
        let sent = SentRequests { first: self.sequence, count: requests.len() };
        let mut datagram = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let more = if acknowledged == Some(index) { ACK } else { 0 };
            request.write(&mut datagram, self.sequence, more)?;
            self.sequence = self.sequence.wrapping_add(1);
        }
        rustix::net::send(&self.fd, &datagram, SendFlags::empty()).map_err(io::Error::from)?;
        Ok(sent)
    }

    /// Reads a datagram, waiting for it until `end`, and calls `f` for each message in it.
    fn receive_by(
        &mut self,
        end: Instant,
        mut f: impl FnMut(Message<'_>) -> Result<(), NetlinkError>,
    ) -> Result<(), NetlinkError> {
        while !self.receive(&mut f)? {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NetlinkError::TimedOut);
            }
            self.wait(left)?;
        }
        Ok(())
    }

    /// Reads one datagram if there is one, and calls `f` for each message in it.
    /// Returns whether there was one.
    ///
    /// # Errors
    /// [`NetlinkError::Overrun`] where messages were lost, [`NetlinkError::Malformed`], and what
    /// `f` returns.
    pub fn receive(
        &mut self,
        mut f: impl FnMut(Message<'_>) -> Result<(), NetlinkError>,
    ) -> Result<bool, NetlinkError> {
        let Some(length) = self.read()? else { return Ok(false) };
        for message in messages(&self.buffer[..length]) {
            f(message?)?;
        }
        Ok(true)
    }

    /// Reads one datagram of the kernel's into the buffer, which grows to its length.
    fn read(&mut self) -> Result<Option<usize>, NetlinkError> {
        loop {
            let length = match self.next_bytes() {
                Ok(length) => length,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::NOBUFS) => return Err(NetlinkError::Overrun),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(io::Error::from(error).into()),
            };
            if length > self.buffer.len() {
                self.buffer.resize(length.next_power_of_two(), 0);
            }
            let read = rustix::net::recvfrom(&self.fd, &mut self.buffer[..], RecvFlags::empty());
            let (length, _, from) = read.map_err(io::Error::from)?;
            // A process may send to this socket too.
            let port = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
            if port.is_some_and(|from| from.pid() == 0) {
                return Ok(Some(length));
            }
        }
    }

    /// How many bytes the next datagram has.
    fn next_bytes(&self) -> Result<usize, Errno> {
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
        rustix::net::recv(&self.fd, &mut [0u8; 0][..], flags).map(|(_, length)| length)
    }

    /// Waits until there is something to read, at most `limit`; false where there is nothing.
    ///
    /// # Errors
    /// Where the socket is broken.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let timeout =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
            Ok(n) => Ok(n > 0),
            Err(Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

fn first(refusals: Vec<KernelRefusal>) -> Result<(), NetlinkError> {
    refusals.into_iter().next().map_or(Ok(()), |refusal| Err(refusal.into()))
}
