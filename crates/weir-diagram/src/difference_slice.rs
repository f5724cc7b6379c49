//! Leaves out of two rulesets what cannot matter to their difference.
//!
//! A change of a few rules in a ruleset of many is about few packets, and most rules match none of
//! these. Compilers call what is left a *slice* of a program. It is computed from the tests of
//! `-s`, `-d`, `-i`, `-o` and `-p` alone, which the kernel evaluates before any other (`ip_packet_match`
//! in net/ipv4/netfilter/ip_tables.c): whoever fails them asks nothing, changes nothing, and is not
//! dropped for a truncated header.
//!
//! The rules of two chains of the same name are aligned ([`aligned_rules`](crate::aligned_rules));
//! what is left over is *changed*. A changed rule together with the jumps that lead to it gives a
//! *region*: the tests that a packet passes to match it. A packet outside of all regions of a table
//! traverses the same rules on both sides. So a rule is kept if it may match a packet of a region.
//!
//! **Why comparing the slices is comparing the rulesets.** A region belongs to a table at a hook, its
//! *stage*. Seen from another stage, it has only the tests of fields that no rule in between writes
//! ([`Region seen from`](DifferenceSlicer::region_seen_from)). Take a packet. As long as it is in a region
//! as seen from each stage that it reaches, it meets all rules that it matches, since those are
//! kept. If it leaves all of them, it is in no region when it reaches a stage with changed rules,
//! because the fields that show it stay as they are: so both rulesets do the same with it, and so do
//! both slices, which have the same rules for it. What conntrack and routing do between the tables
//! is decided by the whole rulesets.

use weir_model::effect::{collect_fields_changed_within_table, match_effects, target_effects};
use weir_model::{
    Chain, ChainGraph, Family, Field, FieldSet, Hook, Match, Policy, Rule, Ruleset, Table,
    TableName, Test, lower_base_to_tests,
};
use weir_partition::TestAlgebra;

use crate::aligned_rules::find_changed_rules;
use crate::comparison_types::ComparedPath;
use crate::journey::{ComparedRuleset, TableAtHook, list_journey_stages};
use crate::stateful_test_id::can_rule_depend_on_state;

/// Changed rules of a table, on both sides: with more, there is no slice.
const CHANGED_RULES_MAX: usize = 128;
/// Regions of a table at a hook: with more, all of its rules are kept.
const REGIONS_MAX: usize = 128;

/// The rules of one ruleset that may matter to a difference.
#[derive(Debug)]
pub(crate) struct RulesetSlice {
    /// Its tables, each with all of its chains, in their order.
    pub ruleset: Ruleset,
    /// By chain, table after table: the index that each rule has in the whole chain.
    pub original_indexes: Vec<Vec<usize>>,
}

impl RulesetSlice {
    /// Each of its rules, behind that of the whole ruleset.
    pub fn originals_and_copies<'r>(
        &'r self,
        whole: &'r Ruleset,
    ) -> impl Iterator<Item = (&'r Rule, &'r Rule)> {
        let chains = |ruleset: &'r Ruleset| ruleset.tables.iter().flat_map(|table| &table.chains);
        let of_chain = |((whole, slice), indexes): ((&'r Chain, &'r Chain), &'r Vec<usize>)| {
            indexes.iter().zip(&slice.rules).map(|(at, copy)| (&whole.rules[*at], copy))
        };
        chains(whole).zip(chains(&self.ruleset)).zip(&self.original_indexes).flat_map(of_chain)
    }
}

/// The slices of two rulesets for all of these paths; `None` if too much differs.
pub(crate) fn slice_to_difference(
    sides: &[ComparedRuleset<'_>; 2],
    paths: &[ComparedPath],
    (family, firewalls_have_same_ipsets): (Family, bool),
) -> Option<[RulesetSlice; 2]> {
    // What conntrack does between the tables depends on whether it is in use.
    if sides[0].conntrack_in_use != sides[1].conntrack_in_use {
        return None;
    }
    let rulesets = [sides[0].ruleset()?, sides[1].ruleset()?];
    let mut slicer = DifferenceSlicer { family, sides, tables: Vec::new() };
    for name in TableName::ALL {
        let tables = rulesets.map(|ruleset| ruleset.table(&name));
        if tables.iter().any(Option::is_some) {
            let pair = TablePair::align(tables, sides, (family, firewalls_have_same_ipsets))?;
            slicer.tables.push((name, pair));
        }
    }
    for path in paths {
        slicer.add_regions_of_path(&list_journey_stages(*path, sides));
    }
    Some([0, 1].map(|side| slicer.slice_ruleset(side, rulesets[side])))
}

/// What a packet passes on the way to a changed rule.
type RegionTests = Vec<Test>;

/// The regions of a table, as seen from it.
enum VisibleRegions {
    Some(Vec<RegionTests>),
    /// There are too many, or a region of which nothing is visible.
    Everything,
}

/// A table of both rulesets.
struct TablePair<'f> {
    sides: [Option<TableSide<'f>>; 2],
    /// Fields that a rule may change for later rules of the table.
    changed_within: FieldSet,
    /// Fields that may be different after the table.
    written: FieldSet,
    /// What matters here, from any stage.
    regions: VisibleRegions,
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

struct DifferenceSlicer<'s, 'f> {
    family: Family,
    sides: &'s [ComparedRuleset<'f>; 2],
    tables: Vec<(TableName, TablePair<'f>)>,
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
        let mut seen = std::collections::HashSet::new();
        for name in names.filter(|name| seen.insert(&***name)) {
            let at = paired.each_ref().map(|side| side.as_ref()?.graph.chain_index(name));
            let chains = [0, 1].map(|side| Some(&tables[side]?.chains[at[side]?]));
            if policy_or_accept(chains[0]) != policy_or_accept(chains[1]) {
                return None;
            }
            let rules = chains.map(|chain| chain.map_or(&[][..], |chain| &chain.rules));
            let changed = find_changed_rules(rules, CHANGED_RULES_MAX, &is_same_rule)?;
            changed_count += changed[0].len() + changed[1].len();
            for ((side, at), changed) in paired.iter_mut().zip(at).zip(changed) {
                if let (Some(side), Some(at)) = (side, at) {
                    side.changed_rules[at] = changed;
                }
            }
        }
        if changed_count > CHANGED_RULES_MAX {
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
            changed_within: union(&collect_fields_changed_within_table),
            written: union(&collect_fields_written_by_table),
            regions: VisibleRegions::Some(Vec::new()),
            sides: paired,
        })
    }

    /// The regions of the table at a hook; `None` if there are too many or one is everything.
    fn regions_at_hook(&self, hook: Hook, family: Family) -> Option<Vec<RegionTests>> {
        let mut regions = Vec::new();
        for side in self.sides.iter().flatten() {
            let is_base = |c: &Chain| c.policy.is_some() && &*c.name == hook.chain_name();
            if let Some(base) = side.table.chains.iter().position(is_base) {
                side.collect_regions(base, &Vec::new(), family, &mut regions)?;
            }
        }
        for region in &mut regions {
            retain_unwritten_fields(region, self.changed_within);
        }
        Some(regions)
    }

    fn add_region(&mut self, mut region: RegionTests) {
        retain_unwritten_fields(&mut region, self.changed_within);
        let VisibleRegions::Some(regions) = &mut self.regions else { return };
        if regions.contains(&region) {
            return;
        }
        regions.push(region);
        if regions.len() > REGIONS_MAX || regions.last().is_some_and(Vec::is_empty) {
            self.regions = VisibleRegions::Everything;
        }
    }
}

impl<'f> TableSide<'f> {
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

    /// Adds the regions of the changed rules that a chain reaches. `passed`: the tests on the way to
    /// it. `None` if there are too many.
    fn collect_regions(
        &self,
        at: usize,
        passed: &RegionTests,
        family: Family,
        regions: &mut Vec<RegionTests>,
    ) -> Option<()> {
        let rules = &self.table.chains[at].rules;
        let with_tests_of = |rule: usize| {
            let mut tests = passed.clone();
            for test in list_base_tests(&rules[rule], family) {
                if !tests.contains(&test) {
                    tests.push(test);
                }
            }
            tests
        };
        regions.extend(self.changed_rules[at].iter().map(|rule| with_tests_of(*rule)));
        if regions.len() > REGIONS_MAX {
            return None;
        }
        for jump in self.graph.jumps_from(at) {
            if self.leads_to_change[jump.to] {
                self.collect_regions(jump.to, &with_tests_of(jump.rule), family, regions)?;
            }
        }
        Some(())
    }
}

impl DifferenceSlicer<'_, '_> {
    fn table_pair(&self, name: TableName) -> Option<&TablePair<'_>> {
        self.tables.iter().find(|(table, _)| *table == name).map(|(_, pair)| pair)
    }

    /// Adds the regions of each stage of a path to the tables of all of its stages.
    fn add_regions_of_path(&mut self, stages: &[(TableAtHook, crate::EvaluationPoint)]) {
        let is_traversed = |stage: &TableAtHook| {
            self.sides.iter().any(|side| side.traversed_table(*stage).is_some())
        };
        let stages: Vec<TableAtHook> =
            stages.iter().map(|(stage, _)| *stage).filter(is_traversed).collect();
        for (from, stage) in stages.iter().enumerate() {
            let Some(pair) = self.table_pair(stage.table) else { continue };
            // A region of which nothing is known may be everything.
            let regions =
                pair.regions_at_hook(stage.hook, self.family).unwrap_or_else(|| vec![Vec::new()]);
            for (seen_from, other) in stages.iter().enumerate() {
                let between = &stages[from.min(seen_from)..from.max(seen_from)];
                for region in &regions {
                    let region = self.region_seen_from(region, between);
                    let pair = self.tables.iter_mut().find(|(table, _)| *table == other.table);
                    if let Some((_, pair)) = pair {
                        pair.add_region(region);
                    }
                }
            }
        }
    }

    /// A region without the tests of fields that a stage in between may write.
    fn region_seen_from(&self, region: &RegionTests, between: &[TableAtHook]) -> RegionTests {
        let mut region = region.clone();
        for stage in between {
            if let Some(pair) = self.table_pair(stage.table) {
                retain_unwritten_fields(&mut region, pair.written);
                retain_unwritten_fields(&mut region, fields_written_by_existing_nat(*stage));
            }
        }
        region
    }

    fn slice_ruleset(&self, side: usize, ruleset: &Ruleset) -> RulesetSlice {
        let mut slice = Ruleset::new(self.family);
        let mut original_indexes = Vec::new();
        for table in &ruleset.tables {
            let pair = self.table_pair(table.name);
            let regions = pair.and_then(|pair| match &pair.regions {
                VisibleRegions::Some(regions) => Some(regions),
                VisibleRegions::Everything => None,
            });
            let algebra = TestAlgebra::for_table(table, self.family);
            let may_matter = |rule: &Rule| {
                let Some(regions) = regions else { return true };
                let tests = list_base_tests(rule, self.family);
                regions.iter().any(|region| !algebra.is_disjoint(region, &tests))
            };
            let mut kept: Vec<Vec<usize>> = vec![Vec::new(); table.chains.len()];
            let graph = pair.and_then(|pair| Some(&pair.sides[side].as_ref()?.graph));
            let mut is_entered = vec![false; table.chains.len()];
            let mut open: Vec<usize> =
                (0..table.chains.len()).filter(|at| table.chains[*at].policy.is_some()).collect();
            open.iter().for_each(|at| is_entered[*at] = true);
            while let Some(at) = open.pop() {
                let rules = table.chains[at].rules.iter().enumerate();
                kept[at] = rules.filter(|(_, rule)| may_matter(rule)).map(|(i, _)| i).collect();
                for rule in &kept[at] {
                    let callee = graph.and_then(|graph| graph.chain_entered_by_rule(at, *rule));
                    if let Some(callee) = callee.filter(|to| !is_entered[*to]) {
                        is_entered[callee] = true;
                        open.push(callee);
                    }
                }
            }
            let chains = table.chains.iter().zip(&kept).map(|(chain, kept)| {
                let mut slice = Chain::new(chain.name.clone(), chain.policy);
                slice.rules = kept.iter().map(|rule| chain.rules[*rule].clone()).collect();
                slice
            });
            slice.tables.push(Table {
                name: table.name,
                chains: chains.collect(),
                leading_comments: Vec::new(),
                trailing_comments: Vec::new(),
            });
            original_indexes.append(&mut kept);
        }
        RulesetSlice { ruleset: slice, original_indexes }
    }
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
