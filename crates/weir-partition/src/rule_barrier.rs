//! Rules that must not be moved.
//!
//! A *barrier* is a rule that must be evaluated exactly as often as before, and in the same order
//! relative to other barriers: it is stateful, tests a set that others may change, tests something
//! that no field models, or has a target that weir does not know. It is never moved, copied or
//! merged, and no set of packets describes what it matches. The result is derived from the table of
//! effects ([`weir_model::effect`]) and from how a rule is lowered to tests. This module is the
//! only definition of a barrier.

use std::fmt;

use weir_model::effect::{FieldsWrittenByChain, UNKNOWN_TARGET_ROW};
use weir_model::{
    ChainGraph, Family, Field, Hotdrop, Layer, Rule, Table, Target, Test, lower_to_tests,
    target_effects,
};

/// Why a rule stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierReason {
    /// A stateful match.
    StatefulMatch,
    /// A match whose answer the packet does not give.
    OpaqueMatch,
    /// A match that tests a set, whose content may change.
    IpsetMatch,
    /// A target that weir does not know.
    UnknownTarget,
    /// A target whose effect depends on more than the packet.
    StatefulTarget,
    /// A target that leads to a chain which may write a header field or a device.
    ChainMayWriteRuleSelectingField,
}

impl fmt::Display for BarrierReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BarrierReason::StatefulMatch => "has a stateful match",
            BarrierReason::OpaqueMatch => "has a match that the packet does not determine",
            BarrierReason::IpsetMatch => "tests a set, whose content may change",
            BarrierReason::UnknownTarget => "has a target that weir does not know",
            BarrierReason::StatefulTarget => {
                "has a target whose effect depends on more than the packet"
            }
            BarrierReason::ChainMayWriteRuleSelectingField => {
                "leads to a chain that may change addresses, ports or interfaces"
            }
        })
    }
}

/// Why the rule is a barrier, or `None` if it may be compiled.
///
/// ```
/// use weir_model::rule_match::{Match, SetMatch};
/// use weir_model::{Family, Rule, Target};
/// use weir_partition::{BarrierReason, find_barrier_reason};
/// let mut rule = Rule::unconditional(Target::Accept);
/// assert_eq!(find_barrier_reason(&rule, Family::V4), None);
/// let set = SetMatch { negated: false, name: "s".into(), src_directions: vec![true], options: vec![] };
/// rule.matches.push(Match::Set(set));
/// assert_eq!(find_barrier_reason(&rule, Family::V4), Some(BarrierReason::IpsetMatch));
/// ```
pub fn find_barrier_reason(rule: &Rule, family: Family) -> Option<BarrierReason> {
    for t in lower_to_tests(rule, family) {
        match t {
            Test::Opaque { stateful: true, .. } => return Some(BarrierReason::StatefulMatch),
            Test::Opaque { stateful: false, .. } => return Some(BarrierReason::OpaqueMatch),
            Test::Set { .. } => return Some(BarrierReason::IpsetMatch),
            Test::Field { .. } | Test::EitherPort { .. } | Test::Never => {}
        }
    }
    match target_effects(&rule.target) {
        UNKNOWN_TARGET_ROW => Some(BarrierReason::UnknownTarget),
        row if row.stateful => Some(BarrierReason::StatefulTarget),
        _ => None,
    }
}

/// The barriers of a table: a jump is one as well if it leads to a chain that may write what rules
/// are selected by.
#[derive(Clone, Debug)]
pub struct TableBarriers<'t> {
    family: Family,
    graph: ChainGraph<'t>,
    written_fields: FieldsWrittenByChain,
}

impl<'t> TableBarriers<'t> {
    /// Of a whole table: a chain that is left out would seem to write nothing.
    pub fn of_table(table: &'t Table, family: Family) -> Self {
        let graph = table.chain_graph();
        let written_fields = FieldsWrittenByChain::of_chains(&table.chains, &graph);
        TableBarriers { family, graph, written_fields }
    }

    /// Why the rule is a barrier in its table, or `None` if it may be compiled.
    ///
    /// Rules are grouped by what a packet cannot match both of: addresses, the protocol, ports,
    /// devices. A packet that returns from a chain with another value may match what it did not.
    pub fn find_barrier_reason(&self, rule: &Rule) -> Option<BarrierReason> {
        const SELECTING_FIELDS: [Field; 7] = [
            Field::Saddr,
            Field::Daddr,
            Field::Proto,
            Field::Sport,
            Field::Dport,
            Field::Iif,
            Field::Oif,
        ];
        let written = self.written_fields.by_callee(&rule.target, &self.graph);
        let by_callee = || SELECTING_FIELDS.iter().any(|field| written.contains(*field));
        find_barrier_reason(rule, self.family)
            .or_else(|| by_callee().then_some(BarrierReason::ChainMayWriteRuleSelectingField))
    }
}

/// Whether a rule is stateful, or may be as far as weir knows: it must be evaluated exactly as
/// often as before.
pub fn is_stateful_rule(rule: &Rule, family: Family) -> bool {
    let stateful = |t: &Test| matches!(t, Test::Opaque { stateful: true, .. });
    lower_to_tests(rule, family).iter().any(stateful) || target_effects(&rule.target).stateful
}

/// Whether a rule only counts, and its evaluation drops nothing.
pub fn only_counts_and_never_hotdrops(rule: &Rule, family: Family) -> bool {
    rule.target == Target::None && !can_drop_truncated(rule, family)
}

/// Whether a truncated packet may be dropped by trying the rule.
pub fn can_drop_truncated(rule: &Rule, family: Family) -> bool {
    lower_to_tests(rule, family).iter().any(is_transport_header_or_hotdrop_test)
}

/// Whether the test reads a transport header: it drops a packet that has too little of one.
pub fn is_transport_header_or_hotdrop_test(test: &Test) -> bool {
    match test {
        Test::Field { field, .. } => field.row().layer == Layer::Transport,
        Test::EitherPort { .. } => true,
        Test::Opaque { hotdrop, .. } => *hotdrop != Hotdrop::Never,
        Test::Set { .. } | Test::Never => false,
    }
}

#[cfg(test)]
mod tests {
    use weir_model::rule_match::{Match, SetMatch, StatefulMatch};

    use super::*;

    #[test]
    fn stateful_and_set_matches_are_barriers() {
        let plain = Rule::unconditional(Target::Accept);
        assert_eq!(find_barrier_reason(&plain, Family::V4), None);
        let mut limited = plain.clone();
        limited
            .matches
            .push(Match::Stateful(Box::new(StatefulMatch { module: "limit", options: vec![] })));
        assert_eq!(find_barrier_reason(&limited, Family::V4), Some(BarrierReason::StatefulMatch));
        let mut in_set = plain.clone();
        let set = SetMatch {
            negated: false,
            name: "s".into(),
            src_directions: vec![true],
            options: vec![],
        };
        in_set.matches.push(Match::Set(set));
        assert_eq!(find_barrier_reason(&in_set, Family::V4), Some(BarrierReason::IpsetMatch));
    }
}
