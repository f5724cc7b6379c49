//! The algebra of sets against brute force over small fields.

use proptest::prelude::*;
use weir_model::{Family, Field, Predicate, SharedName};
use weir_partition::interval::Interval;
use weir_partition::predicate_relations::{implies, is_disjoint};
use weir_partition::{
    BitPattern, CodeAxis, CodeSet, HyperRect, IntervalSet, Prefix, split_elementary_intervals,
};

/// The highest number of the small field.
const MAX: u128 = 31;

fn intervals() -> impl Strategy<Value = Vec<Interval>> {
    prop::collection::vec((0..=MAX, 0..=MAX), 0..5)
}

fn members(of: &[Interval]) -> Vec<bool> {
    (0..=MAX).map(|v| of.iter().any(|(lo, hi)| *lo <= v && v <= *hi)).collect()
}

fn is_normal(set: &IntervalSet) -> bool {
    let intervals = set.intervals();
    intervals.iter().all(|(lo, hi)| lo <= hi) && intervals.windows(2).all(|w| w[0].1 + 1 < w[1].0)
}

fn pattern() -> impl Strategy<Value = BitPattern> {
    (0..=MAX, 0..=MAX, any::<bool>()).prop_map(|(value, mask, wild)| {
        BitPattern::new(if wild { value } else { value & mask }, mask)
    })
}

/// Tests of the mark: a field of 32 bits of which the lowest are tried.
fn predicate() -> impl Strategy<Value = Predicate> {
    let top = !MAX & 0xffff_ffff;
    prop_oneof![
        Just(Predicate::Present),
        intervals().prop_map(Predicate::InSpans),
        (0..=MAX, 0..=MAX)
            .prop_map(move |(v, m)| Predicate::Masked { value: v & m, mask: m | top }),
        (0..=MAX).prop_map(Predicate::AnyBit),
    ]
}

fn device() -> impl Strategy<Value = Predicate> {
    ("[ab]{0,2}", any::<bool>()).prop_map(|(name, prefix)| Predicate::Device {
        name: SharedName::from(name.as_str()),
        prefix,
    })
}

/// A box that is small on two axes, in the header and in two atoms.
fn small_box() -> impl Strategy<Value = Option<HyperRect>> {
    let span = || (0u128..5, 0u128..5);
    let atoms = prop::collection::vec((0u32..2, any::<bool>()), 0..3);
    (span(), span(), 1usize..8, atoms).prop_map(|(saddr, dport, header, atoms)| {
        let codes = CodeSet::from_codes((0..3).filter(|c| header >> c & 1 == 1));
        let rect = HyperRect::all_packets(Family::V4)
            .restrict_to_interval(Field::Saddr, saddr)?
            .restrict_to_interval(Field::Dport, dport)?
            .restrict_to_codes(CodeAxis::HeaderPresence, codes)?;
        atoms
            .into_iter()
            .try_fold(rect, |rect, (atom, holds)| rect.restrict_by_axisless_test(atom, holds))
    })
}

fn points() -> Vec<HyperRect> {
    let mut out = Vec::new();
    for n in 0..5u128 * 5 * 3 * 4 {
        let (saddr, dport, header, atoms) = (n % 5, n / 5 % 5, n / 25 % 3, n / 75);
        let point = HyperRect::all_packets(Family::V4)
            .restrict_to_interval(Field::Saddr, (saddr, saddr))
            .and_then(|r| r.restrict_to_interval(Field::Dport, (dport, dport)))
            .and_then(|r| {
                r.restrict_to_codes(
                    CodeAxis::HeaderPresence,
                    CodeSet::from_codes([header as usize]),
                )
            })
            .and_then(|r| r.restrict_by_axisless_test(0, atoms & 1 == 1))
            .and_then(|r| r.restrict_by_axisless_test(1, atoms & 2 == 2));
        out.push(point.expect("a point"));
    }
    out
}

proptest! {
    #[test]
    fn interval_sets_are_sets_of_numbers(a in intervals(), b in intervals()) {
        let (x, y) = (IntervalSet::from_intervals(a.clone()), IntervalSet::from_intervals(b.clone()));
        let (in_a, in_b) = (members(&a), members(&b));
        let pairs = || in_a.iter().zip(&in_b);
        let check = |set: &IntervalSet, expected: Vec<bool>| {
            is_normal(set)
                && members(set.intervals()) == expected
                && (0..=MAX).all(|v| set.contains(v) == expected[v as usize])
        };
        prop_assert!(check(&x, in_a.clone()));
        prop_assert!(check(&x.and(&y), pairs().map(|(p, q)| *p && *q).collect()));
        prop_assert!(check(&x.or(&y), pairs().map(|(p, q)| *p || *q).collect()));
        prop_assert!(check(&x.minus(&y), pairs().map(|(p, q)| *p && !*q).collect()));
        prop_assert!(check(&x.complement(MAX), in_a.iter().map(|p| !p).collect()));
        prop_assert_eq!(x.covers(&y), pairs().all(|(p, q)| *p || !*q));
        prop_assert_eq!(x.is_disjoint(&y), !pairs().any(|(p, q)| *p && *q));
        prop_assert_eq!(x == y, in_a == in_b);
    }

    #[test]
    fn bit_patterns_are_sets_of_numbers(p in pattern(), q in pattern()) {
        let all = || 0..=MAX;
        prop_assert_eq!(p.has_value_bit_outside_mask(), !all().any(|v| p.contains(v)));
        prop_assert_eq!(p.is_disjoint(q), !all().any(|v| p.contains(v) && q.contains(v)));
        prop_assert_eq!(p.covers(q), all().all(|v| p.contains(v) || !q.contains(v)));
        let (and, minus) = (p.and(q), p.minus(q));
        for v in all() {
            let both = p.contains(v) && q.contains(v);
            prop_assert_eq!(and.is_some_and(|r| r.contains(v)), both);
            let parts = minus.iter().filter(|r| r.contains(v)).count();
            prop_assert_eq!(parts, usize::from(p.contains(v) && !both));
        }
        if let Some((lo, hi)) = p.to_interval(MAX) {
            prop_assert!(all().all(|v| p.contains(v) == (lo <= v && v <= hi)));
        }
    }

    #[test]
    fn proven_disjointness_and_implication_of_predicates_are_correct(p in predicate(), q in predicate()) {
        let (field, family) = (Field::Mark, Family::V4);
        if is_disjoint(&p, &q, field, family) {
            prop_assert!(!(0..=MAX).any(|v| p.holds_for_value(v) && q.holds_for_value(v)));
        }
        if implies(&p, &q, field, family) {
            prop_assert!((0..=MAX).all(|v| !p.holds_for_value(v) || q.holds_for_value(v)));
        }
    }

    #[test]
    fn proven_disjointness_and_implication_of_device_tests_are_correct(p in device(), q in device()) {
        let names = || ["", "a", "b", "aa", "ab", "ba", "bb", "aab", "abb"].into_iter();
        if is_disjoint(&p, &q, Field::Iif, Family::V4) {
            prop_assert!(!names().any(|n| p.holds_for_device(n) && q.holds_for_device(n)));
        }
        if implies(&p, &q, Field::Iif, Family::V4) {
            prop_assert!(names().all(|n| !p.holds_for_device(n) || q.holds_for_device(n)));
        }
    }

    #[test]
    fn prefixes_are_bit_patterns(a in 0..=MAX, b in 0..=MAX, m in 120u32..=128, n in 120u32..=128) {
        let v6 = Family::V6;
        let (p, q) = (Prefix::containing_addr(v6, a, m), Prefix::containing_addr(v6, b, n));
        let of = |p: Prefix| BitPattern::new(p.addr, v6.netmask(p.len));
        prop_assert_eq!(p.covers(v6, q), of(p).covers(of(q)));
        prop_assert_eq!(p.overlaps(v6, q), !of(p).is_disjoint(of(q)));
        prop_assert_eq!(of(p).to_interval(v6.max_addr()), Some((p.addr, p.last_addr(v6))));
    }

    #[test]
    fn boxes_are_sets_of_points(a in small_box(), b in small_box()) {
        let (Some(a), Some(b)) = (a, b) else { return Ok(()) };
        let (and, mut minus) = (a.and(&b), Vec::new());
        a.minus(&b, &mut minus);
        let (mut meets, mut holds) = (false, true);
        for point in points() {
            let (in_a, in_b) = (a.covers(&point), b.covers(&point));
            prop_assert_eq!(and.as_ref().is_some_and(|r| r.covers(&point)), in_a && in_b);
            let parts = minus.iter().filter(|r| r.covers(&point)).count();
            prop_assert_eq!(parts, usize::from(in_a && !in_b), "{:?}", point);
            (meets, holds) = (meets || in_a && in_b, holds && (in_a || !in_b));
        }
        prop_assert_eq!(a.intersects(&b), meets);
        prop_assert!(!a.covers(&b) || holds);
    }

    #[test]
    fn elementary_intervals_list_the_rules_of_each_value(
        rules in prop::collection::vec((intervals(), any::<bool>()), 1..6),
    ) {
        let (values, decides): (Vec<_>, Vec<bool>) = rules
            .into_iter()
            .map(|(v, d)| (IntervalSet::from_intervals(v).into_intervals(), d))
            .unzip();
        let found = split_elementary_intervals(&values, &decides, 1000).expect("a small run");
        for v in 0..=MAX {
            let mut expected = Vec::new();
            for (i, of) in values.iter().enumerate() {
                if members(of)[v as usize] {
                    expected.push(i as u32);
                    if decides[i] {
                        break;
                    }
                }
            }
            let at = found.intervals.iter().find(|((lo, hi), _)| *lo <= v && v <= *hi);
            let list = at.map_or(&[][..], |(_, class)| &found.rule_lists[*class]);
            prop_assert_eq!(list, &expected[..]);
        }
    }
}

#[test]
fn elementary_intervals_over_the_limit_are_refused() {
    let nested: Vec<_> = (0..20).map(|i| vec![(i, 100 - i)]).collect();
    assert!(split_elementary_intervals(&nested, &[false; 20], 50).is_err());
    assert!(split_elementary_intervals(&nested, &[false; 20], 1000).is_ok());
}
