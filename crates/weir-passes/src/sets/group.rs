//! Collects rules that differ only in one address (and port).

use std::collections::BTreeSet;

use weir_model::matching::{Match, Neg, PortSpan};
use weir_model::{Family, Rule, Span, Target};
use weir_partition::{only_counts, other_device};

use crate::Prefix;
use crate::run::{Axis, RunItem};

/// How far back a rule looks for its group.
const GROUPS_BACK_MAX: usize = 64;

/// What the rules of a group differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// One address.
    Addr(Axis),
    /// One address and the destination port of one protocol.
    AddrPort(Axis),
}

impl Fold {
    const ALL: [Fold; 4] = [
        Fold::Addr(Axis::Source),
        Fold::Addr(Axis::Destination),
        Fold::AddrPort(Axis::Source),
        Fold::AddrPort(Axis::Destination),
    ];

    pub const fn axis(self) -> Axis {
        match self {
            Fold::Addr(axis) | Fold::AddrPort(axis) => axis,
        }
    }
}

/// Rules that differ in one way, in their order.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub members: Vec<RunItem<'a>>,
    /// What they differ in; not known of a single rule.
    pub fold: Option<Fold>,
    /// The first rule without what they differ in.
    pub shape: Option<Rule>,
    sources: PrefixSet,
    destinations: PrefixSet,
}

impl<'a> Group<'a> {
    fn of(item: RunItem<'a>, family: Family) -> Self {
        let mut group = Group {
            members: Vec::new(),
            fold: None,
            shape: None,
            sources: PrefixSet::new(family),
            destinations: PrefixSet::new(family),
        };
        group.push(item);
        group
    }

    fn push(&mut self, item: RunItem<'a>) {
        self.sources.insert(item.source);
        self.destinations.insert(item.destination);
        self.members.push(item);
    }

    /// Takes the rule in where it differs from the others in the group's way alone.
    fn join(&mut self, item: &RunItem<'a>, family: Family) -> bool {
        let first = &self.members[0];
        let folds: &[Fold] = match self.fold {
            None => &Fold::ALL,
            Some(Fold::Addr(Axis::Source)) => &[Fold::ALL[0], Fold::ALL[2]],
            Some(Fold::Addr(Axis::Destination)) => &[Fold::ALL[1], Fold::ALL[3]],
            Some(Fold::AddrPort(Axis::Source)) => &[Fold::ALL[2]],
            Some(Fold::AddrPort(Axis::Destination)) => &[Fold::ALL[3]],
        };
        for &fold in folds {
            let Some(shape) = shape(item, fold, family) else { continue };
            let same = if self.fold == Some(fold) {
                self.shape.as_ref() == Some(&shape)
            } else {
                self::shape(first, fold, family).as_ref() == Some(&shape)
            };
            if same {
                self.fold = Some(fold);
                self.shape = Some(shape);
                self.push(*item);
                return true;
            }
        }
        false
    }

    /// Whether the rule may be tried before all of the group's instead of after them.
    fn lets_pass(&self, item: &RunItem<'_>, family: Family) -> bool {
        let first = self.members[0].rule;
        if !self.sources.overlaps(item.source) || !self.destinations.overlaps(item.destination) {
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
        if other_device(a.iif.as_ref(), b.iif.as_ref())
            || other_device(a.oif.as_ref(), b.oif.as_ref())
        {
            return true;
        }
        only_counts(first, family) && only_counts(item.rule, family)
    }
}

/// Collects the rules of a stretch without barriers. The groups, evaluated in sequence, have the
/// same meaning as the rules in order.
pub(super) fn gather<'a>(items: &[RunItem<'a>], family: Family) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    'rules: for item in items {
        for group in groups.iter_mut().rev().take(GROUPS_BACK_MAX) {
            if group.join(item, family) {
                continue 'rules;
            }
            if !group.lets_pass(item, family) {
                break;
            }
        }
        groups.push(Group::of(*item, family));
    }
    groups
}

/// The rule without what a group may differ in; `None` if it does not test that.
fn shape(item: &RunItem<'_>, fold: Fold, family: Family) -> Option<Rule> {
    let prefix = item.prefix(fold.axis());
    // The zero address is never an element of hash:ip (net/netfilter/ipset/ip_set_hash_ip.c).
    if item.barrier.is_some() || prefix.len == 0 || prefix.addr == 0 && prefix.len == family.bits()
    {
        return None;
    }
    let rule = item.rule;
    let mut shape = Rule {
        base: rule.base.clone(),
        matches: rule.matches.clone(),
        target: rule.target.clone(),
        span: Span::NONE,
        ..Rule::new(Target::None)
    };
    fold.axis().set_prefix(&mut shape, family, Prefix::ALL);
    if let Fold::AddrPort(_) = fold {
        port_of(rule)?;
        let dport = shape.matches.iter_mut().find_map(dport_of_match)?;
        *dport = None;
    }
    Some(shape)
}

fn dport_of_match(m: &mut Match) -> Option<&mut Option<Neg<PortSpan>>> {
    match m {
        Match::Tcp { dport, .. } | Match::Udp { dport, .. } => Some(dport),
        _ => None,
    }
}

/// Protocol and port, where a rule's only transport test is one destination port.
pub(super) fn port_of(rule: &Rule) -> Option<(u8, u16)> {
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
    all: BTreeSet<Prefix>,
    /// Lengths that occur, as bits.
    lens: [u64; 3],
}

impl PrefixSet {
    pub fn new(family: Family) -> Self {
        PrefixSet { family, all: BTreeSet::new(), lens: [0; 3] }
    }

    pub fn insert(&mut self, p: Prefix) -> bool {
        self.lens[p.len as usize / 64] |= 1 << (p.len % 64);
        self.all.insert(p)
    }

    /// Whether a prefix in it covers this one.
    pub fn covers(&self, p: Prefix) -> bool {
        (0..=p.len).any(|len| {
            self.lens[len as usize / 64] >> (len % 64) & 1 == 1
                && self.all.contains(&Prefix::of(self.family, p.addr, len))
        })
    }

    /// Whether a prefix in it shares an address with this one.
    pub fn overlaps(&self, p: Prefix) -> bool {
        let inside = p..=Prefix { addr: p.last(self.family), len: u32::MAX };
        self.covers(p) || self.all.range(inside).next().is_some()
    }

    /// How many lengths occur.
    pub fn lengths(&self) -> u32 {
        self.lens.iter().map(|w| w.count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(addr: u128, len: u32) -> Prefix {
        Prefix::of(Family::V4, addr, len)
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
