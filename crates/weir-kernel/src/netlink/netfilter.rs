//! What all netfilter subsystems have in common: the type and the header of their messages, and the
//! batch (include/uapi/linux/netfilter/nfnetlink.h).

use super::request::NetlinkRequest;

/// Bytes of `struct nfgenmsg`.
pub const NFGENMSG_BYTES: usize = 4;
const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;
const NFNL_BATCH_GENID: u16 = 1;

/// A subsystem of netfilter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NetfilterSubsystem {
    /// The connection table.
    Conntrack = 1,
    /// Connections that others announced.
    Expectations = 2,
    /// Packets that rules log.
    Log = 4,
    /// ipset.
    Ipset = 6,
    /// nf_tables.
    NfTables = 10,
    /// What is called at hooks.
    Hook = 12,
}

impl NetfilterSubsystem {
    /// The type of one of its messages.
    pub const fn message_type(self, message: u8) -> u16 {
        (self as u16) << 8 | message as u16
    }

    /// One of its messages. `family`: an address family, `resource`: a group of the log.
    pub fn new_request(self, message: u8, flags: u16, family: u8, resource: u16) -> NetlinkRequest {
        NetlinkRequest::new(self.message_type(message), flags, &nfgenmsg_header(family, resource))
    }
}

/// `struct nfgenmsg`, version 0.
fn nfgenmsg_header(family: u8, resource: u16) -> [u8; NFGENMSG_BYTES] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

/// Requests between the messages that make them one batch: the subsystem does all of them or none.
/// With a generation, none if the subsystem has another one.
pub fn wrap_in_batch(
    subsystem: NetfilterSubsystem,
    requests: impl IntoIterator<Item = NetlinkRequest>,
    generation: Option<u32>,
) -> Vec<NetlinkRequest> {
    let edge = |kind| NetlinkRequest::new(kind, 0, &nfgenmsg_header(0, subsystem as u16));
    let mut begin = edge(NFNL_MSG_BATCH_BEGIN);
    if let Some(generation) = generation {
        begin.attributes.put_be32(NFNL_BATCH_GENID, generation);
    }
    let mut batch = vec![begin];
    batch.extend(requests);
    batch.push(edge(NFNL_MSG_BATCH_END));
    batch
}
