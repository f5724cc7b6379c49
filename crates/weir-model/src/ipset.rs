//! ipsets.

use std::sync::Arc;

use crate::{Addr, Counters, Family, Mac, SharedName, Span};

/// A set, as `ipset save` prints it.
#[derive(Clone, Debug, PartialEq)]
pub struct IpSet {
    /// Name, at most 31 bytes.
    pub name: SharedName,
    /// `hash:ip,port`.
    pub kind: SetKind,
    /// `family inet` or `inet6`; sets without addresses have none.
    pub family: Option<Family>,
    /// The other words of its `create` line, in order.
    pub options: Vec<SetOption>,
    /// Elements in the order of the text. Rulesets that are made of one another share them.
    pub elements: Arc<Vec<Element>>,
    /// The position of its `create` line.
    pub span: Span,
    /// Comment lines before it.
    pub leading_comments: Vec<String>,
}

/// Default of `maxelem` (`IPSET_DEFAULT_MAXELEM`, net/netfilter/ipset/ip_set_hash_gen.h).
const DEFAULT_MAXELEM: usize = 65_536;

/// Most directions (`src`, `dst`) of a `--match-set` (`IPSET_DIM_MAX`).
pub const SET_DIRECTIONS_MAX: usize = 6;

impl IpSet {
    /// The most elements that the set may hold, if it is a hash.
    pub fn maxelem_or_default(&self) -> usize {
        let given = self.options.iter().find_map(|option| match option {
            SetOption::MaxElem(count) => Some(*count as usize),
            _ => None,
        });
        given.unwrap_or(DEFAULT_MAXELEM)
    }
}

/// How a set stores what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SetKind {
    /// `hash`, `bitmap` or `list`.
    pub storage: SetStorage,
    /// What an element is made of, one to three parts.
    pub data_types: Vec<SetDataType>,
}

impl SetKind {
    /// Whether elements may be exceptions (`nomatch`): hash tables of prefixes. Of other sets the
    /// kernel ignores `--return-nomatch` (`IPSET_TYPE_NOMATCH` in `ip_set_test`,
    /// net/netfilter/ipset/ip_set_core.c).
    pub fn can_hold_exceptions(&self) -> bool {
        self.storage == SetStorage::Hash && self.data_types.contains(&SetDataType::Net)
    }
}

/// Storage of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetStorage {
    /// Hash table.
    Hash,
    /// One bit or slot an element of a range.
    Bitmap,
    /// Sets in order.
    List,
}

/// One dimension of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetDataType {
    /// An address.
    Ip,
    /// A prefix.
    Net,
    /// Protocol and port (or ICMP type and code).
    Port,
    /// A MAC address.
    Mac,
    /// A packet mark.
    Mark,
    /// A device.
    Iface,
    /// Another set.
    Set,
}

/// A word (and value) of a `create` line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SetOption {
    /// `range 192.0.2.0-192.0.2.255` of a bitmap of addresses.
    AddrRange(Addr, Addr),
    /// `range 0-1023` of a bitmap of ports.
    PortRange(u16, u16),
    /// `netmask 24`.
    Netmask(u8),
    /// `hashsize 1024`.
    HashSize(u32),
    /// `bucketsize 12`.
    BucketSize(u8),
    /// `initval 0x…`.
    InitVal(u32),
    /// `maxelem 65536`.
    MaxElem(u32),
    /// `timeout 300`: the default of its elements, in seconds.
    DefaultElementTimeout(u32),
    /// `size 8` of a list.
    ListSize(u32),
    /// `markmask 0x…`.
    MarkMask(u32),
    /// `counters`.
    Counters,
    /// `comment`.
    Comment,
    /// `skbinfo`.
    SkbInfo,
    /// `forceadd`.
    ForceAdd,
}

/// One element of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// Its parts, one for each of the set's.
    pub parts: Vec<ElementPart>,
    /// `nomatch`: an exception.
    pub nomatch: bool,
    /// `timeout`.
    pub timeout: Option<u32>,
    /// `packets` and `bytes`.
    pub counters: Option<Counters>,
    /// `comment`.
    pub comment: Option<String>,
    /// `skbmark`, `skbprio`, `skbqueue` and other words, verbatim.
    pub other_words: Vec<String>,
    /// The position of its `add` line.
    pub span: Span,
    /// The original rules whose counter the element's counter is part of (weir's own sets).
    pub credited_originals: crate::original_rule_index::CreditedOriginals,
}

/// One part of an element.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementPart {
    /// Address or prefix; `len` is the family's width for a single address.
    AddrOrPrefix {
        /// Address under its prefix.
        addr: Addr,
        /// Prefix length.
        len: u8,
    },
    /// A port with its protocol (`tcp:80`), ICMP type and code in the two bytes of `port`.
    ProtoAndPort {
        /// Protocol number; `None` in a bitmap of ports.
        proto: Option<u8>,
        /// Port.
        port_or_icmp_type_and_code: u16,
    },
    /// A MAC address.
    Mac(Mac),
    /// A mark.
    Mark(u32),
    /// A device; `physdev:` before it or not.
    Iface {
        /// `physdev:`.
        physdev: bool,
        /// Name.
        name: SharedName,
    },
    /// A set of a list.
    MemberSet(SharedName),
}
