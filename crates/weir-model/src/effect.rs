//! The one table of what targets and matches do to a packet and to the state around it.
//!
//! A compiler may move, merge or drop a rule only if it knows what the rule changes for the rules
//! behind it. This module is the only place that says so. Each target is a row of [`TARGETS`]: the
//! fields it may write, the ipsets it may change, whether it may drop the packet, and whether the
//! walk goes on behind it. Each match is a row of [`MATCHES`]: the fields it reads, what else its
//! answer depends on, and whether evaluating it may drop the packet (*hotdrop*).
//!
//! [`effects_of`] narrows a target's row by its options: `SET --add-set` writes no mark,
//! `CONNMARK --save-mark` leaves the packet's mark alone. [`match_effects`] finds the row of a match.
//! A target or match without a row reads and writes everything, keeps state, and may drop the
//! packet: the rule is a barrier. What rules share under a name is in [`named`].
//!
//! The rows are compared with the kernel: packets observe in a network namespace what each target
//! writes and which packets each match drops (`effects` in the tests of `weir-verify`). A row whose
//! `writes`, `unknown`, `sets`, `drops`, `ends` or `hotdrop` is changed by one entry must fail
//! there. What no packet can show (`emits`, `unmodelled`, `stateful`) is compared with lists there.

pub mod named;

use std::collections::BTreeSet;

use weir_packet::Family;

use crate::Name;
use crate::field::{FIELDS, Field};
use crate::matching::{Match, OptionValue, Value};
use crate::ruleset::{Firewall, Rule, Ruleset, Table};
use crate::set::{ElementPart, Method, Part, SetOption};
use crate::target::{Effect, Extension, NatTarget, Target};

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldSet(u32);

impl FieldSet {
    /// No field.
    pub const NONE: FieldSet = FieldSet(0);
    /// Every field of the table.
    pub const ALL: FieldSet = FieldSet((1 << FIELDS.len()) - 1);

    /// The fields of a list.
    pub const fn of(fields: &[Field]) -> FieldSet {
        let (mut bits, mut i) = (0, 0);
        while i < fields.len() {
            bits |= 1 << fields[i] as u32;
            i += 1;
        }
        FieldSet(bits)
    }

    /// Whether the field is in the set.
    pub const fn contains(self, field: Field) -> bool {
        self.0 >> field as u32 & 1 == 1
    }

    /// Fields of either set.
    pub const fn union(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 | other.0)
    }

    /// Fields of this set that are not in the other.
    pub const fn without(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 & !other.0)
    }

    /// Whether the set has no field.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The fields, in the order of the field table.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        FIELDS.iter().map(|row| row.field).filter(move |f| self.contains(*f))
    }
}

/// Whether the walk of the table goes on behind a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ends {
    /// The next rule is tried.
    Never,
    /// The table is left with a verdict (`XT_RETURN`, jumps and policies are not targets here).
    Always,
    /// Not known.
    Perhaps,
}

/// The ipsets whose content a target changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetWrites {
    /// None.
    None,
    /// Those that `--add-set` and `--del-set` name.
    Named,
    /// Any: the target is not known.
    Any,
}

/// What a rule switches on by being loaded, whether packets meet it or not; each includes what
/// stands before it. It holds for the family of the rule in the whole network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Conntrack {
    /// Nothing.
    No,
    /// Fragments are put together before the raw table (`nf_defrag_ipv4_enable`).
    Defragments,
    /// Connections are tracked, too, and nat is consulted (`nf_ct_netns_get`).
    Tracks,
}

/// One row: what a target may do. [`effects_of`] narrows it by the options of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetRow {
    /// Name, as in `-j MARK`.
    pub name: &'static str,
    /// Fields that what it does depends on.
    pub reads: FieldSet,
    /// Fields that it may write.
    pub writes: FieldSet,
    /// Of those, the fields whose new value neither the rule nor the packet's fields give: all but
    /// those that the engines compute ([`TargetRow::known`]).
    pub unknown: FieldSet,
    /// ipsets that it may change.
    pub sets: SetWrites,
    /// It may drop the packet by itself, for a reason that the rule does not name.
    pub drops: bool,
    /// Whether the walk goes on.
    pub ends: Ends,
    /// Somebody outside of the walk notices it even if the packet is dropped later: a log line, a
    /// message, a clone, an answer, a changed set or connection.
    pub emits: bool,
    /// What it does depends on more than the packet: elements of a set, a memory of its own.
    pub stateful: bool,
    /// It changes what no field says and other matches may look at: bytes of the packet, its
    /// priority or queue, the connection's helper.
    pub unmodelled: bool,
    /// What a rule with it switches on.
    pub conntrack: Conntrack,
}

const PLAIN: TargetRow = TargetRow {
    name: "",
    reads: FieldSet::NONE,
    writes: FieldSet::NONE,
    unknown: FieldSet::NONE,
    sets: SetWrites::None,
    drops: false,
    ends: Ends::Never,
    emits: false,
    stateful: false,
    unmodelled: false,
    conntrack: Conntrack::No,
};

impl TargetRow {
    /// A row whose new values of these fields the interpreter and the diagrams compute from the
    /// rule and the packet. Without it a field that is written may have any value afterwards.
    const fn known(self, fields: &[Field]) -> TargetRow {
        TargetRow { unknown: self.unknown.without(FieldSet::of(fields)), ..self }
    }

    /// The fields that it writes with values that are known.
    pub const fn known_writes(&self) -> FieldSet {
        self.writes.without(self.unknown)
    }
}

/// Writes fields; their values are not known unless [`TargetRow::known`] says so.
const fn writes(name: &'static str, fields: &[Field]) -> TargetRow {
    let fields = FieldSet::of(fields);
    TargetRow { name, writes: fields, unknown: fields, ..PLAIN }
}

/// Reads and writes the same fields.
const fn updates(name: &'static str, fields: &[Field]) -> TargetRow {
    TargetRow { reads: FieldSet::of(fields), ..writes(name, fields) }
}

/// Shows the packet to somebody.
const fn emits(name: &'static str) -> TargetRow {
    TargetRow { name, emits: true, reads: FieldSet::ALL, ..PLAIN }
}

const fn ends(name: &'static str, fields: &[Field]) -> TargetRow {
    TargetRow { ends: Ends::Always, emits: true, reads: FieldSet::ALL, ..writes(name, fields) }
}

/// Hands the packet to somebody who may give it back, changed.
const fn hands_over(name: &'static str, writes: FieldSet) -> TargetRow {
    TargetRow { writes, unknown: writes, stateful: true, unmodelled: true, ..ends(name, &[]) }
}

/// Translates an address, and perhaps a port, of a connection: what the rule leaves open of them
/// the engines ask for themselves.
const fn translates(name: &'static str, fields: &[Field]) -> TargetRow {
    TargetRow { conntrack: Conntrack::Tracks, ..ends(name, fields).known(fields) }
}

/// A target that has no row.
pub const UNKNOWN_TARGET: TargetRow = TargetRow {
    name: "",
    reads: FieldSet::ALL,
    writes: FieldSet::ALL,
    unknown: FieldSet::ALL,
    sets: SetWrites::Any,
    drops: true,
    ends: Ends::Perhaps,
    emits: true,
    stateful: true,
    unmodelled: true,
    conntrack: Conntrack::No,
};

/// All targets that are known (net/netfilter/xt_*.c, net/ipv4/netfilter/ipt_*.c, ip6t_*.c).
pub const TARGETS: [TargetRow; 30] = {
    use Field::{CtMark, CtState, Daddr, Dport, Length, Mark, Saddr, Sport, TcpFlags, Tos, Ttl};
    [
        TargetRow { ends: Ends::Always, ..writes("ACCEPT", &[]) },
        TargetRow { ends: Ends::Always, ..writes("DROP", &[]) },
        ends("REJECT", &[]),
        emits("LOG"),
        emits("NFLOG"),
        emits("AUDIT"),
        emits("TRACE"),
        emits("TEE"),
        TargetRow { unmodelled: true, ..writes("CHECKSUM", &[]) },
        TargetRow { unmodelled: true, ..writes("CLASSIFY", &[]) },
        updates("MARK", &[Mark]).known(&[Mark]),
        TargetRow {
            emits: true,
            conntrack: Conntrack::Tracks,
            reads: FieldSet::of(&[Mark, CtMark, CtState]),
            ..writes("CONNMARK", &[Mark, CtMark]).known(&[Mark, CtMark])
        },
        updates("TOS", &[Tos]).known(&[Tos]),
        updates("DSCP", &[Tos]).known(&[Tos]),
        updates("TTL", &[Ttl]).known(&[Ttl]),
        updates("HL", &[Ttl]).known(&[Ttl]),
        updates("NOTRACK", &[CtState, CtMark]).known(&[CtState, CtMark]),
        // xt_CT.c attaches a template: an entry, in state NEW, before there is a connection.
        TargetRow {
            emits: true,
            unmodelled: true,
            conntrack: Conntrack::Tracks,
            ..updates("CT", &[CtState, CtMark]).known(&[CtState])
        },
        // ipt_ECN.c rewrites TCP flags where a TCP header would be, and drops what has none.
        TargetRow { drops: true, unmodelled: true, ..updates("ECN", &[Tos, TcpFlags]) },
        // xt_TCPMSS.c drops a TCP header whose length is wrong, and adds four bytes to a SYN
        // without the option.
        TargetRow {
            drops: true,
            unmodelled: true,
            reads: FieldSet::of(&[Length, TcpFlags]),
            ..writes("TCPMSS", &[Length])
        },
        TargetRow {
            sets: SetWrites::Named,
            emits: true,
            stateful: true,
            unmodelled: true,
            reads: FieldSet::ALL,
            ..writes("SET", &[Mark])
        },
        translates("SNAT", &[Saddr, Sport, CtState]),
        translates("MASQUERADE", &[Saddr, Sport, CtState]),
        translates("DNAT", &[Daddr, Dport, CtState]),
        translates("REDIRECT", &[Daddr, Dport, CtState]),
        translates("NETMAP", &[Saddr, Daddr, CtState]),
        // A program may change the packet and give it back to the next table.
        hands_over("NFQUEUE", FieldSet::ALL),
        hands_over("QUEUE", FieldSet::ALL),
        // NF_ACCEPT with the mark written where a socket listens, else NF_DROP (xt_TPROXY.c).
        TargetRow {
            conntrack: Conntrack::Defragments,
            ..hands_over("TPROXY", FieldSet::of(&[Mark]))
        },
        // Packets that are neither a SYN nor its answer go on with the next rule (ipt_SYNPROXY.c).
        TargetRow {
            ends: Ends::Perhaps,
            conntrack: Conntrack::Tracks,
            ..hands_over("SYNPROXY", FieldSet::NONE)
        },
    ]
};

/// Name of a target's module as `-j` spells it; `None` for jumps, RETURN and no target, which do
/// nothing to a packet.
pub fn module_of(target: &Target) -> Option<&str> {
    Some(match target {
        Target::None | Target::Return | Target::Jump(_) | Target::Goto(_) => return None,
        Target::Accept => "ACCEPT",
        Target::Drop => "DROP",
        Target::Reject(_) => "REJECT",
        Target::Divert(e) => e.module,
        Target::Nat(nat) => match **nat {
            NatTarget::Dnat(_) => "DNAT",
            NatTarget::Snat(_) => "SNAT",
            NatTarget::Masquerade(_) => "MASQUERADE",
            NatTarget::Redirect(_) => "REDIRECT",
            NatTarget::Netmap(..) => "NETMAP",
        },
        Target::Effect(effect) => match &**effect {
            Effect::Mark { .. } => "MARK",
            Effect::Notrack => "NOTRACK",
            Effect::CtNotrack => "CT",
            Effect::Classify { .. } => "CLASSIFY",
            Effect::Tos { .. } => "TOS",
            Effect::Dscp(_) => "DSCP",
            Effect::Ttl { .. } => "TTL",
            Effect::Other(e) => e.module,
        },
        Target::Opaque(opaque) => &opaque.name,
    })
}

/// What a rule's target does: its row, narrowed by its options.
pub fn effects_of(target: &Target) -> TargetRow {
    effects_in(&TARGETS, target)
}

/// The same, if these were the rows: for tests that change one of them.
pub fn effects_in(rows: &[TargetRow], target: &Target) -> TargetRow {
    let Some(module) = module_of(target) else { return PLAIN };
    // A module that the model keeps as text may do anything.
    let known = !matches!(target, Target::Opaque(_));
    let named = |name: &str| rows.iter().find(|row| row.name == name).copied();
    let Some(row) = named(module).filter(|_| known) else { return UNKNOWN_TARGET };
    let Target::Effect(effect) = target else { return row };
    match &**effect {
        Effect::CtNotrack => named("NOTRACK").unwrap_or(UNKNOWN_TARGET),
        Effect::Other(extension) => narrowed(row, extension),
        _ => row,
    }
}

/// The fields that rules of a table may change for the rules behind them: a target that ends the
/// table changes nothing there.
pub fn changed_within(table: &Table) -> FieldSet {
    let rules = || table.chains.iter().flat_map(|c| &c.rules);
    let rows = rules().map(|r| effects_of(&r.target)).filter(|row| row.ends != Ends::Always);
    let matches = rules().flat_map(|r| &r.matches).map(|m| match_effects(m, Family::V4).writes);
    rows.map(|row| row.writes).chain(matches).fold(FieldSet::NONE, FieldSet::union)
}

/// A row without what the options of a rule rule out.
fn narrowed(row: TargetRow, extension: &Extension) -> TargetRow {
    let has = |name: &str| extension.options.iter().any(|o| o.name == name);
    let only = |row: TargetRow, fields: &[Field]| {
        let fields = FieldSet::of(fields);
        let keep = |set: FieldSet| set.without(FieldSet::ALL.without(fields));
        TargetRow { writes: keep(row.writes), unknown: keep(row.unknown), ..row }
    };
    match row.name {
        "CONNMARK" => {
            let restores = has("restore-mark");
            let row = only(row, &[if restores { Field::Mark } else { Field::CtMark }]);
            // A shifted mark is not modelled bit by bit.
            let shifts = has("left-shift-mark") || has("right-shift-mark");
            let unknown = if shifts { row.writes } else { row.unknown };
            TargetRow { emits: !restores, unknown, ..row }
        }
        "SET" => {
            let changes = has("add-set") || has("del-set");
            let sets = if changes { SetWrites::Named } else { SetWrites::None };
            let unmodelled = has("map-prio") || has("map-queue");
            let row = TargetRow { sets, emits: changes, unmodelled, ..row };
            if has("map-mark") { row } else { TargetRow { stateful: false, ..only(row, &[]) } }
        }
        "ECN" => {
            let tcp = ["ecn-tcp-remove", "ecn-tcp-cwr", "ecn-tcp-ece"].iter().any(|o| has(o));
            match (tcp, has("ecn-ip-ect")) {
                (true, true) => row,
                (true, false) => only(row, &[Field::TcpFlags]),
                (false, _) => TargetRow { drops: false, ..only(row, &[Field::Tos]) },
            }
        }
        _ => row,
    }
}

/// Whether evaluating a match may drop the packet on the spot (`par->hotdrop`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hotdrop {
    /// It never does.
    Never,
    /// It does if fewer bytes of the transport header are there than it reads, and never for a
    /// later fragment (but for `-m tcp`, which drops an IPv4 fragment at offset 1).
    CutHeader,
    /// It may, for reasons that no field says; then the match does not hold.
    Perhaps,
    /// It may, for reasons that no field says, and the match holds all the same: the rule counts,
    /// its target acts, and then the packet is dropped whatever the target decides (the loop in
    /// `ipt_do_table` looks at `hotdrop` last). Negated `--chunk-types` and `--dccp-option`.
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

/// One row: what a match looks at.
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
    /// Fields that it writes where it holds, with a value that no field gives.
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

/// What evaluating a match may do: its row, narrowed and widened by its options.
pub fn match_effects(m: &Match, family: Family) -> MatchRow {
    match_effects_in(&MATCHES, m, family)
}

/// The same, if these were the rows: for tests that change one of them.
pub fn match_effects_in(rows: &[MatchRow], m: &Match, family: Family) -> MatchRow {
    let row = |name: &str| rows.iter().find(|r| r.name == name).copied().unwrap_or(UNKNOWN_MATCH);
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
        Match::Tcp { option, .. } => {
            with_bytes(row("tcp"), option.as_ref().map(|_| Hotdrop::Perhaps))
        }
        Match::Udp { .. } => row("udp"),
        Match::Sctp { chunks, .. } => {
            with_bytes(row("sctp"), chunks.as_ref().map(|c| or_with_match(c.negated)))
        }
        Match::Dccp { types, option, .. } => {
            let row = with_bytes(row("dccp"), option.as_ref().map(|o| or_with_match(o.negated)));
            let depends = if types.is_some() { Depends::Bytes } else { row.depends };
            MatchRow { depends, ..row }
        }
        Match::Icmp(_) => row(if family == Family::V4 { "icmp" } else { "icmp6" }),
        Match::Multiport { .. } => row("multiport"),
        Match::IpRange { .. } => row("iprange"),
        Match::Mac(_) => row("mac"),
        Match::Mark(_) => row("mark"),
        Match::ConnMark(_) => row("connmark"),
        Match::State(_) => row("state"),
        Match::Conntrack(c) => match c.only_state() {
            Some(_) => row("state"),
            None => row("conntrack"),
        },
        Match::Length(_) => row("length"),
        Match::Ttl { .. } => row(if family == Family::V4 { "ttl" } else { "hl" }),
        Match::Dscp(_) => row("dscp"),
        Match::Tos(_) => row("tos"),
        Match::PktType(_) => row("pkttype"),
        // Counters that the match itself raises: the next test of the packet may find more.
        Match::Set(m) if reads_counters(m) => {
            MatchRow { depends: Depends::History, reads: FieldSet::ALL, ..row("set") }
        }
        Match::Set(_) => row("set"),
        Match::Comment(_) => row("comment"),
        Match::Stateful(s) => row(s.module),
        Match::Host(h) => {
            let row = row(h.module);
            // ip6t_ah.c looks for the header among the extension headers.
            let find = h.module == "ah" && family == Family::V6;
            let restores = h.options.iter().any(|o| o.name == "restore-skmark");
            MatchRow {
                hotdrop: if find { Hotdrop::Perhaps } else { row.hotdrop },
                writes: if restores { row.writes } else { FieldSet::NONE },
                ..row
            }
        }
        Match::Opaque(_) => UNKNOWN_MATCH,
    }
}

/// Whether a `-m set` compares the counters of the element.
fn reads_counters(m: &crate::matching::SetMatch) -> bool {
    let words = m.options.iter().flat_map(|o| o.split_whitespace());
    words
        .map(|w| w.trim_start_matches('-'))
        .any(|w| w.starts_with("packets") || w.starts_with("bytes"))
}

/// Matches without a row of which it is known that they make the kernel track connections.
const TRACKING: [&str; 2] = ["connlabel", "cluster"];
/// The same of targets.
const TRACKING_TARGETS: [&str; 2] = ["CONNSECMARK", "FLOWOFFLOAD"];

/// What a rule switches on by being loaded.
pub fn conntrack_of(rule: &Rule) -> Conntrack {
    let tracks = |tracking: &[&str], name: &str| match tracking.contains(&name) {
        true => Conntrack::Tracks,
        false => Conntrack::No,
    };
    let by_match = |m: &Match| match m {
        Match::Opaque(o) => tracks(&TRACKING, &o.name),
        // In both families alike.
        _ => match_effects(m, Family::V4).conntrack,
    };
    let by_target = match &rule.target {
        Target::Opaque(o) => tracks(&TRACKING_TARGETS, &o.name),
        other => effects_of(other).conntrack,
    };
    rule.matches.iter().map(by_match).fold(by_target, Conntrack::max)
}

/// What some rules switch on together.
pub fn conntrack_of_all<'r>(rules: impl IntoIterator<Item = &'r Rule>) -> Conntrack {
    rules.into_iter().map(conntrack_of).max().unwrap_or(Conntrack::No)
}

/// Whether a rule makes the kernel track connections.
pub fn needs_conntrack(rule: &Rule) -> bool {
    conntrack_of(rule) == Conntrack::Tracks
}

impl MatchRow {
    /// Whether the match keeps a budget or a memory: it must be evaluated as often, and in the
    /// same order among its like, as before.
    pub fn is_stateful(&self) -> bool {
        self.depends == Depends::History
    }
}

/// The ipsets whose content the rules of a host may change while packets pass.
///
/// `-j SET` names its set; a list and its members change together, whichever of them is named; an
/// unknown target may change any. Elements with a timeout go by themselves, those of
/// `bitmap:ip,mac` learn the address of the first packet, and where a rule compares the counters of
/// a set, each match of it counts. What such a set held when it was saved says nothing of what a
/// later rule finds in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangingSets {
    any: bool,
    names: BTreeSet<Name>,
}

impl ChangingSets {
    /// The sets that some rule of the firewall may change.
    pub fn of(firewall: &Firewall) -> ChangingSets {
        Self::of_rulesets(firewall.rulesets(), &firewall.sets)
    }

    /// The same of rulesets and sets.
    pub fn of_rulesets<'r>(
        rulesets: impl Iterator<Item = &'r Ruleset>,
        sets: &[crate::set::IpSet],
    ) -> ChangingSets {
        let mut changing = ChangingSets::default();
        for (_, _, rule) in rulesets.flat_map(Ruleset::rules) {
            changing.see(&rule.target);
            let counted = rule.matches.iter().filter_map(|m| match m {
                Match::Set(m) if reads_counters(m) => Some(m.name.clone()),
                _ => None,
            });
            changing.names.extend(counted);
        }
        changing.names.extend(sets.iter().filter(|s| changes_itself(s)).map(|s| s.name.clone()));
        if changing.names.is_empty() {
            return changing;
        }
        // Members of a list that is named, then lists that hold one of all these.
        let members = |list: &crate::set::IpSet| -> Vec<Name> {
            let parts = list.elements.iter().flat_map(|e| &e.parts);
            parts
                .filter_map(|p| match p {
                    ElementPart::Set(name) => Some(name.clone()),
                    _ => None,
                })
                .collect()
        };
        for list in sets.iter().filter(|s| changing.names.contains(&s.name)).collect::<Vec<_>>() {
            changing.names.extend(members(list));
        }
        for list in sets {
            if members(list).iter().any(|m| changing.names.contains(m)) {
                changing.names.insert(list.name.clone());
            }
        }
        changing
    }

    /// The sets that rules of either may change: two rulesets are compared on hosts where both ran.
    pub fn union(mut self, other: ChangingSets) -> ChangingSets {
        self.any |= other.any;
        self.names.extend(other.names);
        self
    }

    fn see(&mut self, target: &Target) {
        match effects_of(target).sets {
            SetWrites::None => {}
            SetWrites::Any => self.any = true,
            SetWrites::Named => {
                let written = sets_named_by(target).into_iter().filter(|(_, writes)| *writes);
                self.names.extend(written.map(|(name, _)| name));
            }
        }
    }

    /// Whether some rule may change the set.
    pub fn contains(&self, name: &str) -> bool {
        self.any || self.names.contains(name)
    }
}

/// Whether a set changes though no target names it.
fn changes_itself(set: &crate::set::IpSet) -> bool {
    let ages = |o: &SetOption| matches!(o, SetOption::Timeout(_));
    let learns = set.kind.method == Method::Bitmap && set.kind.parts == [Part::Ip, Part::Mac];
    learns || set.options.iter().any(ages)
}

/// The sets that a `SET` target names, and whether it adds to or deletes from each.
pub fn sets_named_by(target: &Target) -> Vec<(Name, bool)> {
    let Target::Effect(effect) = target else { return Vec::new() };
    let Effect::Other(extension) = &**effect else { return Vec::new() };
    let named = |o: &OptionValue| match (o.name, &o.value) {
        // The name, which may hold spaces, and the directions.
        ("add-set" | "del-set" | "map-set", Value::Text(words)) => {
            words.rsplit_once(' ').map(|(name, _)| (Name::from(name), o.name != "map-set"))
        }
        _ => None,
    };
    extension.options.iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::Opaque;

    fn other(module: &'static str, options: &[&'static str]) -> Target {
        let option = |name: &&'static str| OptionValue { negated: false, name, value: Value::Flag };
        let options = options.iter().map(option).collect();
        Target::Effect(Box::new(Effect::Other(Extension { module, options })))
    }

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let targets: BTreeSet<_> = TARGETS.iter().map(|r| r.name).collect();
        let matches: BTreeSet<_> = MATCHES.iter().map(|r| r.name).collect();
        assert_eq!((targets.len(), matches.len()), (TARGETS.len(), MATCHES.len()));
    }

    #[test]
    fn what_is_unknown_is_written() {
        for row in TARGETS {
            assert!(row.unknown.without(row.writes).is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn a_target_without_a_row_writes_everything() {
        let opaque = Opaque { name: "TCPOPTSTRIP".into(), words: Vec::new() };
        assert_eq!(effects_of(&Target::Opaque(Box::new(opaque))), UNKNOWN_TARGET);
        assert_eq!(effects_of(&other("NEW", &[])), UNKNOWN_TARGET);
        assert!(UNKNOWN_TARGET.writes.contains(Field::Daddr));
    }

    #[test]
    fn options_narrow_a_row() {
        let mapped = effects_of(&other("SET", &["map-set", "map-mark"]));
        assert!(mapped.writes.contains(Field::Mark) && mapped.sets == SetWrites::None);
        let added = effects_of(&other("SET", &["add-set"]));
        assert!(added.writes.is_empty() && added.sets == SetWrites::Named);
        let restored = effects_of(&other("CONNMARK", &["restore-mark"]));
        assert_eq!(restored.writes, FieldSet::of(&[Field::Mark]));
        let saved = effects_of(&other("CONNMARK", &["save-mark"]));
        assert_eq!(saved.writes, FieldSet::of(&[Field::CtMark]));
    }
}
