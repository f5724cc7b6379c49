//! A table of both rulesets: which of its rules changed, and which may matter to the difference.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use weir_model::effect::{collect_fields_changed_within_table, match_effects, target_effects};
use weir_model::{Chain, Family, FieldSet, Hook, Match, Policy, Rule, Table, Test};
use weir_partition::TestAlgebra;

use crate::compared_ruleset::ComparedRuleset;
use crate::difference_slice::aligned_rules::{find_changed_rules, find_replaced_elements};
use crate::difference_slice::place_among_changes::{
    ChangesOfOtherStages, PlaceAmongChanges, Simplifier,
};
use crate::difference_slice::table_side::{
    JumpPath, REGIONS_PER_TABLE_AT_HOOK_MAX, ReachedChangedRule, RegionTests, TableSide,
    find_base_chain, list_base_tests,
};
use crate::stateful_test_id::can_rule_depend_on_state;

/// Changed rules of a table, on both sides: with more, there is no slice.
const CHANGED_RULES_PER_TABLE_PAIR_MAX: usize = 128;

/// The regions of all stages, as seen from one.
pub(super) enum VisibleRegions {
    Some(Vec<RegionTests>),
    /// There are too many, or a region of which nothing is visible.
    Everything,
}

/// A table of both rulesets.
pub(super) struct TablePair<'f> {
    pub sides: [Option<TableSide<'f>>; 2],
    /// Fields that a rule may change for later rules of the table.
    pub fields_changed_within_table: FieldSet,
    /// Fields that may be different after the table.
    pub written: FieldSet,
    /// What matters at each hook, from any stage.
    pub regions: BTreeMap<Hook, VisibleRegions>,
    /// The other stages of the paths through each hook.
    pub other_stages: BTreeMap<Hook, ChangesOfOtherStages>,
}

impl<'f> TablePair<'f> {
    /// Aligns the chains of the same name. `None` if too much differs.
    pub fn align(
        tables: [Option<&'f Table>; 2],
        sides: &[ComparedRuleset<'f>; 2],
        (family, firewalls_have_same_ipsets): (Family, bool),
    ) -> Option<TablePair<'f>> {
        let is_same_rule = |a: &Rule, b: &Rule| {
            let has_set = |rule: &Rule| rule.matches.iter().any(|m| matches!(m, Match::Set(_)));
            a.base == b.base
                && a.matches == b.matches
                && a.target == b.target
                && (firewalls_have_same_ipsets || !has_set(a))
                && (!can_rule_depend_on_state(a, family)
                    || sides[0].state_ids().stateful_test_id(a)
                        == sides[1].state_ids().stateful_test_id(b))
        };
        let mut paired = tables.map(|table| table.map(TableSide::new));
        let names = tables.into_iter().flatten().flat_map(|table| &table.chains).map(|c| &c.name);
        let mut changed_count = 0;
        let mut seen = HashSet::new();
        for name in names.filter(|name| seen.insert(&***name)) {
            let at = paired.each_ref().map(|side| side.as_ref()?.graph.chain_index(name));
            let chains = [0, 1].map(|side| Some(&tables[side]?.chains[at[side]?]));
            if policy_or_accept(chains[0]) != policy_or_accept(chains[1]) {
                return None;
            }
            let rules = chains.map(|chain| chain.map_or(&[][..], |chain| &chain.rules));
            let changed =
                find_changed_rules(rules, CHANGED_RULES_PER_TABLE_PAIR_MAX, &is_same_rule)?;
            changed_count += changed[0].len() + changed[1].len();
            // With a budget, one side may match where the other does not: see `retargeted_rules`.
            let retargeted = find_replaced_elements(rules, &changed, &|a, b| {
                let with_other_target = Rule { target: a.target.clone(), ..b.clone() };
                [a, b].iter().all(|rule| {
                    rule.target.is_terminating() && !can_rule_depend_on_state(rule, family)
                }) && is_same_rule(a, &with_other_target)
            });
            let found = changed.into_iter().zip(retargeted);
            for ((side, at), (changed, retargeted)) in paired.iter_mut().zip(at).zip(found) {
                if let (Some(side), Some(at)) = (side, at) {
                    side.changed_rules[at] = changed;
                    side.retargeted_rules[at] = retargeted;
                }
            }
        }
        if changed_count > CHANGED_RULES_PER_TABLE_PAIR_MAX {
            return None;
        }
        for side in paired.iter_mut().flatten() {
            side.mark_chains_leading_to_change()?;
        }
        let tables = || tables.into_iter().flatten();
        let union = |fields: &dyn Fn(&Table) -> FieldSet| {
            tables().map(fields).fold(FieldSet::NONE, FieldSet::union)
        };
        Some(TablePair {
            fields_changed_within_table: union(&collect_fields_changed_within_table),
            written: union(&collect_fields_written_by_table),
            regions: BTreeMap::new(),
            other_stages: BTreeMap::new(),
            sides: paired,
        })
    }

    /// The changed rules that are reached from a hook; `None` if there are too many.
    pub fn changed_rules_at_hook(
        &self,
        hook: Hook,
        family: Family,
    ) -> Option<Vec<ReachedChangedRule<'f>>> {
        let mut reached = Vec::new();
        for (number, side) in self.sides.iter().enumerate() {
            if let Some(side) = side
                && let Some(base) = find_base_chain(side.table, hook)
            {
                let start = JumpPath { chain: base, passed: Vec::new(), depth: 0 };
                side.collect_changed_rules(number, &start, family, &mut reached)?;
            }
        }
        Some(reached)
    }

    /// Whether a changed rule is reached from a hook.
    pub fn has_changes_at_hook(&self, hook: Hook) -> bool {
        self.sides.iter().flatten().any(|side| {
            find_base_chain(side.table, hook).is_some_and(|base| side.leads_to_change[base])
        })
    }

    pub fn add_region(&mut self, hook: Hook, mut region: RegionTests) {
        retain_unwritten_fields(&mut region, self.fields_changed_within_table);
        let visible = self.regions.entry(hook).or_insert(VisibleRegions::Some(Vec::new()));
        let VisibleRegions::Some(regions) = visible else { return };
        if regions.contains(&region) {
            return;
        }
        regions.push(region);
        if regions.len() > REGIONS_PER_TABLE_AT_HOOK_MAX
            || regions.last().is_some_and(Vec::is_empty)
        {
            *visible = VisibleRegions::Everything;
        }
    }

    /// What is kept of the rules of each chain: those that may match a packet that matters, on
    /// either side.
    pub fn find_rules_to_keep(&self, simplifier: &Simplifier<'_>) -> [Vec<Vec<KeptRule>>; 2] {
        if self.regions.is_empty() {
            let none = |side: &Option<TableSide<'_>>| {
                let chains = side.as_ref().map_or(0, |side| side.table.chains.len());
                (0..chains).map(|_| Vec::new()).collect()
            };
            return self.sides.each_ref().map(none);
        }
        let family = simplifier.family;
        let mut of_regions = [0, 1].map(|side| self.find_rules_of_regions(side, family));
        let mut places = self.sides.each_ref().map(|side| {
            side.as_ref().map_or_else(Vec::new, |s| s.find_places_among_changes(&self.other_stages))
        });
        if let [Some(a), Some(b)] = &self.sides {
            for (at, chain) in a.table.chains.iter().enumerate() {
                let Some(other_at) = b.graph.chain_index(&chain.name) else { continue };
                let [rules_a, rules_b] = &mut of_regions;
                let (rules_a, rules_b) = (&mut rules_a[at], &mut rules_b[other_at]);
                if rules_a.is_empty() && rules_b.is_empty() {
                    continue;
                }
                for (rule, other) in a.common_rules(at).zip(b.common_rules(other_at)) {
                    if rules_a.contains(&rule) || rules_b.contains(&other) {
                        rules_a.insert(rule);
                        rules_b.insert(other);
                    }
                    let place = places[0][at][rule].or(places[1][other_at][other]);
                    places[0][at][rule] = place;
                    places[1][other_at][other] = place;
                }
            }
        }
        let keep = |side: &TableSide<'_>, at: usize, rule: usize, place: PlaceAmongChanges| {
            let original = &side.table.chains[at].rules[rule];
            let kept = match side.changed_rules[at].contains(&rule) {
                true => Some(original.clone()),
                false if place.precedes_or_follows_change() => simplifier.simplify(original, place),
                false => None,
            };
            kept.map(|kept| KeptRule { original_index: rule, rule: kept })
        };
        [0, 1].map(|number| {
            let Some(side) = &self.sides[number] else { return Vec::new() };
            let chains = of_regions[number].iter().enumerate();
            let rules = |(at, rules): (usize, &BTreeSet<usize>)| {
                let places = &places[number][at];
                rules.iter().filter_map(|rule| keep(side, at, *rule, places[*rule])).collect()
            };
            chains.map(rules).collect()
        })
    }

    /// The rules of each chain of a side that may match a packet of a region from which packets may
    /// come to the chain. Regions are bits of a number.
    fn find_rules_of_regions(&self, side: usize, family: Family) -> Vec<BTreeSet<usize>> {
        let Some(TableSide { table, graph, .. }) = &self.sides[side] else { return Vec::new() };
        let algebra = TestAlgebra::for_table(table, family);
        let mut found = vec![BTreeSet::new(); table.chains.len()];
        for (hook, regions) in &self.regions {
            let Some(base) = find_base_chain(table, *hook) else { continue };
            let regions: &[RegionTests] = match regions {
                VisibleRegions::Everything => &[Vec::new()],
                VisibleRegions::Some(regions) => regions,
            };
            let mut entered_from = vec![0_u128; table.chains.len()];
            entered_from[base] = (0..regions.len()).fold(0, |all, region| all | 1 << region);
            // Callers first: all regions that lead to a chain are known when it is its turn.
            for at in graph.all_callees_first().into_iter().rev() {
                let from = entered_from[at];
                let rules = table.chains[at].rules.iter().enumerate();
                for (number, rule) in rules.filter(|_| from != 0) {
                    let tests = list_base_tests(rule, family);
                    let may_match = |region: &usize| {
                        from >> *region & 1 == 1 && !algebra.is_disjoint(&regions[*region], &tests)
                    };
                    let matching = (0..regions.len()).filter(may_match);
                    let matching = matching.fold(0, |matching, region| matching | 1_u128 << region);
                    if matching != 0 {
                        found[at].insert(number);
                        if let Some(to) = graph.chain_entered_by_rule(at, number) {
                            entered_from[to] |= matching;
                        }
                    }
                }
            }
        }
        found
    }
}

/// A rule of a slice.
pub(super) struct KeptRule {
    /// The index of the whole ruleset's rule in its chain.
    pub original_index: usize,
    pub rule: Rule,
}

/// A chain that does not exist accepts.
fn policy_or_accept(chain: Option<&Chain>) -> Policy {
    chain.and_then(|chain| chain.policy).unwrap_or(Policy::Accept)
}

pub(super) fn retain_unwritten_fields(region: &mut RegionTests, written: FieldSet) {
    region.retain(|test| match test {
        Test::Field { field, .. } => !written.contains(*field),
        _ => false,
    });
}

/// What rules of a table may write, also with a verdict.
fn collect_fields_written_by_table(table: &Table) -> FieldSet {
    let rules = table.chains.iter().flat_map(|chain| &chain.rules);
    rules.fold(FieldSet::NONE, |written, rule| {
        // Both families write the same.
        let by_matches = rule.matches.iter().map(|m| match_effects(m, Family::V4).writes);
        by_matches.fold(written.union(target_effects(&rule.target).writes), FieldSet::union)
    })
}
