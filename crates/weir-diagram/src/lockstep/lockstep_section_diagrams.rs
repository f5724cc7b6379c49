//! Compares sections of two chains by diagrams.
//!
//! If the steps of two sections differ, the sections may still be equal: a map of ports has a chain
//! for each port, and a list has all rules in sequence. Most sections, and the chains that they
//! lead to, are short, so their diagrams are small even if the chains that contain the sections are
//! long. Two chains are equal if their sections are.
//!
//! Only stateless rules are compared in this way.

use weir_model::{Match, Rule, Table, Target, Test, lower_to_tests, match_effects};

use crate::lockstep::LockstepTables;
use crate::lockstep::lockstep_rules::LockstepTable;
use crate::lockstep::proof_diagrams::ProofDiagrams;
use crate::rule_diagrams::rule_and_chain_diagrams::TableChainDiagrams;
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::rule_diagrams::terminal::RuleExit;

/// Maximum number of rules of a section and of the chains that it leads to, on one side.
pub(crate) const SECTION_RULES_MAX: usize = 512;
/// The same if the section is a whole chain: diagrams of the whole ruleset follow anyway.
pub(crate) const WHOLE_CHAIN_RULES_MAX: usize = 64;

/// Diagrams of the chains of both tables.
#[derive(Debug)]
pub(crate) struct SectionComparerByDiagrams<'f> {
    tables: [&'f Table; 2],
    chains: [TableChainDiagrams<'f>; 2],
    diagrams_generation: u64,
}

impl<'f> SectionComparerByDiagrams<'f> {
    pub fn new(tables: [&'f Table; 2]) -> SectionComparerByDiagrams<'f> {
        let chains = tables.map(TableChainDiagrams::new);
        SectionComparerByDiagrams { tables, chains, diagrams_generation: 0 }
    }

    /// Whether sections of two chains are equal. A section is a chain and a range of its rules, on
    /// each side; `is_last` states that the chains end with the sections. False if a side has more
    /// than `rules_max` rules.
    pub fn are_equal(
        &mut self,
        proof: &mut LockstepTables<'_, 'f>,
        sections: [(usize, std::ops::Range<usize>); 2],
        (is_last, rules_max): (bool, usize),
    ) -> bool {
        let family = proof.criteria.family;
        let is_comparable = |rule: &Rule| is_decided_by_headers(rule, family);
        let mut called = [Vec::new(), Vec::new()];
        for (side, (chain, range)) in sections.iter().enumerate() {
            let table = &proof.tables[side];
            let Some(chains) = list_called_chains(table, *chain, range.clone(), rules_max) else {
                return false;
            };
            let own = &self.tables[side].chains[*chain].rules[range.clone()];
            let all = chains.iter().flat_map(|at| &self.tables[side].chains[*at].rules).chain(own);
            if !all.into_iter().all(is_comparable) {
                return false;
            }
            called[side] = chains;
        }
        let LockstepTables { remaining_rules, state_ids, visits_left, .. } = proof;
        let Some(generation) =
            remaining_rules.diagrams.prepare_context_and_get_generation(visits_left)
        else {
            return false;
        };
        if generation != self.diagrams_generation {
            self.chains.iter_mut().for_each(TableChainDiagrams::clear_chain_diagrams);
            self.diagrams_generation = generation;
        }
        let SectionComparerByDiagrams { tables, chains, .. } = self;
        remaining_rules.diagrams.are_equal(visits_left, |context, side| {
            let (chain, range) = &sections[side];
            let (table, state_ids) = (tables[side], state_ids[side]);
            let place = TableHookContext { point: ProofDiagrams::HOOK_CONTEXT, table: table.name };
            for at in &called[side] {
                if !chains[side].has_chain_diagrams(*at) {
                    let callee = (*at, &table.chains[*at]);
                    context.build_called_chain(&mut chains[side], callee, state_ids, place)?;
                }
            }
            let rules = &table.chains[*chain].rules[range.clone()];
            let whole =
                context.compose_rules_in_sequence(&chains[side], rules, state_ids, place)?;
            Ok(match is_last {
                true => context.replace_exit_by_other_exit(
                    whole,
                    RuleExit::Return,
                    RuleExit::Continue,
                )?,
                false => whole,
            })
        })
    }
}

/// The chains to which rules lead, callees first; `None` if they have too many rules.
fn list_called_chains(
    table: &LockstepTable<'_>,
    chain: usize,
    range: std::ops::Range<usize>,
    rules_max: usize,
) -> Option<Vec<usize>> {
    let mut rules_left = rules_max.checked_sub(range.len())?;
    let mut listed: Vec<usize> = Vec::new();
    for jump in table.graph.jumps_from(chain).iter().filter(|jump| range.contains(&jump.rule)) {
        if listed.contains(&jump.to) {
            continue;
        }
        for callee in table.graph.callees_first_from(jump.to).ok()? {
            if !listed.contains(&callee) {
                rules_left = rules_left.checked_sub(1 + table.chains[callee].rules.len())?;
                listed.push(callee);
            }
        }
    }
    Some(listed)
}

/// Whether the effect of the rule depends only on headers.
fn is_decided_by_headers(rule: &Rule, family: weir_model::Family) -> bool {
    let is_stateless = |m: &Match| {
        let effects = match_effects(m, family);
        !matches!(m, Match::Set(_)) && !effects.is_stateful() && effects.writes.is_empty()
    };
    let is_decided = matches!(
        rule.target,
        Target::None | Target::Accept | Target::Drop | Target::Return | Target::Reject(_)
    ) || rule.target.jump_target().is_some();
    is_decided
        && rule.matches.iter().all(is_stateless)
        && !lower_to_tests(rule, family).iter().any(|test| matches!(test, Test::Opaque { .. }))
}
