//! Properties of a rewritten ruleset that do not depend on packets.
//!
//! Some differences are not visible to an interpreter: two copies of a limit accept twice as much,
//! although each copy answers like the original; the counter of a rule that is rarely reached is
//! lost without a symptom. They are found by counting.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_model::effect::shared_objects::SharedObjectsAtLoad;
use weir_model::effect::{ConntrackDemand, total_conntrack_demand};
use weir_model::{Chain, Firewall, OriginalRuleIndex, Ruleset, TableName, Target};
use weir_partition::is_stateful_rule;

use crate::{Equivalence, PassContext};

/// A way in which a rewritten ruleset is wrong for any packets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructureViolation {
    /// An original rule has no counter, and was not reported as dead.
    #[error("no counter is left for {0}")]
    RuleCounterLost(String),
    /// Rules were merged that do not do the same, or not in the same chain.
    #[error("{0} and {1} were merged, but are not two tests before one target of one chain")]
    InvalidMerge(String, String),
    /// A rule that is stateful or unknown occurs more or less often than before.
    #[error("{rule} is stateful, and occurs {after} times instead of {before}")]
    StatefulRuleCountChanged {
        /// The rule.
        rule: String,
        /// How often it occurred.
        before: usize,
        /// How often it occurs.
        after: usize,
    },
    /// A chain that another program keeps was changed.
    #[error("chain {0} belongs to another program, and was changed")]
    ProgramChainChanged(String),
    /// A built-in chain is missing, or its policy changed.
    #[error("built-in chain {0} is missing or has another policy")]
    BuiltInChainChanged(String),
    /// Conntrack is in use before and not after, or the other way round.
    #[error("the rules {} conntrack now, which changes what the nat table sees", if *.0 { "bring in" } else { "no longer use" })]
    ConntrackNowUsed(bool),
    /// Other rules make or configure an object that rules share by name.
    #[error("the {0} is created or configured by other rules than before")]
    SharedObjectChanged(String),
    /// Fragments are reassembled before and not after, or the other way round.
    #[error("the rules {} fragments put together now", if *.0 { "have" } else { "no longer have" })]
    ReassemblyNowUsed(bool),
    /// A set of the user was changed.
    #[error("set {0} was changed")]
    UserSetChanged(String),
}

/// Checks a rewritten ruleset. `dead` are the rules that the pass says no packet reaches.
///
/// # Errors
/// The first violation.
pub fn check_rules_chains_and_conntrack_use_of_rewrite(
    before: &Ruleset,
    after: &Ruleset,
    dead: &[OriginalRuleIndex],
    equivalence: Equivalence,
    context: &PassContext<'_>,
) -> Result<(), StructureViolation> {
    check_no_rule_counter_lost(before, after, dead, context)?;
    if equivalence == Equivalence::SummedCounters {
        check_merged_rules(before, after, context)?;
    }
    check_stateful_rule_counts(before, after, context)?;
    check_protected_chains(before, after, context)?;
    let on =
        |r: &Ruleset| total_conntrack_demand(r.rules_with_table_and_chain().map(|(_, _, r)| r));
    match (on(before), on(after)) {
        (was, is) if was == is => Ok(()),
        (ConntrackDemand::Nothing, ConntrackDemand::Defragmentation) => {
            Err(StructureViolation::ReassemblyNowUsed(true))
        }
        (ConntrackDemand::Defragmentation, ConntrackDemand::Nothing) => {
            Err(StructureViolation::ReassemblyNowUsed(false))
        }
        (_, is) => Err(StructureViolation::ConntrackNowUsed(is == ConntrackDemand::Tracking)),
    }
}

/// Objects that rules share by name are made by the same rules.
///
/// # Errors
/// [`StructureViolation::SharedObjectChanged`].
pub fn check_shared_objects_unchanged(
    before: &Firewall,
    after: &Firewall,
) -> Result<(), StructureViolation> {
    let [before, after] = [before, after].map(|f| SharedObjectsAtLoad::from_rulesets(f.rulesets()));
    match before.first_object_config_or_load_difference(&after) {
        Some(object) => Err(StructureViolation::SharedObjectChanged(object.to_string())),
        None => Ok(()),
    }
}

/// Sets that were there are there, unchanged.
///
/// # Errors
/// [`StructureViolation::UserSetChanged`].
pub fn check_user_sets_unchanged(
    before: &Firewall,
    after: &Firewall,
) -> Result<(), StructureViolation> {
    match before.sets.iter().find(|s| after.find_set(&s.name) != Some(s)) {
        Some(set) => Err(StructureViolation::UserSetChanged(set.name.to_string())),
        None => Ok(()),
    }
}

fn collect_ids_credited_by_rules(ruleset: &Ruleset) -> BTreeSet<OriginalRuleIndex> {
    ruleset
        .rules_with_table_and_chain()
        .flat_map(|(_, _, r)| r.credited_originals.iter().copied())
        .collect()
}

/// Elements of sets count for rules, too: their credit is in the context.
fn check_no_rule_counter_lost(
    before: &Ruleset,
    after: &Ruleset,
    dead: &[OriginalRuleIndex],
    context: &PassContext<'_>,
) -> Result<(), StructureViolation> {
    let mut left = collect_ids_credited_by_rules(after);
    left.extend(
        context.sets.iter().flat_map(|s| s.elements.iter()).flat_map(|e| &e.credited_originals),
    );
    left.extend(dead);
    match collect_ids_credited_by_rules(before).iter().find(|id| !left.contains(id)) {
        Some(id) => Err(StructureViolation::RuleCounterLost(context.rule_ids.rule_id_text(*id))),
        None => Ok(()),
    }
}

/// Rules that share a counter now did the same in the same chain.
fn check_merged_rules(
    before: &Ruleset,
    after: &Ruleset,
    context: &PassContext<'_>,
) -> Result<(), StructureViolation> {
    let mut home: HashMap<OriginalRuleIndex, (TableName, &str, &Target)> = HashMap::new();
    for (table, chain, rule) in before.rules_with_table_and_chain() {
        for id in &rule.credited_originals {
            home.insert(*id, (table.name, &chain.name, &rule.target));
        }
    }
    for (_, _, rule) in after.rules_with_table_and_chain() {
        let homes: Vec<_> =
            rule.credited_originals.iter().filter_map(|id| Some((id, home.get(id)?))).collect();
        if let Some(w) = homes.windows(2).find(|w| w[0].1 != w[1].1) {
            let name = |id: &OriginalRuleIndex| context.rule_ids.rule_id_text(*id);
            return Err(StructureViolation::InvalidMerge(name(w[0].0), name(w[1].0)));
        }
    }
    Ok(())
}

/// Rules that keep a state or are not understood, by their credit and text, and how often they are.
fn count_stateful_rules_by_credit_and_text(
    ruleset: &Ruleset,
) -> BTreeMap<(Vec<OriginalRuleIndex>, String), usize> {
    let mut out = BTreeMap::new();
    for (_, _, rule) in ruleset.rules_with_table_and_chain() {
        // A set that is looked into twice answers twice the same, and so does what depends on the
        // host.
        if !is_stateful_rule(rule, ruleset.family) {
            continue;
        }
        let text = format!("{:?} {:?}", rule.matches, rule.target);
        *out.entry((rule.credited_originals.to_vec(), text)).or_insert(0) += 1;
    }
    out
}

fn check_stateful_rule_counts(
    before: &Ruleset,
    after: &Ruleset,
    context: &PassContext<'_>,
) -> Result<(), StructureViolation> {
    let (was, is) = (
        count_stateful_rules_by_credit_and_text(before),
        count_stateful_rules_by_credit_and_text(after),
    );
    for key in was.keys().chain(is.keys()) {
        let count = |of: &BTreeMap<_, usize>| of.get(key).copied().unwrap_or(0);
        let (before, after) = (count(&was), count(&is));
        if before != after {
            let rule =
                key.0.first().map(|id| context.rule_ids.rule_id_text(*id)).unwrap_or_default();
            return Err(StructureViolation::StatefulRuleCountChanged { rule, before, after });
        }
    }
    Ok(())
}

/// Built-in chains and their policies are present, and chains of other programs are unchanged.
fn check_protected_chains(
    before: &Ruleset,
    after: &Ruleset,
    context: &PassContext<'_>,
) -> Result<(), StructureViolation> {
    for table in &before.tables {
        let now = after.table(&table.name);
        let by_name: HashMap<&str, &Chain> =
            now.into_iter().flat_map(|t| &t.chains).map(|c| (&*c.name, c)).collect();
        let find = |c: &Chain| by_name.get(&*c.name).copied();
        for chain in &table.chains {
            let place = || format!("{}/{}", table.name, chain.name);
            if chain.policy.is_some() && find(chain).is_none_or(|c| c.policy != chain.policy) {
                return Err(StructureViolation::BuiltInChainChanged(place()));
            }
            if !context.may_rewrite(chain) && find(chain).is_none_or(|c| c.rules != chain.rules) {
                return Err(StructureViolation::ProgramChainChanged(place()));
            }
        }
    }
    Ok(())
}
