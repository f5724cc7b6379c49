//! Positions of rules, as manifests name them.

use std::collections::HashMap;

use weir_model::{Rule, RuleId, RuleIndex, Ruleset};

/// Where each rule of a ruleset stands, as manifests name it.
pub(super) fn places(ruleset: &Ruleset) -> HashMap<RuleIndex, String> {
    let named = |(id, rule): (RuleId, &Rule)| Some((*rule.credit.first()?, id.to_string()));
    ruleset.rule_ids().filter_map(named).collect()
}
