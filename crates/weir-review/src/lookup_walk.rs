//! A table traversed by look-ups, compared with the interpreter.
//!
//! The look-ups of [`weir_classify::ruleset`] find which rules a packet matches. What they leave
//! open is evaluated by the interpreter, rule by rule. Everything that the interpreter records is
//! compared with its own traversal: the verdict, the rules that counted, the elements of sets that
//! counted, effects, questions and the packet.

use std::fmt;

use weir_classify::ruleset::{
    LookupProgram, LookupStructures, LookupVerdict, RuleEvaluation, RuleEvaluator,
};
use weir_model::{Hook, Packet, Policy, RuleId, RulePlaceInTable, SharedName, TableName};
use weir_semantics::outcome::{CountedObject, CounterHitWithCredit};
use weir_semantics::{Interpreter, Oracle, SingleRuleOutcome, TraversalLog, Verdict};

/// Evaluates single rules of a table as the interpreter does.
struct InterpretedRules<'i, 'f> {
    interpreter: &'i Interpreter<'f>,
    table: TableName,
    hook: Hook,
    oracle: &'i mut dyn Oracle,
    log: TraversalLog<'f>,
}

impl RuleEvaluator for InterpretedRules<'_, '_> {
    type Verdict = Verdict;

    fn evaluate_rule(
        &mut self,
        rule: RulePlaceInTable,
        packet: &mut Packet,
    ) -> RuleEvaluation<Verdict> {
        let (rule, log) = ((self.table, rule), &mut self.log);
        let outcome =
            self.interpreter.evaluate_single_rule(rule, self.hook, packet, self.oracle, log);
        match outcome {
            SingleRuleOutcome::NotMatched => RuleEvaluation::NotMatched,
            SingleRuleOutcome::Matched => RuleEvaluation::Matched,
            SingleRuleOutcome::MatchedAndDecided(v) => RuleEvaluation::MatchedAndDecided(v),
            SingleRuleOutcome::DroppedByTest => RuleEvaluation::DroppedByTest,
        }
    }

    fn apply_target(&mut self, rule: RulePlaceInTable, packet: &mut Packet) -> Option<Verdict> {
        let (rule, log) = ((self.table, rule), &mut self.log);
        let outcome =
            self.interpreter.apply_single_target(rule, self.hook, packet, self.oracle, log);
        match outcome {
            SingleRuleOutcome::MatchedAndDecided(verdict) => Some(verdict),
            _ => None,
        }
    }

    fn is_in_set(&self, name: &SharedName, packet: &Packet, dirs: &[bool]) -> bool {
        self.interpreter.is_in_set(name, packet, dirs)
    }
}

/// What became of a packet in a table.
#[derive(Clone, Debug, PartialEq)]
pub struct LookupWalk<'f> {
    /// What became of it.
    pub verdict: Verdict,
    /// The rules that counted it, in order, jumps and the policy included.
    pub credited: Vec<RuleId>,
    /// How many look-ups it took.
    pub lookup_count: u32,
    /// How many rules were evaluated.
    pub evaluation_count: u32,
    /// The packet after it.
    pub packet: Packet,
    /// What the evaluated rules did; the hits are theirs and those of sets alone.
    log: TraversalLog<'f>,
}

/// In what look-ups and the interpreter differ: an error of weir.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupDifference {
    /// The verdict.
    Verdict,
    /// The rules that counted.
    CreditedRules,
    /// The elements of sets that counted.
    SetElements,
    /// What targets did.
    Effects,
    /// The questions that rules asked.
    Questions,
    /// The packet as it left.
    Packet,
}

impl fmt::Display for LookupDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LookupDifference::Verdict => "the verdict",
            LookupDifference::CreditedRules => "the rules that count",
            LookupDifference::SetElements => "the elements of sets that count",
            LookupDifference::Effects => "the effects",
            LookupDifference::Questions => "the questions",
            LookupDifference::Packet => "the packet as it leaves",
        })
    }
}

/// Sends a packet through a table by look-ups. The packet is as the table sees it.
pub fn walk_by_lookups<'f>(
    program: &LookupProgram<'_>,
    structures: &LookupStructures<'_, '_>,
    interpreter: &Interpreter<'f>,
    hook: Hook,
    mut packet: Packet,
    oracle: &mut dyn Oracle,
) -> LookupWalk<'f> {
    let table = program.table().name;
    let log = TraversalLog::default();
    let mut rules = InterpretedRules { interpreter, table, hook, oracle, log };
    let outcome = structures.traverse(&mut packet, &mut rules);
    let verdict = match outcome.verdict {
        LookupVerdict::Decided(Policy::Accept) | LookupVerdict::Policy(Policy::Accept) => {
            Verdict::Accept
        }
        LookupVerdict::Decided(Policy::Drop)
        | LookupVerdict::Policy(Policy::Drop)
        | LookupVerdict::DroppedByTest => Verdict::Drop,
        LookupVerdict::Evaluated(verdict) => verdict,
        LookupVerdict::Returned => Verdict::Accept,
    };
    LookupWalk {
        verdict,
        credited: outcome.credited_rule_ids(program),
        lookup_count: outcome.lookup_count,
        evaluation_count: outcome.evaluation_count,
        packet,
        log: rules.log,
    }
}

/// The first way in which a traversal by look-ups differs from the interpreter's, which gave the
/// verdict and the log and left the packet as it is given.
pub fn find_lookup_difference(
    by_lookups: &LookupWalk<'_>,
    verdict: Verdict,
    log: &TraversalLog<'_>,
    packet: &Packet,
) -> Option<LookupDifference> {
    let family = packet.family;
    let credited = log.hits.iter().filter_map(|hit| hit.rule_or_policy_id(family));
    let differences = [
        (by_lookups.verdict != verdict, LookupDifference::Verdict),
        (!credited.eq(by_lookups.credited.iter().cloned()), LookupDifference::CreditedRules),
        (
            !list_element_hits(&by_lookups.log).eq(list_element_hits(log)),
            LookupDifference::SetElements,
        ),
        (by_lookups.log.effects != log.effects, LookupDifference::Effects),
        (by_lookups.log.questions != log.questions, LookupDifference::Questions),
        (by_lookups.packet != *packet, LookupDifference::Packet),
    ];
    differences.into_iter().find(|d| d.0).map(|d| d.1)
}

fn list_element_hits<'l, 'f>(
    log: &'l TraversalLog<'f>,
) -> impl Iterator<Item = &'l CounterHitWithCredit<'f>> {
    log.hits.iter().filter(|hit| matches!(hit.counted_object, CountedObject::Element { .. }))
}

/// A packet for which look-ups and the interpreter differ.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferingPacket {
    /// Its index.
    pub packet_index: usize,
    /// In what they differ first.
    pub difference: LookupDifference,
    /// What look-ups gave: the verdict and the rules that count.
    pub by_lookups: (Verdict, Vec<RuleId>),
    /// The same of the interpreter.
    pub by_interpreter: (Verdict, Vec<RuleId>),
}

/// Sends packets through a table by look-ups and by the interpreter, up to the first difference.
/// Questions are answered by `oracle`, which gives the same answer to the same question.
pub fn find_differing_packet(
    program: &LookupProgram<'_>,
    structures: &LookupStructures<'_, '_>,
    interpreter: &Interpreter<'_>,
    hook: Hook,
    packets: &[Packet],
    oracle: &mut dyn Oracle,
) -> Option<DifferingPacket> {
    packets.iter().enumerate().find_map(|(packet_index, packet)| {
        let walk = walk_by_lookups(program, structures, interpreter, hook, packet.clone(), oracle);
        let mut left = packet.clone();
        let (verdict, log) = interpreter.walk_table(program.table().name, hook, &mut left, oracle);
        let difference = find_lookup_difference(&walk, verdict, &log, &left)?;
        let credited = log.hits.iter().filter_map(|hit| hit.rule_or_policy_id(left.family));
        Some(DifferingPacket {
            packet_index,
            difference,
            by_lookups: (walk.verdict, walk.credited),
            by_interpreter: (verdict, credited.collect()),
        })
    })
}
