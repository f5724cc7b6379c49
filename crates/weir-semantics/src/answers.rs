//! Who answers what a packet's fields do not say.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

use weir_model::target::NatTarget;
use weir_model::{Addr, Family, Hook, Match, Packet, Rule, RuleId};

use crate::Entry;

/// A question that the walk cannot answer itself.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Family of the ruleset.
    pub family: Family,
    /// Where on the journey.
    pub hook: Hook,
    /// The rule that is being tried.
    pub rule: &'a Rule,
    /// What of the rule is asked.
    pub subject: Subject,
    /// Whether the match keeps a budget or a memory.
    pub stateful: bool,
    /// Digest of the match's (or target's) content: the same wherever the rule stands.
    pub content: u64,
    /// The packet as it is at that point.
    pub packet: &'a Packet,
}

/// What a [`Question`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// `rule.matches[i]`: does it hold?
    Match(usize),
    /// The rule's target, of a module that weir does not know: does it end the walk?
    Target,
}

impl<'a> Question<'a> {
    /// The match that is asked about; `None` where it is the target.
    pub fn asked_match(&self) -> Option<&'a Match> {
        match self.subject {
            Subject::Match(i) => Some(&self.rule.matches[i]),
            Subject::Target => None,
        }
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
/// Only [`answer`](Answers::answer) must be written; the other methods have defaults that say
/// what is taken for granted.
pub trait Answers {
    /// Whether a match of `rule` holds, or whether its unknown target ends the walk.
    fn answer(&mut self, question: &Question<'_>) -> bool;

    /// The address and port that the kernel chooses where the rule leaves a choice: a range of
    /// addresses or ports, the device's address of `MASQUERADE` and `REDIRECT`.
    ///
    /// `None` (the default) is: the range's lowest address; the address as it is where the rule
    /// names none; the port as it is where the rule's range holds it, else its lowest. An address
    /// without a port leaves the port to that, too.
    fn translate(&mut self, _translation: &Translation<'_>) -> Option<(Addr, Option<u16>)> {
        None
    }

    /// Where the packet goes from PREROUTING. `wish` is the journey's entry, or
    /// [`Entry::Input`] after a `REDIRECT`. The default goes there.
    fn route(&mut self, _packet: &Packet, wish: Entry) -> Entry {
        wish
    }
}

/// No match holds, no unknown target ends the walk.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysFalse;

impl Answers for AlwaysFalse {
    fn answer(&mut self, _: &Question<'_>) -> bool {
        false
    }
}

/// Every match holds, every unknown target ends the walk.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysTrue;

impl Answers for AlwaysTrue {
    fn answer(&mut self, _: &Question<'_>) -> bool {
        true
    }
}

/// Answers by hash: the same rule, match and packet get the same answer, before a rewrite and
/// after it, wherever the rule stands. The value is the seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seeded(pub u64);

impl Answers for Seeded {
    fn answer(&mut self, q: &Question<'_>) -> bool {
        let mut h = DefaultHasher::new();
        (self.0, &q.rule.credit, q.content).hash(&mut h);
        q.packet.hash(&mut h);
        h.finish() & 1 == 1
    }
}

/// Answers by the original rule, as a table says; the same for all of a rule's questions.
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    /// Answers by the first rule that the rule credits.
    pub rules: HashMap<RuleId, bool>,
    /// The answer for rules that are not in the table.
    pub otherwise: bool,
}

impl Answers for Scripted {
    fn answer(&mut self, q: &Question<'_>) -> bool {
        let known = q.rule.credit.first().and_then(|id| self.rules.get(id));
        known.copied().unwrap_or(self.otherwise)
    }
}

/// Digest of a match's or target's content, the same in every process.
pub(crate) fn content(of: &impl std::fmt::Debug) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(format!("{of:?}"))
}
