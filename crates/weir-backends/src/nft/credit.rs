//! Which counters of the nft form add up to which original rule, and the memory that they need in
//! the kernel.

use std::collections::HashMap;

use weir_model::nft::{Credit, Ruleset, Statement, Table};
use weir_model::{Counter, CreditMap, Family, Hook, RuleId, RuleIndex, Ruleset as Rules};
use weir_syntax::nft::{family_word, print_element_key};

use super::table::TablePlan;

/// Notes the counters of a family's nft tables.
pub(super) fn moved(
    map: &mut CreditMap,
    ruleset: &Ruleset,
    family: Family,
    places: &HashMap<RuleIndex, String>,
) {
    for table in ruleset.tables.iter().filter(|t| t.family == family) {
        let name_of = |credit: &Credit| match credit {
            Credit::Rule(id) => places.get(id).cloned(),
            Credit::Policy(hook) => Some(format!(
                "{}/{}/{}/policy",
                weir_model::tool(family),
                table.stands_for,
                hook.chain()
            )),
        };
        for (credit, counter) in counters(table) {
            for place in credit.iter().filter_map(name_of) {
                map.0.entry(place).or_default().push(counter.clone());
            }
        }
    }
}

/// All counters of a table with the originals that they are part of.
fn counters(table: &Table) -> Vec<(&[Credit], Counter)> {
    let family = family_word(table.family).to_string();
    let mut out = Vec::new();
    for map in &table.maps {
        for element in map.elements.iter().filter(|e| !e.credit.is_empty()) {
            let counter = Counter::NftElement {
                family: family.clone(),
                table: table.name.clone(),
                set: map.name.clone(),
                element: print_element_key(map, element, table.family),
            };
            out.push((&element.credit[..], counter));
        }
    }
    for chain in &table.chains {
        for (i, rule) in chain.rules.iter().enumerate() {
            let counter = Counter::NftRule {
                family: family.clone(),
                table: table.name.clone(),
                chain: chain.name.clone(),
                number: i as u32 + 1,
            };
            for statement in &rule.statements {
                if let Statement::Counter(credit) = statement {
                    out.push((credit, counter.clone()));
                }
            }
        }
    }
    out
}

/// Notes the policies that stay in iptables.
pub(super) fn stays(map: &mut CreditMap, plan: &TablePlan<'_>) {
    for chain in &plan.table.chains {
        let Some(hook) = Hook::of_chain(&chain.name).filter(|_| chain.policy.is_some()) else {
            continue;
        };
        let id = RuleId::policy(plan.family, plan.table.name, &chain.name);
        let entry = map.0.entry(id.to_string()).or_default();
        if !plan.moved.contains(&hook) {
            entry.push(Counter::from(&id));
        }
    }
}

/// Notes the counters of the rules that are in iptables.
pub(super) fn kept(map: &mut CreditMap, rest: &Rules, places: &HashMap<RuleIndex, String>) {
    for table in &rest.tables {
        for chain in &table.chains {
            for (i, rule) in chain.rules.iter().enumerate() {
                let counter = Counter::Rule {
                    tool: weir_model::tool(rest.family).into(),
                    table: table.name.to_string(),
                    chain: chain.name.to_string(),
                    number: i as u32 + 1,
                };
                for place in rule.credit.iter().filter_map(|id| places.get(id)) {
                    map.0.entry(place.clone()).or_default().push(counter.clone());
                }
            }
        }
    }
}

/// What the tables take in the kernel, about: slab sizes of the structures of net/netfilter
/// (nft_counter keeps 16 bytes a CPU, and a pointer).
pub(super) fn memory_bytes(ruleset: &Ruleset, cpus: usize) -> u64 {
    const CHAIN: usize = 512;
    const RULE: usize = 64;
    const STATEMENT: usize = 40;
    const HASH_ELEMENT: usize = 96;
    const TREE_ELEMENT: usize = 2 * 112;
    let counter = 16 * cpus + 16;
    let mut bytes = 0;
    for table in &ruleset.tables {
        for map in &table.maps {
            let element = if map.interval { TREE_ELEMENT } else { HASH_ELEMENT };
            bytes += 1024 + map.elements.len() * (element + counter);
        }
        for chain in &table.chains {
            bytes += CHAIN;
            for rule in &chain.rules {
                bytes += RULE + rule.statements.len() * STATEMENT;
                let counts = |s: &&Statement| matches!(s, Statement::Counter(_));
                bytes += rule.statements.iter().filter(counts).count() * counter;
            }
        }
    }
    bytes as u64
}
