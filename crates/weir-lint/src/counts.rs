//! Statistics of a ruleset: rules by table and chain, matches and targets by name.

use std::collections::HashMap;

use serde::Serialize;
use weir_model::effect::{match_module_of, module_of};
use weir_model::{Family, Firewall, Rule, Ruleset, Target};

/// The statistics of a firewall.
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
                *matches.entry(match_module_of(m, ruleset.family).to_owned()).or_default() += 1;
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

/// The name of a target, as in `-j ACCEPT`.
pub(crate) fn target_name(target: &Target) -> &str {
    module_of(target).unwrap_or(match target {
        Target::Return => "RETURN",
        Target::Jump(_) => "jump",
        Target::Goto(_) => "goto",
        _ => "none",
    })
}
