//! What configures the objects that rules share by name: see [`weir_model::effect::named`].

use std::collections::HashMap;

use weir_model::effect::named::Objects;
use weir_model::{Rule, Ruleset};

use crate::digest::content;

/// For each rule that shares objects with others, what configures them.
///
/// A bucket or a list answers as the rule that made it says, so its configuration is a part of
/// every question that is put to it.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    by_rule: HashMap<usize, u64>,
}

impl Configured {
    /// Of the rulesets of a host, which stay where they are in memory.
    pub fn of<'r>(rulesets: impl Iterator<Item = &'r Ruleset>) -> Configured {
        let rulesets: Vec<&Ruleset> = rulesets.collect();
        let objects = Objects::of(rulesets.iter().copied());
        let mut by_rule = HashMap::new();
        for ruleset in rulesets {
            for (_, _, rule) in ruleset.rules() {
                if let Some(said) = objects.of_rule(rule, ruleset.family) {
                    by_rule.insert(address(rule), content(&said));
                }
            }
        }
        Configured { by_rule }
    }

    /// The digest of what configures the objects of a rule; 0 where it shares none.
    pub fn of_rule(&self, rule: &Rule) -> u64 {
        match self.by_rule.is_empty() {
            true => 0,
            false => self.by_rule.get(&address(rule)).copied().unwrap_or(0),
        }
    }
}

/// Rules are known by where they are in memory while a firewall is borrowed.
pub fn address(rule: &Rule) -> usize {
    std::ptr::from_ref(rule).addr()
}
