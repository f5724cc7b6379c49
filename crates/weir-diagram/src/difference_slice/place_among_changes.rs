//! Which rules packets traverse before a changed rule, and which after one.
//!
//! Both rulesets treat a packet alike until it matches a changed rule. So of a rule that no packet
//! traverses after one, only what the changed rules see of it matters to the difference: whether
//! the packet continues, and what is written. Its effects are the same on both sides, and a packet
//! that it ends is not in the difference ([`Simplifier`]). A rule that neither precedes nor follows
//! a changed rule is left out.
//!
//! The order is that of the text: a rule follows another if it is below it in the chain, in a chain
//! that is entered below it, or below a jump to the chain of the other, or in a later table of the
//! journey. A goto counts as a jump, and a chain that is entered from several places counts for all
//! of them: more rules than necessary are taken for reachable, never fewer.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use weir_model::effect::IpsetWrites;
use weir_model::{
    Family, FieldSet, Hook, Match, Rule, Ruleset, Target, TargetTermination, Test, lower_to_tests,
    match_effects, target_effects,
};

use crate::difference_slice::table_side::{TableSide, find_base_chain, list_base_tests};
use crate::stateful_test_id::can_rule_depend_on_state;

/// The other tables of the journeys through a table at a hook.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangesOfOtherStages {
    /// An earlier stage has changed rules.
    pub has_earlier: bool,
    /// A later stage has changed rules.
    pub has_later: bool,
}

/// Where a rule is, seen from the changed rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PlaceAmongChanges {
    /// A packet that matched a changed rule may reach it.
    pub follows_change: bool,
    /// A packet that continues after it in the table, or in the chain that it jumps to, may reach a
    /// changed rule.
    pub precedes_change: bool,
    /// A packet that it accepts may reach a changed rule of a later table.
    pub precedes_change_of_later_stage: bool,
}

impl PlaceAmongChanges {
    pub fn or(self, other: PlaceAmongChanges) -> PlaceAmongChanges {
        PlaceAmongChanges {
            follows_change: self.follows_change || other.follows_change,
            precedes_change: self.precedes_change || other.precedes_change,
            precedes_change_of_later_stage: self.precedes_change_of_later_stage
                || other.precedes_change_of_later_stage,
        }
    }

    /// Whether the rule may matter to a difference.
    pub fn precedes_or_follows_change(self) -> bool {
        self.follows_change || self.precedes_change
    }
}

/// What is known of a chain from the chains that lead to it.
#[derive(Clone, Copy, Default)]
struct ChainEntry {
    follows_change: bool,
    /// A packet that returns from it may reach a changed rule of the table or a later one.
    precedes_change_after_return: bool,
    precedes_change_of_later_stage: bool,
}

impl TableSide<'_> {
    /// The places of the rules of each chain, entered from these hooks.
    pub(super) fn find_places_among_changes(
        &self,
        hooks: &BTreeMap<Hook, ChangesOfOtherStages>,
    ) -> Vec<Vec<PlaceAmongChanges>> {
        let chains = &self.table.chains;
        let mut entries = vec![ChainEntry::default(); chains.len()];
        for (hook, other) in hooks {
            if let Some(base) = find_base_chain(self.table, *hook) {
                entries[base].follows_change |= other.has_earlier;
                entries[base].precedes_change_after_return |= other.has_later;
                entries[base].precedes_change_of_later_stage |= other.has_later;
            }
        }
        let mut places: Vec<Vec<PlaceAmongChanges>> = chains
            .iter()
            .map(|chain| vec![PlaceAmongChanges::default(); chain.rules.len()])
            .collect();
        // Callers first: what leads to a chain is known when it is its turn.
        for at in self.graph.all_callees_first().into_iter().rev() {
            let entry = entries[at];
            let mut precedes_change = entry.precedes_change_after_return;
            for (rule, place) in places[at].iter_mut().enumerate().rev() {
                place.precedes_change_of_later_stage = entry.precedes_change_of_later_stage;
                place.precedes_change = precedes_change;
                if let Some(to) = self.graph.chain_entered_by_rule(at, rule) {
                    let below = &mut entries[to];
                    below.precedes_change_after_return |= precedes_change;
                    below.precedes_change_of_later_stage |= entry.precedes_change_of_later_stage;
                    place.precedes_change |= self.leads_to_change[to];
                }
                precedes_change = place.precedes_change || self.is_changed_rule(at, rule);
            }
            let mut follows_change = entry.follows_change;
            for (rule, place) in places[at].iter_mut().enumerate() {
                place.follows_change = follows_change;
                let is_changed = self.is_changed_rule(at, rule);
                if let Some(to) = self.graph.chain_entered_by_rule(at, rule) {
                    entries[to].follows_change |= follows_change || is_changed;
                    follows_change |= self.continues_after_change[to];
                }
                follows_change |= is_changed && !self.is_retargeted_rule(at, rule);
            }
        }
        places
    }

    fn is_changed_rule(&self, chain: usize, rule: usize) -> bool {
        self.changed_rules[chain].contains(&rule)
    }

    fn is_retargeted_rule(&self, chain: usize, rule: usize) -> bool {
        self.retargeted_rules[chain].contains(&rule)
    }
}

/// Simplifies rules that no packet traverses after a changed rule.
pub(super) struct Simplifier<'r> {
    pub family: Family,
    rulesets: [&'r Ruleset; 2],
    is_unmodelled_state_read: OnceCell<bool>,
}

impl<'r> Simplifier<'r> {
    pub fn new(family: Family, rulesets: [&'r Ruleset; 2]) -> Simplifier<'r> {
        Simplifier { family, rulesets, is_unmodelled_state_read: OnceCell::new() }
    }

    /// Whether some rule asks what no field models: targets that change it are kept.
    fn is_unmodelled_state_read(&self) -> bool {
        *self.is_unmodelled_state_read.get_or_init(|| {
            let mut rules = self.rulesets.iter().flat_map(|r| r.rules_with_table_and_chain());
            rules.any(|(_, _, rule)| may_rule_read_unmodelled_state(rule, self.family))
        })
    }

    /// A common rule of a slice: as it is if it follows a changed rule, else as the changed rules
    /// see it; `None` if they see nothing of it. Verdicts become `DROP`, so that diagrams do not
    /// distinguish them.
    pub fn simplify(&self, rule: &Rule, place: PlaceAmongChanges) -> Option<Rule> {
        // The text of a rule without credit, with its target, identifies its stateful tests.
        let is_identified_by_target =
            rule.credited_originals.is_empty() && can_rule_depend_on_state(rule, self.family);
        if place.follows_change || is_identified_by_target {
            return Some(rule.clone());
        }
        let with_target = |target| Some(Rule { target, ..rule.clone() });
        let mut row = target_effects(&rule.target);
        match &rule.target {
            Target::Reject(_) => return with_target(Target::Drop),
            Target::Accept if !place.precedes_change_of_later_stage => {
                return with_target(Target::Drop);
            }
            Target::None | Target::Effect(_) => {}
            _ => return Some(rule.clone()),
        }
        row.changes_unmodelled_state =
            row.changes_unmodelled_state && self.is_unmodelled_state_read();
        if !row.has_no_effect_on_later_rules() {
            return Some(rule.clone());
        }
        // The base tests are among all tests. Others may drop the packet or ask something.
        let has_base_tests_only =
            lower_to_tests(rule, self.family).len() == list_base_tests(rule, self.family).len();
        if has_base_tests_only { None } else { with_target(Target::None) }
    }
}

/// Whether what the rule does may depend on what no field models.
fn may_rule_read_unmodelled_state(rule: &Rule, family: Family) -> bool {
    let row = target_effects(&rule.target);
    let may_target_read = row.stateful
        || row.ipset_writes != IpsetWrites::None
        || row.may_drop
        || row.termination == TargetTermination::Perhaps
        || !row.unknown_value_writes.is_empty();
    // A translation is chosen once at a hook, so its choice is never compared with an earlier one.
    // What changed before is a list in order, which begins alike on both sides.
    let is_translation = matches!(rule.target, Target::Nat(_));
    (may_target_read && !is_translation)
        || rule.matches.iter().any(|m| {
            let row = match_effects(m, family);
            matches!(m, Match::Set(_)) || row.reads == FieldSet::ALL || !row.writes.is_empty()
        })
        || lower_to_tests(rule, family)
            .iter()
            .any(|test| matches!(test, Test::Opaque { stateful: false, .. }))
}
