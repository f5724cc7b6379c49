//! A run of rules as one lookup.
//!
//! All rules of a run test the same value: an address, a port, a mark, a MAC address, a device, or
//! two of them. A packet has one value, so only rules whose test contains that value can match it.
//! The values are divided into stretches over which the list of these rules is constant
//! ([`weir_partition::split_elementary_intervals()`]). Each stretch is an element of a map, and
//! equal lists are one *class*. So overlapping prefixes, several verdicts, and rules that do not
//! terminate (LOG before ACCEPT) all cost one lookup. If the lists grow too long, the run is
//! refused and a shorter one is tried.

use std::collections::HashMap;

use weir_model::Family;
use weir_model::mask::interval_to_prefix_mask;
use weir_model::nft::{self, Comparand, ElementKeyPart, LoadExpression, MapKeyExpression};
use weir_partition::{ElementaryIntervals, Interval, RuleListInterner, split_elementary_intervals};

use super::lowered_rule::{LoweredRule, NftRuleAction};
use super::nft_condition::NftCondition;

/// Rules that a run must have: a lookup costs about as much as this many plain rules.
pub(super) const MIN_RULES_PER_LOOKUP_RUN: usize = 6;

/// What a run looks up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LookupKey {
    /// The values that make up the key.
    pub loads: Vec<LoadExpression>,
}

impl LookupKey {
    /// All that are tried, pairs first: they leave less to their classes.
    pub fn candidate_lookup_keys() -> Vec<LookupKey> {
        let pairs = [
            [LoadExpression::Saddr, LoadExpression::EtherSaddr],
            [LoadExpression::Saddr, LoadExpression::Daddr],
            [LoadExpression::Daddr, LoadExpression::Oifname],
            [LoadExpression::Saddr, LoadExpression::Iifname],
        ];
        let single = [
            LoadExpression::Saddr,
            LoadExpression::Daddr,
            LoadExpression::EtherSaddr,
            LoadExpression::Dport,
            LoadExpression::Sport,
            LoadExpression::Mark,
            LoadExpression::Iifname,
            LoadExpression::Oifname,
        ];
        let pairs = pairs.into_iter().map(|p| LookupKey { loads: p.into() });
        pairs.chain(single.into_iter().map(|l| LookupKey { loads: vec![l] })).collect()
    }

    fn has_port(&self) -> bool {
        self.loads.iter().any(|l| l.is_misread_in_later_fragment())
    }

    /// The item's place on this axis, or `None` if it cannot be part of a run along it.
    pub fn key_values_of_rule(&self, item: &LoweredRule) -> Option<RuleKeyValues> {
        // A translation of ports needs its own test of the protocol.
        if item.is_stateful() || self.has_port() && matches!(item.action, NftRuleAction::Nat(_)) {
            return None;
        }
        let mut values_by_key_part = Vec::with_capacity(self.loads.len());
        for load in &self.loads {
            values_by_key_part.push(extract_values_of_key_field(
                item,
                *load,
                self.loads.len() > 1,
            )?);
        }
        let proto = if self.has_port() { Some(find_single_protocol(item)?) } else { None };
        Some(RuleKeyValues { values_by_key_part, port_protocol: proto })
    }

    /// The item without the tests that the lookup makes.
    pub fn strip_key_tests(&self, item: &LoweredRule) -> LoweredRule {
        let mut item = item.clone();
        item.conditions.retain(|c| match c {
            NftCondition::Test(t) if t.expression == LoadExpression::L4proto => !self.has_port(),
            NftCondition::Test(t) => !self.loads.contains(&t.expression),
            NftCondition::Opaque(_)
            | NftCondition::UnlessStatement(_)
            | NftCondition::AnyTest(_) => true,
        });
        item
    }

    /// True where the lookup makes all of the item's tests.
    pub fn covers_all_tests(&self, item: &LoweredRule) -> bool {
        item.conditions.iter().all(|c| match c {
            NftCondition::Test(t) => {
                self.loads.contains(&t.expression)
                    || t.expression == LoadExpression::L4proto && self.has_port()
            }
            NftCondition::Opaque(_)
            | NftCondition::UnlessStatement(_)
            | NftCondition::AnyTest(_) => false,
        })
    }

    /// Short name for maps: `saddr`, `saddr.ether`.
    pub fn short_name(&self) -> String {
        let names = self.loads.iter().map(|l| match l {
            LoadExpression::Saddr => "saddr",
            LoadExpression::Daddr => "daddr",
            LoadExpression::EtherSaddr => "ether",
            LoadExpression::Dport => "dport",
            LoadExpression::Sport => "sport",
            LoadExpression::Mark => "mark",
            LoadExpression::Iifname => "iif",
            LoadExpression::Oifname => "oif",
            _ => "key",
        });
        names.collect::<Vec<_>>().join("-")
    }
}

/// Where an item lies on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuleKeyValues {
    /// For each part of the key, the values that the item's test matches.
    values_by_key_part: Vec<Vec<ElementKeyPart>>,
    /// Ports: the protocol they are ports of, equal in the whole run.
    pub port_protocol: Option<u128>,
}

/// The values of the item's one test of `load`.
fn extract_values_of_key_field(
    item: &LoweredRule,
    load: LoadExpression,
    exact: bool,
) -> Option<Vec<ElementKeyPart>> {
    let mut found = None;
    for cond in &item.conditions {
        match cond {
            NftCondition::Test(t) if t.expression == load => {
                if found.is_some() {
                    return None;
                }
                found = Some(t);
            }
            _ => {}
        }
    }
    let test = found?;
    if test.negated {
        return None;
    }
    let keys: Vec<ElementKeyPart> = match &test.comparand {
        Comparand::Device { name, prefix: false } => vec![ElementKeyPart::Device(name.clone())],
        Comparand::InSpans(spans) => {
            spans.iter().map(|&(lo, hi)| ElementKeyPart::Span(lo, hi)).collect()
        }
        Comparand::Masked { .. } | Comparand::AnyBit(_) | Comparand::Device { .. } => return None,
    };
    let single = |k: &ElementKeyPart| !matches!(k, ElementKeyPart::Span(lo, hi) if lo != hi);
    (!exact || keys.iter().all(single)).then_some(keys)
}

/// The protocol of a rule that tests ports. The lookup must be its first test of the packet's
/// transport header, and other tests before it must have no side effects.
fn find_single_protocol(item: &LoweredRule) -> Option<u128> {
    let mut protos = item.conditions.iter().filter_map(|c| match c {
        NftCondition::Test(nft::Test {
            expression: LoadExpression::L4proto,
            comparand: Comparand::InSpans(s),
            negated: false,
        }) => match s[..] {
            [(lo, hi)] if lo == hi => Some(lo),
            _ => None,
        },
        _ => None,
    });
    let proto = protos.next()?;
    protos.next().is_none().then_some(proto)
}

/// A run cut into classes.
#[derive(Clone, Debug)]
pub(super) struct LookupClasses {
    /// Each distinct list of the run's rules, by their index in the run.
    pub rule_lists: Vec<Vec<u32>>,
    /// Key and class of each element, sorted.
    pub elements: Vec<(Vec<ElementKeyPart>, usize)>,
    /// Keys are spans.
    pub has_interval_keys: bool,
    /// The key is looked up under this mask.
    pub mask: Option<u128>,
}

impl LookupClasses {
    /// Rules that an element has to try on average.
    pub fn mean_rules_per_element(&self) -> f64 {
        let sum: usize = self.elements.iter().map(|(_, c)| self.rule_lists[*c].len()).sum();
        sum as f64 / self.elements.len().max(1) as f64
    }

    /// The key as nft loads it.
    pub fn nft_key(&self, axis: &LookupKey) -> Vec<MapKeyExpression> {
        axis.loads
            .iter()
            .map(|load| MapKeyExpression { expression: *load, mask: self.mask })
            .collect()
    }
}

/// Cuts a run into classes; `None` if the lists grow too long.
///
/// `decides[i]`: the i-th rule decides for every packet of its place.
pub(super) fn divide_rule_run_into_classes(
    places: &[&RuleKeyValues],
    decides: &[bool],
    family: Family,
) -> Option<LookupClasses> {
    let numeric = places[0].values_by_key_part.len() == 1
        && matches!(places[0].values_by_key_part[0].first(), Some(ElementKeyPart::Span(..)));
    if numeric {
        classify_intervals(places, decides, family)
    } else {
        classify_exact_keys(places, decides)
    }
}

/// Rules that the lists of a run may hold together.
fn compute_rule_list_budget(decides: &[bool]) -> usize {
    8 * decides.len() + 4096
}

fn classify_intervals(
    places: &[&RuleKeyValues],
    decides: &[bool],
    family: Family,
) -> Option<LookupClasses> {
    let interval = |key: &ElementKeyPart| match key {
        ElementKeyPart::Span(lo, hi) => Some((*lo, *hi)),
        ElementKeyPart::Device(_) => None,
    };
    let of = |place: &&RuleKeyValues| {
        place.values_by_key_part[0].iter().map(interval).collect::<Option<Vec<_>>>()
    };
    let rules: Vec<Vec<Interval>> = places.iter().map(of).collect::<Option<_>>()?;
    let found =
        split_elementary_intervals(&rules, decides, compute_rule_list_budget(decides)).ok()?;
    Some(choose_map_layout(found, family))
}

/// The cheapest map for the stretches: single values and blocks of one size are looked up in a hash
/// table, everything else in a tree of intervals.
fn choose_map_layout(found: ElementaryIntervals, family: Family) -> LookupClasses {
    let ElementaryIntervals { rule_lists: lists, intervals: stretches } = found;
    let block = |interval| interval_to_prefix_mask(interval, u128::MAX).filter(|mask| *mask != 0);
    let mask = stretches.first().map_or(Some(u128::MAX), |(first, _)| block(*first));
    if mask.is_some() && stretches.iter().all(|(interval, _)| block(*interval) == mask) {
        let mask = mask.filter(|mask| *mask != u128::MAX).map(|mask| mask & family.max_addr());
        let of = |((lo, _), class)| (vec![ElementKeyPart::Span(lo, lo)], class);
        let elements = stretches.into_iter().map(of);
        return LookupClasses {
            rule_lists: lists,
            elements: elements.collect(),
            has_interval_keys: false,
            mask,
        };
    }
    let mut joined: Vec<(Interval, usize)> = Vec::with_capacity(stretches.len());
    for ((lo, hi), class) in stretches {
        match joined.last_mut() {
            Some(((_, end), last)) if *last == class && end.checked_add(1) == Some(lo) => *end = hi,
            _ => joined.push(((lo, hi), class)),
        }
    }
    let elements = joined.into_iter().map(|((lo, hi), c)| (vec![ElementKeyPart::Span(lo, hi)], c));
    LookupClasses {
        rule_lists: lists,
        elements: elements.collect(),
        has_interval_keys: true,
        mask: None,
    }
}

fn classify_exact_keys(places: &[&RuleKeyValues], decides: &[bool]) -> Option<LookupClasses> {
    let mut groups: HashMap<Vec<ElementKeyPart>, Vec<u32>> = HashMap::new();
    let mut count = 0;
    for (i, place) in places.iter().enumerate() {
        for key in cartesian_product(&place.values_by_key_part) {
            count += 1;
            if count > 4 * places.len() + 256 {
                return None;
            }
            groups.entry(key).or_default().push(i as u32);
        }
    }
    let mut keys: Vec<_> = groups.into_iter().collect();
    keys.sort_unstable();
    let mut lists = RuleListInterner::new(decides, compute_rule_list_budget(decides));
    let mut elements = Vec::with_capacity(keys.len());
    for (key, members) in keys {
        elements.push((key, lists.intern_up_to_deciding_rule(members.into_iter()).ok()?));
    }
    Some(LookupClasses {
        rule_lists: lists.into_lists(),
        elements,
        has_interval_keys: false,
        mask: None,
    })
}

fn cartesian_product(keys: &[Vec<ElementKeyPart>]) -> Vec<Vec<ElementKeyPart>> {
    let mut out = vec![Vec::new()];
    for part in keys {
        let longer = out.iter().flat_map(|head| {
            part.iter().map(|k| {
                let mut key: Vec<ElementKeyPart> = head.clone();
                key.push(k.clone());
                key
            })
        });
        out = longer.collect();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(spans: &[(u128, u128)]) -> RuleKeyValues {
        let values_by_key_part =
            spans.iter().map(|&(lo, hi)| ElementKeyPart::Span(lo, hi)).collect();
        RuleKeyValues { values_by_key_part: vec![values_by_key_part], port_protocol: None }
    }

    #[test]
    fn overlapping_prefixes_keep_their_order() {
        // 10.0.0.0/8 logs, 10.1.0.0/16 accepts, 10.0.0.0/8 drops.
        let (eight, sixteen) = ((0x0a00_0000, 0x0aff_ffff), (0x0a01_0000, 0x0a01_ffff));
        let places = [place(&[eight]), place(&[sixteen]), place(&[eight])];
        let refs: Vec<_> = places.iter().collect();
        let c = divide_rule_run_into_classes(&refs, &[false, true, true], Family::V4).unwrap();
        assert_eq!(c.rule_lists, [vec![0, 2], vec![0, 1]]);
        assert_eq!(c.elements.len(), 3);
        assert!(c.has_interval_keys);
    }

    #[test]
    fn hosts_use_hash_keys_and_equal_length_prefixes_a_mask() {
        let hosts = [place(&[(1, 1)]), place(&[(2, 2)]), place(&[(1, 1)])];
        let refs: Vec<_> = hosts.iter().collect();
        let c = divide_rule_run_into_classes(&refs, &[true; 3], Family::V4).unwrap();
        assert!(!c.has_interval_keys && c.mask.is_none());
        assert_eq!(
            c.rule_lists,
            [vec![0], vec![1]],
            "a rule after a verdict for the same packets cannot match"
        );
        let nets = [place(&[(0x100, 0x1ff)]), place(&[(0x300, 0x3ff)])];
        let refs: Vec<_> = nets.iter().collect();
        let c = divide_rule_run_into_classes(&refs, &[true; 2], Family::V4).unwrap();
        assert_eq!(c.mask, Some(0xffff_ff00));
    }

    #[test]
    fn an_interval_may_end_at_the_highest_address() {
        let places = [place(&[(0, u128::MAX)]), place(&[(5, u128::MAX)])];
        let refs: Vec<_> = places.iter().collect();
        let c = divide_rule_run_into_classes(&refs, &[false, true], Family::V6).unwrap();
        let key = |lo, hi| vec![ElementKeyPart::Span(lo, hi)];
        assert_eq!(c.elements, [(key(0, 4), 0), (key(5, u128::MAX), 1)]);
    }
}
