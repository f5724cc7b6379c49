//! Counters of the elements of an ipset, read by netlink instead of by printing and parsing.

use std::io;
use std::time::Duration;

use crate::netlink::{DUMP, Messages, Socket, attributes};
use crate::xtables::Count;
use crate::{KernelError, Namespace};

const SUBSYSTEM: u16 = 6 << 8;
const CMD_SAVE: u16 = SUBSYSTEM | 8;
const ATTR_PROTOCOL: u16 = 1;
const ATTR_SETNAME: u16 = 2;
const ATTR_ADT: u16 = 8;
const ATTR_BYTES: u16 = 24;
const ATTR_PACKETS: u16 = 25;
const PROTOCOL: u8 = 6;
/// A dump that takes longer is broken.
const DUMP_LIMIT: Duration = Duration::from_secs(20);

/// Reads the counters of the elements of sets of one namespace.
#[derive(Debug)]
pub struct SetCounters {
    socket: Socket,
}

impl SetCounters {
    /// Opens the sets of a namespace.
    ///
    /// # Errors
    /// Where the kernel has no ipset.
    pub fn open(namespace: &Namespace) -> Result<SetCounters, KernelError> {
        let socket = namespace
            .enter(Socket::open)?
            .map_err(KernelError::io("open sets of", namespace.name()))?;
        Ok(SetCounters { socket })
    }

    /// The counters of a set's elements, in the order in which `ipset save` prints them.
    /// Elements of a set without counters count nothing.
    ///
    /// # Errors
    /// Where there is no such set.
    pub fn read(&mut self, set: &str) -> Result<Vec<Count>, KernelError> {
        let mut messages = Messages::default();
        messages.begin(CMD_SAVE, DUMP, 2, 0);
        messages.attribute(ATTR_PROTOCOL, &[PROTOCOL]);
        messages.attribute(ATTR_SETNAME, &[set.as_bytes(), &[0]].concat());
        let mut out = Vec::new();
        let done = self.socket.dump(messages, DUMP_LIMIT, |_, body| {
            let lists = attributes(body).filter(|(kind, _)| *kind == ATTR_ADT);
            for (_, element) in lists.flat_map(|(_, list)| attributes(list)) {
                let number = |wanted| {
                    let (_, v) = attributes(element).find(|(k, _)| *k == wanted)?;
                    v.try_into().ok().map(u64::from_be_bytes)
                };
                let packets = number(ATTR_PACKETS).unwrap_or(0);
                out.push(Count { packets, bytes: number(ATTR_BYTES).unwrap_or(0) });
            }
        });
        done.map_err(|e: io::Error| KernelError::io("read set", set)(e))?;
        Ok(out)
    }
}
