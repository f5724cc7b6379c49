//! A small typed nftables ruleset: the nft form before it becomes text.
//!
//! It represents exactly what weir writes: tables with base chains, chains, rules made of
//! statements that are evaluated from left to right, and verdict maps whose elements count. Each
//! counter lists the original rules and policies that it is part of, so that a form can be checked
//! packet by packet and its counters read back.

use crate::ruleset::{Hook, Policy, TableName};
use crate::{Effect, Family, NatTarget, OriginalRuleIndex, SharedName};

/// All tables of a form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ruleset {
    /// IPv4 tables first.
    pub tables: Vec<Table>,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// `ip` or `ip6`.
    pub family: Family,
    /// Name, e.g. `weir_filter`.
    pub name: String,
    /// The iptables table that it replaces.
    pub iptables_table: TableName,
    /// Verdict maps.
    pub maps: Vec<VerdictMap>,
    /// Chains; base chains last, so that every name is known when it is used.
    pub chains: Vec<Chain>,
}

impl Table {
    /// Names of maps with the key that they are looked up by, of every lookup.
    pub fn map_names_with_lookup_keys(
        &self,
    ) -> impl Iterator<Item = (&String, &Vec<MapKeyExpression>)> {
        let statements = self.chains.iter().flat_map(|c| &c.rules).flat_map(|r| &r.statements);
        statements.filter_map(|s| match s {
            Statement::Vmap { key, map } => Some((map, key)),
            _ => None,
        })
    }
}

/// A chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Name: a valid nft identifier that is no keyword.
    pub name: String,
    /// Where it is attached, for base chains.
    pub base: Option<BaseChain>,
    /// The iptables name, where it had to be changed.
    pub iptables_name_comment: Option<String>,
    /// Its rules.
    pub rules: Vec<Rule>,
}

/// How a base chain is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseChain {
    /// `type`.
    pub kind: ChainKind,
    /// Hook.
    pub hook: Hook,
    /// Priority, as the iptables table has it.
    pub priority: i32,
    /// Policy.
    pub policy: Policy,
}

/// Type of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainKind {
    /// `filter`.
    Filter,
    /// `nat`: sees the first packet of a connection.
    Nat,
    /// `route`: routes again when mark or header changed (mangle OUTPUT).
    Route,
}

impl ChainKind {
    /// The type of the chain that does what an iptables table does at a hook.
    pub const fn for_table_at_hook(table: TableName, hook: Hook) -> ChainKind {
        match (table, hook) {
            (TableName::Nat, _) => ChainKind::Nat,
            (TableName::Mangle, Hook::Output) => ChainKind::Route,
            _ => ChainKind::Filter,
        }
    }

    /// The word after `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChainKind::Filter => "filter",
            ChainKind::Nat => "nat",
            ChainKind::Route => "route",
        }
    }
}

/// A rule: statements, run left to right until one of them stops it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Its statements.
    pub statements: Vec<Statement>,
    /// The comment of the original rule.
    pub comment: Option<String>,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// The rule continues only if the test holds.
    Test(Test),
    /// The rule continues only if the caller says so.
    OpaqueTest(OpaqueNftTest),
    /// `counter`, and the originals it is part of.
    Counter(Vec<CreditedRuleOrPolicy>),
    /// A verdict.
    Verdict(Verdict),
    /// Looks the key up; a hit counts in the element and gives its verdict.
    Vmap {
        /// What is looked up.
        key: Vec<MapKeyExpression>,
        /// Name of the map.
        map: String,
    },
    /// Does something; the rule continues.
    Effect(Effect),
    /// Drops and answers, by iptables' word.
    Reject(&'static str),
    /// Translates; ends the chain.
    Nat(NatTarget),
}

/// An original whose counter a counter is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CreditedRuleOrPolicy {
    /// A rule of the table's family.
    Rule(OriginalRuleIndex),
    /// The policy of the iptables table that the table stands for.
    Policy(Hook),
}

/// Verdict of a rule or element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Ends the base chain; later base chains still see the packet.
    Accept,
    /// Drops.
    Drop,
    /// Back to the caller; the policy in a base chain.
    Return,
    /// Calls a chain.
    Jump(String),
    /// Goes to a chain, not to return.
    Goto(String),
    /// Goes on with the next rule.
    Continue,
}

impl Verdict {
    /// The chain that it names.
    pub fn jump_target(&self) -> Option<&str> {
        match self {
            Verdict::Jump(c) | Verdict::Goto(c) => Some(c),
            Verdict::Accept | Verdict::Drop | Verdict::Return | Verdict::Continue => None,
        }
    }
}

/// A test of one value that nft loads. Where the packet has no such value the rule stops,
/// whether the test is negated or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Test {
    /// What is loaded.
    pub expression: LoadExpression,
    /// What it is compared with.
    pub comparand: Comparand,
    /// `!=`.
    pub negated: bool,
}

/// What nft can load from a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LoadExpression {
    /// `iifname`; empty where there is none.
    Iifname,
    /// `oifname`; empty where there is none.
    Oifname,
    /// `ip saddr`.
    Saddr,
    /// `ip daddr`.
    Daddr,
    /// `meta l4proto`.
    L4proto,
    /// `ip frag-off & 0x1fff` (IPv4 only).
    Ipv4FragmentOffset,
    /// `@th,0,24`: the first three bytes of the transport header. A length that the fast path does
    /// not take, so that later fragments have none (net/netfilter/nft_payload.c).
    TransportFirstThreeBytes,
    /// `th sport`: two bytes at 0 of the transport header, fragment or not.
    Sport,
    /// `th dport`: two bytes at 2 of the transport header, fragment or not.
    Dport,
    /// `tcp flags`: the byte at 13 of the transport header.
    TcpFlags,
    /// `icmp type`: the byte at 0 of the transport header.
    IcmpType,
    /// `@th,0,16`: type and code.
    IcmpTypeCode,
    /// `ether saddr`.
    EtherSaddr,
    /// `ct state`: nft's bits.
    CtState,
    /// `ct status`: bits of `IPS_*`; nothing without an entry.
    CtStatus,
    /// `meta mark`.
    Mark,
    /// `ct mark`; nothing without an entry.
    CtMark,
    /// `meta length`. A BIG TCP packet is longer than the 65535 bytes that `-m length` can say.
    MetaLength,
    /// `ip ttl`, `ip6 hoplimit`.
    Ttl,
    /// The whole octet of type of service / traffic class.
    Tos,
    /// `meta pkttype`.
    PktType,
}

impl LoadExpression {
    /// True for what lies in the transport header: the fast path of nft_payload reads it in later
    /// fragments too (net/netfilter/nf_tables_core.c).
    pub const fn is_misread_in_later_fragment(self) -> bool {
        matches!(
            self,
            LoadExpression::Sport
                | LoadExpression::Dport
                | LoadExpression::TcpFlags
                | LoadExpression::IcmpType
                | LoadExpression::IcmpTypeCode
        )
    }

    /// The largest value of what is loaded.
    pub const fn max_value(self, family: Family) -> u128 {
        match self {
            LoadExpression::Saddr | LoadExpression::Daddr => family.max_addr(),
            LoadExpression::Sport | LoadExpression::Dport | LoadExpression::IcmpTypeCode => 0xffff,
            LoadExpression::TcpFlags
            | LoadExpression::IcmpType
            | LoadExpression::L4proto
            | LoadExpression::Ttl
            | LoadExpression::Tos => 0xff,
            LoadExpression::EtherSaddr => 0xffff_ffff_ffff,
            LoadExpression::TransportFirstThreeBytes => 0xff_ffff,
            LoadExpression::Ipv4FragmentOffset => 0x1fff,
            _ => u32::MAX as u128,
        }
    }
}

/// Names of ICMP types, as nft says them (nftables src/proto.c).
pub const NFT_ICMP_TYPE_NAMES: &[(&str, u128)] = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
    ("info-request", 15),
    ("info-reply", 16),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
];

/// Names of ICMPv6 types, as nft says them (nftables src/proto.c).
pub const NFT_ICMPV6_TYPE_NAMES: &[(&str, u128)] = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("mld-listener-query", 130),
    ("mld-listener-report", 131),
    ("mld-listener-done", 132),
    ("mld-listener-reduction", 132),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
    ("router-renumbering", 138),
    ("ind-neighbor-solicit", 141),
    ("ind-neighbor-advert", 142),
    ("mld2-listener-report", 143),
];

/// Names of route types that iptables and nft share, in the order of nft's numbers, in which it
/// prints them.
pub const ROUTE_TYPE_NAMES_SHARED_WITH_IPTABLES: [&str; 8] = [
    "unicast",
    "local",
    "broadcast",
    "anycast",
    "multicast",
    "blackhole",
    "unreachable",
    "prohibit",
];

/// Bits of `ct state` (include/uapi/linux/netfilter/nf_conntrack_common.h).
pub mod ct_state {
    /// `invalid`.
    pub const INVALID: u32 = 1;
    /// `established`.
    pub const ESTABLISHED: u32 = 2;
    /// `related`.
    pub const RELATED: u32 = 4;
    /// `new`.
    pub const NEW: u32 = 8;
    /// `untracked`.
    pub const UNTRACKED: u32 = 64;
}

/// Bits of `ct status` (`IPS_SRC_NAT`, `IPS_DST_NAT`).
pub mod ct_status {
    /// Source translated.
    pub const SNAT: u32 = 16;
    /// Destination translated.
    pub const DNAT: u32 = 32;
}

/// What a loaded value is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Comparand {
    /// One of the intervals contains it; sorted, disjoint, both ends included.
    InSpans(Vec<(u128, u128)>),
    /// `value & mask == wanted`.
    Masked {
        /// Bits that are tested.
        mask: u128,
        /// Wanted bits.
        wanted: u128,
    },
    /// `value & mask != 0`.
    AnyBit(u128),
    /// A device name, or all names that begin so.
    Device {
        /// Name, without `*`.
        name: SharedName,
        /// `name*`.
        prefix: bool,
    },
}

/// A test that no loaded value models, as nft text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpaqueNftTest {
    /// nft text of the test.
    pub text: String,
    /// The original rule.
    pub rule: OriginalRuleIndex,
    /// Which of its matches.
    pub match_index: usize,
    /// It is stateful: no second rule may have it.
    pub stateful: bool,
    /// The text says the opposite of the match.
    pub is_inverted: bool,
}

impl OpaqueNftTest {
    /// It tests the packet's conntrack entry. Without one the rule ends there, negated or not
    /// (`nft_ct_get_eval` in net/netfilter/nft_ct.c).
    #[must_use]
    pub fn needs_conntrack_entry(&self) -> bool {
        self.text.starts_with("ct ")
    }
}

/// One part of a map's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapKeyExpression {
    /// What is loaded.
    pub expression: LoadExpression,
    /// `& mask` before the lookup.
    pub mask: Option<u128>,
}

/// A verdict map whose elements count.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictMap {
    /// Name.
    pub name: String,
    /// Parts of the key.
    pub key: Vec<MapKeyExpression>,
    /// `flags interval`: elements may be spans.
    pub has_intervals: bool,
    /// Elements; no two hold the same key.
    pub elements: Vec<VerdictMapElement>,
}

/// An element of a verdict map.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictMapElement {
    /// One for each part of the key.
    pub key: Vec<ElementKeyPart>,
    /// The originals that its counter is part of.
    pub credited_originals: Vec<CreditedRuleOrPolicy>,
    /// Its verdict.
    pub verdict: Verdict,
}

/// One part of an element's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementKeyPart {
    /// Values from the first to the second, both included.
    Span(u128, u128),
    /// A device name.
    Device(SharedName),
}
