//! Leaves out of two rulesets what cannot matter to their difference.
//!
//! A change of a few rules in a ruleset of many is about few packets, and most rules match none of
//! these. Compilers call what is left a *slice* of a program. It is computed from the tests of
//! `-s`, `-d`, `-i`, `-o` and `-p` alone, which the kernel evaluates before any other
//! (`ip_packet_match` in net/ipv4/netfilter/ip_tables.c). A rule for which they fail evaluates no
//! stateful match, changes nothing, and does not drop a packet with a truncated header.
//!
//! The rules of two chains of the same name are aligned ([`aligned_rules`](crate::difference_slice::aligned_rules));
//! what is left over is *changed*. A changed rule together with the jumps that lead to it gives a
//! *region*: the tests that a packet passes to match it. A packet outside of all regions of a table
//! traverses the same rules on both sides. So a rule is kept if it may match a packet of a region.
//!
//! **Why comparing the slices is comparing the rulesets.** A region belongs to a table at a hook,
//! its *stage*. Seen from another stage, it has only the tests of fields that no rule in between
//! writes ([`RelevantRuleSelector::region_without_tests_of_fields_written_between`]). As long as a packet is in a region as seen from
//! each stage that it reaches, it reaches all rules that it matches, since those are kept. Once it is
//! in none, it is in no region when it reaches a stage with changed rules, because no rule writes
//! the fields that exclude it. Both rulesets then treat it alike, and so do both slices, which keep
//! the same common rules. What conntrack and routing do between the tables is decided by the whole
//! rulesets.

pub(crate) mod aligned_rules;
pub(crate) mod altered_packets;
pub(crate) mod changed_rule_witness;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use weir_model::effect::{collect_fields_changed_within_table, match_effects, target_effects};
use weir_model::{
    Chain, ChainGraph, Family, Field, FieldSet, Hook, Match, Policy, Rule, Ruleset, Table,
    TableName, Test, lower_base_to_tests,
};
use weir_partition::TestAlgebra;

use crate::compared_ruleset::{ComparedRuleset, TableAtHook, list_journey_stages};
use crate::comparison_types::ComparedPath;
use crate::difference_slice::aligned_rules::find_changed_rules;
use crate::difference_slice::changed_rule_witness::ChangedRuleOnPath;
use crate::packet_sets::hook_context::HookContext;
use crate::ruleset_slice::RulesetSlice;
use crate::stateful_test_id::can_rule_depend_on_state;

/// Changed rules of a table, on both sides: with more, there is no slice.
const CHANGED_RULES_PER_TABLE_PAIR_MAX: usize = 128;
/// Regions of a table at a hook: with more, all of its rules are kept.
const REGIONS_PER_TABLE_AT_HOOK_MAX: usize = 128;
/// Jumps to a changed rule: with more, all rules are kept.
const JUMP_DEPTH_MAX: usize = 128;

/// What may matter to the difference of two rulesets.
#[derive(Debug)]
pub(crate) struct DifferenceSlice<'f> {
    /// Their slices.
    pub rulesets: [RulesetSlice; 2],
    /// The changed rules, for each path that leads to them.
    pub changed_rules: Vec<ChangedRuleOnPath<'f>>,
}

/// The slices of two rulesets for all of these paths; `None` if too much differs.
pub(crate) fn slice_to_difference<'f>(
    sides: &[ComparedRuleset<'f>; 2],
    paths: &[ComparedPath],
    (family, firewalls_have_same_ipsets): (Family, bool),
) -> Option<DifferenceSlice<'f>> {
    // What conntrack does between the tables depends on whether it is in use.
    if sides[0].conntrack_in_use != sides[1].conntrack_in_use {
        return None;
    }
    let rulesets = [sides[0].ruleset()?, sides[1].ruleset()?];
    let mut slicer =
        RelevantRuleSelector { family, sides, tables: Vec::new(), changed_rules: Vec::new() };
    for name in TableName::ALL {
        let tables = rulesets.map(|ruleset| ruleset.table(&name));
        // The table itself may do something: nat translates packets of known connections.
        if tables[0].is_some() != tables[1].is_some() {
            return None;
        }
        if tables.iter().any(Option::is_some) {
            let pair = TablePair::align(tables, sides, (family, firewalls_have_same_ipsets))?;
            slicer.tables.push((name, pair));
        }
    }
    for path in paths {
        slicer.add_regions_and_changed_rules_of_path(*path);
    }
    let slices = slicer.slice_rulesets(rulesets);
    Some(DifferenceSlice { rulesets: slices, changed_rules: slicer.changed_rules })
}

/// What a packet passes on the way to a changed rule.
type RegionTests = Vec<Test>;

/// The regions of all stages, as seen from one.
enum VisibleRegions {
    Some(Vec<RegionTests>),
    /// There are too many, or a region of which nothing is visible.
    Everything,
}

/// A table of both rulesets.
struct TablePair<'f> {
    sides: [Option<TableSide<'f>>; 2],
    /// Fields that a rule may change for later rules of the table.
    fields_changed_within_table: FieldSet,
    /// Fields that may be different after the table.
    written: FieldSet,
    /// What matters at each hook, from any stage.
    regions: BTreeMap<Hook, VisibleRegions>,
}

/// A table of one ruleset.
struct TableSide<'f> {
    table: &'f Table,
    graph: ChainGraph<'f>,
    /// The indexes of the changed rules of each chain.
    changed_rules: Vec<Vec<usize>>,
    /// Whether a changed rule is in the chain or in one that it leads to.
    leads_to_change: Vec<bool>,
}

/// Selects the rules that may match a packet of the difference.
struct RelevantRuleSelector<'s, 'f> {
    family: Family,
    sides: &'s [ComparedRuleset<'f>; 2],
    tables: Vec<(TableName, TablePair<'f>)>,
    changed_rules: Vec<ChangedRuleOnPath<'f>>,
}

impl<'f> TablePair<'f> {
    /// Aligns the chains of the same name. `None` if too much differs.
    fn align(
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
            for ((side, at), changed) in paired.iter_mut().zip(at).zip(changed) {
                if let (Some(side), Some(at)) = (side, at) {
                    side.changed_rules[at] = changed;
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
            sides: paired,
        })
    }

    /// The changed rules that are reached from a hook; `None` if there are too many.
    fn changed_rules_at_hook(
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

    fn add_region(&mut self, hook: Hook, mut region: RegionTests) {
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

    /// The rules of each chain that may match a packet that matters, on either side.
    fn find_rules_to_keep(&self, family: Family) -> [Vec<Vec<usize>>; 2] {
        let matter = [0, 1].map(|side| self.find_rules_that_matter(side, family));
        let mut kept = matter.clone();
        if let [Some(a), Some(b)] = &self.sides {
            for (at, chain) in a.table.chains.iter().enumerate() {
                let Some(other_at) = b.graph.chain_index(&chain.name) else { continue };
                if matter[0][at].is_empty() && matter[1][other_at].is_empty() {
                    continue;
                }
                for (rule, other) in a.common_rules(at).zip(b.common_rules(other_at)) {
                    if matter[0][at].contains(&rule) || matter[1][other_at].contains(&other) {
                        kept[0][at].insert(rule);
                        kept[1][other_at].insert(other);
                    }
                }
            }
        }
        kept.map(|chains| chains.into_iter().map(|rules| rules.into_iter().collect()).collect())
    }

    /// The rules of each chain of a side that may match a packet that matters.
    fn find_rules_that_matter(&self, side: usize, family: Family) -> Vec<BTreeSet<usize>> {
        let Some(TableSide { table, graph, .. }) = &self.sides[side] else { return Vec::new() };
        let algebra = TestAlgebra::for_table(table, family);
        let mut kept = vec![BTreeSet::new(); table.chains.len()];
        for (hook, regions) in &self.regions {
            let may_matter = |rule: &Rule| match regions {
                VisibleRegions::Everything => true,
                VisibleRegions::Some(regions) => {
                    let tests = list_base_tests(rule, family);
                    regions.iter().any(|region| !algebra.is_disjoint(region, &tests))
                }
            };
            let mut open: Vec<usize> = find_base_chain(table, *hook).into_iter().collect();
            let mut is_entered = vec![false; table.chains.len()];
            while let Some(at) = open.pop() {
                if std::mem::replace(&mut is_entered[at], true) {
                    continue;
                }
                let rules = table.chains[at].rules.iter().enumerate();
                for (number, _) in rules.filter(|(_, rule)| may_matter(rule)) {
                    kept[at].insert(number);
                    open.extend(graph.chain_entered_by_rule(at, number));
                }
            }
        }
        kept
    }
}

impl<'f> TableSide<'f> {
    /// The indexes of the rules of a chain that the other side has as well.
    fn common_rules(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let changed = &self.changed_rules[at];
        (0..self.table.chains[at].rules.len()).filter(|rule| !changed.contains(rule))
    }

    fn new(table: &'f Table) -> TableSide<'f> {
        TableSide {
            table,
            graph: table.chain_graph(),
            changed_rules: vec![Vec::new(); table.chains.len()],
            leads_to_change: vec![false; table.chains.len()],
        }
    }

    /// `None` if a chain leads back to itself.
    fn mark_chains_leading_to_change(&mut self) -> Option<()> {
        if self.graph.has_loop() {
            return None;
        }
        for at in self.graph.all_callees_first() {
            let mut callees = self.graph.jumps_from(at).iter().map(|jump| jump.to);
            self.leads_to_change[at] =
                !self.changed_rules[at].is_empty() || callees.any(|to| self.leads_to_change[to]);
        }
        Some(())
    }

    /// Adds the changed rules that a chain reaches. `None` if there are too many, or too deep.
    fn collect_changed_rules(
        &self,
        side: usize,
        path: &JumpPath,
        family: Family,
        reached: &mut Vec<ReachedChangedRule<'f>>,
    ) -> Option<()> {
        let rules = &self.table.chains[path.chain].rules;
        let changed = self.changed_rules[path.chain].iter().map(|rule| &rules[*rule]);
        reached.extend(changed.map(|rule| ReachedChangedRule {
            side,
            rule,
            passed: path.passed.clone(),
        }));
        if reached.len() > REGIONS_PER_TABLE_AT_HOOK_MAX || path.depth > JUMP_DEPTH_MAX {
            return None;
        }
        for jump in self.graph.jumps_from(path.chain) {
            if self.leads_to_change[jump.to] {
                let (chain, depth) = (jump.to, path.depth + 1);
                let mut below = JumpPath { chain, passed: path.passed.clone(), depth };
                add_base_tests(&mut below.passed, &rules[jump.rule], family);
                self.collect_changed_rules(side, &below, family, reached)?;
            }
        }
        Some(())
    }
}

/// A chain, and how packets come to it.
struct JumpPath {
    chain: usize,
    passed: RegionTests,
    depth: usize,
}

/// A changed rule, and the tests of the jumps that lead to it.
struct ReachedChangedRule<'f> {
    side: usize,
    rule: &'f Rule,
    passed: RegionTests,
}

impl ReachedChangedRule<'_> {
    fn region(&self, family: Family) -> RegionTests {
        let mut region = self.passed.clone();
        add_base_tests(&mut region, self.rule, family);
        region
    }
}

fn add_base_tests(region: &mut RegionTests, rule: &Rule, family: Family) {
    for test in list_base_tests(rule, family) {
        if !region.contains(&test) {
            region.push(test);
        }
    }
}

impl<'f> RelevantRuleSelector<'_, 'f> {
    fn table_pair(&self, name: TableName) -> Option<&TablePair<'f>> {
        self.tables.iter().find(|(table, _)| *table == name).map(|(_, pair)| pair)
    }

    /// Adds the regions of each stage of a path to the tables of all of its stages.
    fn add_regions_and_changed_rules_of_path(&mut self, path: ComparedPath) {
        let is_traversed = |(stage, _): &(TableAtHook, HookContext)| {
            self.sides.iter().any(|side| side.traversed_table(*stage).is_some())
        };
        let (stages, points): (Vec<TableAtHook>, Vec<HookContext>) =
            list_journey_stages(path, self.sides).into_iter().filter(is_traversed).unzip();
        for (from, stage) in stages.iter().enumerate() {
            let Some(pair) = self.table_pair(stage.table) else { continue };
            let reached = pair.changed_rules_at_hook(stage.hook, self.family);
            let changed_within = pair.fields_changed_within_table;
            let regions = match &reached {
                Some(reached) => reached.iter().map(|rule| rule.region(self.family)).collect(),
                // A region of which nothing is known may be everything.
                None => vec![Vec::new()],
            };
            for (seen_from, other) in stages.iter().enumerate() {
                let between = &stages[from.min(seen_from)..from.max(seen_from)];
                for region in &regions {
                    let mut region =
                        self.region_without_tests_of_fields_written_between(region, between);
                    retain_unwritten_fields(&mut region, changed_within);
                    retain_equally_known_devices(&mut region, [points[from], points[seen_from]]);
                    let pair = self.tables.iter_mut().find(|(table, _)| *table == other.table);
                    if let Some((_, pair)) = pair {
                        pair.add_region(other.hook, region);
                    }
                }
            }
            let point = points[from];
            let on_path = |ReachedChangedRule { side, rule, passed }| ChangedRuleOnPath {
                path,
                point,
                side,
                rule,
                passed,
            };
            self.changed_rules.extend(reached.into_iter().flatten().map(on_path));
        }
    }

    /// A region without the tests of fields that a stage in between may write.
    fn region_without_tests_of_fields_written_between(
        &self,
        region: &RegionTests,
        between: &[TableAtHook],
    ) -> RegionTests {
        let mut region = region.clone();
        for stage in between {
            if let Some(pair) = self.table_pair(stage.table) {
                retain_unwritten_fields(&mut region, pair.written);
                retain_unwritten_fields(&mut region, fields_written_by_existing_nat(*stage));
            }
        }
        region
    }

    /// Keeps the rules that may match a packet that matters, on either side: a rule that both have
    /// is in both slices or in none. Chains that one side enters at one hook may be entered by both
    /// at another.
    fn slice_rulesets(&self, rulesets: [&Ruleset; 2]) -> [RulesetSlice; 2] {
        let mut slices = rulesets.map(|_| RulesetSlice {
            ruleset: Ruleset::new(self.family),
            original_indexes: Vec::new(),
        });
        let mut kept_by_table: Vec<(TableName, [Vec<Vec<usize>>; 2])> = self
            .tables
            .iter()
            .map(|(name, t)| (*name, t.find_rules_to_keep(self.family)))
            .collect();
        for (side, ruleset) in rulesets.into_iter().enumerate() {
            for table in &ruleset.tables {
                let kept = kept_by_table.iter_mut().find(|(name, _)| *name == table.name);
                let kept = kept.map_or_else(Vec::new, |(_, kept)| std::mem::take(&mut kept[side]));
                let chains = table.chains.iter().zip(&kept).map(|(chain, kept)| {
                    let mut slice = Chain::new(chain.name.clone(), chain.policy);
                    slice.rules = kept.iter().map(|rule| chain.rules[*rule].clone()).collect();
                    slice
                });
                let (leading_comments, trailing_comments) = (Vec::new(), Vec::new());
                let (name, chains) = (table.name, chains.collect());
                let slice = Table { name, chains, leading_comments, trailing_comments };
                slices[side].ruleset.tables.push(slice);
                slices[side].original_indexes.extend(kept);
            }
        }
        slices
    }
}

fn find_base_chain(table: &Table, hook: Hook) -> Option<usize> {
    table.chains.iter().position(|c| c.policy.is_some() && &*c.name == hook.chain_name())
}

/// A chain that does not exist accepts.
fn policy_or_accept(chain: Option<&Chain>) -> Policy {
    chain.and_then(|chain| chain.policy).unwrap_or(Policy::Accept)
}

/// The tests of `-s`, `-d`, `-i`, `-o` and `-p`. ip6tables looks for the protocol behind extension
/// headers, which may be truncated: there, it is not among them.
fn list_base_tests(rule: &Rule, family: Family) -> RegionTests {
    let mut tests = lower_base_to_tests(rule);
    tests.retain(|test| match test {
        Test::Field { field: Field::Saddr | Field::Daddr | Field::Iif | Field::Oif, .. } => true,
        Test::Field { field: Field::Proto, .. } => family == Family::V4,
        _ => false,
    });
    tests
}

/// A device that is not known at a hook is the empty name there.
fn retain_equally_known_devices(region: &mut RegionTests, points: [HookContext; 2]) {
    let [a, b] = points;
    region.retain(|test| match test {
        Test::Field { field: Field::Iif, .. } => a.has_iif == b.has_iif,
        Test::Field { field: Field::Oif, .. } => a.has_oif == b.has_oif,
        _ => true,
    });
}

fn retain_unwritten_fields(region: &mut RegionTests, written: FieldSet) {
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

/// The nat table rewrites the destination of packets of translated connections, without a rule.
fn fields_written_by_existing_nat(stage: TableAtHook) -> FieldSet {
    match (stage.table, stage.hook) {
        (TableName::Nat, Hook::Prerouting | Hook::Output) => {
            FieldSet::from_fields(&[Field::Daddr, Field::Dport])
        }
        _ => FieldSet::NONE,
    }
}
