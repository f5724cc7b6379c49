//! The outcome of a packet: the verdict, the effects, and the rules that counted it.

use weir_model::{
    Element, Family, Hook, OriginalRuleIndex, Packet, RuleId, SharedName, TableName, Target,
};

use crate::oracle::QuestionSubject;

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is accepted and continues.
    Accept,
    /// It is dropped without a word.
    Drop,
    /// It is dropped, and its sender notified: the `--reject-with` word.
    Reject(&'static str),
    /// It is handed to user space or a local socket by the module named; what follows is theirs.
    Divert(&'static str),
    /// An unknown target ended the walk, or the packet entered so many chains that it is not followed
    /// to its end: whether it is accepted or dropped is not known.
    Unknown,
    /// Its time to live ran out at routing: the host answers, and no later chain sees it.
    Expired,
    /// It is a fragment to this host: INPUT sees the whole datagram only, once it is reassembled.
    HeldForReassembly,
}

/// Something that the kernel counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CountedObject<'f> {
    /// A rule whose matches were all true.
    Rule {
        /// Table.
        table: TableName,
        /// Chain.
        chain: &'f SharedName,
        /// Number from 1.
        number: u32,
    },
    /// A policy that was reached.
    Policy {
        /// Table.
        table: TableName,
        /// Built-in chain.
        chain: &'f SharedName,
    },
    /// An element of a set with counters; counted when it is tested, before the rest of the rule.
    IpsetElement {
        /// Set.
        set: &'f SharedName,
        /// Element.
        element: &'f Element,
    },
}

/// A counter that the packet counted in, in the kernel's order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterHitWithCredit<'f> {
    /// Where on the journey.
    pub hook: Hook,
    /// What counted.
    pub counted_object: CountedObject<'f>,
    /// The original rules that the counter is credited to; none for policies.
    pub credited_originals: &'f [OriginalRuleIndex],
}

impl CounterHitWithCredit<'_> {
    /// The rule or policy of that family's ruleset; `None` for an element of a set.
    pub fn rule_or_policy_id(&self, family: Family) -> Option<RuleId> {
        let (table, chain, number) = match self.counted_object {
            CountedObject::Rule { table, chain, number } => (table, chain, Some(number)),
            CountedObject::Policy { table, chain } => (table, chain, None),
            CountedObject::IpsetElement { .. } => return None,
        };
        Some(RuleId { family, table, chain: chain.clone(), number })
    }
}

/// Something that a target did, the verdict's own target included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppliedTarget<'f> {
    /// Where on the journey.
    pub hook: Hook,
    /// In which table.
    pub table: TableName,
    /// [`Target::Effect`], [`Target::Nat`], [`Target::Reject`], [`Target::Divert`] or
    /// [`Target::Opaque`].
    pub target: &'f Target,
}

/// A question that was put to [`Oracle`](crate::Oracle).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnsweredQuestion<'f> {
    /// The original rules of the rule.
    pub credited_originals: &'f [OriginalRuleIndex],
    /// What was asked.
    pub subject: QuestionSubject,
    /// Digest of the match's content.
    pub content_digest: u64,
    /// Digest of what configures the objects that the rule shares with others.
    pub shared_object_config_digest: u64,
    /// It is stateful: its evaluation is part of the meaning.
    pub stateful: bool,
    /// What the answer was.
    pub answer: bool,
}

/// The result of traversing one table, or of a whole journey.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraversalLog<'f> {
    /// What was counted, in order.
    pub hits: Vec<CounterHitWithCredit<'f>>,
    /// What was done, in order.
    pub effects: Vec<AppliedTarget<'f>>,
    /// The questions, in order.
    pub questions: Vec<AnsweredQuestion<'f>>,
    /// Rules whose tests were begun.
    pub rules_tried: u32,
}

/// The result of a journey.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<'f> {
    /// The outcome of the packet.
    pub verdict: Verdict,
    /// What was done, in order.
    pub effects: Vec<AppliedTarget<'f>>,
    /// What was counted, in order.
    pub hits: Vec<CounterHitWithCredit<'f>>,
    /// The questions, in order.
    pub questions: Vec<AnsweredQuestion<'f>>,
    /// Rules whose tests were begun.
    pub rules_tried: u32,
    /// The packet as it left, or was dropped.
    pub packet: Packet,
}

/// A way in which two outcomes of the same packet differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeDifference {
    /// The verdict.
    Verdict,
    /// What was done, or its order.
    Effects,
    /// The packet as it left.
    Packet,
    /// Which stateful matches were evaluated, or their order.
    StatefulQuestions,
    /// Which original rules or policies were counted, and how often.
    Credit,
}

impl OutcomeDifference {
    /// One word for reports and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            OutcomeDifference::Verdict => "verdict",
            OutcomeDifference::Effects => "effects",
            OutcomeDifference::Packet => "packet",
            OutcomeDifference::StatefulQuestions => "stateful",
            OutcomeDifference::Credit => "credit",
        }
    }
}

impl Outcome<'_> {
    /// The first way in which two outcomes mean something else, or `None` if they are equal.
    ///
    /// Equal is: the same verdict, the same effects in the same order, the same packet, the same
    /// stateful matches evaluated in the same order, every original rule and policy counted as
    /// often. The number of rules tried may differ: that is what a cheaper ruleset is for.
    pub fn first_difference(&self, other: &Outcome<'_>) -> Option<OutcomeDifference> {
        if self.verdict != other.verdict {
            return Some(OutcomeDifference::Verdict);
        }
        if self.effects != other.effects {
            return Some(OutcomeDifference::Effects);
        }
        if self.packet != other.packet {
            return Some(OutcomeDifference::Packet);
        }
        let stateful = |o: &Outcome<'_>| -> Vec<_> {
            let kept = o.questions.iter().filter(|a| a.stateful);
            kept.map(|a| {
                (
                    a.credited_originals.to_vec(),
                    (a.content_digest, a.shared_object_config_digest),
                    a.answer,
                )
            })
            .collect()
        };
        if stateful(self) != stateful(other) {
            return Some(OutcomeDifference::StatefulQuestions);
        }
        (self.credited_counters() != other.credited_counters()).then_some(OutcomeDifference::Credit)
    }

    /// The original rules and policies that were counted, sorted, each as often as it counted.
    pub fn credited_counters(&self) -> Vec<CreditedCounter<'_>> {
        let mut all = Vec::with_capacity(self.hits.len());
        for hit in &self.hits {
            all.extend(hit.credited_originals.iter().map(|id| CreditedCounter::Rule(*id)));
            if let CountedObject::Policy { table, chain } = hit.counted_object {
                all.push(CreditedCounter::Policy(table, chain));
            }
        }
        all.sort_unstable();
        all
    }
}

/// An original counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CreditedCounter<'a> {
    /// A rule.
    Rule(OriginalRuleIndex),
    /// A policy.
    Policy(TableName, &'a str),
}
