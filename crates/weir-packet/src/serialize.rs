//! Builds the bytes of a packet.
//!
//! Lengths and checksums are those of the packet as it is. The checksum of a fragment covers the
//! bytes that it has; UDP over IPv4 then has "no checksum", which is correct for every fragment.

use crate::checksum::{InternetChecksum, crc32c};
use crate::{Family, Mac, Packet, PktType, Transport};

/// Protocol numbers that the bytes depend on.
pub(crate) mod proto {
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const DCCP: u8 = 33;
    pub const FRAGMENT: u8 = 44;
    pub const ICMPV6: u8 = 58;
    pub const SCTP: u8 = 132;
    pub const UDPLITE: u8 = 136;
}

/// Receive window of every TCP header that weir writes.
const TCP_WINDOW_BYTES: u16 = 64_240;

impl Packet {
    /// The bytes from the network header on, with all checksums right.
    ///
    /// ```
    /// use weir_packet::{Addr, Family, Packet, Transport};
    /// let mut p = Packet::new(Family::V4, Addr(0xc000_0201), Addr(0xc633_6407), 17);
    /// p.transport = Transport::Udp { sport: 5353, dport: 53 };
    /// let bytes = p.to_bytes();
    /// assert_eq!(bytes.len(), p.len());
    /// assert_eq!(bytes[9], 17);
    /// ```
    ///
    /// # Panics
    /// Where the packet is longer than its header can say (65,535 bytes), or options of IPv4 or TCP
    /// are no multiple of four bytes up to 40.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        self.push_network_header(&mut out);
        let start = out.len();
        self.push_transport_header(&mut out);
        out.extend_from_slice(&self.payload);
        self.set_transport_checksum(&mut out[start..]);
        debug_assert_eq!(out.len(), self.len());
        out
    }

    /// The bytes with an Ethernet header. Broadcast and multicast packets go to the address that
    /// makes them so, others to `dmac`.
    pub fn to_frame_with_dmac(&self, dmac: Mac) -> Vec<u8> {
        let bytes = self.to_bytes();
        let mut out = Vec::with_capacity(14 + bytes.len());
        out.extend_from_slice(&match self.pkttype {
            PktType::Unicast => dmac,
            PktType::Broadcast => [0xff; 6],
            PktType::Multicast => self.multicast_mac(),
        });
        out.extend_from_slice(&self.smac.unwrap_or_default());
        out.extend_from_slice(match self.family {
            Family::V4 => &[0x08, 0x00],
            Family::V6 => &[0x86, 0xdd],
        });
        out.extend_from_slice(&bytes);
        out
    }

    /// RFC 1112, section 6.4 and RFC 2464, section 7.
    fn multicast_mac(&self) -> Mac {
        let a = (self.daddr.0 as u32).to_be_bytes();
        match self.family {
            Family::V4 => [0x01, 0x00, 0x5e, a[1] & 0x7f, a[2], a[3]],
            Family::V6 => [0x33, 0x33, a[0], a[1], a[2], a[3]],
        }
    }

    fn push_network_header(&self, out: &mut Vec<u8>) {
        let long = "a packet has at most 65,535 bytes";
        let f = self.fragment;
        match self.family {
            Family::V4 => {
                let length = u16::try_from(self.len()).expect(long);
                let options = usize::from(self.ip_options_len);
                assert!(options <= 40 && options.is_multiple_of(4), "IPv4 options");
                out.extend_from_slice(&[0x45 + self.ip_options_len / 4, self.tos]);
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&self.ident.to_be_bytes());
                let dont_fragment = u16::from(self.dont_fragment) << 14;
                let flags = dont_fragment | u16::from(f.more_fragments) << 13;
                out.extend_from_slice(&(flags | (f.offset & 0x1fff)).to_be_bytes());
                out.extend_from_slice(&[self.ttl, self.proto, 0, 0]);
                out.extend_from_slice(&(self.saddr.0 as u32).to_be_bytes());
                out.extend_from_slice(&(self.daddr.0 as u32).to_be_bytes());
                out.resize(20 + options, 1);
                let mut sum = InternetChecksum::new();
                sum.add_zero_padded_bytes(&out[..20 + options]);
                out[10..12].copy_from_slice(&sum.finish().to_be_bytes());
            }
            Family::V6 => {
                let length = u16::try_from(self.len() - 40).expect(long);
                let first = 0x6000_0000 | u32::from(self.tos) << 20;
                out.extend_from_slice(&first.to_be_bytes());
                out.extend_from_slice(&length.to_be_bytes());
                let next = if self.is_fragment() { proto::FRAGMENT } else { self.proto };
                out.extend_from_slice(&[next, self.ttl]);
                out.extend_from_slice(&self.saddr.0.to_be_bytes());
                out.extend_from_slice(&self.daddr.0.to_be_bytes());
                if self.is_fragment() {
                    out.extend_from_slice(&[self.proto, 0]);
                    out.extend_from_slice(
                        &(f.offset << 3 | u16::from(f.more_fragments)).to_be_bytes(),
                    );
                    out.extend_from_slice(&u32::from(self.ident).to_be_bytes());
                }
            }
        }
    }

    /// The transport header with zeros where its checksum will be.
    fn push_transport_header(&self, out: &mut Vec<u8>) {
        match &self.transport {
            Transport::Tcp { sport, dport, seq, ack, flags, options } => {
                assert!(options.len() <= 40 && options.len().is_multiple_of(4), "TCP options");
                push_ports(out, *sport, *dport);
                out.extend_from_slice(&seq.to_be_bytes());
                out.extend_from_slice(&ack.to_be_bytes());
                out.extend_from_slice(&[(5 + options.len() as u8 / 4) << 4, *flags]);
                out.extend_from_slice(&TCP_WINDOW_BYTES.to_be_bytes());
                out.extend_from_slice(&[0; 4]);
                out.extend_from_slice(options);
            }
            Transport::Udp { sport, dport } => {
                push_ports(out, *sport, *dport);
                // The length; in UDP-Lite the part that is summed, where it is all of it.
                let length = (8 + self.payload.len()) as u16;
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&[0; 2]);
            }
            Transport::Sctp { sport, dport, tag } => {
                push_ports(out, *sport, *dport);
                out.extend_from_slice(&tag.to_be_bytes());
                out.extend_from_slice(&[0; 4]);
            }
            Transport::DccpPorts { sport, dport } => push_ports(out, *sport, *dport),
            Transport::Icmp { kind, code, rest } => {
                out.extend_from_slice(&[*kind, *code, 0, 0]);
                out.extend_from_slice(rest);
            }
            Transport::NoParsedHeader | Transport::Truncated => {}
        }
    }

    /// Fills in the checksum of `bytes`, the transport header and all after it.
    fn set_transport_checksum(&self, bytes: &mut [u8]) {
        let at = match self.transport {
            Transport::Tcp { .. } => 16,
            Transport::Udp { .. } => 6,
            Transport::Icmp { .. } => 2,
            Transport::Sctp { .. } => {
                let crc = crc32c(bytes).to_le_bytes();
                bytes[8..12].copy_from_slice(&crc);
                return;
            }
            Transport::DccpPorts { .. } | Transport::NoParsedHeader | Transport::Truncated => {
                return;
            }
        };
        let is_udp = matches!(self.transport, Transport::Udp { .. });
        if is_udp && self.family == Family::V4 && self.is_fragment() && self.proto == proto::UDP {
            return;
        }
        let mut sum = InternetChecksum::new();
        let is_icmp4 = self.proto == proto::ICMP && !is_udp && at == 2;
        if !is_icmp4 {
            let length = bytes.len();
            sum.add_pseudo_header(self.family, self.saddr, self.daddr, self.proto, length);
        }
        sum.add_zero_padded_bytes(bytes);
        let value = match sum.finish() {
            // Zero would say that there is none.
            0 if is_udp => 0xffff,
            n => n,
        };
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
}

fn push_ports(out: &mut Vec<u8>, sport: u16, dport: u16) {
    out.extend_from_slice(&sport.to_be_bytes());
    out.extend_from_slice(&dport.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Addr, tcp_flag};

    fn udp() -> Packet {
        let mut p = Packet::new(Family::V4, Addr(0xc000_0201), Addr(0xc633_6407), proto::UDP);
        p.transport = Transport::Udp { sport: 1, dport: 2 };
        p.payload = vec![1, 2, 3];
        p
    }

    #[test]
    fn a_broadcast_packet_has_the_broadcast_mac_address() {
        let mut p = udp();
        let dmac = [2, 0, 0, 0, 0, 1];
        assert_eq!(p.to_frame_with_dmac(dmac)[..6], dmac);
        p.pkttype = PktType::Broadcast;
        assert_eq!(p.to_frame_with_dmac(dmac)[..6], [0xff; 6]);
    }

    #[test]
    fn a_udp_fragment_has_no_checksum() {
        let mut p = udp();
        assert_ne!(p.to_bytes()[26..28], [0, 0]);
        p.fragment.more_fragments = true;
        assert_eq!(p.to_bytes()[26..28], [0, 0]);
    }

    #[test]
    fn tcp_checksums_with_a_pseudo_header_are_valid() {
        for family in [Family::V4, Family::V6] {
            let mut p = Packet::new(family, Addr(0xc000_0201), Addr(0xc633_6407), proto::TCP);
            let flags = tcp_flag::SYN;
            p.transport =
                Transport::Tcp { sport: 9, dport: 80, seq: 7, ack: 0, flags, options: vec![1; 4] };
            p.payload = vec![0xab; 5];
            let bytes = p.to_bytes();
            let transport = &bytes[bytes.len() - 29..];
            let mut sum = InternetChecksum::new();
            sum.add_pseudo_header(family, p.saddr, p.daddr, p.proto, transport.len());
            sum.add_zero_padded_bytes(transport);
            assert_eq!(sum.finish(), 0, "{family:?}");
        }
    }
}
