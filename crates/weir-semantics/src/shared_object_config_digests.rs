//! What configures the objects that rules share by name: see
//! [`weir_model::effect::shared_objects`].

use std::collections::HashMap;

use weir_model::effect::shared_objects::SharedObjectsAtLoad;
use weir_model::{Rule, Ruleset};

use crate::question_digest::digest_debug_text;

/// For each rule that shares objects with others, what configures them.
///
/// A bucket or a list answers as the rule that made it says, so its configuration is a part of
/// every question that is put to it.
#[derive(Clone, Debug, Default)]
pub struct SharedObjectConfigDigests {
    digest_by_rule_address: HashMap<usize, u64>,
}

impl SharedObjectConfigDigests {
    /// Of the rulesets of a host, which stay where they are in memory.
    pub fn from_rulesets<'r>(
        rulesets: impl Iterator<Item = &'r Ruleset>,
    ) -> SharedObjectConfigDigests {
        let rulesets: Vec<&Ruleset> = rulesets.collect();
        let objects = SharedObjectsAtLoad::from_rulesets(rulesets.iter().copied());
        let mut by_rule = HashMap::new();
        for ruleset in rulesets {
            for (_, _, rule) in ruleset.rules_with_table_and_chain() {
                if let Some(said) =
                    objects.describe_rule_object_configurations(rule, ruleset.family)
                {
                    by_rule.insert(rule_memory_address(rule), digest_debug_text(&said));
                }
            }
        }
        SharedObjectConfigDigests { digest_by_rule_address: by_rule }
    }

    /// A copy of a rule shares the objects of the original.
    pub fn add_copy(&mut self, original: &Rule, copy: &Rule) {
        let digest = self.digest_for_rule(original);
        if digest != 0 {
            self.digest_by_rule_address.insert(rule_memory_address(copy), digest);
        }
    }

    /// The digest of what configures the objects of a rule; 0 where it shares none.
    pub fn digest_for_rule(&self, rule: &Rule) -> u64 {
        match self.digest_by_rule_address.is_empty() {
            true => 0,
            false => {
                self.digest_by_rule_address.get(&rule_memory_address(rule)).copied().unwrap_or(0)
            }
        }
    }
}

/// Rules are known by where they are in memory while a firewall is borrowed.
pub fn rule_memory_address(rule: &Rule) -> usize {
    std::ptr::from_ref(rule).addr()
}
