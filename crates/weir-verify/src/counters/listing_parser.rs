//! Parses elements from the output of `ipset save` and `nft list table`.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_kernel::xtables_counters::PacketByteCount;
use weir_model::CounterLocation;

/// Elements of the sets that have counters.
pub(crate) fn parse_ipset_counters(text: &str, out: &mut Vec<(CounterLocation, PacketByteCount)>) {
    for line in text.lines() {
        let Some((set, rest)) = line.strip_prefix("add ").and_then(|l| l.split_once(' ')) else {
            continue;
        };
        let Some((before, after)) = rest.split_once(" packets ") else { continue };
        let Some((packets, after)) = after.split_once(" bytes ") else { continue };
        let (bytes, more) = after.split_once(' ').map_or((after, ""), |(b, more)| (b, more));
        let (Ok(packets), Ok(bytes)) = (packets.parse(), bytes.parse()) else { continue };
        let element = if more.is_empty() { before.to_owned() } else { format!("{before} {more}") };
        let counter = CounterLocation::Element { set: set.to_owned(), element };
        out.push((counter, PacketByteCount { packets, bytes }));
    }
}

/// An element of a set or map, as nft prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedNftElementKey {
    /// The set.
    pub set: String,
    /// Types of the parts of its key.
    pub types: Vec<String>,
    /// The key.
    pub key: String,
}

impl ListedNftElementKey {
    /// What the kernel may hold for the key, where an interval begins: a mark is in the host's
    /// byte order, or in the network's where its map is of intervals.
    pub fn possible_kernel_keys(&self) -> Vec<Vec<u8>> {
        let parts: Vec<&str> = self.key.split(" . ").collect();
        let mut keys = Vec::new();
        for marks_swapped in [false, true] {
            let mut key = Vec::new();
            for (kind, part) in self.types.iter().zip(&parts) {
                let Some(bytes) = encode_key_part(kind, part, marks_swapped) else {
                    return Vec::new();
                };
                key.extend_from_slice(&bytes);
                if parts.len() > 1 {
                    key.resize(key.len().next_multiple_of(4), 0);
                }
            }
            keys.push(key);
        }
        keys
    }
}

/// The bytes of one part of a key; of an interval, those where it begins.
fn encode_key_part(kind: &str, text: &str, marks_swapped: bool) -> Option<Vec<u8>> {
    if kind == "ifname" {
        let mut name = text.trim_matches('"').as_bytes().to_vec();
        name.resize(16, 0);
        return Some(name);
    }
    if kind == "ether_addr" {
        let octets = text.split(':').map(|o| u8::from_str_radix(o, 16).ok());
        return octets.collect();
    }
    let first = text.split(['/', '-']).next()?;
    let number = || match first.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => first.parse().ok(),
    };
    Some(match kind {
        "ipv4_addr" => first.parse::<Ipv4Addr>().ok()?.octets().to_vec(),
        "ipv6_addr" => first.parse::<Ipv6Addr>().ok()?.octets().to_vec(),
        "inet_service" => u16::try_from(number()?).ok()?.to_be_bytes().to_vec(),
        "inet_proto" => vec![u8::try_from(number()?).ok()?],
        "mark" if marks_swapped => number()?.to_be_bytes().to_vec(),
        "mark" => number()?.to_ne_bytes().to_vec(),
        _ => return None,
    })
}

/// The elements with counters of what `nft list table` prints.
pub(crate) fn parse_counted_nft_elements(text: &str) -> Vec<ListedNftElementKey> {
    let mut out = Vec::new();
    let (mut set, mut types) = (None, Vec::new());
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) =
            parse_set_or_map_name(line, "map ").or_else(|| parse_set_or_map_name(line, "set "))
        {
            (set, types) = (Some(name), Vec::new());
        } else if line == "}" {
            set = None;
        } else if let Some(set) = set {
            if let Some(kinds) = line.strip_prefix("type ") {
                let kinds = kinds.split_once(" : ").map_or(kinds, |(key, _)| key);
                types = kinds.split(" . ").map(str::to_owned).collect();
            }
            for key in parse_counted_keys_in_line(line) {
                let (set, types) = (set.to_owned(), types.clone());
                out.push(ListedNftElementKey { set, types, key: key.to_owned() });
            }
        }
    }
    out
}

fn parse_set_or_map_name<'l>(line: &'l str, kind: &str) -> Option<&'l str> {
    line.strip_prefix(kind)?.strip_suffix(" {")
}

/// Keys of the elements of one line: `elements = { a counter packets 1 bytes 2 : jump b,`.
fn parse_counted_keys_in_line(line: &str) -> impl Iterator<Item = &str> {
    let line = line.strip_prefix("elements = {").unwrap_or(line);
    line.split(", ").filter_map(|element| {
        let (key, _) = element.trim().split_once(" counter packets ")?;
        Some(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_set_with_counters_are_read() {
        let text = "create s hash:ip family inet counters\n\
                    add s 192.0.2.1 packets 3 bytes 90\n\
                    add t 192.0.2.2\n\
                    add s 192.0.2.3 packets 4 bytes 80 comment \"x\"\n";
        let mut out = Vec::new();
        parse_ipset_counters(text, &mut out);
        assert_eq!(out.len(), 2);
        let first = CounterLocation::Element { set: "s".into(), element: "192.0.2.1".into() };
        assert_eq!(out[0], (first, PacketByteCount { packets: 3, bytes: 90 }));
    }

    #[test]
    fn elements_of_a_map_are_read_with_their_keys() {
        let text = "table ip t {\n\tmap m {\n\t\ttype ipv4_addr . inet_service : verdict\n\
                    \t\telements = { 192.0.2.0/24 . 80 counter packets 1 bytes 2 : jump a,\n\
                    \t\t\t     192.0.2.2 . 81-90 counter packets 3 bytes 4 : drop }\n\t}\n\n\
                    \tchain FORWARD {\n\t\tcounter packets 7 bytes 8 accept\n\t}\n}\n";
        let out = parse_counted_nft_elements(text);
        assert_eq!(out.len(), 2);
        assert_eq!(out[1].key, "192.0.2.2 . 81-90");
        assert_eq!(out[0].possible_kernel_keys()[0], [192, 0, 2, 0, 0, 80, 0, 0]);
        assert_eq!(out[1].possible_kernel_keys()[0], [192, 0, 2, 2, 0, 81, 0, 0]);
    }

    #[test]
    fn key_parts_are_encoded_as_in_the_kernel() {
        assert_eq!(encode_key_part("ifname", "\"eth0\"", false).unwrap()[..5], *b"eth0\0");
        assert_eq!(encode_key_part("mark", "0x00000001", true), Some(vec![0, 0, 0, 1]));
        assert_eq!(encode_key_part("ether_addr", "02:00:00:00:00:0a", false).unwrap()[5], 10);
        assert_eq!(encode_key_part("ct_state", "new", false), None);
    }
}
