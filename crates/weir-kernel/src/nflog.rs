//! Packets that a rule of the kernel logged to a group: `log group N` of nft, `NFLOG` of iptables.

use std::io;
use std::time::Duration;

use crate::netlink::{ACK, Message, Messages, Socket, attributes, be32};
use crate::{KernelError, Namespace};

const SUBSYSTEM: u16 = 4 << 8;
const MSG_PACKET: u16 = SUBSYSTEM;
const MSG_CONFIG: u16 = SUBSYSTEM | 1;
const CFG_CMD: u16 = 1;
const CFG_MODE: u16 = 2;
const CFG_QTHRESH: u16 = 5;
const CMD_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;

/// Receives the packets of one group of one namespace.
#[derive(Debug)]
pub struct Nflog {
    socket: Socket,
    name: String,
}

/// A logged packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Logged<'a> {
    /// The rule's prefix.
    pub prefix: &'a [u8],
    /// The packet from the network header on, at most as long as asked for.
    pub payload: &'a [u8],
    /// Its mark.
    pub mark: u32,
    /// Index of the device that it came in by, or 0.
    pub indev: u32,
    /// Index of the device that it leaves by, or 0.
    pub outdev: u32,
    /// Hook number, as in include/uapi/linux/netfilter.h.
    pub hook: u8,
}

impl Nflog {
    /// Begins to receive a group, with at most `copy_bytes` of each packet.
    ///
    /// # Errors
    /// Where the kernel has no such log (`NETFILTER_NETLINK_LOG`), or the group is taken.
    pub fn bind(namespace: &Namespace, group: u16, copy_bytes: u32) -> Result<Nflog, KernelError> {
        let fail = || KernelError::io("bind log group in", namespace.name());
        let mut socket = namespace.enter(Socket::open)?.map_err(fail())?;
        let mut messages = Messages::default();
        messages.begin(MSG_CONFIG, 0, 0, group);
        messages.attribute(CFG_CMD, &[CMD_BIND]);
        messages.begin(MSG_CONFIG, ACK, 0, group);
        let mut mode = copy_bytes.to_be_bytes().to_vec();
        mode.extend_from_slice(&[COPY_PACKET, 0]);
        messages.attribute(CFG_MODE, &mode);
        // Every packet at once: the reader waits for it.
        messages.attribute(CFG_QTHRESH, &1u32.to_be_bytes());
        socket.transact(messages).map_err(fail())?;
        Ok(Nflog { socket, name: namespace.name().to_owned() })
    }

    /// Reads what is there, and calls `f` for each packet. Returns how many there were.
    ///
    /// # Errors
    /// Where packets were lost, because they were not read in time.
    pub fn read(&mut self, mut f: impl FnMut(Logged<'_>)) -> Result<usize, KernelError> {
        let mut count = 0;
        let mut each = |message: Message<'_>| {
            if let Message::Data(MSG_PACKET, body) = message {
                count += 1;
                f(logged(body));
            }
        };
        loop {
            match self.socket.receive(&mut each) {
                Ok(true) => {}
                Ok(false) => return Ok(count),
                Err(e) => return Err(KernelError::io("read log of", &self.name)(e)),
            }
        }
    }

    /// Waits until there is something to read, at most `limit`.
    ///
    /// # Errors
    /// Where the socket is broken.
    pub fn wait(&self, limit: Duration) -> Result<bool, KernelError> {
        self.socket
            .wait(limit)
            .map_err(|e: io::Error| KernelError::io("wait for log of", &self.name)(e))
    }
}

fn logged(body: &[u8]) -> Logged<'_> {
    let mut out = Logged::default();
    for (kind, value) in attributes(body) {
        match kind {
            1 => out.hook = value.get(2).copied().unwrap_or(0),
            2 => out.mark = be32(value).unwrap_or(0),
            4 => out.indev = be32(value).unwrap_or(0),
            5 => out.outdev = be32(value).unwrap_or(0),
            9 => out.payload = value,
            10 => out.prefix = value.strip_suffix(&[0]).unwrap_or(value),
            _ => {}
        }
    }
    out
}
