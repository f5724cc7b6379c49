//! Maps the rules of files and artefacts to original rules.
//!
//! A rule of a file is identified by its position: `iptables/filter/FORWARD/3`. The manifest of an
//! artefact says which of its counters add up to which position. This relates the rules of both,
//! for counters and for stateful matches.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::iptables_counter_credit::format_element_without_counts;
use weir_model::nft::{self, CreditedRuleOrPolicy, Statement};
use weir_model::{
    CounterLocation, CountersByOriginalRule, CreditedOriginals, Family, Firewall,
    OriginalRuleIndex, Ruleset,
};
use weir_syntax::nft::print_element_key;

/// Originals by their place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginalRuleIds {
    index_by_rule_id: BTreeMap<String, OriginalRuleIndex>,
}

impl OriginalRuleIds {
    /// The places of a file's rules.
    pub fn from_firewall(firewall: &Firewall) -> OriginalRuleIds {
        let rules = firewall.rulesets().flat_map(Ruleset::rules_with_ids);
        OriginalRuleIds::from_rule_ids(rules.map(|(id, _)| id.to_string()).collect())
    }

    /// The places that an artefact's manifest names.
    pub fn from_manifest(counters: &CountersByOriginalRule) -> OriginalRuleIds {
        let rules = counters.0.keys().filter(|k| !k.ends_with("/policy"));
        OriginalRuleIds::from_rule_ids(rules.cloned().collect())
    }

    fn from_rule_ids(mut places: Vec<String>) -> OriginalRuleIds {
        places.sort_unstable();
        let ids =
            places.into_iter().zip(0..).map(|(place, n)| (place, OriginalRuleIndex(n))).collect();
        OriginalRuleIds { index_by_rule_id: ids }
    }

    /// The place of a rule.
    pub fn rule_id_text(&self, id: OriginalRuleIndex) -> Option<&str> {
        self.index_by_rule_id.keys().nth(id.0 as usize).map(String::as_str)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.index_by_rule_id.len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.index_by_rule_id.is_empty()
    }

    /// Credits each rule of a file with itself.
    pub fn credit_rules_with_themselves(&self, firewall: &mut Firewall) {
        for ruleset in [&mut firewall.v4, &mut firewall.v6].into_iter().flatten() {
            ruleset.for_each_rule_mut(|id, rule| {
                rule.credited_originals =
                    self.index_by_rule_id.get(&id.to_string()).copied().into_iter().collect();
            });
        }
    }

    /// Credits the rules, elements and counters of an artefact as its manifest says.
    pub fn credit_artefact_from_manifest_counters(
        &self,
        counters: &CountersByOriginalRule,
        firewall: &mut Firewall,
        tables: &mut nft::Ruleset,
    ) {
        let mut of: HashMap<&CounterLocation, Vec<CreditedRuleOrPolicy>> = HashMap::new();
        for (place, parts) in &counters.0 {
            let credited_originals = match self.index_by_rule_id.get(place) {
                Some(id) => CreditedRuleOrPolicy::Rule(*id),
                None => continue,
            };
            parts.iter().for_each(|c| of.entry(c).or_default().push(credited_originals));
        }
        credit_rules(&of, firewall);
        credit_set_elements(&of, firewall);
        tables.tables.iter_mut().for_each(|t| credit_nft_table(&of, t));
    }
}

fn collect_credited_rule_indices(
    credited_originals: Option<&Vec<CreditedRuleOrPolicy>>,
) -> CreditedOriginals {
    let rules = credited_originals.into_iter().flatten().filter_map(|c| match c {
        CreditedRuleOrPolicy::Rule(id) => Some(*id),
        CreditedRuleOrPolicy::Policy(_) => None,
    });
    rules.collect()
}

fn credit_rules(
    of: &HashMap<&CounterLocation, Vec<CreditedRuleOrPolicy>>,
    firewall: &mut Firewall,
) {
    for ruleset in [&mut firewall.v4, &mut firewall.v6].into_iter().flatten() {
        ruleset.for_each_rule_mut(|id, rule| {
            rule.credited_originals =
                collect_credited_rule_indices(of.get(&CounterLocation::from(&id)))
        });
    }
}

fn credit_set_elements(
    of: &HashMap<&CounterLocation, Vec<CreditedRuleOrPolicy>>,
    firewall: &mut Firewall,
) {
    for set in &mut firewall.sets {
        let words: Vec<String> =
            set.elements.iter().map(|e| format_element_without_counts(set, e)).collect();
        for (element, text) in Arc::make_mut(&mut set.elements).iter_mut().zip(words) {
            let counter = CounterLocation::Element { set: set.name.to_string(), element: text };
            element.credited_originals = collect_credited_rule_indices(of.get(&counter));
        }
    }
}

fn credit_nft_table(
    of: &HashMap<&CounterLocation, Vec<CreditedRuleOrPolicy>>,
    table: &mut nft::Table,
) {
    let family = if table.family == Family::V4 { "ip" } else { "ip6" };
    let find = |counter: &CounterLocation| of.get(counter).cloned().unwrap_or_default();
    for map in &mut table.maps {
        let words: Vec<String> =
            map.elements.iter().map(|e| print_element_key(map, e, table.family)).collect();
        for (element, text) in map.elements.iter_mut().zip(words) {
            element.credited_originals = find(&CounterLocation::NftElement {
                family: family.to_owned(),
                table: table.name.clone(),
                set: map.name.clone(),
                element: text,
            });
        }
    }
    for chain in &mut table.chains {
        for (i, rule) in chain.rules.iter_mut().enumerate() {
            let credited_originals = find(&CounterLocation::NftRule {
                family: family.to_owned(),
                table: table.name.clone(),
                chain: chain.name.clone(),
                number: i as u32 + 1,
            });
            for statement in &mut rule.statements {
                if let Statement::Counter(of) = statement {
                    of.clone_from(&credited_originals);
                }
            }
        }
    }
}
