//! Sets of numbers as lists of intervals.
//!
//! Addresses, ports, marks and protocols are numbers, and rules mostly test them by intervals. The
//! intervals of an [`IntervalSet`] are sorted, disjoint and not adjacent: then two sets are equal
//! exactly if their lists are, and every operation is one pass over both lists.

/// Lowest and highest value, both included.
pub type Interval = (u128, u128);

/// Sorts intervals and joins those that overlap or touch. An interval that ends before it begins
/// stays what it is.
///
/// ```
/// use weir_partition::interval::join_intervals;
/// assert_eq!(join_intervals(vec![(80, 80), (443, 443), (70, 90), (91, 92)]), [(70, 92), (443, 443)]);
/// ```
pub fn join_intervals(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut out: Vec<Interval> = Vec::with_capacity(intervals.len());
    for (lo, hi) in intervals {
        match out.last_mut() {
            Some(last) if lo <= last.1.saturating_add(1) => last.1 = last.1.max(hi),
            _ => out.push((lo, hi)),
        }
    }
    out
}

/// A set of numbers.
///
/// ```
/// use weir_partition::IntervalSet;
/// let high = IntervalSet::from_intervals([(1024, 65535)]);
/// let web = IntervalSet::from_intervals([(80, 80), (443, 443), (8080, 8080)]);
/// assert_eq!(web.and(&high), IntervalSet::from_intervals([(8080, 8080)]));
/// assert_eq!(web.minus(&high), IntervalSet::from_intervals([(80, 80), (443, 443)]));
/// assert!(!web.is_disjoint(&high) && !high.covers(&web));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct IntervalSet(Vec<Interval>);

impl IntervalSet {
    /// The numbers of some intervals, in any order. An interval whose end is below its start is
    /// empty: `-m udp` accepts such a range of ports, and matches nothing.
    pub fn from_intervals(intervals: impl IntoIterator<Item = Interval>) -> IntervalSet {
        IntervalSet(join_intervals(intervals.into_iter().filter(|(lo, hi)| lo <= hi).collect()))
    }

    /// Its intervals, sorted.
    pub fn intervals(&self) -> &[Interval] {
        &self.0
    }

    /// Its intervals, sorted, as its own list.
    pub fn into_intervals(self) -> Vec<Interval> {
        self.0
    }

    /// Whether no number is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a number is in it.
    pub fn contains(&self, value: u128) -> bool {
        let before = self.0.partition_point(|(lo, _)| *lo <= value);
        before > 0 && value <= self.0[before - 1].1
    }

    /// The numbers in both.
    pub fn and(&self, other: &IntervalSet) -> IntervalSet {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut out = Vec::new();
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let (lo, hi) = (x.0.max(y.0), x.1.min(y.1));
            if lo <= hi {
                out.push((lo, hi));
            }
            if x.1 <= y.1 {
                a.next()
            } else {
                b.next()
            };
        }
        IntervalSet(out)
    }

    /// The numbers in either.
    pub fn or(&self, other: &IntervalSet) -> IntervalSet {
        IntervalSet(join_intervals(self.0.iter().chain(&other.0).copied().collect()))
    }

    /// The numbers of `0..=max` that are not in it.
    pub fn complement(&self, max: u128) -> IntervalSet {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(0);
        for (lo, hi) in &self.0 {
            let Some(from) = next.filter(|from| *from <= max) else { break };
            if *lo > from {
                out.push((from, max.min(lo - 1)));
            }
            next = if *hi >= max { None } else { Some(hi + 1) };
        }
        out.extend(next.filter(|from| *from <= max).map(|from| (from, max)));
        IntervalSet(out)
    }

    /// The numbers in it that are not in the other.
    pub fn minus(&self, other: &IntervalSet) -> IntervalSet {
        self.and(&other.complement(u128::MAX))
    }

    /// Whether every number of the other is in it.
    pub fn covers(&self, other: &IntervalSet) -> bool {
        other.0.iter().all(|(lo, hi)| {
            let before = self.0.partition_point(|(from, _)| from <= lo);
            before > 0 && *hi <= self.0[before - 1].1
        })
    }

    /// Whether no number is in both.
    pub fn is_disjoint(&self, other: &IntervalSet) -> bool {
        self.and(other).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complement(intervals: &[Interval], max: u128) -> Vec<Interval> {
        IntervalSet::from_intervals(intervals.iter().copied()).complement(max).into_intervals()
    }

    #[test]
    fn a_complement_merges_overlapping_intervals() {
        assert_eq!(complement(&[(5, 9), (0, 2), (7, 12)], 20), [(3, 4), (13, 20)]);
        assert_eq!(complement(&[(0, 20)], 20), []);
        assert_eq!(complement(&[], 20), [(0, 20)]);
        assert_eq!(complement(&[(3, u128::MAX)], u128::MAX), [(0, 2)]);
        assert_eq!(complement(&[(3, 4), (30, 40)], 20), [(0, 2), (5, 20)]);
    }

    #[test]
    fn a_reversed_interval_is_empty() {
        assert!(IntervalSet::from_intervals([(90, 80)]).is_empty());
        assert_eq!(complement(&[(90, 80)], 100), [(0, 100)]);
    }
}
