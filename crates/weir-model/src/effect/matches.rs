//! What matches read, and what else their results depend on: one row each.

use weir_packet::Family;

use super::conntrack_demand_level::ConntrackDemand;
use super::field_set::FieldSet;
use super::opaque_module_row::OpaqueModuleWithoutSharedObjects;
use crate::field::Field;
use crate::rule_match::{
    Match, OpaqueExtension, StatefulMatch, UnmodelledInputMatch, WrittenOption,
};

/// Whether evaluating a match may drop the packet immediately (`par->hotdrop`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hotdrop {
    /// It never does.
    Never,
    /// It does if fewer bytes of the transport header are there than it reads, and never for a
    /// later fragment (but for `-m tcp`, which drops an IPv4 fragment at offset 1).
    OnTruncatedHeader,
    /// It may, for reasons that no field says; then the match does not hold.
    Unpredictable,
    /// It may drop the packet, for reasons that no field models, and match at the same time: the
    /// rule counts, its target acts, and then the packet is dropped whatever the target decides
    /// (the loop in `ipt_do_table` checks `hotdrop` last). Negated `--chunk-types` and
    /// `--dccp-option`.
    MatchMayAlsoDrop,
}

/// What the answer of a match depends on besides its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchDependency {
    /// Nothing: the fields say it.
    Fields,
    /// Bytes of the packet that no field models.
    PacketBytes,
    /// The host: routes, sockets, time, the connection.
    HostState,
    /// Packets seen before: a budget or a memory.
    PacketHistory,
    /// The content of an ipset.
    IpsetContent,
}

/// One row: what a match reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchRow {
    /// Name, as in `-m tcp`.
    pub name: &'static str,
    /// Fields that it compares, or that its budget or memory hangs on. What else
    /// [`MatchDependency`] names may hang on any field.
    pub reads: FieldSet,
    /// What else its answer depends on.
    pub dependency: MatchDependency,
    /// Whether evaluating it may drop the packet.
    pub hotdrop: Hotdrop,
    /// Fields that it writes if it matches, with an unknown value.
    pub writes: FieldSet,
    /// Bytes of the transport header that it reads before it compares anything; 0 if none.
    pub header_bytes: u8,
    /// What a rule with it switches on.
    pub conntrack_demand: ConntrackDemand,
}

const fn field_match_row(name: &'static str, fields: &[Field]) -> MatchRow {
    MatchRow {
        name,
        reads: FieldSet::from_fields(fields),
        dependency: MatchDependency::Fields,
        hotdrop: Hotdrop::Never,
        writes: FieldSet::NONE,
        header_bytes: 0,
        conntrack_demand: ConntrackDemand::Nothing,
    }
}

const fn header_match_row(name: &'static str, fields: &[Field], header_bytes: u8) -> MatchRow {
    MatchRow { hotdrop: Hotdrop::OnTruncatedHeader, header_bytes, ..field_match_row(name, fields) }
}

/// A budget or a memory that hangs on these fields of the packet.
const fn stateful_match_row(name: &'static str, fields: &[Field]) -> MatchRow {
    MatchRow { dependency: MatchDependency::PacketHistory, ..field_match_row(name, fields) }
}

const fn with_tracking_demand(row: MatchRow) -> MatchRow {
    MatchRow { conntrack_demand: ConntrackDemand::Tracking, ..row }
}

const fn match_row_with_dependency(name: &'static str, depends: MatchDependency) -> MatchRow {
    MatchRow { dependency: depends, ..field_match_row(name, &[]) }
}

/// A match that has no row. It is handed a packet that it must not write (`struct xt_match`,
/// include/linux/netfilter/x_tables.h; only xt_socket.c does so all the same).
pub const UNKNOWN_MATCH_ROW: MatchRow = MatchRow {
    name: "",
    reads: FieldSet::ALL,
    dependency: MatchDependency::PacketHistory,
    hotdrop: Hotdrop::Unpredictable,
    writes: FieldSet::NONE,
    header_bytes: 0,
    conntrack_demand: ConntrackDemand::Nothing,
};

/// All matches that are known (net/netfilter/xt_*.c, net/ipv4/netfilter/ipt_*.c, ip6t_*.c).
pub const MATCH_ROWS: &[MatchRow] = {
    use Field::{
        CtMark, CtState, Daddr, Dport, IcmpTypeAndCode, Length, Mark, PktType, Proto, Saddr,
        SourceMac, Sport, TcpFlags, Tos, Ttl,
    };
    use MatchDependency::{HostState, IpsetContent, PacketBytes, PacketHistory};
    &[
        header_match_row("tcp", &[Sport, Dport, TcpFlags], 20),
        header_match_row("udp", &[Sport, Dport], 8),
        header_match_row("sctp", &[Sport, Dport], 12),
        header_match_row("dccp", &[Sport, Dport], 12),
        header_match_row("icmp", &[IcmpTypeAndCode], 8),
        header_match_row("icmp6", &[IcmpTypeAndCode], 8),
        header_match_row("multiport", &[Sport, Dport], 4),
        MatchRow { dependency: PacketBytes, ..header_match_row("esp", &[], 8) },
        MatchRow { dependency: PacketBytes, ..header_match_row("ah", &[], 12) },
        field_match_row("iprange", &[Saddr, Daddr]),
        field_match_row("mac", &[SourceMac]),
        field_match_row("mark", &[Mark]),
        with_tracking_demand(field_match_row("connmark", &[CtMark])),
        with_tracking_demand(field_match_row("state", &[CtState])),
        with_tracking_demand(MatchRow {
            dependency: HostState,
            ..field_match_row("conntrack", &[CtState])
        }),
        field_match_row("length", &[Length]),
        field_match_row("ttl", &[Ttl]),
        field_match_row("hl", &[Ttl]),
        field_match_row("dscp", &[Tos]),
        field_match_row("tos", &[Tos]),
        field_match_row("pkttype", &[PktType]),
        field_match_row("comment", &[]),
        match_row_with_dependency("set", IpsetContent),
        // xt_tcpmss.c drops a truncated header and truncated options.
        MatchRow {
            hotdrop: Hotdrop::Unpredictable,
            ..match_row_with_dependency("tcpmss", PacketBytes)
        },
        match_row_with_dependency("ecn", PacketBytes),
        match_row_with_dependency("string", PacketBytes),
        match_row_with_dependency("u32", PacketBytes),
        match_row_with_dependency("addrtype", HostState),
        match_row_with_dependency("owner", HostState),
        match_row_with_dependency("physdev", HostState),
        match_row_with_dependency("rpfilter", HostState),
        // With --restore-skmark.
        MatchRow {
            writes: FieldSet::from_fields(&[Mark]),
            conntrack_demand: ConntrackDemand::Defragmentation,
            ..match_row_with_dependency("socket", HostState)
        },
        with_tracking_demand(match_row_with_dependency("helper", HostState)),
        match_row_with_dependency("cpu", HostState),
        match_row_with_dependency("cgroup", HostState),
        match_row_with_dependency("devgroup", HostState),
        match_row_with_dependency("realm", HostState),
        match_row_with_dependency("policy", HostState),
        match_row_with_dependency("time", HostState),
        match_row_with_dependency("limit", PacketHistory),
        match_row_with_dependency("statistic", PacketHistory),
        stateful_match_row("recent", &[Saddr, Daddr, Ttl]),
        // A program may load a random number, or keep maps.
        MatchRow { reads: FieldSet::ALL, ..match_row_with_dependency("bpf", PacketHistory) },
        stateful_match_row("quota", &[Length]),
        with_tracking_demand(stateful_match_row("connbytes", &[CtState])),
        // Drops a packet whose ports it cannot read, and one that a full table has no room for: a
        // table has a greatest number of entries by default, too (xt_hashlimit.c).
        MatchRow {
            hotdrop: Hotdrop::Unpredictable,
            ..stateful_match_row("hashlimit", &[Saddr, Daddr, Proto, Sport, Dport, Length])
        },
        // Drops a packet whose ports it cannot read.
        MatchRow {
            hotdrop: Hotdrop::Unpredictable,
            conntrack_demand: ConntrackDemand::Tracking,
            ..stateful_match_row(
                "connlimit",
                &[Saddr, Daddr, Proto, Sport, Dport, IcmpTypeAndCode, CtState],
            )
        },
    ]
};

/// Matches without a row above that are known to share no objects by name. If one is measured, its
/// row moves up.
pub const OPAQUE_MATCHES_WITHOUT_SHARED_OBJECTS: &[OpaqueModuleWithoutSharedObjects] = &[
    OpaqueModuleWithoutSharedObjects::new("cluster").with_tracking(),
    OpaqueModuleWithoutSharedObjects::new("connlabel").with_tracking(),
    // Its objects are made by nfnetlink, not by rules.
    OpaqueModuleWithoutSharedObjects::new("nfacct"),
    OpaqueModuleWithoutSharedObjects::new("osf"),
    OpaqueModuleWithoutSharedObjects::new("ipcomp"),
    OpaqueModuleWithoutSharedObjects::new("ipvs"),
    OpaqueModuleWithoutSharedObjects::new("eui64"),
    OpaqueModuleWithoutSharedObjects::new("frag"),
    OpaqueModuleWithoutSharedObjects::new("mh"),
    OpaqueModuleWithoutSharedObjects::new("dst"),
    OpaqueModuleWithoutSharedObjects::new("hbh"),
    OpaqueModuleWithoutSharedObjects::new("ipv6header"),
    OpaqueModuleWithoutSharedObjects::new("rt"),
    OpaqueModuleWithoutSharedObjects::new("l2tp"),
];

impl Match {
    /// Creates a match whose options were checked and are preserved verbatim.
    ///
    /// It is opaque if the table of effects has no row for it, and also if fields or a set alone
    /// determine its result: such a match needs a variant of its own.
    pub fn from_written_options(module: &'static str, options: Vec<WrittenOption>) -> Match {
        let row = MATCH_ROWS.iter().find(|row| row.name == module);
        let typed = |options: Vec<WrittenOption>| options.into_iter().map(Into::into).collect();
        match row.map(|row| row.dependency) {
            Some(MatchDependency::PacketHistory) => {
                Match::Stateful(Box::new(StatefulMatch { module, options: typed(options) }))
            }
            Some(MatchDependency::HostState | MatchDependency::PacketBytes) => {
                let options = typed(options);
                Match::UnmodelledInput(Box::new(UnmodelledInputMatch { module, options }))
            }
            Some(MatchDependency::Fields | MatchDependency::IpsetContent) | None => {
                let opaque = OpaqueExtension::from_written_options(module, options);
                Match::Opaque(Box::new(opaque))
            }
        }
    }
}

/// Name of a match's module as `-m` spells it.
pub fn match_module_name(m: &Match, family: Family) -> &str {
    match m {
        Match::Tcp { .. } => "tcp",
        Match::Udp { .. } => "udp",
        Match::Sctp { .. } => "sctp",
        Match::Dccp { .. } => "dccp",
        Match::Icmp(_) if family == Family::V6 => "icmp6",
        Match::Icmp(_) => "icmp",
        Match::Multiport { .. } => "multiport",
        Match::IpRange { .. } => "iprange",
        Match::Mac(_) => "mac",
        Match::Mark(_) => "mark",
        Match::ConnMark(_) => "connmark",
        Match::State(_) => "state",
        Match::Conntrack(_) => "conntrack",
        Match::Length(_) => "length",
        Match::Ttl { .. } if family == Family::V6 => "hl",
        Match::Ttl { .. } => "ttl",
        Match::Dscp(_) => "dscp",
        Match::Tos(_) => "tos",
        Match::PktType(_) => "pkttype",
        Match::Set(_) => "set",
        Match::Comment(_) => "comment",
        Match::Stateful(s) => s.module,
        Match::UnmodelledInput(h) => h.module,
        Match::Opaque(o) => &o.name,
    }
}

/// What evaluating a match may do: its row, narrowed and widened by its options.
pub fn match_effects(m: &Match, family: Family) -> MatchRow {
    match_effects_from_rows(MATCH_ROWS, m, family)
}

/// The same, if these were the rows: for tests that change one of them.
pub fn match_effects_from_rows(rows: &[MatchRow], m: &Match, family: Family) -> MatchRow {
    let named =
        |name: &str| rows.iter().find(|r| r.name == name).copied().unwrap_or(UNKNOWN_MATCH_ROW);
    // A module that the model keeps as text may do anything.
    let row = match m {
        Match::Opaque(_) => UNKNOWN_MATCH_ROW,
        _ => named(match_module_name(m, family)),
    };
    // Options and chunks follow the header, and are truncated where the packet is.
    let with_bytes = |row: MatchRow, hotdrop: Option<Hotdrop>| match hotdrop {
        Some(hotdrop) => MatchRow { dependency: MatchDependency::PacketBytes, hotdrop, ..row },
        None => row,
    };
    let or_with_match = |negated: bool| match negated {
        true => Hotdrop::MatchMayAlsoDrop,
        false => Hotdrop::Unpredictable,
    };
    match m {
        Match::Tcp { option, .. } => {
            with_bytes(row, option.as_ref().map(|_| Hotdrop::Unpredictable))
        }
        Match::Sctp { chunks, .. } => {
            with_bytes(row, chunks.as_ref().map(|c| or_with_match(c.negated)))
        }
        Match::Dccp { types, option, .. } => {
            let row = with_bytes(row, option.as_ref().map(|o| or_with_match(o.negated)));
            let depends =
                if types.is_some() { MatchDependency::PacketBytes } else { row.dependency };
            MatchRow { dependency: depends, ..row }
        }
        // `-m conntrack` that compares the state alone reads no more than `-m state`.
        Match::Conntrack(c) if c.sole_state_test().is_some() => named("state"),
        // Counters that the match itself raises: the next test of the packet may find more.
        Match::Set(m) if compares_set_counters(m) => {
            MatchRow { dependency: MatchDependency::PacketHistory, reads: FieldSet::ALL, ..row }
        }
        Match::UnmodelledInput(h) => {
            // ip6t_ah.c looks for the header among the extension headers.
            let find = h.module == "ah" && family == Family::V6;
            let restores = h.options.iter().any(|o| o.name == "restore-skmark");
            MatchRow {
                hotdrop: if find { Hotdrop::Unpredictable } else { row.hotdrop },
                writes: if restores { row.writes } else { FieldSet::NONE },
                ..row
            }
        }
        _ => row,
    }
}

/// Whether a `-m set` compares the counters of the element.
pub(super) fn compares_set_counters(m: &crate::rule_match::SetMatch) -> bool {
    let words = m.options.iter().flat_map(|o| o.split_whitespace());
    words
        .map(|w| w.trim_start_matches('-'))
        .any(|w| w.starts_with("packets") || w.starts_with("bytes"))
}

impl MatchRow {
    /// Whether the match is stateful: it must be evaluated as often as before, and in the same
    /// order relative to other stateful matches.
    pub fn is_stateful(&self) -> bool {
        self.dependency == MatchDependency::PacketHistory
    }
}
