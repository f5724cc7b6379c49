//! Two tests of one field: whether they have a value in common, and whether one implies the other.
//!
//! The answers are conservative: "no" may mean "unknown".

use weir_model::{Family, Field, Predicate};

use crate::bit_pattern::BitPattern;
use crate::interval::Interval;

/// Whether no value of the field has both.
///
/// ```
/// use weir_model::{Family, Field, Predicate};
/// use weir_partition::predicate_relations::is_disjoint;
/// let ssh = Predicate::InSpans(vec![(22, 22)]);
/// let high = Predicate::InSpans(vec![(1024, 65535)]);
/// assert!(is_disjoint(&ssh, &high, Field::Dport, Family::V4));
/// assert!(!is_disjoint(&ssh, &ssh, Field::Dport, Family::V4));
/// ```
pub fn is_disjoint(p: &Predicate, q: &Predicate, field: Field, family: Family) -> bool {
    use Predicate::{AnyBit, Device, InSpans, Masked};
    match (p, q) {
        (InSpans(a), InSpans(b)) => a.iter().all(|x| b.iter().all(|y| x.1 < y.0 || y.1 < x.0)),
        (Masked { value: v, mask: m }, Masked { value: w, mask: n }) => {
            BitPattern::new(*v, *m).is_disjoint(BitPattern::new(*w, *n))
        }
        (InSpans(a), Masked { value, mask }) | (Masked { value, mask }, InSpans(a)) => {
            let pattern = BitPattern::new(*value, *mask);
            match pattern.to_interval(field.max_value(family)) {
                Some((lo, hi)) => a.iter().all(|x| x.1 < lo || hi < x.0),
                None => a.iter().all(|x| x.0 == x.1 && !pattern.contains(x.0)),
            }
        }
        // A packet has one state; the bits of translations may be set next to it.
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

/// Whether every value of the field that has the first has the second.
///
/// ```
/// use weir_model::{Family, Field, Predicate};
/// use weir_partition::predicate_relations::implies;
/// let net = |value, mask| Predicate::Masked { value, mask };
/// let (host, site) = (net(0x0a01_0203, 0xffff_ffff), net(0x0a01_0000, 0xffff_0000));
/// assert!(implies(&host, &site, Field::Saddr, Family::V4));
/// assert!(!implies(&site, &host, Field::Saddr, Family::V4));
/// ```
pub fn implies(p: &Predicate, q: &Predicate, field: Field, family: Family) -> bool {
    use Predicate::{AnyBit, Device, InSpans, Masked, Present};
    let max = field.max_value(family);
    let within = |x: &Interval, b: &[Interval]| b.iter().any(|y| y.0 <= x.0 && x.1 <= y.1);
    match (p, q) {
        (_, Present) => true,
        (InSpans(a), InSpans(b)) => a.iter().all(|x| within(x, b)),
        (Masked { value: v, mask: m }, Masked { value: w, mask: n }) => {
            BitPattern::new(*w, *n).covers(BitPattern::new(*v, *m))
        }
        (InSpans(a), Masked { value, mask }) => {
            let pattern = BitPattern::new(*value, *mask);
            match pattern.to_interval(max) {
                Some(interval) => a.iter().all(|x| within(x, &[interval])),
                None => a.iter().all(|x| x.0 == x.1 && pattern.contains(x.0)),
            }
        }
        (Masked { value, mask }, InSpans(b)) => BitPattern::new(*value, *mask)
            .to_interval(max)
            .is_some_and(|interval| within(&interval, b)),
        (AnyBit(m), AnyBit(n)) => m & !n == 0,
        (Device { name: a, prefix: pa }, Device { name: b, prefix: pb }) => match (pa, pb) {
            (_, true) => a.starts_with(&**b),
            (false, false) => a == b,
            (true, false) => false,
        },
        _ => false,
    }
}
