//! The original rules of a ruleset, with their content and the places of their counters.

use std::collections::HashMap;

use weir_artefact::Manifest;
use weir_model::{CounterLocation, Family, RuleId, Ruleset, Table, compute_rule_content_keys};
use weir_syntax::iptables::{self, ParserSettings, print_rule};

use crate::kernel_ruleset::KernelRulesetTexts;

/// The rules and policies of an original ruleset.
#[derive(Clone, Debug, Default)]
pub struct OriginalRules {
    /// The original ruleset of each family that has one.
    pub rulesets: Vec<Ruleset>,
    /// Their rules and policies.
    pub rules: Vec<OriginalRuleCounterLocations>,
}

/// A rule or policy, and the places of its counters.
#[derive(Clone, Debug)]
pub struct OriginalRuleCounterLocations {
    /// Its place.
    pub id: RuleId,
    /// Its content, independent of its position in the chain.
    pub content_key: String,
    /// The counters whose sum is its counter.
    pub locations: Vec<CounterLocation>,
}

impl OriginalRules {
    /// The rules of texts that were compiled, with the counters listed in the manifest. Tables of
    /// which it lists none were excluded (`--table`): they are not part of the generation.
    pub fn of_sources(sources: &[(Family, String)], manifest: &Manifest) -> OriginalRules {
        let sums = manifest.summed.iter();
        let sum_by_first_rule: HashMap<&String, &Vec<CounterLocation>> =
            sums.filter_map(|sum| Some((sum.rules.first()?, &sum.counters))).collect();
        let locations = |id: &RuleId| {
            let name = id.to_string();
            let listed = manifest.counters.0.get(&name);
            listed.or_else(|| sum_by_first_rule.get(&name).copied()).cloned().unwrap_or_default()
        };
        OriginalRules::of_texts(sources, locations)
    }

    /// The rules of tables of legacy iptables, each with its own counter.
    pub fn of_legacy_tables(ruleset: &KernelRulesetTexts) -> OriginalRules {
        let texts: Vec<(Family, String)> = [Family::V4, Family::V6]
            .into_iter()
            .map(|family| {
                let tables = ruleset.legacy_tables.iter().filter(|(t, _)| t.family == family);
                (family, tables.map(|(_, text)| text.as_str()).collect::<String>())
            })
            .filter(|(_, text)| !text.is_empty())
            .collect();
        OriginalRules::of_texts(&texts, |id| vec![CounterLocation::from(id)])
    }

    /// A text that weir cannot read contributes no rules: their counters then start at zero.
    fn of_texts(
        texts: &[(Family, String)],
        locations: impl Fn(&RuleId) -> Vec<CounterLocation>,
    ) -> OriginalRules {
        let mut originals = OriginalRules::default();
        for (family, text) in texts {
            let settings = ParserSettings { family: Some(*family), ..ParserSettings::default() };
            let Ok(mut ruleset) = iptables::parse(text, &settings) else { continue };
            let is_counted = |table: &Table| {
                let rules = table.chains.iter().flat_map(|chain| {
                    let rules = (0..chain.rules.len()).map(|index| {
                        RuleId::for_rule_at_index(*family, table.name, &chain.name, index)
                    });
                    rules.chain([RuleId::for_policy(*family, table.name, &chain.name)])
                });
                rules.into_iter().any(|id| !locations(&id).is_empty())
            };
            ruleset.tables.retain(is_counted);
            let keys = compute_rule_content_keys(&ruleset, |rule| print_rule(rule, *family));
            for (key, id, _) in keys {
                let locations = locations(&id);
                originals.rules.push(OriginalRuleCounterLocations {
                    content_key: key.to_string(),
                    id,
                    locations,
                });
            }
            for table in &ruleset.tables {
                for chain in table.chains.iter().filter(|chain| chain.policy.is_some()) {
                    let id = RuleId::for_policy(*family, table.name, &chain.name);
                    let (content_key, locations) = (id.to_string(), locations(&id));
                    originals.rules.push(OriginalRuleCounterLocations {
                        content_key,
                        id,
                        locations,
                    });
                }
            }
            originals.rulesets.push(ruleset);
        }
        originals
    }
}
