//! Ipsets whose contents change while packets traverse the rules.

use std::collections::BTreeSet;

use super::matches::reads_counters;
use super::targets::{SetWrites, effects_of};
use crate::Name;
use crate::matching::{Match, OptionValue, Value};
use crate::ruleset::{Firewall, Ruleset};
use crate::set::{ElementPart, Method, Part, SetOption};
use crate::target::{Effect, Target};

/// The ipsets whose content the rules of a host may change while packets pass.
///
/// `-j SET` names its set; a list and its members change together, whichever is named; an unknown
/// target may change any set. Elements with a timeout expire, those of `bitmap:ip,mac` learn the
/// address of the first packet, and if a rule compares the counters of a set, each match of it
/// counts. The saved contents of such a set say nothing about what a later rule finds in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangingSets {
    any: bool,
    names: BTreeSet<Name>,
}

impl ChangingSets {
    /// The sets that some rule of the firewall may change.
    pub fn of(firewall: &Firewall) -> ChangingSets {
        Self::of_rulesets(firewall.rulesets(), &firewall.sets)
    }

    /// The same of rulesets and sets.
    pub fn of_rulesets<'r>(
        rulesets: impl Iterator<Item = &'r Ruleset>,
        sets: &[crate::set::IpSet],
    ) -> ChangingSets {
        let mut changing = ChangingSets::default();
        for (_, _, rule) in rulesets.flat_map(Ruleset::rules) {
            changing.see(&rule.target);
            let counted = rule.matches.iter().filter_map(|m| match m {
                Match::Set(m) if reads_counters(m) => Some(m.name.clone()),
                _ => None,
            });
            changing.names.extend(counted);
        }
        changing.names.extend(sets.iter().filter(|s| changes_itself(s)).map(|s| s.name.clone()));
        if changing.names.is_empty() {
            return changing;
        }
        // Members of a list that is named, then lists that hold one of all these.
        let members = |list: &crate::set::IpSet| -> Vec<Name> {
            let parts = list.elements.iter().flat_map(|e| &e.parts);
            parts
                .filter_map(|p| match p {
                    ElementPart::Set(name) => Some(name.clone()),
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
        self.any |= other.any;
        self.names.extend(other.names);
        self
    }

    fn see(&mut self, target: &Target) {
        match effects_of(target).sets {
            SetWrites::None => {}
            SetWrites::Any => self.any = true,
            SetWrites::Named => {
                let written = sets_named_by(target).into_iter().filter(|(_, writes)| *writes);
                self.names.extend(written.map(|(name, _)| name));
            }
        }
    }

    /// Whether some rule may change the set.
    pub fn contains(&self, name: &str) -> bool {
        self.any || self.names.contains(name)
    }
}

/// Whether a set changes though no target names it.
fn changes_itself(set: &crate::set::IpSet) -> bool {
    let ages = |o: &SetOption| matches!(o, SetOption::Timeout(_));
    let learns = set.kind.method == Method::Bitmap && set.kind.parts == [Part::Ip, Part::Mac];
    learns || set.options.iter().any(ages)
}

/// The sets that a `SET` target names, and whether it adds to or deletes from each.
pub fn sets_named_by(target: &Target) -> Vec<(Name, bool)> {
    let Target::Effect(effect) = target else { return Vec::new() };
    let Effect::Other(extension) = &**effect else { return Vec::new() };
    let named = |o: &OptionValue| match (o.name, &o.value) {
        // The name, which may hold spaces, and the directions.
        ("add-set" | "del-set" | "map-set", Value::Text(words)) => {
            words.rsplit_once(' ').map(|(name, _)| (Name::from(name), o.name != "map-set"))
        }
        _ => None,
    };
    extension.options.iter().filter_map(named).collect()
}
