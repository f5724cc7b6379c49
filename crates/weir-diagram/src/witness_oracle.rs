//! Gives the answers of a witness to the interpreter.

use std::collections::HashMap;

use weir_model::{Addr, Hook, Packet};
use weir_semantics::interpreter::default_nat_mapping;
use weir_semantics::question_digest::{digest_debug_text, digest_existing_nat_question};
use weir_semantics::{
    ConnectionFactOfHost, NatQuestion, Oracle, OracleQuestion, QuestionSubject, UnknownWrite,
};

use crate::packet_sets::free_variable::{FreeVariable, UndeterminedTargetBit};
use crate::packet_sets::witness::{Assumption, Witness};
use crate::stateful_test_id::StatefulTestIdResolver;

/// Gives the answers of a [`Witness`]; what it has no assumption on does not hold.
///
/// Made for one of the firewalls that were compared, and good for one journey: it counts how often
/// a stateful test was evaluated.
#[derive(Clone, Debug)]
pub struct WitnessOracle<'w> {
    assumptions: &'w [Assumption],
    state_ids: &'w StatefulTestIdResolver,
    evaluation_counts: HashMap<(u64, u64), u32>,
    /// Stateful tests that were evaluated, with their results.
    pub(crate) stateful_evaluations: Vec<AnsweredStatefulTest>,
}

/// A stateful test that was evaluated, with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnsweredStatefulTest {
    state_id: u64,
    content_digest: u64,
    hook: Hook,
    /// Digest of the packet.
    packet_digest: u64,
    answer: bool,
}

impl Witness {
    /// The oracle for a journey through one of the firewalls that were compared. `state_ids`: of
    /// that firewall, with the pairing by which they were compared.
    pub fn to_oracle<'w>(&'w self, state_ids: &'w StatefulTestIdResolver) -> WitnessOracle<'w> {
        WitnessOracle {
            assumptions: &self.assumptions,
            state_ids,
            evaluation_counts: HashMap::new(),
            stateful_evaluations: Vec::new(),
        }
    }
}

impl Oracle for WitnessOracle<'_> {
    fn match_holds_or_target_ends_traversal(&mut self, question: &OracleQuestion<'_>) -> bool {
        if question.stateful {
            let ask = (self.state_ids.stateful_test_id(question.rule), question.content_digest);
            let nth = self.evaluation_counts.entry(ask).or_default();
            let same = |o: &&Assumption| match o.variable {
                FreeVariable::StatefulTest { state_id, content_digest, nth: n, state_input } => {
                    (state_id, content_digest, n) == (ask.0, ask.1, *nth)
                        && state_input.hook.is_none_or(|h| h == question.hook)
                }
                _ => false,
            };
            let found = self.assumptions.iter().filter(same);
            let best = found.min_by_key(|o| {
                count_differing_changeable_fields(o.packet.as_ref(), question.packet)
            });
            let answer = best.is_some_and(|o| o.answer);
            *nth += 1;
            let packet = digest_debug_text(question.packet);
            self.stateful_evaluations.push(AnsweredStatefulTest {
                state_id: ask.0,
                content_digest: ask.1,
                hook: question.hook,
                packet_digest: packet,
                answer,
            });
            return answer;
        }
        // The negated test of a set and the plain one are the same question.
        let digest = question.content_digest;
        let negated = question.is_negated_set_test();
        let same = |o: &&Assumption| match o.variable {
            FreeVariable::StatelessTest { content_digest, hook, .. } => {
                content_digest == digest && hook == Some(question.hook)
            }
            _ => false,
        };
        let found = self.assumptions.iter().filter(same);
        let best = found
            .min_by_key(|o| count_differing_changeable_fields(o.packet.as_ref(), question.packet));
        best.is_some_and(|o| o.answer) != negated
    }

    fn match_or_target_drops_packet(&mut self, question: &OracleQuestion<'_>) -> bool {
        self.match_holds_or_target_ends_traversal(&OracleQuestion {
            subject: QuestionSubject::Target,
            ..*question
        })
    }

    fn is_connection_fact_of_host_true(
        &mut self,
        fact: ConnectionFactOfHost,
        hook: Hook,
        packet: &Packet,
    ) -> bool {
        let same = |o: &&Assumption| match o.variable {
            FreeVariable::StatelessTest { content_digest, hook: at, .. } => {
                content_digest == fact.digest() && at == Some(hook)
            }
            _ => false,
        };
        let found = self.assumptions.iter().filter(same);
        let best =
            found.min_by_key(|o| count_differing_changeable_fields(o.packet.as_ref(), packet));
        best.is_some_and(|o| o.answer)
    }

    fn existing_nat_destination(
        &mut self,
        hook: Hook,
        packet: &Packet,
    ) -> Option<(Addr, Option<u16>)> {
        let (mut addr, mut port) = (packet.daddr.0, packet.ports().map(|p| p.1));
        let mut found = false;
        for assumption in self.assumptions {
            let FreeVariable::StatelessTargetBit { content_digest, hook: at, bit, .. } =
                assumption.variable
            else {
                continue;
            };
            if content_digest != digest_existing_nat_question() || at != hook {
                continue;
            }
            found = true;
            match (bit, &mut port) {
                (UndeterminedTargetBit::AddrBit(bit), _) => {
                    addr = addr & !(1 << bit) | u128::from(assumption.answer) << bit;
                }
                (UndeterminedTargetBit::PortBit(bit), Some(port)) => {
                    *port = *port & !(1 << bit) | u16::from(assumption.answer) << bit;
                }
                _ => {}
            }
        }
        // No test reads it. It is another one all the same: a test that is asked of the packet of a
        // connection that only one ruleset translates is another question.
        Some((Addr(if found { addr } else { addr ^ 1 }), port))
    }

    fn is_reinjected(&mut self, question: &OracleQuestion<'_>) -> bool {
        self.match_holds_or_target_ends_traversal(question)
    }

    fn choose_written_value(&mut self, write: &UnknownWrite<'_>) -> u128 {
        let UnknownWrite { question, field, old_value: old } = *write;
        let ask = (self.state_ids.stateful_test_id(question.rule), question.content_digest);
        let met = self.evaluation_counts.get(&ask).copied().unwrap_or(0);
        let of = |o: &Assumption| match o.variable {
            FreeVariable::StatefulTargetBit { state_id, content_digest, nth, bit, .. } => {
                ((state_id, content_digest) == ask && nth + 1 == met && bit.0 == field)
                    .then_some(bit.1)
            }
            FreeVariable::StatelessTargetBit {
                content_digest,
                hook,
                bit: UndeterminedTargetBit::OtherFieldBit(bit),
                ..
            } => (content_digest == ask.1 && hook == question.hook && bit.0 == field)
                .then_some(bit.1),
            _ => None,
        };
        let near =
            |o: &Assumption| count_differing_changeable_fields(o.packet.as_ref(), question.packet);
        let nearest = self.assumptions.iter().filter(|o| of(o).is_some()).map(near).min();
        let mut value = old;
        for assumption in self.assumptions.iter().filter(|o| Some(near(o)) == nearest) {
            if let Some(bit) = of(assumption) {
                value = value & !(1 << bit) | u128::from(assumption.answer) << bit;
            }
        }
        value
    }

    fn choose_nat_mapping(&mut self, translation: &NatQuestion<'_>) -> Option<(Addr, Option<u16>)> {
        let NatQuestion { hook, target, packet } = *translation;
        let digest = digest_debug_text(target);
        let of = |o: &&Assumption| match o.variable {
            FreeVariable::StatelessTargetBit { content_digest, hook: at, .. } => {
                content_digest == digest && at == hook
            }
            _ => false,
        };
        let found: Vec<&Assumption> = self.assumptions.iter().filter(of).collect();
        let nearest = found
            .iter()
            .map(|o| count_differing_changeable_fields(o.packet.as_ref(), packet))
            .min()?;
        let (addr, port) = default_nat_mapping(target, packet);
        let (mut addr, mut port) = (addr.0, port);
        for assumption in found
            .iter()
            .filter(|o| count_differing_changeable_fields(o.packet.as_ref(), packet) == nearest)
        {
            let FreeVariable::StatelessTargetBit { bit, .. } = assumption.variable else {
                continue;
            };
            match (bit, &mut port) {
                (UndeterminedTargetBit::AddrBit(bit), _) => {
                    addr = addr & !(1 << bit) | u128::from(assumption.answer) << bit;
                }
                (UndeterminedTargetBit::PortBit(bit), Some(port)) => {
                    *port = *port & !(1 << bit) | u16::from(assumption.answer) << bit;
                }
                (UndeterminedTargetBit::PortBit(_), None)
                | (
                    UndeterminedTargetBit::NatChangedPacket
                    | UndeterminedTargetBit::OtherFieldBit(_),
                    _,
                ) => {}
            }
        }
        Some((Addr(addr), port))
    }
}

/// In how many fields that rules change the packet is another than the expected one.
fn count_differing_changeable_fields(expected: Option<&Packet>, packet: &Packet) -> usize {
    let Some(expected) = expected else { return 0 };
    let differ = [
        expected.saddr != packet.saddr,
        expected.daddr != packet.daddr,
        expected.ports() != packet.ports(),
        expected.mark != packet.mark,
        expected.tos != packet.tos,
        expected.ttl != packet.ttl,
        expected.ct != packet.ct,
        expected.len() != packet.len(),
    ];
    differ.into_iter().filter(|d| *d).count()
}

#[cfg(test)]
mod tests {
    use weir_model::target::{NatRange, NatTarget};
    use weir_packet::{Family, Transport};

    use super::*;

    #[test]
    fn an_undetermined_translation_keeps_a_port_within_its_range() {
        let range = NatRange { ports: Some((1000, 2000)), ..NatRange::default() };
        let target = NatTarget::Redirect(range);
        let mut packet = Packet::new(Family::V4, Addr(1), Addr(2), 17);
        packet.transport = Transport::Udp { sport: 7, dport: 1500 };
        let hook = Hook::Prerouting;
        let (content_digest, bit) = (digest_debug_text(&target), UndeterminedTargetBit::AddrBit(0));
        let assumption = Assumption {
            assumed_match: None,
            describes_match: false,
            description: String::new(),
            hook: Some(hook),
            answer: true,
            packet: None,
            variable: FreeVariable::StatelessTargetBit { content_digest, hook, change: 0, bit },
        };
        let witness = Witness { packet: packet.clone(), assumptions: vec![assumption] };
        let state_ids = StatefulTestIdResolver::default();
        let mut answers = witness.to_oracle(&state_ids);
        let mut chosen = |packet: &Packet| {
            answers.choose_nat_mapping(&NatQuestion { hook, target: &target, packet })
        };
        assert_eq!(chosen(&packet), Some((Addr(3), Some(1500))));
        packet.transport = Transport::Udp { sport: 7, dport: 80 };
        assert_eq!(chosen(&packet), Some((Addr(3), Some(1000))), "no port of the range");
    }
}
