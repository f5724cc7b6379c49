//! A packet of a policy: its verdict by the interpreter, for every result of what it asks.
//!
//! Matches whose results a packet does not determine (`limit`, `owner`, an unknown match) are
//! answered in all combinations. If all lead to the same verdict, the packet is decided.

use weir_model::effect::{match_module_name, verdict_or_extension_name};
use weir_model::{
    Addr, Family, Field, FieldSet, Firewall, Hook, NatTarget, Packet, Test, lower_to_tests,
};
use weir_semantics::trace::{Trace, TraceStep, trace_journey};
use weir_semantics::{Interpreter, NatQuestion, Oracle, OracleQuestion, UnknownWrite, Verdict};
use weir_syntax::iptables;
use weir_syntax::packet::print_packet;
use weir_syntax::policy::PolicyTest;

use super::policy_report::{InvalidTestReason, PolicyPathReport, PolicyTestResult, TracedPacket};
use super::test_conditions::{
    assumed_result, is_assumed_not_to_drop, is_expected_verdict, journeys_of_test,
    missing_family_reason,
};
use crate::explain::{find_unspecified_fields, render_trace, trace_to_rows, verdict_words};

/// Combinations of results that are tried for one packet.
const RESULT_COMBINATIONS_MAX: usize = 1024;

/// Decides a packet, with the fields that its words give.
pub(super) fn decide_packet(
    test: &PolicyTest,
    (packet, given): (&Packet, FieldSet),
    firewall: &Firewall,
) -> Result<PolicyPathReport, InvalidTestReason> {
    let family = packet.family;
    if firewall.ruleset(family).is_none() {
        return Err(missing_family_reason(Some(family)));
    }
    let journey = journeys_of_test(test)[0];
    let interpreter = Interpreter::new(firewall);
    let mut script = ResultCombinationsOracle::new(test);
    let mut first: Option<(Verdict, Trace<'_>)> = None;
    let mut path = PolicyPathReport::new(family, journey, PolicyTestResult::Holds);
    for _ in 0..RESULT_COMBINATIONS_MAX {
        let trace = trace_journey(&interpreter, packet, journey, &mut script);
        require_tested_fields(&trace, packet, given)?;
        let verdict = trace.outcome.verdict;
        let differing = first.as_ref().filter(|(known, _)| *known != verdict);
        let why = match differing {
            Some((other, _)) => Some(format!(
                "{} if {}, else {}",
                verdict_words(verdict),
                script.describe_true_results(),
                verdict_words(*other)
            )),
            None if verdict == Verdict::Unknown => Some(verdict_words(verdict)),
            None => describe_tested_unknown_field(&trace, family, script.unknown_fields),
        };
        if why.is_some() {
            path.result = PolicyTestResult::Undecided;
            path.why = why;
            path.packet = Some(to_traced_packet(packet, &trace, Vec::new()));
            return Ok(path);
        }
        first.get_or_insert((verdict, trace));
        if !script.advance() {
            break;
        }
    }
    if script.has_untried_results() {
        path.result = PolicyTestResult::Undecided;
        path.why =
            Some(format!("more than {RESULT_COMBINATIONS_MAX} combinations of results of matches"));
    } else if let Some((verdict, trace)) = first
        && !is_expected_verdict(&test.expected, verdict)
    {
        path.result = PolicyTestResult::Fails;
        path.packet = Some(to_traced_packet(packet, &trace, Vec::new()));
    }
    Ok(path)
}

/// A packet with its path in words.
pub(super) fn to_traced_packet(
    packet: &Packet,
    trace: &Trace<'_>,
    stands_for: Vec<String>,
) -> TracedPacket {
    TracedPacket {
        packet: print_packet(packet),
        stands_for,
        verdict: verdict_words(trace.outcome.verdict),
        steps: trace_to_rows(trace),
        trace_text: render_trace(trace, &|rule| iptables::print_rule(rule, packet.family)),
    }
}

/// Refuses a packet without an address, device, port, … that a rule tests.
fn require_tested_fields(
    trace: &Trace<'_>,
    packet: &Packet,
    given: FieldSet,
) -> Result<(), InvalidTestReason> {
    let open = find_unspecified_fields(trace, packet, given);
    match open.iter().find(|field| field.must_be_given()) {
        None => Ok(()),
        Some(field) => Err(InvalidTestReason {
            message: format!(
                "the packet has no {}, which rule {} tests",
                field.nft_name, field.rule
            ),
            cure: format!("give its {}, or write `all` for packets with any", field.nft_name),
        }),
    }
}

/// A field whose value a target chose and that a rule then tested.
fn describe_tested_unknown_field(
    trace: &Trace<'_>,
    family: Family,
    unknown: FieldSet,
) -> Option<String> {
    let rules = trace.steps.iter().filter_map(|step| match step {
        TraceStep::TryRule { rule, .. } => Some(*rule),
        _ => None,
    });
    let tests = rules.flat_map(|rule| lower_to_tests(rule, family));
    let field = tests.into_iter().find_map(|test| match test {
        Test::Field { field, .. } if unknown.contains(field) => Some(field),
        Test::EitherPort { .. } if unknown.contains(Field::Dport) => Some(Field::Dport),
        _ => None,
    })?;
    Some(format!("a target chooses the {}, which a rule tests", field.row().name))
}

/// Gives matches each combination of results in turn ([`advance`](Self::advance)).
struct ResultCombinationsOracle<'p> {
    test: &'p PolicyTest,
    results: Vec<bool>,
    /// What was asked, in words.
    questions: Vec<String>,
    unknown_fields: FieldSet,
}

impl ResultCombinationsOracle<'_> {
    fn new(test: &PolicyTest) -> ResultCombinationsOracle<'_> {
        let unknown_fields = FieldSet::NONE;
        ResultCombinationsOracle {
            test,
            results: Vec::new(),
            questions: Vec::new(),
            unknown_fields,
        }
    }

    /// The next combination of results; `false` after the last.
    fn advance(&mut self) -> bool {
        self.results.truncate(self.questions.len());
        while self.results.last() == Some(&true) {
            self.results.pop();
        }
        if let Some(last) = self.results.last_mut() {
            *last = true;
        }
        self.questions.clear();
        !self.results.is_empty()
    }

    /// Whether [`ResultCombinationsOracle::advance`] was called last, and found more to try.
    fn has_untried_results(&self) -> bool {
        self.questions.is_empty() && !self.results.is_empty()
    }

    fn describe_true_results(&self) -> String {
        let asked = self.questions.iter().zip(&self.results);
        let words: Vec<&str> =
            asked.filter(|(_, result)| **result).map(|(words, _)| &**words).collect();
        words.join(" and ")
    }

    /// The result that the test assumes of a match.
    fn assumed_result(&self, question: &OracleQuestion<'_>) -> Option<bool> {
        let module = match_module_name(question.match_in_question()?, question.family);
        assumed_result(&self.test.assumed_results, module)
    }

    fn next_result(&mut self, question: &OracleQuestion<'_>, what: &str) -> bool {
        let words = match question.match_in_question() {
            Some(m) => iptables::print_match(m, question.family),
            None => iptables::print_target(&question.rule.target, question.family),
        };
        self.questions.push(format!("{} {what}", words.trim()));
        if self.results.len() < self.questions.len() {
            self.results.push(false);
        }
        self.results[self.questions.len() - 1]
    }
}

impl Oracle for ResultCombinationsOracle<'_> {
    fn match_holds_or_target_ends_traversal(&mut self, question: &OracleQuestion<'_>) -> bool {
        if let Some(result) = self.assumed_result(question) {
            return result;
        }
        let what = if question.match_in_question().is_some() { "matches" } else { "decides" };
        self.next_result(question, what)
    }

    fn match_or_target_drops_packet(&mut self, question: &OracleQuestion<'_>) -> bool {
        let dropper = match question.match_in_question() {
            Some(m) => Some(match_module_name(m, question.family)),
            None => verdict_or_extension_name(&question.rule.target),
        };
        let is_assumed_not_to = dropper.is_some_and(|name| is_assumed_not_to_drop(self.test, name));
        !is_assumed_not_to
            && self.assumed_result(question).is_none()
            && self.next_result(question, "drops the packet")
    }

    fn is_reinjected(&mut self, question: &OracleQuestion<'_>) -> bool {
        self.next_result(question, "gives the packet back")
    }

    fn choose_written_value(&mut self, write: &UnknownWrite<'_>) -> u128 {
        self.unknown_fields = self.unknown_fields.union(FieldSet::from_fields(&[write.field]));
        write.old_value
    }

    fn choose_nat_mapping(&mut self, nat: &NatQuestion<'_>) -> Option<(Addr, Option<u16>)> {
        let (range, has_device_address) = match nat.target {
            NatTarget::Dnat(range) => (range, false),
            NatTarget::Redirect(range) => (range, true),
            _ => return None,
        };
        if matches!(nat.hook, Hook::Prerouting | Hook::Output) {
            let mut fields = FieldSet::NONE;
            if has_device_address || range.addrs.is_some_and(|(low, high)| low != high) {
                fields = fields.union(FieldSet::from_fields(&[Field::Daddr]));
            }
            if range.ports.is_some_and(|(low, high)| low != high) {
                fields = fields.union(FieldSet::from_fields(&[Field::Dport]));
            }
            self.unknown_fields = self.unknown_fields.union(fields);
        }
        None
    }
}
