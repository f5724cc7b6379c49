//! Gives the answers of a witness to the interpreter.

use std::collections::HashMap;

use weir_model::matching::SetMatch;
use weir_model::{Addr, Firewall, Hook, Match, Packet};
use weir_semantics::digest::{content, translating};
use weir_semantics::interpreter::usual_choice;
use weir_semantics::{Fact, Oracle, Question, QuestionSubject, Translation, Write};

use crate::comparison::Identity;
use crate::stateful_identity::StatefulIdentity;
use crate::variable::{Choice, FreeVariable};
use crate::witness::{Assumption, Witness};

/// Gives the answers of a [`Witness`]; what it has no assumption on does not hold.
///
/// Made for one of the firewalls that were compared, and good for one journey: it counts how often
/// a stateful test was evaluated.
#[derive(Clone, Debug)]
pub struct Replay<'w> {
    assumptions: &'w [Assumption],
    who: StatefulIdentity,
    counts: HashMap<(u64, u64), u32>,
    /// Stateful tests that were evaluated, with their results.
    pub(crate) asked: Vec<AskedQuestion>,
}

/// A stateful test that was evaluated, with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedQuestion {
    who: u64,
    content: u64,
    hook: Hook,
    /// Digest of the packet.
    packet: u64,
    answer: bool,
}

impl Witness {
    /// The oracle for a journey through `firewall`, one of those that were compared, distinguished
    /// as there.
    pub fn answers(&self, firewall: &Firewall, identity: Identity) -> Replay<'_> {
        Replay {
            assumptions: &self.assumptions,
            who: StatefulIdentity::new(firewall, identity),
            counts: HashMap::new(),
            asked: Vec::new(),
        }
    }
}

impl Oracle for Replay<'_> {
    fn answer(&mut self, question: &Question<'_>) -> bool {
        if question.stateful {
            let ask = (self.who.of(question.rule), question.content);
            let nth = self.counts.entry(ask).or_default();
            let same = |o: &&Assumption| match o.variable {
                FreeVariable::Stateful { who, content, nth: n, of } => {
                    (who, content, n) == (ask.0, ask.1, *nth)
                        && of.hook.is_none_or(|h| h == question.hook)
                }
                _ => false,
            };
            let found = self.assumptions.iter().filter(same);
            let best = found.min_by_key(|o| distance(o.packet.as_ref(), question.packet));
            let answer = best.is_some_and(|o| o.answer);
            *nth += 1;
            let packet = content(question.packet);
            self.asked.push(AskedQuestion {
                who: ask.0,
                content: ask.1,
                hook: question.hook,
                packet,
                answer,
            });
            return answer;
        }
        // The negated test of a set and the plain one are the same question.
        let (digest, negated) = match question.asked_match() {
            Some(Match::Set(s)) if s.negated => {
                (content(&Match::Set(SetMatch { negated: false, ..s.clone() })), true)
            }
            _ => (question.content, false),
        };
        let same = |o: &&Assumption| match o.variable {
            FreeVariable::Stateless { content, hook, .. } => {
                content == digest && hook == Some(question.hook)
            }
            _ => false,
        };
        let found = self.assumptions.iter().filter(same);
        let best = found.min_by_key(|o| distance(o.packet.as_ref(), question.packet));
        best.is_some_and(|o| o.answer) != negated
    }

    fn drops(&mut self, question: &Question<'_>) -> bool {
        self.answer(&Question { subject: QuestionSubject::Target, ..*question })
    }

    fn knows(&mut self, fact: Fact, hook: Hook, packet: &Packet) -> bool {
        let same = |o: &&Assumption| match o.variable {
            FreeVariable::Stateless { content, hook: at, .. } => {
                content == fact.content() && at == Some(hook)
            }
            _ => false,
        };
        let found = self.assumptions.iter().filter(same);
        let best = found.min_by_key(|o| distance(o.packet.as_ref(), packet));
        best.is_some_and(|o| o.answer)
    }

    fn translated(&mut self, hook: Hook, packet: &Packet) -> Option<(Addr, Option<u16>)> {
        let (mut addr, mut port) = (packet.daddr.0, packet.ports().map(|p| p.1));
        let mut found = false;
        for assumption in self.assumptions {
            let FreeVariable::Chosen { content, hook: at, bit, .. } = assumption.variable else {
                continue;
            };
            if content != translating() || at != hook {
                continue;
            }
            found = true;
            match (bit, &mut port) {
                (Choice::Addr(bit), _) => {
                    addr = addr & !(1 << bit) | u128::from(assumption.answer) << bit;
                }
                (Choice::Port(bit), Some(port)) => {
                    *port = *port & !(1 << bit) | u16::from(assumption.answer) << bit;
                }
                _ => {}
            }
        }
        found.then_some((Addr(addr), port))
    }

    fn comes_back(&mut self, question: &Question<'_>) -> bool {
        self.answer(question)
    }

    fn write(&mut self, write: &Write<'_>) -> u128 {
        let Write { question, field, old } = *write;
        let ask = (self.who.of(question.rule), question.content);
        let met = self.counts.get(&ask).copied().unwrap_or(0);
        let of = |o: &Assumption| match o.variable {
            FreeVariable::Written { who, content, nth, bit, .. } => {
                ((who, content) == ask && nth + 1 == met && bit.0 == field).then_some(bit.1)
            }
            FreeVariable::Chosen { content, hook, bit: Choice::Field(bit), .. } => {
                (content == ask.1 && hook == question.hook && bit.0 == field).then_some(bit.1)
            }
            _ => None,
        };
        let near = |o: &Assumption| distance(o.packet.as_ref(), question.packet);
        let nearest = self.assumptions.iter().filter(|o| of(o).is_some()).map(near).min();
        let mut value = old;
        for assumption in self.assumptions.iter().filter(|o| Some(near(o)) == nearest) {
            if let Some(bit) = of(assumption) {
                value = value & !(1 << bit) | u128::from(assumption.answer) << bit;
            }
        }
        value
    }

    fn translate(&mut self, translation: &Translation<'_>) -> Option<(Addr, Option<u16>)> {
        let Translation { hook, target, packet } = *translation;
        let digest = content(target);
        let of = |o: &&Assumption| match o.variable {
            FreeVariable::Chosen { content, hook: at, .. } => content == digest && at == hook,
            _ => false,
        };
        let found: Vec<&Assumption> = self.assumptions.iter().filter(of).collect();
        let nearest = found.iter().map(|o| distance(o.packet.as_ref(), packet)).min()?;
        let (addr, port) = usual_choice(target, packet);
        let (mut addr, mut port) = (addr.0, port);
        for assumption in found.iter().filter(|o| distance(o.packet.as_ref(), packet) == nearest) {
            let FreeVariable::Chosen { bit, .. } = assumption.variable else { continue };
            match (bit, &mut port) {
                (Choice::Addr(bit), _) => {
                    addr = addr & !(1 << bit) | u128::from(assumption.answer) << bit;
                }
                (Choice::Port(bit), Some(port)) => {
                    *port = *port & !(1 << bit) | u16::from(assumption.answer) << bit;
                }
                (Choice::Port(_), None) | (Choice::Changed | Choice::Field(_), _) => {}
            }
        }
        Some((Addr(addr), port))
    }
}

/// In how many fields that rules change the packet is another than the expected one.
fn distance(expected: Option<&Packet>, packet: &Packet) -> usize {
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
    fn a_translation_that_is_not_settled_keeps_the_port_that_its_range_holds() {
        let range = NatRange { ports: Some((1000, 2000)), ..NatRange::default() };
        let target = NatTarget::Redirect(range);
        let mut packet = Packet::new(Family::V4, Addr(1), Addr(2), 17);
        packet.transport = Transport::Udp { sport: 7, dport: 1500 };
        let hook = Hook::Prerouting;
        let (content, bit) = (content(&target), Choice::Addr(0));
        let assumption = Assumption {
            asked: None,
            words: String::new(),
            hook: Some(hook),
            answer: true,
            packet: None,
            variable: FreeVariable::Chosen { content, hook, change: 0, bit },
        };
        let witness = Witness { packet: packet.clone(), assumptions: vec![assumption] };
        let mut answers = witness.answers(&Firewall::default(), Identity::Text);
        let mut chosen =
            |packet: &Packet| answers.translate(&Translation { hook, target: &target, packet });
        assert_eq!(chosen(&packet), Some((Addr(3), Some(1500))));
        packet.transport = Transport::Udp { sport: 7, dport: 80 };
        assert_eq!(chosen(&packet), Some((Addr(3), Some(1000))), "no port of the range");
    }
}
