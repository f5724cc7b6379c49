//! netlink messages of the netfilter subsystems: building, sending, reading.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

pub(crate) const REQUEST: u16 = 1;
pub(crate) const ACK: u16 = 4;
pub(crate) const DUMP: u16 = 0x300;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const EXCL: u16 = 0x200;
const NESTED: u16 = 0x8000;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER_BYTES: usize = 16;
/// Receive buffer: a burst of log messages must not be lost before it is read.
const RECEIVE_BYTES: usize = 128 << 20;
const SEND_BYTES: usize = 16 << 20;

/// A message under construction; several may follow each other in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    start: usize,
}

impl Messages {
    /// Begins a message of a netfilter subsystem (include/uapi/linux/netfilter/nfnetlink.h).
    pub fn begin(&mut self, kind: u16, flags: u16, family: u8, resource: u16) {
        self.end();
        self.start = self.bytes.len();
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(&[family, 0]);
        self.bytes.extend_from_slice(&resource.to_be_bytes());
    }

    /// Adds an attribute.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(4 + value.len()).expect("an attribute is short");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Adds an attribute that holds attributes.
    pub fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let at = self.bytes.len();
        self.attribute(kind | NESTED, &[]);
        fill(self);
        let length = (self.bytes.len() - at) as u16;
        self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
    }

    fn end(&mut self) {
        if !self.bytes.is_empty() {
            let length = (self.bytes.len() - self.start) as u32;
            self.bytes[self.start..self.start + 4].copy_from_slice(&length.to_ne_bytes());
        }
    }

    /// The bytes of all messages.
    pub fn finish(mut self) -> Vec<u8> {
        self.end();
        self.bytes
    }
}

/// A socket to the netfilter subsystems of the namespace that it was opened in.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

/// What a datagram holds.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// An answer or an event: its type, and what follows the netfilter header.
    Data(u16, &'a [u8]),
    /// An error, or an acknowledgment where the number is 0.
    Error(i32),
    /// The end of a dump.
    Done,
}

impl Socket {
    /// Opens a socket in the current network namespace.
    pub fn open() -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(netlink::NETFILTER);
        let fd =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BYTES)?;
        sockopt::set_socket_send_buffer_size_force(&fd, SEND_BYTES)?;
        Ok(Socket { fd, buffer: vec![0; 1 << 18] })
    }

    /// Sends messages as one datagram; the kernel has done them when this returns.
    pub fn send(&self, messages: Messages) -> io::Result<()> {
        rustix::net::send(&self.fd, &messages.finish(), SendFlags::empty())?;
        Ok(())
    }

    /// Reads one datagram if there is one, and calls `f` for each message in it.
    /// Returns whether there was one.
    ///
    /// An error of kind `ENOBUFS` says that messages were lost.
    pub fn receive(&mut self, mut f: impl FnMut(Message<'_>)) -> io::Result<bool> {
        let length = match rustix::net::recv(&self.fd, &mut self.buffer[..], RecvFlags::empty()) {
            Ok((length, _)) => length,
            Err(rustix::io::Errno::AGAIN) => return Ok(false),
            Err(e) => return Err(e.into()),
        };
        let mut rest = &self.buffer[..length];
        while rest.len() >= HEADER_BYTES {
            let size = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            if size < HEADER_BYTES || size > rest.len() {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            f(message(&rest[..size]));
            rest = rest.get(size.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(true)
    }

    /// Waits until there is something to read, at most `limit`; false where there is nothing.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let timeout =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
            Ok(n) => Ok(n > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads what is there: the errors among it, acknowledgments left out.
    pub fn errors(&mut self) -> io::Result<Vec<io::Error>> {
        let mut errors = Vec::new();
        while self.receive(|m| {
            if let Message::Error(n) = m
                && n != 0
            {
                errors.push(io::Error::from_raw_os_error(-n));
            }
        })? {}
        Ok(errors)
    }

    /// Asks for a dump, and calls `f` for each message of it with its type and its body.
    pub fn dump(
        &mut self,
        request: Messages,
        limit: Duration,
        mut f: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.send(request)?;
        let end = Instant::now() + limit;
        let mut result = None;
        while result.is_none() {
            let any = self.receive(|message| match message {
                Message::Data(kind, body) => f(kind, body),
                Message::Error(0) => {}
                Message::Error(n) => result = Some(Err(io::Error::from_raw_os_error(-n))),
                Message::Done => result = Some(Ok(())),
            })?;
            if !any {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.wait(left)?;
            }
        }
        result.expect("the loop ends with a result")
    }

    /// Sends messages of which the last asks for an acknowledgment, and fails with the first error.
    pub fn transact(&mut self, messages: Messages) -> io::Result<()> {
        self.send(messages)?;
        self.errors()?.into_iter().next().map_or(Ok(()), Err)
    }
}

fn message(bytes: &[u8]) -> Message<'_> {
    let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
    match kind {
        ERROR => {
            let n = bytes.get(16..20).and_then(|b| b.try_into().ok()).map_or(0, i32::from_ne_bytes);
            Message::Error(n)
        }
        DONE => Message::Done,
        _ => Message::Data(kind, bytes.get(20..).unwrap_or(&[])),
    }
}

/// The attributes of a message: type (without flags) and value.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// A value of four bytes in network byte order.
pub(crate) fn be32(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read() {
        let mut messages = Messages::default();
        messages.begin(0x401, 0, 2, 7);
        messages.attribute(1, &[9]);
        messages.nested(2, |m| m.attribute(3, &[1, 2, 3, 4, 5]));
        messages.begin(0x402, ACK, 0, 0);
        let bytes = messages.finish();
        let size = u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize;
        let Message::Data(kind, body) = message(&bytes[..size]) else { panic!() };
        assert_eq!(kind, 0x401);
        let all: Vec<_> = attributes(body).collect();
        assert_eq!(all[0], (1, &[9][..]));
        assert_eq!(attributes(all[1].1).next(), Some((3, &[1, 2, 3, 4, 5][..])));
        assert_eq!(bytes.len() - size, 20);
    }

    #[test]
    fn a_cut_attribute_ends_the_list() {
        assert_eq!(attributes(&[8, 0, 1, 0, 5]).count(), 0);
        assert_eq!(attributes(&[3, 0, 1]).count(), 0);
    }
}
