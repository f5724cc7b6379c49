//! Objects that rules share by name, if nft replaces some of these rules.

use weir_model::effect::shared_objects::{SharedObjectsAtLoad, uses_shared_objects};
use weir_model::{Chain, Firewall, Table};

use super::manifest_rule_ids::map_rule_index_to_manifest_id;
use crate::compile_options::FormRefusal;

/// Rules that nft cannot say, that no packet reaches, and that make or configure what rules that
/// stay in iptables use by name.
pub(super) fn refuse_dropped_rules_configuring_kept_objects(
    firewall: &Firewall,
    kept: &Firewall,
) -> Vec<FormRefusal> {
    let [before, after] =
        [firewall, kept].map(|f| SharedObjectsAtLoad::from_rulesets(f.rulesets()));
    let Some(object) = before.first_object_config_or_load_difference(&after) else {
        return Vec::new();
    };
    let mut refusals = Vec::new();
    for ruleset in firewall.rulesets() {
        let family = ruleset.family;
        let stays = |table: &Table, chain: &Chain| {
            let table = kept.ruleset(family).and_then(|r| r.table(&table.name));
            table.is_some_and(|t| t.chain(&chain.name).is_some_and(|c| !c.rules.is_empty()))
        };
        let places = map_rule_index_to_manifest_id(ruleset);
        for (table, chain, rule) in ruleset.rules_with_table_and_chain() {
            if !uses_shared_objects(rule, family) || stays(table, chain) {
                continue;
            }
            let place = rule.credited_originals.first().and_then(|id| places.get(id));
            refusals.push(FormRefusal {
                family,
                rule_id: place.cloned().unwrap_or_default(),
                construct: format!(
                    "a rule that creates or configures the {object} of rules in iptables"
                ),
                cure: Some("move it to a chain that stays in iptables".to_owned()),
                span: rule.span,
            });
        }
    }
    refusals
}
