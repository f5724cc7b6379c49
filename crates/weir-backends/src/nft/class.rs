//! A run of rules as one lookup.
//!
//! All rules of a run test the same value: an address, a port, a mark, a MAC address, a device, or
//! two of them. A packet has one value, so only rules whose test contains that value can match it.
//! The values are divided into stretches over which the list of these rules is constant
//! ([`weir_partition::stretches()`]). Each stretch is an element of a map, and equal lists are one
//! *class*. So overlapping prefixes, several verdicts, and rules that do not terminate (LOG before
//! ACCEPT) all cost one lookup. If the lists grow too long, the run is refused and a shorter one is
//! tried.

use std::collections::HashMap;

use weir_model::Family;
use weir_model::mask::prefix_mask;
use weir_model::nft::{self, ElementKey, Key, Load, With};
use weir_partition::{Interval, RuleLists, Stretches, stretches};

use super::cond::Cond;
use super::item::{Act, Item};

/// Rules that a run must have: a lookup costs about as much as this many plain rules.
pub(super) const RUN_MIN: usize = 6;

/// What a run looks up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct KeyAxis {
    /// The values that make up the key.
    pub loads: Vec<Load>,
}

impl KeyAxis {
    /// All that are tried, pairs first: they leave less to their classes.
    pub fn all() -> Vec<KeyAxis> {
        let pairs = [
            [Load::Saddr, Load::EtherSaddr],
            [Load::Saddr, Load::Daddr],
            [Load::Daddr, Load::Oifname],
            [Load::Saddr, Load::Iifname],
        ];
        let single = [
            Load::Saddr,
            Load::Daddr,
            Load::EtherSaddr,
            Load::Dport,
            Load::Sport,
            Load::Mark,
            Load::Iifname,
            Load::Oifname,
        ];
        let pairs = pairs.into_iter().map(|p| KeyAxis { loads: p.into() });
        pairs.chain(single.into_iter().map(|l| KeyAxis { loads: vec![l] })).collect()
    }

    fn is_port(&self) -> bool {
        self.loads.iter().any(|l| l.is_transport())
    }

    /// The item's place on this axis, or `None` if it cannot be part of a run along it.
    pub fn place(&self, item: &Item) -> Option<KeyedItem> {
        // A translation of ports needs its own test of the protocol.
        if item.is_stateful() || self.is_port() && matches!(item.act, Act::Nat(_)) {
            return None;
        }
        let mut keys = Vec::with_capacity(self.loads.len());
        for load in &self.loads {
            keys.push(keys_of(item, *load, self.loads.len() > 1)?);
        }
        let proto = if self.is_port() { Some(only_proto(item)?) } else { None };
        Some(KeyedItem { keys, proto })
    }

    /// The item without the tests that the lookup makes.
    pub fn strip(&self, item: &Item) -> Item {
        let mut item = item.clone();
        item.conds.retain(|c| match c {
            Cond::Test(t) if t.load == Load::L4proto => !self.is_port(),
            Cond::Test(t) => !self.loads.contains(&t.load),
            Cond::Opaque(_) | Cond::Unless(_) | Cond::Any(_) => true,
        });
        item
    }

    /// True where the lookup makes all of the item's tests.
    pub fn says_all_of(&self, item: &Item) -> bool {
        item.conds.iter().all(|c| match c {
            Cond::Test(t) => {
                self.loads.contains(&t.load) || t.load == Load::L4proto && self.is_port()
            }
            Cond::Opaque(_) | Cond::Unless(_) | Cond::Any(_) => false,
        })
    }

    /// Short name for maps: `saddr`, `saddr.ether`.
    pub fn name(&self) -> String {
        let names = self.loads.iter().map(|l| match l {
            Load::Saddr => "saddr",
            Load::Daddr => "daddr",
            Load::EtherSaddr => "ether",
            Load::Dport => "dport",
            Load::Sport => "sport",
            Load::Mark => "mark",
            Load::Iifname => "iif",
            Load::Oifname => "oif",
            _ => "key",
        });
        names.collect::<Vec<_>>().join("-")
    }
}

/// Where an item lies on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeyedItem {
    /// For each part of the key, the values that the item's test matches.
    keys: Vec<Vec<ElementKey>>,
    /// Ports: the protocol they are ports of, equal in the whole run.
    pub proto: Option<u128>,
}

/// The values of the item's one test of `load`.
fn keys_of(item: &Item, load: Load, exact: bool) -> Option<Vec<ElementKey>> {
    let mut found = None;
    for cond in &item.conds {
        match cond {
            Cond::Test(t) if t.load == load => {
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
    let keys: Vec<ElementKey> = match &test.with {
        With::Device { name, prefix: false } => vec![ElementKey::Device(name.clone())],
        With::Spans(spans) => spans.iter().map(|&(lo, hi)| ElementKey::Span(lo, hi)).collect(),
        With::Masked { .. } | With::AnyBit(_) | With::Device { .. } => return None,
    };
    let single = |k: &ElementKey| !matches!(k, ElementKey::Span(lo, hi) if lo != hi);
    (!exact || keys.iter().all(single)).then_some(keys)
}

/// The protocol of a rule that tests ports. The lookup must be its first test of the packet's
/// transport header, and other tests before it must have no side effects.
fn only_proto(item: &Item) -> Option<u128> {
    let mut protos = item.conds.iter().filter_map(|c| match c {
        Cond::Test(nft::Test { load: Load::L4proto, with: With::Spans(s), negated: false }) => {
            match s[..] {
                [(lo, hi)] if lo == hi => Some(lo),
                _ => None,
            }
        }
        _ => None,
    });
    let proto = protos.next()?;
    protos.next().is_none().then_some(proto)
}

/// A run cut into classes.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    /// Each distinct list of the run's rules, by their index in the run.
    pub lists: Vec<Vec<u32>>,
    /// Key and class of each element, sorted.
    pub elements: Vec<(Vec<ElementKey>, usize)>,
    /// Keys are spans.
    pub interval: bool,
    /// The key is looked up under this mask.
    pub mask: Option<u128>,
}

impl Classes {
    /// Rules that an element has to try on average.
    pub fn mean(&self) -> f64 {
        let sum: usize = self.elements.iter().map(|(_, c)| self.lists[*c].len()).sum();
        sum as f64 / self.elements.len().max(1) as f64
    }

    /// The key as nft loads it.
    pub fn key(&self, axis: &KeyAxis) -> Vec<Key> {
        axis.loads.iter().map(|load| Key { load: *load, mask: self.mask }).collect()
    }
}

/// Cuts a run into classes; `None` if the lists grow too long.
///
/// `decides[i]`: the i-th rule decides for every packet of its place.
pub(super) fn classes(places: &[&KeyedItem], decides: &[bool], family: Family) -> Option<Classes> {
    let numeric = places[0].keys.len() == 1
        && matches!(places[0].keys[0].first(), Some(ElementKey::Span(..)));
    if numeric { by_stretches(places, decides, family) } else { exact(places, decides) }
}

/// Rules that the lists of a run may hold together.
fn budget(decides: &[bool]) -> usize {
    8 * decides.len() + 4096
}

fn by_stretches(places: &[&KeyedItem], decides: &[bool], family: Family) -> Option<Classes> {
    let interval = |key: &ElementKey| match key {
        ElementKey::Span(lo, hi) => Some((*lo, *hi)),
        ElementKey::Device(_) => None,
    };
    let of = |place: &&KeyedItem| place.keys[0].iter().map(interval).collect::<Option<Vec<_>>>();
    let rules: Vec<Vec<Interval>> = places.iter().map(of).collect::<Option<_>>()?;
    let found = stretches(&rules, decides, budget(decides)).ok()?;
    Some(shape(found, family))
}

/// The cheapest map for the stretches: single values and blocks of one size are looked up in a hash
/// table, everything else in a tree of intervals.
fn shape(found: Stretches, family: Family) -> Classes {
    let Stretches { lists, stretches } = found;
    let block = |interval| prefix_mask(interval, u128::MAX).filter(|mask| *mask != 0);
    let mask = stretches.first().map_or(Some(u128::MAX), |(first, _)| block(*first));
    if mask.is_some() && stretches.iter().all(|(interval, _)| block(*interval) == mask) {
        let mask = mask.filter(|mask| *mask != u128::MAX).map(|mask| mask & family.max());
        let of = |((lo, _), class)| (vec![ElementKey::Span(lo, lo)], class);
        let elements = stretches.into_iter().map(of);
        return Classes { lists, elements: elements.collect(), interval: false, mask };
    }
    let mut joined: Vec<(Interval, usize)> = Vec::with_capacity(stretches.len());
    for ((lo, hi), class) in stretches {
        match joined.last_mut() {
            Some(((_, end), last)) if *last == class && end.checked_add(1) == Some(lo) => *end = hi,
            _ => joined.push(((lo, hi), class)),
        }
    }
    let elements = joined.into_iter().map(|((lo, hi), c)| (vec![ElementKey::Span(lo, hi)], c));
    Classes { lists, elements: elements.collect(), interval: true, mask: None }
}

fn exact(places: &[&KeyedItem], decides: &[bool]) -> Option<Classes> {
    let mut groups: HashMap<Vec<ElementKey>, Vec<u32>> = HashMap::new();
    let mut count = 0;
    for (i, place) in places.iter().enumerate() {
        for key in product(&place.keys) {
            count += 1;
            if count > 4 * places.len() + 256 {
                return None;
            }
            groups.entry(key).or_default().push(i as u32);
        }
    }
    let mut keys: Vec<_> = groups.into_iter().collect();
    keys.sort_unstable();
    let mut lists = RuleLists::new(decides, budget(decides));
    let mut elements = Vec::with_capacity(keys.len());
    for (key, members) in keys {
        elements.push((key, lists.class(members.into_iter()).ok()?));
    }
    Some(Classes { lists: lists.into_lists(), elements, interval: false, mask: None })
}

fn product(keys: &[Vec<ElementKey>]) -> Vec<Vec<ElementKey>> {
    let mut out = vec![Vec::new()];
    for part in keys {
        let longer = out.iter().flat_map(|head| {
            part.iter().map(|k| {
                let mut key: Vec<ElementKey> = head.clone();
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

    fn place(spans: &[(u128, u128)]) -> KeyedItem {
        let keys = spans.iter().map(|&(lo, hi)| ElementKey::Span(lo, hi)).collect();
        KeyedItem { keys: vec![keys], proto: None }
    }

    #[test]
    fn overlapping_prefixes_keep_their_order() {
        // 10.0.0.0/8 logs, 10.1.0.0/16 accepts, 10.0.0.0/8 drops.
        let (eight, sixteen) = ((0x0a00_0000, 0x0aff_ffff), (0x0a01_0000, 0x0a01_ffff));
        let places = [place(&[eight]), place(&[sixteen]), place(&[eight])];
        let refs: Vec<_> = places.iter().collect();
        let c = classes(&refs, &[false, true, true], Family::V4).unwrap();
        assert_eq!(c.lists, [vec![0, 2], vec![0, 1]]);
        assert_eq!(c.elements.len(), 3);
        assert!(c.interval);
    }

    #[test]
    fn hosts_are_looked_up_by_hash_and_equal_prefixes_under_a_mask() {
        let hosts = [place(&[(1, 1)]), place(&[(2, 2)]), place(&[(1, 1)])];
        let refs: Vec<_> = hosts.iter().collect();
        let c = classes(&refs, &[true; 3], Family::V4).unwrap();
        assert!(!c.interval && c.mask.is_none());
        assert_eq!(c.lists, [vec![0], vec![1]], "what stands behind a decision cannot match");
        let nets = [place(&[(0x100, 0x1ff)]), place(&[(0x300, 0x3ff)])];
        let refs: Vec<_> = nets.iter().collect();
        let c = classes(&refs, &[true; 2], Family::V4).unwrap();
        assert_eq!(c.mask, Some(0xffff_ff00));
    }

    #[test]
    fn the_last_address_ends_a_stretch() {
        let places = [place(&[(0, u128::MAX)]), place(&[(5, u128::MAX)])];
        let refs: Vec<_> = places.iter().collect();
        let c = classes(&refs, &[false, true], Family::V6).unwrap();
        let key = |lo, hi| vec![ElementKey::Span(lo, hi)];
        assert_eq!(c.elements, [(key(0, 4), 0), (key(5, u128::MAX), 1)]);
    }
}
