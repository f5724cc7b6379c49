//! Length of single UDP packets.

/// Bytes of the headers of IPv4 and UDP.
pub const IPV4_UDP_HEADER_BYTES: u16 = 28;
/// The longest packet that no usual link fragments, bytes.
pub(crate) const MAX_UDP_PACKET_BYTES: u16 = 1500;
