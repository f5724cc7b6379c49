//! Divides a chain into barriers and runs.
//!
//! A *barrier* ([`Barrier`]) is never moved, copied or merged.
//!
//! A *run* is a sequence of rules between barriers that all test one address by a plain prefix.
//! Their other tests stay on the rule and may be of any merge class, because a run only selects
//! which rules are tried, and never changes a rule.

use std::fmt;

use weir_model::{Family, Rule};
use weir_partition::{Barrier, barrier};

use crate::Prefix;

/// The address that a tree or a set tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// Source address.
    Source,
    /// Destination address.
    Destination,
}

impl Axis {
    /// Both, the source first.
    pub const BOTH: [Axis; 2] = [Axis::Source, Axis::Destination];

    /// The other address.
    pub const fn other(self) -> Axis {
        match self {
            Axis::Source => Axis::Destination,
            Axis::Destination => Axis::Source,
        }
    }

    /// `s` or `d`, as in `-s` and `-d`.
    pub const fn letter(self) -> char {
        match self {
            Axis::Source => 's',
            Axis::Destination => 'd',
        }
    }

    /// The prefix that a rule's header test names on this axis; `None` if there is no such test, or
    /// one that is negated or has a mask with holes.
    pub fn prefix_of(self, rule: &Rule, family: Family) -> Option<Prefix> {
        let m = match self {
            Axis::Source => rule.base.saddr.as_ref(),
            Axis::Destination => rule.base.daddr.as_ref(),
        }?;
        Prefix::of_match(family, m)
    }

    /// Makes a rule test a prefix on this axis; every other test stays.
    pub fn set_prefix(self, rule: &mut Rule, family: Family, prefix: Prefix) {
        let m = (prefix.len > 0).then(|| prefix.to_match(family));
        match self {
            Axis::Source => rule.base.saddr = m,
            Axis::Destination => rule.base.daddr = m,
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Axis::Source => "source",
            Axis::Destination => "destination",
        })
    }
}

/// A rule of a chain with the properties that passes repeatedly need.
#[derive(Clone, Copy, Debug)]
pub struct RunItem<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// The prefix it tests on each axis; the whole space where it tests none.
    pub source: Prefix,
    /// As `source`.
    pub destination: Prefix,
    /// Why it must not be touched.
    pub barrier: Option<Barrier>,
    /// Left alone although it could be compiled: to copy it would cost more than it gains.
    pub pinned: bool,
}

impl<'a> RunItem<'a> {
    /// What there is to know of a rule.
    pub fn of(rule: &'a Rule, family: Family) -> Self {
        let prefix = |axis: Axis| axis.prefix_of(rule, family).unwrap_or(Prefix::ALL);
        RunItem {
            rule,
            source: prefix(Axis::Source),
            destination: prefix(Axis::Destination),
            barrier: barrier(rule, family),
            pinned: false,
        }
    }

    /// The prefix on an axis.
    pub const fn prefix(&self, axis: Axis) -> Prefix {
        match axis {
            Axis::Source => self.source,
            Axis::Destination => self.destination,
        }
    }

    /// Whether a run over the axis may hold the rule.
    pub const fn runs_over(&self, axis: Axis) -> bool {
        self.barrier.is_none() && !self.pinned && self.prefix(axis).len > 0
    }
}

/// For each rule and axis, how many rules from there on a run over that axis may hold.
pub fn extents(items: &[RunItem<'_>]) -> Vec<[usize; 2]> {
    let mut out = vec![[0; 2]; items.len() + 1];
    for (i, item) in items.iter().enumerate().rev() {
        for (a, axis) in Axis::BOTH.into_iter().enumerate() {
            out[i][a] = if item.runs_over(axis) { out[i + 1][a] + 1 } else { 0 };
        }
    }
    out.pop();
    out
}

/// A stretch of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// One rule that stays, and why.
    Barrier(usize, Barrier),
    /// Rules between two barriers, or between a barrier and an end of the chain.
    Between(std::ops::Range<usize>),
}

/// Cuts a chain at its barriers.
pub fn segments(items: &[RunItem<'_>]) -> Vec<Segment> {
    let mut out = Vec::new();
    let mut start = 0;
    for (i, item) in items.iter().enumerate() {
        let Some(why) = item.barrier else { continue };
        if start < i {
            out.push(Segment::Between(start..i));
        }
        out.push(Segment::Barrier(i, why));
        start = i + 1;
    }
    if start < items.len() {
        out.push(Segment::Between(start..items.len()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::matching::{Match, Stateful};
    use weir_model::{Addr, AddrMatch, Target};

    fn rule(source: Option<(u128, u32)>) -> Rule {
        let mut rule = Rule::new(Target::Accept);
        rule.base.saddr = source.map(|(addr, len)| Prefix { addr, len }.to_match(Family::V4));
        rule
    }

    #[test]
    fn a_chain_is_cut_at_its_barriers_only() {
        let plain = rule(Some((0x0a00_0000, 8)));
        let mut limited = plain.clone();
        limited
            .matches
            .push(Match::Stateful(Box::new(Stateful { module: "limit", options: vec![] })));
        let rules = [plain.clone(), plain.clone(), limited, plain];
        let items: Vec<_> = rules.iter().map(|r| RunItem::of(r, Family::V4)).collect();
        assert_eq!(
            segments(&items),
            [
                Segment::Between(0..2),
                Segment::Barrier(2, Barrier::Stateful),
                Segment::Between(3..4)
            ]
        );
        assert_eq!(extents(&items), [[2, 0], [1, 0], [0, 0], [1, 0]]);
    }

    #[test]
    fn a_negated_address_is_not_part_of_a_run() {
        let mut negated = rule(None);
        negated.base.saddr =
            Some(AddrMatch { negated: true, addr: Addr(0x0a00_0000), mask: Addr(0xff00_0000) });
        assert!(RunItem::of(&rule(Some((0x0a00_0000, 8))), Family::V4).runs_over(Axis::Source));
        assert!(!RunItem::of(&negated, Family::V4).runs_over(Axis::Source));
    }
}
