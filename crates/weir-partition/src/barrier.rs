//! Rules that must not be moved.
//!
//! A *barrier* is a rule that must be evaluated exactly as often as before, and in the same order
//! relative to other barriers: it is stateful, tests a set that others may change, tests something
//! that no field models, or has a target that weir does not know. It is never moved, copied or
//! merged, and no set of packets describes what it matches. The result is derived from the table of
//! effects ([`weir_model::effect`]) and from how a rule is lowered to tests. This module is the
//! only definition of a barrier.

use std::fmt;

use weir_model::effect::UNKNOWN_TARGET;
use weir_model::{Family, Hotdrop, Layer, Rule, Target, Test, effects_of, tests_of};

/// Why a rule stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// A stateful match.
    Stateful,
    /// A match whose answer the packet does not give.
    Opaque,
    /// A match that tests a set, whose content may change.
    Set,
    /// A target that weir does not know.
    UnknownTarget,
    /// A target whose effect depends on more than the packet.
    TargetState,
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Barrier::Stateful => "has a stateful match",
            Barrier::Opaque => "has a match that the packet does not determine",
            Barrier::Set => "tests a set, whose content may change",
            Barrier::UnknownTarget => "has a target that weir does not know",
            Barrier::TargetState => "has a target whose effect depends on more than the packet",
        })
    }
}

/// Why the rule is a barrier, or `None` if it may be compiled.
///
/// ```
/// use weir_model::matching::{Match, SetMatch};
/// use weir_model::{Family, Rule, Target};
/// use weir_partition::{Barrier, barrier};
/// let mut rule = Rule::new(Target::Accept);
/// assert_eq!(barrier(&rule, Family::V4), None);
/// let set = SetMatch { negated: false, name: "s".into(), dirs: vec![true], options: vec![] };
/// rule.matches.push(Match::Set(set));
/// assert_eq!(barrier(&rule, Family::V4), Some(Barrier::Set));
/// ```
pub fn barrier(rule: &Rule, family: Family) -> Option<Barrier> {
    for t in tests_of(rule, family) {
        match t {
            Test::Opaque { stateful: true, .. } => return Some(Barrier::Stateful),
            Test::Opaque { stateful: false, .. } => return Some(Barrier::Opaque),
            Test::Set { .. } => return Some(Barrier::Set),
            Test::Field { .. } | Test::EitherPort { .. } | Test::Never => {}
        }
    }
    match effects_of(&rule.target) {
        UNKNOWN_TARGET => Some(Barrier::UnknownTarget),
        row if row.stateful => Some(Barrier::TargetState),
        _ => None,
    }
}

/// Whether a rule is stateful, or may be as far as weir knows: it must be evaluated exactly as
/// often as before.
pub fn keeps_state(rule: &Rule, family: Family) -> bool {
    let stateful = |t: &Test| matches!(t, Test::Opaque { stateful: true, .. });
    tests_of(rule, family).iter().any(stateful) || effects_of(&rule.target).stateful
}

/// Whether a rule only counts, and its evaluation drops nothing.
pub fn only_counts(rule: &Rule, family: Family) -> bool {
    rule.target == Target::None && !may_drop(rule, family)
}

/// Whether a truncated packet may be dropped by trying the rule.
pub fn may_drop(rule: &Rule, family: Family) -> bool {
    tests_of(rule, family).iter().any(looks_at_transport)
}

/// Whether the test reads a transport header: it drops a packet that has too little of one.
pub fn looks_at_transport(test: &Test) -> bool {
    match test {
        Test::Field { field, .. } => field.row().layer == Layer::Transport,
        Test::EitherPort { .. } => true,
        Test::Opaque { hotdrop, .. } => *hotdrop != Hotdrop::Never,
        Test::Set { .. } | Test::Never => false,
    }
}

#[cfg(test)]
mod tests {
    use weir_model::matching::{Match, SetMatch, Stateful};

    use super::*;

    #[test]
    fn a_budget_a_set_and_an_unknown_target_are_barriers() {
        let plain = Rule::new(Target::Accept);
        assert_eq!(barrier(&plain, Family::V4), None);
        let mut limited = plain.clone();
        limited
            .matches
            .push(Match::Stateful(Box::new(Stateful { module: "limit", options: vec![] })));
        assert_eq!(barrier(&limited, Family::V4), Some(Barrier::Stateful));
        let mut in_set = plain.clone();
        let set = SetMatch { negated: false, name: "s".into(), dirs: vec![true], options: vec![] };
        in_set.matches.push(Match::Set(set));
        assert_eq!(barrier(&in_set, Family::V4), Some(Barrier::Set));
    }
}
