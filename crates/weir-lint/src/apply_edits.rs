//! Applies the edits that findings propose.

use std::collections::{BTreeMap, HashMap, HashSet};

use weir_model::{Chain, Family, Firewall, Rule, Ruleset, Table, TableName};

use crate::finding::RulesetEdit;

/// Applies the edits. Positions refer to the firewall as given: edits that were found together are
/// applied together. A chain is removed only if no remaining rule names it.
pub fn apply_edits(firewall: &Firewall, edits: &[RulesetEdit]) -> Firewall {
    let mut out = firewall.clone();
    let mut by_chain: HashMap<(Family, TableName, &str), BTreeMap<u32, Option<&Rule>>> =
        HashMap::new();
    let mut chains: HashSet<(Family, TableName, &str)> = HashSet::new();
    for edit in edits {
        let (rule, becomes) = match edit {
            RulesetEdit::RemoveRule { rule } => (rule, None),
            RulesetEdit::ReplaceRule { rule, by } => (rule, Some(&**by)),
            RulesetEdit::RemoveChain { family, table, chain } => {
                chains.insert((*family, *table, chain));
                continue;
            }
            RulesetEdit::RemoveSet { set } => {
                out.sets.retain(|s| s.name != *set);
                continue;
            }
        };
        let Some(number) = rule.number else { continue };
        let slot = by_chain.entry((rule.family, rule.table, &rule.chain)).or_default();
        // A rule that goes and is changed goes.
        let entry = slot.entry(number).or_insert(becomes);
        if becomes.is_none() {
            *entry = None;
        }
    }
    for ruleset in [out.v4.as_mut(), out.v6.as_mut()].into_iter().flatten() {
        apply_rule_edits(ruleset, &by_chain);
        let family = ruleset.family;
        for table in &mut ruleset.tables {
            remove_unreferenced_chains(table, &|table, chain| {
                chains.contains(&(family, table, chain))
            });
        }
    }
    out
}

type RuleEditsByChain<'a> = HashMap<(Family, TableName, &'a str), BTreeMap<u32, Option<&'a Rule>>>;

fn apply_rule_edits(ruleset: &mut Ruleset, edits: &RuleEditsByChain<'_>) {
    for table in &mut ruleset.tables {
        for chain in &mut table.chains {
            let Some(here) = edits.get(&(ruleset.family, table.name, &*chain.name)) else {
                continue;
            };
            let mut number = 0;
            chain.rules.retain_mut(|rule| {
                number += 1;
                match here.get(&number) {
                    None => true,
                    Some(None) => false,
                    Some(Some(other)) => {
                        *rule = (*other).clone();
                        true
                    }
                }
            });
        }
    }
}

/// Chains that may go and that nothing which stays names.
fn remove_unreferenced_chains(table: &mut Table, may_remove: &dyn Fn(TableName, &str) -> bool) {
    let may_go = |c: &Chain| c.policy.is_none() && may_remove(table.name, &c.name);
    let staying = table.chains.iter().zip(0..).filter(|(c, _)| !may_go(c)).map(|(_, at)| at);
    let mut stays = table.chain_graph().reachable_from(staying).into_iter();
    table.chains.retain(|_| stays.next() == Some(true));
}
