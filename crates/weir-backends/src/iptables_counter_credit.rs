//! Which counters of an iptables form add up to which original rule.

use std::collections::{BTreeMap, BTreeSet};

use weir_artefact::manifest::SummedCounterGroup;
use weir_model::{
    CounterLocation, CountersByOriginalRule, Element, Family, Firewall, IpSet, OriginalRuleIndex,
    RuleId, RuleIdTable,
};
use weir_passes::equivalence_check::map_merged_rules_to_first;
use weir_syntax::ipset;

/// The credit map of a form that is iptables again. Sets named in `own` are weir's: their elements
/// count for rules. Rules that no counter counts for are there, too: no packet reaches them.
///
/// weir has no set with addresses of both families, so the family of an element's credit is that of
/// the set's name.
pub fn build_iptables_form_credit_map(
    before: &Firewall,
    after: &Firewall,
    own: &[(Family, IpSet)],
) -> CountersByOriginalRule {
    let mut out = BTreeMap::new();
    for ruleset in before.rulesets() {
        let family = ruleset.family;
        let places = RuleIdTable::from_ruleset(ruleset);
        let mut counters: Vec<Vec<CounterLocation>> = vec![Vec::new(); places.len()];
        let mut add = |credited_originals: &[OriginalRuleIndex], counter: CounterLocation| {
            for id in credited_originals {
                counters[id.0 as usize].push(counter.clone());
            }
        };
        let after = after.ruleset(family).expect("a form has the families of its ruleset");
        for (id, rule) in after.rules_with_ids() {
            add(&rule.credited_originals, CounterLocation::from(&id));
        }
        for (_, set) in own.iter().filter(|(f, _)| *f == family) {
            for element in set.elements.iter() {
                let counter = CounterLocation::Element {
                    set: set.name.to_string(),
                    element: format_element_without_counts(set, element),
                };
                add(&element.credited_originals, counter);
            }
        }
        for (i, counters) in counters.into_iter().enumerate() {
            out.insert(places.rule_id_text(OriginalRuleIndex(i as u32)), counters);
        }
        add_policy_counters(ruleset, &mut out);
    }
    CountersByOriginalRule(out)
}

/// Takes rules that were merged out of a credit map: only the sum of their counters is known. The
/// elements of sets named in `own` count for rules.
pub fn extract_summed_counter_groups(
    map: &mut CountersByOriginalRule,
    before: &Firewall,
    after: &Firewall,
    own: &[(Family, IpSet)],
) -> Vec<SummedCounterGroup> {
    let mut out = Vec::new();
    for ruleset in before.rulesets() {
        let Some(after) = after.ruleset(ruleset.family) else { continue };
        let mut members: BTreeMap<OriginalRuleIndex, BTreeSet<OriginalRuleIndex>> = BTreeMap::new();
        let sets =
            own.iter().filter(|(f, _)| *f == ruleset.family).flat_map(|(_, s)| s.elements.iter());
        let rules = after.rules_with_table_and_chain().map(|(_, _, r)| &r.credited_originals[..]);
        for (id, first) in
            map_merged_rules_to_first(rules.chain(sets.map(|e| &e.credited_originals[..])))
        {
            members.entry(first).or_default().insert(id);
        }
        let places = RuleIdTable::from_ruleset(ruleset);
        for ids in members.into_values() {
            let rules: Vec<String> = ids.iter().map(|id| places.rule_id_text(*id)).collect();
            let counters: BTreeSet<CounterLocation> =
                rules.iter().filter_map(|r| map.0.remove(r)).flatten().collect();
            out.push(SummedCounterGroup { rules, counters: counters.into_iter().collect() });
        }
    }
    out
}

/// Policies count for themselves: a form keeps every built-in chain.
fn add_policy_counters(
    ruleset: &weir_model::Ruleset,
    out: &mut BTreeMap<String, Vec<CounterLocation>>,
) {
    for table in &ruleset.tables {
        for chain in table.chains.iter().filter(|c| c.policy.is_some()) {
            let id = RuleId::for_policy(ruleset.family, table.name, &chain.name);
            out.insert(id.to_string(), vec![CounterLocation::from(&id)]);
        }
    }
}

/// The element as `ipset save` prints it, without its counts.
pub(crate) fn format_element_without_counts(set: &IpSet, element: &Element) -> String {
    let element = Element { counters: None, ..element.clone() };
    ipset::print_element(set, &element)
}
