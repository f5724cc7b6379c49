//! Whether two rules have the same tests, however they are written.

use weir_model::{
    Family, Field, Hotdrop, Match, Predicate, Rule, Target, Test, lower_to_tests_with_match_index,
    match_effects,
};

/// How tests of rules are compared.
#[derive(Clone, Copy)]
pub(crate) struct SameTestCriteria {
    pub family: Family,
    /// Sets of the same name are the same.
    pub firewalls_have_same_ipsets: bool,
    /// Packets with a truncated header are not compared: a test of multiport differs from others
    /// only for these.
    pub headers_are_whole: bool,
}

impl SameTestCriteria {
    /// Whether two rules have the same tests in the same order.
    pub fn have_same_tests(self, rules: [&Rule; 2]) -> bool {
        let [a, b] = rules;
        self.have_comparable_sets(a)
            && (a.base == b.base && a.matches == b.matches
                || self.have_same_lowered_tests(rules, &|_, _, _| true))
    }

    /// Sets of two firewalls may differ, whatever their names are.
    pub fn have_comparable_sets(self, rule: &Rule) -> bool {
        self.firewalls_have_same_ipsets || !rule.matches.iter().any(|m| matches!(m, Match::Set(_)))
    }

    /// Whether the fields of a packet and answers of stateless tests decide all that the rules do,
    /// and whether they match.
    pub fn have_no_state_set_or_effect(self, rules: [&Rule; 2]) -> bool {
        rules.into_iter().all(|rule| {
            let is_stateless = |m: &Match| {
                !matches!(m, Match::Set(_)) && !match_effects(m, self.family).is_stateful()
            };
            let is_decided = matches!(
                rule.target,
                Target::None | Target::Accept | Target::Drop | Target::Return | Target::Reject(_)
            ) || rule.target.jump_target().is_some();
            is_decided && rule.matches.iter().all(is_stateless)
        })
    }

    /// Whether those tests that `is_compared` selects, by rule, index of the match and test, are
    /// the same in the same order.
    pub fn have_same_lowered_tests(
        self,
        rules: [&Rule; 2],
        is_compared: &dyn Fn(&Rule, Option<usize>, &Test) -> bool,
    ) -> bool {
        let [a, b] = rules;
        let lowered = rules.map(|rule| {
            let mut tests = lower_to_tests_with_match_index(rule, self.family);
            if self.headers_are_whole {
                remove_implied_first_fragment_test(&mut tests, |(_, test)| test);
            }
            tests.retain(|(from, test)| is_compared(rule, *from, test));
            tests
        });
        let is_multiport = |rule: &Rule, from: Option<usize>| {
            from.is_some_and(|i| matches!(rule.matches[i], Match::Multiport { .. }))
        };
        let is_same =
            |((from_a, test_a), (from_b, test_b)): (&(_, Test), &(_, Test))| match (test_a, test_b)
            {
                (
                    Test::Set { index: i } | Test::Opaque { index: i, .. },
                    Test::Set { index: k } | Test::Opaque { index: k, .. },
                ) => a.matches[*i] == b.matches[*k],
                _ => {
                    (self.headers_are_whole || is_multiport(a, *from_a) == is_multiport(b, *from_b))
                        && (test_a == test_b
                            || field_tested_for_presence_only(test_a, self.family).is_some_and(
                                |field| {
                                    field_tested_for_presence_only(test_b, self.family)
                                        == Some(field)
                                },
                            ))
                }
            };
        lowered[0].len() == lowered[1].len() && lowered[0].iter().zip(&lowered[1]).all(is_same)
    }
}

/// Removes the test that a packet is no later fragment if another one reads its header, which a
/// later fragment does not have: the nft form writes both tests.
///
/// Without the test, a later fragment reaches the tests up to the one that reads the header. So it
/// stays if one of these keeps state or may drop the packet.
pub(crate) fn remove_implied_first_fragment_test<T>(
    tests: &mut Vec<T>,
    test_of: impl Fn(&T) -> &Test,
) {
    while let Some(at) = tests.iter().position(|test| is_first_fragment_test(test_of(test))) {
        let is_read_before = tests[..at].iter().any(|test| reads_transport_header(test_of(test)));
        let mut after = tests[at + 1..].iter().map(&test_of);
        let next = after.find(|test| {
            reads_transport_header(test) || !is_without_effect_on_later_fragment(test)
        });
        if !is_read_before && !next.is_some_and(reads_transport_header) {
            return;
        }
        tests.remove(at);
    }
}

/// Removes the test that a packet is no later fragment, for packets that are none.
pub(crate) fn remove_first_fragment_test<T>(tests: &mut Vec<T>, test_of: impl Fn(&T) -> &Test) {
    tests.retain(|test| !is_first_fragment_test(test_of(test)));
}

/// `! -f`.
fn is_first_fragment_test(test: &Test) -> bool {
    let Test::Field { field: Field::IsLaterFragment, predicate, negated: true } = test else {
        return false;
    };
    *predicate == Predicate::InSpans(vec![(1, 1)])
}

/// Whether no later fragment passes the test, because it reads a header that such a packet lacks,
/// and evaluating it drops none.
fn reads_transport_header(test: &Test) -> bool {
    match test {
        Test::Field { field, .. } => {
            matches!(field, Field::Sport | Field::Dport | Field::TcpFlags | Field::IcmpTypeAndCode)
        }
        Test::EitherPort { .. } => true,
        Test::Set { .. } | Test::Opaque { .. } | Test::Never => false,
    }
}

/// Whether evaluating the test on a later fragment changes nothing and drops nothing. Matching a
/// set may count in its elements. Tables with matches that write a field are not compared so.
fn is_without_effect_on_later_fragment(test: &Test) -> bool {
    match test {
        Test::Field { .. } | Test::EitherPort { .. } | Test::Never => true,
        Test::Opaque { stateful, hotdrop, .. } => {
            !stateful && matches!(hotdrop, Hotdrop::Never | Hotdrop::OnTruncatedHeader)
        }
        Test::Set { .. } => false,
    }
}

/// The field of a test that holds for all of its values.
pub(crate) fn field_tested_for_presence_only(test: &Test, family: Family) -> Option<Field> {
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
