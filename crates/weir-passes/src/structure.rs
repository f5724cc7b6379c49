//! Properties of a rewritten ruleset that do not depend on packets.
//!
//! Some differences are not visible to an interpreter: two copies of a limit accept twice as much,
//! although each copy answers like the original; the counter of a rule that is rarely reached is
//! lost without a symptom. They are found by counting.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_model::effect::named::Objects;
use weir_model::effect::{Conntrack, conntrack_of_all};
use weir_model::{Chain, Firewall, RuleIndex, Ruleset, TableName, Target};
use weir_partition::keeps_state;

use crate::{Context, Equivalence};

/// A way in which a rewritten ruleset is wrong for any packets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// An original rule has no counter, and was not reported as dead.
    #[error("no counter is left for {0}")]
    LostCredit(String),
    /// Rules were merged that do not do the same, or not in the same chain.
    #[error("{0} and {1} were merged, but are not two tests before one target of one chain")]
    Merged(String, String),
    /// A rule that is stateful or unknown occurs more or less often than before.
    #[error("{rule} is stateful, and occurs {after} times instead of {before}")]
    Barrier {
        /// The rule.
        rule: String,
        /// How often it occurred.
        before: usize,
        /// How often it occurs.
        after: usize,
    },
    /// A chain that another program keeps was changed.
    #[error("chain {0} belongs to another program, and was changed")]
    Program(String),
    /// A built-in chain is missing, or its policy changed.
    #[error("built-in chain {0} is missing or has another policy")]
    BuiltIn(String),
    /// Conntrack is in use before and not after, or the other way round.
    #[error("the rules {} conntrack now, which changes what the nat table sees", if *.0 { "bring in" } else { "no longer use" })]
    Conntrack(bool),
    /// Other rules make or configure an object that rules share by name.
    #[error("the {0} is created or configured by other rules than before")]
    Object(String),
    /// Fragments are put together before and not after, or the other way round.
    #[error("the rules {} fragments put together now", if *.0 { "have" } else { "no longer have" })]
    Fragments(bool),
    /// A set of the user was changed.
    #[error("set {0} was changed")]
    Set(String),
}

/// Checks a rewritten ruleset. `dead` are the rules that the pass says no packet reaches.
///
/// # Errors
/// The first violation.
pub fn check(
    before: &Ruleset,
    after: &Ruleset,
    dead: &[RuleIndex],
    equivalence: Equivalence,
    context: &Context<'_>,
) -> Result<(), Broken> {
    credit(before, after, dead, context)?;
    if equivalence == Equivalence::Summed {
        merged(before, after, context)?;
    }
    barriers(before, after, context)?;
    chains(before, after, context)?;
    let on = |r: &Ruleset| conntrack_of_all(r.rules().map(|(_, _, r)| r));
    match (on(before), on(after)) {
        (was, is) if was == is => Ok(()),
        (Conntrack::No, Conntrack::Defragments) => Err(Broken::Fragments(true)),
        (Conntrack::Defragments, Conntrack::No) => Err(Broken::Fragments(false)),
        (_, is) => Err(Broken::Conntrack(is == Conntrack::Tracks)),
    }
}

/// Objects that rules share by name are made by the same rules.
///
/// # Errors
/// [`Broken::Object`].
pub fn objects(before: &Firewall, after: &Firewall) -> Result<(), Broken> {
    let [before, after] = [before, after].map(|f| Objects::of(f.rulesets()));
    match before.first_change(&after) {
        Some(object) => Err(Broken::Object(object.to_string())),
        None => Ok(()),
    }
}

/// Sets that were there are there, unchanged.
///
/// # Errors
/// [`Broken::Set`].
pub fn sets(before: &Firewall, after: &Firewall) -> Result<(), Broken> {
    match before.sets.iter().find(|s| after.set(&s.name) != Some(s)) {
        Some(set) => Err(Broken::Set(set.name.to_string())),
        None => Ok(()),
    }
}

fn credited(ruleset: &Ruleset) -> BTreeSet<RuleIndex> {
    ruleset.rules().flat_map(|(_, _, r)| r.credit.iter().copied()).collect()
}

/// Elements of sets count for rules, too: their credit is in the context.
fn credit(
    before: &Ruleset,
    after: &Ruleset,
    dead: &[RuleIndex],
    context: &Context<'_>,
) -> Result<(), Broken> {
    let mut left = credited(after);
    left.extend(context.sets.iter().flat_map(|s| &s.elements).flat_map(|e| &e.credit));
    left.extend(dead);
    match credited(before).iter().find(|id| !left.contains(id)) {
        Some(id) => Err(Broken::LostCredit(context.places.name(*id))),
        None => Ok(()),
    }
}

/// Rules that share a counter now did the same in the same chain.
fn merged(before: &Ruleset, after: &Ruleset, context: &Context<'_>) -> Result<(), Broken> {
    let mut home: HashMap<RuleIndex, (TableName, &str, &Target)> = HashMap::new();
    for (table, chain, rule) in before.rules() {
        for id in &rule.credit {
            home.insert(*id, (table.name, &chain.name, &rule.target));
        }
    }
    for (_, _, rule) in after.rules() {
        let homes: Vec<_> = rule.credit.iter().filter_map(|id| Some((id, home.get(id)?))).collect();
        if let Some(w) = homes.windows(2).find(|w| w[0].1 != w[1].1) {
            let name = |id: &RuleIndex| context.places.name(*id);
            return Err(Broken::Merged(name(w[0].0), name(w[1].0)));
        }
    }
    Ok(())
}

/// Rules that keep a state or are not understood, by their credit and text, and how often they are.
fn counted(ruleset: &Ruleset) -> BTreeMap<(Vec<RuleIndex>, String), usize> {
    let mut out = BTreeMap::new();
    for (_, _, rule) in ruleset.rules() {
        // A set that is looked into twice answers twice the same, and so does what depends on the
        // host.
        if !keeps_state(rule, ruleset.family) {
            continue;
        }
        let text = format!("{:?} {:?}", rule.matches, rule.target);
        *out.entry((rule.credit.clone(), text)).or_insert(0) += 1;
    }
    out
}

fn barriers(before: &Ruleset, after: &Ruleset, context: &Context<'_>) -> Result<(), Broken> {
    let (was, is) = (counted(before), counted(after));
    for key in was.keys().chain(is.keys()) {
        let count = |of: &BTreeMap<_, usize>| of.get(key).copied().unwrap_or(0);
        let (before, after) = (count(&was), count(&is));
        if before != after {
            let rule = key.0.first().map(|id| context.places.name(*id)).unwrap_or_default();
            return Err(Broken::Barrier { rule, before, after });
        }
    }
    Ok(())
}

/// Built-in chains and their policies are present, and chains of other programs are unchanged.
fn chains(before: &Ruleset, after: &Ruleset, context: &Context<'_>) -> Result<(), Broken> {
    for table in &before.tables {
        let now = after.table(&table.name);
        let find = |c: &Chain| now.and_then(|t| t.chain(&c.name));
        for chain in &table.chains {
            let place = || format!("{}/{}", table.name, chain.name);
            if chain.policy.is_some() && find(chain).is_none_or(|c| c.policy != chain.policy) {
                return Err(Broken::BuiltIn(place()));
            }
            if !context.may_touch(chain) && find(chain).is_none_or(|c| c.rules != chain.rules) {
                return Err(Broken::Program(place()));
            }
        }
    }
    Ok(())
}
