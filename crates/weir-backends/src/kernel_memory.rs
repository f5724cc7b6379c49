//! The kernel memory that a form needs.
//!
//! An iptables table is one block of entries in the kernel: a header, the matches with their
//! headers, and the target, each rounded up to eight bytes
//! (include/uapi/linux/netfilter/x_tables.h, linux/netfilter_ipv4/ip_tables.h). In addition there
//! are 16 bytes of counters per rule and CPU, and per CPU a stack with one return address per
//! user-defined chain. A set needs its hash buckets or its bitmap, and its elements with their
//! counters.

use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::rule_match::Match;
use weir_model::{Family, Firewall, IpSet, Rule, Ruleset, SetOption, Target};

/// `sizeof(struct ipt_entry)` and `sizeof(struct ip6t_entry)`.
const fn ipt_entry_bytes(family: Family) -> u64 {
    match family {
        Family::V4 => 112,
        Family::V6 => 168,
    }
}

/// `sizeof(struct xt_entry_match)`, the same for targets. `weir-kernel` and `weir-apply`, which
/// read and write these structures, have their sizes, too; this crate may use neither.
const XT_MATCH_OR_TARGET_HEADER_BYTES: u64 = 32;
/// `sizeof(struct xt_standard_target)`.
const STANDARD_TARGET_BYTES: u64 = 40;
/// `sizeof(struct xt_error_target)`: the entry that names a chain.
const ERROR_TARGET_BYTES: u64 = 64;
/// `sizeof(struct xt_counters)`.
const XT_COUNTERS_BYTES: u64 = 16;

/// The estimate for everything that a form loads.
pub fn estimate_kernel_bytes(firewall: &Firewall, cpus: usize) -> u64 {
    let tables: u64 =
        firewall.rulesets().map(|r| iptables_tables_kernel_bytes(r, cpus as u64)).sum();
    tables + firewall.sets.iter().map(ipset_bytes).sum::<u64>()
}

fn iptables_tables_kernel_bytes(ruleset: &Ruleset, cpus: u64) -> u64 {
    let entry = ipt_entry_bytes(ruleset.family);
    let mut total = 0;
    for table in &ruleset.tables {
        let user = table.chains.iter().filter(|c| c.policy.is_none()).count() as u64;
        let built_in = table.chains.len() as u64 - user;
        let rules = table.chains.iter().flat_map(|c| &c.rules);
        let mut entries = built_in + 2 * user + 1;
        // A policy or the end of a user chain; a user chain's name; the end of the table.
        let mut block = (built_in + user) * (entry + STANDARD_TARGET_BYTES)
            + (user + 1) * (entry + ERROR_TARGET_BYTES);
        for rule in rules {
            block += entry + matches_and_target_bytes(rule);
            entries += 1;
        }
        total += block + entries * XT_COUNTERS_BYTES * cpus + user * 8 * cpus;
    }
    total
}

/// Matches and target of a rule, without its entry.
fn matches_and_target_bytes(rule: &Rule) -> u64 {
    let matches: u64 =
        rule.matches.iter().map(|m| XT_MATCH_OR_TARGET_HEADER_BYTES + match_data_bytes(m)).sum();
    let target = match &rule.target {
        Target::None
        | Target::Accept
        | Target::Drop
        | Target::Return
        | Target::Jump(_)
        | Target::Goto(_) => STANDARD_TARGET_BYTES,
        Target::Reject(_) => XT_MATCH_OR_TARGET_HEADER_BYTES + 8,
        Target::Effect(_) => XT_MATCH_OR_TARGET_HEADER_BYTES + 40,
        Target::Nat(_) => XT_MATCH_OR_TARGET_HEADER_BYTES + 40,
        Target::Divert(_) | Target::Opaque(_) => XT_MATCH_OR_TARGET_HEADER_BYTES + 32,
    };
    matches + target
}

/// Private data of a match, rounded up to eight bytes.
fn match_data_bytes(m: &Match) -> u64 {
    match m {
        Match::Tcp { .. } | Match::Udp { .. } => 16,
        Match::Sctp { .. } => 56,
        Match::Dccp { .. } | Match::Icmp(_) | Match::Mac(_) => 16,
        Match::Multiport { .. } => 48,
        Match::IpRange { .. } => 72,
        Match::Mark(_) | Match::ConnMark(_) | Match::Set(_) => 16,
        Match::State(_) | Match::Length(_) | Match::Ttl { .. } => 8,
        Match::Dscp(_) | Match::Tos(_) | Match::PktType(_) => 8,
        Match::Conntrack(_) => 168,
        Match::Comment(_) => 256,
        Match::Stateful(_) | Match::UnmodelledInput(_) => 64,
        Match::Opaque(_) => 128,
    }
}

/// A set: its table and its elements.
fn ipset_bytes(set: &IpSet) -> u64 {
    let n = set.elements.len() as u64;
    let counters = if set.options.contains(&SetOption::Counters) { XT_COUNTERS_BYTES } else { 0 };
    let v6 = set.family == Some(Family::V6);
    let header = 400;
    match set.kind.storage {
        SetStorage::List => header + n * (48 + counters),
        SetStorage::Bitmap => {
            let range = set.options.iter().find_map(|o| match o {
                SetOption::AddrRange(lo, hi) => Some((hi.0 - lo.0 + 1) as u64),
                SetOption::PortRange(lo, hi) => Some(u64::from(hi - lo) + 1),
                _ => None,
            });
            let range = range.unwrap_or(65_536);
            header + range / 8 + range * counters
        }
        SetStorage::Hash => {
            let address = if v6 { 16 } else { 4 };
            let element: u64 = set
                .kind
                .data_types
                .iter()
                .map(|p| match p {
                    SetDataType::Ip => address,
                    SetDataType::Net => address + 4,
                    SetDataType::Port | SetDataType::Mark => 4,
                    SetDataType::Mac => 8,
                    SetDataType::Iface => 20,
                    SetDataType::Set => 8,
                })
                .sum();
            let element = element.next_multiple_of(if counters > 0 { 8 } else { 4 }) + counters;
            let size = set.options.iter().find_map(|o| match o {
                SetOption::HashSize(h) => Some(u64::from(*h)),
                _ => None,
            });
            let buckets = size.unwrap_or(1024).max((n / 4).next_power_of_two());
            // A bucket in use begins with a header and has room for at least two elements
            // (AHASH_INIT_SIZE in net/netfilter/ipset/ip_set_hash_gen.h).
            let used = expected_used_buckets(n, buckets);
            header + buckets * 8 + used * 32 + (n + used / 2) * element
        }
    }
}

/// How many of the buckets hold something when `n` elements are spread at random.
fn expected_used_buckets(n: u64, buckets: u64) -> u64 {
    let empty = (-(n as f64) / buckets as f64).exp();
    (buckets as f64 * (1.0 - empty)).ceil() as u64
}
