//! The language of `--packet`: a packet in nft terms, in any order.
//!
//! ```
//! use weir_syntax::packet::parse_packet;
//! let packet = parse_packet("iif eth0 ip saddr 198.51.100.7 tcp dport 22 ct state new").unwrap();
//! assert_eq!(packet.iif, "eth0");
//! assert_eq!(packet.ports().unwrap().1, 22);
//! ```
//!
//! `truncated N` truncates the transport header after N bytes.
//!
//! Other values are those of [`Packet::new`]: TTL 64, state NEW, mark 0, addresses from the ranges
//! for documentation, port 0; TCP has SYN set.

mod draft;
mod error;
pub(crate) mod name_lookup;
pub(crate) mod number_field_words;
mod print;

use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use weir_model::field::Layer;
use weir_model::{Addr, CtState, Family, Field, FieldSet, Mac, Packet};
use weir_packet::PktType;

use self::draft::PacketDraft;
pub use self::error::PacketParseError;
use self::name_lookup::{
    builtin_service_port, icmp_type_number, parse_protocol_name_or_number, tcp_flag_bit,
};
use self::number_field_words::{find_number_field, join_with_or, list_ip_clause_words};
pub use self::print::print_packet;

/// The words a packet may begin a clause with.
const CLAUSE_KEYWORDS_FOR_HELP: &str = "iif, oif, ip, ip6, tcp, udp, sctp, dccp, icmp, icmpv6, ether, ct, mark, \
                       pkttype, fragment, truncated, length, proto";

/// Reads a packet.
///
/// # Errors
/// The first word that is not understood, with its place and what to write instead.
pub fn parse_packet(text: &str) -> Result<Packet, PacketParseError> {
    parse_packet_and_given_fields(text).map(|(packet, _)| packet)
}

/// Reads a packet, and which of its fields the text gives; the others have the values of
/// [`Packet::new`] or those of the head of this module.
///
/// # Errors
/// As [`parse_packet`].
///
/// ```
/// use weir_model::Field;
/// use weir_syntax::packet::parse_packet_and_given_fields;
/// let (_, given) = parse_packet_and_given_fields("ip saddr 192.0.2.1 tcp dport 22").unwrap();
/// assert!(given.contains(Field::Dport) && !given.contains(Field::Daddr));
/// ```
pub fn parse_packet_and_given_fields(text: &str) -> Result<(Packet, FieldSet), PacketParseError> {
    let mut reader = PacketWordsParser { text, position: 0, draft: PacketDraft::default() };
    while let Some(word) = reader.next_word() {
        reader.parse_clause(word)?;
    }
    let given = reader.draft.given_fields();
    Ok((reader.draft.build_packet(text)?, given))
}

type PacketParseResult<T> = Result<T, PacketParseError>;

/// A word and its position.
#[derive(Clone, Copy, Debug)]
struct PacketWord<'t> {
    text: &'t str,
    start: usize,
}

impl PacketWord<'_> {
    fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }

    fn error_at_word(&self, message: String, help: &str) -> PacketParseError {
        PacketParseError { message, span: self.span(), help: help.to_owned() }
    }
}

struct PacketWordsParser<'t> {
    text: &'t str,
    position: usize,
    draft: PacketDraft,
}

impl<'t> PacketWordsParser<'t> {
    fn next_word(&mut self) -> Option<PacketWord<'t>> {
        let rest = &self.text[self.position..];
        let start = self.position + (rest.len() - rest.trim_start().len());
        let text = self.text[start..].split_whitespace().next()?;
        self.position = start + text.len();
        Some(PacketWord { text, start })
    }

    /// The word after `keyword`.
    fn expect_word_after(
        &mut self,
        keyword: PacketWord<'_>,
        what: &str,
    ) -> PacketParseResult<PacketWord<'t>> {
        let end = self.text.len();
        self.next_word().ok_or_else(|| PacketParseError {
            message: format!("{} wants {what}", keyword.text),
            span: end..end,
            help: format!("write {what} after {}", keyword.text),
        })
    }

    fn parse_number<T: TryFrom<u64>>(
        &mut self,
        keyword: PacketWord<'_>,
        max: u64,
    ) -> PacketParseResult<T> {
        let word = self.expect_word_after(keyword, "a number")?;
        let parsed = match word.text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => word.text.parse().ok(),
        };
        let value = parsed.filter(|n| *n <= max).and_then(|n| T::try_from(n).ok());
        let help = format!("write a number from 0 to {max}");
        let message = || format!("{} is not a number for {}", word.text, keyword.text);
        value.ok_or_else(|| word.error_at_word(message(), &help))
    }

    fn parse_clause(&mut self, word: PacketWord<'t>) -> PacketParseResult<()> {
        match word.text {
            "iif" | "iifname" => self.draft.iif = self.parse_device(word)?,
            "oif" | "oifname" => self.draft.oif = self.parse_device(word)?,
            "ip" => self.parse_ip_clause(word, Family::V4)?,
            "ip6" => self.parse_ip_clause(word, Family::V6)?,
            "tcp" => self.parse_tcp_clause(word)?,
            "udp" => self.parse_port_clause(word, 17)?,
            "sctp" => self.parse_port_clause(word, 132)?,
            "dccp" => self.parse_port_clause(word, 33)?,
            "icmp" => self.parse_icmp_clause(word, 1)?,
            "icmpv6" | "icmp6" => self.parse_icmp_clause(word, 58)?,
            "ether" => self.parse_ether_saddr_clause(word)?,
            "ct" => self.parse_ct_clause(word)?,
            "meta" => {}
            "pkttype" => self.parse_pkttype(word)?,
            "fragment" => self.parse_fragment_clause(word)?,
            "truncated" => {
                self.draft.truncated_transport_bytes = Some(self.parse_number(word, 19)?)
            }
            "length" => {
                let from = self.position;
                let length = self.parse_number::<u32>(word, 65_535)?;
                self.draft.length = Some((length as usize, from..self.position));
            }
            "proto" | "protocol" | "l4proto" => {
                let name = self.expect_word_after(word, "a protocol")?;
                let proto = parse_protocol_name_or_number(name.text).ok_or_else(|| {
                    let help = "write a number from 1 to 255, or tcp, udp, icmp, icmpv6, gre, esp, \
                                ah, sctp, dccp, igmp, ospf, ipip, vrrp, udplite";
                    name.error_at_word(format!("unknown protocol {}", name.text), help)
                })?;
                self.set_consistent_protocol(name, proto)?;
            }
            _ if self.parse_number_field_of_layer(word, Layer::Meta, Family::V4)? => {}
            _ => {
                let help = format!("begin with one of: {CLAUSE_KEYWORDS_FOR_HELP}");
                return Err(word.error_at_word(format!("unknown word {}", word.text), &help));
            }
        }
        Ok(())
    }

    /// A plain field of the table by its name, and its value; whether there is one.
    fn parse_number_field_of_layer(
        &mut self,
        word: PacketWord<'_>,
        layer: Layer,
        family: Family,
    ) -> PacketParseResult<bool> {
        let Some(field) = find_number_field(word.text, layer, family) else { return Ok(false) };
        let value: u64 = self.parse_number(word, field.max_value(family) as u64)?;
        self.draft.given_number_fields.push((field, value.into()));
        Ok(true)
    }

    fn parse_device(&mut self, keyword: PacketWord<'_>) -> PacketParseResult<String> {
        let name = self.expect_word_after(keyword, "a device name")?;
        let bare = name.text.trim_matches('"');
        if bare.is_empty() || bare.len() > 15 || bare.contains('/') {
            let help = "a device name has 1 to 15 bytes and no slash";
            return Err(name.error_at_word(format!("{} is not a device name", name.text), help));
        }
        Ok(bare.to_owned())
    }

    fn set_consistent_family(
        &mut self,
        word: PacketWord<'_>,
        family: Family,
    ) -> PacketParseResult<()> {
        match &self.draft.family {
            Some((said, _)) if *said != family => {
                let help = "a packet has one family: only ip words, or only ip6 words";
                Err(word.error_at_word(format!("{} is of the other family", word.text), help))
            }
            Some(_) => Ok(()),
            None => {
                self.draft.family = Some((family, word.span()));
                Ok(())
            }
        }
    }

    fn set_consistent_protocol(
        &mut self,
        word: PacketWord<'_>,
        proto: u8,
    ) -> PacketParseResult<()> {
        match &self.draft.proto {
            Some((said, _)) if *said != proto => {
                let help = "a packet has one protocol";
                let message = format!("{} after protocol {said}", word.text);
                Err(word.error_at_word(message, help))
            }
            _ => {
                self.draft.proto = Some((proto, word.span()));
                Ok(())
            }
        }
    }

    fn parse_ip_options_length(&mut self, word: PacketWord<'t>) -> PacketParseResult<()> {
        let from = self.position;
        let bytes: u8 = self.parse_number(word, 40)?;
        if !bytes.is_multiple_of(4) {
            return Err(PacketParseError {
                message: format!("{bytes} bytes of options"),
                span: from + 1..self.position,
                help: "IPv4 options are a multiple of four bytes, up to 40".to_owned(),
            });
        }
        self.draft.ip_options_len = bytes;
        Ok(())
    }

    fn parse_ip_clause(
        &mut self,
        keyword: PacketWord<'t>,
        family: Family,
    ) -> PacketParseResult<()> {
        let words = list_ip_clause_words(family);
        let word = self.expect_word_after(keyword, &join_with_or(&words))?;
        match word.text {
            "saddr" => self.draft.saddr = Some(self.parse_address(word, keyword, family)?),
            "daddr" => self.draft.daddr = Some(self.parse_address(word, keyword, family)?),
            _ => {
                self.set_consistent_family(keyword, family)?;
                match word.text {
                    "options" if family == Family::V4 => self.parse_ip_options_length(word)?,
                    "dscp" => {
                        let value = self.parse_number::<u32>(word, 63)?;
                        self.draft.given_number_fields.push((Field::Tos, u128::from(value) << 2));
                    }
                    "length" | "protocol" | "nexthdr" => {
                        let text = if word.text == "nexthdr" { "proto" } else { word.text };
                        self.parse_clause(PacketWord { text, ..word })?;
                    }
                    "df" | "dont-fragment" => self.draft.dont_fragment = true,
                    _ if self.parse_number_field_of_layer(word, Layer::Network, family)? => {}
                    _ => {
                        let help = format!("write {} after ip", join_with_or(&words));
                        return Err(
                            word.error_at_word(format!("unknown field {}", word.text), &help)
                        );
                    }
                }
            }
        }
        Ok(())
    }

    fn parse_address(
        &mut self,
        keyword: PacketWord<'_>,
        ip: PacketWord<'_>,
        family: Family,
    ) -> PacketParseResult<Addr> {
        let word = self.expect_word_after(keyword, "an address")?;
        let addr = IpAddr::from_str(word.text).map_err(|_| {
            let help = "write an address such as 192.0.2.1 or 2001:db8::1, without prefix length";
            word.error_at_word(format!("{} is not an address", word.text), help)
        })?;
        // `ip saddr` with an IPv6 address is taken as meant.
        let found = if addr.is_ipv4() { Family::V4 } else { Family::V6 };
        if family == Family::V6 && found == Family::V4 {
            let help = "write ip before an IPv4 address";
            return Err(word.error_at_word(format!("{} is an IPv4 address", word.text), help));
        }
        self.set_consistent_family(if found == family { ip } else { word }, found)?;
        Ok(addr.into())
    }

    fn parse_tcp_clause(&mut self, keyword: PacketWord<'t>) -> PacketParseResult<()> {
        let mark = self.position;
        match self.next_word() {
            Some(word) if word.text == "flags" => {
                self.set_consistent_protocol(keyword, 6)?;
                let list = self.expect_word_after(word, "flags, as syn,ack")?;
                let mut flags = 0;
                for flag in list.text.split([',', '|']) {
                    flags |= tcp_flag_bit(flag).ok_or_else(|| {
                        let help = "use fin, syn, rst, psh, ack, urg, separated by commas, or none";
                        list.error_at_word(format!("unknown TCP flag {flag}"), help)
                    })?;
                }
                self.draft.tcp_flags = Some(flags);
                Ok(())
            }
            _ => {
                self.position = mark;
                self.parse_port_clause(keyword, 6)
            }
        }
    }

    fn parse_port_clause(&mut self, keyword: PacketWord<'t>, proto: u8) -> PacketParseResult<()> {
        self.set_consistent_protocol(keyword, proto)?;
        let mark = self.position;
        match self.next_word() {
            Some(word) if word.text == "sport" => self.draft.sport = Some(self.parse_port(word)?),
            Some(word) if word.text == "dport" => self.draft.dport = Some(self.parse_port(word)?),
            // A bare `udp` is the protocol alone.
            _ => self.position = mark,
        }
        Ok(())
    }

    fn parse_port(&mut self, keyword: PacketWord<'_>) -> PacketParseResult<u16> {
        let mark = self.position;
        if let Some(word) = self.next_word()
            && let Some(port) = builtin_service_port(word.text)
        {
            return Ok(port);
        }
        self.position = mark;
        self.parse_number(keyword, 65_535)
    }

    fn parse_icmp_clause(&mut self, keyword: PacketWord<'t>, proto: u8) -> PacketParseResult<()> {
        self.set_consistent_protocol(keyword, proto)?;
        self.set_consistent_family(keyword, if proto == 1 { Family::V4 } else { Family::V6 })?;
        let mark = self.position;
        let (mut kind, mut code) =
            self.draft.icmp_type_code.unwrap_or((if proto == 1 { 8 } else { 128 }, 0));
        match self.next_word() {
            Some(word) if word.text == "type" => {
                let mark = self.position;
                let name = self.expect_word_after(word, "a type")?;
                kind = match icmp_type_number(proto, name.text) {
                    Some(kind) => kind,
                    None => {
                        self.position = mark;
                        self.parse_number(word, 255)?
                    }
                };
            }
            Some(word) if word.text == "code" => code = self.parse_number(word, 255)?,
            _ => self.position = mark,
        }
        self.draft.icmp_type_code = Some((kind, code));
        let mark = self.position;
        match self.next_word() {
            Some(word) if word.text == "code" => {
                self.draft.icmp_type_code = Some((kind, self.parse_number(word, 255)?));
            }
            _ => self.position = mark,
        }
        Ok(())
    }

    fn parse_ether_saddr_clause(&mut self, keyword: PacketWord<'t>) -> PacketParseResult<()> {
        let word = self.expect_word_after(keyword, "saddr")?;
        if word.text != "saddr" {
            let help = "rules test only ether saddr";
            return Err(word.error_at_word(format!("unknown field {}", word.text), help));
        }
        let text = self.expect_word_after(word, "a MAC address")?;
        let parts: Vec<_> = text.text.split(':').map(|p| u8::from_str_radix(p, 16).ok()).collect();
        let mac: Option<Vec<u8>> = parts.into_iter().collect();
        self.draft.smac = Some(mac.and_then(|m| Mac::try_from(m).ok()).ok_or_else(|| {
            text.error_at_word(
                format!("{} is not a MAC address", text.text),
                "as 02:00:00:00:00:01",
            )
        })?);
        Ok(())
    }

    fn parse_ct_clause(&mut self, keyword: PacketWord<'t>) -> PacketParseResult<()> {
        let word = self.expect_word_after(keyword, "state, mark, status or direction")?;
        match word.text {
            "state" => {
                let state = self.expect_word_after(word, "a state")?;
                self.draft.has_ct_state = true;
                self.draft.ct.state = match state.text.to_ascii_lowercase().as_str() {
                    "new" => CtState::New,
                    "established" => CtState::Established,
                    "related" => CtState::Related,
                    "invalid" => CtState::Invalid,
                    "untracked" => CtState::Untracked,
                    _ => {
                        let help = "use new, established, related, invalid or untracked";
                        return Err(
                            state.error_at_word(format!("unknown state {}", state.text), help)
                        );
                    }
                };
            }
            "mark" => {
                self.draft.ct.mark = self.parse_number(word, u32::MAX.into())?;
                self.draft.has_ct_mark = true;
            }
            "status" => {
                let status = self.expect_word_after(word, "snat or dnat")?;
                match status.text {
                    "snat" => self.draft.ct.snat = true,
                    "dnat" => self.draft.ct.dnat = true,
                    _ => {
                        return Err(status.error_at_word(
                            format!("unknown status {}", status.text),
                            "snat or dnat",
                        ));
                    }
                }
            }
            "direction" => {
                let direction = self.expect_word_after(word, "original or reply")?;
                self.draft.ct.is_reply_direction = match direction.text {
                    "original" => false,
                    "reply" => true,
                    _ => {
                        let message = format!("unknown direction {}", direction.text);
                        return Err(direction.error_at_word(message, "original or reply"));
                    }
                };
            }
            _ => {
                let help = "write state, mark, status or direction after ct";
                return Err(word.error_at_word(format!("unknown field {}", word.text), help));
            }
        }
        Ok(())
    }

    fn parse_pkttype(&mut self, keyword: PacketWord<'t>) -> PacketParseResult<()> {
        let word = self.expect_word_after(keyword, "a packet type")?;
        self.draft.pkttype = Some(match word.text {
            "unicast" | "host" => PktType::Unicast,
            "broadcast" => PktType::Broadcast,
            "multicast" => PktType::Multicast,
            _ => {
                let help = "use unicast, broadcast or multicast";
                return Err(word.error_at_word(format!("unknown packet type {}", word.text), help));
            }
        });
        Ok(())
    }

    fn parse_fragment_clause(&mut self, keyword: PacketWord<'t>) -> PacketParseResult<()> {
        let word = self.expect_word_after(keyword, "offset N, or first")?;
        match word.text {
            "offset" => {
                self.draft.fragment_offset_in_8_byte_units = Some(self.parse_number(word, 8191)?)
            }
            "more" | "first" => self.draft.more_fragments = true,
            _ => {
                let help = "write fragment offset N (in units of eight bytes), fragment more, \
                            fragment first";
                return Err(word.error_at_word(format!("unknown word {}", word.text), help));
            }
        }
        Ok(())
    }
}
