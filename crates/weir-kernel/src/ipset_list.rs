//! Names and sizes of the ipsets of the current network namespace, read by netlink
//! (include/uapi/linux/netfilter/ipset/ip_set.h).

use crate::KernelError;
use crate::ipset_protocol::{
    IPSET_ATTR_DATA, IPSET_ATTR_ELEMENTS, IPSET_ATTR_FLAGS, IPSET_ATTR_PROTOCOL,
    IPSET_ATTR_REFERENCES, IPSET_ATTR_SETNAME, IPSET_ATTR_TYPENAME, IPSET_CMD_LIST,
    IPSET_FLAG_LIST_HEADER, IPSET_PROTOCOL_VERSION,
};
use crate::netlink::netfilter::{NFGENMSG_BYTES, NetfilterSubsystem};
use crate::netlink::{DUMP_TIMEOUT, NLM_F_DUMP, NetlinkProtocol, NetlinkSocket};

/// An ipset without its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpsetSummary {
    /// Its name.
    pub name: String,
    /// Its type: `hash:net`.
    pub set_type: String,
    /// How many elements it has.
    pub element_count: u32,
    /// How many rules and sets use it.
    pub reference_count: u32,
}

/// Reads the sets of the current network namespace.
///
/// The kernel loads ipset if it is not there: see
/// [`KernelFeature`](crate::kernel_feature::KernelFeature).
///
/// # Errors
/// If weir is not root, or the kernel has no ipset.
pub fn read_ipsets() -> Result<Vec<IpsetSummary>, KernelError> {
    let mut socket = NetlinkSocket::open(NetlinkProtocol::Netfilter)
        .map_err(KernelError::io("open", "ipset"))?;
    let mut request =
        NetfilterSubsystem::Ipset.new_request(IPSET_CMD_LIST, NLM_F_DUMP, libc::AF_INET as u8, 0);
    request.attributes.put(IPSET_ATTR_PROTOCOL, &[IPSET_PROTOCOL_VERSION]);
    request.attributes.put(IPSET_ATTR_FLAGS, &IPSET_FLAG_LIST_HEADER.to_be_bytes());
    socket
        .fold_dumped_objects(&request, DUMP_TIMEOUT, Vec::new, |sets, message| {
            let set = message.attributes(NFGENMSG_BYTES)?;
            let Some(name) = set.find(IPSET_ATTR_SETNAME) else { return Ok(()) };
            let header =
                set.find(IPSET_ATTR_DATA).map(|data| data.nested_attributes()).transpose()?;
            let number = |kind| match header.and_then(|header| header.find(kind)) {
                Some(number) => number.be32(),
                None => Ok(0),
            };
            sets.push(IpsetSummary {
                name: name.to_text(),
                set_type: set.find(IPSET_ATTR_TYPENAME).map(|t| t.to_text()).unwrap_or_default(),
                element_count: number(IPSET_ATTR_ELEMENTS)?,
                reference_count: number(IPSET_ATTR_REFERENCES)?,
            });
            Ok(())
        })
        .map_err(KernelError::netlink("read", "ipset"))
}
