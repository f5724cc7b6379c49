//! What a ruleset holds: rules by table and chain, matches and targets by name.

use std::collections::HashMap;

use serde::Serialize;
use weir_model::{Effect, Family, Firewall, Match, NatTarget, Rule, Ruleset, Target};

/// What a firewall holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Rules in all tables of both families.
    pub rules: usize,
    /// Chains.
    pub chains: usize,
    /// Sets.
    pub sets: usize,
    /// Elements of all sets.
    pub elements: usize,
    /// By table, in the order of the text.
    pub tables: Vec<TableCount>,
    /// Matches, most frequent first. The base tests have the names of their options.
    pub matches: Vec<NameCount>,
    /// Targets, most frequent first; `jump` and `goto` for those to chains, `none` for none.
    pub targets: Vec<NameCount>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableCount {
    /// `v4` or `v6`.
    pub family: &'static str,
    /// Table.
    pub table: &'static str,
    /// Rules in it.
    pub rules: usize,
    /// Its chains, most rules first.
    pub chains: Vec<ChainCount>,
}

/// One chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainCount {
    /// Chain.
    pub chain: String,
    /// Rules in it.
    pub rules: usize,
}

/// How often a name occurs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NameCount {
    /// Name of a match or target.
    pub name: String,
    /// In how many rules.
    pub count: usize,
}

/// Counts.
pub fn counts(firewall: &Firewall) -> Counts {
    let mut counts = Counts {
        sets: firewall.sets.len(),
        elements: firewall.sets.iter().map(|s| s.elements.len()).sum(),
        ..Counts::default()
    };
    let (mut matches, mut targets) = (HashMap::new(), HashMap::new());
    for ruleset in firewall.rulesets() {
        count_tables(ruleset, &mut counts);
        for (_, _, rule) in ruleset.rules() {
            base_names(rule).for_each(|n| *matches.entry(n.to_owned()).or_default() += 1);
            for m in &rule.matches {
                *matches.entry(match_name(m, ruleset.family).to_owned()).or_default() += 1;
            }
            *targets.entry(target_name(&rule.target).to_owned()).or_default() += 1;
        }
    }
    counts.matches = by_count(matches);
    counts.targets = by_count(targets);
    counts
}

fn count_tables(ruleset: &Ruleset, counts: &mut Counts) {
    for table in &ruleset.tables {
        let mut chains: Vec<ChainCount> = table
            .chains
            .iter()
            .map(|c| ChainCount { chain: c.name.to_string(), rules: c.rules.len() })
            .collect();
        chains.sort_by_key(|c| std::cmp::Reverse(c.rules));
        let rules = chains.iter().map(|c| c.rules).sum();
        counts.rules += rules;
        counts.chains += chains.len();
        let family = if ruleset.family == Family::V4 { "v4" } else { "v6" };
        counts.tables.push(TableCount { family, table: table.name.as_str(), rules, chains });
    }
}

fn by_count(counts: HashMap<String, usize>) -> Vec<NameCount> {
    let mut all: Vec<_> =
        counts.into_iter().map(|(name, count)| NameCount { name, count }).collect();
    all.sort_by(|a, b| b.count.cmp(&a.count).then(a.name.cmp(&b.name)));
    all
}

fn base_names(rule: &Rule) -> impl Iterator<Item = &'static str> {
    let b = &rule.base;
    let tests = [
        (b.saddr.is_some(), "-s"),
        (b.daddr.is_some(), "-d"),
        (b.iif.is_some(), "-i"),
        (b.oif.is_some(), "-o"),
        (b.proto.is_some(), "-p"),
        (b.fragment.is_some(), "-f"),
    ];
    tests.into_iter().filter(|t| t.0).map(|t| t.1)
}

/// The module of a match, as in `-m tcp`.
pub(crate) fn match_name(m: &Match, family: Family) -> &str {
    match m {
        Match::Tcp { .. } => "tcp",
        Match::Udp { .. } => "udp",
        Match::Sctp { .. } => "sctp",
        Match::Dccp { .. } => "dccp",
        Match::Icmp(_) if family == Family::V6 => "icmp6",
        Match::Icmp(_) => "icmp",
        Match::Multiport { .. } => "multiport",
        Match::IpRange { .. } => "iprange",
        Match::Mac(_) => "mac",
        Match::Mark(_) => "mark",
        Match::ConnMark(_) => "connmark",
        Match::State(_) => "state",
        Match::Conntrack(_) => "conntrack",
        Match::Length(_) => "length",
        Match::Ttl { .. } if family == Family::V6 => "hl",
        Match::Ttl { .. } => "ttl",
        Match::Dscp(_) => "dscp",
        Match::Tos(_) => "tos",
        Match::PktType(_) => "pkttype",
        Match::Set(_) => "set",
        Match::Comment(_) => "comment",
        Match::Stateful(s) => s.module,
        Match::Host(h) => h.module,
        Match::Opaque(o) => &o.name,
    }
}

/// The name of a target, as in `-j ACCEPT`.
pub(crate) fn target_name(target: &Target) -> &str {
    match target {
        Target::None => "none",
        Target::Accept => "ACCEPT",
        Target::Drop => "DROP",
        Target::Return => "RETURN",
        Target::Jump(_) => "jump",
        Target::Goto(_) => "goto",
        Target::Reject(_) => "REJECT",
        Target::Divert(e) => e.module,
        Target::Nat(nat) => match **nat {
            NatTarget::Dnat(_) => "DNAT",
            NatTarget::Snat(_) => "SNAT",
            NatTarget::Masquerade(_) => "MASQUERADE",
            NatTarget::Redirect(_) => "REDIRECT",
            NatTarget::Netmap(..) => "NETMAP",
        },
        Target::Effect(effect) => match &**effect {
            Effect::Mark { .. } => "MARK",
            Effect::Notrack => "NOTRACK",
            Effect::CtNotrack => "CT",
            Effect::Classify { .. } => "CLASSIFY",
            Effect::Tos { .. } => "TOS",
            Effect::Dscp(_) => "DSCP",
            Effect::Ttl { .. } => "TTL",
            Effect::Other(e) => e.module,
        },
        Target::Opaque(o) => &o.name,
    }
}
