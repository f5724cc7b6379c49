//! Objects that rules share by name.
//!
//! Some modules have objects that rules name: a table of buckets (`hashlimit`), a list of addresses
//! (`recent`), a timer, an estimator. The kernel creates the object when it loads the first rule
//! that names it, and the options of that rule apply to all others: `-m hashlimit` takes rate,
//! burst and mode from the table (`hinfo->cfg`, xt_hashlimit.c), `-m recent` the mask (`t->mask`,
//! xt_recent.c). Some rules load only if another one has created the object before.
//!
//! So a rule that no packet reaches may still matter: without it another rule creates the object,
//! or none does. [`NAMED`] has a row for each module that shares objects; [`Objects`] lists the
//! objects that the rules of a host share, what configures each, and which are missing.
//!
//! *Load order* is the order in which the kernel checks rules: tables in the order of the file;
//! within a table the built-in chains by hook, then the other chains by name (libiptc sorts them).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use weir_packet::Family;

use crate::matching::{Match, OptionValue, Value};
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
pub enum ObjectKey {
    /// The values of these options.
    Options(&'static [&'static str]),
    /// The destination address of the rule.
    Destination,
}

/// The options of the first rule that hold for all rules of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configures {
    /// None: the object has no configuration.
    Nothing,
    /// All.
    All,
    /// These.
    Options(&'static [&'static str]),
}

/// Whether a rule makes the object that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    /// Always, if it is missing.
    Always,
    /// Only with this option; without it the kernel refuses the rule if the object is missing.
    With(&'static str),
    /// Never: the kernel refuses the rule if the object is missing.
    Never,
}

/// One row: the objects that rules of a module share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedRow {
    /// The module.
    pub module: &'static str,
    /// Whether it is a match or a target.
    pub side: ModuleKind,
    /// What the object is, the same in all rows of modules that share it.
    pub object: &'static str,
    /// What names it.
    pub key: ObjectKey,
    /// IPv4 and IPv6 rules of one name have separate objects.
    pub per_family: bool,
    /// The part of the first rule that applies to all.
    pub configures: Configures,
    /// Whether a rule makes it.
    pub makes: Makes,
}

const fn named(
    module: &'static str,
    side: ModuleKind,
    key: ObjectKey,
    object: &'static str,
) -> NamedRow {
    NamedRow {
        module,
        side,
        object,
        key,
        per_family: false,
        configures: Configures::All,
        makes: Makes::Always,
    }
}

/// The modules whose rules share objects by name (net/netfilter/xt_*.c, ipt_CLUSTERIP.c of Linux up
/// to 6.2). For a module that is in neither table, see [`ALONE`].
pub const NAMED: [NamedRow; 7] = {
    use ModuleKind::{Match, Target};
    [
        NamedRow {
            per_family: true,
            ..named("hashlimit", Match, ObjectKey::Options(&["hashlimit-name"]), "hashlimit table")
        },
        // Both families share the list, its mask included.
        NamedRow {
            configures: Configures::Options(&["mask"]),
            ..named("recent", Match, ObjectKey::Options(&["name"]), "recent list")
        },
        // Each rule has its own time.
        NamedRow {
            configures: Configures::Options(&["alarm"]),
            ..named("IDLETIMER", Target, ObjectKey::Options(&["label"]), "idle timer")
        },
        // A trigger without a delay has no timer.
        named("LED", Target, ObjectKey::Options(&["led-trigger-id"]), "LED trigger"),
        named("RATEEST", Target, ObjectKey::Options(&["rateest-name"]), ESTIMATOR),
        NamedRow {
            configures: Configures::Nothing,
            makes: Makes::Never,
            ..named(
                "rateest",
                Match,
                ObjectKey::Options(&["rateest", "rateest1", "rateest2"]),
                ESTIMATOR,
            )
        },
        NamedRow {
            makes: Makes::With("new"),
            ..named("CLUSTERIP", Target, ObjectKey::Destination, "cluster address")
        },
    ]
};

const ESTIMATOR: &str = "rate estimator";

/// Modules without a row in the table of effects whose rules share nothing by name. Rules of any
/// other module without a row share one object, which all of them configure.
pub const ALONE: [&str; 21] = [
    "HMARK",
    "SECMARK",
    "CONNSECMARK",
    "TCPOPTSTRIP",
    "SNPT",
    "DNPT",
    "FLOWOFFLOAD",
    "cluster",
    "connlabel",
    // Its objects are made by nfnetlink, not by rules.
    "nfacct",
    "osf",
    "ipcomp",
    "ipvs",
    "eui64",
    "frag",
    "mh",
    "dst",
    "hbh",
    "ipv6header",
    "rt",
    "l2tp",
];

/// The rules of a ruleset in the order in which the kernel loads them.
pub fn load_order(ruleset: &Ruleset) -> impl Iterator<Item = (&Table, &Chain, &Rule)> {
    ruleset.tables.iter().flat_map(|table| {
        let mut chains: Vec<&Chain> = table.chains.iter().collect();
        let built_in = |c: &Chain| c.policy.and_then(|_| Hook::of_chain(&c.name));
        chains.sort_by_key(|c| (built_in(c).is_none(), built_in(c), c.name.clone()));
        chains.into_iter().flat_map(move |c| c.rules.iter().map(move |r| (table, c, r)))
    })
}

/// An object that rules name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// What it is; a module's name where that is not known.
    pub what: String,
    /// Its name.
    pub name: String,
    /// The family whose rules share it; `None` is both.
    pub family: Option<Family>,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.name)
    }
}

/// A rule's use of an object.
#[derive(Debug)]
struct Use {
    object: Object,
    makes: bool,
    /// What applies to all rules of the name if this rule creates the object: options as text.
    options: Vec<String>,
    /// Every rule of the name configures the object.
    by_all: bool,
}

/// The objects that the rules of a host share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// What configures each object that is made, by rules of IPv4 and of IPv6.
    made: BTreeMap<Object, [Option<Vec<String>>; 2]>,
    missing: BTreeSet<(Family, Object)>,
}

impl Objects {
    /// The objects of some rulesets, one for each family at most.
    pub fn of<'r>(rulesets: impl Iterator<Item = &'r Ruleset>) -> Objects {
        let mut objects = Objects::default();
        let mut wanted: Vec<(Family, Object)> = Vec::new();
        for ruleset in rulesets {
            let family = ruleset.family;
            for used in load_order(ruleset).flat_map(|(.., rule)| uses(rule, family)) {
                objects.load(used, family, &mut wanted);
            }
        }
        // An object of both families may have been made by the other.
        wanted.retain(|(family, object)| {
            let by = objects.made.get(object);
            by.is_none_or(|by| by[1 - family_index(*family)].is_none())
        });
        objects.missing = wanted.into_iter().collect();
        objects
    }

    fn load(&mut self, used: Use, family: Family, wanted: &mut Vec<(Family, Object)>) {
        let at = family_index(family);
        if !used.makes {
            if self.made.get(&used.object).is_none_or(|of| of[at].is_none()) {
                wanted.push((family, used.object));
            }
            return;
        }
        let made = &mut self.made.entry(used.object).or_default()[at];
        match made {
            None => *made = Some(used.options),
            Some(options) if used.by_all => {
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
    pub fn of_rule(&self, rule: &Rule, family: Family) -> Option<String> {
        let uses = uses(rule, family);
        if uses.is_empty() {
            return None;
        }
        let configured = |u: &Use| (u.object.clone(), self.made.get(&u.object));
        Some(format!("{:?}", uses.iter().map(configured).collect::<Vec<_>>()))
    }

    /// Objects that a rule needs and that no rule before it makes: the kernel refuses the rule.
    pub fn missing(&self) -> impl Iterator<Item = (Family, &Object)> {
        self.missing.iter().map(|(family, object)| (*family, object))
    }

    /// An object that is missing in one of the two and not in the other.
    pub fn missing_in_one<'o>(&'o self, other: &'o Objects) -> Option<(Family, &'o Object)> {
        self.missing.symmetric_difference(&other.missing).next().map(|(f, o)| (*f, o))
    }

    /// An object that is there in both and that other options configure, or that is missing in one
    /// of the two.
    pub fn first_change<'o>(&'o self, other: &'o Objects) -> Option<&'o Object> {
        let changed = |(o, of): &(&'o Object, _)| other.made.get(*o).is_some_and(|x| x != *of);
        let changed = self.made.iter().find(changed).map(|(o, _)| o);
        changed.or_else(|| self.missing_in_one(other).map(|(_, o)| o))
    }
}

/// Whether a rule names an object that others may share.
pub fn shares_objects(rule: &Rule, family: Family) -> bool {
    !uses(rule, family).is_empty()
}

fn family_index(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

/// The objects of a rule, in the order in which the kernel checks its matches and its target.
fn uses(rule: &Rule, family: Family) -> Vec<Use> {
    let mut out = Vec::new();
    for m in &rule.matches {
        let (module, options) = match m {
            Match::Stateful(s) => (s.module, spelled(&s.options)),
            Match::Host(h) => (h.module, spelled(&h.options)),
            Match::Opaque(o) => (&*o.name, parsed(&o.words)),
            _ => continue,
        };
        let known = !matches!(m, Match::Opaque(_));
        uses_of(rule, family, (ModuleKind::Match, module, known), &options, &mut out);
    }
    let (module, options) = match &rule.target {
        Target::Opaque(o) => (&*o.name, parsed(&o.words)),
        Target::Effect(effect) => match &**effect {
            Effect::Other(e) => (e.module, spelled(&e.options)),
            _ => return out,
        },
        _ => return out,
    };
    let known = !matches!(rule.target, Target::Opaque(_));
    uses_of(rule, family, (ModuleKind::Target, module, known), &options, &mut out);
    out
}

fn uses_of(
    rule: &Rule,
    family: Family,
    (side, module, known): (ModuleKind, &str, bool),
    options: &[Spelled],
    out: &mut Vec<Use>,
) {
    let text = |o: &Spelled| format!("{}{} {}", if o.negated { "! " } else { "" }, o.name, o.text);
    let Some(row) = NAMED.iter().find(|r| r.side == side && r.module == module) else {
        if known || ALONE.contains(&module) {
            return;
        }
        // What it keeps is not known: every rule of the module may configure it.
        let all: Vec<String> = options.iter().map(text).collect();
        let object =
            Object { what: module.to_owned(), name: "of all its rules".to_owned(), family: None };
        out.push(Use { object, makes: true, options: vec![all.join(" ")], by_all: true });
        return;
    };
    let configures = |o: &&Spelled| match row.configures {
        Configures::Nothing => false,
        Configures::All => true,
        Configures::Options(names) => names.contains(&&*o.name),
    };
    let makes = match row.makes {
        Makes::Always => true,
        Makes::With(option) => options.iter().any(|o| o.name == option),
        Makes::Never => false,
    };
    let names: Vec<String> = match row.key {
        ObjectKey::Options(names) => {
            options.iter().filter(|o| names.contains(&&*o.name)).map(|o| o.text.clone()).collect()
        }
        ObjectKey::Destination => vec![format!("{:?}", rule.base.daddr.as_ref().map(|m| m.addr))],
    };
    for name in names {
        let family = row.per_family.then_some(family);
        let object = Object { what: row.object.to_owned(), name, family };
        let options = options.iter().filter(configures).map(text).collect();
        out.push(Use { object, makes, options, by_all: false });
    }
}

/// An option of any module, as text.
#[derive(Debug)]
struct Spelled {
    negated: bool,
    name: String,
    text: String,
}

fn spelled(options: &[OptionValue]) -> Vec<Spelled> {
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let spelled = |o: &OptionValue| {
        let (negated, name) = (o.negated, o.name.to_owned());
        Spelled { negated, name, text: text(&o.value) }
    };
    options.iter().map(spelled).collect()
}

/// The words of a module that is preserved verbatim. An option may be abbreviated, or have its
/// value after `=`.
fn parsed(words: &[String]) -> Vec<Spelled> {
    let mut out: Vec<Spelled> = Vec::new();
    let mut negated = false;
    for word in words {
        if word == "!" {
            negated = true;
            continue;
        }
        match (word.strip_prefix("--"), out.last_mut()) {
            (Some(option), _) => {
                let (name, text) = option.split_once('=').unwrap_or((option, ""));
                out.push(Spelled { negated, name: full(name), text: text.to_owned() });
                negated = false;
            }
            (None, Some(last)) => {
                if !last.text.is_empty() {
                    last.text.push(' ');
                }
                last.text.push_str(word);
            }
            (None, None) => {
                out.push(Spelled { negated, name: String::new(), text: word.clone() });
            }
        }
    }
    out
}

/// The option that names an object, where a word is the beginning of no other.
fn full(name: &str) -> String {
    let names = NAMED.iter().flat_map(|row| match row.key {
        ObjectKey::Options(names) => names.iter().copied(),
        ObjectKey::Destination => [].iter().copied(),
    });
    let mut found = names.filter(|n| name.len() > 1 && n.starts_with(name));
    match (found.next(), found.next()) {
        (Some(only), None) => only.to_owned(),
        _ => name.to_owned(),
    }
}
