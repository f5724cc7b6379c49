//! The rulesets of the rule count studies: N rules that do not match, followed by one that accepts.
//!
//! They follow Kadlecsik and Pásztor (2005), section 4.3: hosts as sources, and a single rule at
//! the end that accepts the measured traffic. There are two kinds: with the stateful rules of the
//! paper, and without them, so that every packet traverses the list instead of only the first one
//! of each connection.

use std::collections::HashSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

use weir_random::Rng;

use crate::text::TableText;

/// Which rules surround the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesKind {
    /// The list, then one rule that accepts everything: each packet traverses the whole list.
    Stateless,
    /// As in the paper: established connections pass first, then the list, then new connections to
    /// TCP port 80 pass.
    Stateful,
}

/// What [`rules()`] and [`rules_nft`] write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesOptions {
    /// How many rules that do not match; at most 200,000.
    pub count: usize,
    /// Seed of their addresses and order.
    pub seed: u64,
    /// What surrounds them.
    pub kind: RulesKind,
}

/// The /16 networks that all listed addresses are in.
const NETWORKS: [[u8; 2]; 4] = [[172, 16], [172, 18], [172, 23], [172, 30]];

/// The source addresses of the list, in its order: distinct hosts of 172.16.0.0/16, 172.18.0.0/16,
/// 172.23.0.0/16 and 172.30.0.0/16.
///
/// A longer list of the same seed begins with the shorter one.
///
/// ```
/// use weir_example::{RulesKind, RulesOptions, addresses};
/// let options = RulesOptions { count: 16, seed: 1, kind: RulesKind::Stateless };
/// assert_eq!(addresses(&options).len(), 16);
/// ```
pub fn addresses(options: &RulesOptions) -> Vec<Ipv4Addr> {
    assert!(options.count <= 200_000, "the four networks hold 200,000 listed hosts at most");
    let mut random = Rng::for_purpose(options.seed, "rules");
    let mut seen = HashSet::new();
    let mut listed = Vec::with_capacity(options.count);
    while listed.len() < options.count {
        let [first, second] = *random.pick(&NETWORKS);
        let (third, fourth) = (random.below(256) as u8, 1 + random.below(254) as u8);
        let address = Ipv4Addr::new(first, second, third, fourth);
        if seen.insert(address) {
            listed.push(address);
        }
    }
    listed
}

/// The ruleset as `iptables-save` text.
///
/// ```
/// use weir_example::{RulesKind, RulesOptions, rules};
/// let text = rules(&RulesOptions { count: 2, seed: 1, kind: RulesKind::Stateless });
/// assert_eq!(text.matches("-j DROP").count(), 2);
/// ```
///
/// # Source
/// Kadlecsik and Pásztor, *Netfilter performance testing* (2005), section 4.3.
pub fn rules(options: &RulesOptions) -> String {
    let builtin = [("INPUT", "ACCEPT"), ("FORWARD", "DROP"), ("OUTPUT", "ACCEPT")];
    let mut filter = TableText::new("filter", &builtin);
    if options.kind == RulesKind::Stateful {
        filter.rule("FORWARD", "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT");
    }
    for address in addresses(options) {
        filter.rule("FORWARD", format!("-s {address}/32 -j DROP"));
    }
    filter.rule(
        "FORWARD",
        match options.kind {
            RulesKind::Stateless => "-j ACCEPT",
            RulesKind::Stateful => "-p tcp -m tcp --dport 80 -m conntrack --ctstate NEW -j ACCEPT",
        },
    );
    let mut text = String::new();
    filter.print(&mut text);
    text
}

/// The same ruleset as nftables text, as one would write it by hand: a rule per line, no sets, no
/// counters.
pub fn rules_nft(options: &RulesOptions) -> String {
    let mut text = String::from(
        "table ip filter {\n\tchain forward {\n\
         \t\ttype filter hook forward priority filter; policy drop;\n",
    );
    if options.kind == RulesKind::Stateful {
        text.push_str("\t\tct state established,related accept\n");
    }
    for address in addresses(options) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\t\tip saddr {address} drop");
    }
    text.push_str(match options.kind {
        RulesKind::Stateless => "\t\taccept\n",
        RulesKind::Stateful => "\t\ttcp dport 80 ct state new accept\n",
    });
    text.push_str("\t}\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(count: usize, kind: RulesKind) -> RulesOptions {
        RulesOptions { count, seed: 1, kind }
    }

    #[test]
    fn the_list_has_as_many_distinct_rules_as_asked() {
        for count in [0, 1, 16, 16_384] {
            let text = rules(&options(count, RulesKind::Stateless));
            let drops: HashSet<&str> =
                text.lines().filter(|line| line.ends_with("-j DROP")).collect();
            assert_eq!(drops.len(), count);
            assert_eq!(
                rules_nft(&options(count, RulesKind::Stateless)).matches(" drop\n").count(),
                count
            );
        }
    }

    #[test]
    fn the_accepting_rule_is_last() {
        for kind in [RulesKind::Stateless, RulesKind::Stateful] {
            let text = rules(&options(16, kind));
            let last = text.lines().rfind(|line| line.starts_with("-A")).unwrap_or_default();
            assert!(last.ends_with("-j ACCEPT"), "{last}");
        }
    }

    #[test]
    fn a_longer_list_begins_with_the_shorter_one() {
        let (short, long) = (
            addresses(&options(16, RulesKind::Stateless)),
            addresses(&options(64, RulesKind::Stateless)),
        );
        assert_eq!(short[..], long[..16]);
    }

    #[test]
    fn another_seed_lists_other_hosts() {
        let first = addresses(&options(16, RulesKind::Stateless));
        let other = RulesOptions { seed: 2, ..options(16, RulesKind::Stateless) };
        assert_ne!(first, addresses(&other));
    }
}
