//! Positions of rules, as manifests name them.

use std::collections::HashMap;

use weir_model::{OriginalRuleIndex, Rule, RuleId, Ruleset};

/// Where each rule of a ruleset stands, as manifests name it.
pub(super) fn map_rule_index_to_manifest_id(
    ruleset: &Ruleset,
) -> HashMap<OriginalRuleIndex, String> {
    let named =
        |(id, rule): (RuleId, &Rule)| Some((*rule.credited_originals.first()?, id.to_string()));
    ruleset.rules_with_ids().filter_map(named).collect()
}
