//! The table of effects: what targets and matches do to a packet and to other state.
//!
//! A compiler may move, merge or remove a rule only if it knows what the rule changes for later
//! rules. Only this module defines that. Each target is a row of [`TARGETS`]: the fields it may
//! write, the ipsets it may change, whether it may drop the packet, and whether the traversal
//! continues after it. Each match is a row of [`MATCHES`]: the fields it reads, what else its
//! result depends on, and whether evaluating it may drop the packet (*hotdrop*).
//!
//! [`effects_of`] narrows a target's row by its options: `SET --add-set` writes no mark, `CONNMARK
//! --save-mark` does not change the packet's mark. [`match_effects`] finds the row of a match. A
//! target or match without a row reads and writes everything, is stateful, and may drop the packet:
//! the rule is a barrier. Objects that rules share by name are in [`named`].
//!
//! The rows are compared with the kernel: packets in a network namespace show what each target
//! writes and which packets each match drops (`effects` in the tests of `weir-verify`). If one
//! entry of `writes`, `unknown`, `sets`, `drops`, `ends` or `hotdrop` in a row is changed, that
//! test must fail. Columns that packets cannot show (`emits`, `unmodelled`, `stateful`) are
//! compared with lists there.

mod changing_sets;
mod conntrack;
mod field_set;
mod matches;
pub mod named;
mod rule;
mod targets;

pub use self::changing_sets::{ChangingSets, sets_named_by};
pub use self::conntrack::Conntrack;
pub use self::field_set::FieldSet;
pub use self::matches::{
    Depends, Hotdrop, MATCHES, MatchRow, UNKNOWN_MATCH, match_effects, match_effects_in,
    match_module_of,
};
pub use self::rule::{conntrack_of, conntrack_of_all, needs_conntrack};
pub use self::targets::{
    Ends, SetWrites, TARGETS, TargetRow, UNKNOWN_TARGET, changed_within, effects_in, effects_of,
    module_of,
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::field::Field;
    use crate::matching::{Opaque, OptionValue, Value};
    use crate::target::{Effect, ExtensionTarget, Target};

    fn other(module: &'static str, options: &[&'static str]) -> Target {
        let option = |name: &&'static str| OptionValue { negated: false, name, value: Value::Flag };
        let options = options.iter().map(option).collect();
        Target::Effect(Box::new(Effect::Other(ExtensionTarget { module, options })))
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
