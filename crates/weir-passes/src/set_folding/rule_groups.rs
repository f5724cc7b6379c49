//! Collects rules that differ only in one address (and port).

use std::collections::BTreeSet;

use weir_model::rule_match::{Match, Negatable, PortSpan};
use weir_model::{Family, Rule, Span, Target};
use weir_partition::{is_disjoint_unnegated_device, only_counts_and_never_hotdrops};

use crate::Prefix;
use crate::rule_runs::{AddressAxis, RuleWithPrefixesAndBarrier};

/// How far back a rule looks for its group.
const MAX_GROUPS_SEARCHED: usize = 64;

/// What the rules of a group differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VaryingPart {
    /// One address.
    Address(AddressAxis),
    /// One address and the destination port of one protocol.
    AddressPort(AddressAxis),
}

impl VaryingPart {
    const ALL: [VaryingPart; 4] = [
        VaryingPart::Address(AddressAxis::Source),
        VaryingPart::Address(AddressAxis::Destination),
        VaryingPart::AddressPort(AddressAxis::Source),
        VaryingPart::AddressPort(AddressAxis::Destination),
    ];

    pub const fn axis(self) -> AddressAxis {
        match self {
            VaryingPart::Address(axis) | VaryingPart::AddressPort(axis) => axis,
        }
    }
}

/// Rules that differ in one way, in their order.
#[derive(Clone, Debug)]
pub(super) struct RuleGroup<'a> {
    pub members: Vec<RuleWithPrefixesAndBarrier<'a>>,
    /// What they differ in; not known of a single rule.
    pub varying_part: Option<VaryingPart>,
    /// The first rule without what they differ in.
    pub common_rule: Option<Rule>,
    source_prefixes: PrefixSet,
    destination_prefixes: PrefixSet,
}

impl<'a> RuleGroup<'a> {
    fn with_single_rule(item: RuleWithPrefixesAndBarrier<'a>, family: Family) -> Self {
        let mut group = RuleGroup {
            members: Vec::new(),
            varying_part: None,
            common_rule: None,
            source_prefixes: PrefixSet::new(family),
            destination_prefixes: PrefixSet::new(family),
        };
        group.push(item);
        group
    }

    fn push(&mut self, item: RuleWithPrefixesAndBarrier<'a>) {
        self.source_prefixes.insert(item.source_prefix);
        self.destination_prefixes.insert(item.destination_prefix);
        self.members.push(item);
    }

    /// Takes the rule in where it differs from the others in the group's way alone.
    fn try_add(&mut self, item: &RuleWithPrefixesAndBarrier<'a>, family: Family) -> bool {
        let first = &self.members[0];
        let folds: &[VaryingPart] = match self.varying_part {
            None => &VaryingPart::ALL,
            Some(VaryingPart::Address(AddressAxis::Source)) => {
                &[VaryingPart::ALL[0], VaryingPart::ALL[2]]
            }
            Some(VaryingPart::Address(AddressAxis::Destination)) => {
                &[VaryingPart::ALL[1], VaryingPart::ALL[3]]
            }
            Some(VaryingPart::AddressPort(AddressAxis::Source)) => &[VaryingPart::ALL[2]],
            Some(VaryingPart::AddressPort(AddressAxis::Destination)) => &[VaryingPart::ALL[3]],
        };
        for &fold in folds {
            let Some(shape) = strip_varying_part(item, fold, family) else { continue };
            let same = if self.varying_part == Some(fold) {
                self.common_rule.as_ref() == Some(&shape)
            } else {
                self::strip_varying_part(first, fold, family).as_ref() == Some(&shape)
            };
            if same {
                self.varying_part = Some(fold);
                self.common_rule = Some(shape);
                self.push(*item);
                return true;
            }
        }
        false
    }

    /// Whether the rule may be tried before all of the group's instead of after them.
    fn can_be_overtaken_by(&self, item: &RuleWithPrefixesAndBarrier<'_>, family: Family) -> bool {
        let first = self.members[0].rule;
        if !self.source_prefixes.overlaps(item.source_prefix)
            || !self.destination_prefixes.overlaps(item.destination_prefix)
        {
            return true;
        }
        let (a, b) = (&first.base, &item.rule.base);
        if let (Some(p), Some(q)) = (a.proto, b.proto)
            && !p.negated
            && !q.negated
            && p.proto != q.proto
        {
            return true;
        }
        if is_disjoint_unnegated_device(a.iif.as_ref(), b.iif.as_ref())
            || is_disjoint_unnegated_device(a.oif.as_ref(), b.oif.as_ref())
        {
            return true;
        }
        only_counts_and_never_hotdrops(first, family)
            && only_counts_and_never_hotdrops(item.rule, family)
    }
}

/// Collects the rules of a stretch without barriers. The groups, evaluated in sequence, have the
/// same meaning as the rules in order.
pub(super) fn group_similar_rules<'a>(
    items: &[RuleWithPrefixesAndBarrier<'a>],
    family: Family,
) -> Vec<RuleGroup<'a>> {
    let mut groups: Vec<RuleGroup<'a>> = Vec::new();
    'rules: for item in items {
        for group in groups.iter_mut().rev().take(MAX_GROUPS_SEARCHED) {
            if group.try_add(item, family) {
                continue 'rules;
            }
            if !group.can_be_overtaken_by(item, family) {
                break;
            }
        }
        groups.push(RuleGroup::with_single_rule(*item, family));
    }
    groups
}

/// The rule without what a group may differ in; `None` if it does not test that.
fn strip_varying_part(
    item: &RuleWithPrefixesAndBarrier<'_>,
    varying_part: VaryingPart,
    family: Family,
) -> Option<Rule> {
    let prefix = item.prefix(varying_part.axis());
    // The zero address is never an element of hash:ip (net/netfilter/ipset/ip_set_hash_ip.c).
    if item.barrier.is_some()
        || prefix.len == 0
        || prefix.addr == 0 && prefix.len == family.addr_bits()
    {
        return None;
    }
    let rule = item.rule;
    let mut shape = Rule {
        base: rule.base.clone(),
        matches: rule.matches.clone(),
        target: rule.target.clone(),
        span: Span::NONE,
        ..Rule::unconditional(Target::None)
    };
    varying_part.axis().set_prefix(&mut shape, family, Prefix::ALL);
    if let VaryingPart::AddressPort(_) = varying_part {
        find_sole_proto_and_dport(rule)?;
        let dport = shape.matches.iter_mut().find_map(dport_test_of_match_mut)?;
        *dport = None;
    }
    Some(shape)
}

fn dport_test_of_match_mut(m: &mut Match) -> Option<&mut Option<Negatable<PortSpan>>> {
    match m {
        Match::Tcp { dport, .. } | Match::Udp { dport, .. } => Some(dport),
        _ => None,
    }
}

/// Protocol and port, where a rule's only transport test is one destination port.
pub(super) fn find_sole_proto_and_dport(rule: &Rule) -> Option<(u8, u16)> {
    let proto = rule.base.proto.filter(|p| !p.negated)?.proto;
    let mut port = None;
    for m in &rule.matches {
        match (m, proto) {
            (Match::Tcp { sport: None, dport: Some(d), flags: None, option: None }, 6)
            | (Match::Udp { sport: None, dport: Some(d) }, 17)
                if !d.negated && d.value.lo == d.value.hi && port.is_none() =>
            {
                port = Some(d.value.lo);
            }
            (Match::Comment(_) | Match::State(_) | Match::Mark(_) | Match::ConnMark(_), _) => {}
            _ => return None,
        }
    }
    Some((proto, port?))
}

/// Prefixes, indexed for overlaps.
#[derive(Clone, Debug)]
pub(super) struct PrefixSet {
    family: Family,
    prefixes: BTreeSet<Prefix>,
    /// Lengths that occur, as bits.
    length_bits: [u64; 3],
}

impl PrefixSet {
    pub fn new(family: Family) -> Self {
        PrefixSet { family, prefixes: BTreeSet::new(), length_bits: [0; 3] }
    }

    pub fn insert(&mut self, p: Prefix) -> bool {
        self.length_bits[p.len as usize / 64] |= 1 << (p.len % 64);
        self.prefixes.insert(p)
    }

    /// Whether a prefix in it covers this one.
    pub fn covers(&self, p: Prefix) -> bool {
        (0..=p.len).any(|len| {
            self.length_bits[len as usize / 64] >> (len % 64) & 1 == 1
                && self.prefixes.contains(&Prefix::containing_addr(self.family, p.addr, len))
        })
    }

    /// Whether a prefix in it shares an address with this one.
    pub fn overlaps(&self, p: Prefix) -> bool {
        let inside = p..=Prefix { addr: p.last_addr(self.family), len: u32::MAX };
        self.covers(p) || self.prefixes.range(inside).next().is_some()
    }

    /// How many lengths occur.
    pub fn count_distinct_lengths(&self) -> u32 {
        self.length_bits.iter().map(|w| w.count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(addr: u128, len: u32) -> Prefix {
        Prefix::containing_addr(Family::V4, addr, len)
    }

    #[test]
    fn overlaps_are_found_in_both_directions() {
        let mut set = PrefixSet::new(Family::V4);
        set.insert(p(0x0a01_0000, 16));
        assert!(set.overlaps(p(0x0a01_0203, 32)), "an address inside");
        assert!(set.overlaps(p(0x0a00_0000, 8)), "a prefix around");
        assert!(!set.overlaps(p(0x0a02_0000, 16)), "a neighbour");
        assert!(set.covers(p(0x0a01_0203, 32)) && !set.covers(p(0x0a00_0000, 8)));
    }
}
