//! Messages to the kernel.

use super::attribute::AttributeWriter;
use super::error::NetlinkError;
use super::received_message::NLMSG_HEADER_BYTES;

const NLM_F_REQUEST: u16 = 1;
/// The request is acknowledged.
pub const NLM_F_ACK: u16 = 4;
/// All objects are requested.
pub const NLM_F_DUMP: u16 = 0x300;
/// The object may be new (of requests that make or change one).
pub const NLM_F_CREATE: u16 = 0x400;
/// The object must not be there already.
pub const NLM_F_EXCL: u16 = 0x200;

/// The object is added after the others (of rules).
pub const NLM_F_APPEND: u16 = 0x800;

/// A message to the kernel; its number is given to it when it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetlinkRequest {
    kind: u16,
    flags: u16,
    /// Its attributes.
    pub attributes: AttributeWriter,
}

impl NetlinkRequest {
    /// A message of a type with flags and the fixed header that its subsystem wants.
    pub fn new(kind: u16, flags: u16, header: &[u8]) -> NetlinkRequest {
        NetlinkRequest {
            kind,
            flags: flags | NLM_F_REQUEST,
            attributes: AttributeWriter::after_header(header),
        }
    }

    /// Adds its bytes to a datagram.
    pub(super) fn append_to_datagram(
        &self,
        datagram: &mut Vec<u8>,
        sequence: u32,
        more_flags: u16,
    ) -> Result<(), NetlinkError> {
        let body = self
            .attributes
            .bytes_unless_too_long()
            .map_err(|kind| NetlinkError::AttributeTooLong { kind })?;
        let length = (NLMSG_HEADER_BYTES + body.len()) as u32;
        datagram.extend_from_slice(&length.to_ne_bytes());
        datagram.extend_from_slice(&self.kind.to_ne_bytes());
        datagram.extend_from_slice(&(self.flags | more_flags).to_ne_bytes());
        datagram.extend_from_slice(&sequence.to_ne_bytes());
        // The port of the sender is filled in by the kernel.
        datagram.extend_from_slice(&[0; 4]);
        datagram.extend_from_slice(body);
        Ok(())
    }
}
