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
mod names;
mod print;

use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use weir_model::field::Layer;
use weir_model::{Addr, CtState, Family, Field, FieldSet, Mac, Packet};
use weir_packet::PktType;

use self::draft::PacketDraft;
pub use self::error::LanguageError;
use self::names::{icmp_type, protocol, service, tcp_flag_of};
pub use self::print::packet_words;

/// The words a packet may begin a clause with.
const CLAUSES: &str = "iif, oif, ip, ip6, tcp, udp, sctp, dccp, icmp, icmpv6, ether, ct, mark, \
                       pkttype, fragment, truncated, length, proto";

/// Reads a packet.
///
/// # Errors
/// The first word that is not understood, with its place and what to write instead.
pub fn parse_packet(text: &str) -> Result<Packet, LanguageError> {
    parse_packet_with_fields(text).map(|(packet, _)| packet)
}

/// Reads a packet, and which of its fields the text gives; the others have the values of
/// [`Packet::new`] or those of the head of this module.
///
/// # Errors
/// As [`parse_packet`].
///
/// ```
/// use weir_model::Field;
/// use weir_syntax::packet::parse_packet_with_fields;
/// let (_, given) = parse_packet_with_fields("ip saddr 192.0.2.1 tcp dport 22").unwrap();
/// assert!(given.contains(Field::Dport) && !given.contains(Field::Daddr));
/// ```
pub fn parse_packet_with_fields(text: &str) -> Result<(Packet, FieldSet), LanguageError> {
    let mut reader = PacketReader { text, at: 0, draft: PacketDraft::default() };
    while let Some(word) = reader.next() {
        reader.clause(word)?;
    }
    let given = reader.draft.given();
    Ok((reader.draft.packet(text)?, given))
}

type Parsed<T> = Result<T, LanguageError>;

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

    fn wrong(&self, message: String, help: &str) -> LanguageError {
        LanguageError { message, span: self.span(), help: help.to_owned() }
    }
}

struct PacketReader<'t> {
    text: &'t str,
    at: usize,
    draft: PacketDraft,
}

impl<'t> PacketReader<'t> {
    fn next(&mut self) -> Option<PacketWord<'t>> {
        let rest = &self.text[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let text = self.text[start..].split_whitespace().next()?;
        self.at = start + text.len();
        Some(PacketWord { text, start })
    }

    /// The word after `of`.
    fn want(&mut self, of: PacketWord<'_>, what: &str) -> Parsed<PacketWord<'t>> {
        let end = self.text.len();
        self.next().ok_or_else(|| LanguageError {
            message: format!("{} wants {what}", of.text),
            span: end..end,
            help: format!("write {what} after {}", of.text),
        })
    }

    fn number<T: TryFrom<u64>>(&mut self, of: PacketWord<'_>, max: u64) -> Parsed<T> {
        let word = self.want(of, "a number")?;
        let parsed = match word.text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => word.text.parse().ok(),
        };
        let value = parsed.filter(|n| *n <= max).and_then(|n| T::try_from(n).ok());
        let help = format!("a number from 0 to {max}");
        let message = || format!("{} is not a number for {}", word.text, of.text);
        value.ok_or_else(|| word.wrong(message(), &help))
    }

    fn clause(&mut self, word: PacketWord<'t>) -> Parsed<()> {
        match word.text {
            "iif" | "iifname" => self.draft.iif = self.device(word)?,
            "oif" | "oifname" => self.draft.oif = self.device(word)?,
            "ip" => self.network(word, Family::V4)?,
            "ip6" => self.network(word, Family::V6)?,
            "tcp" => self.tcp(word)?,
            "udp" => self.ports(word, 17)?,
            "sctp" => self.ports(word, 132)?,
            "dccp" => self.ports(word, 33)?,
            "icmp" => self.icmp(word, 1)?,
            "icmpv6" | "icmp6" => self.icmp(word, 58)?,
            "ether" => self.ether(word)?,
            "ct" => self.ct(word)?,
            "meta" => {}
            "pkttype" => self.pkttype(word)?,
            "fragment" => self.fragment(word)?,
            "truncated" => self.draft.truncated = Some(self.number(word, 19)?),
            "length" => {
                let from = self.at;
                let length = self.number::<u32>(word, 65_535)?;
                self.draft.length = Some((length as usize, from..self.at));
            }
            "proto" | "protocol" | "l4proto" => {
                let name = self.want(word, "a protocol")?;
                let proto = protocol(name.text).ok_or_else(|| {
                    let help = "a number from 1 to 255, or tcp, udp, icmp, icmpv6, gre, esp, ah, \
                                sctp, dccp, igmp, ospf, ipip, vrrp, udplite";
                    name.wrong(format!("unknown protocol {}", name.text), help)
                })?;
                self.protocol_is(name, proto)?;
            }
            _ if self.plain(word, Layer::Meta, Family::V4)? => {}
            _ => {
                let help = format!("begin with one of: {CLAUSES}");
                return Err(word.wrong(format!("unknown word {}", word.text), &help));
            }
        }
        Ok(())
    }

    /// A plain field of the table by its name, and its value; whether there is one.
    fn plain(&mut self, word: PacketWord<'_>, layer: Layer, family: Family) -> Parsed<bool> {
        let name = if word.text == "hoplimit" { "ttl" } else { word.text };
        let mut fields = Field::plain().filter(|field| field.row().layer == layer);
        let Some(field) = fields.find(|field| field.row().name == name) else { return Ok(false) };
        let value: u64 = self.number(word, field.max(family) as u64)?;
        self.draft.plain.push((field, value.into()));
        Ok(true)
    }

    fn device(&mut self, of: PacketWord<'_>) -> Parsed<String> {
        let name = self.want(of, "a device name")?;
        let bare = name.text.trim_matches('"');
        if bare.is_empty() || bare.len() > 15 || bare.contains('/') {
            let help = "a device name has 1 to 15 bytes and no slash";
            return Err(name.wrong(format!("{} is not a device name", name.text), help));
        }
        Ok(bare.to_owned())
    }

    fn family_is(&mut self, word: PacketWord<'_>, family: Family) -> Parsed<()> {
        match &self.draft.family {
            Some((said, _)) if *said != family => {
                let help = "a packet has one family: only ip words, or only ip6 words";
                Err(word.wrong(format!("{} is of the other family", word.text), help))
            }
            Some(_) => Ok(()),
            None => {
                self.draft.family = Some((family, word.span()));
                Ok(())
            }
        }
    }

    fn protocol_is(&mut self, word: PacketWord<'_>, proto: u8) -> Parsed<()> {
        match &self.draft.proto {
            Some((said, _)) if *said != proto => {
                let help = "a packet has one protocol";
                let message = format!("{} after protocol {said}", word.text);
                Err(word.wrong(message, help))
            }
            _ => {
                self.draft.proto = Some((proto, word.span()));
                Ok(())
            }
        }
    }

    fn ip_options(&mut self, word: PacketWord<'t>) -> Parsed<()> {
        let from = self.at;
        let bytes: u8 = self.number(word, 40)?;
        if !bytes.is_multiple_of(4) {
            return Err(LanguageError {
                message: format!("{bytes} bytes of options"),
                span: from + 1..self.at,
                help: "IPv4 options are a multiple of four bytes, up to 40".to_owned(),
            });
        }
        self.draft.ip_options = bytes;
        Ok(())
    }

    fn network(&mut self, of: PacketWord<'t>, family: Family) -> Parsed<()> {
        let word = self.want(of, "saddr, daddr, ttl, tos, dscp, length or protocol")?;
        match word.text {
            "saddr" => self.draft.saddr = Some(self.address(word, of, family)?),
            "daddr" => self.draft.daddr = Some(self.address(word, of, family)?),
            _ => {
                self.family_is(of, family)?;
                match word.text {
                    "options" if family == Family::V4 => self.ip_options(word)?,
                    "dscp" => {
                        let value = self.number::<u32>(word, 63)?;
                        self.draft.plain.push((Field::Tos, u128::from(value) << 2));
                    }
                    "length" | "protocol" | "nexthdr" => {
                        let text = if word.text == "nexthdr" { "proto" } else { word.text };
                        self.clause(PacketWord { text, ..word })?;
                    }
                    "df" | "dont-fragment" => self.draft.dont = true,
                    _ if self.plain(word, Layer::Network, family)? => {}
                    _ => {
                        let help = "after ip: saddr, daddr, ttl, tos, dscp, length, protocol";
                        return Err(word.wrong(format!("unknown field {}", word.text), help));
                    }
                }
            }
        }
        Ok(())
    }

    fn address(&mut self, of: PacketWord<'_>, ip: PacketWord<'_>, family: Family) -> Parsed<Addr> {
        let word = self.want(of, "an address")?;
        let addr = IpAddr::from_str(word.text).map_err(|_| {
            let help = "an address such as 192.0.2.1 or 2001:db8::1; no prefix, no name";
            word.wrong(format!("{} is not an address", word.text), help)
        })?;
        // `ip saddr` with an IPv6 address is taken as meant.
        let found = if addr.is_ipv4() { Family::V4 } else { Family::V6 };
        if family == Family::V6 && found == Family::V4 {
            let help = "write ip before an IPv4 address";
            return Err(word.wrong(format!("{} is an IPv4 address", word.text), help));
        }
        self.family_is(if found == family { ip } else { word }, found)?;
        Ok(addr.into())
    }

    fn tcp(&mut self, of: PacketWord<'t>) -> Parsed<()> {
        let mark = self.at;
        match self.next() {
            Some(word) if word.text == "flags" => {
                self.protocol_is(of, 6)?;
                let list = self.want(word, "flags, as syn,ack")?;
                let mut flags = 0;
                for flag in list.text.split([',', '|']) {
                    flags |= tcp_flag_of(flag).ok_or_else(|| {
                        let help = "fin, syn, rst, psh, ack, urg, or none, separated by commas";
                        list.wrong(format!("unknown TCP flag {flag}"), help)
                    })?;
                }
                self.draft.flags = Some(flags);
                Ok(())
            }
            _ => {
                self.at = mark;
                self.ports(of, 6)
            }
        }
    }

    fn ports(&mut self, of: PacketWord<'t>, proto: u8) -> Parsed<()> {
        self.protocol_is(of, proto)?;
        let mark = self.at;
        match self.next() {
            Some(word) if word.text == "sport" => self.draft.sport = Some(self.port(word)?),
            Some(word) if word.text == "dport" => self.draft.dport = Some(self.port(word)?),
            // A bare `udp` is the protocol alone.
            _ => self.at = mark,
        }
        Ok(())
    }

    fn port(&mut self, of: PacketWord<'_>) -> Parsed<u16> {
        let mark = self.at;
        if let Some(word) = self.next()
            && let Some(port) = service(word.text)
        {
            return Ok(port);
        }
        self.at = mark;
        self.number(of, 65_535)
    }

    fn icmp(&mut self, of: PacketWord<'t>, proto: u8) -> Parsed<()> {
        self.protocol_is(of, proto)?;
        self.family_is(of, if proto == 1 { Family::V4 } else { Family::V6 })?;
        let mark = self.at;
        let (mut kind, mut code) = self.draft.icmp.unwrap_or((if proto == 1 { 8 } else { 128 }, 0));
        match self.next() {
            Some(word) if word.text == "type" => {
                let mark = self.at;
                let name = self.want(word, "a type")?;
                kind = match icmp_type(proto, name.text) {
                    Some(kind) => kind,
                    None => {
                        self.at = mark;
                        self.number(word, 255)?
                    }
                };
            }
            Some(word) if word.text == "code" => code = self.number(word, 255)?,
            _ => self.at = mark,
        }
        self.draft.icmp = Some((kind, code));
        let mark = self.at;
        match self.next() {
            Some(word) if word.text == "code" => {
                self.draft.icmp = Some((kind, self.number(word, 255)?));
            }
            _ => self.at = mark,
        }
        Ok(())
    }

    fn ether(&mut self, of: PacketWord<'t>) -> Parsed<()> {
        let word = self.want(of, "saddr")?;
        if word.text != "saddr" {
            let help = "rules test only ether saddr";
            return Err(word.wrong(format!("unknown field {}", word.text), help));
        }
        let text = self.want(word, "a MAC address")?;
        let parts: Vec<_> = text.text.split(':').map(|p| u8::from_str_radix(p, 16).ok()).collect();
        let mac: Option<Vec<u8>> = parts.into_iter().collect();
        self.draft.smac = Some(mac.and_then(|m| Mac::try_from(m).ok()).ok_or_else(|| {
            text.wrong(format!("{} is not a MAC address", text.text), "as 02:00:00:00:00:01")
        })?);
        Ok(())
    }

    fn ct(&mut self, of: PacketWord<'t>) -> Parsed<()> {
        let word = self.want(of, "state, mark, status or direction")?;
        match word.text {
            "state" => {
                let state = self.want(word, "a state")?;
                self.draft.ct_state = true;
                self.draft.ct.state = match state.text.to_ascii_lowercase().as_str() {
                    "new" => CtState::New,
                    "established" => CtState::Established,
                    "related" => CtState::Related,
                    "invalid" => CtState::Invalid,
                    "untracked" => CtState::Untracked,
                    _ => {
                        let help = "new, established, related, invalid or untracked";
                        return Err(state.wrong(format!("unknown state {}", state.text), help));
                    }
                };
            }
            "mark" => {
                self.draft.ct.mark = self.number(word, u32::MAX.into())?;
                self.draft.ct_mark = true;
            }
            "status" => {
                let status = self.want(word, "snat or dnat")?;
                match status.text {
                    "snat" => self.draft.ct.snat = true,
                    "dnat" => self.draft.ct.dnat = true,
                    _ => {
                        return Err(
                            status.wrong(format!("unknown status {}", status.text), "snat or dnat")
                        );
                    }
                }
            }
            "direction" => {
                let direction = self.want(word, "original or reply")?;
                self.draft.ct.reply = match direction.text {
                    "original" => false,
                    "reply" => true,
                    _ => {
                        let message = format!("unknown direction {}", direction.text);
                        return Err(direction.wrong(message, "original or reply"));
                    }
                };
            }
            _ => {
                let help = "after ct: state, mark, status, direction";
                return Err(word.wrong(format!("unknown field {}", word.text), help));
            }
        }
        Ok(())
    }

    fn pkttype(&mut self, of: PacketWord<'t>) -> Parsed<()> {
        let word = self.want(of, "a packet type")?;
        self.draft.pkttype = Some(match word.text {
            "unicast" | "host" => PktType::Unicast,
            "broadcast" => PktType::Broadcast,
            "multicast" => PktType::Multicast,
            _ => {
                let help = "unicast, broadcast or multicast";
                return Err(word.wrong(format!("unknown packet type {}", word.text), help));
            }
        });
        Ok(())
    }

    fn fragment(&mut self, of: PacketWord<'t>) -> Parsed<()> {
        let word = self.want(of, "offset N, or first")?;
        match word.text {
            "offset" => self.draft.offset = Some(self.number(word, 8191)?),
            "more" | "first" => self.draft.more = true,
            _ => {
                let help = "fragment offset N (in units of eight bytes), fragment more, \
                            fragment first";
                return Err(word.wrong(format!("unknown word {}", word.text), help));
            }
        }
        Ok(())
    }
}
