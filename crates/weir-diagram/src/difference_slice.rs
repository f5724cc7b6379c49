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
//! traverses the same rules on both sides. So a rule is selected if it may match a packet of a
//! region that may come to its chain.
//!
//! **Why comparing the selected rules is comparing the rulesets.** A region belongs to a table at a
//! hook, its *stage*. Seen from another stage, it has only the tests of fields that no rule in
//! between writes ([`RelevantRuleSelector::region_without_tests_of_fields_written_between`]). As long as a packet is in a region as seen from
//! each stage that it reaches, all rules that it matches are selected. Once it is in none, it is in
//! no region when it reaches a stage with changed rules, because no rule writes the fields that
//! exclude it. Both rulesets then treat it alike, and so do the selected rules, of which common
//! ones are selected on both sides. What conntrack and routing do between the tables is decided by
//! the whole rulesets.
//!
//! **Why the selected rules may be simplified** if no packet traverses them after a changed rule is
//! in [`place_among_changes`](crate::difference_slice::place_among_changes).

pub(crate) mod aligned_rules;
pub(crate) mod altered_packets;
pub(crate) mod changed_rule_witness;
mod place_among_changes;
mod table_pair;
mod table_side;

use std::ops::Range;

use weir_model::{Chain, Family, Field, FieldSet, Hook, Ruleset, Table, TableName, Test};

use crate::compared_ruleset::{ComparedRuleset, TableAtHook, list_journey_stages};
use crate::comparison_types::ComparedPath;
use crate::difference_slice::changed_rule_witness::ChangedRuleOnPath;
use crate::difference_slice::place_among_changes::Simplifier;
use crate::difference_slice::table_pair::{KeptRule, TablePair, retain_unwritten_fields};
use crate::difference_slice::table_side::{ReachedChangedRule, RegionTests};
use crate::packet_sets::hook_context::HookContext;
use crate::ruleset_slice::RulesetSlice;

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

/// Selects the rules that may match a packet of the difference.
struct RelevantRuleSelector<'s, 'f> {
    family: Family,
    sides: &'s [ComparedRuleset<'f>; 2],
    tables: Vec<(TableName, TablePair<'f>)>,
    changed_rules: Vec<ChangedRuleOnPath<'f>>,
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
        self.add_changes_of_other_stages(&stages);
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
                if !is_on_way_of_one_packet([stage, other]) {
                    continue;
                }
                let mut between = stages[from.min(seen_from)..from.max(seen_from)].to_vec();
                between.retain(|between| {
                    [stage, other].iter().all(|end| is_on_way_of_one_packet([end, between]))
                });
                for region in &regions {
                    let mut region =
                        self.region_without_tests_of_fields_written_between(region, &between);
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

    /// Records for each stage of a path whether stages before and behind it have changed rules.
    fn add_changes_of_other_stages(&mut self, stages: &[TableAtHook]) {
        let has_changes = |stage: &TableAtHook| {
            self.table_pair(stage.table).is_some_and(|pair| pair.has_changes_at_hook(stage.hook))
        };
        let changed: Vec<bool> = stages.iter().map(has_changes).collect();
        for (number, stage) in stages.iter().enumerate() {
            let any_changed = |mut others: Range<usize>| {
                others.any(|i| changed[i] && is_on_way_of_one_packet([stage, &stages[i]]))
            };
            let has_earlier = any_changed(0..number);
            let has_later = any_changed(number + 1..stages.len());
            let pair = self.tables.iter_mut().find(|(table, _)| *table == stage.table);
            if let Some((_, pair)) = pair {
                let other = pair.other_stages.entry(stage.hook).or_default();
                other.has_earlier |= has_earlier;
                other.has_later |= has_later;
            }
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
        let simplifier = Simplifier::new(self.family, rulesets);
        let mut kept_by_table: Vec<(TableName, [Vec<Vec<KeptRule>>; 2])> = self
            .tables
            .iter()
            .map(|(name, t)| (*name, t.find_rules_to_keep(&simplifier)))
            .collect();
        for (side, ruleset) in rulesets.into_iter().enumerate() {
            for table in &ruleset.tables {
                let kept = kept_by_table.iter_mut().find(|(name, _)| *name == table.name);
                let kept = kept.map_or_else(Vec::new, |(_, kept)| std::mem::take(&mut kept[side]));
                let (mut chains, mut indexes) = (Vec::new(), Vec::new());
                for (chain, kept) in table.chains.iter().zip(kept) {
                    let mut slice = Chain::new(chain.name.clone(), chain.policy);
                    let (of_chain, rules) =
                        kept.into_iter().map(|kept| (kept.original_index, kept.rule)).unzip();
                    slice.rules = rules;
                    chains.push(slice);
                    indexes.push(of_chain);
                }
                let (leading_comments, trailing_comments) = (Vec::new(), Vec::new());
                let slice = Table { name: table.name, chains, leading_comments, trailing_comments };
                slices[side].ruleset.tables.push(slice);
                slices[side].original_indexes.extend(indexes);
            }
        }
        slices
    }
}

/// Whether a packet may traverse both stages of a path: what is redirected to this host is not
/// forwarded.
fn is_on_way_of_one_packet(stages: [&TableAtHook; 2]) -> bool {
    let hooks = stages.map(|stage| stage.hook);
    let is_forwarded = hooks.iter().any(|hook| matches!(hook, Hook::Forward | Hook::Postrouting));
    !(hooks.contains(&Hook::Input) && is_forwarded)
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

/// The nat table rewrites the destination of packets of translated connections, without a rule.
fn fields_written_by_existing_nat(stage: TableAtHook) -> FieldSet {
    match (stage.table, stage.hook) {
        (TableName::Nat, Hook::Prerouting | Hook::Output) => {
            FieldSet::from_fields(&[Field::Daddr, Field::Dport])
        }
        _ => FieldSet::NONE,
    }
}
