//! The members of sets of addresses, and of addresses with ports, for comparison with cells.
//!
//! Only sets whose members are known and constant are used: no rule changes them, no element
//! expires, and no element has `nomatch`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::rule_match::SetMatch;
use weir_model::{ChangingSets, ElementPart, Family, IpSet, SetOption, SharedName};
use weir_partition::IntervalSet;
use weir_partition::interval::Interval;

use crate::packet_sets::set_match_options::parse_set_match_options;

/// Maximum total number of ports of all address ranges, per element. A host of a nested prefix has
/// the ports of all prefixes that contain it.
const MEAN_PORTS_PER_ELEMENT_MAX: usize = 8;

/// The sets of two firewalls.
#[derive(Debug)]
pub(crate) struct CellIpsets<'f> {
    family: Family,
    sets: [HashMap<&'f str, &'f IpSet>; 2],
    changing: &'f ChangingSets,
    firewalls_have_same_ipsets: bool,
    /// By the address of the list of elements, and the kind of set.
    members: RefCell<HashMap<(usize, SetStorage, usize), Option<CellIpsetMembers>>>,
    has_equal_sets_by_name: RefCell<HashMap<SharedName, bool>>,
}

/// The members of a set.
#[derive(Clone, Debug)]
pub(crate) enum CellIpsetMembers {
    Addresses(Rc<IntervalSet>),
    AddressesWithPorts(Rc<AddressPortIpset>),
}

/// Addresses with ports: for each range of addresses, the protocols and ports that are members.
#[derive(Debug)]
pub(crate) struct AddressPortIpset {
    /// Sorted and disjoint, with a range of `ports`.
    stretches: Vec<(Interval, std::ops::Range<usize>)>,
    ports: Vec<(u8, u16)>,
}

impl<'f> CellIpsets<'f> {
    pub fn new(
        family: Family,
        sets: [&'f [IpSet]; 2],
        changing: &'f ChangingSets,
        firewalls_have_same_ipsets: bool,
    ) -> CellIpsets<'f> {
        CellIpsets {
            family,
            sets: sets.map(|sets| sets.iter().map(|set| (&*set.name, set)).collect()),
            changing,
            firewalls_have_same_ipsets,
            members: RefCell::default(),
            has_equal_sets_by_name: RefCell::default(),
        }
    }

    /// The members of the set of a match, ignoring its negation; `None` if they are unknown, may
    /// change, or depend on more than an address and a port.
    pub fn members_of_match(&self, side: usize, m: &SetMatch) -> Option<CellIpsetMembers> {
        let options = parse_set_match_options(m);
        let set = *self.sets[side].get(&*m.name)?;
        let is_plain = !options.has_options_beyond_membership
            && !options.return_nomatch
            && !self.changing.contains(&m.name)
            && m.src_directions.len() == set.kind.data_types.len()
            && set.family.is_none_or(|family| family == self.family);
        if !is_plain {
            return None;
        }
        let elements = std::sync::Arc::as_ptr(&set.elements) as usize;
        let key = (elements, set.kind.storage, set.kind.data_types.len());
        let mut members = self.members.borrow_mut();
        members.entry(key).or_insert_with(|| collect_members(set, self.family)).clone()
    }

    /// The first and last original rule that an element of the set is credited with.
    pub fn credit_range_of_elements(&self, side: usize, m: &SetMatch) -> Option<(u32, u32)> {
        let elements = self.sets[side].get(&*m.name)?.elements.iter();
        let credits = elements.flat_map(|e| &e.credited_originals).map(|original| original.0);
        credits.clone().min().zip(credits.max())
    }

    /// Whether a test of the set has the same result on both sides.
    pub fn is_same_on_both_sides(&self, name: &SharedName) -> bool {
        if self.firewalls_have_same_ipsets {
            return true;
        }
        let compare = || match self.sets.each_ref().map(|sets| sets.get(&**name)) {
            // Of a list, the members may differ.
            [Some(a), Some(b)] => a.kind.storage != SetStorage::List && a == b,
            _ => false,
        };
        !self.changing.contains(name)
            && *self.has_equal_sets_by_name.borrow_mut().entry(name.clone()).or_insert_with(compare)
    }
}

fn collect_members(set: &IpSet, family: Family) -> Option<CellIpsetMembers> {
    let has_netmask = set.options.iter().any(|option| matches!(option, SetOption::Netmask(_)));
    if has_netmask || set.elements.iter().any(|element| element.nomatch) {
        return None;
    }
    let interval = |part: &ElementPart| match part {
        ElementPart::AddrOrPrefix { addr, len } => {
            let mask = family.netmask((*len).into());
            let first = addr.0 & mask;
            Some((first, first | (family.max_addr() & !mask)))
        }
        _ => None,
    };
    match (&set.kind.data_types[..], set.kind.storage) {
        ([SetDataType::Ip | SetDataType::Net], SetStorage::Hash | SetStorage::Bitmap) => {
            let intervals = set.elements.iter().map(|element| match &element.parts[..] {
                [part] => interval(part),
                _ => None,
            });
            let mut members = IntervalSet::from_intervals(intervals.collect::<Option<Vec<_>>>()?);
            // hash_ip4_kadt in ip_set_hash_ip.c: the zero address is not an element.
            if set.kind.data_types == [SetDataType::Ip] && set.kind.storage == SetStorage::Hash {
                members = members.and(&IntervalSet::from_intervals([(1, family.max_addr())]));
            }
            Some(CellIpsetMembers::Addresses(Rc::new(members)))
        }
        ([SetDataType::Ip | SetDataType::Net, SetDataType::Port], SetStorage::Hash) => {
            let members = set.elements.iter().map(|element| match &element.parts[..] {
                [
                    address,
                    ElementPart::ProtoAndPort {
                        proto: Some(proto),
                        port_or_icmp_type_and_code: port,
                    },
                ] => Some((interval(address)?, (*proto, *port))),
                _ => None,
            });
            let members = members.collect::<Option<Vec<_>>>()?;
            Some(CellIpsetMembers::AddressesWithPorts(Rc::new(AddressPortIpset::new(members)?)))
        }
        _ => None,
    }
}

impl AddressPortIpset {
    /// `None` if prefixes are nested so deeply that the lists of ports become too long.
    fn new(mut members: Vec<(Interval, (u8, u16))>) -> Option<AddressPortIpset> {
        members.sort_unstable();
        members.dedup();
        let ports_max = MEAN_PORTS_PER_ELEMENT_MAX * members.len();
        let mut edges: Vec<u128> = Vec::with_capacity(2 * members.len());
        for ((lo, hi), _) in &members {
            edges.push(*lo);
            edges.extend(hi.checked_add(1));
        }
        edges.sort_unstable();
        edges.dedup();
        let mut set = AddressPortIpset { stretches: Vec::new(), ports: Vec::new() };
        let mut open: Vec<(u128, (u8, u16))> = Vec::new();
        let mut next = members.iter().peekable();
        for (at, from) in edges.iter().enumerate() {
            open.retain(|(hi, _)| hi >= from);
            while let Some(((_, hi), port)) = next.next_if(|((lo, _), _)| lo == from) {
                open.push((*hi, *port));
            }
            if open.is_empty() {
                continue;
            }
            let to = edges.get(at + 1).map_or(u128::MAX, |after| after - 1);
            let first = set.ports.len();
            set.ports.extend(open.iter().map(|(_, port)| *port));
            if set.ports.len() > ports_max {
                return None;
            }
            set.ports[first..].sort_unstable();
            set.stretches.push(((*from, to), first..set.ports.len()));
        }
        Some(set)
    }

    /// The protocols and ports that are members with each of some addresses; `None` if they are not
    /// the same for all of these.
    pub fn common_ports_of_addresses(&self, addresses: &[Interval]) -> Option<&[(u8, u16)]> {
        let ports_of = |(lo, hi): &Interval| {
            let at = self.stretches.partition_point(|((_, to), _)| to < lo);
            match self.stretches.get(at) {
                Some(((from, to), ports)) if from <= lo && hi <= to => {
                    Some(&self.ports[ports.clone()])
                }
                Some(((from, _), _)) if from <= hi => None,
                _ => Some(&[][..]),
            }
        };
        let (first, others) = addresses.split_first()?;
        let ports = ports_of(first)?;
        others.iter().all(|other| ports_of(other) == Some(ports)).then_some(ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_ports_of_all_prefixes_that_contain_it() {
        let members = vec![((0, 99), (6, 80)), ((10, 19), (17, 53)), ((10, 10), (6, 22))];
        let set = AddressPortIpset::new(members).expect("few ports");
        let ports = |lo, hi| set.common_ports_of_addresses(&[(lo, hi)]);
        assert_eq!(ports(0, 9), Some(&[(6, 80)][..]));
        assert_eq!(ports(10, 10), Some(&[(6, 22), (6, 80), (17, 53)][..]));
        assert_eq!(ports(11, 19), Some(&[(6, 80), (17, 53)][..]));
        assert_eq!(ports(100, 200), Some(&[][..]));
        // Not the same for all of them.
        assert_eq!(ports(9, 10), None);
        assert_eq!(ports(90, 100), None);
        assert_eq!(set.common_ports_of_addresses(&[(3, 4), (20, 30)]), Some(&[(6, 80)][..]));
        assert_eq!(set.common_ports_of_addresses(&[(3, 4), (120, 130)]), None);
        assert_eq!(set.common_ports_of_addresses(&[]), None);
    }

    #[test]
    fn the_highest_address_may_be_a_member() {
        let set = AddressPortIpset::new(vec![((u128::MAX, u128::MAX), (6, 80))]);
        let set = set.expect("few ports");
        assert_eq!(set.common_ports_of_addresses(&[(u128::MAX, u128::MAX)]), Some(&[(6, 80)][..]));
        assert_eq!(set.common_ports_of_addresses(&[(0, u128::MAX - 1)]), Some(&[][..]));
    }

    #[test]
    fn ports_of_deeply_nested_prefixes_are_refused() {
        let members = (0..100).map(|n| ((n, 1_000), (6, n as u16))).collect();
        assert!(AddressPortIpset::new(members).is_none());
    }
}
