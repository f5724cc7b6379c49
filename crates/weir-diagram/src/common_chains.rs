//! Compares two tables in which most chains are the same.
//!
//! A pass rewrites few of the chains of a ruleset. A diagram of a table has everything that its
//! chains do, also of those that both rulesets have; in a table that sends packets to thousands of
//! chains, these are nearly all of it. Here a chain that both rulesets have is a *call*: a terminal
//! that says which chain runs, in the order of effects and of stateful tests. What it does is not
//! part of the diagram. Two tables that make the same calls in the same order for every packet, and
//! otherwise do the same, are equal.
//!
//! Chains are compared callees first. Two chains of the same name are common if they say the same,
//! with callees that are common; or if their diagrams, in which common chains are calls, are equal.
//! Other chains are part of the diagrams of those that lead to them. Names only suggest what to
//! compare.
//!
//! **Why a call may stand for its chain.** A call happens to the packet as it is by then, which is
//! determined by the packet at the beginning and by the effects and calls before it. So equal lists
//! mean equal packets, if everything else that is tested after a call does not depend on what the
//! chain wrote. Therefore
//!
//! - a diagram has no calls of chains that write fields that its rules test or write
//!   ([`FieldUseWithCalledWrites`]); a target that ends the table writes nothing for later rules;
//! - a call counts as a change that no field shows, so that an opaque test after it is another
//!   variable than before;
//! - a stateful test is in one chain only, so that how often it was evaluated does not depend on
//!   what calls do.
//!
//! Where one of these does not hold, or the diagrams differ, nothing is said: whole diagrams
//! decide.

use std::collections::HashMap;

use weir_model::effect::fields_written_for_later_rules;
use weir_model::{
    Chain, ChainGraph, Family, FieldSet, Match, Rule, Table, Target, match_effects, target_effects,
};

use crate::bdd::node_store::DiagramRef;
use crate::compared_pair::ComparedPair;
use crate::compared_ruleset::{ComparedRuleset, TableAtHook, list_journey_stages};
use crate::comparison_types::{CompareLevel, ComparedPath, DiagramSizeAndSteps};
use crate::packet_sets::free_variable::StatefulTestInput;
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::variable_layout::VariableOrder;
use crate::rule_diagrams::chain_cache::{ChainCache, DiagramsOfOneChain};
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::packet_change::PacketChange;
use crate::rule_diagrams::rule_and_chain_diagrams::{BuildError, TableChainDiagrams};
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::rule_diagrams::terminal::{RuleExit, StatefulQuestion, Terminal};
use crate::rule_field_use::{
    FieldUseWithCalledWrites, collect_tested_and_written_fields, has_match_that_writes,
};
use crate::same_rule_tests::SameTestCriteria;

/// Whether tables are proven equal, by their place. The paths of a family share them.
pub(crate) type ProvenTableEquality = HashMap<(TableAtHook, HookContext), bool>;

impl<'f> ComparedPair<'f> {
    /// Whether every table of the path is proven to do the same in both rulesets, with so many
    /// steps for the usual order, and so many for the best one. `known` are the tables that other
    /// paths compared. What was needed is added to `statistics`.
    pub fn are_equal_with_common_chains<'o>(
        &self,
        orders: &dyn Fn() -> &'o [VariableOrder],
        [usual_order_steps, best_order_steps]: [u64; 2],
        known: &mut ProvenTableEquality,
        statistics: &mut DiagramSizeAndSteps,
    ) -> bool {
        let sides = self.sides;
        // What conntrack does between the tables depends on whether it is in use.
        if self.path == ComparedPath::ReassembledInput
            || self.options.level != CompareLevel::Effects
            || sides[0].conntrack_in_use != sides[1].conntrack_in_use
        {
            return false;
        }
        let stages = list_journey_stages(self.path, sides);
        if stages.iter().any(|stage| known.get(stage) == Some(&false)) {
            return false;
        }
        // Ranking orders takes longer than comparing what differs little.
        let usual = VariableOrder::default();
        for (is_ranked, steps) in [(false, usual_order_steps), (true, best_order_steps)] {
            let order = if is_ranked { orders()[0] } else { usual };
            statistics.order = order;
            match self.compare_tables_not_yet_proven_equal(sides, &stages, known, steps, statistics)
            {
                Err(BuildError::LimitReached(_)) => {}
                Ok(()) | Err(BuildError::OtherReason(_)) => break,
            }
        }
        stages.iter().all(|stage| known.get(stage) == Some(&true))
    }

    /// Compares the tables that are not known until one is not equal, with so many more steps.
    fn compare_tables_not_yet_proven_equal(
        &self,
        sides: &[ComparedRuleset<'f>; 2],
        stages: &[(TableAtHook, HookContext)],
        known: &mut ProvenTableEquality,
        steps: u64,
        statistics: &mut DiagramSizeAndSteps,
    ) -> Result<(), BuildError> {
        let mut context = DiagramContext::new(self.make_packet_space(statistics.order)?);
        context.space.store.steps = statistics.steps;
        context.space.store.steps_max = (statistics.steps + steps).min(self.steps_max);
        let mut result = Ok(());
        for (piece, point) in stages {
            if known.get(&(*piece, *point)) == Some(&true) {
                continue;
            }
            let compared = CommonChainComparer::compare_table(
                &mut context,
                sides,
                (
                    TableHookContext { point: *point, table: piece.table },
                    self.options.exclude_unreadable_headers,
                ),
                sides.each_ref().map(|side| side.traversed_table(*piece)),
            );
            match compared {
                Ok(is_equal) => {
                    known.insert((*piece, *point), is_equal);
                    if !is_equal {
                        break;
                    }
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        statistics.record_context_size_and_steps(&context);
        result
    }
}

/// With fewer rules in both tables, an attempt costs little.
const SMALL_TABLE_PAIR_RULES_MAX: usize = 2000;

/// A chain of both tables, or of one.
#[derive(Clone, Copy)]
struct PairedChain {
    /// Its index in each table.
    at: [Option<usize>; 2],
    /// What it writes for rules after it, on either side, with its callees.
    writes: FieldSet,
    /// Whether it changes anything of the packet for rules after it.
    changes_packet: bool,
    /// How callers of each side see it.
    fields: [FieldUseWithCalledWrites; 2],
}

impl PairedChain {
    const fn new(at: [Option<usize>; 2]) -> PairedChain {
        let nothing = FieldUseWithCalledWrites {
            tested_or_written: FieldSet::NONE,
            written_by_calls: FieldSet::NONE,
        };
        PairedChain { at, writes: FieldSet::NONE, changes_packet: false, fields: [nothing; 2] }
    }
}

/// One table of both rulesets at one hook.
struct CommonChainComparer<'m, 'f> {
    context: &'m mut DiagramContext<'f>,
    sides: &'m [ComparedRuleset<'f>; 2],
    place: TableHookContext,
    /// Packets with a truncated header are not compared.
    exclude_truncated_headers: bool,
    tables: [&'f Table; 2],
    diagrams: [TableChainDiagrams<'f>; 2],
    /// All chains, those of the first table first.
    chains: Vec<PairedChain>,
    /// The number of each table's chains in `chains`.
    numbers: [Vec<usize>; 2],
}

/// Marks questions that stand for calls.
const CALL_QUESTION_DIGEST: u64 = 0x0063_616c_6c00_0000;

impl<'m, 'f> CommonChainComparer<'m, 'f> {
    /// Whether the table is proven to do the same in both rulesets.
    fn compare_table(
        context: &'m mut DiagramContext<'f>,
        sides: &'m [ComparedRuleset<'f>; 2],
        (place, headers_are_whole): (TableHookContext, bool),
        tables: [Option<&'f Table>; 2],
    ) -> Result<bool, BuildError> {
        let hook = place.hook_or_forward();
        let base = |table: &'f Table| {
            let is_base = |c: &Chain| c.policy.is_some() && &*c.name == hook.chain_name();
            let is_at_hook = table.name.hooks().contains(&hook);
            Some((table, table.chains.iter().position(is_base).filter(|_| is_at_hook)?))
        };
        let (a, b) = match tables.map(|table| table.and_then(base)) {
            [None, None] => return Ok(true),
            [Some(a), Some(b)] => (a, b),
            // A table that does nothing is equal to none; whole diagrams know.
            _ => return Ok(false),
        };
        let is_same_policy = a.0.chains[a.1].policy == b.0.chains[b.1].policy;
        let tables = [a.0, b.0];
        if !is_same_policy || has_match_that_writes(tables) {
            return Ok(false);
        }
        context.chain_cache = ChainCache::default();
        let from = context.space.store.node_count();
        let mut comparer = CommonChainComparer {
            context,
            sides,
            place,
            exclude_truncated_headers: headers_are_whole,
            tables,
            diagrams: tables.map(TableChainDiagrams::new),
            chains: Vec::new(),
            numbers: [Vec::new(), Vec::new()],
        };
        comparer.pair_chains([a.1, b.1]);
        if comparer.is_large_with_most_rules_in_differing_chains()
            || comparer.has_stateful_test_in_two_chains()
        {
            return Ok(false);
        }
        let root = comparer.numbers[0][a.1];
        let Ok(order) = comparer.order_callees_first(root) else { return Ok(false) };
        for number in order {
            comparer.sum_written_and_used_fields(number);
            if number == root {
                return Ok(comparer.compare_chain_pair([a.1, b.1])?.is_equal);
            }
            if !comparer.build_common_call_or_diagrams(number)? {
                return Ok(false);
            }
            comparer.context.sweep_if_needed(&mut [], from);
        }
        Ok(false)
    }

    /// Pairs user chains by their names, and the built-in chains `bases`.
    fn pair_chains(&mut self, bases: [usize; 2]) {
        let count = self.tables[0].chains.len();
        self.numbers[0] = (0..count).collect();
        self.chains = (0..count).map(|at| PairedChain::new([Some(at), None])).collect();
        for (at, chain) in self.tables[1].chains.iter().enumerate() {
            let partner = match at == bases[1] {
                true => Some(bases[0]),
                false => self.diagrams[0].graph.chain_index(&chain.name).filter(|partner| {
                    chain.policy.is_none() && self.tables[0].chains[*partner].policy.is_none()
                }),
            };
            let number = partner.unwrap_or(self.chains.len());
            match partner {
                Some(partner) => self.chains[partner].at[1] = Some(at),
                None => self.chains.push(PairedChain::new([None, Some(at)])),
            }
            self.numbers[1].push(number);
        }
    }

    /// Whether the rules of a large table are mostly in chains that are not written alike. Calls
    /// then save little, and a diagram that tells them apart is larger than one that does not.
    fn is_large_with_most_rules_in_differing_chains(&self) -> bool {
        let mut rules = 0;
        let mut differing_rules = 0;
        for number in 0..self.chains.len() {
            let chains: Vec<&Chain> = self.chains_of_pair(number).map(|chain| chain.2).collect();
            let count: usize = chains.iter().map(|chain| chain.rules.len()).sum();
            rules += count;
            if !matches!(chains[..], [a, b] if self.have_equal_rules_ignoring_callees([a, b])) {
                differing_rules += count;
            }
        }
        rules > SMALL_TABLE_PAIR_RULES_MAX && differing_rules * 2 > rules
    }

    fn same_test_criteria(&self) -> SameTestCriteria {
        SameTestCriteria {
            family: self.context.space.layout.family,
            firewalls_have_same_ipsets: self.context.space.firewalls_have_same_ipsets(),
            headers_are_whole: self.exclude_truncated_headers,
        }
    }

    /// Whether the rules of two chains have the same tests and targets, whatever the chains do to
    /// which these lead.
    fn have_equal_rules_ignoring_callees(&self, [a, b]: [&Chain; 2]) -> bool {
        let is_same_target = |a: &Target, b: &Target| match (a, b) {
            (Target::Jump(_), Target::Jump(_)) | (Target::Goto(_), Target::Goto(_)) => true,
            _ => a == b,
        };
        a.rules.len() == b.rules.len()
            && a.rules.iter().zip(&b.rules).all(|(a, b)| {
                is_same_target(&a.target, &b.target)
                    && self.same_test_criteria().have_same_tests([a, b])
            })
    }

    /// The chains on each side of a number.
    fn chains_of_pair(&self, number: usize) -> impl Iterator<Item = (usize, usize, &'f Chain)> {
        let (at, tables) = (self.chains[number].at, self.tables);
        (0..2).filter_map(move |side| at[side].map(|at| (side, at, &tables[side].chains[at])))
    }

    /// The numbers of the chains that `root` leads to on either side, callees first.
    fn order_callees_first(&self, root: usize) -> Result<Vec<usize>, usize> {
        let names: Vec<String> = (0..self.chains.len()).map(|number| number.to_string()).collect();
        let jumps = |number: usize| {
            let mut callees = Vec::new();
            for (side, at, _) in self.chains_of_pair(number) {
                let jumps = self.diagrams[side].graph.jumps_from(at).iter();
                callees.extend(jumps.map(|jump| (jump.rule, &*names[self.numbers[side][jump.to]])));
            }
            callees
        };
        ChainGraph::from_names_and_jumps(names.iter().map(String::as_str), jumps)
            .callees_first_from(root)
    }

    /// A test of a rule that several chains have may be evaluated by a call and by rules after it.
    fn has_stateful_test_in_two_chains(&self) -> bool {
        let family = self.context.space.layout.family;
        self.tables.iter().zip(self.sides).any(|(table, side)| {
            let mut chain_by_test: HashMap<u64, usize> = HashMap::new();
            let rules = table.chains.iter().enumerate();
            let mut rules = rules.flat_map(|(at, chain)| chain.rules.iter().map(move |r| (at, r)));
            rules.any(|(at, rule)| {
                self.is_stateful(rule, family)
                    && *chain_by_test.entry(side.state_ids().stateful_test_id(rule)).or_insert(at)
                        != at
            })
        })
    }

    fn is_stateful(&self, rule: &Rule, family: Family) -> bool {
        let has_test = |m: &Match| match m {
            Match::Set(set) => self.context.space.can_ipset_change(set),
            _ => match_effects(m, family).is_stateful(),
        };
        target_effects(&rule.target).stateful || rule.matches.iter().any(has_test)
    }

    /// What a chain writes, and what a diagram of its rules uses.
    fn sum_written_and_used_fields(&mut self, number: usize) {
        let family = self.context.space.layout.family;
        let mut summed = self.chains[number];
        for (side, _, chain) in self.chains_of_pair(number) {
            let fields = &mut summed.fields[side];
            for rule in &chain.rules {
                fields.tested_or_written =
                    fields.tested_or_written.union(collect_tested_and_written_fields(rule, family));
                let writes = fields_written_for_later_rules(rule);
                summed.writes = summed.writes.union(writes);
                summed.changes_packet |=
                    !writes.is_empty() || target_effects(&rule.target).changes_unmodelled_state;
            }
        }
        for (side, at, _) in self.chains_of_pair(number) {
            for jump in self.diagrams[side].graph.jumps_from(at) {
                let callee = self.chains[self.numbers[side][jump.to]];
                let fields = &mut summed.fields[side];
                fields.tested_or_written =
                    fields.tested_or_written.union(callee.fields[side].tested_or_written);
                let called = callee.fields[side].written_by_calls;
                fields.written_by_calls = fields.written_by_calls.union(called);
                summed.writes = summed.writes.union(callee.writes);
                summed.changes_packet |= callee.changes_packet;
            }
        }
        self.chains[number] = summed;
    }

    /// Makes a chain a call of both sides if it is common; else diagrams. Whether both can be used.
    fn build_common_call_or_diagrams(&mut self, number: usize) -> Result<bool, BuildError> {
        let [Some(a), Some(b)] = self.chains[number].at else {
            for (side, at, chain) in self.chains_of_pair(number).collect::<Vec<_>>() {
                if !self.uses_no_field_written_by_calls(number, side) {
                    return Ok(false);
                }
                let diagram = self.build_chain_rules_diagram(side, chain)?;
                self.insert_chain_diagram(side, at, diagram)?;
            }
            return Ok(true);
        };
        let compared = self.compare_chain_pair([a, b])?;
        let is_empty = self.tables[0].chains[a].rules.is_empty();
        if compared.is_equal && !is_empty {
            self.insert_call_diagram(number, [a, b])?;
            return Ok(true);
        }
        let Some(made) = compared.diagrams else {
            // The same rules: none.
            self.insert_chain_diagram(0, a, DiagramRef::ZERO)?;
            self.insert_chain_diagram(1, b, DiagramRef::ZERO)?;
            return Ok(true);
        };
        if !(0..2).all(|side| self.uses_no_field_written_by_calls(number, side)) {
            return Ok(false);
        }
        // Both were built after the last sweep.
        self.insert_chain_diagram(0, a, made[0])?;
        self.insert_chain_diagram(1, b, made[1])?;
        Ok(true)
    }

    /// Whether no rule of the chain's diagram uses what a call in it writes.
    fn uses_no_field_written_by_calls(&self, number: usize, side: usize) -> bool {
        let fields = self.chains[number].fields[side];
        fields.tested_or_written.without(fields.written_by_calls) == fields.tested_or_written
    }

    /// Whether two chains are common: they say the same, or their diagrams are equal. No sweep
    /// happens in between.
    fn compare_chain_pair(&mut self, at: [usize; 2]) -> Result<ChainPairEquality, BuildError> {
        let chains = [0, 1].map(|side| &self.tables[side].chains[at[side]]);
        if self.have_equal_rules_and_callees(chains) {
            return Ok(ChainPairEquality { is_equal: true, diagrams: None });
        }
        let number = self.numbers[0][at[0]];
        let first = self.build_chain_rules_diagram(0, chains[0])?;
        let second = self.build_chain_rules_diagram(1, chains[1])?;
        let [a, b] = [
            self.replace_return_by_continue_or_apply_policy(chains[0], first)?,
            self.replace_return_by_continue_or_apply_policy(chains[1], second)?,
        ];
        let store = &mut self.context.space.store;
        let differ = store.disagreement(a, b)?;
        let is_equal = store.and(differ, self.context.space.possible_packets)? == DiagramRef::ZERO
            && (0..2).all(|side| self.uses_no_field_written_by_calls(number, side));
        Ok(ChainPairEquality { is_equal, diagrams: Some([first, second]) })
    }

    /// What a chain does if it is left without a verdict: whether by RETURN, after `-g` or at its
    /// end is the same for those who jump to it.
    fn replace_return_by_continue_or_apply_policy(
        &mut self,
        chain: &Chain,
        rules: DiagramRef,
    ) -> Result<DiagramRef, BuildError> {
        match chain.policy {
            Some(_) => self.context.apply_chain_policy(rules, chain.policy),
            None => Ok(self.context.replace_exit_by_other_exit(
                rules,
                RuleExit::Return,
                RuleExit::Continue,
            )?),
        }
    }

    /// Whether the rules of two chains have the same tests, targets and stateful tests, and lead to
    /// chains of the same meaning.
    fn have_equal_rules_and_callees(&self, chains: [&Chain; 2]) -> bool {
        let [a, b] = chains.map(|chain| &chain.rules);
        a.len() == b.len()
            && a.iter().zip(b).all(|(a, b)| self.have_equal_test_target_and_callee([a, b]))
    }

    fn have_equal_test_target_and_callee(&self, rules: [&Rule; 2]) -> bool {
        let [a, b] = rules;
        let meaning = |side: usize, name: &str| self.diagrams[side].chain_diagram_id_by_name(name);
        let is_same_target = match (&a.target, &b.target) {
            (Target::Jump(a), Target::Jump(b)) | (Target::Goto(a), Target::Goto(b)) => {
                meaning(0, a) == meaning(1, b)
            }
            (a, b) => a == b,
        };
        if !is_same_target || !self.same_test_criteria().have_same_tests(rules) {
            return false;
        }
        self.same_test_criteria().have_no_state_set_or_effect(rules)
            || self.sides[0].state_ids().stateful_test_id(a)
                == self.sides[1].state_ids().stateful_test_id(b)
    }

    fn build_chain_rules_diagram(
        &mut self,
        side: usize,
        chain: &'f Chain,
    ) -> Result<DiagramRef, BuildError> {
        let state_ids = self.sides[side].activate_ipsets_get_state_ids(&mut self.context.space);
        self.context.prebuild_ipset_memberships(chain, self.place.point)?;
        self.context.compose_rules_in_sequence(
            &self.diagrams[side],
            &chain.rules,
            state_ids,
            self.place,
        )
    }

    /// A chain that is part of the diagrams of its callers.
    fn insert_chain_diagram(
        &mut self,
        side: usize,
        at: usize,
        rules: DiagramRef,
    ) -> Result<(), BuildError> {
        let id = self.context.find_or_insert_chain_diagrams(rules)?;
        self.context.set_called_chain_diagrams(&mut self.diagrams[side], at, id)
    }

    /// A chain that its callers call: the terminal says which one.
    fn insert_call_diagram(&mut self, number: usize, at: [usize; 2]) -> Result<(), BuildError> {
        let hook = self.place.hook_or_forward();
        let PairedChain { writes, changes_packet, .. } = self.chains[number];
        let call = number as u64;
        let terminals = &mut self.context.terminals;
        let state_input = StatefulTestInput {
            hook: self.place.point.hook,
            read_fields: FieldSet::NONE,
            change: 0,
        };
        let question =
            StatefulQuestion { state_id: call, content_digest: CALL_QUESTION_DIGEST, state_input };
        let mut change = PacketChange::default();
        if changes_packet {
            change.unmodelled_targets.push(call);
        }
        let called = Terminal {
            exit: RuleExit::Continue,
            effects: terminals.intern_digested_effect_list(hook, self.place.table, call),
            stateful_questions: terminals.intern_single_question_list(question),
            change: terminals.intern_change(&change),
        };
        let jump = terminals.intern_leaf(called);
        let goto = terminals.intern_leaf(Terminal { exit: RuleExit::Return, ..called });
        let id = self.context.chain_cache.insert_diagrams(DiagramsOfOneChain {
            rules: jump,
            jump,
            goto: Some(goto),
        });
        for (side, at) in at.into_iter().enumerate() {
            self.context.set_called_chain_diagrams(&mut self.diagrams[side], at, id)?;
            let calls = FieldUseWithCalledWrites {
                tested_or_written: FieldSet::NONE,
                written_by_calls: writes,
            };
            self.chains[number].fields[side] = calls;
        }
        Ok(())
    }
}

/// The result for two chains of the same name.
struct ChainPairEquality {
    is_equal: bool,
    /// What was built: nothing if they say the same.
    diagrams: Option<[DiagramRef; 2]>,
}
