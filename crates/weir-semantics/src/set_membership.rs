//! Membership in ipsets.
//!
//! A set is one hash table keyed by its parts under their prefix lengths, plus the list of the
//! combinations of lengths that occur, longest first: the kernel tries them in that order and the
//! first entry decides, be it an element or an exception (`nomatch`)
//! (net/netfilter/ipset/ip_set_hash_gen.h, `mtype_test_cidrs`).
//!
//! A set that cannot read a part (the port of a later fragment, the MAC of a local packet) does not
//! contain the packet; unlike for a port test, the negated match is then true (xt_set.c,
//! `match_set`).

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_model::index_hash_table::{IndexHashTable, MultiplicativeHasher, hash_for_index_table};
use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::{Element, ElementPart, Family, IpSet, Packet, SetOption};
use weir_packet::Transport;

/// The result of a set lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetMembership {
    /// Not in it.
    NotMember,
    /// In it, by the element of that index in the set of that index.
    Member { set: usize, element: u32 },
    /// Under an exception.
    NomatchElement { set: usize, element: u32 },
    /// The packet does not say (destination MAC).
    Unknown,
}

/// What the kernel looks an element up by: devices are compared afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ElementKey {
    prefix_lens: [u8; 3],
    values: [u128; 3],
}

impl ElementKey {
    fn from_parts(parts: &[ElementPart]) -> ElementKey {
        ElementKey {
            prefix_lens: element_prefix_lens(parts),
            values: read_element_key_part_values(parts),
        }
    }
}

fn key_of_set_element(set: &IpSet, index: u32) -> ElementKey {
    ElementKey::from_parts(&set.elements[index as usize].parts)
}

/// A set, prepared for lookups.
#[derive(Debug)]
pub(crate) struct IpsetIndex<'f> {
    pub set: &'f IpSet,
    /// Built when lookups pay for it.
    element_index: OnceLock<ElementIndex>,
    scan_count: AtomicU32,
    /// Members of a list, by their index; `None` for a set that is not known.
    list_members: Vec<Option<usize>>,
    netmask: Option<u8>,
    markmask: u32,
    pub has_counters: bool,
}

/// The hash table of a set.
#[derive(Debug)]
struct ElementIndex {
    /// Combinations of prefix lengths, in the order the kernel tries them.
    prefix_len_combinations: Vec<[u8; 3]>,
    /// First element under a key; further ones (other devices) in `next`.
    first_element_by_key: IndexHashTable,
    next_with_same_key: Vec<u32>,
}

/// Lookups without an index, which costs about as much as they do. Most interpreters judge many
/// packets; some confirm a single one.
const SCANS_BEFORE_INDEX: u32 = 8;

const NO_ELEMENT: u32 = u32::MAX;

impl<'f> IpsetIndex<'f> {
    /// Whether it is a list of sets.
    pub fn is_list(&self) -> bool {
        self.set.kind.storage == SetStorage::List
    }

    /// Indexes a set; `set_at` finds the members of a list.
    pub fn new(set: &'f IpSet, set_at: &HashMap<&str, usize>) -> Self {
        let mut index = IpsetIndex {
            set,
            element_index: OnceLock::new(),
            scan_count: AtomicU32::new(0),
            list_members: Vec::new(),
            netmask: None,
            markmask: u32::MAX,
            has_counters: set.options.contains(&SetOption::Counters),
        };
        for option in &set.options {
            match option {
                SetOption::Netmask(len) => index.netmask = Some(*len),
                SetOption::MarkMask(mask) => index.markmask = *mask,
                _ => {}
            }
        }
        if set.kind.storage == SetStorage::List {
            let name = |e: &Element| match &e.parts[..] {
                [ElementPart::MemberSet(name)] => set_at.get(&**name).copied(),
                _ => None,
            };
            index.list_members = set.elements.iter().map(name).collect();
        }
        index
    }

    fn matches_family(&self, packet: &Packet) -> bool {
        self.set.family.is_none_or(|f| f == packet.family)
    }
}

impl ElementIndex {
    fn new(set: &IpSet) -> ElementIndex {
        let combinations: HashSet<[u8; 3], BuildHasherDefault<MultiplicativeHasher>> =
            set.elements.iter().map(|e| element_prefix_lens(&e.parts)).collect();
        let mut prefix_len_combinations: Vec<[u8; 3]> = combinations.into_iter().collect();
        prefix_len_combinations.sort_unstable_by(|a, b| b.cmp(a));
        let mut first_element_by_key = IndexHashTable::with_capacity(set.elements.len());
        let mut next_with_same_key = vec![NO_ELEMENT; set.elements.len()];
        // Later elements first, so that a chain of equal keys is in the order of the text.
        for (i, element) in set.elements.iter().enumerate().rev() {
            let key = ElementKey::from_parts(&element.parts);
            let next = first_element_by_key.insert_or_replace(
                i as u32,
                |other| hash_for_index_table(&key_of_set_element(set, other)),
                |other| key_of_set_element(set, other) == key,
            );
            next_with_same_key[i] = next.unwrap_or(NO_ELEMENT);
        }
        ElementIndex { prefix_len_combinations, first_element_by_key, next_with_same_key }
    }
}

/// Asks set `at`. `dirs`: true is source, as in the rule.
pub(crate) fn test_membership(
    sets: &[IpsetIndex<'_>],
    at: usize,
    packet: &Packet,
    dirs: &[bool],
) -> SetMembership {
    let index = &sets[at];
    if dirs.len() < index.set.kind.data_types.len() || !index.matches_family(packet) {
        return SetMembership::NotMember;
    }
    if index.set.kind.storage != SetStorage::List {
        return index.lookup_packet(at, packet, dirs);
    }
    let mut unknown = false;
    for member in &index.list_members {
        match member.map(|m| test_membership(sets, m, packet, dirs)) {
            Some(found @ SetMembership::Member { .. }) => return found,
            Some(SetMembership::NotMember | SetMembership::NomatchElement { .. }) => {}
            Some(SetMembership::Unknown) | None => unknown = true,
        }
    }
    if unknown { SetMembership::Unknown } else { SetMembership::NotMember }
}

/// What a packet has in one part.
enum SetKeyPartValue {
    Value(u128),
    Absent,
    Unknown,
}

impl IpsetIndex<'_> {
    fn lookup_packet(&self, at: usize, packet: &Packet, dirs: &[bool]) -> SetMembership {
        let mut parts = [0u128; 3];
        for (i, part) in self.set.kind.data_types.iter().enumerate() {
            match self.read_key_part(*part, packet, dirs[i]) {
                SetKeyPartValue::Value(v) => parts[i] = v,
                SetKeyPartValue::Absent => return SetMembership::NotMember,
                SetKeyPartValue::Unknown => return SetMembership::Unknown,
            }
        }
        let is_indexed = self.element_index.get().is_some()
            || self.scan_count.fetch_add(1, Ordering::Relaxed) >= SCANS_BEFORE_INDEX;
        let element = match is_indexed {
            true => self.find_by_index(parts, packet, dirs),
            false => self.find_by_scan(parts, packet, dirs),
        };
        match element {
            None => SetMembership::NotMember,
            Some(element) if self.set.elements[element as usize].nomatch => {
                SetMembership::NomatchElement { set: at, element }
            }
            Some(element) => SetMembership::Member { set: at, element },
        }
    }

    /// The first element that matches, of those with the longest prefixes.
    fn find_by_index(&self, parts: [u128; 3], packet: &Packet, dirs: &[bool]) -> Option<u32> {
        let index = self.element_index.get_or_init(|| ElementIndex::new(self.set));
        for lens in &index.prefix_len_combinations {
            let key = self.mask_key_parts(parts, *lens, packet.family);
            let found = index.first_element_by_key.find(hash_for_index_table(&key), |other| {
                key_of_set_element(self.set, other) == key
            });
            let mut element = found.unwrap_or(NO_ELEMENT);
            while element != NO_ELEMENT {
                if self.matches_device(&self.set.elements[element as usize], packet, dirs) {
                    return Some(element);
                }
                element = index.next_with_same_key[element as usize];
            }
        }
        None
    }

    /// The same without the index.
    fn find_by_scan(&self, parts: [u128; 3], packet: &Packet, dirs: &[bool]) -> Option<u32> {
        let mut best: Option<([u8; 3], u32)> = None;
        for (element, i) in self.set.elements.iter().zip(0..) {
            let key = ElementKey::from_parts(&element.parts);
            if best.is_none_or(|(lens, _)| key.prefix_lens > lens)
                && self.mask_key_parts(parts, key.prefix_lens, packet.family) == key
                && self.matches_device(element, packet, dirs)
            {
                best = Some((key.prefix_lens, i));
            }
        }
        best.map(|(_, i)| i)
    }

    /// What elements of these prefix lengths have if the packet is in them.
    fn mask_key_parts(
        &self,
        mut values: [u128; 3],
        prefix_lens: [u8; 3],
        family: Family,
    ) -> ElementKey {
        let kinds = self.set.kind.data_types.iter();
        for (value, (part, len)) in values.iter_mut().zip(kinds.zip(prefix_lens)) {
            if matches!(part, SetDataType::Ip | SetDataType::Net) {
                *value &= family.netmask(len.into());
            }
        }
        ElementKey { prefix_lens, values }
    }

    fn read_key_part(&self, part: SetDataType, packet: &Packet, src: bool) -> SetKeyPartValue {
        match part {
            SetDataType::Ip | SetDataType::Net => {
                let addr = if src { packet.saddr.0 } else { packet.daddr.0 };
                let len = self.netmask.map_or(128, u32::from);
                let addr = addr & packet.family.netmask(len);
                // hash_ip4_kadt in ip_set_hash_ip.c: the zero address is not an element.
                let lone_hash = self.set.kind.storage == SetStorage::Hash
                    && self.set.kind.data_types[..] == [SetDataType::Ip];
                if addr == 0 && lone_hash {
                    SetKeyPartValue::Absent
                } else {
                    SetKeyPartValue::Value(addr)
                }
            }
            SetDataType::Port => self.read_proto_and_port(packet, src),
            SetDataType::Mac => match (src, packet.smac) {
                (_, None) => SetKeyPartValue::Absent,
                (true, Some(mac)) => {
                    SetKeyPartValue::Value(mac.iter().fold(0, |n, b| n << 8 | u128::from(*b)))
                }
                (false, Some(_)) => SetKeyPartValue::Unknown,
            },
            SetDataType::Mark => SetKeyPartValue::Value((packet.mark & self.markmask).into()),
            SetDataType::Iface => {
                let device = if src { &packet.iif } else { &packet.oif };
                if device.is_empty() { SetKeyPartValue::Absent } else { SetKeyPartValue::Value(0) }
            }
            SetDataType::Set => SetKeyPartValue::Unknown,
        }
    }

    /// Protocol and port as one number (ip_set_getport.c, `get_port`).
    fn read_proto_and_port(&self, packet: &Packet, src: bool) -> SetKeyPartValue {
        let later = packet.fragment.offset != 0;
        let known = matches!(packet.proto, 1 | 6 | 17 | 132 | 136);
        if later && (known || packet.family == Family::V6) {
            return SetKeyPartValue::Absent;
        }
        let port = match (&packet.transport, packet.ports()) {
            (Transport::Truncated, _) if known || packet.proto == 58 => {
                return SetKeyPartValue::Absent;
            }
            (Transport::Icmp { kind, code, .. }, _) => u16::from_be_bytes([*kind, *code]),
            (_, Some((sport, dport))) if known => {
                if src {
                    sport
                } else {
                    dport
                }
            }
            _ => 0,
        };
        match self.set.kind.storage {
            // bitmap:port knows TCP and UDP, and which of the two does not matter.
            SetStorage::Bitmap if !matches!(packet.proto, 6 | 17) => SetKeyPartValue::Absent,
            SetStorage::Bitmap => SetKeyPartValue::Value(port.into()),
            _ => SetKeyPartValue::Value(u128::from(packet.proto) << 16 | u128::from(port)),
        }
    }

    /// Whether the element's device is the packet's (ip_set_hash_netiface.c). Elements of bridge
    /// ports (`physdev:`) never hold a routed packet.
    fn matches_device(&self, element: &Element, packet: &Packet, dirs: &[bool]) -> bool {
        let wildcard = element.other_words.iter().any(|w| w == "wildcard");
        element.parts.iter().zip(dirs).all(|(part, src)| {
            let ElementPart::Iface { physdev, name } = part else { return true };
            let device = if *src { &packet.iif } else { &packet.oif };
            !physdev && if wildcard { device.starts_with(&**name) } else { **device == **name }
        })
    }
}

fn element_prefix_lens(parts: &[ElementPart]) -> [u8; 3] {
    let mut lens = [0; 3];
    for (len, part) in lens.iter_mut().zip(parts) {
        if let ElementPart::AddrOrPrefix { len: l, .. } = part {
            *len = *l;
        }
    }
    lens
}

fn read_element_key_part_values(parts: &[ElementPart]) -> [u128; 3] {
    let mut key = [0; 3];
    for (value, part) in key.iter_mut().zip(parts) {
        *value = match part {
            ElementPart::AddrOrPrefix { addr, .. } => addr.0,
            ElementPart::ProtoAndPort { proto, port_or_icmp_type_and_code: port } => {
                u128::from(proto.unwrap_or(0)) << 16 | u128::from(*port)
            }
            ElementPart::Mac(mac) => mac.iter().fold(0, |n, b| n << 8 | u128::from(*b)),
            ElementPart::Mark(mark) => (*mark).into(),
            ElementPart::Iface { .. } | ElementPart::MemberSet(_) => 0,
        };
    }
    key
}

#[cfg(test)]
mod tests {
    use weir_model::Addr;

    use super::*;

    #[test]
    fn a_scan_finds_the_element_that_the_index_finds() {
        let text = "create s hash:net,iface family inet\n\
                    add s 10.0.0.0/8,eth0\nadd s 10.1.0.0/16,eth1\nadd s 10.1.0.0/16,eth0 nomatch\n\
                    add s 10.1.2.0/24,eth wildcard\nadd s 10.1.2.0/24,eth1 nomatch\n";
        let sets = weir_syntax::ipset::parse(text).expect("a set");
        let index = IpsetIndex::new(&sets[0], &HashMap::new());
        let mut found = Vec::new();
        for addr in [0x0a01_0203, 0x0a01_0300, 0x0a02_0000, 0x0b00_0000_u128] {
            for device in ["eth0", "eth1", "lo"] {
                let mut packet = Packet::new(Family::V4, Addr(addr), Addr(1), 6);
                packet.iif = device.to_owned();
                let parts = [addr, 0, 0];
                let scanned = index.find_by_scan(parts, &packet, &[true, true]);
                assert_eq!(index.find_by_index(parts, &packet, &[true, true]), scanned);
                found.push(scanned);
            }
        }
        let want = [3, 3, u32::MAX, 2, 1, u32::MAX, 0].map(|i| Some(i).filter(|i| *i != u32::MAX));
        assert_eq!(found[..7], want);
        assert!(found[7..].iter().all(Option::is_none));
    }
}
