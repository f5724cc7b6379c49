//! The table of effects: what targets and matches do to a packet and to other state.
//!
//! A compiler may move, merge or remove a rule only if it knows what the rule changes for later
//! rules. Only this module defines that. Each target is a row of [`TARGET_ROWS`]: the fields it may
//! write, the ipsets it may change, whether it may drop the packet, and whether the traversal
//! continues after it. Each match is a row of [`MATCH_ROWS`]: the fields it reads, what else its
//! result depends on, and whether evaluating it may drop the packet (*hotdrop*).
//!
//! [`target_effects`] narrows a target's row by its options: `SET --add-set` writes no mark,
//! `CONNMARK --save-mark` does not change the packet's mark. [`known_write`] is the value that a
//! target writes, where its options determine it. [`match_effects`] finds the row of a
//! match. A target or match without a row reads and writes everything, is stateful, and may drop
//! the packet: the rule is a barrier. Objects that rules share by name are in [`shared_objects`].
//!
//! The rows are compared with the kernel: packets in a network namespace show what each target
//! writes and which packets each match drops (`effects` in the tests of `weir-verify`). If one
//! entry of a row is changed, that test must fail. Columns that packets cannot show
//! ([`is_observable`](TargetRow::is_observable), [`sends_copy`](TargetRow::sends_copy),
//! [`changes_unmodelled_state`](TargetRow::changes_unmodelled_state) and
//! [`stateful`](TargetRow::stateful)) are compared with lists there.

mod conntrack_demand_level;
mod field_set;
mod known_write;
mod matches;
mod opaque_module_row;
mod option_text;
mod rule_conntrack_activation;
mod second_route_lookup;
pub mod shared_objects;
mod targets;
mod traffic_changed_sets;
mod written_fields;

pub use self::conntrack_demand_level::ConntrackDemand;
pub use self::field_set::FieldSet;
pub use self::known_write::{KnownWrite, known_write};
pub use self::matches::{
    Hotdrop, MATCH_ROWS, MatchDependency, MatchRow, OPAQUE_MATCHES_WITHOUT_SHARED_OBJECTS,
    UNKNOWN_MATCH_ROW, match_effects, match_effects_from_rows, match_module_name,
};
pub use self::opaque_module_row::OpaqueModuleWithoutSharedObjects;
pub use self::rule_conntrack_activation::{
    has_conntrack_enabling_rule, is_conntrack_enabling_rule, rule_conntrack_demand,
    total_conntrack_demand,
};
pub use self::second_route_lookup::{can_mangle_reroute_local_packets, reads_packet_route};
pub use self::targets::{
    IpsetWrites, OPAQUE_TARGETS_WITHOUT_SHARED_OBJECTS, TARGET_ROWS, TargetRow, TargetTermination,
    UNKNOWN_TARGET_ROW, target_effects, target_effects_from_rows, verdict_or_extension_name,
};
pub use self::traffic_changed_sets::{ChangingSets, list_target_sets_with_write_flags};
pub use self::written_fields::{
    FieldsWrittenByChain, collect_fields_changed_within_table, fields_written_for_later_rules,
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::field::Field;
    use crate::rule_match::{
        ExtensionValue, Match, OpaqueExtension, TypedExtensionOption, WrittenOption,
    };
    use crate::target::{Effect, ExtensionTarget, Target};

    /// A name that no module can have: iptables reads the blank as the end of the word.
    const IMPOSSIBLE_MODULE_NAME: &str = "no module";

    fn effect_target_with_flags(module: &'static str, options: &[&'static str]) -> Target {
        let option = |name: &&'static str| TypedExtensionOption {
            negated: false,
            name,
            value: ExtensionValue::Flag,
        };
        let options = options.iter().map(option).collect();
        Target::Effect(Box::new(Effect::Other(ExtensionTarget { module, options })))
    }

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let targets: BTreeSet<_> = TARGET_ROWS.iter().map(|r| r.name).collect();
        let matches: BTreeSet<_> = MATCH_ROWS.iter().map(|r| r.name).collect();
        assert_eq!((targets.len(), matches.len()), (TARGET_ROWS.len(), MATCH_ROWS.len()));
    }

    /// A module that was moved from one table to the other is in only one of them.
    #[test]
    fn a_module_with_an_effect_row_has_no_opaque_row() {
        for opaque in OPAQUE_TARGETS_WITHOUT_SHARED_OBJECTS {
            assert!(TARGET_ROWS.iter().all(|row| row.name != opaque.name), "{}", opaque.name);
        }
        for opaque in OPAQUE_MATCHES_WITHOUT_SHARED_OBJECTS {
            assert!(MATCH_ROWS.iter().all(|row| row.name != opaque.name), "{}", opaque.name);
        }
    }

    #[test]
    fn written_options_become_the_variant_of_their_modules_row() {
        let option =
            || vec![WrittenOption { negated: true, name: "new", argument: Some("a b".into()) }];
        let Target::Opaque(opaque) = Target::from_written_options(IMPOSSIBLE_MODULE_NAME, option())
        else {
            panic!("a target without a row is opaque");
        };
        assert_eq!(opaque.words, ["!", "--new", "a b"]);
        let effect = Target::from_written_options("NFLOG", option());
        assert!(matches!(&effect, Target::Effect(e) if matches!(&**e, Effect::Other(_))));
        assert!(matches!(Target::from_written_options("QUEUE", option()), Target::Divert(_)));
        assert!(matches!(Match::from_written_options("recent", option()), Match::Stateful(_)));
        assert!(matches!(Match::from_written_options("u32", option()), Match::UnmodelledInput(_)));
        assert!(matches!(
            Match::from_written_options(IMPOSSIBLE_MODULE_NAME, option()),
            Match::Opaque(_)
        ));
    }

    /// Interpreter and diagrams let only a target that continues drop the packet itself.
    fn is_drop_of_row_evaluated(row: &TargetRow) -> bool {
        !row.may_drop || row.termination == TargetTermination::Never
    }

    #[test]
    fn every_row_that_may_drop_is_evaluated_by_the_engines() {
        let dropping = TARGET_ROWS.iter().filter(|row| row.may_drop).count();
        assert!(dropping > 0, "no row drops, so the test shows nothing");
        for row in TARGET_ROWS {
            assert!(is_drop_of_row_evaluated(row), "{} may drop, but is handed over", row.name);
        }
        let diverts = TARGET_ROWS.iter().find(|row| row.name == "TPROXY").expect("a known target");
        assert!(!is_drop_of_row_evaluated(&TargetRow { may_drop: true, ..*diverts }));
    }

    #[test]
    fn every_field_of_unknown_value_is_a_written_field() {
        for row in TARGET_ROWS {
            assert!(row.unknown_value_writes.without(row.writes).is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn a_target_without_a_row_writes_everything() {
        let opaque = OpaqueExtension { name: IMPOSSIBLE_MODULE_NAME.into(), words: Vec::new() };
        assert_eq!(target_effects(&Target::Opaque(Box::new(opaque))), UNKNOWN_TARGET_ROW);
        assert_eq!(
            target_effects(&effect_target_with_flags(IMPOSSIBLE_MODULE_NAME, &[])),
            UNKNOWN_TARGET_ROW
        );
        assert!(UNKNOWN_TARGET_ROW.writes.contains(Field::Daddr));
    }

    #[test]
    fn only_targets_that_report_or_do_nothing_have_no_effect_on_later_rules() {
        let has_none = |target: &Target| target_effects(target).has_no_effect_on_later_rules();
        for name in ["LOG", "NFLOG", "AUDIT", "TRACE"] {
            assert!(has_none(&effect_target_with_flags(name, &[])), "{name}");
        }
        for name in ["TEE", "CHECKSUM", "CONNMARK", "CT", "ECN", "TCPMSS", IMPOSSIBLE_MODULE_NAME] {
            assert!(!has_none(&effect_target_with_flags(name, &[])), "{name}");
        }
        assert!(
            !has_none(&effect_target_with_flags("SET", &["add-set"])) && !has_none(&Target::Drop)
        );
    }

    #[test]
    fn options_narrow_the_effects_of_a_row() {
        let mapped = target_effects(&effect_target_with_flags("SET", &["map-set", "map-mark"]));
        assert!(mapped.writes.contains(Field::Mark) && mapped.ipset_writes == IpsetWrites::None);
        let added = target_effects(&effect_target_with_flags("SET", &["add-set"]));
        assert!(added.writes.is_empty() && added.ipset_writes == IpsetWrites::Named);
        let restored = target_effects(&effect_target_with_flags("CONNMARK", &["restore-mark"]));
        assert_eq!(restored.writes, FieldSet::from_fields(&[Field::Mark]));
        let saved = target_effects(&effect_target_with_flags("CONNMARK", &["save-mark"]));
        assert_eq!(saved.writes, FieldSet::from_fields(&[Field::CtMark]));
    }
}
