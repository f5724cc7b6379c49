//! The fields that rules test and write: for diagrams in which chains are calls
//! ([`common_chains`](crate::common_chains)).

use weir_model::effect::fields_written_for_later_rules;
use weir_model::{
    Family, Field, FieldSet, Rule, Table, Target, Test, lower_to_tests, match_effects,
    target_effects,
};

/// What the rules of a diagram do with fields.
#[derive(Clone, Copy)]
pub(crate) struct FieldUseWithCalledWrites {
    /// Fields that its rules, and those of chains that are part of it, test or write.
    pub tested_or_written: FieldSet,
    /// Fields that the chains that it calls write, and their callees.
    pub written_by_calls: FieldSet,
}

/// Whether a match of some rule writes a field: no effect shows it.
pub(crate) fn has_match_that_writes(tables: [&Table; 2]) -> bool {
    let mut matches = tables.into_iter().flat_map(|t| &t.chains).flat_map(|c| &c.rules);
    matches.any(|rule| rule.matches.iter().any(|m| !match_effects(m, Family::V4).writes.is_empty()))
}

/// The fields that a diagram of the rule shows: those that it tests, writes, and computes values
/// from. What else a translation or an opaque test depends on is a variable, which is another one
/// after each change of the packet.
pub(crate) fn collect_tested_and_written_fields(rule: &Rule, family: Family) -> FieldSet {
    let row = target_effects(&rule.target);
    let mut used = match &rule.target {
        Target::Nat(_) => row.writes,
        _ => row.reads.union(fields_written_for_later_rules(rule)),
    };
    for test in lower_to_tests(rule, family) {
        used = used.union(match test {
            Test::Field { field, .. } => FieldSet::from_fields(&[field]),
            Test::EitherPort { .. } => FieldSet::from_fields(&[Field::Sport, Field::Dport]),
            Test::Set { .. } => FieldSet::from_fields(&IPSET_ELEMENT_FIELDS),
            Test::Opaque { index, .. } => match_effects(&rule.matches[index], family).reads,
            Test::Never => FieldSet::NONE,
        });
    }
    used
}

/// What elements of sets are compared with.
const IPSET_ELEMENT_FIELDS: [Field; 10] = [
    Field::Saddr,
    Field::Daddr,
    Field::Iif,
    Field::Oif,
    Field::Proto,
    Field::Sport,
    Field::Dport,
    Field::IcmpTypeAndCode,
    Field::SourceMac,
    Field::Mark,
];
