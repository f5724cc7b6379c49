//! Which counters of the nft form add up to which original rule, and the memory that they need in
//! the kernel.

use std::collections::HashMap;

use weir_model::nft::{CreditedRuleOrPolicy, Ruleset, Statement, Table};
use weir_model::{
    CounterLocation, CountersByOriginalRule, Family, Hook, OriginalRuleIndex, RuleId,
    Ruleset as Rules,
};
use weir_syntax::nft::{family_keyword, print_element_key};

use super::table_move_plan::TableMovePlan;

/// Notes the counters of a family's nft tables.
pub(super) fn add_nft_counters_of_family(
    map: &mut CountersByOriginalRule,
    ruleset: &Ruleset,
    family: Family,
    places: &HashMap<OriginalRuleIndex, String>,
) {
    for table in ruleset.tables.iter().filter(|t| t.family == family) {
        let name_of = |credited_originals: &CreditedRuleOrPolicy| match credited_originals {
            CreditedRuleOrPolicy::Rule(id) => places.get(id).cloned(),
            CreditedRuleOrPolicy::Policy(hook) => Some(format!(
                "{}/{}/{}/policy",
                weir_model::iptables_tool_name(family),
                table.iptables_table,
                hook.chain_name()
            )),
        };
        for (credited_originals, counter) in list_table_counters(table) {
            for place in credited_originals.iter().filter_map(name_of) {
                map.0.entry(place).or_default().push(counter.clone());
            }
        }
    }
}

/// All counters of a table with the originals that they are part of.
fn list_table_counters(table: &Table) -> Vec<(&[CreditedRuleOrPolicy], CounterLocation)> {
    let family = family_keyword(table.family).to_string();
    let mut out = Vec::new();
    for map in &table.maps {
        for element in map.elements.iter().filter(|e| !e.credited_originals.is_empty()) {
            let counter = CounterLocation::NftElement {
                family: family.clone(),
                table: table.name.clone(),
                set: map.name.clone(),
                element: print_element_key(map, element, table.family),
            };
            out.push((&element.credited_originals[..], counter));
        }
    }
    for chain in &table.chains {
        for (i, rule) in chain.rules.iter().enumerate() {
            let counter = CounterLocation::NftRule {
                family: family.clone(),
                table: table.name.clone(),
                chain: chain.name.clone(),
                number: i as u32 + 1,
            };
            for statement in &rule.statements {
                if let Statement::Counter(credited_originals) = statement {
                    out.push((credited_originals, counter.clone()));
                }
            }
        }
    }
    out
}

/// Notes the policies that stay in iptables.
pub(super) fn credit_policies_left_in_iptables(
    map: &mut CountersByOriginalRule,
    plan: &TableMovePlan<'_>,
) {
    for chain in &plan.table.chains {
        let Some(hook) = Hook::from_chain_name(&chain.name).filter(|_| chain.policy.is_some())
        else {
            continue;
        };
        let id = RuleId::for_policy(plan.family, plan.table.name, &chain.name);
        let entry = map.0.entry(id.to_string()).or_default();
        if !plan.moved_hooks.contains(&hook) {
            entry.push(CounterLocation::from(&id));
        }
    }
}

/// Notes the counters of the rules that are in iptables.
pub(super) fn credit_iptables_rules(
    map: &mut CountersByOriginalRule,
    rest: &Rules,
    places: &HashMap<OriginalRuleIndex, String>,
) {
    for table in &rest.tables {
        for chain in &table.chains {
            for (i, rule) in chain.rules.iter().enumerate() {
                let counter = CounterLocation::Rule {
                    tool: weir_model::iptables_tool_name(rest.family).into(),
                    table: table.name.to_string(),
                    chain: chain.name.to_string(),
                    number: i as u32 + 1,
                };
                for place in rule.credited_originals.iter().filter_map(|id| places.get(id)) {
                    map.0.entry(place.clone()).or_default().push(counter.clone());
                }
            }
        }
    }
}

/// What the tables take in the kernel, about: slab sizes of the structures of net/netfilter
/// (nft_counter keeps 16 bytes a CPU, and a pointer).
pub(super) fn estimate_nft_kernel_bytes(ruleset: &Ruleset, cpus: usize) -> u64 {
    const CHAIN_BYTES: usize = 512;
    const RULE_BYTES: usize = 64;
    const STATEMENT_BYTES: usize = 40;
    const HASH_ELEMENT_BYTES: usize = 96;
    const TREE_ELEMENT_BYTES: usize = 2 * 112;
    let counter = 16 * cpus + 16;
    let mut bytes = 0;
    for table in &ruleset.tables {
        for map in &table.maps {
            let element = if map.has_intervals { TREE_ELEMENT_BYTES } else { HASH_ELEMENT_BYTES };
            bytes += 1024 + map.elements.len() * (element + counter);
        }
        for chain in &table.chains {
            bytes += CHAIN_BYTES;
            for rule in &chain.rules {
                bytes += RULE_BYTES + rule.statements.len() * STATEMENT_BYTES;
                let counts = |s: &&Statement| matches!(s, Statement::Counter(_));
                bytes += rule.statements.iter().filter(counts).count() * counter;
            }
        }
    }
    bytes as u64
}
