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

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use weir_model::set::{Method, Part};
use weir_model::{Element, ElementPart, Family, IpSet, Packet, SetOption};
use weir_packet::Transport;

/// The result of a set lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Not in it.
    Out,
    /// In it, by the element of that index in the set of that index.
    In { set: usize, element: u32 },
    /// Under an exception.
    Except { set: usize, element: u32 },
    /// The packet does not say (destination MAC).
    Unknown,
}

type ElementKeyBits = [u128; 3];

/// A set, prepared for lookups.
#[derive(Debug)]
pub(crate) struct SetIndex<'f> {
    pub set: &'f IpSet,
    /// Combinations of prefix lengths, in the order the kernel tries them.
    lens: Vec<[u8; 3]>,
    /// First element under a key; further ones (other devices) in `next`.
    first: HashMap<(usize, ElementKeyBits), u32, BuildHasherDefault<Mixer>>,
    next: Vec<u32>,
    /// Members of a list, by their index; `None` for a set that is not known.
    members: Vec<Option<usize>>,
    netmask: Option<u8>,
    markmask: u32,
    pub counters: bool,
}

const NONE: u32 = u32::MAX;

impl<'f> SetIndex<'f> {
    /// Whether it is a list of sets.
    pub fn is_list(&self) -> bool {
        self.set.kind.method == Method::List
    }

    /// Indexes a set; `set_at` finds the members of a list.
    pub fn new(set: &'f IpSet, set_at: &HashMap<&str, usize>) -> Self {
        let mut index = SetIndex {
            set,
            lens: Vec::new(),
            first: HashMap::default(),
            next: vec![NONE; set.elements.len()],
            members: Vec::new(),
            netmask: None,
            markmask: u32::MAX,
            counters: set.options.contains(&SetOption::Counters),
        };
        for option in &set.options {
            match option {
                SetOption::Netmask(len) => index.netmask = Some(*len),
                SetOption::MarkMask(mask) => index.markmask = *mask,
                _ => {}
            }
        }
        if set.kind.method == Method::List {
            let name = |e: &Element| match &e.parts[..] {
                [ElementPart::Set(name)] => set_at.get(&**name).copied(),
                _ => None,
            };
            index.members = set.elements.iter().map(name).collect();
            return index;
        }
        index.lens = set.elements.iter().map(|e| lens_of(&e.parts)).collect();
        index.lens.sort_unstable_by(|a, b| b.cmp(a));
        index.lens.dedup();
        let at: HashMap<[u8; 3], usize> =
            index.lens.iter().enumerate().map(|(i, l)| (*l, i)).collect();
        // Later elements first, so that a chain of equal keys is in the order of the text.
        for (i, element) in set.elements.iter().enumerate().rev() {
            let key = (at[&lens_of(&element.parts)], key_of(&element.parts));
            let slot = index.first.entry(key).or_insert(NONE);
            index.next[i] = std::mem::replace(slot, i as u32);
        }
        index
    }

    fn family_fits(&self, packet: &Packet) -> bool {
        self.set.family.is_none_or(|f| f == packet.family)
    }
}

/// Asks set `at`. `dirs`: true is source, as in the rule.
pub(crate) fn membership(
    sets: &[SetIndex<'_>],
    at: usize,
    packet: &Packet,
    dirs: &[bool],
) -> Membership {
    let index = &sets[at];
    if dirs.len() < index.set.kind.parts.len() || !index.family_fits(packet) {
        return Membership::Out;
    }
    if index.set.kind.method != Method::List {
        return index.lookup(at, packet, dirs);
    }
    let mut unknown = false;
    for member in &index.members {
        match member.map(|m| membership(sets, m, packet, dirs)) {
            Some(found @ Membership::In { .. }) => return found,
            Some(Membership::Out | Membership::Except { .. }) => {}
            Some(Membership::Unknown) | None => unknown = true,
        }
    }
    if unknown { Membership::Unknown } else { Membership::Out }
}

/// What a packet has in one part.
enum PartRead {
    Value(u128),
    Absent,
    Unknown,
}

impl SetIndex<'_> {
    fn lookup(&self, at: usize, packet: &Packet, dirs: &[bool]) -> Membership {
        let mut parts = [0u128; 3];
        for (i, part) in self.set.kind.parts.iter().enumerate() {
            match self.read(*part, packet, dirs[i]) {
                PartRead::Value(v) => parts[i] = v,
                PartRead::Absent => return Membership::Out,
                PartRead::Unknown => return Membership::Unknown,
            }
        }
        for (i, lens) in self.lens.iter().enumerate() {
            let mut key = parts;
            for (value, (part, len)) in key.iter_mut().zip(self.set.kind.parts.iter().zip(lens)) {
                if matches!(part, Part::Ip | Part::Net) {
                    *value &= packet.family.mask((*len).into());
                }
            }
            let mut element = self.first.get(&(i, key)).copied().unwrap_or(NONE);
            while element != NONE {
                let found = &self.set.elements[element as usize];
                if self.device_fits(found, packet, dirs) {
                    return match found.nomatch {
                        true => Membership::Except { set: at, element },
                        false => Membership::In { set: at, element },
                    };
                }
                element = self.next[element as usize];
            }
        }
        Membership::Out
    }

    fn read(&self, part: Part, packet: &Packet, src: bool) -> PartRead {
        match part {
            Part::Ip | Part::Net => {
                let addr = if src { packet.saddr.0 } else { packet.daddr.0 };
                let len = self.netmask.map_or(128, u32::from);
                let addr = addr & packet.family.mask(len);
                // hash_ip4_kadt in ip_set_hash_ip.c: the zero address is not an element.
                let lone_hash =
                    self.set.kind.method == Method::Hash && self.set.kind.parts[..] == [Part::Ip];
                if addr == 0 && lone_hash { PartRead::Absent } else { PartRead::Value(addr) }
            }
            Part::Port => self.read_port(packet, src),
            Part::Mac => match (src, packet.smac) {
                (_, None) => PartRead::Absent,
                (true, Some(mac)) => {
                    PartRead::Value(mac.iter().fold(0, |n, b| n << 8 | u128::from(*b)))
                }
                (false, Some(_)) => PartRead::Unknown,
            },
            Part::Mark => PartRead::Value((packet.mark & self.markmask).into()),
            Part::Iface => {
                let device = if src { &packet.iif } else { &packet.oif };
                if device.is_empty() { PartRead::Absent } else { PartRead::Value(0) }
            }
            Part::Set => PartRead::Unknown,
        }
    }

    /// Protocol and port as one number (ip_set_getport.c, `get_port`).
    fn read_port(&self, packet: &Packet, src: bool) -> PartRead {
        let later = packet.fragment.offset != 0;
        let known = matches!(packet.proto, 1 | 6 | 17 | 132 | 136);
        if later && (known || packet.family == Family::V6) {
            return PartRead::Absent;
        }
        let port = match (&packet.transport, packet.ports()) {
            (Transport::Truncated, _) if known || packet.proto == 58 => return PartRead::Absent,
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
        match self.set.kind.method {
            // bitmap:port knows TCP and UDP, and which of the two does not matter.
            Method::Bitmap if !matches!(packet.proto, 6 | 17) => PartRead::Absent,
            Method::Bitmap => PartRead::Value(port.into()),
            _ => PartRead::Value(u128::from(packet.proto) << 16 | u128::from(port)),
        }
    }

    /// Whether the element's device is the packet's (ip_set_hash_netiface.c). Elements of bridge
    /// ports (`physdev:`) never hold a routed packet.
    fn device_fits(&self, element: &Element, packet: &Packet, dirs: &[bool]) -> bool {
        let wildcard = element.rest.iter().any(|w| w == "wildcard");
        element.parts.iter().zip(dirs).all(|(part, src)| {
            let ElementPart::Iface { physdev, name } = part else { return true };
            let device = if *src { &packet.iif } else { &packet.oif };
            !physdev && if wildcard { device.starts_with(&**name) } else { **device == **name }
        })
    }
}

fn lens_of(parts: &[ElementPart]) -> [u8; 3] {
    let mut lens = [0; 3];
    for (len, part) in lens.iter_mut().zip(parts) {
        if let ElementPart::Net { len: l, .. } = part {
            *len = *l;
        }
    }
    lens
}

fn key_of(parts: &[ElementPart]) -> ElementKeyBits {
    let mut key = [0; 3];
    for (value, part) in key.iter_mut().zip(parts) {
        *value = match part {
            ElementPart::Net { addr, .. } => addr.0,
            ElementPart::Port { proto, port } => {
                u128::from(proto.unwrap_or(0)) << 16 | u128::from(*port)
            }
            ElementPart::Mac(mac) => mac.iter().fold(0, |n, b| n << 8 | u128::from(*b)),
            ElementPart::Mark(mark) => (*mark).into(),
            ElementPart::Iface { .. } | ElementPart::Set(_) => 0,
        };
    }
    key
}

/// A multiplicative hash: keys are addresses and ports, and there is no attacker.
#[derive(Debug, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64);
        self.write_u64((n >> 64) as u64);
    }
}
