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

use crate::table_text::TableText;

/// Which rules surround the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleListKind {
    /// The list, then one rule that accepts everything: each packet traverses the whole list.
    Stateless,
    /// As in the paper: established connections pass first, then the list, then new connections to
    /// TCP port 80 pass.
    Stateful,
}

/// What [`generate_rule_list()`] and [`generate_rule_list_nft`] write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleListOptions {
    /// How many rules that do not match; at most 200,000.
    pub nonmatching_rule_count: usize,
    /// Seed of their addresses and order.
    pub seed: u64,
    /// What surrounds them.
    pub kind: RuleListKind,
}

/// The /16 networks that all listed addresses are in.
const SOURCE_NETWORKS: [[u8; 2]; 4] = [[172, 16], [172, 18], [172, 23], [172, 30]];

/// The source addresses of the list, in its order: distinct hosts of 172.16.0.0/16, 172.18.0.0/16,
/// 172.23.0.0/16 and 172.30.0.0/16.
///
/// A longer list of the same seed begins with the shorter one.
///
/// ```
/// use weir_example::{RuleListKind, RuleListOptions, generate_source_addresses};
/// let options = RuleListOptions { nonmatching_rule_count: 16, seed: 1, kind: RuleListKind::Stateless };
/// assert_eq!(generate_source_addresses(&options).len(), 16);
/// ```
pub fn generate_source_addresses(options: &RuleListOptions) -> Vec<Ipv4Addr> {
    assert!(
        options.nonmatching_rule_count <= 200_000,
        "the four networks hold 200,000 listed hosts at most"
    );
    let mut random = Rng::for_purpose(options.seed, "rules");
    let mut seen = HashSet::new();
    let mut listed = Vec::with_capacity(options.nonmatching_rule_count);
    while listed.len() < options.nonmatching_rule_count {
        let [first, second] = *random.pick(&SOURCE_NETWORKS);
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
/// use weir_example::{RuleListKind, RuleListOptions, generate_rule_list};
/// let options = RuleListOptions { nonmatching_rule_count: 2, seed: 1, kind: RuleListKind::Stateless };
/// let text = generate_rule_list(&options);
/// assert_eq!(text.matches("-j DROP").count(), 2);
/// ```
///
/// # Source
/// Kadlecsik and Pásztor, *Netfilter performance testing* (2005), section 4.3.
pub fn generate_rule_list(options: &RuleListOptions) -> String {
    let builtin = [("INPUT", "ACCEPT"), ("FORWARD", "DROP"), ("OUTPUT", "ACCEPT")];
    let mut filter = TableText::new("filter", &builtin);
    if options.kind == RuleListKind::Stateful {
        filter.append_rule("FORWARD", "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT");
    }
    for address in generate_source_addresses(options) {
        filter.append_rule("FORWARD", format!("-s {address}/32 -j DROP"));
    }
    filter.append_rule(
        "FORWARD",
        match options.kind {
            RuleListKind::Stateless => "-j ACCEPT",
            RuleListKind::Stateful => {
                "-p tcp -m tcp --dport 80 -m conntrack --ctstate NEW -j ACCEPT"
            }
        },
    );
    let mut text = String::new();
    filter.write_save_text(&mut text);
    text
}

/// The same ruleset as nftables text, as one would write it by hand: a rule per line, no sets, no
/// counters.
pub fn generate_rule_list_nft(options: &RuleListOptions) -> String {
    let mut text = String::from(
        "table ip filter {\n\tchain forward {\n\
         \t\ttype filter hook forward priority filter; policy drop;\n",
    );
    if options.kind == RuleListKind::Stateful {
        text.push_str("\t\tct state established,related accept\n");
    }
    for address in generate_source_addresses(options) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\t\tip saddr {address} drop");
    }
    text.push_str(match options.kind {
        RuleListKind::Stateless => "\t\taccept\n",
        RuleListKind::Stateful => "\t\ttcp dport 80 ct state new accept\n",
    });
    text.push_str("\t}\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(count: usize, kind: RuleListKind) -> RuleListOptions {
        RuleListOptions { nonmatching_rule_count: count, seed: 1, kind }
    }

    #[test]
    fn the_list_has_as_many_distinct_rules_as_asked() {
        for count in [0, 1, 16, 16_384] {
            let text = generate_rule_list(&options(count, RuleListKind::Stateless));
            let drops: HashSet<&str> =
                text.lines().filter(|line| line.ends_with("-j DROP")).collect();
            assert_eq!(drops.len(), count);
            assert_eq!(
                generate_rule_list_nft(&options(count, RuleListKind::Stateless))
                    .matches(" drop\n")
                    .count(),
                count
            );
        }
    }

    #[test]
    fn the_accepting_rule_is_last() {
        for kind in [RuleListKind::Stateless, RuleListKind::Stateful] {
            let text = generate_rule_list(&options(16, kind));
            let last = text.lines().rfind(|line| line.starts_with("-A")).unwrap_or_default();
            assert!(last.ends_with("-j ACCEPT"), "{last}");
        }
    }

    #[test]
    fn a_longer_list_begins_with_the_shorter_one() {
        let (short, long) = (
            generate_source_addresses(&options(16, RuleListKind::Stateless)),
            generate_source_addresses(&options(64, RuleListKind::Stateless)),
        );
        assert_eq!(short[..], long[..16]);
    }

    #[test]
    fn a_different_seed_gives_different_hosts() {
        let first = generate_source_addresses(&options(16, RuleListKind::Stateless));
        let other = RuleListOptions { seed: 2, ..options(16, RuleListKind::Stateless) };
        assert_ne!(first, generate_source_addresses(&other));
    }
}
