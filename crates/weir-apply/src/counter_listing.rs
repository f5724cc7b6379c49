//! The counters of the generation in force, by original rule.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use weir_model::{Counters, RuleId, Ruleset};

use crate::ApplyOperationError;
use crate::generation_changes::{
    check_unchanged_by_others, read_original_rules, read_tables_and_sets_in_force,
};
use crate::rule_counters::{read_counters_in_force, sum_counters};
use crate::state_store::{JournalStage, StateStore};

/// The original rules of the generation in force, with their counters.
#[derive(Clone, Debug, Serialize)]
pub struct CounterListing {
    /// The generation.
    pub generation: u32,
    /// Its rules and policies, in the order of its files; policies after the rules of a family.
    pub rules: Vec<OriginalRuleCounterRow>,
    /// The rulesets with these counters.
    #[serde(skip)]
    pub rulesets: Vec<Ruleset>,
}

/// The counters of a rule or policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginalRuleCounterRow {
    /// Its place: `iptables/filter/FORWARD/3`.
    pub rule: String,
    /// Packets.
    pub packets: u64,
    /// Bytes, from the network header on.
    pub bytes: u64,
}

/// Reads the counters of the generation in force in the current network namespace.
///
/// # Errors
/// If no generation is in force, one is being changed, or its files are not known.
pub fn read_counters_by_original_rule(state: &Path) -> Result<CounterListing, ApplyOperationError> {
    let store = StateStore::find(state)?;
    let refused = |message: String| Err(ApplyOperationError::Refused(message));
    let Some(generation) = store.read_current()?.generation else {
        return refused(
            "no generation is in force: use iptables-save -c to print counters".to_owned(),
        );
    };
    if store.read_journal()?.is_some_and(|journal| journal.stage == JournalStage::Changing) {
        return refused("the ruleset is being changed: try again later".to_owned());
    }
    let originals = read_original_rules(&store, generation)?;
    if originals.rulesets.is_empty() {
        return refused(format!(
            "the files of generation {generation} are unknown because it was applied from a compiled \
             directory: its manifest.json lists the counters of each rule"
        ));
    }
    let recorded = store.read_ruleset(generation)?;
    let present = read_tables_and_sets_in_force(&recorded.tables(), &[&recorded])?.ruleset;
    check_unchanged_by_others(&recorded, &present, generation)?;
    let counters = read_counters_in_force(&present)?;
    let mut by_id: HashMap<RuleId, Counters> = HashMap::new();
    let mut rules = Vec::with_capacity(originals.rules.len());
    for rule in &originals.rules {
        let sum = sum_counters(&rule.locations, &counters);
        let (packets, bytes) = (sum.packets, sum.bytes);
        rules.push(OriginalRuleCounterRow { rule: rule.id.to_string(), packets, bytes });
        by_id.insert(rule.id.clone(), sum);
    }
    let mut rulesets = originals.rulesets;
    for ruleset in &mut rulesets {
        let family = ruleset.family;
        ruleset.for_each_rule_mut(|id, rule| rule.counters = by_id.get(&id).copied());
        for table in &mut ruleset.tables {
            for chain in table.chains.iter_mut().filter(|chain| chain.policy.is_some()) {
                let id = RuleId::for_policy(family, table.name, &chain.name);
                chain.counters = by_id.get(&id).copied();
            }
        }
    }
    Ok(CounterListing { generation, rules, rulesets })
}

impl CounterListing {
    /// The rulesets as `iptables-save -c` prints them, IPv4 first.
    pub fn render_iptables_text(&self) -> String {
        let printed = self.rulesets.iter().map(|rules| weir_syntax::iptables::print(rules, true));
        printed.collect()
    }

    /// One line per rule: place, packets, bytes.
    pub fn render_csv(&self) -> String {
        let lines = self.rules.iter().map(|rule| {
            // Names of chains may have commas and quotes.
            let place = rule.rule.replace('"', "\"\"");
            format!("\"{place}\",{},{}\n", rule.packets, rule.bytes)
        });
        "rule,packets,bytes\n".to_owned() + &lines.collect::<String>()
    }
}
