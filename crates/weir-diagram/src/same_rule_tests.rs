//! Whether two rules have the same tests, however they are written.

use weir_model::{Family, Field, Match, Predicate, Rule, Test, lower_to_tests_with_match_index};

use crate::PacketSpace;

/// Whether two rules have the same tests in the same order. A test of multiport differs from others
/// only for truncated headers, and need not be the same if `exclude_truncated_headers`.
pub(crate) fn have_same_tests(
    space: &PacketSpace<'_>,
    headers_are_whole: bool,
    rules: [&Rule; 2],
) -> bool {
    let [a, b] = rules;
    let has_sets = a.matches.iter().any(|m| matches!(m, Match::Set(_)));
    if has_sets && !space.firewalls_have_same_ipsets() {
        return false;
    }
    if a.base == b.base && a.matches == b.matches {
        return true;
    }
    let family = space.layout.family;
    let mut lowered = rules.map(|rule| lower_to_tests_with_match_index(rule, family));
    if headers_are_whole {
        lowered.iter_mut().for_each(drop_implied_first_fragment_test);
    }
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

/// Removes the test that a packet is no later fragment if another one reads its header, which a
/// later fragment does not have: nft needs both.
fn drop_implied_first_fragment_test(tests: &mut Vec<(Option<usize>, Test)>) {
    let reads_header = |test: &Test| match test {
        Test::Field { field, .. } => {
            matches!(field, Field::Sport | Field::Dport | Field::TcpFlags | Field::IcmpTypeAndCode)
        }
        Test::EitherPort { .. } => true,
        _ => false,
    };
    if tests.iter().any(|(_, test)| reads_header(test)) {
        tests.retain(|(_, test)| {
            let Test::Field { field: Field::IsLaterFragment, predicate, negated: true } = test
            else {
                return true;
            };
            *predicate != Predicate::InSpans(vec![(1, 1)])
        });
    }
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
