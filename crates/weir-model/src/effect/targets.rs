//! The effects of targets: one row each.

use weir_packet::Family;

use super::conntrack::Conntrack;
use super::field_set::FieldSet;
use super::matches::match_effects;
use crate::field::Field;
use crate::ruleset::Table;
use crate::target::{Effect, ExtensionTarget, NatTarget, Target};

/// Whether the walk of the table continues after a target.
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
    /// It may itself drop the packet, for a reason that the rule does not name.
    pub drops: bool,
    /// Whether the traversal continues.
    pub ends: Ends,
    /// Somebody outside of the walk notices it even if the packet is dropped later: a log line, a
    /// message, a clone, an answer, a changed set or connection.
    pub emits: bool,
    /// Its effect depends on more than the packet: elements of a set, its own state.
    pub stateful: bool,
    /// It changes what no field models and other matches may read: bytes of the packet, its
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

/// Reports the packet: a log or a copy.
const fn emits(name: &'static str) -> TargetRow {
    TargetRow { name, emits: true, reads: FieldSet::ALL, ..PLAIN }
}

const fn ends(name: &'static str, fields: &[Field]) -> TargetRow {
    TargetRow { ends: Ends::Always, emits: true, reads: FieldSet::ALL, ..writes(name, fields) }
}

/// Hands the packet to a program that may return it, changed.
const fn hands_over(name: &'static str, writes: FieldSet) -> TargetRow {
    TargetRow { writes, unknown: writes, stateful: true, unmodelled: true, ..ends(name, &[]) }
}

/// Translates an address, and perhaps a port, of a connection: the engines determine what the rule
/// leaves open.
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
        // Packets that are neither a SYN nor its answer continue with the next rule
        // (ipt_SYNPROXY.c).
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

impl Target {
    /// True where the rule decides: nothing after it in this table sees the packet.
    pub fn decides(&self) -> bool {
        effects_of(self).ends == Ends::Always
    }

    /// True where no packet that the target acts on goes on in its chain.
    pub fn leaves_chain(&self) -> bool {
        matches!(self, Target::Return | Target::Goto(_)) || self.decides()
    }
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

/// The fields that rules of a table may change for the rules after them: a target that ends the
/// table changes nothing there.
pub fn changed_within(table: &Table) -> FieldSet {
    let rules = || table.chains.iter().flat_map(|c| &c.rules);
    let rows = rules().map(|r| effects_of(&r.target)).filter(|row| row.ends != Ends::Always);
    let matches = rules().flat_map(|r| &r.matches).map(|m| match_effects(m, Family::V4).writes);
    rows.map(|row| row.writes).chain(matches).fold(FieldSet::NONE, FieldSet::union)
}

/// A row without what the options of a rule rule out.
fn narrowed(row: TargetRow, extension: &ExtensionTarget) -> TargetRow {
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
