//! The outcome of one packet according to the diagram of a ruleset, for comparison with another
//! source.
//!
//! The interpreter runs first, and its oracle's answers are recorded ([`RecordingOracle`]); then
//! the diagram is traversed with the same answers. The diagram may test a variable for which the
//! interpreter needed no answer: then nothing depends on it, or the two disagree.

use weir_model::target::NatTarget;
use weir_model::{Addr, Family, Field, Firewall, Hook, Packet};
use weir_semantics::JourneyKind;
use weir_semantics::interpreter::default_nat_mapping;
use weir_semantics::question_digest::{digest_debug_text, digest_existing_nat_question};
use weir_semantics::{ConnectionFactOfHost, NatQuestion, Oracle, OracleQuestion, UnknownWrite};
use weir_semantics::{Outcome, Verdict};

use crate::bdd::node_store::DiagramRef;
use crate::compared_ruleset::{ComparedRuleset, list_journey_stages};
use crate::comparison_types::{CompareLevel, ComparedPath, StatefulTestPairing};
use crate::packet_sets::free_variable::{FieldBit, FreeVariable, UndeterminedTargetBit};
use crate::packet_sets::packet_bit_codec::encode_packet;
use crate::packet_sets::packet_space::{PacketSpace, PacketSpaceOptions};
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::rule_and_chain_diagrams::BuildError;
use crate::rule_diagrams::terminal::RuleExit;
use crate::stateful_test_id::StatefulTestIdResolver;

/// Why a diagram was not evaluated.
pub const DIAGRAM_TOO_LARGE_REASON: &str = "the diagram exceeds its memory or steps";
/// See [`DIAGRAM_TOO_LARGE_REASON`].
pub const UNREPRESENTABLE_PACKET_REASON: &str = "the diagram's fields cannot represent the packet";
/// See [`DIAGRAM_TOO_LARGE_REASON`].
pub const CONTRADICTORY_ANSWERS_REASON: &str = "one question had two different answers";

/// The journeys of a family's packets, as diagrams.
#[derive(Debug)]
pub struct DiagramLookup<'f> {
    context: DiagramContext<'f>,
    state_ids: StatefulTestIdResolver,
    entry_diagrams: Vec<(JourneyKind, DiagramRef)>,
}

impl<'f> DiagramLookup<'f> {
    /// The diagrams of a ruleset; `None` if they take more than `memory_bytes` or `steps_max`.
    pub fn build_if_within_limits(
        firewall: &'f Firewall,
        family: Family,
        memory_bytes: usize,
        steps_max: u64,
    ) -> Option<DiagramLookup<'f>> {
        DiagramLookup::try_build(firewall, family, memory_bytes, steps_max).ok()
    }

    fn try_build(
        firewall: &'f Firewall,
        family: Family,
        memory_bytes: usize,
        steps_max: u64,
    ) -> Result<DiagramLookup<'f>, BuildError> {
        let options = PacketSpaceOptions { memory_bytes, ..PacketSpaceOptions::default() };
        let mut context =
            DiagramContext::new(PacketSpace::for_firewalls(family, &[firewall], options)?);
        context.space.store.steps_max = steps_max;
        let state_ids = StatefulTestIdResolver::new(firewall, StatefulTestPairing::ByCredit);
        let side = [ComparedRuleset::new(firewall, family, 0, state_ids.clone(), false)];
        let mut ways = Vec::new();
        for entry in JourneyKind::ALL {
            let (path, from) =
                (ComparedPath::WholeJourney(entry), context.space.store.node_count());
            let pieces = list_journey_stages(path, &side);
            let mut live_diagrams = Vec::new();
            for piece in &pieces {
                let made = context.build_stage(&side[0], *piece, &mut live_diagrams, from)?;
                live_diagrams.push(made);
            }
            let made = context.compose_stages((path, &pieces), None, &mut live_diagrams, from)?;
            ways.push((entry, context.convert_terminals_to_outcomes(made, CompareLevel::Effects)?));
            context.chain_cache = Default::default();
        }
        Ok(DiagramLookup { context, state_ids, entry_diagrams: ways })
    }

    /// Records questions and answers while the interpreter evaluates a packet.
    pub fn recording_oracle<'a>(&'a self, answers: &'a mut dyn Oracle) -> RecordingOracle<'a> {
        RecordingOracle {
            inner_oracle: answers,
            state_ids: &self.state_ids,
            recorded: RecordedAnswers::default(),
        }
    }

    /// In what the diagram differs from the outcome of a packet's journey, if in anything.
    ///
    /// # Errors
    /// Why it could not be evaluated: [`UNREPRESENTABLE_PACKET_REASON`],
    /// [`CONTRADICTORY_ANSWERS_REASON`].
    pub fn find_disagreement(
        &self,
        packet: &Packet,
        entry: JourneyKind,
        outcome: &Outcome<'_>,
        heard: &RecordedAnswers,
    ) -> Result<Option<String>, &'static str> {
        let DiagramContext { space, terminals, .. } = &self.context;
        let bits = encode_packet(&space.layout, packet).ok_or(UNREPRESENTABLE_PACKET_REASON)?;
        // Whether more fragments follow is not a variable.
        if outcome.verdict == Verdict::HeldForReassembly && packet.fragment.offset == 0 {
            return Err(UNREPRESENTABLE_PACKET_REASON);
        }
        let entry = heard.routed_entry.unwrap_or(entry);
        let (_, diagram) = self
            .entry_diagrams
            .iter()
            .find(|(e, _)| *e == entry)
            .ok_or(UNREPRESENTABLE_PACKET_REASON)?;
        let mut ambiguous = false;
        let leaf = space.evaluate_diagram(*diagram, &bits, &mut |variable, _| {
            let mut answers = heard.answers_to(variable);
            let first = answers.next();
            ambiguous |= answers.any(|other| Some(other) != first);
            first.unwrap_or(false)
        });
        if ambiguous {
            return Err(CONTRADICTORY_ANSWERS_REASON);
        }
        let terminal = terminals.terminal_of_leaf(leaf);
        if terminal.exit != RuleExit::Verdict(outcome.verdict) {
            let says = format!("the diagram says {:?}", terminal.exit);
            return Ok(Some(format!("the interpreter says {:?}, {says}", outcome.verdict)));
        }
        let effects: Vec<_> = outcome
            .effects
            .iter()
            .map(|e| (e.hook, e.table, digest_debug_text(e.target)))
            .collect();
        if effects != terminals.list_effects(terminal.effects) {
            return Ok(Some("the effects in the diagram and in the interpreter differ".to_owned()));
        }
        let asked = heard.tests.iter().filter_map(|ask| match ask.occurrence {
            QuestionOccurrence::Stateful { state_id, .. } => Some((state_id, ask.content_digest)),
            QuestionOccurrence::StatelessAtHook(_) => None,
        });
        let same = asked.eq(terminals
            .list_questions(terminal.stateful_questions)
            .iter()
            .map(|a| (a.state_id, a.content_digest)));
        Ok((!same).then(|| "the diagram evaluates other stateful tests".to_owned()))
    }
}

/// The questions of one journey, and their answers.
#[derive(Clone, Debug, Default)]
pub struct RecordedAnswers {
    tests: Vec<RecordedYesNoAnswer>,
    nat_translations: Vec<RecordedNatTranslation>,
    written_values: Vec<RecordedOracleWrite>,
    /// Where routing took the packet.
    routed_entry: Option<JourneyKind>,
}

#[derive(Clone, Debug)]
struct RecordedYesNoAnswer {
    content_digest: u64,
    occurrence: QuestionOccurrence,
    answer: bool,
}

#[derive(Clone, Debug)]
enum QuestionOccurrence {
    StatelessAtHook(Hook),
    Stateful { state_id: u64, nth: u32 },
}

/// What a translation made of a packet that it left open.
#[derive(Clone, Debug)]
struct RecordedNatTranslation {
    content_digest: u64,
    hook: Hook,
    addr: Addr,
    port: Option<u16>,
    changes_packet: bool,
}

/// What a target wrote that the rule does not say.
#[derive(Clone, Debug)]
struct RecordedOracleWrite {
    content_digest: u64,
    occurrence: QuestionOccurrence,
    field: Field,
    value: u128,
}

impl RecordedAnswers {
    /// The answers to a question.
    fn answers_to(&self, variable: FreeVariable) -> impl Iterator<Item = bool> + '_ {
        let asked = self.tests.iter().filter(move |ask| match (variable, &ask.occurrence) {
            (
                FreeVariable::StatelessTest { content_digest, hook, .. },
                QuestionOccurrence::StatelessAtHook(at),
            ) => ask.content_digest == content_digest && hook == Some(*at),
            (
                FreeVariable::StatefulTest { state_id, content_digest, nth, .. },
                QuestionOccurrence::Stateful { state_id: whose, nth: n },
            ) => (ask.content_digest, *whose, *n) == (content_digest, state_id, nth),
            _ => false,
        });
        let chosen = self.nat_translations.iter().filter_map(move |chosen| match variable {
            FreeVariable::StatelessTargetBit { content_digest, hook, bit, .. }
                if (content_digest, hook) == (chosen.content_digest, chosen.hook) =>
            {
                Some(match bit {
                    UndeterminedTargetBit::AddrBit(bit) => chosen.addr.0 >> bit & 1 == 1,
                    UndeterminedTargetBit::PortBit(bit) => {
                        chosen.port.is_some_and(|p| p >> bit & 1 == 1)
                    }
                    UndeterminedTargetBit::NatChangedPacket => chosen.changes_packet,
                    UndeterminedTargetBit::OtherFieldBit(_) => return None,
                })
            }
            _ => None,
        });
        let written = self.written_values.iter().filter_map(move |written| {
            match (variable, &written.occurrence) {
                (
                    FreeVariable::StatelessTargetBit {
                        content_digest,
                        hook,
                        bit: UndeterminedTargetBit::OtherFieldBit(FieldBit(field, bit)),
                        ..
                    },
                    QuestionOccurrence::StatelessAtHook(at),
                ) => ((content_digest, hook, field)
                    == (written.content_digest, *at, written.field))
                    .then_some(written.value >> bit & 1 == 1),
                (
                    FreeVariable::StatefulTargetBit {
                        state_id,
                        content_digest,
                        nth,
                        bit: FieldBit(field, bit),
                        ..
                    },
                    QuestionOccurrence::Stateful { state_id: whose, nth: n },
                ) => ((content_digest, field) == (written.content_digest, written.field)
                    && (state_id, nth) == (*whose, *n))
                    .then_some(written.value >> bit & 1 == 1),
                _ => None,
            }
        });
        asked.map(|ask| ask.answer).chain(chosen).chain(written)
    }
}

/// Passes questions on, and notes them with their answers. For one journey.
pub struct RecordingOracle<'a> {
    inner_oracle: &'a mut dyn Oracle,
    state_ids: &'a StatefulTestIdResolver,
    recorded: RecordedAnswers,
}

impl RecordingOracle<'_> {
    /// What was heard.
    pub fn into_recorded_answers(self) -> RecordedAnswers {
        self.recorded
    }

    /// How often a stateful question was put.
    fn count_stateful_questions(&self, state_id: u64, content_digest: u64) -> u32 {
        let same = |a: &&RecordedYesNoAnswer| {
            a.content_digest == content_digest
                && matches!(a.occurrence, QuestionOccurrence::Stateful { state_id: id, .. }
                    if id == state_id)
        };
        self.recorded.tests.iter().filter(same).count() as u32
    }

    fn question_occurrence(&self, question: &OracleQuestion<'_>) -> QuestionOccurrence {
        if !question.stateful {
            return QuestionOccurrence::StatelessAtHook(question.hook);
        }
        let state_id = self.state_ids.stateful_test_id(question.rule);
        QuestionOccurrence::Stateful {
            state_id,
            nth: self.count_stateful_questions(state_id, question.content_digest),
        }
    }
}

impl Oracle for RecordingOracle<'_> {
    fn match_holds_or_target_ends_traversal(&mut self, question: &OracleQuestion<'_>) -> bool {
        let answer = self.inner_oracle.match_holds_or_target_ends_traversal(question);
        if question.stateful {
            let (content_digest, of) =
                (question.content_digest, self.question_occurrence(question));
            self.recorded.tests.push(RecordedYesNoAnswer {
                content_digest,
                occurrence: of,
                answer,
            });
            return answer;
        }
        // The negated test of a set and the plain one are the same question.
        let (content_digest, plain) =
            (question.content_digest, answer != question.is_negated_set_test());
        let of = QuestionOccurrence::StatelessAtHook(question.hook);
        self.recorded.tests.push(RecordedYesNoAnswer {
            content_digest,
            occurrence: of,
            answer: plain,
        });
        answer
    }

    fn match_or_target_drops_packet(&mut self, question: &OracleQuestion<'_>) -> bool {
        let answer = self.inner_oracle.match_or_target_drops_packet(question);
        let (content_digest, of) = (question.content_digest, self.question_occurrence(question));
        self.recorded.tests.push(RecordedYesNoAnswer { content_digest, occurrence: of, answer });
        answer
    }

    fn is_connection_fact_of_host_true(
        &mut self,
        fact: ConnectionFactOfHost,
        hook: Hook,
        packet: &Packet,
    ) -> bool {
        let answer = self.inner_oracle.is_connection_fact_of_host_true(fact, hook, packet);
        let (content_digest, of) = (fact.digest(), QuestionOccurrence::StatelessAtHook(hook));
        self.recorded.tests.push(RecordedYesNoAnswer { content_digest, occurrence: of, answer });
        answer
    }

    fn existing_nat_destination(
        &mut self,
        hook: Hook,
        packet: &Packet,
    ) -> Option<(Addr, Option<u16>)> {
        let answer = self.inner_oracle.existing_nat_destination(hook, packet);
        let (addr, port) = answer.unwrap_or((packet.daddr, packet.ports().map(|p| p.1)));
        let content_digest = digest_existing_nat_question();
        self.recorded.nat_translations.push(RecordedNatTranslation {
            content_digest,
            hook,
            addr,
            port,
            changes_packet: false,
        });
        answer
    }

    fn is_reinjected(&mut self, question: &OracleQuestion<'_>) -> bool {
        let answer = self.inner_oracle.is_reinjected(question);
        let (content_digest, of) = (question.content_digest, self.question_occurrence(question));
        self.recorded.tests.push(RecordedYesNoAnswer { content_digest, occurrence: of, answer });
        answer
    }

    fn choose_written_value(&mut self, write: &UnknownWrite<'_>) -> u128 {
        let value = self.inner_oracle.choose_written_value(write);
        let OracleQuestion { rule, content_digest, hook, .. } = write.question;
        // Recorded for both: the question about a stateful target comes immediately before.
        let nth =
            self.count_stateful_questions(self.state_ids.stateful_test_id(rule), content_digest);
        let whose = QuestionOccurrence::Stateful {
            state_id: self.state_ids.stateful_test_id(rule),
            nth: nth.saturating_sub(1),
        };
        for of in [whose, QuestionOccurrence::StatelessAtHook(hook)] {
            self.recorded.written_values.push(RecordedOracleWrite {
                content_digest,
                occurrence: of,
                field: write.field,
                value,
            });
        }
        value
    }

    fn choose_nat_mapping(&mut self, translation: &NatQuestion<'_>) -> Option<(Addr, Option<u16>)> {
        let NatQuestion { hook, target, packet } = *translation;
        let usual = || default_nat_mapping(target, packet);
        let (addr, port) = self.inner_oracle.choose_nat_mapping(translation).unwrap_or_else(usual);
        let source = matches!(target, NatTarget::Snat(_) | NatTarget::Masquerade(_));
        let old = if source { packet.saddr } else { packet.daddr };
        let old_port = packet.ports().map(|(s, d)| if source { s } else { d });
        let changed = addr != old || port.is_some() && old_port.is_some() && port != old_port;
        let content_digest = digest_debug_text(target);
        self.recorded.nat_translations.push(RecordedNatTranslation {
            content_digest,
            hook,
            addr,
            port,
            changes_packet: changed,
        });
        Some((addr, port))
    }

    fn route_packet(&mut self, packet: &Packet, wish: JourneyKind) -> JourneyKind {
        let went = self.inner_oracle.route_packet(packet, wish);
        self.recorded.routed_entry = Some(went);
        went
    }
}
