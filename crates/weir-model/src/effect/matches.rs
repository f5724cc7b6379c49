//! What matches read, and what else their results depend on: one row each.

use weir_packet::Family;

use super::conntrack::Conntrack;
use super::field_set::FieldSet;
use crate::field::Field;
use crate::matching::Match;

/// Whether evaluating a match may drop the packet immediately (`par->hotdrop`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hotdrop {
    /// It never does.
    Never,
    /// It does if fewer bytes of the transport header are there than it reads, and never for a
    /// later fragment (but for `-m tcp`, which drops an IPv4 fragment at offset 1).
    CutHeader,
    /// It may, for reasons that no field says; then the match does not hold.
    Perhaps,
    /// It may drop the packet, for reasons that no field models, and match at the same time: the
    /// rule counts, its target acts, and then the packet is dropped whatever the target decides
    /// (the loop in `ipt_do_table` checks `hotdrop` last). Negated `--chunk-types` and
    /// `--dccp-option`.
    WithMatch,
}

/// What the answer of a match depends on besides its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Depends {
    /// Nothing: the fields say it.
    Fields,
    /// Bytes of the packet that no field models.
    Bytes,
    /// The host: routes, sockets, time, the connection.
    Host,
    /// Packets seen before: a budget or a memory.
    History,
    /// The content of an ipset.
    Set,
}

/// One row: what a match reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchRow {
    /// Name, as in `-m tcp`.
    pub name: &'static str,
    /// Fields that it compares, or that its budget or memory hangs on. What else [`Depends`] names
    /// may hang on any field.
    pub reads: FieldSet,
    /// What else its answer depends on.
    pub depends: Depends,
    /// Whether evaluating it may drop the packet.
    pub hotdrop: Hotdrop,
    /// Fields that it writes if it matches, with an unknown value.
    pub writes: FieldSet,
    /// Bytes of the transport header that it reads before it compares anything; 0 if none.
    pub header_bytes: u8,
    /// What a rule with it switches on.
    pub conntrack: Conntrack,
}

const fn reads(name: &'static str, fields: &[Field]) -> MatchRow {
    MatchRow {
        name,
        reads: FieldSet::of(fields),
        depends: Depends::Fields,
        hotdrop: Hotdrop::Never,
        writes: FieldSet::NONE,
        header_bytes: 0,
        conntrack: Conntrack::No,
    }
}

const fn header(name: &'static str, fields: &[Field], header_bytes: u8) -> MatchRow {
    MatchRow { hotdrop: Hotdrop::CutHeader, header_bytes, ..reads(name, fields) }
}

/// A budget or a memory that hangs on these fields of the packet.
const fn remembers(name: &'static str, fields: &[Field]) -> MatchRow {
    MatchRow { depends: Depends::History, ..reads(name, fields) }
}

const fn tracks(row: MatchRow) -> MatchRow {
    MatchRow { conntrack: Conntrack::Tracks, ..row }
}

const fn asks(name: &'static str, depends: Depends) -> MatchRow {
    MatchRow { depends, ..reads(name, &[]) }
}

/// A match that has no row. It is handed a packet that it must not write (`struct xt_match`,
/// include/linux/netfilter/x_tables.h; only xt_socket.c does so all the same).
pub const UNKNOWN_MATCH: MatchRow = MatchRow {
    name: "",
    reads: FieldSet::ALL,
    depends: Depends::History,
    hotdrop: Hotdrop::Perhaps,
    writes: FieldSet::NONE,
    header_bytes: 0,
    conntrack: Conntrack::No,
};

/// All matches that are known (net/netfilter/xt_*.c, net/ipv4/netfilter/ipt_*.c, ip6t_*.c).
pub const MATCHES: [MatchRow; 47] = {
    use Depends::{Bytes, History, Host, Set};
    use Field::{
        CtMark, CtState, Daddr, Dport, Icmp, Length, Mark, PktType, Proto, Saddr, SourceMac, Sport,
        TcpFlags, Tos, Ttl,
    };
    [
        header("tcp", &[Sport, Dport, TcpFlags], 20),
        header("udp", &[Sport, Dport], 8),
        header("sctp", &[Sport, Dport], 12),
        header("dccp", &[Sport, Dport], 12),
        header("icmp", &[Icmp], 8),
        header("icmp6", &[Icmp], 8),
        header("multiport", &[Sport, Dport], 4),
        MatchRow { depends: Bytes, ..header("esp", &[], 8) },
        MatchRow { depends: Bytes, ..header("ah", &[], 12) },
        reads("iprange", &[Saddr, Daddr]),
        reads("mac", &[SourceMac]),
        reads("mark", &[Mark]),
        tracks(reads("connmark", &[CtMark])),
        tracks(reads("state", &[CtState])),
        tracks(MatchRow { depends: Host, ..reads("conntrack", &[CtState]) }),
        reads("length", &[Length]),
        reads("ttl", &[Ttl]),
        reads("hl", &[Ttl]),
        reads("dscp", &[Tos]),
        reads("tos", &[Tos]),
        reads("pkttype", &[PktType]),
        reads("comment", &[]),
        asks("set", Set),
        // xt_tcpmss.c drops a header or options that are cut.
        MatchRow { hotdrop: Hotdrop::Perhaps, ..asks("tcpmss", Bytes) },
        asks("ecn", Bytes),
        asks("string", Bytes),
        asks("u32", Bytes),
        asks("addrtype", Host),
        asks("owner", Host),
        asks("physdev", Host),
        asks("rpfilter", Host),
        // With --restore-skmark.
        MatchRow {
            writes: FieldSet::of(&[Mark]),
            conntrack: Conntrack::Defragments,
            ..asks("socket", Host)
        },
        tracks(asks("helper", Host)),
        asks("cpu", Host),
        asks("cgroup", Host),
        asks("devgroup", Host),
        asks("realm", Host),
        asks("policy", Host),
        asks("time", Host),
        asks("limit", History),
        asks("statistic", History),
        remembers("recent", &[Saddr, Daddr, Ttl]),
        // A program may load a random number, or keep maps.
        MatchRow { reads: FieldSet::ALL, ..asks("bpf", History) },
        remembers("quota", &[Length]),
        tracks(remembers("connbytes", &[CtState])),
        // Drops a packet whose ports it cannot read, and one that a full table has no room for: a
        // table has a greatest number of entries by default, too (xt_hashlimit.c).
        MatchRow {
            hotdrop: Hotdrop::Perhaps,
            ..remembers("hashlimit", &[Saddr, Daddr, Proto, Sport, Dport, Length])
        },
        // Drops a packet whose ports it cannot read.
        MatchRow {
            hotdrop: Hotdrop::Perhaps,
            conntrack: Conntrack::Tracks,
            ..remembers("connlimit", &[Saddr, Daddr, Proto, Sport, Dport, Icmp, CtState])
        },
    ]
};

/// Name of a match's module as `-m` spells it.
pub fn match_module_of(m: &Match, family: Family) -> &str {
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
        Match::Host(h) => h.module,
        Match::Opaque(o) => &o.name,
    }
}

/// What evaluating a match may do: its row, narrowed and widened by its options.
pub fn match_effects(m: &Match, family: Family) -> MatchRow {
    match_effects_in(&MATCHES, m, family)
}

/// The same, if these were the rows: for tests that change one of them.
pub fn match_effects_in(rows: &[MatchRow], m: &Match, family: Family) -> MatchRow {
    let named = |name: &str| rows.iter().find(|r| r.name == name).copied().unwrap_or(UNKNOWN_MATCH);
    // A module that the model keeps as text may do anything.
    let row = match m {
        Match::Opaque(_) => UNKNOWN_MATCH,
        _ => named(match_module_of(m, family)),
    };
    // Options and chunks lie behind the header, and are cut where the packet is.
    let with_bytes = |row: MatchRow, hotdrop: Option<Hotdrop>| match hotdrop {
        Some(hotdrop) => MatchRow { depends: Depends::Bytes, hotdrop, ..row },
        None => row,
    };
    let or_with_match = |negated: bool| match negated {
        true => Hotdrop::WithMatch,
        false => Hotdrop::Perhaps,
    };
    match m {
        Match::Tcp { option, .. } => with_bytes(row, option.as_ref().map(|_| Hotdrop::Perhaps)),
        Match::Sctp { chunks, .. } => {
            with_bytes(row, chunks.as_ref().map(|c| or_with_match(c.negated)))
        }
        Match::Dccp { types, option, .. } => {
            let row = with_bytes(row, option.as_ref().map(|o| or_with_match(o.negated)));
            let depends = if types.is_some() { Depends::Bytes } else { row.depends };
            MatchRow { depends, ..row }
        }
        // `-m conntrack` that compares the state alone asks no more than `-m state`.
        Match::Conntrack(c) if c.only_state().is_some() => named("state"),
        // Counters that the match itself raises: the next test of the packet may find more.
        Match::Set(m) if reads_counters(m) => {
            MatchRow { depends: Depends::History, reads: FieldSet::ALL, ..row }
        }
        Match::Host(h) => {
            // ip6t_ah.c looks for the header among the extension headers.
            let find = h.module == "ah" && family == Family::V6;
            let restores = h.options.iter().any(|o| o.name == "restore-skmark");
            MatchRow {
                hotdrop: if find { Hotdrop::Perhaps } else { row.hotdrop },
                writes: if restores { row.writes } else { FieldSet::NONE },
                ..row
            }
        }
        _ => row,
    }
}

/// Whether a `-m set` compares the counters of the element.
pub(super) fn reads_counters(m: &crate::matching::SetMatch) -> bool {
    let words = m.options.iter().flat_map(|o| o.split_whitespace());
    words
        .map(|w| w.trim_start_matches('-'))
        .any(|w| w.starts_with("packets") || w.starts_with("bytes"))
}

impl MatchRow {
    /// Whether the match is stateful: it must be evaluated as often as before, and in the same
    /// order relative to other stateful matches.
    pub fn is_stateful(&self) -> bool {
        self.depends == Depends::History
    }
}
