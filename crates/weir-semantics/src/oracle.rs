//! The oracle: the source of answers that a packet's fields do not determine.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use weir_model::target::NatTarget;
use weir_model::{Addr, Family, Field, Hook, Match, OriginalRuleIndex, Packet, Rule};

use crate::journey_kind::JourneyKind;
use crate::question_digest::digest_debug_text;

/// A question that the walk cannot answer itself.
#[derive(Clone, Copy, Debug)]
pub struct OracleQuestion<'a> {
    /// Family of the ruleset.
    pub family: Family,
    /// Where on the journey.
    pub hook: Hook,
    /// The rule that is being tried.
    pub rule: &'a Rule,
    /// What of the rule is evaluated.
    pub subject: QuestionSubject,
    /// Whether the match is stateful.
    pub stateful: bool,
    /// Digest of the match's (or target's) content: independent of the rule's position.
    pub content_digest: u64,
    /// Digest of what configures the objects that the rule shares with others by name, 0 without
    /// such an object: the first rule that names one makes it
    /// ([`shared_objects`](weir_model::effect::shared_objects)).
    pub shared_object_config_digest: u64,
    /// The packet as it is at that point.
    pub packet: &'a Packet,
}

/// What an [`OracleQuestion`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuestionSubject {
    /// `rule.matches[i]`: does it hold?
    Match(usize),
    /// The rule's target, of a module that weir does not know: does it end the traversal? Or one
    /// that may itself drop the packet: does it?
    Target,
}

impl<'a> OracleQuestion<'a> {
    /// The match in question; `None` if it is the target.
    pub fn match_in_question(&self) -> Option<&'a Match> {
        match self.subject {
            QuestionSubject::Match(i) => Some(&self.rule.matches[i]),
            QuestionSubject::Target => None,
        }
    }

    /// Whether the question is a negated test of a set that no rule changes. Its digest is that of
    /// the plain test, of which it has the opposite answer.
    pub fn is_negated_set_test(&self) -> bool {
        !self.stateful && matches!(self.match_in_question(), Some(Match::Set(set)) if set.negated)
    }
}

/// A field that a target writes, with a value that neither the rule nor the packet gives.
#[derive(Clone, Copy, Debug)]
pub struct UnknownWrite<'a> {
    /// Where, and what is known of the rule and the packet; the subject is the target.
    pub question: OracleQuestion<'a>,
    /// The field.
    pub field: Field,
    /// Its value before; 0 where the packet has no such field.
    pub old_value: u128,
}

/// What the host knows of a packet's connection, and the packet does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionFactOfHost {
    /// An earlier packet of the connection has traversed the nat table at this hook: an unanswered
    /// connection stays NEW, and nat rules see the first packet only.
    NatTableAlreadyTraversed,
    /// The host replies to another packet (REJECT, an ICMP error): the reply has that packet's
    /// entry when it enters the raw table.
    HostReplyInheritsConntrackEntry,
}

impl ConnectionFactOfHost {
    /// The digest of the question, as [`OracleQuestion::content_digest`] for a question of a rule.
    pub fn digest(self) -> u64 {
        digest_debug_text(&("fact", self))
    }
}

/// A translation whose outcome the rule leaves open.
#[derive(Clone, Copy, Debug)]
pub struct NatQuestion<'a> {
    /// Where.
    pub hook: Hook,
    /// The rule's target.
    pub target: &'a NatTarget,
    /// The packet before the translation.
    pub packet: &'a Packet,
}

/// Answers what the packet's fields do not say.
///
/// Only [`match_holds_or_target_ends_traversal`](Oracle::match_holds_or_target_ends_traversal)
/// must be written; the other methods have defaults that say what is taken for granted.
pub trait Oracle {
    /// Whether a match of `rule` is true, or whether its unknown target ends the traversal.
    fn match_holds_or_target_ends_traversal(&mut self, question: &OracleQuestion<'_>) -> bool;

    /// Whether evaluating a match drops the packet immediately, for a reason that no field says
    /// ([`Hotdrop::Unpredictable`](weir_model::Hotdrop::Unpredictable)); or whether a target that
    /// may do so drops it. The default is no.
    fn match_or_target_drops_packet(&mut self, _question: &OracleQuestion<'_>) -> bool {
        false
    }

    /// Whether a packet that a target hands over (`NFQUEUE`, `TPROXY`, `SYNPROXY`) returns: it
    /// continues with the next table, after `SYNPROXY` with the next rule. The default is no.
    fn is_reinjected(&mut self, _question: &OracleQuestion<'_>) -> bool {
        false
    }

    /// What the host knows of the packet's connection. The default is no.
    fn is_connection_fact_of_host_true(
        &mut self,
        _fact: ConnectionFactOfHost,
        _hook: Hook,
        _packet: &Packet,
    ) -> bool {
        false
    }

    /// The destination that nat gives a packet whose connection is already translated, at the hook
    /// of its table. `None` (the default): the packet already has it.
    fn existing_nat_destination(
        &mut self,
        _hook: Hook,
        _packet: &Packet,
    ) -> Option<(Addr, Option<u16>)> {
        None
    }

    /// The value that a target writes where the rule does not say it: a mark out of a set, the
    /// length after an option was added, any field after an unknown target. The default is the old
    /// value.
    fn choose_written_value(&mut self, write: &UnknownWrite<'_>) -> u128 {
        write.old_value
    }

    /// The address and port that the kernel chooses where the rule leaves a choice: a range of
    /// addresses or ports, the device's address of `MASQUERADE` and `REDIRECT`.
    ///
    /// `None` (the default): the range's lowest address; the address unchanged if the rule names
    /// none; the port unchanged if the rule's range contains it, otherwise its lowest. An address
    /// without a port applies that to the port, too.
    fn choose_nat_mapping(
        &mut self,
        _translation: &NatQuestion<'_>,
    ) -> Option<(Addr, Option<u16>)> {
        None
    }

    /// The destination of the packet after PREROUTING. `wish` is the journey's entry, or
    /// [`JourneyKind::Input`] after a `REDIRECT`. The default follows it.
    fn route_packet(&mut self, _packet: &Packet, wish: JourneyKind) -> JourneyKind {
        wish
    }
}

/// No match is true, no unknown target ends the traversal.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysFalseOracle;

impl Oracle for AlwaysFalseOracle {
    fn match_holds_or_target_ends_traversal(&mut self, _: &OracleQuestion<'_>) -> bool {
        false
    }
}

/// Every match is true, every unknown target ends the traversal.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleAnswersTrueOracle;

impl Oracle for RuleAnswersTrueOracle {
    fn match_holds_or_target_ends_traversal(&mut self, _: &OracleQuestion<'_>) -> bool {
        true
    }
}

/// Answers by hash: the same rule, match and packet get the same answer, before a rewrite and after
/// it, wherever the rule is. The value is the seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeededOracle(pub u64);

impl Oracle for SeededOracle {
    fn match_holds_or_target_ends_traversal(&mut self, q: &OracleQuestion<'_>) -> bool {
        let mut h = DefaultHasher::new();
        (self.0, &q.rule.credited_originals, q.content_digest, q.shared_object_config_digest)
            .hash(&mut h);
        q.packet.hash(&mut h);
        (h.finish() & 1 == 1) != q.is_negated_set_test()
    }

    fn match_or_target_drops_packet(&mut self, q: &OracleQuestion<'_>) -> bool {
        self.hash_question(q, "drops").is_multiple_of(8)
    }

    fn is_reinjected(&mut self, q: &OracleQuestion<'_>) -> bool {
        self.hash_question(q, "comes back").is_multiple_of(4)
    }

    fn is_connection_fact_of_host_true(
        &mut self,
        fact: ConnectionFactOfHost,
        hook: Hook,
        packet: &Packet,
    ) -> bool {
        let mut h = DefaultHasher::new();
        (self.0, fact, hook, packet).hash(&mut h);
        h.finish().is_multiple_of(8)
    }

    /// The old value, a small number, one bit flipped, or any: what rules tend to test.
    fn choose_written_value(&mut self, w: &UnknownWrite<'_>) -> u128 {
        let h = self.hash_question(&w.question, w.field);
        let max = w.field.max_value(w.question.family);
        let bits = w.field.bit_width(w.question.family).max(1);
        let value = match h % 4 {
            0 => w.old_value,
            1 => u128::from(h >> 8 & 7),
            2 => w.old_value ^ (1 << ((h >> 8) % u64::from(bits))),
            _ => u128::from(h) << 64 | u128::from(h),
        };
        value & max
    }
}

impl SeededOracle {
    fn hash_question(&self, q: &OracleQuestion<'_>, what: impl Hash) -> u64 {
        let mut h = DefaultHasher::new();
        (self.0, &q.rule.credited_originals, q.content_digest, q.shared_object_config_digest, what)
            .hash(&mut h);
        q.packet.hash(&mut h);
        h.finish()
    }
}

/// Answers by the original rule, as a table says; the same for all of a rule's questions.
#[derive(Clone, Debug, Default)]
pub struct PerRuleAnswerOracle {
    /// Answers by the first rule that the rule credits.
    pub answers_by_rule: HashMap<OriginalRuleIndex, bool>,
    /// The answer for rules that are not in the table.
    pub default_answer: bool,
}

impl Oracle for PerRuleAnswerOracle {
    fn match_holds_or_target_ends_traversal(&mut self, q: &OracleQuestion<'_>) -> bool {
        let known = q.rule.credited_originals.first().and_then(|id| self.answers_by_rule.get(id));
        known.copied().unwrap_or(self.default_answer)
    }
}
