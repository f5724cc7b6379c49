//! Gives two rulesets the same answers to what they both evaluate.

use std::hash::{DefaultHasher, Hash, Hasher};

use weir_model::{Field, Firewall, Hook, Packet, match_effects, target_effects};
use weir_semantics::{ConnectionFactOfHost, Oracle, OracleQuestion, SeededOracle, UnknownWrite};

use crate::comparison_types::StatefulTestPairing;
use crate::stateful_test_id::StatefulTestIdResolver;

/// Answers by hash, out of a seed: the same stateful test of two rulesets, and every other test of
/// the same content, has the same answer for the same packet. Made for one of the rulesets, with
/// the pairing by which they are compared.
///
/// A packet that two rulesets treat differently with these answers shows that they differ. That
/// packets are treated alike proves nothing for others.
#[derive(Clone, Debug)]
pub struct PairedSeededOracle {
    seed: u64,
    state_ids: StatefulTestIdResolver,
}

impl PairedSeededOracle {
    /// The answers for a journey through `firewall`.
    pub fn new(firewall: &Firewall, pairing: StatefulTestPairing, seed: u64) -> PairedSeededOracle {
        PairedSeededOracle { seed, state_ids: StatefulTestIdResolver::new(firewall, pairing) }
    }

    fn hash_question(&self, question: &OracleQuestion<'_>, what: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, what).hash(&mut hasher);
        match question.stateful {
            true => self.state_ids.stateful_test_id(question.rule).hash(&mut hasher),
            false => question.hook.hash(&mut hasher),
        }
        let read_fields = match question.match_in_question() {
            Some(m) => match_effects(m, question.family).reads,
            None => target_effects(&question.rule.target).reads,
        };
        // What is not read cannot decide: rules of one side may have written it.
        let mut packet = question.packet.clone();
        for field in [Field::Mark, Field::CtMark, Field::Tos, Field::Ttl] {
            if !read_fields.contains(field) {
                field.write_if_present(&mut packet, 0);
            }
        }
        packet.hash(&mut hasher);
        hasher.finish()
    }
}

impl Oracle for PairedSeededOracle {
    fn match_holds_or_target_ends_traversal(&mut self, question: &OracleQuestion<'_>) -> bool {
        // The negated test of a set and the plain one are the same question.
        (self.hash_question(question, question.content_digest) & 1 == 1)
            != question.is_negated_set_test()
    }

    fn match_or_target_drops_packet(&mut self, question: &OracleQuestion<'_>) -> bool {
        self.hash_question(question, (question.content_digest, "drops")).is_multiple_of(8)
    }

    fn is_reinjected(&mut self, question: &OracleQuestion<'_>) -> bool {
        self.hash_question(question, (question.content_digest, "comes back")).is_multiple_of(4)
    }

    fn is_connection_fact_of_host_true(
        &mut self,
        fact: ConnectionFactOfHost,
        hook: Hook,
        packet: &Packet,
    ) -> bool {
        SeededOracle(self.seed).is_connection_fact_of_host_true(fact, hook, packet)
    }

    /// The old value, a small number, or one bit flipped: what rules tend to test.
    fn choose_written_value(&mut self, write: &UnknownWrite<'_>) -> u128 {
        let hash =
            self.hash_question(&write.question, (write.question.content_digest, write.field));
        let bits = write.field.bit_width(write.question.family).max(1);
        let value = match hash % 3 {
            0 => write.old_value,
            1 => u128::from(hash >> 8 & 7),
            _ => write.old_value ^ (1 << ((hash >> 8) % u64::from(bits))),
        };
        value & write.field.max_value(write.question.family)
    }
}
