//! Statistics of a ruleset: rules by table and chain, matches and targets by name.

use std::collections::HashMap;

use serde::Serialize;
use weir_model::effect::{match_module_name, verdict_or_extension_name};
use weir_model::{Family, Firewall, Rule, Ruleset, Target};

/// The statistics of a firewall.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FirewallContentCounts {
    /// Rules in all tables of both families.
    pub rules: usize,
    /// Chains.
    pub chains: usize,
    /// Sets.
    pub sets: usize,
    /// Elements of all sets.
    pub elements: usize,
    /// By table, in the order of the text.
    pub tables: Vec<TableRuleCount>,
    /// Matches, most frequent first. The base tests have the names of their options.
    pub matches: Vec<MatchOrTargetCount>,
    /// Targets, most frequent first; `jump` and `goto` for those to chains, `none` for none.
    pub targets: Vec<MatchOrTargetCount>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableRuleCount {
    /// `v4` or `v6`.
    #[serde(rename = "family")]
    pub family_v4_or_v6: &'static str,
    /// Table.
    pub table: &'static str,
    /// Rules in it.
    pub rules: usize,
    /// Its chains, most rules first.
    pub chains: Vec<ChainRuleCount>,
}

/// One chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainRuleCount {
    /// Chain.
    pub chain: String,
    /// Rules in it.
    pub rules: usize,
}

/// How often a name occurs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatchOrTargetCount {
    /// Name of a match or target.
    pub name: String,
    /// In how many rules.
    pub count: usize,
}

/// Counts.
pub fn count_firewall_contents(firewall: &Firewall) -> FirewallContentCounts {
    let mut counts = FirewallContentCounts {
        sets: firewall.sets.len(),
        elements: firewall.sets.iter().map(|s| s.elements.len()).sum(),
        ..FirewallContentCounts::default()
    };
    let (mut matches, mut targets) = (HashMap::new(), HashMap::new());
    for ruleset in firewall.rulesets() {
        count_chains_and_rules_per_table(ruleset, &mut counts);
        for (_, _, rule) in ruleset.rules_with_table_and_chain() {
            base_option_names_of_rule(rule)
                .for_each(|n| *matches.entry(n.to_owned()).or_default() += 1);
            for m in &rule.matches {
                *matches.entry(match_module_name(m, ruleset.family).to_owned()).or_default() += 1;
            }
            *targets.entry(target_name_or_jump_kind(&rule.target).to_owned()).or_default() += 1;
        }
    }
    counts.matches = sort_names_by_count(matches);
    counts.targets = sort_names_by_count(targets);
    counts
}

fn count_chains_and_rules_per_table(ruleset: &Ruleset, counts: &mut FirewallContentCounts) {
    for table in &ruleset.tables {
        let mut chains: Vec<ChainRuleCount> = table
            .chains
            .iter()
            .map(|c| ChainRuleCount { chain: c.name.to_string(), rules: c.rules.len() })
            .collect();
        chains.sort_by_key(|c| std::cmp::Reverse(c.rules));
        let rules = chains.iter().map(|c| c.rules).sum();
        counts.rules += rules;
        counts.chains += chains.len();
        let family = if ruleset.family == Family::V4 { "v4" } else { "v6" };
        counts.tables.push(TableRuleCount {
            family_v4_or_v6: family,
            table: table.name.as_str(),
            rules,
            chains,
        });
    }
}

fn sort_names_by_count(counts: HashMap<String, usize>) -> Vec<MatchOrTargetCount> {
    let mut all: Vec<_> =
        counts.into_iter().map(|(name, count)| MatchOrTargetCount { name, count }).collect();
    all.sort_by(|a, b| b.count.cmp(&a.count).then(a.name.cmp(&b.name)));
    all
}

fn base_option_names_of_rule(rule: &Rule) -> impl Iterator<Item = &'static str> {
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
pub(crate) fn target_name_or_jump_kind(target: &Target) -> &str {
    verdict_or_extension_name(target).unwrap_or(match target {
        Target::Return => "RETURN",
        Target::Jump(_) => "jump",
        Target::Goto(_) => "goto",
        _ => "none",
    })
}
