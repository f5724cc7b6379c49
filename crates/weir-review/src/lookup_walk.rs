//! A table traversed by look-ups, compared with the interpreter.
//!
//! The look-ups of [`weir_classify::ruleset`] find which rules a packet matches. What they leave
//! open is evaluated by the interpreter, rule by rule. Everything that the interpreter records is
//! compared with its own traversal: the verdict, the rules that counted, the elements of sets that
//! counted, effects, questions and the packet.

use std::fmt;

use weir_classify::Engine;
use weir_classify::ruleset::{
    LookupProgram, LookupStructures, LookupVerdict, RuleEvaluation, RuleEvaluator,
};
use weir_model::{Firewall, Hook, Packet, Policy, RuleId, RulePlaceInTable, SharedName, TableName};
use weir_semantics::outcome::{CountedObject, CounterHitWithCredit};
use weir_semantics::{
    Interpreter, JourneyKind, Oracle, SeededOracle, SingleRuleOutcome, TraversalLog, Verdict,
};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

/// Evaluates single rules of a table as the interpreter does.
struct InterpreterRuleEvaluator<'i, 'f> {
    interpreter: &'i Interpreter<'f>,
    table: TableName,
    hook: Hook,
    oracle: &'i mut dyn Oracle,
    log: TraversalLog<'f>,
}

impl RuleEvaluator for InterpreterRuleEvaluator<'_, '_> {
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
        let outcome = self.interpreter.apply_single_target_uncounted(
            rule,
            self.hook,
            packet,
            self.oracle,
            log,
        );
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
pub struct LookupWalkResult<'f> {
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
    evaluated_rules_log: TraversalLog<'f>,
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
    OracleQuestions,
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
            LookupDifference::OracleQuestions => "the questions",
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
) -> LookupWalkResult<'f> {
    let table = program.table().name;
    let log = TraversalLog::default();
    let mut rules = InterpreterRuleEvaluator { interpreter, table, hook, oracle, log };
    let outcome = structures.traverse(&mut packet, &mut rules);
    let verdict = match outcome.verdict {
        LookupVerdict::Decided(Policy::Accept) | LookupVerdict::Policy(Policy::Accept) => {
            Verdict::Accept
        }
        LookupVerdict::Decided(Policy::Drop)
        | LookupVerdict::Policy(Policy::Drop)
        | LookupVerdict::DroppedByTest => Verdict::Drop,
        LookupVerdict::DecidedByEvaluator(verdict) => verdict,
        LookupVerdict::Returned => Verdict::Accept,
    };
    LookupWalkResult {
        verdict,
        credited: outcome.credited_rule_ids(program),
        lookup_count: outcome.lookup_count,
        evaluation_count: outcome.evaluation_count,
        packet,
        evaluated_rules_log: rules.log,
    }
}

/// The first way in which a traversal by look-ups differs from the interpreter's, which gave the
/// verdict and the log and left the packet as it is given.
pub fn find_lookup_difference(
    by_lookups: &LookupWalkResult<'_>,
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
            !list_element_hits(&by_lookups.evaluated_rules_log).eq(list_element_hits(log)),
            LookupDifference::SetElements,
        ),
        (by_lookups.evaluated_rules_log.effects != log.effects, LookupDifference::Effects),
        (
            by_lookups.evaluated_rules_log.questions != log.questions,
            LookupDifference::OracleQuestions,
        ),
        (by_lookups.packet != *packet, LookupDifference::Packet),
    ];
    differences.into_iter().find(|d| d.0).map(|d| d.1)
}

fn list_element_hits<'l, 'f>(
    log: &'l TraversalLog<'f>,
) -> impl Iterator<Item = &'l CounterHitWithCredit<'f>> {
    log.hits.iter().filter(|hit| matches!(hit.counted_object, CountedObject::IpsetElement { .. }))
}

/// A packet for which look-ups and the interpreter differ.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferingPacket {
    /// Its index.
    pub packet_index: usize,
    /// The engine of the structures that differ.
    pub engine: Engine,
    /// In what they differ first.
    pub difference: LookupDifference,
    /// What look-ups gave: the verdict and the rules that count.
    pub lookup_result: (Verdict, Vec<RuleId>),
    /// The same of the interpreter.
    pub interpreter_result: (Verdict, Vec<RuleId>),
}

/// Sends packets through a table by the interpreter, and by the look-ups of some engines, up to the
/// first difference. Questions are answered by `oracle`, which gives the same answer to the same
/// question.
pub fn find_differing_packet(
    program: &LookupProgram<'_>,
    structures_by_engine: &[LookupStructures<'_, '_>],
    interpreter: &Interpreter<'_>,
    hook: Hook,
    packets: &[Packet],
    oracle: &mut dyn Oracle,
) -> Option<DifferingPacket> {
    packets.iter().enumerate().find_map(|(packet_index, packet)| {
        let mut left = packet.clone();
        let (verdict, log) =
            interpreter.walk_table(program.table().name, hook, &mut left, &mut *oracle);
        structures_by_engine.iter().find_map(|structures| {
            let packet = packet.clone();
            let walk =
                walk_by_lookups(program, structures, interpreter, hook, packet, &mut *oracle);
            let difference = find_lookup_difference(&walk, verdict, &log, &left)?;
            let credited = log.hits.iter().filter_map(|hit| hit.rule_or_policy_id(left.family));
            Some(DifferingPacket {
                packet_index,
                engine: structures.engine(),
                difference,
                lookup_result: (walk.verdict, walk.credited),
                interpreter_result: (verdict, credited.collect()),
            })
        })
    })
}

/// Generates packets on and around every boundary of every rule of a firewall, for the hook of a
/// built-in chain, and compares them as [`find_differing_packet`]. How many there were, and the
/// first that differs.
pub fn compare_generated_packets(
    program: &LookupProgram<'_>,
    structures: &LookupStructures<'_, '_>,
    (interpreter, firewall): (&Interpreter<'_>, &Firewall),
    hook: Hook,
    (seed, packet_count): (u64, usize),
) -> (usize, Option<(Packet, DifferingPacket)>) {
    let Some(ruleset) = firewall.ruleset(program.family()) else { return (0, None) };
    let journey_kind = match hook {
        Hook::Input => JourneyKind::Input,
        Hook::Output => JourneyKind::Output,
        Hook::Prerouting | Hook::Forward | Hook::Postrouting => JourneyKind::Forward,
    };
    let options =
        TrafficOptions { seed, max_packets: packet_count, journey_kind, ..Default::default() };
    let mut packets = generate_boundary_and_random_packets(ruleset, &firewall.sets, &options);
    let structures = std::slice::from_ref(structures);
    let mut oracle = SeededOracle(seed);
    let found =
        find_differing_packet(program, structures, interpreter, hook, &packets, &mut oracle);
    let differing = found.map(|differing| (packets.swap_remove(differing.packet_index), differing));
    (packets.len(), differing)
}
