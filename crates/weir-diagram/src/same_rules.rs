//! Whether two rules have the same tests, however they are written.

use weir_model::{Family, Field, Match, Predicate, Rule, Test, lower_to_tests_with_match_index};

use crate::PacketSpace;

/// Whether two rules have the same tests in the same order. A test of multiport differs from others
/// only for truncated headers, and need not be the same if `headers_are_whole`.
pub(crate) fn have_same_tests(
    space: &PacketSpace<'_>,
    headers_are_whole: bool,
    rules: [&Rule; 2],
) -> bool {
    let [a, b] = rules;
    let has_sets = a.matches.iter().any(|m| matches!(m, Match::Set(_)));
    if has_sets && !space.has_same_sets() {
        return false;
    }
    if a.base == b.base && a.matches == b.matches {
        return true;
    }
    let family = space.layout.family;
    let lowered = rules.map(|rule| lower_to_tests_with_match_index(rule, family));
    let is_multiport = |rule: &Rule, from: Option<usize>| {
        from.is_some_and(|i| matches!(rule.matches[i], Match::Multiport { .. }))
    };
    let is_same =
        |((from_a, test_a), (from_b, test_b)): (&(_, Test), &(_, Test))| match (test_a, test_b) {
            (
                Test::Set { index: i } | Test::Opaque { index: i, .. },
                Test::Set { index: k } | Test::Opaque { index: k, .. },
            ) => a.matches[*i] == b.matches[*k],
            _ => {
                (headers_are_whole || is_multiport(a, *from_a) == is_multiport(b, *from_b))
                    && (test_a == test_b
                        || field_tested_for_presence_only(test_a, family).is_some_and(|field| {
                            field_tested_for_presence_only(test_b, family) == Some(field)
                        }))
            }
        };
    lowered[0].len() == lowered[1].len() && lowered[0].iter().zip(&lowered[1]).all(is_same)
}

/// The field of a test that holds for all of its values.
fn field_tested_for_presence_only(test: &Test, family: Family) -> Option<Field> {
    match test {
        Test::Field { field, predicate: Predicate::Present, negated: false } => Some(*field),
        Test::Field { field, predicate: Predicate::InSpans(spans), negated: false }
            if spans[..] == [(0, field.max_value(family))] =>
        {
            Some(*field)
        }
        _ => None,
    }
}
