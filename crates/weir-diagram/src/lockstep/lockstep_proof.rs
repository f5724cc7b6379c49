//! Proves tables equal in which every packet runs the same rules in the same order.
//!
//! The cheapest of the proofs, and the first that is tried: [`lockstep`](crate::lockstep) needs no
//! diagram. Chains of the same name are compared callees first, so that a chain that is the same in
//! both tables is one step of those that lead to it. Two chains are compared in sections: where the
//! credit of their rules says that rules up to some place come from the same original rules, the
//! sections before and after it are proven separately. Two sequences are equal if their parts are,
//! so names and credit only suggest what to compare.

use std::collections::{HashMap, HashSet};

use weir_model::effect::collect_fields_changed_within_table;
use weir_model::{ChainGraph, Field, Hook, SharedName, Table, TableName};

use crate::compared_pair::ComparedPair;
use crate::compared_ruleset::{TableAtHook, list_journey_stages};
use crate::comparison_types::{ComparedPath, DiagramSizeAndSteps};
use crate::lockstep::LockstepTables;
use crate::lockstep::cell_ipsets::CellIpsets;
use crate::lockstep::cell_tests::{CellTestLowering, DeviceNumbers};
use crate::lockstep::lockstep_rules::{CreditRange, LockstepTable, cut_into_sections};
use crate::lockstep::lockstep_section_diagrams::{
    SECTION_RULES_MAX, SectionComparerByDiagrams, WHOLE_CHAIN_RULES_MAX,
};
use crate::lockstep::packet_cell::CELL_AXES;
use crate::lockstep::proof_diagrams::{ProofDiagrams, VISITS_PER_STEP};
use crate::lockstep::remaining_rules::RemainingRulesComparer;
use crate::rule_field_use::has_match_that_writes;
use crate::same_rule_tests::SameTestCriteria;

/// Visits for each rule of both tables. A prefix tree visits a rule once per level.
const VISITS_PER_RULE_MAX: u64 = 64;
/// Visits for small diagrams of a few rules, in addition to those per rule.
const ADDITIONAL_VISITS_FOR_SECTION_DIAGRAMS: u64 = 1 << 20;

/// The tables of a family that were run in lockstep: those that are the same at some hook.
#[derive(Debug, Default)]
pub(crate) struct LockstepResults {
    tried_tables: HashSet<TableName>,
    equal_stages: HashSet<TableAtHook>,
}

impl<'f> ComparedPair<'f> {
    /// Whether every table of the path runs the same rules in both rulesets. What is known of
    /// tables is shared by the paths of a family. Visits are added to the steps of `statistics`.
    pub fn are_equal_in_lockstep(
        &self,
        results: &mut LockstepResults,
        statistics: &mut DiagramSizeAndSteps,
    ) -> bool {
        let sides = self.sides;
        // What conntrack does between the tables depends on whether it is in use.
        if self.path == ComparedPath::ReassembledInput
            || sides[0].conntrack_in_use != sides[1].conntrack_in_use
        {
            return false;
        }
        list_journey_stages(self.path, sides).into_iter().all(|(stage, _)| {
            match sides.each_ref().map(|side| side.traversed_table(stage)) {
                [None, None] => true,
                [Some(a), Some(b)] if have_only_same_policy([a, b], stage.hook) => true,
                [Some(a), Some(b)] => {
                    if results.tried_tables.insert(stage.table) {
                        let hooks = self.find_equal_hooks([a, b], statistics);
                        let stages = hooks.into_iter();
                        results
                            .equal_stages
                            .extend(stages.map(|hook| TableAtHook { hook, table: stage.table }));
                    }
                    results.equal_stages.contains(&stage)
                }
                _ => false,
            }
        })
    }

    /// The hooks at which two tables run the same rules.
    fn find_equal_hooks(
        &self,
        tables: [&'f Table; 2],
        statistics: &mut DiagramSizeAndSteps,
    ) -> Vec<Hook> {
        if has_match_that_writes(tables) {
            return Vec::new();
        }
        let written = tables.map(collect_fields_changed_within_table);
        let headers_are_whole = self.options.exclude_unreadable_headers;
        let is_axis_usable = CELL_AXES.map(|axis| {
            let is_port = matches!(axis, Field::Sport | Field::Dport);
            written.iter().all(|written| !written.contains(axis)) && (headers_are_whole || !is_port)
        });
        let basis = self.space_basis;
        let [before, after] = basis.ipsets_by_firewall()[..] else { return Vec::new() };
        let same = basis.firewalls_have_same_ipsets;
        let ipsets = CellIpsets::new(self.family, [before, after], basis.changing_ipsets(), same);
        let devices = DeviceNumbers::new(self.space_basis.device_names());
        let prepared = [0, 1].map(|side| {
            let (family, devices, ipsets) = (self.family, &devices, &ipsets);
            let lowering = CellTestLowering {
                family,
                is_axis_usable,
                headers_are_whole,
                devices,
                ipsets,
                side,
            };
            LockstepTable::new(tables[side], &lowering)
        });
        if prepared.iter().any(|table| table.graph.has_loop() || table.has_unknown_callee()) {
            return Vec::new();
        }
        let rule_count = prepared.iter().map(|table| table.rules.len() as u64).sum::<u64>();
        let steps_left = self.steps_max.saturating_sub(statistics.steps);
        let visits_max = ADDITIONAL_VISITS_FOR_SECTION_DIAGRAMS + rule_count * VISITS_PER_RULE_MAX;
        let visits_max = visits_max.min(steps_left.saturating_mul(VISITS_PER_STEP));
        let proven_pairs = prepared.each_ref().map(|table| vec![None; table.chains.len()]);
        let diagrams =
            ProofDiagrams::new(self.space_basis, self.options.memory_bytes, headers_are_whole);
        let mut proof = LockstepTables {
            tables: prepared,
            state_ids: self.sides.each_ref().map(|side| side.state_ids()),
            criteria: SameTestCriteria {
                family: self.family,
                firewalls_have_same_ipsets: self.space_basis.firewalls_have_same_ipsets,
                headers_are_whole,
            },
            ipsets: &ipsets,
            device_number_max: devices.number_max(),
            remaining_rules: RemainingRulesComparer::new(diagrams),
            proven_pairs,
            visits_left: visits_max,
        };
        prove_chain_pairs(&mut proof, tables);
        statistics.steps += (visits_max - proof.visits_left) / VISITS_PER_STEP;
        let is_equal = |hook: &Hook| is_equal_at_hook(&proof, *hook);
        tables[0].name.hooks().iter().copied().filter(is_equal).collect()
    }
}

/// Whether the built-in chains of a hook have no rules and the same policy.
fn have_only_same_policy(tables: [&Table; 2], hook: Hook) -> bool {
    let policy = |table: &Table| {
        let chain = table.chain(hook.chain_name()).filter(|chain| chain.rules.is_empty())?;
        chain.policy
    };
    let [before, after] = tables.map(policy);
    before.is_some() && before == after
}

/// Whether the built-in chains of a hook are proven to be the same, or neither table has one.
fn is_equal_at_hook(proof: &LockstepTables<'_, '_>, hook: Hook) -> bool {
    let bases = proof.tables.each_ref().map(|table| {
        let at = table.graph.chain_index(hook.chain_name())?;
        table.chains[at].policy.map(|policy| (at, policy))
    });
    match bases {
        [None, None] => true,
        [Some((a, policy_a)), Some((b, policy_b))] => {
            let [pair_a, pair_b] = [proof.proven_pairs[0][a], proof.proven_pairs[1][b]];
            policy_a == policy_b && pair_a.is_some() && pair_a == pair_b
        }
        _ => false,
    }
}

/// Runs the chains that have the same name in both tables in lockstep, callees first.
fn prove_chain_pairs<'f>(proof: &mut LockstepTables<'_, 'f>, tables: [&'f Table; 2]) {
    let pairs = pair_chains_by_name(&proof.tables);
    let names: Vec<String> = (0..pairs.len()).map(|number| number.to_string()).collect();
    let mut numbers = proof.tables.each_ref().map(|table| vec![0; table.chains.len()]);
    for (number, pair) in pairs.iter().enumerate() {
        for (side, at) in pair.iter().enumerate() {
            if let Some(at) = at {
                numbers[side][*at] = number;
            }
        }
    }
    let jumps = |number: usize| {
        let mut callees = Vec::new();
        for (side, at) in pairs[number].iter().enumerate() {
            let jumps = at.iter().flat_map(|at| proof.tables[side].graph.jumps_from(*at));
            callees.extend(jumps.map(|jump| (jump.rule, &*names[numbers[side][jump.to]])));
        }
        callees
    };
    let union = ChainGraph::from_names_and_jumps(names.iter().map(String::as_str), jumps);
    if union.has_loop() {
        return;
    }
    let order = union.all_callees_first();
    let is_own_chain = [0, 1].map(|side| {
        let has_partner = |at: &usize| pairs[numbers[side][*at]][1 - side].is_some();
        (0..numbers[side].len()).map(|at| !has_partner(&at)).collect::<Vec<bool>>()
    });
    let credit_ranges = [0, 1].map(|side| {
        let mut known: HashMap<SharedName, CreditRange> = HashMap::new();
        proof.tables[side].credit_ranges(&|at| is_own_chain[side][at], &mut |m| {
            let range = || proof.ipsets.credit_range_of_elements(side, m);
            *known.entry(m.name.clone()).or_insert_with(range)
        })
    });
    let mut section_diagrams = None;
    for number in order {
        let [Some(a), Some(b)] = pairs[number] else { continue };
        let lists = [(0, a), (1, b)].map(|(side, at)| proof.tables[side].rule_numbers_of_chain(at));
        let [credits_a, credits_b] = [0, 1]
            .map(|side| &credit_ranges[side][lists[side].start as usize..lists[side].end as usize]);
        let sections = cut_into_sections([credits_a, credits_b]);
        let whole = lists.each_ref().map(|list| list.len());
        let diagrams = &mut section_diagrams;
        let is_proven = are_sections_equal(proof, diagrams, tables, ([a, b], &sections))
            // Credit means nothing if neither ruleset was compiled from the other.
            || sections.len() > 1 && are_sections_equal(proof, diagrams, tables, ([a, b], &[whole]));
        if is_proven {
            proof.proven_pairs[0][a] = Some(number);
            proof.proven_pairs[1][b] = Some(number);
        }
    }
}

/// Whether two chains are equal section by section: the ends of each on both sides.
fn are_sections_equal<'f>(
    proof: &mut LockstepTables<'_, 'f>,
    diagrams: &mut Option<SectionComparerByDiagrams<'f>>,
    tables: [&'f Table; 2],
    (chains, sections): ([usize; 2], &[[usize; 2]]),
) -> bool {
    let rules_max = if sections.len() > 1 { SECTION_RULES_MAX } else { WHOLE_CHAIN_RULES_MAX };
    let mut begin = [0, 0];
    sections.iter().enumerate().all(|(section, end)| {
        let ranges = [0, 1].map(|side| begin[side]..end[side]);
        let lists = [0, 1].map(|side| {
            let first = proof.tables[side].rule_numbers_of_chain(chains[side]).start;
            first + begin[side] as u32..first + end[side] as u32
        });
        begin = *end;
        let is_last = section + 1 == sections.len();
        proof.run(lists, is_last).is_ok() || {
            let diagrams = diagrams.get_or_insert_with(|| SectionComparerByDiagrams::new(tables));
            let [range_a, range_b] = ranges;
            let sections = [(chains[0], range_a), (chains[1], range_b)];
            diagrams.are_equal(proof, sections, (is_last, rules_max))
        }
    })
}

/// Pairs of chains of the same name, both built-in or neither, and the others on their own.
fn pair_chains_by_name(tables: &[LockstepTable<'_>; 2]) -> Vec<[Option<usize>; 2]> {
    let mut pairs: Vec<[Option<usize>; 2]> =
        (0..tables[0].chains.len()).map(|at| [Some(at), None]).collect();
    for (at, chain) in tables[1].chains.iter().enumerate() {
        let partner = tables[0].graph.chain_index(&chain.name).filter(|partner| {
            tables[0].chains[*partner].policy.is_some() == chain.policy.is_some()
        });
        match partner {
            Some(partner) => pairs[partner][1] = Some(at),
            None => pairs.push([None, Some(at)]),
        }
    }
    pairs
}
