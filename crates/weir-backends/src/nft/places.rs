//! Where rules stand, as manifests name it.

use std::collections::HashMap;

use weir_model::{RuleId, Ruleset, tool};

/// Where each rule of a ruleset stands, as manifests name it.
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
