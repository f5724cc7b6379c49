//! Compares two rulesets table by table, as guarded sequences.
//!
//! If each table does the same with every packet at every hook, so does the journey. Two tables do
//! the same if they decide the same packets alike, give the same bits to packets that they do not
//! drop, and if each packet has the same effects and stateful tests in the same order. Events of
//! two sequences need not be in the same order for that: those of disjoint sets of packets commute.
//! So the events of one are taken in their order, and removed from the other where they are the
//! next for a packet ([`have_same_event_order_for_every_packet`]). Lists in about the same order
//! take one pass.
//!
//! The comparison only proves equality. If it finds none, the whole diagrams decide.

pub(crate) mod effects_after_opaque_tests_bound;
pub(crate) mod guarded_sequence;
pub(crate) mod sequence_build;

use std::collections::BTreeSet;

use weir_semantics::Verdict;

use crate::compared_pair::ComparedPair;
use crate::comparison_types::{CompareLevel, ComparedPath, DiagramSizeAndSteps};

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::compared_ruleset::{ComparedRuleset, TableAtHook, list_journey_stages};
use crate::packet_sets::hook_context::HookContext;
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::sequence_comparison::effects_after_opaque_tests_bound::{
    count_rules_without_effect_after_opaque_test, may_packet_reach_many_effects_after_opaque_tests,
};
use crate::sequence_comparison::guarded_sequence::{
    ChangesVisibleToTests, GuardedEvents, GuardedSequence, SequenceError,
};
use crate::sequence_comparison::sequence_build::SequenceBuilder;

/// What whole diagrams usually take for each rule of both rulesets; twice that of the largest
/// published ruleset, and something for small ones.
const USUAL_STEPS_PER_RULE: u64 = 500;
const USUAL_STEPS_MIN: u64 = 10_000;
/// Rules met by one packet whose answers a whole diagram multiplies out; with fewer it is cheap.
const STEP_MULTIPLYING_RULES_MIN: usize = 12;

impl<'f> ComparedPair<'f> {
    /// Whether a packet may reach many rules of one table that do something after a test that the
    /// packet's fields do not decide, and let the packet go on.
    pub fn may_tests_multiply_diagram_steps(&self) -> bool {
        let rulesets = self.sides.iter().filter_map(ComparedRuleset::ruleset);
        rulesets.flat_map(|ruleset| &ruleset.tables).any(|table| {
            may_packet_reach_many_effects_after_opaque_tests(
                table,
                self.family,
                STEP_MULTIPLYING_RULES_MIN,
            )
        })
    }

    /// The steps that suffice for diagrams of most rulesets where answers to such tests do not
    /// multiply them.
    pub fn usual_diagram_steps(&self) -> u64 {
        let rulesets = self.sides.iter().filter_map(ComparedRuleset::ruleset);
        let rules = rulesets.map(|r| count_rules_without_effect_after_opaque_test(r, self.family));
        let steps = USUAL_STEPS_MIN + USUAL_STEPS_PER_RULE * rules.sum::<usize>() as u64;
        steps.min(self.steps_max)
    }

    /// Whether the rulesets are proven equal as sequences, with at most a quarter of the steps.
    /// What was needed is added to `statistics`.
    pub fn are_equal_as_sequences(&self, statistics: &mut DiagramSizeAndSteps) -> bool {
        if self.path == ComparedPath::ReassembledInput {
            return false;
        }
        let Ok(space) = self.make_packet_space(statistics.order) else { return false };
        let mut context = DiagramContext::new(space);
        context.terminals.distinguishes_effects = self.options.level == CompareLevel::Effects;
        context.space.store.steps = statistics.steps;
        context.space.store.steps_max = self.steps_max / 4;
        let sides = self.sides;
        let stages = list_journey_stages(self.path, sides);
        let is_equal = context.are_tables_equal_as_sequences(sides, &stages) == Ok(true);
        statistics.record_context_size_and_steps(&context);
        is_equal
    }
}

impl<'f> DiagramContext<'f> {
    /// Whether each table of the path is proven to do the same in both rulesets.
    ///
    /// # Errors
    /// A limit, or rules that a sequence does not represent.
    pub fn are_tables_equal_as_sequences(
        &mut self,
        sides: &[ComparedRuleset<'f>; 2],
        stages: &[(TableAtHook, HookContext)],
    ) -> Result<bool, SequenceError> {
        // What conntrack does between the tables depends on whether it is in use.
        if sides[0].conntrack_in_use != sides[1].conntrack_in_use {
            return Ok(false);
        }
        let from = self.space.store.node_count();
        for (piece, point) in stages {
            let mut seen_changes = ChangesVisibleToTests::default();
            let mut sequences = Vec::new();
            for side in sides {
                let state_ids = side.activate_ipsets_get_state_ids(&mut self.space);
                sequences.push(match side.traversed_table(*piece) {
                    None => (GuardedSequence::default(), DiagramRef::ONE),
                    Some(table) => SequenceBuilder {
                        context: self,
                        seen_changes: &mut seen_changes,
                        table,
                        state_ids,
                        place: TableHookContext { point: *point, table: piece.table },
                    }
                    .run_table()?,
                });
            }
            let (b, a) = (sequences.pop(), sequences.pop());
            let (Some(a), Some(b)) = (a, b) else { return Ok(false) };
            if !self.are_sequences_equivalent(a, b)? {
                return Ok(false);
            }
            self.sweep_if_needed(&mut [], from);
        }
        Ok(true)
    }

    fn are_sequences_equivalent(
        &mut self,
        (a, accepted_a): (GuardedSequence, DiagramRef),
        (b, accepted_b): (GuardedSequence, DiagramRef),
    ) -> Result<bool, LimitReached> {
        let possible = self.space.possible_packets;
        if !self.are_equal_on_packets(possible, accepted_a, accepted_b)? {
            return Ok(false);
        }
        let decided = |s: &GuardedSequence, verdict: Verdict| {
            s.verdicts.iter().find(|(v, _)| *v == verdict).map_or(DiagramRef::ZERO, |(_, f)| *f)
        };
        for (verdict, _) in a.verdicts.iter().chain(&b.verdicts) {
            if !self.are_equal_on_packets(possible, decided(&a, *verdict), decided(&b, *verdict))? {
                return Ok(false);
            }
        }
        let left = self.space.store.minus(possible, decided(&a, Verdict::Drop))?;
        let levels: BTreeSet<u32> =
            a.written_bit_functions.keys().chain(b.written_bit_functions.keys()).copied().collect();
        for level in levels {
            let unchanged = self.space.store.make_node(level, DiagramRef::ZERO, DiagramRef::ONE)?;
            let bit = |s: &GuardedSequence| {
                s.written_bit_functions.get(&level).copied().unwrap_or(unchanged)
            };
            if !self.are_equal_on_packets(left, bit(&a), bit(&b))? {
                return Ok(false);
            }
        }
        Ok(have_same_event_order_for_every_packet(self, a.effects, b.effects)?
            && have_same_event_order_for_every_packet(
                self,
                a.stateful_question_events,
                b.stateful_question_events,
            )?
            && have_same_event_order_for_every_packet(
                self,
                a.unmodelled_target_events,
                b.unmodelled_target_events,
            )?)
    }

    fn are_equal_on_packets(
        &mut self,
        packets: DiagramRef,
        a: DiagramRef,
        b: DiagramRef,
    ) -> Result<bool, LimitReached> {
        let differ = self.space.store.disagreement(a, b)?;
        Ok(self.space.store.and(differ, packets)? == DiagramRef::ZERO)
    }
}

/// Whether the same events happen to each possible packet in the same order.
pub(crate) fn have_same_event_order_for_every_packet<E: PartialEq>(
    context: &mut DiagramContext<'_>,
    first: GuardedEvents<E>,
    mut second: GuardedEvents<E>,
) -> Result<bool, LimitReached> {
    let possible = context.space.possible_packets;
    let store = &mut context.space.store;
    for (packets, _) in &mut second {
        *packets = store.and(*packets, possible)?;
    }
    let mut begin = 0;
    for (packets, event) in first {
        let mut rest = store.and(packets, possible)?;
        while second.get(begin).is_some_and(|(left, _)| *left == DiagramRef::ZERO) {
            begin += 1;
        }
        for (left, other) in &mut second[begin..] {
            if rest == DiagramRef::ZERO {
                break;
            }
            // Known results take no steps of the store.
            store.count_step()?;
            let next = store.and(rest, *left)?;
            if next == DiagramRef::ZERO {
                continue;
            }
            if *other != event {
                return Ok(false);
            }
            *left = store.minus(*left, next)?;
            rest = store.minus(rest, next)?;
        }
        if rest != DiagramRef::ZERO {
            return Ok(false);
        }
    }
    Ok(second.iter().all(|(left, _)| *left == DiagramRef::ZERO))
}
