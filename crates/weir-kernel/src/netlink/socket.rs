//! A socket that sends requests and matches the answers to them.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::attribute::MalformedNetlink;
use super::error::{KernelRefusal, NetlinkError};
use super::netfilter::{NetfilterSubsystem, wrap_in_batch};
use super::received_message::{NetlinkMessage, ReplyStatus, parse_messages};
use super::request::{NLM_F_ACK, NetlinkRequest};
use crate::socket_option::set_socket_option;

/// Receive buffer: a burst of log messages must not be lost before it is read.
const RECEIVE_BUFFER_BYTES: usize = 128 << 20;
const SEND_BUFFER_BYTES: usize = 16 << 20;
/// The kernel answers before `send` returns; one that takes longer is broken.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// A dump that takes longer is broken.
pub(crate) const DUMP_TIMEOUT: Duration = Duration::from_secs(20);
/// A dump that is changed meanwhile is requested so often.
const MAX_DUMP_ATTEMPTS: u32 = 10;

/// What a socket talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetlinkProtocol {
    /// Links, addresses, routes.
    Route,
    /// The subsystems of netfilter.
    Netfilter,
    /// Which sockets there are.
    SocketDiagnostics,
}

/// A socket to the kernel, in the network namespace that it was opened in.
#[derive(Debug)]
pub struct NetlinkSocket {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// The number of the next request.
    next_sequence: u32,
}

/// Requests that were sent together.
#[derive(Clone, Copy)]
struct SentSequenceRange {
    first_sequence: u32,
    count: usize,
}

impl SentSequenceRange {
    /// Which of them a message answers; `None` for an event or the answer to an earlier request.
    fn index_of_answered_request(self, message: &NetlinkMessage<'_>) -> Option<usize> {
        let index = message.sequence.wrapping_sub(self.first_sequence) as usize;
        (index < self.count).then_some(index)
    }
}

impl NetlinkSocket {
    /// Opens a socket in the current network namespace.
    ///
    /// # Errors
    /// If the kernel has no such protocol, or weir is not root there.
    pub fn open(protocol: NetlinkProtocol) -> io::Result<NetlinkSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = match protocol {
            NetlinkProtocol::Route => None,
            NetlinkProtocol::Netfilter => Some(netlink::NETFILTER),
            NetlinkProtocol::SocketDiagnostics => Some(netlink::SOCK_DIAG),
        };
        let fd =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        // In a user namespace of its own, root gets what `net.core.rmem_max` allows.
        sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER_BYTES)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER_BYTES))?;
        sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER_BYTES)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER_BYTES))?;
        // The kernel's own words about errors, without a copy of the request (Linux 4.12, 4.3).
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            set_socket_option(&fd, libc::SOL_NETLINK, option, &1i32.to_ne_bytes())?;
        }
        Ok(NetlinkSocket { fd, buffer: vec![0; 1 << 15], next_sequence: 1 })
    }

    /// Sets how many bytes of messages may wait to be read; the kernel takes twice the number.
    ///
    /// # Errors
    /// If weir is not root.
    pub fn set_receive_buffer_bytes(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_recv_buffer_size_force(&self.fd, bytes)?)
    }

    /// Sends requests together and returns those that the kernel refused, in their order. The
    /// others are done.
    ///
    /// # Errors
    /// If the socket is broken, or answers are lost or malformed.
    pub fn send_collecting_refusals(
        &mut self,
        requests: &[NetlinkRequest],
    ) -> Result<Vec<KernelRefusal>, NetlinkError> {
        let Some(last) = requests.len().checked_sub(1) else { return Ok(Vec::new()) };
        self.exchange_until(requests, last, |answered| answered == last, |_| Ok(()))
    }

    /// Sends requests together and fails with the first that the kernel refuses.
    ///
    /// # Errors
    /// As [`send_collecting_refusals`](NetlinkSocket::send_collecting_refusals), and where one is
    /// refused. The others are done.
    pub fn send_and_check(&mut self, requests: &[NetlinkRequest]) -> Result<(), NetlinkError> {
        fail_on_first_refusal(self.send_collecting_refusals(requests)?)
    }

    /// Sends requests as one batch: all of them are done, or none.
    ///
    /// # Errors
    /// As [`send_and_check`](NetlinkSocket::send_and_check). What the kernel refuses of the batch
    /// as a whole is told of its first request.
    pub fn commit_batch(
        &mut self,
        subsystem: NetfilterSubsystem,
        requests: impl IntoIterator<Item = NetlinkRequest>,
    ) -> Result<(), NetlinkError> {
        self.commit_batch_at_generation(subsystem, requests, None)
    }

    /// As [`commit_batch`](NetlinkSocket::commit_batch). With a generation, `ERESTART` if the
    /// subsystem has another one.
    ///
    /// # Errors
    /// As [`commit_batch`](NetlinkSocket::commit_batch).
    pub fn commit_batch_at_generation(
        &mut self,
        subsystem: NetfilterSubsystem,
        requests: impl IntoIterator<Item = NetlinkRequest>,
        generation: Option<u32>,
    ) -> Result<(), NetlinkError> {
        let batch = wrap_in_batch(subsystem, requests, generation);
        // Before Linux 6.10 the end of a batch is not acknowledged.
        let last = batch.len() - 2;
        if last == 0 {
            return Ok(());
        }
        let is_end = |answered| answered == last || answered == 0;
        let mut refusals = self.exchange_until(&batch, last, is_end, |_| Ok(()))?;
        for refusal in &mut refusals {
            refusal.request_index = refusal.request_index.saturating_sub(1);
        }
        fail_on_first_refusal(refusals)
    }

    /// Asks for one object and returns what `read` makes of it.
    ///
    /// # Errors
    /// As [`send_and_check`](NetlinkSocket::send_and_check), and where the kernel answers without
    /// an object.
    pub fn get_existing_object<T>(
        &mut self,
        request: &NetlinkRequest,
        mut read: impl FnMut(NetlinkMessage<'_>) -> Result<T, MalformedNetlink>,
    ) -> Result<T, NetlinkError> {
        let mut value = None;
        let each = |message: NetlinkMessage<'_>| {
            value = Some(read(message)?);
            Ok(())
        };
        fail_on_first_refusal(self.exchange_until(
            std::slice::from_ref(request),
            0,
            |_| true,
            each,
        )?)?;
        value.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
    }

    /// Asks for all objects. `step` is called with a state from `start` and each of them; the last
    /// state is returned. Where the objects change meanwhile, it begins again.
    ///
    /// # Errors
    /// If the kernel refuses, an object is malformed, it takes longer than `limit`, or the
    /// objects changed in every attempt.
    pub fn fold_dumped_objects<S>(
        &mut self,
        request: &NetlinkRequest,
        limit: Duration,
        start: impl Fn() -> S,
        mut step: impl FnMut(&mut S, NetlinkMessage<'_>) -> Result<(), MalformedNetlink>,
    ) -> Result<S, NetlinkError> {
        let end = Instant::now() + limit;
        for _ in 0..MAX_DUMP_ATTEMPTS {
            let mut state = start();
            if self.try_dump(request, end, |message| step(&mut state, message))? {
                return Ok(state);
            }
        }
        Err(NetlinkError::EveryDumpAttemptInterrupted { attempts: MAX_DUMP_ATTEMPTS })
    }

    /// One attempt at a dump; false where the objects changed meanwhile.
    fn try_dump(
        &mut self,
        request: &NetlinkRequest,
        end: Instant,
        mut step: impl FnMut(NetlinkMessage<'_>) -> Result<(), MalformedNetlink>,
    ) -> Result<bool, NetlinkError> {
        let sent = self.send_requests_in_one_datagram(std::slice::from_ref(request), None)?;
        let (mut is_done, mut is_whole) = (false, true);
        let mut failed: Option<NetlinkError> = None;
        while !is_done {
            self.visit_next_datagram_by_deadline(end, |message| {
                if sent.index_of_answered_request(&message).is_none() {
                    return Ok(());
                }
                is_whole &= !message.is_dump_interrupted();
                match message.reply_status()? {
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
    fn exchange_until(
        &mut self,
        requests: &[NetlinkRequest],
        acknowledged: usize,
        is_end: impl Fn(usize) -> bool,
        mut each: impl FnMut(NetlinkMessage<'_>) -> Result<(), NetlinkError>,
    ) -> Result<Vec<KernelRefusal>, NetlinkError> {
        let sent = self.send_requests_in_one_datagram(requests, Some(acknowledged))?;
        let end = Instant::now() + REPLY_TIMEOUT;
        let mut refusals = Vec::new();
        let mut is_done = false;
        while !is_done {
            self.visit_next_datagram_by_deadline(end, |message| {
                let Some(index) = sent.index_of_answered_request(&message) else { return Ok(()) };
                match message.reply_status()? {
                    ReplyStatus::Data => return each(message),
                    ReplyStatus::Done => {}
                    ReplyStatus::Refused(refusal) => {
                        refusals.push(KernelRefusal { request_index: index, ..refusal });
                    }
                }
                is_done |= is_end(index);
                Ok(())
            })?;
        }
        Ok(refusals)
    }

    /// Sends requests as one datagram, the one at `acknowledged` with a wish for an answer.
    fn send_requests_in_one_datagram(
        &mut self,
        requests: &[NetlinkRequest],
        acknowledged: Option<usize>,
    ) -> Result<SentSequenceRange, NetlinkError> {
        let sent = SentSequenceRange { first_sequence: self.next_sequence, count: requests.len() };
        let mut datagram = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let more = if acknowledged == Some(index) { NLM_F_ACK } else { 0 };
            request.append_to_datagram(&mut datagram, self.next_sequence, more)?;
            self.next_sequence = self.next_sequence.wrapping_add(1);
        }
        if datagram.len() > SEND_BUFFER_BYTES {
            sockopt::set_socket_send_buffer_size_force(&self.fd, datagram.len())
                .map_err(io::Error::from)?;
        }
        rustix::net::send(&self.fd, &datagram, SendFlags::empty()).map_err(io::Error::from)?;
        Ok(sent)
    }

    /// Reads a datagram, waiting for it until `end`, and calls `f` for each message in it.
    fn visit_next_datagram_by_deadline(
        &mut self,
        end: Instant,
        mut f: impl FnMut(NetlinkMessage<'_>) -> Result<(), NetlinkError>,
    ) -> Result<(), NetlinkError> {
        while !self.try_visit_received_messages(&mut f)? {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NetlinkError::ReplyTimeout);
            }
            self.wait_readable(left)?;
        }
        Ok(())
    }

    /// Reads one datagram if there is one, and calls `f` for each message in it.
    /// Returns whether there was one.
    ///
    /// # Errors
    /// [`NetlinkError::ReceiveOverrun`] where messages were lost, [`NetlinkError::Malformed`], and
    /// what `f` returns.
    pub fn try_visit_received_messages(
        &mut self,
        mut f: impl FnMut(NetlinkMessage<'_>) -> Result<(), NetlinkError>,
    ) -> Result<bool, NetlinkError> {
        let Some(length) = self.read_kernel_datagram()? else { return Ok(false) };
        for message in parse_messages(&self.buffer[..length]) {
            f(message?)?;
        }
        Ok(true)
    }

    /// Reads one datagram of the kernel's into the buffer, which grows to its length.
    fn read_kernel_datagram(&mut self) -> Result<Option<usize>, NetlinkError> {
        loop {
            let length = match self.peek_datagram_length() {
                Ok(length) => length,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::NOBUFS) => return Err(NetlinkError::ReceiveOverrun),
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
    fn peek_datagram_length(&self) -> Result<usize, Errno> {
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
        rustix::net::recv(&self.fd, &mut [0u8; 0][..], flags).map(|(_, length)| length)
    }

    /// Waits until there is something to read, at most `limit`; false where there is nothing.
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn wait_readable(&self, limit: Duration) -> io::Result<bool> {
        let timeout =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
            Ok(n) => Ok(n > 0),
            Err(Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

fn fail_on_first_refusal(refusals: Vec<KernelRefusal>) -> Result<(), NetlinkError> {
    refusals.into_iter().next().map_or(Ok(()), |refusal| Err(refusal.into()))
}
