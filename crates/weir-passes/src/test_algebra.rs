//! What two rules have to do with each other, told from their tests alone.
//!
//! Three questions: can a packet match both ([`TestAlgebra::disjoint`]), does one hold whenever the other
//! does ([`TestAlgebra::covers`]), may they change places ([`TestAlgebra::commute`])? The answers are cautious:
//! "no" may mean "I cannot tell". A test of a field that some rule of the table may have changed in
//! between is no evidence of anything.

use weir_model::effect::changed_within;
use weir_model::mask::masked_interval;
use weir_model::{
    Family, Field, FieldSet, IfaceMatch, Match, Predicate, Rule, Table, Test, tests_of,
};

use crate::run::{barrier, looks_at_transport};

/// What can be told of the rules of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestAlgebra {
    family: Family,
    /// Fields that a rule of the table may change while the packet walks it.
    altered: FieldSet,
}

impl TestAlgebra {
    /// Of a table's rules.
    pub fn of(table: &Table, family: Family) -> TestAlgebra {
        TestAlgebra { family, altered: changed_within(table) }
    }

    /// The tests of a rule.
    pub fn tests(self, rule: &Rule) -> Vec<Test> {
        tests_of(rule, self.family)
    }

    /// Whether all that the rule tests stays as it is during the walk: fields that no rule changes,
    /// no set, no question.
    pub fn is_settled(self, rule: &Rule) -> bool {
        self.tests(rule).iter().all(|t| match t {
            Test::Field { field, .. } => !self.alters(*field),
            Test::EitherPort { .. } => !self.alters(Field::Sport) && !self.alters(Field::Dport),
            Test::Never => true,
            Test::Set { .. } | Test::Opaque { .. } => false,
        })
    }

    fn alters(self, field: Field) -> bool {
        self.altered.contains(field)
    }

    /// Whether no packet passes the tests of both.
    pub fn disjoint(self, a: &[Test], b: &[Test]) -> bool {
        let never = |tests: &[Test]| tests.contains(&Test::Never);
        never(a) || never(b) || a.iter().any(|s| b.iter().any(|t| self.contradict(s, t)))
    }

    /// Whether one test excludes the other.
    fn contradict(self, a: &Test, b: &Test) -> bool {
        let (
            Test::Field { field: f, predicate: p, negated: np },
            Test::Field { field: g, predicate: q, negated: nq },
        ) = (a, b)
        else {
            return false;
        };
        if f != g || self.alters(*f) {
            return false;
        }
        let max = Field::max(*f, self.family);
        match (np, nq) {
            (false, false) => apart(p, q, *f, max),
            (false, true) => inside(p, q, max),
            (true, false) => inside(q, p, max),
            (true, true) => false,
        }
    }

    /// Whether the test holds wherever all of the others do, asked of the packet as it is then.
    pub fn implied(self, test: &Test, by: &[Test]) -> bool {
        if by.contains(&Test::Never) {
            return true;
        }
        let Test::Field { field, predicate, negated } = test else {
            return !matches!(test, Test::Set { .. } | Test::Opaque { .. }) && by.contains(test);
        };
        let max = Field::max(*field, self.family);
        let is_presence = *field == Field::Sport && *predicate == Predicate::Present && !negated;
        by.iter().any(|t| match t {
            Test::Field { field: g, predicate: q, negated: nq } if g == field => {
                match (negated, nq) {
                    (false, false) => inside(q, predicate, max),
                    (false, true) => *predicate == Predicate::Present,
                    (true, false) => apart(q, predicate, *field, max),
                    (true, true) => inside(predicate, q, max),
                }
            }
            Test::Field { field: Field::Sport | Field::Dport, .. } | Test::EitherPort { .. } => {
                is_presence
            }
            _ => false,
        })
    }

    /// Whether every packet that passes the tests of `b` passes those of `a`.
    pub fn covers(self, a: &[Test], b: &[Test]) -> bool {
        a.iter().all(|t| self.implied(t, b))
    }

    /// Whether two rules that stand one after the other may change places: neither is a barrier,
    /// no packet matches both, and none with a cut header meets another of the two first.
    pub fn commute(self, a: &Rule, b: &Rule) -> bool {
        if barrier(a, self.family).is_some() || barrier(b, self.family).is_some() {
            return false;
        }
        let (s, t) = (self.tests(a), self.tests(b));
        if !self.disjoint(&s, &t) {
            return false;
        }
        // A header that is cut short drops the packet at the first rule that looks.
        let (p, q) = (approach(&s), approach(&t));
        let looks = p.len() < s.len() || q.len() < t.len();
        !looks || self.disjoint(p, q) || (header(a).is_some() && header(a) == header(b))
    }
}

/// Whether no value has both.
fn apart(p: &Predicate, q: &Predicate, field: Field, max: u128) -> bool {
    use Predicate::{AnyBit, Device, In, Masked};
    match (p, q) {
        (In(a), In(b)) => a.iter().all(|x| b.iter().all(|y| x.1 < y.0 || y.1 < x.0)),
        (Masked { value: v, mask: m }, Masked { value: w, mask: n }) => (v ^ w) & m & n != 0,
        (In(a), Masked { value, mask }) | (Masked { value, mask }, In(a)) => {
            match masked_interval(*value, *mask, max) {
                Some((lo, hi)) => a.iter().all(|x| x.1 < lo || hi < x.0),
                None => a.iter().all(|x| x.0 == x.1 && x.0 & mask != *value),
            }
        }
        (AnyBit(m), AnyBit(n)) => field == Field::CtState && m & n == 0 && (m | n) < 32,
        (Device { name: a, prefix: pa }, Device { name: b, prefix: pb }) => match (pa, pb) {
            (false, false) => a != b,
            (true, false) => !b.starts_with(&**a),
            (false, true) => !a.starts_with(&**b),
            (true, true) => !a.starts_with(&**b) && !b.starts_with(&**a),
        },
        _ => false,
    }
}

/// Whether every value of the first is one of the second.
fn inside(p: &Predicate, q: &Predicate, max: u128) -> bool {
    use Predicate::{AnyBit, Device, In, Masked, Present};
    let within = |x: &(u128, u128), b: &[(u128, u128)]| b.iter().any(|y| y.0 <= x.0 && x.1 <= y.1);
    match (p, q) {
        (_, Present) => true,
        (In(a), In(b)) => a.iter().all(|x| within(x, b)),
        (Masked { value: v, mask: m }, Masked { value: w, mask: n }) => n & !m == 0 && v & n == *w,
        (In(a), Masked { value, mask }) => match masked_interval(*value, *mask, max) {
            Some(span) => a.iter().all(|x| within(x, &[span])),
            None => a.iter().all(|x| x.0 == x.1 && x.0 & mask == *value),
        },
        (Masked { value, mask }, In(b)) => {
            masked_interval(*value, *mask, max).is_some_and(|span| within(&span, b))
        }
        (AnyBit(m), AnyBit(n)) => m & !n == 0,
        (Device { name: a, prefix: pa }, Device { name: b, prefix: pb }) => match (pa, pb) {
            (_, true) => a.starts_with(&**b),
            (false, false) => a == b,
            (true, false) => false,
        },
        _ => false,
    }
}

/// The tests before the first that looks at a transport header; all of them where none does.
pub(crate) fn approach(tests: &[Test]) -> &[Test] {
    let first = tests.iter().position(looks_at_transport).unwrap_or(tests.len());
    &tests[..first]
}

/// Which kind of match asks for the transport header: they want different numbers of bytes of it.
/// `None` where none does, or several kinds do.
fn header(rule: &Rule) -> Option<std::mem::Discriminant<Match>> {
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
pub(crate) fn other_device(a: Option<&IfaceMatch>, b: Option<&IfaceMatch>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    let device = |m: &IfaceMatch| Predicate::Device { name: m.name.clone(), prefix: m.prefix };
    !a.negated && !b.negated && apart(&device(a), &device(b), Field::Iif, 0)
}
