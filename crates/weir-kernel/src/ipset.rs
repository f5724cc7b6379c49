//! Counters of the elements of an ipset, read by netlink instead of by printing and parsing.

use std::time::Duration;

use crate::netlink::attribute::{Attributes, Malformed};
use crate::netlink::netfilter::{HEADER_BYTES, Subsystem};
use crate::netlink::{DUMP, NetlinkProtocol, Socket};
use crate::xtables::Count;
use crate::{KernelError, Namespace};

const CMD_SAVE: u8 = 8;
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
            .enter(|| Socket::open(NetlinkProtocol::Netfilter))?
            .map_err(KernelError::io("open sets of", namespace.name()))?;
        Ok(SetCounters { socket })
    }

    /// The counters of a set's elements, in the order in which `ipset save` prints them.
    /// Elements of a set without counters count nothing.
    ///
    /// # Errors
    /// Where there is no such set.
    pub fn read(&mut self, set: &str) -> Result<Vec<Count>, KernelError> {
        let mut request = Subsystem::Sets.request(CMD_SAVE, DUMP, libc::AF_INET as u8, 0);
        request.attributes.put(ATTR_PROTOCOL, &[PROTOCOL]);
        request.attributes.put_text(ATTR_SETNAME, set);
        let counts = self.socket.dump(&request, DUMP_LIMIT, Vec::new, |counts, message| {
            let elements = message.attributes(HEADER_BYTES)?.find(ATTR_ADT);
            let Some(elements) = elements else { return Ok(()) };
            for element in elements.nested()?.iter() {
                counts.push(count(element.nested()?)?);
            }
            Ok(())
        });
        counts.map_err(KernelError::netlink("read set", set))
    }
}

/// The counters of an element.
fn count(element: Attributes<'_>) -> Result<Count, Malformed> {
    let number = |kind| element.find(kind).map_or(Ok(0), |value| value.be64());
    Ok(Count { packets: number(ATTR_PACKETS)?, bytes: number(ATTR_BYTES)? })
}
