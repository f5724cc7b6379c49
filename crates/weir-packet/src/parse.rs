//! Bytes to packet: the inverse of the builder.

use crate::serialize::proto;
use crate::{Addr, Family, FragmentPosition, Packet, Transport};

/// Why bytes are no packet that [`Packet`] can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// Fewer bytes than the header says, or than a header has.
    TooShort {
        /// Bytes that are there.
        bytes: usize,
        /// Bytes that should be.
        wanted: usize,
    },
    /// Neither IPv4 nor IPv6.
    UnknownIpVersion(u8),
    /// IPv4 options or IPv6 extension headers other than the fragment header: a packet that is
    /// built again would not have them.
    UnsupportedHeader(&'static str),
    /// A length field that contradicts itself.
    ImpossibleLengthField(&'static str),
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ParseError::TooShort { bytes, wanted } => {
                write!(f, "packet has {bytes} bytes where {wanted} are needed")
            }
            ParseError::UnknownIpVersion(v) => write!(f, "packet of IP version {v}"),
            ParseError::UnsupportedHeader(what) => write!(f, "packet with {what}"),
            ParseError::ImpossibleLengthField(what) => write!(f, "packet with a wrong {what}"),
        }
    }
}

impl std::error::Error for ParseError {}

impl Packet {
    /// Reads a packet from its network header on. Bytes after its end (padding) are ignored,
    /// checksums are not verified.
    ///
    /// ```
    /// use weir_packet::{Addr, Family, Packet};
    /// let p = Packet::new(Family::V6, Addr(1), Addr(2), 59);
    /// assert_eq!(Packet::parse(&p.to_bytes()), Ok(p));
    /// ```
    ///
    /// # Errors
    /// See [`ParseError`]. A cut-off *transport* header is not an error: see
    /// [`Transport::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Packet, ParseError> {
        let first = bytes.first().ok_or(ParseError::TooShort { bytes: 0, wanted: 20 })?;
        match first >> 4 {
            4 => parse_v4(bytes),
            6 => parse_v6_with_fragment_header(bytes),
            v => Err(ParseError::UnknownIpVersion(v)),
        }
    }

    /// Reads a packet from its Ethernet header on: the source MAC address is kept.
    ///
    /// # Errors
    /// As [`parse`](Packet::parse).
    pub fn parse_frame_keeping_smac(frame: &[u8]) -> Result<Packet, ParseError> {
        let Some((header, rest)) = frame.split_first_chunk::<14>() else {
            return Err(ParseError::TooShort { bytes: frame.len(), wanted: 14 });
        };
        let mut packet = Packet::parse(rest)?;
        packet.smac = header[6..12].try_into().ok();
        Ok(packet)
    }
}

fn read_array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], ParseError> {
    let wanted = at + N;
    let short = ParseError::TooShort { bytes: bytes.len(), wanted };
    bytes.get(at..wanted).and_then(|b| b.try_into().ok()).ok_or(short)
}

fn parse_v4(bytes: &[u8]) -> Result<Packet, ParseError> {
    let header: [u8; 20] = read_array(bytes, 0)?;
    match header[0] & 0x0f {
        5 => {}
        0..5 => return Err(ParseError::ImpossibleLengthField("header length")),
        _ => return Err(ParseError::UnsupportedHeader("IPv4 options")),
    }
    let total = usize::from(read_first_be16(&header[2..]));
    if total < 20 {
        return Err(ParseError::ImpossibleLengthField("total length"));
    }
    let body =
        bytes.get(20..total).ok_or(ParseError::TooShort { bytes: bytes.len(), wanted: total })?;
    let saddr = Addr(u32::from_be_bytes(read_array(&header, 12)?).into());
    let daddr = Addr(u32::from_be_bytes(read_array(&header, 16)?).into());
    let mut p = Packet::new(Family::V4, saddr, daddr, header[9]);
    (p.tos, p.ttl, p.ident) = (header[1], header[8], read_first_be16(&header[4..]));
    let flags = read_first_be16(&header[6..]);
    p.fragment = FragmentPosition { offset: flags & 0x1fff, more_fragments: flags & 0x2000 != 0 };
    p.dont_fragment = flags & 0x4000 != 0;
    parse_transport_and_payload(&mut p, body);
    Ok(p)
}

fn parse_v6_with_fragment_header(bytes: &[u8]) -> Result<Packet, ParseError> {
    let header: [u8; 40] = read_array(bytes, 0)?;
    let total = 40 + usize::from(read_first_be16(&header[4..]));
    let short = ParseError::TooShort { bytes: bytes.len(), wanted: total };
    let mut body = bytes.get(40..total).ok_or(short)?;
    let saddr = Addr(u128::from_be_bytes(read_array(&header, 8)?));
    let daddr = Addr(u128::from_be_bytes(read_array(&header, 24)?));
    let mut p = Packet::new(Family::V6, saddr, daddr, header[6]);
    p.tos = (read_first_be16(&header) >> 4) as u8;
    p.ttl = header[7];
    if p.proto == proto::FRAGMENT {
        let fragment: [u8; 8] = read_array(body, 0)?;
        body = &body[8..];
        p.proto = fragment[0];
        let offset = read_first_be16(&fragment[2..]);
        p.fragment = FragmentPosition { offset: offset >> 3, more_fragments: offset & 1 == 1 };
        p.ident = read_first_be16(&fragment[6..]);
        if !p.is_fragment() {
            return Err(ParseError::UnsupportedHeader("an atomic fragment header"));
        }
    }
    // Hop-by-hop, routing, another fragment, authentication, destination options, mobility.
    if p.fragment.offset == 0 && matches!(p.proto, 0 | 43 | 44 | 51 | 60 | 135) {
        return Err(ParseError::UnsupportedHeader("IPv6 extension headers"));
    }
    parse_transport_and_payload(&mut p, body);
    Ok(p)
}

/// The transport header and the payload out of what follows the network header.
fn parse_transport_and_payload(p: &mut Packet, body: &[u8]) {
    let (transport, header_bytes) = if p.fragment.offset != 0 {
        (Transport::NoParsedHeader, 0)
    } else {
        parse_transport(p.family, p.proto, body)
    };
    p.payload = body[header_bytes..].to_vec();
    p.transport = transport;
}

fn parse_transport(family: Family, number: u8, body: &[u8]) -> (Transport, usize) {
    let wanted = match (number, family) {
        (proto::TCP, _) => 20,
        (proto::UDP | proto::UDPLITE, _) => 8,
        (proto::ICMP, Family::V4) | (proto::ICMPV6, Family::V6) => 8,
        (proto::SCTP, _) => 12,
        (proto::DCCP, _) => 4,
        _ => return (Transport::NoParsedHeader, 0),
    };
    if body.len() < wanted {
        return (Transport::Truncated, 0);
    }
    let (sport, dport) = (read_first_be16(body), read_first_be16(&body[2..]));
    let word = |at: usize| {
        u32::from(read_first_be16(&body[at..])) << 16 | u32::from(read_first_be16(&body[at + 2..]))
    };
    match number {
        proto::TCP => {
            let bytes = usize::from(body[12] >> 4) * 4;
            if bytes < 20 || bytes > body.len() {
                return (Transport::Truncated, 0);
            }
            let (seq, ack, flags) = (word(4), word(8), body[13]);
            let options = body[20..bytes].to_vec();
            (Transport::Tcp { sport, dport, seq, ack, flags, options }, bytes)
        }
        proto::SCTP => (Transport::Sctp { sport, dport, tag: word(4) }, wanted),
        proto::DCCP => (Transport::DccpPorts { sport, dport }, wanted),
        proto::ICMP | proto::ICMPV6 => {
            let rest = [body[4], body[5], body[6], body[7]];
            (Transport::Icmp { kind: body[0], code: body[1], rest }, wanted)
        }
        _ => (Transport::Udp { sport, dport }, wanted),
    }
}

/// The first two bytes as a number.
fn read_first_be16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_after_the_packet_is_ignored() {
        let p = Packet::new(Family::V4, Addr(1), Addr(2), 50);
        let mut bytes = p.to_bytes();
        bytes.resize(46, 0);
        assert_eq!(Packet::parse(&bytes), Ok(p));
    }

    #[test]
    fn unsupported_or_incomplete_headers_are_refused() {
        let whole = Packet::new(Family::V4, Addr(1), Addr(2), 50).to_bytes();
        assert!(Packet::parse(&whole).is_ok());
        let mut options = whole.clone();
        options[0] = 0x46;
        assert_eq!(Packet::parse(&options), Err(ParseError::UnsupportedHeader("IPv4 options")));
        assert_eq!(
            Packet::parse(&whole[..19]),
            Err(ParseError::TooShort { bytes: 19, wanted: 20 })
        );
        assert_eq!(Packet::parse(&[0x50]), Err(ParseError::UnknownIpVersion(5)));
        let mut hop = Packet::new(Family::V6, Addr(1), Addr(2), 59).to_bytes();
        hop[6] = 0;
        assert_eq!(
            Packet::parse(&hop),
            Err(ParseError::UnsupportedHeader("IPv6 extension headers"))
        );
    }

    #[test]
    fn parsing_a_truncated_packet_is_refused() {
        for number in [1, 6, 17, 33, 58, 132, 136] {
            for family in [Family::V4, Family::V6] {
                let mut p = Packet::new(family, Addr(1), Addr(2), number);
                p.payload = vec![0x5f; 64];
                p.fragment.more_fragments = true;
                let bytes = p.to_bytes();
                for n in 0..bytes.len() {
                    assert!(Packet::parse(&bytes[..n]).is_err());
                }
            }
        }
    }
}
