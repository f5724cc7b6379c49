//! Objects that rules share by name.
//!
//! Some modules have objects that rules name: a table of buckets (`hashlimit`), a list of addresses
//! (`recent`), a timer, an estimator. The kernel creates the object when it loads the first rule
//! that names it, and the options of that rule apply to all others: `-m hashlimit` takes rate,
//! burst and mode from the table (`hinfo->cfg`, xt_hashlimit.c), `-m recent` the mask (`t->mask`,
//! xt_recent.c). Some rules load only if another one has created the object before.
//!
//! So a rule that no packet reaches may still matter: without it another rule creates the object,
//! or none does. [`SHARED_OBJECT_ROWS`] has a row for each module that shares objects;
//! [`SharedObjectsAtLoad`] lists the objects that the rules of a host share, what configures
//! each, and which are missing.
//!
//! *Load order* is the order in which the kernel checks rules: tables in the order of the file;
//! within a table the built-in chains by hook, then the other chains by name (libiptc sorts them).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use weir_packet::Family;

use super::matches::OPAQUE_MATCHES_WITHOUT_SHARED_OBJECTS;
#[cfg(doc)]
use super::opaque_module_row::OpaqueModuleWithoutSharedObjects;
use super::option_text::{OptionText, convert_options_to_texts, parse_option_words};
use super::targets::OPAQUE_TARGETS_WITHOUT_SHARED_OBJECTS;
use crate::rule_match::{Match, TypedExtensionOption};
use crate::ruleset::{Chain, Hook, Rule, Ruleset, Table};
use crate::target::{Effect, Target};

/// Where a module is in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModuleKind {
    /// `-m`.
    Match,
    /// `-j`.
    Target,
}

/// What names the object of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedObjectKey {
    /// The values of these options.
    OptionValues(&'static [&'static str]),
    /// The destination address of the rule.
    DestinationAddress,
}

/// The options of the first rule that hold for all rules of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfiguringOptions {
    /// None: the object has no configuration.
    Nothing,
    /// All.
    All,
    /// These.
    Listed(&'static [&'static str]),
}

/// Whether a rule creates the object that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectCreationCondition {
    /// Always, if it is missing.
    Always,
    /// Only with this option; without it the kernel refuses the rule if the object is missing.
    WithOption(&'static str),
    /// Never: the kernel refuses the rule if the object is missing.
    Never,
}

/// What the kernel does with a rule whose configuration differs from that of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigurationConflictHandling {
    /// It loads the rule, and ignores the rule's configuration.
    Ignored,
    /// It refuses the rule.
    Refused,
}

/// One row: the objects that rules of a module share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedObjectRow {
    /// The module.
    pub module: &'static str,
    /// Whether it is a match or a target.
    pub module_kind: ModuleKind,
    /// What the object is, the same in all rows of modules that share it.
    pub object_kind: &'static str,
    /// What names it.
    pub key: SharedObjectKey,
    /// IPv4 and IPv6 rules of one name have separate objects.
    pub per_family: bool,
    /// The part of the first rule that applies to all.
    pub configuring_options: ConfiguringOptions,
    /// What happens to another rule of the name that configures it differently.
    pub conflict: ConfigurationConflictHandling,
    /// Whether a rule creates it.
    pub creation: ObjectCreationCondition,
}

const fn shared_object_row(
    module: &'static str,
    side: ModuleKind,
    key: SharedObjectKey,
    object: &'static str,
) -> SharedObjectRow {
    SharedObjectRow {
        module,
        module_kind: side,
        object_kind: object,
        key,
        per_family: false,
        configuring_options: ConfiguringOptions::All,
        conflict: ConfigurationConflictHandling::Ignored,
        creation: ObjectCreationCondition::Always,
    }
}

/// The modules whose rules share objects by name (net/netfilter/xt_*.c, ipt_CLUSTERIP.c of Linux up
/// to 6.2). For a module that is in no table, see [`OpaqueModuleWithoutSharedObjects`].
pub const SHARED_OBJECT_ROWS: &[SharedObjectRow] = {
    use ModuleKind::{Match, Target};
    &[
        SharedObjectRow {
            per_family: true,
            ..shared_object_row(
                "hashlimit",
                Match,
                SharedObjectKey::OptionValues(&["hashlimit-name"]),
                "hashlimit table",
            )
        },
        // Both families share the list, its mask included.
        SharedObjectRow {
            configuring_options: ConfiguringOptions::Listed(&["mask"]),
            ..shared_object_row(
                "recent",
                Match,
                SharedObjectKey::OptionValues(&["name"]),
                "recent list",
            )
        },
        // Each rule has its own time. An alarm and a timer of one label exclude each other
        // (`idletimer_tg_checkentry_v1`).
        SharedObjectRow {
            configuring_options: ConfiguringOptions::Listed(&["alarm"]),
            conflict: ConfigurationConflictHandling::Refused,
            ..shared_object_row(
                "IDLETIMER",
                Target,
                SharedObjectKey::OptionValues(&["label"]),
                "idle timer",
            )
        },
        // A trigger without a delay has no timer.
        shared_object_row(
            "LED",
            Target,
            SharedObjectKey::OptionValues(&["led-trigger-id"]),
            "LED trigger",
        ),
        // `xt_rateest_tg_checkentry` compares interval and weight.
        SharedObjectRow {
            conflict: ConfigurationConflictHandling::Refused,
            ..shared_object_row(
                "RATEEST",
                Target,
                SharedObjectKey::OptionValues(&["rateest-name"]),
                RATE_ESTIMATOR_KIND,
            )
        },
        SharedObjectRow {
            configuring_options: ConfiguringOptions::Nothing,
            creation: ObjectCreationCondition::Never,
            ..shared_object_row(
                "rateest",
                Match,
                SharedObjectKey::OptionValues(&["rateest", "rateest1", "rateest2"]),
                RATE_ESTIMATOR_KIND,
            )
        },
        SharedObjectRow {
            creation: ObjectCreationCondition::WithOption("new"),
            ..shared_object_row(
                "CLUSTERIP",
                Target,
                SharedObjectKey::DestinationAddress,
                "cluster address",
            )
        },
    ]
};

const RATE_ESTIMATOR_KIND: &str = "rate estimator";

/// The rules of a ruleset in the order in which the kernel loads them.
pub fn rules_in_load_order(ruleset: &Ruleset) -> impl Iterator<Item = (&Table, &Chain, &Rule)> {
    ruleset.tables.iter().flat_map(|table| {
        let mut chains: Vec<&Chain> = table.chains.iter().collect();
        let built_in = |c: &Chain| c.policy.and_then(|_| Hook::from_chain_name(&c.name));
        chains.sort_by_key(|c| (built_in(c).is_none(), built_in(c), c.name.clone()));
        chains.into_iter().flat_map(move |c| c.rules.iter().map(move |r| (table, c, r)))
    })
}

/// An object that rules name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedObjectId {
    /// What it is; a module's name where that is not known.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The family whose rules share it; `None` is both.
    pub family: Option<Family>,
}

impl fmt::Display for SharedObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// A rule's use of an object.
#[derive(Debug)]
struct SharedObjectUse {
    object: SharedObjectId,
    creates: bool,
    /// What applies to all rules of the name if this rule creates the object: options as text.
    options: Vec<String>,
    /// Every rule of the name configures the object.
    every_user_configures_object: bool,
    /// What the kernel does if the object has another configuration.
    conflict: ConfigurationConflictHandling,
}

/// The objects that the rules of a host share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedObjectsAtLoad {
    /// What configures each object that is made, by rules of IPv4 and of IPv6.
    configurations: BTreeMap<SharedObjectId, [Option<Vec<String>>; 2]>,
    missing: BTreeSet<(Family, SharedObjectId)>,
    /// The configurations, two or more, of each object whose rules contradict each other, where the
    /// kernel refuses the second.
    ///
    /// Compared as text: `250ms` and `0.25s` differ here and are equal in the kernel. Two rulesets
    /// with the same texts load or fail alike.
    refused_conflicts: BTreeMap<SharedObjectId, BTreeSet<Vec<String>>>,
}

impl SharedObjectsAtLoad {
    /// The objects of some rulesets, one for each family at most.
    pub fn from_rulesets<'r>(rulesets: impl Iterator<Item = &'r Ruleset>) -> SharedObjectsAtLoad {
        let mut objects = SharedObjectsAtLoad::default();
        let mut wanted: Vec<(Family, SharedObjectId)> = Vec::new();
        for ruleset in rulesets {
            let family = ruleset.family;
            for used in rules_in_load_order(ruleset)
                .flat_map(|(.., rule)| collect_shared_object_uses(rule, family))
            {
                objects.record_shared_object_use(used, family, &mut wanted);
            }
        }
        // An object of both families may have been made by the other.
        wanted.retain(|(family, object)| {
            let by = objects.configurations.get(object);
            by.is_none_or(|by| by[1 - family_index(*family)].is_none())
        });
        objects.missing = wanted.into_iter().collect();
        objects.refused_conflicts.retain(|_, configurations| configurations.len() > 1);
        objects
    }

    fn record_shared_object_use(
        &mut self,
        used: SharedObjectUse,
        family: Family,
        wanted: &mut Vec<(Family, SharedObjectId)>,
    ) {
        let at = family_index(family);
        if !used.creates {
            if self.configurations.get(&used.object).is_none_or(|of| of[at].is_none()) {
                wanted.push((family, used.object));
            }
            return;
        }
        if used.conflict == ConfigurationConflictHandling::Refused {
            let configurations = self.refused_conflicts.entry(used.object.clone()).or_default();
            let mut options = used.options.clone();
            options.sort();
            configurations.insert(options);
        }
        let made = &mut self.configurations.entry(used.object).or_default()[at];
        match made {
            None => *made = Some(used.options),
            Some(options) if used.every_user_configures_object => {
                let new = used.options.into_iter().filter(|o| !options.contains(o));
                let new: Vec<String> = new.collect();
                options.extend(new);
            }
            Some(_) => {}
        }
    }

    /// What the objects that a rule uses are and what configures them, as text; `None` for a rule
    /// that shares nothing.
    ///
    /// Where both families share an object, the configuration is that of either: which of them is
    /// loaded first is not known.
    pub fn describe_rule_object_configurations(
        &self,
        rule: &Rule,
        family: Family,
    ) -> Option<String> {
        let uses = collect_shared_object_uses(rule, family);
        if uses.is_empty() {
            return None;
        }
        let configured =
            |u: &SharedObjectUse| (u.object.clone(), self.configurations.get(&u.object));
        Some(format!("{:?}", uses.iter().map(configured).collect::<Vec<_>>()))
    }

    /// Objects that a rule needs and that no rule before it makes: the kernel refuses the rule.
    pub fn objects_missing_at_load(&self) -> impl Iterator<Item = (Family, &SharedObjectId)> {
        self.missing.iter().map(|(family, object)| (*family, object))
    }

    /// An object that is missing in one of the two and not in the other.
    pub fn first_missing_object_difference<'o>(
        &'o self,
        other: &'o SharedObjectsAtLoad,
    ) -> Option<(Family, &'o SharedObjectId)> {
        self.missing.symmetric_difference(&other.missing).next().map(|(f, o)| (*f, o))
    }

    /// An object that rules of one of the two configure in ways that the kernel refuses together,
    /// and those of the other do not.
    pub fn first_conflict_difference<'o>(
        &'o self,
        other: &'o SharedObjectsAtLoad,
    ) -> Option<&'o SharedObjectId> {
        let differs = |(object, of): &(&SharedObjectId, &BTreeSet<Vec<String>>)| {
            self.refused_conflicts.get(*object) != other.refused_conflicts.get(*object)
                && of.len() > 1
        };
        self.refused_conflicts
            .iter()
            .chain(&other.refused_conflicts)
            .find(differs)
            .map(|(object, _)| object)
    }

    /// The contradicting configurations of an object, as text.
    pub fn describe_conflict(&self, object: &SharedObjectId) -> Option<String> {
        let configurations =
            self.refused_conflicts.get(object)?.iter().map(|c| match c.is_empty() {
                true => "no options".to_owned(),
                false => c.join(", "),
            });
        Some(configurations.collect::<Vec<_>>().join("; "))
    }

    /// An object that is there in both and that other options configure, or that is missing or in
    /// conflict in one of the two.
    pub fn first_object_config_or_load_difference<'o>(
        &'o self,
        other: &'o SharedObjectsAtLoad,
    ) -> Option<&'o SharedObjectId> {
        let changed = |(o, of): &(&'o SharedObjectId, _)| {
            other.configurations.get(*o).is_some_and(|x| x != *of)
        };
        let changed = self.configurations.iter().find(changed).map(|(o, _)| o);
        changed
            .or_else(|| self.first_missing_object_difference(other).map(|(_, o)| o))
            .or_else(|| self.first_conflict_difference(other))
    }
}

/// Whether a rule names an object that others may share.
pub fn uses_shared_objects(rule: &Rule, family: Family) -> bool {
    !collect_shared_object_uses(rule, family).is_empty()
}

fn family_index(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

/// The objects of a rule, in the order in which the kernel checks its matches and its target.
fn collect_shared_object_uses(rule: &Rule, family: Family) -> Vec<SharedObjectUse> {
    let mut out = Vec::new();
    for m in &rule.matches {
        let (module, options) = match m {
            Match::Stateful(s) => (s.module, ModuleOptions::Known(&s.options)),
            Match::UnmodelledInput(h) => (h.module, ModuleOptions::Known(&h.options)),
            Match::Opaque(o) => (&*o.name, ModuleOptions::Words(&o.words)),
            _ => continue,
        };
        push_shared_object_uses_of_module(
            rule,
            family,
            (ModuleKind::Match, module),
            options,
            &mut out,
        );
    }
    let (module, options) = match &rule.target {
        Target::Opaque(o) => (&*o.name, ModuleOptions::Words(&o.words)),
        Target::Divert(e) => (e.module, ModuleOptions::Known(&e.options)),
        Target::Effect(effect) => match &**effect {
            Effect::Other(e) => (e.module, ModuleOptions::Known(&e.options)),
            _ => return out,
        },
        _ => return out,
    };
    push_shared_object_uses_of_module(
        rule,
        family,
        (ModuleKind::Target, module),
        options,
        &mut out,
    );
    out
}

/// The options of a module in a rule.
#[derive(Clone, Copy)]
enum ModuleOptions<'r> {
    /// Of a module that the model knows.
    Known(&'r [TypedExtensionOption]),
    /// Of a module that it keeps as text.
    Words(&'r [String]),
}

fn push_shared_object_uses_of_module(
    rule: &Rule,
    family: Family,
    (side, module): (ModuleKind, &str),
    options: ModuleOptions<'_>,
    out: &mut Vec<SharedObjectUse>,
) {
    let row = SHARED_OBJECT_ROWS.iter().find(|r| r.module_kind == side && r.module == module);
    let opaque = match side {
        ModuleKind::Match => OPAQUE_MATCHES_WITHOUT_SHARED_OBJECTS,
        ModuleKind::Target => OPAQUE_TARGETS_WITHOUT_SHARED_OBJECTS,
    };
    let is_known =
        matches!(options, ModuleOptions::Known(_)) || opaque.iter().any(|row| row.name == module);
    if row.is_none() && is_known {
        return;
    }
    let options = match options {
        ModuleOptions::Known(options) => convert_options_to_texts(options),
        ModuleOptions::Words(words) => parse_option_words(words, &list_object_naming_options()),
    };
    let Some(row) = row else {
        // What it keeps is not known: every rule of the module may configure it.
        let all: Vec<String> = options.iter().map(OptionText::to_string).collect();
        let object = SharedObjectId {
            kind: module.to_owned(),
            name: "of all its rules".to_owned(),
            family: None,
        };
        out.push(SharedObjectUse {
            object,
            creates: true,
            options: vec![all.join(" ")],
            every_user_configures_object: true,
            conflict: ConfigurationConflictHandling::Ignored,
        });
        return;
    };
    let configures = |o: &&OptionText| match row.configuring_options {
        ConfiguringOptions::Nothing => false,
        ConfiguringOptions::All => true,
        ConfiguringOptions::Listed(names) => names.contains(&&*o.name),
    };
    let creates = match row.creation {
        ObjectCreationCondition::Always => true,
        ObjectCreationCondition::WithOption(option) => options.iter().any(|o| o.name == option),
        ObjectCreationCondition::Never => false,
    };
    let names: Vec<String> = match row.key {
        SharedObjectKey::OptionValues(names) => options
            .iter()
            .filter(|o| names.contains(&&*o.name))
            .map(|o| o.value_text.clone())
            .collect(),
        SharedObjectKey::DestinationAddress => {
            vec![format!("{:?}", rule.base.daddr.as_ref().map(|m| m.addr))]
        }
    };
    for name in names {
        let family = row.per_family.then_some(family);
        let object = SharedObjectId { kind: row.object_kind.to_owned(), name, family };
        let options = options.iter().filter(configures).map(OptionText::to_string).collect();
        let conflict = row.conflict;
        out.push(SharedObjectUse {
            object,
            creates,
            options,
            every_user_configures_object: false,
            conflict,
        });
    }
}

/// The options that name objects, of all modules.
fn list_object_naming_options() -> Vec<&'static str> {
    let names = SHARED_OBJECT_ROWS.iter().filter_map(|row| match row.key {
        SharedObjectKey::OptionValues(names) => Some(names),
        SharedObjectKey::DestinationAddress => None,
    });
    names.flatten().copied().collect()
}
