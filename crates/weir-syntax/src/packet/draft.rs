//! A packet while its words are parsed, and the resulting packet.

use std::ops::Range;

use weir_model::{Addr, Family, Field, FieldSet, Mac, Packet};
use weir_packet::{ConntrackInfo, FragmentPosition, PktType, Transport, tcp_flag};

use super::error::PacketParseError;

/// The values of the words so far.
#[derive(Debug, Default)]
pub(super) struct PacketDraft {
    pub family: Option<(Family, Range<usize>)>,
    pub iif: String,
    pub oif: String,
    pub smac: Option<Mac>,
    pub saddr: Option<Addr>,
    pub daddr: Option<Addr>,
    pub ip_options_len: u8,
    pub fragment_offset_in_8_byte_units: Option<u16>,
    pub more_fragments: bool,
    pub dont_fragment: bool,
    pub truncated_transport_bytes: Option<usize>,
    pub proto: Option<(u8, Range<usize>)>,
    pub sport: Option<u16>,
    pub dport: Option<u16>,
    pub tcp_flags: Option<u8>,
    pub icmp_type_code: Option<(u8, u8)>,
    pub length: Option<(usize, Range<usize>)>,
    pub pkttype: Option<PktType>,
    /// Plain fields and their values.
    pub given_number_fields: Vec<(Field, u128)>,
    pub ct: ConntrackInfo,
    pub has_ct_state: bool,
    pub has_ct_mark: bool,
}

impl PacketDraft {
    /// The fields that the words give.
    pub fn given_fields(&self) -> FieldSet {
        // Words about fragments and truncated headers say what there is of the transport header.
        let no_header = self.fragment_offset_in_8_byte_units.is_some_and(|offset| offset != 0)
            || self.truncated_transport_bytes.is_some();
        let fields = [
            (Field::Iif, !self.iif.is_empty()),
            (Field::Oif, !self.oif.is_empty()),
            (Field::Saddr, self.saddr.is_some()),
            (Field::Daddr, self.daddr.is_some()),
            (Field::Proto, self.proto.is_some()),
            (
                Field::IsLaterFragment,
                self.fragment_offset_in_8_byte_units.is_some() || self.more_fragments,
            ),
            (Field::Sport, self.sport.is_some() || no_header),
            (Field::Dport, self.dport.is_some() || no_header),
            (Field::TcpFlags, self.tcp_flags.is_some() || no_header),
            (Field::IcmpTypeAndCode, self.icmp_type_code.is_some() || no_header),
            (Field::SourceMac, self.smac.is_some()),
            (Field::CtState, self.has_ct_state),
            (Field::CtMark, self.has_ct_mark),
            (Field::Length, self.length.is_some()),
            (Field::PktType, self.pkttype.is_some()),
        ];
        let others = fields.iter().filter(|(_, is)| *is).map(|(f, _)| *f);
        let given: Vec<Field> =
            others.chain(self.given_number_fields.iter().map(|(f, _)| *f)).collect();
        FieldSet::from_fields(&given)
    }

    /// The packet that the words describe; `text` is all of them, for the place of an error.
    pub fn build_packet(self, text: &str) -> Result<Packet, PacketParseError> {
        let family = self.family.as_ref().map_or(Family::V4, |(f, _)| *f);
        let (from, to) = match family {
            Family::V4 => (0xc633_6407, 0xcb00_7109),
            Family::V6 => (0x2001_0db8_0001 << 80 | 7, 0x2001_0db8_0002 << 80 | 9),
        };
        let proto = self.proto.as_ref().map_or(6, |(p, _)| *p);
        let (saddr, daddr) = (self.saddr.unwrap_or(Addr(from)), self.daddr.unwrap_or(Addr(to)));
        let mut p = Packet::new(family, saddr, daddr, proto);
        p.transport = self.build_transport(proto);
        p.fragment = FragmentPosition {
            offset: self.fragment_offset_in_8_byte_units.unwrap_or(0),
            more_fragments: self.more_fragments,
        };
        p.dont_fragment = self.dont_fragment;
        if p.fragment.offset != 0 {
            p.transport = Transport::NoParsedHeader;
            p.payload = vec![0; 8];
        } else if let Some(bytes) = self.truncated_transport_bytes {
            let (sport, dport) = p.ports().unwrap_or((0, 0));
            let ports = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
            p.payload = ports.into_iter().chain(std::iter::repeat(0)).take(bytes).collect();
            p.transport = Transport::Truncated;
        }
        (p.smac, p.pkttype, p.ct) = (self.smac, self.pkttype.unwrap_or_default(), self.ct);
        for (field, value) in self.given_number_fields {
            field.write_if_present(&mut p, value);
        }
        p.ip_options_len = self.ip_options_len;
        if p.smac.is_none() && !self.iif.is_empty() && self.iif != "lo" {
            p.smac = Some([2, 0, 0, 0, 0, 1]);
        }
        (p.iif, p.oif) = (self.iif, self.oif);
        if let Some((length, span)) = self.length {
            let headers = p.len() - p.payload.len();
            let Some(payload) = length.checked_sub(headers) else {
                let at = span.start + (text[span.clone()].len() - text[span.clone()].trim().len());
                return Err(PacketParseError {
                    message: format!("length {length} is below the {headers} bytes of headers"),
                    span: at..span.end,
                    help: format!("write at least {headers}: the length includes the IP header"),
                });
            };
            p.payload.resize(payload, 0);
        }
        Ok(p)
    }

    fn build_transport(&self, proto: u8) -> Transport {
        let (sport, dport) = (self.sport.unwrap_or(0), self.dport.unwrap_or(0));
        match proto {
            6 => {
                let flags = self.tcp_flags.unwrap_or(tcp_flag::SYN);
                Transport::Tcp { sport, dport, seq: 1, ack: 0, flags, options: Vec::new() }
            }
            17 | 136 => Transport::Udp { sport, dport },
            132 => Transport::Sctp { sport, dport, tag: 0 },
            33 => Transport::DccpPorts { sport, dport },
            1 | 58 => {
                let echo = if proto == 1 { 8 } else { 128 };
                let (kind, code) = self.icmp_type_code.unwrap_or((echo, 0));
                Transport::Icmp { kind, code, rest: [0; 4] }
            }
            _ => Transport::NoParsedHeader,
        }
    }
}
