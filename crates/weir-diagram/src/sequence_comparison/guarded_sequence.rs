//! Rules as a sequence of guarded events.
//!
//! A diagram of a table has a terminal for every combination of what its rules do. N rules that
//! each pass a `limit` and log make 2^N of them, although each rule's effect depends on its own
//! answer alone. Here a table is run for all packets at once, rule by rule, and what it does is
//! kept apart: a set of packets for each exit, a boolean function for each bit that a rule writes,
//! and the effects and stateful tests in their order, each with the set of packets for which it
//! happens. All sets are diagrams over the packet at the beginning of the table and over the
//! answers to stateful and opaque tests. An answer is in a set only if something depends on it.
//!
//! Each rule is built as before, as a small diagram, and applied to the packet as it is by then.
//! Rules without effects, changes and stateful tests are merged before, and chains of only such
//! rules are diagrams. Other chains are run once for each jump that leads to them. What is not
//! represented (a changed TTL, a test that is evaluated twice in one rule) ends the attempt
//! ([`SequenceError::NotRepresented`]); the comparison then needs the whole diagram.
//!
//! [`sequence_comparison`](crate::sequence_comparison) compares two of them.

use std::collections::{BTreeMap, HashMap};

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::packet_sets::free_variable::{FreeVariable, StatefulTestInput};
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::packet_change::{TtlTransform, ValueInterner, XorBitSource};
use crate::rule_diagrams::terminal::{RuleExit, StatefulQuestion, Terminal};

use weir_model::{FieldSet, Hook, TableName};
use weir_semantics::Verdict;

/// Why there is no sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceError {
    /// A limit.
    Limit(LimitReached),
    /// The rules do something that only a whole diagram represents.
    NotRepresented,
}

impl From<LimitReached> for SequenceError {
    fn from(limit: LimitReached) -> Self {
        SequenceError::Limit(limit)
    }
}

/// Events in their order, each with the packets for which it happens.
pub(crate) type GuardedEvents<E> = Vec<(DiagramRef, E)>;

/// What was done to a packet before a test, as far as the test sees it: written bits by level, and
/// targets that changed what no field says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ChangeVisibleToTest {
    bits: Vec<(u32, DiagramRef)>,
    unmodelled_target_events: GuardedEvents<u64>,
}

/// Numbers for changes that tests see; 0 is none. Both rulesets use one of it, so that equal
/// changes lead to the same variable.
#[derive(Debug)]
pub(crate) struct ChangesVisibleToTests(ValueInterner<ChangeVisibleToTest>);

impl Default for ChangesVisibleToTests {
    fn default() -> Self {
        let none = ChangeVisibleToTest { bits: Vec::new(), unmodelled_target_events: Vec::new() };
        ChangesVisibleToTests(ValueInterner::with_first_value(none))
    }
}

/// What the rules that ran so far do.
#[derive(Debug, Default)]
pub(crate) struct GuardedSequence {
    /// Packets for which the table is decided, by verdict.
    pub verdicts: Vec<(Verdict, DiagramRef)>,
    /// Hook, table, and the target's digest.
    pub effects: GuardedEvents<(Hook, TableName, u64)>,
    /// Stateful tests that are evaluated.
    pub stateful_question_events: GuardedEvents<StatefulQuestion>,
    /// Digests of targets that change what no field says.
    pub unmodelled_target_events: GuardedEvents<u64>,
    /// The bits that rules write, by level, as functions of the packet at the beginning.
    pub written_bit_functions: BTreeMap<u32, DiagramRef>,
    /// By the identity of a test, the packets for which it was evaluated at least once, twice, ….
    evaluated_packets_by_test: HashMap<(u64, u64), Vec<DiagramRef>>,
}

/// Where the packets go that reach a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContinuedAndReturnedPackets {
    /// On with the next rule.
    pub continued: DiagramRef,
    /// Out of the chain.
    pub returned: DiagramRef,
}

/// One terminal of a rule that is applied, and the packets that reach it.
struct ReachedTerminal {
    packets: DiagramRef,
    terminal: Terminal,
}

impl GuardedSequence {
    /// Applies a rule, or rules in sequence, to the packets `live`.
    pub fn apply_rule_diagram(
        &mut self,
        context: &mut DiagramContext<'_>,
        seen: &mut ChangesVisibleToTests,
        rule: DiagramRef,
        live: DiagramRef,
    ) -> Result<ContinuedAndReturnedPackets, SequenceError> {
        let mut exits =
            ContinuedAndReturnedPackets { continued: DiagramRef::ZERO, returned: DiagramRef::ZERO };
        let reached = self.split_by_terminal(context, seen, rule, live)?;
        // Tests and targets see the packet before the change.
        let written_bit_functions = self.functions_of_changed_bits(context, seen, &reached)?;
        self.append_events(context, seen, &reached)?;
        self.written_bit_functions.extend(written_bit_functions);
        for ReachedTerminal { packets, terminal } in reached {
            let store = &mut context.space.store;
            match terminal.exit {
                RuleExit::Continue => {
                    exits.continued = store.first_nonzero(exits.continued, packets)?
                }
                RuleExit::Return => {
                    exits.returned = store.first_nonzero(exits.returned, packets)?
                }
                RuleExit::Verdict(verdict) => {
                    self.add_packets_with_verdict(context, verdict, packets)?
                }
                RuleExit::PlaceholderForDiagram | RuleExit::SameInBoth => {
                    return Err(SequenceError::NotRepresented);
                }
            }
        }
        Ok(exits)
    }

    /// The table is decided for some packets.
    pub fn add_packets_with_verdict(
        &mut self,
        context: &mut DiagramContext<'_>,
        verdict: Verdict,
        packets: DiagramRef,
    ) -> Result<(), LimitReached> {
        let store = &mut context.space.store;
        match self.verdicts.iter_mut().find(|(v, _)| *v == verdict) {
            Some((_, decided)) => *decided = store.first_nonzero(*decided, packets)?,
            None => self.verdicts.push((verdict, packets)),
        }
        Ok(())
    }

    /// The packets of `live` by the terminal that the rule has for them.
    fn split_by_terminal(
        &self,
        context: &mut DiagramContext<'_>,
        seen: &mut ChangesVisibleToTests,
        rule: DiagramRef,
        live: DiagramRef,
    ) -> Result<Vec<ReachedTerminal>, SequenceError> {
        let support = context.support(rule);
        let fields_end = context.space.layout.fields_end;
        let mut functions: HashMap<u32, DiagramRef> = HashMap::new();
        for level in &support.levels {
            functions
                .extend(self.written_bit_functions.get(level).map(|function| (*level, *function)));
        }
        for number in &support.free_variables {
            let function = self.function_of_free_variable(context, seen, *number)?;
            functions.insert(fields_end + number, function);
        }
        let mut leaves = Vec::new();
        context.space.store.visit_nodes_and_terminals(rule, |_, at| {
            leaves.extend(at.is_leaf().then_some(at));
        });
        let mut reached = Vec::new();
        for leaf in leaves {
            let store = &mut context.space.store;
            let code = store.fresh_cache_code();
            let is_leaf = &mut |at| if at == leaf { DiagramRef::ONE } else { DiagramRef::ZERO };
            let at_start = store.map_terminals(code, rule, is_leaf)?;
            let now = context.replace_bits_by_functions(at_start, &functions)?;
            let packets = context.space.store.and(live, now)?;
            if packets != DiagramRef::ZERO {
                let terminal = context.terminals.terminal_of_leaf(leaf);
                reached.push(ReachedTerminal { packets, terminal });
            }
        }
        Ok(reached)
    }

    /// Values of written bits after the terminals' changes.
    fn functions_of_changed_bits(
        &self,
        context: &mut DiagramContext<'_>,
        seen: &mut ChangesVisibleToTests,
        reached: &[ReachedTerminal],
    ) -> Result<BTreeMap<u32, DiagramRef>, SequenceError> {
        let mut after = BTreeMap::new();
        for ReachedTerminal { packets, terminal } in reached {
            let change = context.terminals.get_change(terminal.change).clone();
            if change.ttl_transform != TtlTransform::IDENTITY {
                return Err(SequenceError::NotRepresented);
            }
            for (level, source) in &change.bit_sources {
                let new = self.function_of_bit_source(context, seen, source)?;
                let old = match after.get(level) {
                    Some(old) => *old,
                    None => self.function_of_level(context, *level)?,
                };
                after.insert(*level, context.space.store.ite(*packets, new, old)?);
            }
        }
        Ok(after)
    }

    /// Effects and stateful tests of the terminals. Each packet reaches one terminal, so those in
    /// the same place of their lists can be united.
    fn append_events(
        &mut self,
        context: &mut DiagramContext<'_>,
        seen: &mut ChangesVisibleToTests,
        reached: &[ReachedTerminal],
    ) -> Result<(), SequenceError> {
        let mut stateful_question_events: Vec<GuardedEvents<StatefulQuestion>> = Vec::new();
        let mut effects: Vec<GuardedEvents<(Hook, TableName, u64)>> = Vec::new();
        let mut unmodelled_target_events: Vec<GuardedEvents<u64>> = Vec::new();
        for ReachedTerminal { packets, terminal } in reached {
            let asked = context.terminals.list_questions(terminal.stateful_questions).to_vec();
            for (place, mut question) in asked.into_iter().enumerate() {
                if question.state_input.change != 0 {
                    return Err(SequenceError::NotRepresented);
                }
                question.state_input =
                    self.state_input_with_seen_change(context, seen, question.state_input);
                add_event_at_position(
                    context,
                    &mut stateful_question_events,
                    place,
                    (*packets, question),
                )?;
            }
            let done = context.terminals.list_effects(terminal.effects);
            for (place, effect) in done.into_iter().enumerate() {
                add_event_at_position(context, &mut effects, place, (*packets, effect))?;
            }
            let change = context.terminals.get_change(terminal.change);
            for (place, target) in change.unmodelled_targets.clone().into_iter().enumerate() {
                add_event_at_position(
                    context,
                    &mut unmodelled_target_events,
                    place,
                    (*packets, target),
                )?;
            }
        }
        for (packets, question) in stateful_question_events.iter().flatten() {
            self.count_evaluation(context, (question.state_id, question.content_digest), *packets)?;
        }
        self.stateful_question_events.extend(stateful_question_events.into_iter().flatten());
        self.effects.extend(effects.into_iter().flatten());
        self.unmodelled_target_events.extend(unmodelled_target_events.into_iter().flatten());
        Ok(())
    }

    fn count_evaluation(
        &mut self,
        context: &mut DiagramContext<'_>,
        test: (u64, u64),
        packets: DiagramRef,
    ) -> Result<(), LimitReached> {
        let mut again = packets;
        let counts = self.evaluated_packets_by_test.entry(test).or_default();
        let store = &mut context.space.store;
        for count in counts.iter_mut() {
            let before = *count;
            *count = store.first_nonzero(before, again)?;
            again = store.and(before, again)?;
        }
        if again != DiagramRef::ZERO {
            counts.push(again);
        }
        Ok(())
    }

    /// The answer to a question of a rule, for the packet as it is now and what was evaluated
    /// before.
    fn function_of_free_variable(
        &self,
        context: &mut DiagramContext<'_>,
        seen: &mut ChangesVisibleToTests,
        number: u32,
    ) -> Result<DiagramRef, SequenceError> {
        let Some((variable, asked_match)) = context.space.free_variables.get(number).cloned()
        else {
            return Err(SequenceError::NotRepresented);
        };
        let literal = |context: &mut DiagramContext<'_>, variable| {
            let number = context.space.free_variables.intern(variable, || asked_match.clone());
            let level = context.space.layout.fields_end + number;
            context.space.store.make_node(level, DiagramRef::ZERO, DiagramRef::ONE)
        };
        match variable {
            FreeVariable::StatelessTest { change: 0, content_digest, hook } => {
                let change = self.intern_seen_change(context, seen, FieldSet::ALL);
                let variable = FreeVariable::StatelessTest { change, content_digest, hook };
                Ok(literal(context, variable)?)
            }
            FreeVariable::StatelessTargetBit { change: 0, content_digest, hook, bit } => {
                let change = self.intern_seen_change(context, seen, FieldSet::ALL);
                let variable =
                    FreeVariable::StatelessTargetBit { change, content_digest, hook, bit };
                Ok(literal(context, variable)?)
            }
            FreeVariable::StatefulTest { state_id, content_digest, nth: 0, state_input }
                if state_input.change == 0 =>
            {
                let state_input = self.state_input_with_seen_change(context, seen, state_input);
                self.select_by_evaluation_count(
                    context,
                    (state_id, content_digest),
                    &mut |context, nth| {
                        literal(
                            context,
                            FreeVariable::StatefulTest {
                                state_id,
                                content_digest,
                                nth,
                                state_input,
                            },
                        )
                    },
                )
            }
            FreeVariable::StatefulTargetBit {
                state_id,
                content_digest,
                nth: 0,
                state_input,
                bit,
            } if state_input.change == 0 => {
                let state_input = self.state_input_with_seen_change(context, seen, state_input);
                self.select_by_evaluation_count(
                    context,
                    (state_id, content_digest),
                    &mut |context, nth| {
                        literal(
                            context,
                            FreeVariable::StatefulTargetBit {
                                state_id,
                                content_digest,
                                nth,
                                state_input,
                                bit,
                            },
                        )
                    },
                )
            }
            _ => Err(SequenceError::NotRepresented),
        }
    }

    /// Another answer for each time that the test was evaluated before.
    fn select_by_evaluation_count(
        &self,
        context: &mut DiagramContext<'_>,
        test: (u64, u64),
        answer: &mut dyn FnMut(&mut DiagramContext<'_>, u32) -> Result<DiagramRef, LimitReached>,
    ) -> Result<DiagramRef, SequenceError> {
        let mut out = answer(context, 0)?;
        for (nth, evaluated_packets_by_test) in
            (1..).zip(self.evaluated_packets_by_test.get(&test).into_iter().flatten())
        {
            let again = answer(context, nth)?;
            out = context.space.store.ite(*evaluated_packets_by_test, again, out)?;
        }
        Ok(out)
    }

    fn state_input_with_seen_change(
        &self,
        context: &DiagramContext<'_>,
        seen: &mut ChangesVisibleToTests,
        state_input: StatefulTestInput,
    ) -> StatefulTestInput {
        StatefulTestInput {
            change: self.intern_seen_change(context, seen, state_input.read_fields),
            ..state_input
        }
    }

    /// The number of what was done before to some fields.
    fn intern_seen_change(
        &self,
        context: &DiagramContext<'_>,
        seen: &mut ChangesVisibleToTests,
        fields: FieldSet,
    ) -> u32 {
        if fields == FieldSet::NONE {
            return 0;
        }
        let is_seen = |level: u32| {
            fields == FieldSet::ALL
                || fields.iter().any(|field| {
                    let levels = context.space.layout.field_levels(field);
                    (levels.first..levels.end()).contains(&level)
                })
        };
        let bits = self.written_bit_functions.iter().filter(|(level, _)| is_seen(**level));
        let unmodelled_target_events = match fields == FieldSet::ALL {
            true => self.unmodelled_target_events.clone(),
            false => Vec::new(),
        };
        seen.0.intern(&ChangeVisibleToTest {
            bits: bits.map(|(l, f)| (*l, *f)).collect(),
            unmodelled_target_events,
        })
    }

    fn function_of_level(
        &self,
        context: &mut DiagramContext<'_>,
        level: u32,
    ) -> Result<DiagramRef, LimitReached> {
        match self.written_bit_functions.get(&level) {
            Some(function) => Ok(*function),
            None => context.space.store.make_node(level, DiagramRef::ZERO, DiagramRef::ONE),
        }
    }

    fn function_of_bit_source(
        &self,
        context: &mut DiagramContext<'_>,
        seen: &mut ChangesVisibleToTests,
        source: &XorBitSource,
    ) -> Result<DiagramRef, SequenceError> {
        let fields_end = context.space.layout.fields_end;
        let mut out = if source.is_inverted { DiagramRef::ONE } else { DiagramRef::ZERO };
        for level in &source.xor_levels {
            let bit = match level.checked_sub(fields_end) {
                Some(number) => self.function_of_free_variable(context, seen, number)?,
                None => self.function_of_level(context, *level)?,
            };
            out = context.space.store.disagreement(out, bit)?;
        }
        Ok(out)
    }
}

/// Adds an event to those in the same place of their lists.
fn add_event_at_position<E: PartialEq>(
    context: &mut DiagramContext<'_>,
    places: &mut Vec<GuardedEvents<E>>,
    place: usize,
    (packets, event): (DiagramRef, E),
) -> Result<(), LimitReached> {
    if places.len() <= place {
        places.resize_with(place + 1, Vec::new);
    }
    match places[place].iter_mut().find(|(_, e)| *e == event) {
        Some((all, _)) => *all = context.space.store.first_nonzero(*all, packets)?,
        None => places[place].push((packets, event)),
    }
    Ok(())
}

impl DiagramContext<'_> {
    /// A boolean diagram with functions in place of the bits that it tests.
    fn replace_bits_by_functions(
        &mut self,
        f: DiagramRef,
        functions: &HashMap<u32, DiagramRef>,
    ) -> Result<DiagramRef, LimitReached> {
        if functions.is_empty() {
            return Ok(f);
        }
        let code = self.space.store.fresh_cache_code();
        self.replace_bits_using_cache_code(code, f, functions)
    }

    fn replace_bits_using_cache_code(
        &mut self,
        code: u32,
        f: DiagramRef,
        functions: &HashMap<u32, DiagramRef>,
    ) -> Result<DiagramRef, LimitReached> {
        if f.is_leaf() {
            return Ok(f);
        }
        if let Some(known) = self.space.store.lookup_computed(code, f, DiagramRef::ZERO) {
            return Ok(known);
        }
        let (low, high) = self.space.store.branches(f);
        let low = self.replace_bits_using_cache_code(code, low, functions)?;
        let high = self.replace_bits_using_cache_code(code, high, functions)?;
        let store = &mut self.space.store;
        let level = store.level(f);
        let bit = match functions.get(&level) {
            Some(function) => *function,
            None => store.make_node(level, DiagramRef::ZERO, DiagramRef::ONE)?,
        };
        let out = store.ite(bit, high, low)?;
        store.insert_computed(code, f, DiagramRef::ZERO, out);
        Ok(out)
    }
}
