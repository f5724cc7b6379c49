//! Answers to the questions of both sides, from a seed.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use weir_model::target::{NatRange, NatTarget};
use weir_model::{Addr, Field, Hook, Packet};
use weir_semantics::question_digest::{digest_debug_text, digest_existing_nat_question};
use weir_semantics::{
    ConnectionFactOfHost, NatQuestion, Oracle, OracleQuestion, QuestionSubject, UnknownWrite,
};

use crate::stateful_test_id::StatefulTestIdResolver;

/// Fields that the interpreter leaves alone after an unknown target, since another value of them
/// would be not a packet: the diagram is asked with the values that they had.
pub(super) const FIELDS_KEPT_BY_UNKNOWN_TARGET: [Field; 7] = [
    Field::Iif,
    Field::Oif,
    Field::Proto,
    Field::IsLaterFragment,
    Field::CtState,
    Field::PktType,
    Field::Length,
];

fn hash_value_deterministically(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// The fields of a packet that rules change, but for its connection.
fn extract_changeable_fields(p: &Packet) -> impl Hash + use<> {
    (p.saddr, p.daddr, p.ports(), p.mark, p.tos, p.ttl, p.len())
}

/// Answers that the same question gets from the diagram's side and from the interpreter's.
#[derive(Clone)]
pub(super) struct QuestionSeededOracle {
    seed: u64,
    state_ids: StatefulTestIdResolver,
    pub stateful_questions: Vec<(u64, u64)>,
}

impl QuestionSeededOracle {
    pub const fn new(seed: u64, state_ids: StatefulTestIdResolver) -> QuestionSeededOracle {
        QuestionSeededOracle { seed, state_ids, stateful_questions: Vec::new() }
    }

    pub fn stateless_answer(&self, content_digest: u64, hook: Hook, packet: &Packet) -> bool {
        hash_value_deterministically((
            self.seed,
            content_digest,
            hook,
            extract_changeable_fields(packet),
        )) & 1
            == 1
    }

    pub fn stateful_answer_by_occurrence(
        &self,
        state_id: u64,
        content_digest: u64,
        nth: u32,
    ) -> bool {
        hash_value_deterministically((self.seed, state_id, content_digest, nth)) & 1 == 1
    }

    /// What a target writes of which nothing is known.
    pub fn stateful_write_value(
        &self,
        state_id: u64,
        content_digest: u64,
        nth: u32,
        field: Field,
    ) -> u128 {
        hash_value_deterministically((self.seed, state_id, content_digest, nth, field)).into()
    }

    /// What a target writes into a packet.
    pub fn stateless_write_value(
        &self,
        digest: u64,
        hook: Hook,
        packet: &Packet,
        field: Field,
    ) -> u128 {
        let h = u128::from(hash_value_deterministically((
            self.seed,
            digest,
            hook,
            extract_changeable_fields(packet),
            field,
        )));
        match field {
            // Not shorter than its headers.
            Field::Length => packet.len() as u128 + h % 2 * 4,
            _ => h,
        }
    }

    pub fn nat_choice(
        &self,
        digest: u64,
        hook: Hook,
        packet: &Packet,
        range: &NatRange,
        device: bool,
    ) -> (Addr, Option<u16>) {
        let h = hash_value_deterministically((
            self.seed,
            digest,
            hook,
            extract_changeable_fields(packet),
        ));
        let (source, max) = (hook == Hook::Postrouting, packet.family.max_addr());
        let old = if source { packet.saddr } else { packet.daddr };
        let addr = match range.addrs {
            Some((lo, hi)) if lo == hi => lo,
            // A power of two, as it is modelled: what all addresses have in common.
            Some((lo, hi)) => {
                let free = (1u128 << (lo.0 ^ hi.0).checked_ilog2().map_or(0, |t| t + 1)) - 1;
                Addr(lo.0 & !free | u128::from(h) & free)
            }
            None if device => Addr(u128::from(h % 7) & max),
            None => old,
        };
        let old_port = packet.ports().map(|(s, d)| if source { s } else { d });
        let port = match (range.ports, old_port) {
            (Some((lo, hi)), Some(_)) if lo == hi => Some(lo),
            (Some(_), Some(_)) => Some((h >> 32) as u16),
            _ => None,
        };
        (addr, port)
    }
}

pub(super) fn extract_nat_range_and_device_flag(target: &NatTarget) -> Option<(&NatRange, bool)> {
    match target {
        NatTarget::Dnat(r) | NatTarget::Snat(r) => Some((r, false)),
        NatTarget::Masquerade(r) | NatTarget::Redirect(r) => Some((r, true)),
        NatTarget::Netmap(..) => None,
    }
}

impl Oracle for QuestionSeededOracle {
    fn match_holds_or_target_ends_traversal(&mut self, q: &OracleQuestion<'_>) -> bool {
        if q.stateful {
            let ask = (self.state_ids.stateful_test_id(q.rule), q.content_digest);
            let nth = self.stateful_questions.iter().filter(|a| **a == ask).count() as u32;
            self.stateful_questions.push(ask);
            return self.stateful_answer_by_occurrence(ask.0, ask.1, nth);
        }
        self.stateless_answer(q.content_digest, q.hook, q.packet) != q.is_negated_set_test()
    }

    fn match_or_target_drops_packet(&mut self, q: &OracleQuestion<'_>) -> bool {
        self.match_holds_or_target_ends_traversal(&OracleQuestion {
            subject: QuestionSubject::Target,
            ..*q
        })
    }

    fn is_connection_fact_of_host_true(
        &mut self,
        fact: ConnectionFactOfHost,
        hook: Hook,
        packet: &Packet,
    ) -> bool {
        self.stateless_answer(fact.digest(), hook, packet)
    }

    fn existing_nat_destination(
        &mut self,
        hook: Hook,
        packet: &Packet,
    ) -> Option<(Addr, Option<u16>)> {
        let h = hash_value_deterministically((
            self.seed,
            digest_existing_nat_question(),
            hook,
            extract_changeable_fields(packet),
        ));
        let addr = Addr(u128::from(h) & packet.family.max_addr());
        Some((addr, packet.ports().map(|_| (h >> 32) as u16)))
    }

    fn is_reinjected(&mut self, q: &OracleQuestion<'_>) -> bool {
        self.match_holds_or_target_ends_traversal(q)
    }

    fn choose_written_value(&mut self, w: &UnknownWrite<'_>) -> u128 {
        let (q, state_id) = (w.question, self.state_ids.stateful_test_id(w.question.rule));
        let met =
            self.stateful_questions.iter().filter(|a| **a == (state_id, q.content_digest)).count()
                as u32;
        let value = match met {
            1.. if FIELDS_KEPT_BY_UNKNOWN_TARGET.contains(&w.field) => w.old_value,
            0 => self.stateless_write_value(q.content_digest, q.hook, q.packet, w.field),
            n => self.stateful_write_value(state_id, q.content_digest, n - 1, w.field),
        };
        value & w.field.max_value(q.family)
    }

    fn choose_nat_mapping(&mut self, t: &NatQuestion<'_>) -> Option<(Addr, Option<u16>)> {
        let (range, device) = extract_nat_range_and_device_flag(t.target)?;
        Some(self.nat_choice(digest_debug_text(t.target), t.hook, t.packet, range, device))
    }
}
