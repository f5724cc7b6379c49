//! The oracle: the source of answers that a packet's fields do not determine.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use weir_model::target::NatTarget;
use weir_model::{Addr, Family, Field, Hook, Match, Packet, Rule, RuleIndex};

use crate::digest::content;
use crate::entry::Entry;

/// A question that the walk cannot answer itself.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
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
    pub content: u64,
    /// Digest of what configures the objects that the rule shares with others by name, 0 without
    /// such an object: the first rule that names one makes it
    /// ([`named`](weir_model::effect::named)).
    pub configured: u64,
    /// The packet as it is at that point.
    pub packet: &'a Packet,
}

/// What a [`Question`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuestionSubject {
    /// `rule.matches[i]`: does it hold?
    Match(usize),
    /// The rule's target, of a module that weir does not know: does it end the traversal? Or one
    /// that may itself drop the packet: does it?
    Target,
}

impl<'a> Question<'a> {
    /// The match in question; `None` if it is the target.
    pub fn asked_match(&self) -> Option<&'a Match> {
        match self.subject {
            QuestionSubject::Match(i) => Some(&self.rule.matches[i]),
            QuestionSubject::Target => None,
        }
    }
}

/// A field that a target writes, with a value that neither the rule nor the packet gives.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Where, and what is known of the rule and the packet; the subject is the target.
    pub question: Question<'a>,
    /// The field.
    pub field: Field,
    /// Its value before; 0 where the packet has no such field.
    pub old: u128,
}

/// What the host knows of a packet's connection, and the packet does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// An earlier packet of the connection has traversed the nat table at this hook: an unanswered
    /// connection stays NEW, and nat rules see the first packet only.
    Bound,
    /// The host replies to another packet (REJECT, an ICMP error): the reply has that packet's
    /// entry when it enters the raw table.
    Attached,
}

impl Fact {
    /// The digest of the question, as [`Question::content`] for a question of a rule.
    pub fn content(self) -> u64 {
        content(&("fact", self))
    }
}

/// A translation whose outcome the rule leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Translation<'a> {
    /// Where.
    pub hook: Hook,
    /// The rule's target.
    pub target: &'a NatTarget,
    /// The packet before the translation.
    pub packet: &'a Packet,
}

/// Answers what the packet's fields do not say.
///
/// Only [`answer`](Oracle::answer) must be written; the other methods have defaults that say
/// what is taken for granted.
pub trait Oracle {
    /// Whether a match of `rule` is true, or whether its unknown target ends the traversal.
    fn answer(&mut self, question: &Question<'_>) -> bool;

    /// Whether evaluating a match drops the packet immediately, for a reason that no field says
    /// ([`Hotdrop::Perhaps`](weir_model::Hotdrop)); or whether a target that may do so drops it.
    /// The default is no.
    fn drops(&mut self, _question: &Question<'_>) -> bool {
        false
    }

    /// Whether a packet that a target hands over (`NFQUEUE`, `TPROXY`, `SYNPROXY`) returns: it
    /// continues with the next table, after `SYNPROXY` with the next rule. The default is no.
    fn comes_back(&mut self, _question: &Question<'_>) -> bool {
        false
    }

    /// What the host knows of the packet's connection. The default is no.
    fn knows(&mut self, _fact: Fact, _hook: Hook, _packet: &Packet) -> bool {
        false
    }

    /// The destination that nat gives a packet whose connection is already translated, at the hook
    /// of its table. `None` (the default): the packet already has it.
    fn translated(&mut self, _hook: Hook, _packet: &Packet) -> Option<(Addr, Option<u16>)> {
        None
    }

    /// The value that a target writes where the rule does not say it: a mark out of a set, the
    /// length after an option was added, any field after an unknown target. The default is the old
    /// value.
    fn write(&mut self, write: &Write<'_>) -> u128 {
        write.old
    }

    /// The address and port that the kernel chooses where the rule leaves a choice: a range of
    /// addresses or ports, the device's address of `MASQUERADE` and `REDIRECT`.
    ///
    /// `None` (the default): the range's lowest address; the address unchanged if the rule names
    /// none; the port unchanged if the rule's range contains it, otherwise its lowest. An address
    /// without a port applies that to the port, too.
    fn translate(&mut self, _translation: &Translation<'_>) -> Option<(Addr, Option<u16>)> {
        None
    }

    /// The destination of the packet after PREROUTING. `wish` is the journey's entry, or
    /// [`Entry::Input`] after a `REDIRECT`. The default follows it.
    fn route(&mut self, _packet: &Packet, wish: Entry) -> Entry {
        wish
    }
}

/// No match is true, no unknown target ends the traversal.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysFalse;

impl Oracle for AlwaysFalse {
    fn answer(&mut self, _: &Question<'_>) -> bool {
        false
    }
}

/// Every match is true, every unknown target ends the traversal.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysTrue;

impl Oracle for AlwaysTrue {
    fn answer(&mut self, _: &Question<'_>) -> bool {
        true
    }
}

/// Answers by hash: the same rule, match and packet get the same answer, before a rewrite and after
/// it, wherever the rule is. The value is the seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seeded(pub u64);

impl Oracle for Seeded {
    fn answer(&mut self, q: &Question<'_>) -> bool {
        let mut h = DefaultHasher::new();
        (self.0, &q.rule.credit, q.content, q.configured).hash(&mut h);
        q.packet.hash(&mut h);
        h.finish() & 1 == 1
    }

    fn drops(&mut self, q: &Question<'_>) -> bool {
        self.hash(q, "drops").is_multiple_of(8)
    }

    fn comes_back(&mut self, q: &Question<'_>) -> bool {
        self.hash(q, "comes back").is_multiple_of(4)
    }

    fn knows(&mut self, fact: Fact, hook: Hook, packet: &Packet) -> bool {
        let mut h = DefaultHasher::new();
        (self.0, fact, hook, packet).hash(&mut h);
        h.finish().is_multiple_of(8)
    }

    /// The old value, a small number, one bit flipped, or any: what rules tend to test.
    fn write(&mut self, w: &Write<'_>) -> u128 {
        let h = self.hash(&w.question, w.field);
        let max = w.field.max(w.question.family);
        let bits = w.field.bits(w.question.family).max(1);
        let value = match h % 4 {
            0 => w.old,
            1 => u128::from(h >> 8 & 7),
            2 => w.old ^ (1 << ((h >> 8) % u64::from(bits))),
            _ => u128::from(h) << 64 | u128::from(h),
        };
        value & max
    }
}

impl Seeded {
    fn hash(&self, q: &Question<'_>, what: impl Hash) -> u64 {
        let mut h = DefaultHasher::new();
        (self.0, &q.rule.credit, q.content, q.configured, what).hash(&mut h);
        q.packet.hash(&mut h);
        h.finish()
    }
}

/// Answers by the original rule, as a table says; the same for all of a rule's questions.
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    /// Answers by the first rule that the rule credits.
    pub rules: HashMap<RuleIndex, bool>,
    /// The answer for rules that are not in the table.
    pub otherwise: bool,
}

impl Oracle for Scripted {
    fn answer(&mut self, q: &Question<'_>) -> bool {
        let known = q.rule.credit.first().and_then(|id| self.rules.get(id));
        known.copied().unwrap_or(self.otherwise)
    }
}
