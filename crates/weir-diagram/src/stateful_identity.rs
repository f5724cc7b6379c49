//! The identity of a stateful test.

use std::collections::HashMap;

use weir_model::effect::SetWrites;
use weir_model::{Family, Firewall, Match, Rule, effects_of, match_effects};
use weir_semantics::configured::{Configured, address};
use weir_semantics::digest::content;

use crate::comparison::Identity;
use crate::space::who;

/// Identifies the stateful tests of a firewall's rules, and finds them again in another firewall.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatefulIdentity {
    /// By the address of the rule, where its text alone does not say; else by its credit.
    by_rule: Option<HashMap<usize, u64>>,
    configured: Configured,
}

impl StatefulIdentity {
    pub fn new(firewall: &Firewall, identity: Identity) -> StatefulIdentity {
        let configured = Configured::of(firewall.rulesets());
        if identity == Identity::Credit {
            return StatefulIdentity { by_rule: None, configured };
        }
        let (mut by_rule, mut seen) = (HashMap::new(), HashMap::<u64, u64>::new());
        for ruleset in firewall.rulesets() {
            let family = ruleset.family;
            for (table, _, rule) in ruleset.rules().filter(|(_, _, r)| keeps_state(r, family)) {
                let text = (ruleset.family, table.name, &rule.base, &rule.matches, &rule.target);
                let text = content(&text);
                let number = seen.entry(text).or_default();
                by_rule.insert(address(rule), content(&(text, *number)));
                *number += 1;
            }
        }
        StatefulIdentity { by_rule: Some(by_rule), configured }
    }

    /// The identity of a rule's tests, and what configures the objects that they use: a bucket that
    /// another rule created is a different bucket.
    pub fn of(&self, rule: &Rule) -> u64 {
        let who = match &self.by_rule {
            Some(by_rule) => by_rule.get(&address(rule)).copied().unwrap_or(0),
            None => who(rule),
        };
        match self.configured.of_rule(rule) {
            0 => who,
            configured => content(&(who, configured)),
        }
    }
}

/// Whether answers or effects of a rule may depend on packets before; or on a set, which rules may
/// change.
fn keeps_state(rule: &Rule, family: Family) -> bool {
    let row = effects_of(&rule.target);
    row.stateful
        || row.sets != SetWrites::None
        || rule
            .matches
            .iter()
            .any(|m| match_effects(m, family).is_stateful() || matches!(m, Match::Set(_)))
}
