//! Length and port of single UDP packets, which several kinds of traffic have.

/// Bytes of the headers of IPv4 and UDP.
pub const IPV4_UDP_HEADER_BYTES: u16 = 28;
/// The longest packet that no usual link fragments.
const MAX_PACKET_BYTES: u16 = 1500;

/// The fields `bytes` and `port` of a study; without them 128 bytes, and the port that discards
/// (RFC 863).
pub(super) fn parse_udp_length_and_port(
    bytes: Option<u16>,
    port: Option<u16>,
) -> Result<(u16, u16), String> {
    let (packet_bytes, port) = (bytes.unwrap_or(128), port.unwrap_or(9));
    if !(IPV4_UDP_HEADER_BYTES..=MAX_PACKET_BYTES).contains(&packet_bytes) || port == 0 {
        return Err(format!(
            "`bytes` are {IPV4_UDP_HEADER_BYTES} to {MAX_PACKET_BYTES}, headers included, and \
             `port` is above 0"
        ));
    }
    Ok((packet_bytes, port))
}
