//! The remaining rules of a cell, compared by their tests of other fields.
//!
//! All packets of the cell pass the tests of addresses and devices of these rules, which are
//! therefore omitted, as are tests of ports that all of them pass. What remains of a rule is a list
//! of stateless header tests and a target: a [`RemainingRule`]. A test of a set of addresses with
//! ports becomes a test of the ports that are members with every address of the cell.
//!
//! A rule is normalised when it is collected: tests that others imply are removed, and a negated
//! test of one bit is one of its other value. The extension headers of IPv6 are taken as whole, as
//! everywhere in proofs (`docs/semantics.md`).
//!
//! Two lists are equal if they are identical after normalisation: rules after one that matches
//! everything and repeated rules are removed, a rule for either port is a rule for each, and rules
//! for different protocols or destination ports, of which a packet matches at most one, are sorted.
//! If they still differ, small diagrams decide ([`ProofDiagrams`]).

use std::collections::{HashMap, HashSet};

use weir_model::{
    Field, Match, Predicate, Rule, TableName, Target, Test, lower_to_tests_with_match_index,
    match_effects,
};
use weir_partition::{IntervalSet, is_transport_header_or_hotdrop_test};
use weir_semantics::Verdict;

use crate::bdd::node_store::DiagramRef;
use crate::lockstep::lockstep_rules::LockstepRule;
use crate::lockstep::packet_cell::{CellTestResults, PacketCell};
use crate::lockstep::proof_diagrams::ProofDiagrams;
use crate::packet_sets::hook_context::HookContext;
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::rule_and_chain_diagrams::BuildError;
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::rule_diagrams::terminal::RuleExit;
use crate::same_rule_tests::{
    SameTestCriteria, field_tested_for_presence_only, remove_first_fragment_test,
    remove_implied_first_fragment_test,
};

/// A rule as it applies to packets of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RemainingRule {
    tests: Vec<RemainingTest>,
    target: RemainingTarget,
}

/// A stateless test of such a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RemainingTest {
    test: Test,
    /// Whether it is from multiport, which treats truncated headers differently.
    is_multiport: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RemainingTarget {
    None,
    Accept,
    Drop,
    LeaveChain,
    Reject(&'static str),
}

impl RemainingRule {
    /// Leaves the chain with every packet.
    pub const LEAVE_CHAIN: RemainingRule =
        RemainingRule { tests: Vec::new(), target: RemainingTarget::LeaveChain };

    /// Appends a rule as it applies to packets of a cell, all of which pass its tests of addresses
    /// and devices; `None` if its effect depends on state or is unknown.
    pub fn append_rule_as_seen_in_cell(
        rule: &LockstepRule<'_>,
        (cell, results): (&PacketCell, CellTestResults),
        criteria: SameTestCriteria,
        list: &mut Vec<RemainingRule>,
    ) -> Option<()> {
        let target = match rule.rule.target {
            Target::None => RemainingTarget::None,
            Target::Accept => RemainingTarget::Accept,
            Target::Drop => RemainingTarget::Drop,
            Target::Return => RemainingTarget::LeaveChain,
            Target::Reject(word) => RemainingTarget::Reject(word),
            _ => return None,
        };
        let UndecidedTests { mut tests, has_address_port_test } =
            collect_undecided_tests(rule, (cell, results), criteria)?;
        let address_port_test = rule.tests.address_port_test.as_ref();
        let Some(ports) = address_port_test.filter(|_| has_address_port_test) else {
            merge_presence_tests(&mut tests);
            push_rule_if_it_has_an_effect(RemainingRule { tests, target }, list);
            return Some(());
        };
        // The header is read before: if it is truncated, the packet is dropped.
        let protocol = find_exact_protocol(&tests).filter(|proto| matches!(proto, 6 | 17))?;
        tests.iter().find(|test| test.is_port_test_of_complete_header())?;
        let field = if ports.is_source_port { Field::Sport } else { Field::Dport };
        let members = ports.members.common_ports_of_addresses(&cell.values[ports.axis])?;
        for (_, port) in members.iter().filter(|(of, _)| *of == protocol) {
            let mut tests = tests.clone();
            let port = u128::from(*port);
            tests.push(RemainingTest {
                test: Test::Field {
                    field,
                    predicate: Predicate::InSpans(vec![(port, port)]),
                    negated: false,
                },
                is_multiport: false,
            });
            merge_presence_tests(&mut tests);
            push_rule_if_it_has_an_effect(RemainingRule { tests, target }, list);
        }
        // The rule is evaluated although it matches nothing.
        tests.push(RemainingTest { test: Test::Never, is_multiport: false });
        if !members.iter().any(|(of, _)| *of == protocol) {
            push_rule_if_it_has_an_effect(RemainingRule { tests, target }, list);
        }
        Some(())
    }

    /// The tests of a jump as they apply to packets of a cell, all of which pass its tests of
    /// addresses and devices; `None` if they depend on state or a set.
    pub fn tests_of_jump(
        rule: &LockstepRule<'_>,
        of_cell: (&PacketCell, CellTestResults),
        criteria: SameTestCriteria,
    ) -> Option<Vec<RemainingTest>> {
        let UndecidedTests { tests, has_address_port_test } =
            collect_undecided_tests(rule, of_cell, criteria)?;
        (!has_address_port_test).then_some(tests)
    }

    /// The rule for packets that pass other tests before.
    pub fn prepend_guard(&mut self, guard: &[RemainingTest], criteria: SameTestCriteria) {
        self.tests.splice(0..0, guard.iter().cloned());
        // The same test gives the same answer, and drops no packet that it has not dropped before.
        let mut seen = HashSet::new();
        self.tests.retain(|test| seen.insert(test.clone()));
        if criteria.headers_are_whole {
            remove_implied_first_fragment_test(&mut self.tests, |test| &test.test);
        }
        merge_presence_tests(&mut self.tests);
    }

    /// The rule that only evaluates tests; `None` if that has no effect.
    pub fn only_tests_if_they_may_drop(tests: Vec<RemainingTest>) -> Option<RemainingRule> {
        let rule = RemainingRule { tests, target: RemainingTarget::None };
        rule.can_drop_truncated().then_some(rule)
    }

    /// Whether no packet reaches the rules after it.
    pub fn is_always_last(&self) -> bool {
        self.tests.is_empty() && self.target != RemainingTarget::None
    }

    /// The only protocol whose packets it affects.
    fn exact_protocol(&self) -> Option<u128> {
        find_exact_protocol(&self.tests).map(u128::from)
    }

    /// The destination port of every packet that matches, by a test that no packet with a truncated
    /// header passes.
    fn exact_destination_port(&self) -> Option<u128> {
        self.tests.iter().find_map(|test| match &test.test {
            Test::Field {
                field: Field::Dport,
                predicate: Predicate::InSpans(spans),
                negated: false,
            } if test.is_port_test_of_complete_header() => match spans[..] {
                [(lo, hi)] if lo == hi => Some(lo),
                _ => None,
            },
            _ => None,
        })
    }

    /// The protocol and destination port of every packet that matches.
    fn exact_service(&self) -> Option<(u128, u128)> {
        self.exact_protocol().zip(self.exact_destination_port())
    }

    fn can_drop_truncated(&self) -> bool {
        self.tests.iter().any(|test| is_transport_header_or_hotdrop_test(&test.test))
    }
}

impl RemainingTest {
    fn new(
        rule: &Rule,
        from: Option<usize>,
        test: Test,
        criteria: SameTestCriteria,
    ) -> Option<RemainingTest> {
        if matches!(test, Test::Opaque { .. } | Test::Set { .. }) {
            return None;
        }
        let is_multiport = !criteria.headers_are_whole
            && from.is_some_and(|index| matches!(rule.matches[index], Match::Multiport { .. }));
        let test = match field_tested_for_presence_only(&test, criteria.family) {
            Some(field) => Test::Field { field, predicate: Predicate::Present, negated: false },
            None => remove_negation_of_single_bit_test(test),
        };
        Some(RemainingTest { test, is_multiport })
    }

    /// A test of a port that holds only if the transport header is complete.
    fn is_port_test_of_complete_header(&self) -> bool {
        !self.is_multiport
            && matches!(self.test, Test::Field { field: Field::Sport | Field::Dport, .. })
    }

    fn is_port_presence_test(&self) -> bool {
        self.is_port_test_of_complete_header()
            && matches!(
                self.test,
                Test::Field { predicate: Predicate::Present, negated: false, .. }
            )
    }
}

/// The tests of a rule that a cell does not decide.
struct UndecidedTests {
    tests: Vec<RemainingTest>,
    /// Whether a test of an address with a port follows, which is not among them.
    has_address_port_test: bool,
}

/// `None` if tests depend on state or are not known.
fn collect_undecided_tests(
    rule: &LockstepRule<'_>,
    (cell, results): (&PacketCell, CellTestResults),
    criteria: SameTestCriteria,
) -> Option<UndecidedTests> {
    let is_stateless = |m: &Match| {
        let effects = match_effects(m, criteria.family);
        matches!(m, Match::Set(_)) || !effects.is_stateful() && effects.writes.is_empty()
    };
    if !rule.rule.matches.iter().all(is_stateless) {
        return None;
    }
    let mut lowered = lower_to_tests_with_match_index(rule.rule, criteria.family);
    if criteria.headers_are_whole {
        remove_implied_first_fragment_test(&mut lowered, |(_, test)| test);
    }
    if cell.has_only_packets_with_ports() {
        remove_first_fragment_test(&mut lowered, |(_, test)| test);
    }
    let decided = &rule.tests.decided_tests;
    lowered.retain(|(from, test)| !decided.is_decided_by_results(*from, test, results));
    let has_address_port_test = rule.tests.address_port_test.as_ref().is_some_and(|ports| {
        lowered.pop_if(|(from, _)| *from == Some(ports.match_index)).is_some()
    });
    let tests =
        lowered.into_iter().map(|(from, test)| RemainingTest::new(rule.rule, from, test, criteria));
    Some(UndecidedTests { tests: tests.collect::<Option<_>>()?, has_address_port_test })
}

/// A negated test of one bit, as a test of its other value.
fn remove_negation_of_single_bit_test(test: Test) -> Test {
    match test {
        Test::Field { field, predicate: Predicate::Masked { value, mask }, negated: true }
            if mask.is_power_of_two() && value & !mask == 0 =>
        {
            let predicate = Predicate::Masked { value: value ^ mask, mask };
            Test::Field { field, predicate, negated: false }
        }
        other => other,
    }
}

fn push_rule_if_it_has_an_effect(rule: RemainingRule, list: &mut Vec<RemainingRule>) {
    if rule.target != RemainingTarget::None || rule.can_drop_truncated() {
        list.push(rule);
    }
}

/// The protocol of the test that only holds for one. It precedes all tests of headers.
fn find_exact_protocol(tests: &[RemainingTest]) -> Option<u8> {
    let before_headers =
        tests.iter().take_while(|test| !is_transport_header_or_hotdrop_test(&test.test));
    before_headers.into_iter().find_map(|test| match &test.test {
        Test::Field {
            field: Field::Proto,
            predicate: Predicate::InSpans(spans),
            negated: false,
        } => match spans[..] {
            [(lo, hi)] if lo == hi => u8::try_from(lo).ok(),
            _ => None,
        },
        _ => None,
    })
}

/// Removes tests that the header with the ports is present after a test of a port, which only a
/// packet with that header passes.
fn remove_implied_presence_tests(tests: &mut Vec<RemainingTest>) {
    let first = tests.iter().position(RemainingTest::is_port_test_of_complete_header);
    let Some(first) = first else { return };
    let later = tests.split_off(first + 1);
    tests.extend(later.into_iter().filter(|test| !test.is_port_presence_test()));
}

/// Replaces a test that the header is present, if followed by a test of a port, by the latter,
/// which drops the same packets. Tests between them have no effect.
fn replace_presence_by_next_port_test(tests: &mut Vec<RemainingTest>) {
    let Some(presence) = tests.iter().position(RemainingTest::is_port_presence_test) else {
        return;
    };
    let later = presence + 1;
    let next =
        tests[later..].iter().position(|test| is_transport_header_or_hotdrop_test(&test.test));
    if let Some(next) = next.filter(|next| tests[later + next].is_port_test_of_complete_header()) {
        tests[presence] = tests.remove(later + next);
    }
}

fn merge_presence_tests(tests: &mut Vec<RemainingTest>) {
    remove_implied_presence_tests(tests);
    replace_presence_by_next_port_test(tests);
}

/// Compares lists of remaining rules, and caches their diagrams.
#[derive(Debug)]
pub(crate) struct RemainingRulesComparer<'f> {
    pub diagrams: ProofDiagrams<'f>,
    /// Diagrams of rules, valid for the current generation.
    rule_diagrams: HashMap<RemainingRule, DiagramRef>,
    diagrams_generation: u64,
}

impl<'f> RemainingRulesComparer<'f> {
    pub fn new(diagrams: ProofDiagrams<'f>) -> RemainingRulesComparer<'f> {
        RemainingRulesComparer { diagrams, rule_diagrams: HashMap::new(), diagrams_generation: 0 }
    }

    /// Whether both lists do the same to all packets of a cell, by comparison of normalised lists.
    pub fn normalize_and_compare(lists: &mut [Vec<RemainingRule>; 2]) -> bool {
        for list in &mut *lists {
            *list = normalize_remaining_rules(std::mem::take(list));
        }
        lists[0] == lists[1]
    }

    pub fn have_equal_diagrams(
        &mut self,
        lists: &[Vec<RemainingRule>; 2],
        visits_left: &mut u64,
    ) -> bool {
        let Some(generation) = self.diagrams.prepare_context_and_get_generation(visits_left) else {
            return false;
        };
        if generation != self.diagrams_generation {
            self.rule_diagrams.clear();
            self.diagrams_generation = generation;
        }
        let rule_diagrams = &mut self.rule_diagrams;
        self.diagrams.are_equal(visits_left, |context, side| {
            let mut whole = DiagramRef::ZERO;
            for rule in lists[side].iter().rev() {
                let one = match rule_diagrams.get(rule) {
                    Some(known) => *known,
                    None => build_remaining_rule_diagram(context, rule)?,
                };
                rule_diagrams.insert(rule.clone(), one);
                whole = context.compose_sequential(one, whole)?;
            }
            Ok(whole)
        })
    }
}

fn normalize_remaining_rules(list: Vec<RemainingRule>) -> Vec<RemainingRule> {
    let mut list: Vec<RemainingRule> = list.into_iter().flat_map(split_either_port).collect();
    if let Some(last) = list.iter().position(RemainingRule::is_always_last) {
        list.truncate(last + 1);
    }
    if list.len() > 1 {
        let mut seen = HashSet::new();
        list.retain(|rule| seen.insert(rule.clone()));
        for run in list.chunk_by_mut(|a, b| a.exact_protocol().and(b.exact_protocol()).is_some()) {
            run.sort_by_key(RemainingRule::exact_protocol);
        }
        // The rules of a run commute: a packet matches rules of one service only. With a truncated
        // header it matches none, and whichever rule drops it, it is dropped.
        for run in list.chunk_by_mut(|a, b| a.exact_service().and(b.exact_service()).is_some()) {
            run.sort_by_key(RemainingRule::exact_service);
        }
    }
    list
}

/// A rule of packets with a port as source or destination, as a rule for each.
fn split_either_port(rule: RemainingRule) -> Vec<RemainingRule> {
    let either_port = rule.tests.iter().enumerate().find_map(|(at, test)| match &test.test {
        Test::EitherPort { spans, negated: false } => Some((at, spans)),
        _ => None,
    });
    let Some((at, spans)) = either_port else { return vec![rule] };
    let spans = IntervalSet::from_intervals(spans.clone()).intervals().to_vec();
    let of_field = |field| {
        let mut rule = rule.clone();
        let predicate = Predicate::InSpans(spans.clone());
        rule.tests[at].test = Test::Field { field, predicate, negated: false };
        rule
    };
    vec![of_field(Field::Sport), of_field(Field::Dport)]
}

/// As [`DiagramContext::build_rule`] does for a rule with these tests.
fn build_remaining_rule_diagram(
    context: &mut DiagramContext<'_>,
    rule: &RemainingRule,
) -> Result<DiagramRef, BuildError> {
    let place = TableHookContext { point: HookContext::EVERYTHING_KNOWN, table: TableName::Filter };
    let drop = context.terminals.exit_leaf(RuleExit::Verdict(Verdict::Drop));
    let mut out = match rule.target {
        RemainingTarget::None => DiagramRef::ZERO,
        RemainingTarget::Accept => context.terminals.exit_leaf(RuleExit::Verdict(Verdict::Accept)),
        RemainingTarget::Drop => drop,
        RemainingTarget::LeaveChain => context.terminals.exit_leaf(RuleExit::Return),
        RemainingTarget::Reject(word) => {
            context.build_extension_target(&Target::Reject(word), 0, place)?
        }
    };
    for RemainingTest { test, is_multiport } in rule.tests.iter().rev() {
        let space = &mut context.space;
        let lowered = match test {
            Test::Field { field, predicate, negated } => {
                space.lower_field_test(*field, predicate, *negated, *is_multiport, place.point)?
            }
            other => {
                let no_rule = Rule::unconditional(Target::None);
                space.lower_test(&no_rule, 0, None, other, place.point)?
            }
        };
        out = space.store.and(lowered.matching_packets, out)?;
        if lowered.dropped_packets != DiagramRef::ZERO {
            let dropped = space.store.and(lowered.dropped_packets, drop)?;
            out = space.store.first_nonzero(dropped, out)?;
        }
    }
    Ok(out)
}
