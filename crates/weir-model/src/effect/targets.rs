//! The effects of targets: one row each.

use super::conntrack_demand_level::ConntrackDemand;
use super::field_set::FieldSet;
use super::opaque_module_row::OpaqueModuleWithoutSharedObjects;
use crate::field::Field;
use crate::rule_match::{OpaqueExtension, TypedExtensionOption, WrittenOption};
use crate::target::{Effect, ExtensionTarget, NatTarget, Target};

/// Whether the walk of the table continues after a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetTermination {
    /// The next rule is tried.
    Never,
    /// The table is left with a verdict (`XT_RETURN`, jumps and policies are not targets here).
    Always,
    /// Not known.
    Perhaps,
}

/// The ipsets whose content a target changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpsetWrites {
    /// None.
    None,
    /// Those that `--add-set` and `--del-set` name.
    Named,
    /// Any: the target is not known.
    Any,
}

/// One row: what a target may do. [`target_effects`] narrows it by the options of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetRow {
    /// Name, as in `-j MARK`.
    pub name: &'static str,
    /// Fields that what it does depends on.
    pub reads: FieldSet,
    /// Fields that it may write.
    pub writes: FieldSet,
    /// Of those, the fields whose new value neither the rule nor the packet's fields give: all but
    /// those that the engines compute ([`TargetRow::with_known_values`]).
    pub unknown_value_writes: FieldSet,
    /// ipsets that it may change.
    pub ipset_writes: IpsetWrites,
    /// It may itself drop the packet, for a reason that the rule does not name. Only with
    /// [`TargetTermination::Never`]: a target that ends the traversal hands the packet over, and
    /// whether it returns covers a drop.
    pub may_drop: bool,
    /// Whether the traversal continues.
    pub termination: TargetTermination,
    /// Somebody outside of the walk notices it even if the packet is dropped later: a log line, a
    /// message, a clone, an answer, a changed set or connection.
    pub is_observable: bool,
    /// It sends a copy of the packet, which traverses OUTPUT and POSTROUTING on its own.
    pub sends_copy: bool,
    /// Its effect depends on more than the packet: elements of a set, its own state.
    pub stateful: bool,
    /// It changes what no field models and other matches may read: bytes of the packet, its
    /// priority or queue, the connection's helper.
    pub changes_unmodelled_state: bool,
    /// What a rule with it switches on.
    pub conntrack_demand: ConntrackDemand,
}

const INERT_TARGET_ROW: TargetRow = TargetRow {
    name: "",
    reads: FieldSet::NONE,
    writes: FieldSet::NONE,
    unknown_value_writes: FieldSet::NONE,
    ipset_writes: IpsetWrites::None,
    may_drop: false,
    termination: TargetTermination::Never,
    is_observable: false,
    sends_copy: false,
    stateful: false,
    changes_unmodelled_state: false,
    conntrack_demand: ConntrackDemand::Nothing,
};

impl TargetRow {
    /// A row whose new values of these fields the interpreter and the diagrams compute from the
    /// rule and the packet. Without it a field that is written may have any value afterwards.
    const fn with_known_values(self, fields: &[Field]) -> TargetRow {
        TargetRow {
            unknown_value_writes: self.unknown_value_writes.without(FieldSet::from_fields(fields)),
            ..self
        }
    }

    /// Whether no rule of any journey depends on what the target does: it changes no packet, set
    /// or other state, sends no copy, and the traversal always continues.
    pub fn has_no_effect_on_later_rules(&self) -> bool {
        self.writes.is_empty()
            && self.ipset_writes == IpsetWrites::None
            && self.termination == TargetTermination::Never
            && !self.may_drop
            && !self.sends_copy
            && !self.stateful
            && !self.changes_unmodelled_state
    }

    /// The fields that it writes with values that are known.
    pub const fn known_value_writes(&self) -> FieldSet {
        self.writes.without(self.unknown_value_writes)
    }
}

/// Writes fields; their values are not known unless [`TargetRow::with_known_values`] says so.
const fn writing_target_row(name: &'static str, fields: &[Field]) -> TargetRow {
    let fields = FieldSet::from_fields(fields);
    TargetRow { name, writes: fields, unknown_value_writes: fields, ..INERT_TARGET_ROW }
}

/// Reads and writes the same fields.
const fn read_write_target_row(name: &'static str, fields: &[Field]) -> TargetRow {
    TargetRow { reads: FieldSet::from_fields(fields), ..writing_target_row(name, fields) }
}

/// Reports the packet: a log or a copy.
const fn reporting_target_row(name: &'static str) -> TargetRow {
    TargetRow { name, is_observable: true, reads: FieldSet::ALL, ..INERT_TARGET_ROW }
}

const fn observable_terminating_target_row(name: &'static str, fields: &[Field]) -> TargetRow {
    TargetRow {
        termination: TargetTermination::Always,
        is_observable: true,
        reads: FieldSet::ALL,
        ..writing_target_row(name, fields)
    }
}

/// Hands the packet to a program that may return it, changed.
const fn handed_to_program_target_row(name: &'static str, writes: FieldSet) -> TargetRow {
    TargetRow {
        writes,
        unknown_value_writes: writes,
        stateful: true,
        changes_unmodelled_state: true,
        ..observable_terminating_target_row(name, &[])
    }
}

/// Translates an address, and perhaps a port, of a connection: the engines determine what the rule
/// leaves open.
const fn nat_target_row(name: &'static str, fields: &[Field]) -> TargetRow {
    TargetRow {
        conntrack_demand: ConntrackDemand::Tracking,
        ..observable_terminating_target_row(name, fields).with_known_values(fields)
    }
}

/// A target that has no row.
pub const UNKNOWN_TARGET_ROW: TargetRow = TargetRow {
    name: "",
    reads: FieldSet::ALL,
    writes: FieldSet::ALL,
    unknown_value_writes: FieldSet::ALL,
    ipset_writes: IpsetWrites::Any,
    may_drop: true,
    termination: TargetTermination::Perhaps,
    is_observable: true,
    sends_copy: true,
    stateful: true,
    changes_unmodelled_state: true,
    conntrack_demand: ConntrackDemand::Nothing,
};

/// All targets that are known (net/netfilter/xt_*.c, net/ipv4/netfilter/ipt_*.c, ip6t_*.c).
pub const TARGET_ROWS: &[TargetRow] = {
    use Field::{CtMark, CtState, Daddr, Dport, Length, Mark, Saddr, Sport, TcpFlags, Tos, Ttl};
    &[
        TargetRow { termination: TargetTermination::Always, ..writing_target_row("ACCEPT", &[]) },
        TargetRow { termination: TargetTermination::Always, ..writing_target_row("DROP", &[]) },
        observable_terminating_target_row("REJECT", &[]),
        reporting_target_row("LOG"),
        reporting_target_row("NFLOG"),
        reporting_target_row("AUDIT"),
        reporting_target_row("TRACE"),
        TargetRow { sends_copy: true, ..reporting_target_row("TEE") },
        TargetRow { changes_unmodelled_state: true, ..writing_target_row("CHECKSUM", &[]) },
        TargetRow { changes_unmodelled_state: true, ..writing_target_row("CLASSIFY", &[]) },
        read_write_target_row("MARK", &[Mark]).with_known_values(&[Mark]),
        TargetRow {
            is_observable: true,
            conntrack_demand: ConntrackDemand::Tracking,
            reads: FieldSet::from_fields(&[Mark, CtMark, CtState]),
            ..writing_target_row("CONNMARK", &[Mark, CtMark]).with_known_values(&[Mark, CtMark])
        },
        read_write_target_row("TOS", &[Tos]).with_known_values(&[Tos]),
        read_write_target_row("DSCP", &[Tos]).with_known_values(&[Tos]),
        read_write_target_row("TTL", &[Ttl]).with_known_values(&[Ttl]),
        read_write_target_row("HL", &[Ttl]).with_known_values(&[Ttl]),
        read_write_target_row("NOTRACK", &[CtState, CtMark]).with_known_values(&[CtState, CtMark]),
        // xt_CT.c attaches a template: an entry, in state NEW, before there is a connection.
        TargetRow {
            is_observable: true,
            changes_unmodelled_state: true,
            conntrack_demand: ConntrackDemand::Tracking,
            ..read_write_target_row("CT", &[CtState, CtMark]).with_known_values(&[CtState])
        },
        // ipt_ECN.c rewrites TCP flags where a TCP header would be, and drops what has none.
        TargetRow {
            may_drop: true,
            changes_unmodelled_state: true,
            ..read_write_target_row("ECN", &[Tos, TcpFlags])
        },
        // xt_TCPMSS.c drops a TCP header whose length is wrong, and adds four bytes to a SYN
        // without the option.
        TargetRow {
            may_drop: true,
            changes_unmodelled_state: true,
            reads: FieldSet::from_fields(&[Length, TcpFlags]),
            ..writing_target_row("TCPMSS", &[Length])
        },
        TargetRow {
            ipset_writes: IpsetWrites::Named,
            is_observable: true,
            stateful: true,
            changes_unmodelled_state: true,
            reads: FieldSet::ALL,
            ..writing_target_row("SET", &[Mark])
        },
        nat_target_row("SNAT", &[Saddr, Sport, CtState]),
        nat_target_row("MASQUERADE", &[Saddr, Sport, CtState]),
        nat_target_row("DNAT", &[Daddr, Dport, CtState]),
        nat_target_row("REDIRECT", &[Daddr, Dport, CtState]),
        nat_target_row("NETMAP", &[Saddr, Daddr, CtState]),
        // A program may change the packet and give it back to the next table.
        handed_to_program_target_row("NFQUEUE", FieldSet::ALL),
        handed_to_program_target_row("QUEUE", FieldSet::ALL),
        // NF_ACCEPT with the mark written where a socket listens, else NF_DROP (xt_TPROXY.c).
        TargetRow {
            conntrack_demand: ConntrackDemand::Defragmentation,
            ..handed_to_program_target_row("TPROXY", FieldSet::from_fields(&[Mark]))
        },
        // Packets that are neither a SYN nor its answer continue with the next rule
        // (ipt_SYNPROXY.c).
        TargetRow {
            termination: TargetTermination::Perhaps,
            conntrack_demand: ConntrackDemand::Tracking,
            ..handed_to_program_target_row("SYNPROXY", FieldSet::NONE)
        },
    ]
};

/// Targets without a row above that are known to share no objects by name. If the effects of one
/// are measured, its row moves up.
pub const OPAQUE_TARGETS_WITHOUT_SHARED_OBJECTS: &[OpaqueModuleWithoutSharedObjects] = &[
    OpaqueModuleWithoutSharedObjects::new("HMARK"),
    OpaqueModuleWithoutSharedObjects::new("SECMARK"),
    OpaqueModuleWithoutSharedObjects::new("CONNSECMARK").with_tracking(),
    OpaqueModuleWithoutSharedObjects::new("TCPOPTSTRIP"),
    OpaqueModuleWithoutSharedObjects::new("SNPT"),
    OpaqueModuleWithoutSharedObjects::new("DNPT"),
    OpaqueModuleWithoutSharedObjects::new("FLOWOFFLOAD").with_tracking(),
];

/// Name of a target's module as `-j` spells it; `None` for jumps, RETURN and no target, which do
/// nothing to a packet.
pub fn verdict_or_extension_name(target: &Target) -> Option<&str> {
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
            Effect::CtNotrack { .. } => "CT",
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
    /// Creates a target whose options were checked and are preserved verbatim.
    ///
    /// It is opaque if the table of effects has no row for it. With a row it is an effect if the
    /// traversal continues after it, and a [`Target::Divert`] otherwise.
    pub fn from_written_options(module: &'static str, options: Vec<WrittenOption>) -> Target {
        let Some(row) = TARGET_ROWS.iter().find(|row| row.name == module) else {
            return Target::Opaque(Box::new(OpaqueExtension::from_written_options(
                module, options,
            )));
        };
        let options = options.into_iter().map(TypedExtensionOption::from).collect();
        let extension = ExtensionTarget { module, options };
        match row.termination {
            TargetTermination::Never => Target::Effect(Box::new(Effect::Other(extension))),
            _ => Target::Divert(Box::new(extension)),
        }
    }

    /// Whether the target ends the traversal of the table: no later rule of it sees the packet.
    pub fn is_terminating(&self) -> bool {
        target_effects(self).termination == TargetTermination::Always
    }

    /// Whether no packet continues with the next rule of the chain after the target.
    pub fn leaves_chain(&self) -> bool {
        matches!(self, Target::Return | Target::Goto(_)) || self.is_terminating()
    }
}

/// What a rule's target does: its row, narrowed by its options.
pub fn target_effects(target: &Target) -> TargetRow {
    target_effects_from_rows(TARGET_ROWS, target)
}

/// The same, if these were the rows: for tests that change one of them.
pub fn target_effects_from_rows(rows: &[TargetRow], target: &Target) -> TargetRow {
    let Some(module) = verdict_or_extension_name(target) else { return INERT_TARGET_ROW };
    // A module that the model keeps as text may do anything.
    let known = !matches!(target, Target::Opaque(_));
    let named = |name: &str| rows.iter().find(|row| row.name == name).copied();
    let Some(row) = named(module).filter(|_| known) else { return UNKNOWN_TARGET_ROW };
    let Target::Effect(effect) = target else { return row };
    match &**effect {
        Effect::CtNotrack { .. } => named("NOTRACK").unwrap_or(UNKNOWN_TARGET_ROW),
        Effect::Other(extension) => narrow_target_row_by_options(row, extension),
        _ => row,
    }
}

/// A row without what the options of a rule rule out.
fn narrow_target_row_by_options(row: TargetRow, extension: &ExtensionTarget) -> TargetRow {
    let has = |name: &str| extension.options.iter().any(|o| o.name == name);
    let only = |row: TargetRow, fields: &[Field]| {
        let fields = FieldSet::from_fields(fields);
        let keep = |set: FieldSet| set.without(FieldSet::ALL.without(fields));
        TargetRow {
            writes: keep(row.writes),
            unknown_value_writes: keep(row.unknown_value_writes),
            ..row
        }
    };
    match row.name {
        "CONNMARK" => {
            let restores = has("restore-mark");
            let row = only(row, &[if restores { Field::Mark } else { Field::CtMark }]);
            // A shifted mark is not modelled bit by bit.
            let shifts = has("left-shift-mark") || has("right-shift-mark");
            let unknown = if shifts { row.writes } else { row.unknown_value_writes };
            TargetRow { is_observable: !restores, unknown_value_writes: unknown, ..row }
        }
        "SET" => {
            let changes = has("add-set") || has("del-set");
            let sets = if changes { IpsetWrites::Named } else { IpsetWrites::None };
            let unmodelled = has("map-prio") || has("map-queue");
            let row = TargetRow {
                ipset_writes: sets,
                is_observable: changes,
                changes_unmodelled_state: unmodelled,
                ..row
            };
            // What it maps is the value of an element.
            match (has("map-mark"), unmodelled) {
                (true, _) => row,
                (false, true) => only(row, &[]),
                (false, false) => TargetRow { stateful: false, ..only(row, &[]) },
            }
        }
        "ECN" => {
            let tcp = ["ecn-tcp-remove", "ecn-tcp-cwr", "ecn-tcp-ece"].iter().any(|o| has(o));
            match (tcp, has("ecn-ip-ect")) {
                (true, true) => row,
                (true, false) => only(row, &[Field::TcpFlags]),
                (false, _) => TargetRow { may_drop: false, ..only(row, &[Field::Tos]) },
            }
        }
        _ => row,
    }
}
