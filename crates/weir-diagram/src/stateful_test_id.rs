//! The identity of a stateful test.

use std::collections::HashMap;

use weir_model::effect::IpsetWrites;
use weir_model::{Family, Firewall, Match, OriginalRuleIndex, Rule, match_effects, target_effects};
use weir_semantics::ipset_definition_digests::IpsetDefinitionDigests;
use weir_semantics::question_digest::digest_debug_text;
use weir_semantics::shared_object_config_digests::{
    SharedObjectConfigDigests, rule_memory_address,
};

use crate::comparison_types::StatefulTestPairing;
use crate::packet_sets::packet_space::compute_state_id_from_original_rule;

/// Identifies the stateful tests of a firewall's rules, and finds them again in another firewall.
///
/// Rules are known by where they are in memory: it is valid while the firewall stays there.
#[derive(Clone, Debug, Default)]
pub struct StatefulTestIdResolver {
    /// By the address of the rule, where its text alone does not say; else by its credit.
    ids_by_rule: Option<HashMap<usize, u64>>,
    configured_objects: SharedObjectConfigDigests,
    /// Of rules whose target names sets: what these are and hold, by the address of the rule.
    target_set_digests_by_rule: HashMap<usize, u64>,
}

impl StatefulTestIdResolver {
    /// Of a firewall, paired with those of another in this way.
    pub fn new(firewall: &Firewall, identity: StatefulTestPairing) -> StatefulTestIdResolver {
        let configured_objects = SharedObjectConfigDigests::from_rulesets(firewall.rulesets());
        let target_set_digests_by_rule = digest_target_sets_by_rule(firewall);
        if identity == StatefulTestPairing::ByCredit {
            return StatefulTestIdResolver {
                ids_by_rule: None,
                configured_objects,
                target_set_digests_by_rule,
            };
        }
        let (mut by_rule, mut seen) = (HashMap::new(), HashMap::<u64, u64>::new());
        for ruleset in firewall.rulesets() {
            let family = ruleset.family;
            for (table, _, rule) in ruleset
                .rules_with_table_and_chain()
                .filter(|(_, _, r)| can_rule_depend_on_state(r, family))
            {
                let text = (ruleset.family, table.name, &rule.base, &rule.matches, &rule.target);
                let text = digest_debug_text(&text);
                let number = seen.entry(text).or_default();
                by_rule.insert(rule_memory_address(rule), digest_debug_text(&(text, *number)));
                *number += 1;
            }
        }
        StatefulTestIdResolver {
            ids_by_rule: Some(by_rule),
            configured_objects,
            target_set_digests_by_rule,
        }
    }

    /// Copies of rules have the identity of the originals, also where they are in memory.
    pub(crate) fn add_copies<'r>(&mut self, copies: impl Iterator<Item = (&'r Rule, &'r Rule)>) {
        for (original, copy) in copies {
            if let Some(ids) = &mut self.ids_by_rule
                && let Some(id) = ids.get(&rule_memory_address(original)).copied()
            {
                ids.insert(rule_memory_address(copy), id);
            }
            self.configured_objects.add_copy(original, copy);
            let sets = &mut self.target_set_digests_by_rule;
            if let Some(digest) = sets.get(&rule_memory_address(original)).copied() {
                sets.insert(rule_memory_address(copy), digest);
            }
        }
    }

    /// The identity of a rule's tests, and what configures the objects that they use: a bucket that
    /// another rule created is a different bucket, and a set that is defined differently a
    /// different set.
    pub(crate) fn stateful_test_id(&self, rule: &Rule) -> u64 {
        let state_id = match &self.ids_by_rule {
            Some(by_rule) => by_rule.get(&rule_memory_address(rule)).copied().unwrap_or(0),
            None => compute_state_id_from_original_rule(rule),
        };
        let state_id = match self.configured_objects.digest_for_rule(rule) {
            0 => state_id,
            configured => digest_debug_text(&(state_id, configured)),
        };
        if self.target_set_digests_by_rule.is_empty() {
            return state_id;
        }
        match self.target_set_digests_by_rule.get(&rule_memory_address(rule)) {
            None => state_id,
            Some(sets) => digest_debug_text(&(state_id, "sets", sets)),
        }
    }
}

/// Whether both firewalls have as many rules with a state for each credit. Each of them has a state
/// of its own: two rules that credit one original are not the same as the one of another firewall
/// ([`StatefulTestPairing::ByCredit`] would treat them so).
pub fn have_same_stateful_rule_counts_by_credit(firewalls: [&Firewall; 2]) -> bool {
    let [a, b] = firewalls.map(count_stateful_rules_by_credit);
    a == b
}

/// Rules without credit are known by their text.
fn count_stateful_rules_by_credit(
    firewall: &Firewall,
) -> HashMap<(Family, &[OriginalRuleIndex]), usize> {
    let mut counts = HashMap::new();
    for ruleset in firewall.rulesets() {
        let family = ruleset.family;
        for (_, _, rule) in ruleset.rules_with_table_and_chain() {
            let is_stateful = target_effects(&rule.target).stateful
                || rule.matches.iter().any(|m| match_effects(m, family).is_stateful());
            if is_stateful && !rule.credited_originals.is_empty() {
                *counts.entry((family, &rule.credited_originals[..])).or_insert(0) += 1;
            }
        }
    }
    counts
}

fn digest_target_sets_by_rule(firewall: &Firewall) -> HashMap<usize, u64> {
    let definitions = IpsetDefinitionDigests::new(&firewall.sets);
    let rules = firewall.rulesets().flat_map(|r| r.rules_with_table_and_chain());
    let digests =
        rules.map(|(_, _, r)| (rule_memory_address(r), definitions.digest_target_sets(r)));
    digests.filter(|(_, digest)| *digest != 0).collect()
}

/// Whether answers or effects of a rule may depend on packets before; or on a set, which rules may
/// change.
pub(crate) fn can_rule_depend_on_state(rule: &Rule, family: Family) -> bool {
    let row = target_effects(&rule.target);
    row.stateful
        || row.ipset_writes != IpsetWrites::None
        || rule
            .matches
            .iter()
            .any(|m| match_effects(m, family).is_stateful() || matches!(m, Match::Set(_)))
}
