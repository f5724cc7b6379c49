//! Counters of the elements of an ipset, read by netlink instead of by printing and parsing.

use crate::ipset_protocol::{
    IPSET_ATTR_ADT, IPSET_ATTR_BYTES, IPSET_ATTR_PACKETS, IPSET_ATTR_PROTOCOL, IPSET_ATTR_SETNAME,
    IPSET_CMD_SAVE, IPSET_PROTOCOL_VERSION,
};
use crate::netlink::attribute::{MalformedNetlink, NetlinkAttributes};
use crate::netlink::netfilter::{NFGENMSG_BYTES, NetfilterSubsystem};
use crate::netlink::{DUMP_TIMEOUT, NLM_F_DUMP, NetlinkProtocol, NetlinkSocket};
use crate::xtables_counters::PacketByteCount;
use crate::{KernelError, Namespace};

/// Reads the counters of the elements of sets of one namespace.
#[derive(Debug)]
pub struct IpsetCounterReader {
    socket: NetlinkSocket,
}

impl IpsetCounterReader {
    /// Opens the sets of a namespace.
    ///
    /// # Errors
    /// If the kernel has no ipset.
    pub fn open(namespace: &Namespace) -> Result<IpsetCounterReader, KernelError> {
        let socket = namespace
            .call_inside(|| NetlinkSocket::open(NetlinkProtocol::Netfilter))?
            .map_err(KernelError::io("open sets of", namespace.name()))?;
        Ok(IpsetCounterReader { socket })
    }

    /// The counters of a set's elements, in the order in which `ipset save` prints them.
    /// Elements of a set without counters count nothing.
    ///
    /// # Errors
    /// If there is no such set.
    pub fn read_element_counters(
        &mut self,
        set: &str,
    ) -> Result<Vec<PacketByteCount>, KernelError> {
        let mut request = NetfilterSubsystem::Ipset.new_request(
            IPSET_CMD_SAVE,
            NLM_F_DUMP,
            libc::AF_INET as u8,
            0,
        );
        request.attributes.put(IPSET_ATTR_PROTOCOL, &[IPSET_PROTOCOL_VERSION]);
        request.attributes.put_text(IPSET_ATTR_SETNAME, set);
        let counts =
            self.socket.fold_dumped_objects(&request, DUMP_TIMEOUT, Vec::new, |counts, message| {
                let elements = message.attributes(NFGENMSG_BYTES)?.find(IPSET_ATTR_ADT);
                let Some(elements) = elements else { return Ok(()) };
                for element in elements.nested_attributes()?.iter() {
                    counts.push(parse_element_counter(element.nested_attributes()?)?);
                }
                Ok(())
            });
        counts.map_err(KernelError::netlink("read set", set))
    }
}

/// The counters of an element.
fn parse_element_counter(
    element: NetlinkAttributes<'_>,
) -> Result<PacketByteCount, MalformedNetlink> {
    let number = |kind| element.find(kind).map_or(Ok(0), |value| value.be64());
    Ok(PacketByteCount { packets: number(IPSET_ATTR_PACKETS)?, bytes: number(IPSET_ATTR_BYTES)? })
}
