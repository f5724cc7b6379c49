//! Relations between two rules, derived from their tests alone.
//!
//! There are three questions: can a packet match both ([`TestAlgebra::is_disjoint`]), does one
//! match whenever the other does ([`TestAlgebra::covers`]), may they be exchanged
//! ([`TestAlgebra::can_commute_as_disjoint_rules`])? The answers are conservative: "no" may mean
//! "unknown". A test of a field that some rule of the table may have changed in between proves
//! nothing.

use weir_model::effect::collect_fields_changed_within_table;
use weir_model::{
    Family, Field, FieldSet, IfaceMatch, Match, Predicate, Rule, Table, Test, lower_to_tests,
};

use crate::predicate_relations::{implies, is_disjoint};
use crate::rule_barrier::{find_barrier_reason, is_transport_header_or_hotdrop_test};

/// What can be told of the rules of one table.
///
/// ```
/// use weir_model::rule_match::ProtoMatch;
/// use weir_model::{Family, Rule, Table, TableName, Target};
/// use weir_partition::TestAlgebra;
/// let rule = |proto| {
///     let mut rule = Rule::unconditional(Target::Accept);
///     rule.base.proto = Some(ProtoMatch { negated: false, proto });
///     rule
/// };
/// let table = Table {
///     name: TableName::Filter,
///     chains: vec![],
///     leading_comments: vec![],
///     trailing_comments: vec![],
/// };
/// let algebra = TestAlgebra::for_table(&table, Family::V4);
/// assert!(algebra.can_commute_as_disjoint_rules(&rule(6), &rule(17)));
/// assert!(!algebra.can_commute_as_disjoint_rules(&rule(6), &rule(6)));
/// let all = algebra.tests_of_rule(&Rule::unconditional(Target::Drop));
/// assert!(algebra.first_covers_second(&all, &algebra.tests_of_rule(&rule(6))));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TestAlgebra {
    family: Family,
    /// Fields that a rule of the table may change while the packet walks it.
    altered_fields: FieldSet,
}

impl TestAlgebra {
    /// Of a table's rules.
    pub fn for_table(table: &Table, family: Family) -> TestAlgebra {
        TestAlgebra { family, altered_fields: collect_fields_changed_within_table(table) }
    }

    /// The tests of a rule.
    pub fn tests_of_rule(self, rule: &Rule) -> Vec<Test> {
        lower_to_tests(rule, self.family)
    }

    /// Whether all that the rule tests stays as it is during the walk: fields that no rule changes,
    /// no set, no question.
    pub fn has_only_stable_tests(self, rule: &Rule) -> bool {
        self.tests_of_rule(rule).iter().all(|t| match t {
            Test::Field { field, .. } => !self.is_altered_field(*field),
            Test::EitherPort { .. } => {
                !self.is_altered_field(Field::Sport) && !self.is_altered_field(Field::Dport)
            }
            Test::Never => true,
            Test::Set { .. } | Test::Opaque { .. } => false,
        })
    }

    fn is_altered_field(self, field: Field) -> bool {
        self.altered_fields.contains(field)
    }

    /// Whether no packet passes the tests of both.
    pub fn is_disjoint(self, a: &[Test], b: &[Test]) -> bool {
        let never = |tests: &[Test]| tests.contains(&Test::Never);
        never(a) || never(b) || a.iter().any(|s| b.iter().any(|t| self.contradicts(s, t)))
    }

    /// Whether one test excludes the other.
    fn contradicts(self, a: &Test, b: &Test) -> bool {
        let (
            Test::Field { field: f, predicate: p, negated: np },
            Test::Field { field: g, predicate: q, negated: nq },
        ) = (a, b)
        else {
            return false;
        };
        if f != g || self.is_altered_field(*f) {
            return false;
        }
        match (np, nq) {
            (false, false) => is_disjoint(p, q, *f, self.family),
            (false, true) => implies(p, q, *f, self.family),
            (true, false) => implies(q, p, *f, self.family),
            (true, true) => false,
        }
    }

    /// Whether the test holds wherever all of the others do, asked of the packet as it is then.
    pub fn is_implied(self, test: &Test, by: &[Test]) -> bool {
        if by.contains(&Test::Never) {
            return true;
        }
        let Test::Field { field, predicate, negated } = test else {
            return !matches!(test, Test::Set { .. } | Test::Opaque { .. }) && by.contains(test);
        };
        let is_presence = *field == Field::Sport && *predicate == Predicate::Present && !negated;
        by.iter().any(|t| match t {
            Test::Field { field: g, predicate: q, negated: nq } if g == field => {
                match (negated, nq) {
                    (false, false) => implies(q, predicate, *field, self.family),
                    (false, true) => *predicate == Predicate::Present,
                    (true, false) => is_disjoint(q, predicate, *field, self.family),
                    (true, true) => implies(predicate, q, *field, self.family),
                }
            }
            Test::Field { field: Field::Sport | Field::Dport, .. } | Test::EitherPort { .. } => {
                is_presence
            }
            _ => false,
        })
    }

    /// Whether every packet that passes the tests of `b` passes those of `a`.
    pub fn first_covers_second(self, a: &[Test], b: &[Test]) -> bool {
        a.iter().all(|t| self.is_implied(t, b))
    }

    /// Whether two rules that stand one after the other may change places: neither is a barrier,
    /// no packet matches both, and none with a truncated header meets another of the two first.
    pub fn can_commute_as_disjoint_rules(self, a: &Rule, b: &Rule) -> bool {
        if find_barrier_reason(a, self.family).is_some()
            || find_barrier_reason(b, self.family).is_some()
        {
            return false;
        }
        let (s, t) = (self.tests_of_rule(a), self.tests_of_rule(b));
        if !self.is_disjoint(&s, &t) {
            return false;
        }
        // A header that is truncated drops the packet at the first rule that looks.
        let (p, q) = (take_tests_before_transport(&s), take_tests_before_transport(&t));
        let looks = p.len() < s.len() || q.len() < t.len();
        !looks
            || self.is_disjoint(p, q)
            || (unique_transport_match_kind(a).is_some()
                && unique_transport_match_kind(a) == unique_transport_match_kind(b))
    }
}

/// The tests before the first that reads a transport header; all of them where none does.
pub fn take_tests_before_transport(tests: &[Test]) -> &[Test] {
    let first = tests.iter().position(is_transport_header_or_hotdrop_test).unwrap_or(tests.len());
    &tests[..first]
}

/// Which kind of match reads the transport header: they need different numbers of bytes of it.
/// `None` if none does, or several kinds do.
fn unique_transport_match_kind(rule: &Rule) -> Option<std::mem::Discriminant<Match>> {
    let mut kinds = rule.matches.iter().filter(|m| {
        matches!(
            m,
            Match::Tcp { .. }
                | Match::Udp { .. }
                | Match::Sctp { .. }
                | Match::Dccp { .. }
                | Match::Icmp(_)
                | Match::Multiport { .. }
        )
    });
    let first = std::mem::discriminant(kinds.next()?);
    kinds.all(|m| std::mem::discriminant(m) == first).then_some(first)
}

/// Whether no packet has both devices.
pub fn is_disjoint_unnegated_device(a: Option<&IfaceMatch>, b: Option<&IfaceMatch>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    let device = |m: &IfaceMatch| Predicate::Device { name: m.name.clone(), prefix: m.is_prefix };
    !a.negated && !b.negated && is_disjoint(&device(a), &device(b), Field::Iif, Family::V4)
}
