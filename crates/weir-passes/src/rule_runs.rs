//! Divides a chain into barriers and runs.
//!
//! A *barrier* ([`BarrierReason`]) is never moved, copied or merged.
//!
//! A *run* is a sequence of rules between barriers that all test one address by a plain prefix.
//! Their other tests stay on the rule and may be of any merge class, because a run only selects
//! which rules are tried, and never changes a rule.

use std::fmt;

use weir_model::{Chain, Family, Rule};
use weir_partition::{BarrierReason, TableBarriers};

use crate::Prefix;

/// The address that a tree or a set tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressAxis {
    /// Source address.
    Source,
    /// Destination address.
    Destination,
}

impl AddressAxis {
    /// Both, the source first.
    pub const BOTH: [AddressAxis; 2] = [AddressAxis::Source, AddressAxis::Destination];

    /// The other address.
    pub const fn opposite(self) -> AddressAxis {
        match self {
            AddressAxis::Source => AddressAxis::Destination,
            AddressAxis::Destination => AddressAxis::Source,
        }
    }

    /// `s` or `d`, as in `-s` and `-d`.
    pub const fn letter(self) -> char {
        match self {
            AddressAxis::Source => 's',
            AddressAxis::Destination => 'd',
        }
    }

    /// The prefix that a rule's header test names on this axis; `None` if there is no such test, or
    /// one that is negated or has a mask with holes.
    pub fn find_tested_plain_prefix(self, rule: &Rule, family: Family) -> Option<Prefix> {
        let m = match self {
            AddressAxis::Source => rule.base.saddr.as_ref(),
            AddressAxis::Destination => rule.base.daddr.as_ref(),
        }?;
        Prefix::from_match(family, m)
    }

    /// Makes a rule test a prefix on this axis; every other test stays.
    pub fn set_prefix(self, rule: &mut Rule, family: Family, prefix: Prefix) {
        let m = (prefix.len > 0).then(|| prefix.to_match(family));
        match self {
            AddressAxis::Source => rule.base.saddr = m,
            AddressAxis::Destination => rule.base.daddr = m,
        }
    }
}

impl fmt::Display for AddressAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressAxis::Source => "source",
            AddressAxis::Destination => "destination",
        })
    }
}

/// A rule of a chain with the properties that passes repeatedly need.
#[derive(Clone, Copy, Debug)]
pub struct RuleWithPrefixesAndBarrier<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// The prefix it tests on each axis; the whole space where it tests none.
    pub source_prefix: Prefix,
    /// As `source`.
    pub destination_prefix: Prefix,
    /// Why it must not be touched.
    pub barrier: Option<BarrierReason>,
    /// Left alone although it could be compiled: to copy it would cost more than it gains.
    pub pinned_in_place: bool,
}

impl<'a> RuleWithPrefixesAndBarrier<'a> {
    /// The rules of a chain, which is of the table that has these barriers.
    pub fn from_chain(
        chain: &'a Chain,
        family: Family,
        barriers: &TableBarriers<'_>,
    ) -> Vec<RuleWithPrefixesAndBarrier<'a>> {
        let candidate = |rule: &'a Rule| {
            let prefix = |axis: AddressAxis| {
                axis.find_tested_plain_prefix(rule, family).unwrap_or(Prefix::ALL)
            };
            RuleWithPrefixesAndBarrier {
                rule,
                source_prefix: prefix(AddressAxis::Source),
                destination_prefix: prefix(AddressAxis::Destination),
                barrier: barriers.find_barrier_reason(rule),
                pinned_in_place: false,
            }
        };
        chain.rules.iter().map(candidate).collect()
    }

    /// The prefix on an axis.
    pub const fn prefix(&self, axis: AddressAxis) -> Prefix {
        match axis {
            AddressAxis::Source => self.source_prefix,
            AddressAxis::Destination => self.destination_prefix,
        }
    }

    /// Whether a run over the axis may hold the rule.
    pub const fn can_join_run_on_axis(&self, axis: AddressAxis) -> bool {
        self.barrier.is_none() && !self.pinned_in_place && self.prefix(axis).len > 0
    }
}

/// For each rule and axis, how many rules from there on a run over that axis may hold.
pub fn compute_run_lengths(items: &[RuleWithPrefixesAndBarrier<'_>]) -> Vec<[usize; 2]> {
    let mut out = vec![[0; 2]; items.len() + 1];
    for (i, item) in items.iter().enumerate().rev() {
        for (a, axis) in AddressAxis::BOTH.into_iter().enumerate() {
            out[i][a] = if item.can_join_run_on_axis(axis) { out[i + 1][a] + 1 } else { 0 };
        }
    }
    out.pop();
    out
}

/// A stretch of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BarrierOrFreeSegment {
    /// One rule that stays, and why.
    Barrier(usize, BarrierReason),
    /// Rules between two barriers, or between a barrier and an end of the chain.
    FreeSegment(std::ops::Range<usize>),
}

/// Cuts a chain at its barriers.
pub fn split_at_barriers(items: &[RuleWithPrefixesAndBarrier<'_>]) -> Vec<BarrierOrFreeSegment> {
    let mut out = Vec::new();
    let mut start = 0;
    for (i, item) in items.iter().enumerate() {
        let Some(why) = item.barrier else { continue };
        if start < i {
            out.push(BarrierOrFreeSegment::FreeSegment(start..i));
        }
        out.push(BarrierOrFreeSegment::Barrier(i, why));
        start = i + 1;
    }
    if start < items.len() {
        out.push(BarrierOrFreeSegment::FreeSegment(start..items.len()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::rule_match::{Match, StatefulMatch};
    use weir_model::{Addr, AddrMatch, Table, TableName, Target};

    fn rule(source: Option<(u128, u32)>) -> Rule {
        let mut rule = Rule::unconditional(Target::Accept);
        rule.base.saddr = source.map(|(addr, len)| Prefix { addr, len }.to_match(Family::V4));
        rule
    }

    fn table_with_chain(rules: Vec<Rule>) -> Table {
        Table {
            name: TableName::Filter,
            chains: vec![Chain { rules, ..Chain::new("FORWARD", None) }],
            leading_comments: Vec::new(),
            trailing_comments: Vec::new(),
        }
    }

    #[test]
    fn a_chain_is_split_only_at_barriers() {
        let plain = rule(Some((0x0a00_0000, 8)));
        let mut limited = plain.clone();
        limited
            .matches
            .push(Match::Stateful(Box::new(StatefulMatch { module: "limit", options: vec![] })));
        let rules = vec![plain.clone(), plain.clone(), limited, plain];
        let table = table_with_chain(rules);
        let barriers = TableBarriers::of_table(&table, Family::V4);
        let items = RuleWithPrefixesAndBarrier::from_chain(&table.chains[0], Family::V4, &barriers);
        assert_eq!(
            split_at_barriers(&items),
            [
                BarrierOrFreeSegment::FreeSegment(0..2),
                BarrierOrFreeSegment::Barrier(2, BarrierReason::StatefulMatch),
                BarrierOrFreeSegment::FreeSegment(3..4)
            ]
        );
        assert_eq!(compute_run_lengths(&items), [[2, 0], [1, 0], [0, 0], [1, 0]]);
    }

    #[test]
    fn a_negated_address_is_not_part_of_a_run() {
        let mut negated = rule(None);
        negated.base.saddr =
            Some(AddrMatch { negated: true, addr: Addr(0x0a00_0000), mask: Addr(0xff00_0000) });
        let table = table_with_chain(vec![rule(Some((0x0a00_0000, 8))), negated]);
        let barriers = TableBarriers::of_table(&table, Family::V4);
        let items = RuleWithPrefixesAndBarrier::from_chain(&table.chains[0], Family::V4, &barriers);
        let joins: Vec<bool> =
            items.iter().map(|i| i.can_join_run_on_axis(AddressAxis::Source)).collect();
        assert_eq!(joins, [true, false]);
    }
}
