//! Positions of rules, as manifests name them.

use std::collections::HashMap;

use weir_model::{RuleId, Ruleset, tool};

/// The position of each rule of a ruleset, as manifests name it.
pub(super) fn places(ruleset: &Ruleset) -> HashMap<RuleId, String> {
    let mut out = HashMap::new();
    for table in &ruleset.tables {
        for chain in &table.chains {
            for (i, rule) in chain.rules.iter().enumerate() {
                let place =
                    format!("{}/{}/{}/{}", tool(ruleset.family), table.name, chain.name, i + 1);
                out.extend(rule.credit.first().map(|id| (*id, place)));
            }
        }
    }
    out
}
