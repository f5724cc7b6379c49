//! Prints a packet in the words from which it can be parsed.

use std::fmt::Write as _;

use weir_model::field::{Layer, TCP_FLAG_NAMES, format_protocol_name_or_number};
use weir_model::{CtState, Family, Field, FieldReading, Packet};
use weir_packet::{PktType, Transport};

/// The words of a packet, for people and for `--packet`.
///
/// Default values of the language (TTL 64, no mark, length of the headers only) are omitted.
///
/// ```
/// use weir_syntax::packet::{print_packet, parse_packet};
/// let words = "iif eth0 ip saddr 198.51.100.7 ip daddr 192.0.2.1 tcp sport 0 tcp dport 22";
/// assert_eq!(print_packet(&parse_packet(words).unwrap()), words);
/// ```
pub fn print_packet(packet: &Packet) -> String {
    let p = packet;
    let ip = if p.family == Family::V4 { "ip" } else { "ip6" };
    let mut out = String::new();
    for (word, device) in [("iif", &p.iif), ("oif", &p.oif)] {
        if !device.is_empty() {
            let _ = write!(out, "{word} {device} ");
        }
    }
    let (saddr, daddr) = (p.saddr.display(p.family), p.daddr.display(p.family));
    let _ = write!(out, "{ip} saddr {saddr} {ip} daddr {daddr}");
    if p.ip_options_len != 0 {
        let _ = write!(out, " ip options {}", p.ip_options_len);
    }
    append_transport_words(&mut out, p);
    if let Some(mac) = p.smac.filter(|m| *m != [2, 0, 0, 0, 0, 1]) {
        let bytes: Vec<String> = mac.iter().map(|b| format!("{b:02x}")).collect();
        let _ = write!(out, " ether saddr {}", bytes.join(":"));
    }
    append_unusual_number_fields(&mut out, p, Layer::Network);
    match p.pkttype {
        PktType::Unicast => {}
        PktType::Broadcast => out.push_str(" pkttype broadcast"),
        PktType::Multicast => out.push_str(" pkttype multicast"),
    }
    append_unusual_number_fields(&mut out, p, Layer::Meta);
    if p.fragment.more_fragments {
        out.push_str(" fragment first");
    }
    append_ct_words(&mut out, p);
    let is_cut = p.fragment.offset != 0 || p.transport == Transport::Truncated;
    if !p.payload.is_empty() && !is_cut {
        let _ = write!(out, " length {}", p.len());
    }
    out
}

/// The plain fields of the table that have another value than usual.
fn append_unusual_number_fields(out: &mut String, p: &Packet, layer: Layer) {
    for field in Field::freely_settable_number_fields().filter(|field| field.row().layer == layer) {
        let (row, read) = (field.row(), field.read(p));
        let FieldReading::Value(value) = read else { continue };
        if row.ordinary_value_if_freely_settable == Some(value) {
            continue;
        }
        let word = match (row.field, p.family) {
            (Field::Ttl, Family::V6) => "hoplimit",
            _ => row.name,
        };
        let ip = match (layer, p.family) {
            (Layer::Network, Family::V4) => " ip",
            (Layer::Network, Family::V6) => " ip6",
            _ => "",
        };
        let _ = write!(out, "{ip} {word} {}", field.display_value(value, p.family));
    }
}

fn append_transport_words(out: &mut String, p: &Packet) {
    let ports = |out: &mut String, of: &str, sport, dport| {
        let _ = write!(out, " {of} sport {sport} {of} dport {dport}");
    };
    match &p.transport {
        Transport::Tcp { sport, dport, flags, .. } => {
            ports(out, "tcp", *sport, *dport);
            if *flags != weir_packet::tcp_flag::SYN {
                let set = TCP_FLAG_NAMES.iter().filter(|(_, bit)| flags & bit != 0);
                let names: Vec<&str> = set.map(|(name, _)| *name).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(",") };
                let _ = write!(out, " tcp flags {names}");
            }
        }
        Transport::Udp { sport, dport } if p.proto == 17 => ports(out, "udp", *sport, *dport),
        Transport::Udp { sport, dport } => {
            let _ = write!(out, " proto udplite udp sport {sport} udp dport {dport}");
        }
        Transport::Sctp { sport, dport, .. } => ports(out, "sctp", *sport, *dport),
        Transport::DccpPorts { sport, dport } => ports(out, "dccp", *sport, *dport),
        Transport::Icmp { kind, code, .. } => {
            let of = if p.proto == 1 { "icmp" } else { "icmpv6" };
            let _ = write!(out, " {of} type {kind} {of} code {code}");
        }
        Transport::NoParsedHeader | Transport::Truncated => {
            let _ = write!(out, " proto {}", format_protocol_name_or_number(p.proto));
        }
    }
    if p.fragment.offset != 0 {
        let _ = write!(out, " fragment offset {}", p.fragment.offset);
    } else if p.transport == Transport::Truncated {
        let _ = write!(out, " truncated {}", p.payload.len());
    }
}

fn append_ct_words(out: &mut String, p: &Packet) {
    let state = match p.ct.state {
        CtState::New => "",
        CtState::Established => " ct state established",
        CtState::Related => " ct state related",
        CtState::Invalid => " ct state invalid",
        CtState::Untracked => " ct state untracked",
    };
    out.push_str(state);
    for (is, words) in [
        (p.ct.snat, " ct status snat"),
        (p.ct.dnat, " ct status dnat"),
        (p.ct.is_reply_direction, " ct direction reply"),
    ] {
        if is {
            out.push_str(words);
        }
    }
    if p.ct.mark != 0 {
        let _ = write!(out, " ct mark {:#x}", p.ct.mark);
    }
}
