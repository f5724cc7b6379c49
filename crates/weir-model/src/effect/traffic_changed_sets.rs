//! Ipsets whose contents change while packets traverse the rules.

use std::collections::BTreeSet;

use super::matches::compares_set_counters;
use super::targets::{IpsetWrites, target_effects};
use crate::SharedName;
use crate::ipset::{ElementPart, SetDataType, SetOption, SetStorage};
use crate::rule_match::{ExtensionValue, Match, TypedExtensionOption};
use crate::ruleset::{Firewall, Ruleset};
use crate::target::{Effect, Target};

/// The ipsets whose content the rules of a host may change while packets pass.
///
/// `-j SET` names its set; a list and its members change together, whichever is named; an unknown
/// target may change any set. Elements with a timeout expire, those of `bitmap:ip,mac` learn the
/// address of the first packet, and if a rule compares the counters of a set, each match of it
/// counts. The saved contents of such a set say nothing about what a later rule finds in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangingSets {
    any_set: bool,
    names: BTreeSet<SharedName>,
}

impl ChangingSets {
    /// The sets that some rule of the firewall may change.
    pub fn from_firewall(firewall: &Firewall) -> ChangingSets {
        Self::from_rulesets_with_set_definitions(firewall.rulesets(), &firewall.sets)
    }

    /// The same of rulesets and sets.
    pub fn from_rulesets_with_set_definitions<'r>(
        rulesets: impl Iterator<Item = &'r Ruleset>,
        sets: &[crate::ipset::IpSet],
    ) -> ChangingSets {
        let mut changing = ChangingSets::default();
        for (_, _, rule) in rulesets.flat_map(Ruleset::rules_with_table_and_chain) {
            changing.add_target_writes(&rule.target);
            let counted = rule.matches.iter().filter_map(|m| match m {
                Match::Set(m) if compares_set_counters(m) => Some(m.name.clone()),
                _ => None,
            });
            changing.names.extend(counted);
        }
        changing.names.extend(
            sets.iter().filter(|s| has_expiring_or_learned_elements(s)).map(|s| s.name.clone()),
        );
        if changing.names.is_empty() {
            return changing;
        }
        // Members of a list that is named, then lists that hold one of all these.
        let members = |list: &crate::ipset::IpSet| -> Vec<SharedName> {
            let parts = list.elements.iter().flat_map(|e| &e.parts);
            parts
                .filter_map(|p| match p {
                    ElementPart::MemberSet(name) => Some(name.clone()),
                    _ => None,
                })
                .collect()
        };
        for list in sets.iter().filter(|s| changing.names.contains(&s.name)).collect::<Vec<_>>() {
            changing.names.extend(members(list));
        }
        for list in sets {
            if members(list).iter().any(|m| changing.names.contains(m)) {
                changing.names.insert(list.name.clone());
            }
        }
        changing
    }

    /// The sets that rules of either may change: two rulesets are compared on hosts where both ran.
    pub fn union(mut self, other: ChangingSets) -> ChangingSets {
        self.any_set |= other.any_set;
        self.names.extend(other.names);
        self
    }

    fn add_target_writes(&mut self, target: &Target) {
        match target_effects(target).ipset_writes {
            IpsetWrites::None => {}
            IpsetWrites::Any => self.any_set = true,
            IpsetWrites::Named => {
                let written = list_target_sets_with_write_flags(target)
                    .into_iter()
                    .filter(|(_, writes)| *writes);
                self.names.extend(written.map(|(name, _)| name));
            }
        }
    }

    /// Whether some rule may change any set, one that is yet to be made included.
    pub fn may_any_set_change(&self) -> bool {
        self.any_set
    }

    /// Whether some rule may change the set.
    pub fn contains(&self, name: &str) -> bool {
        self.any_set || self.names.contains(name)
    }
}

/// Whether a set changes though no target names it.
fn has_expiring_or_learned_elements(set: &crate::ipset::IpSet) -> bool {
    let ages = |o: &SetOption| matches!(o, SetOption::DefaultElementTimeout(_));
    let learns = set.kind.storage == SetStorage::Bitmap
        && set.kind.data_types == [SetDataType::Ip, SetDataType::Mac];
    learns || set.options.iter().any(ages)
}

/// The sets that a `SET` target names, and whether it adds to or deletes from each.
pub fn list_target_sets_with_write_flags(target: &Target) -> Vec<(SharedName, bool)> {
    let Target::Effect(effect) = target else { return Vec::new() };
    let Effect::Other(extension) = &**effect else { return Vec::new() };
    let named = |o: &TypedExtensionOption| match (o.name, &o.value) {
        // The name, which may hold spaces, and the directions.
        ("add-set" | "del-set" | "map-set", ExtensionValue::Text(words)) => {
            words.rsplit_once(' ').map(|(name, _)| (SharedName::from(name), o.name != "map-set"))
        }
        _ => None,
    };
    extension.options.iter().filter_map(named).collect()
}
