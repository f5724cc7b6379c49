//! Filter sets for classifiers, in the format of ClassBench: access lists, firewalls and IP chains
//! with the statistics of its seeds, block lists, and access networks.
//!
//! ClassBench describes a filter set by distributions: of protocols and port classes, of pairs of
//! prefix lengths, and of how addresses branch below a prefix, which determines how filters nest.
//! The [profiles](profile) hold such distributions for its seeds acl1, fw1 and ipc1. A filter is
//! drawn from them; a filter that exists already is drawn again. More specific filters come
//! earlier, with exceptions, as in its sets. Sets of up to 10,000 filters have few addresses, which
//! nest; in those of 100,000 or more, nearly every long prefix is distinct; between them, a share of
//! the filters is of either kind. Not reproduced are the dependence of ports on addresses and the
//! exact size of each prefix's subtree.
//!
//! # Source
//! D. E. Taylor, J. S. Turner: ClassBench: A Packet Classification Benchmark, IEEE/ACM
//! Transactions on Networking 15(3), 2007.

mod access_network;
mod address_trie;
mod five_tuple_filter;
mod profile;

use std::collections::HashSet;

use weir_random::Rng;

use self::address_trie::{AddressBranching, AddressTrie};
use self::five_tuple_filter::{ANY_PORT, FiveTupleFilter, Ipv4Prefix, PortRange};
use self::profile::{
    ACL_PROFILE, AddressProfile, FIREWALL_PROFILE, FilterSetProfile, IP_CHAIN_PROFILE, PortClass,
};

/// What a generated filter set is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterSetShape {
    /// An access list, as ClassBench's acl1: long prefixes, exact destination ports.
    Acl,
    /// A firewall, as fw1: one address is wide in most filters, and source ports are tested.
    Fw,
    /// IP chains, as ipc1: a mixture of both, a third without ports.
    Ipc,
    /// Distinct source addresses and nothing else.
    BlockList,
    /// About ten filters for each customer: services, management, outgoing mail, the rest.
    AccessNetwork,
}

/// What [`generate_filter_set()`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterSetOptions {
    /// The distributions.
    pub shape: FilterSetShape,
    /// Number of filters: 1 to 1,000,000, all distinct.
    pub rule_count: usize,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Most filters of a generated set.
pub const FILTER_SET_RULES_MAX: usize = 1_000_000;

/// Up to how many filters a set has the addresses of small ones.
const SMALL_SET_RULES: usize = 10_000;
/// From how many filters on a set has the addresses of large ones.
const LARGE_SET_RULES: usize = 100_000;

/// Tries to draw a filter that does not exist yet before its host bits become uniform.
const DRAWS_BEFORE_UNIFORM_HOST_BITS: usize = 50;

/// The filter set as text, a filter per line, the first that matches first.
///
/// Unlike other generated rulesets, acl, fw, ipc and block lists have random addresses of the whole
/// IPv4 range, as ClassBench's.
///
/// ```
/// use weir_example::{FilterSetOptions, FilterSetShape, generate_filter_set};
/// let options = FilterSetOptions { shape: FilterSetShape::Acl, rule_count: 100, seed: 1 };
/// assert_eq!(generate_filter_set(&options).lines().count(), 100);
/// ```
///
/// # Panics
/// If the number of filters is not 1 to 1,000,000.
pub fn generate_filter_set(options: &FilterSetOptions) -> String {
    let in_range = (1..=FILTER_SET_RULES_MAX).contains(&options.rule_count);
    assert!(in_range, "a filter set has 1 to {FILTER_SET_RULES_MAX} filters");
    let filters = match options.shape {
        FilterSetShape::Acl => draw_profile_filters(&ACL_PROFILE, options),
        FilterSetShape::Fw => draw_profile_filters(&FIREWALL_PROFILE, options),
        FilterSetShape::Ipc => draw_profile_filters(&IP_CHAIN_PROFILE, options),
        FilterSetShape::BlockList => draw_blocked_source_addresses(options),
        FilterSetShape::AccessNetwork => {
            access_network::list_customer_filters(options.rule_count, options.seed)
        }
    };
    let mut text = String::with_capacity(filters.len() * 72);
    for filter in &filters {
        filter.write_classbench_line(&mut text);
    }
    text
}

fn draw_profile_filters(
    profile: &FilterSetProfile,
    options: &FilterSetOptions,
) -> Vec<FiveTupleFilter> {
    let mut random = Rng::for_purpose(options.seed, "filter set");
    let small = SetAddresses::of_small_set(profile, options);
    let large = SetAddresses::of_large_set(profile, options);
    let large_set_thousandths = count_large_set_thousandths(options.rule_count);
    let mut seen = HashSet::with_capacity(options.rule_count);
    let mut keyed = Vec::with_capacity(options.rule_count);
    while keyed.len() < options.rule_count {
        for draw in 0.. {
            let is_of_large_set =
                large_set_thousandths > 0 && random.below(1000) < large_set_thousandths;
            let SetAddresses { addresses, sources, destinations } =
                if is_of_large_set { &large } else { &small };
            let (mut source_len, mut destination_len) = addresses.draw_prefix_lengths(&mut random);
            let is_uniform = draw >= DRAWS_BEFORE_UNIFORM_HOST_BITS;
            if is_uniform {
                // Not enough combinations are left: hosts of one of the two sides make more.
                let len = if source_len > destination_len {
                    &mut source_len
                } else {
                    &mut destination_len
                };
                *len = 32;
            }
            let mut draw_prefix = |trie: &AddressTrie, len: u32| {
                let address = trie.draw_address(&mut random, len);
                let host_bits = if is_uniform { random.next_u64() as u32 & 0xffff } else { 0 };
                Ipv4Prefix::new(address ^ host_bits, len)
            };
            let saddr = draw_prefix(sources, source_len);
            let mut daddr = draw_prefix(destinations, destination_len);
            if saddr.len >= 16 && random.chance_percent(addresses.same_network_percent) {
                let network = saddr.address & 0xffff_0000;
                daddr = Ipv4Prefix::new(network | daddr.address & 0xffff, destination_len);
            }
            let (proto, sport_class, dport_class) = profile.draw_port_classes(&mut random);
            let sport = draw_ports(&mut random, sport_class, profile.exact_source_ports, profile);
            let dport =
                draw_ports(&mut random, dport_class, profile.exact_destination_ports, profile);
            let filter = FiveTupleFilter { saddr, daddr, sport, dport, proto };
            if seen.insert(filter) {
                let free_bits = 64 - saddr.len - daddr.len;
                keyed.push((
                    free_bits + random.below(profile.order_jitter_free_bits) as u32,
                    filter,
                ));
                break;
            }
        }
    }
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, filter)| filter).collect()
}

/// The addresses of a set.
struct SetAddresses<'a> {
    addresses: &'a AddressProfile,
    sources: AddressTrie,
    destinations: AddressTrie,
}

impl SetAddresses<'_> {
    fn of_small_set<'a>(
        profile: &'a FilterSetProfile,
        options: &FilterSetOptions,
    ) -> SetAddresses<'a> {
        // Larger sets need more addresses.
        let doublings = (options.rule_count / 1000).checked_ilog2().unwrap_or(0);
        let more_percent = 2 * u64::from(doublings);
        SetAddresses::new(&profile.small_set_addresses, options.seed, more_percent)
    }

    fn of_large_set<'a>(
        profile: &'a FilterSetProfile,
        options: &FilterSetOptions,
    ) -> SetAddresses<'a> {
        SetAddresses::new(&profile.large_set_addresses, options.seed, 0)
    }

    fn new(addresses: &AddressProfile, seed: u64, more_percent: u64) -> SetAddresses<'_> {
        let trie = |purpose, branching: AddressBranching| {
            AddressTrie::new(seed, purpose, branching.with_more_branches(more_percent))
        };
        SetAddresses {
            addresses,
            sources: trie("sources", addresses.source_branching),
            destinations: trie("destinations", addresses.destination_branching),
        }
    }
}

/// Which share of filters has addresses as in large sets: none in sets of up to 10,000 filters, all
/// in those of 100,000 or more, and between them in proportion.
fn count_large_set_thousandths(rule_count: usize) -> usize {
    let of_large_set = rule_count.clamp(SMALL_SET_RULES, LARGE_SET_RULES) - SMALL_SET_RULES;
    of_large_set * 1000 / (LARGE_SET_RULES - SMALL_SET_RULES)
}

fn draw_ports(
    random: &mut Rng,
    class: PortClass,
    exact: &[u16],
    profile: &FilterSetProfile,
) -> PortRange {
    match class {
        PortClass::Wildcard => ANY_PORT,
        PortClass::High => (1024, u16::MAX),
        PortClass::Range => *random.pick(profile.port_ranges),
        PortClass::Exact => {
            // The minimum of two draws prefers the first ports, which are the frequent ones.
            let at = random.below(exact.len()).min(random.below(exact.len()));
            (exact[at], exact[at])
        }
    }
}

const BLOCK_LIST_BRANCHING: AddressBranching =
    AddressBranching { two_child_percent_of_octet: [95, 60, 70, 85], is_skewed: true };

/// Distinct addresses, many of them in networks with others.
fn draw_blocked_source_addresses(options: &FilterSetOptions) -> Vec<FiveTupleFilter> {
    let mut random = Rng::for_purpose(options.seed, "block list");
    let trie = AddressTrie::new(options.seed, "block list", BLOCK_LIST_BRANCHING);
    let mut seen = HashSet::with_capacity(options.rule_count);
    let mut filters = Vec::with_capacity(options.rule_count);
    while filters.len() < options.rule_count {
        let address = trie.draw_address(&mut random, 32);
        if seen.insert(address) {
            let saddr = Ipv4Prefix::new(address, 32);
            filters.push(FiveTupleFilter { saddr, ..FiveTupleFilter::ANY });
        }
    }
    filters
}
