//! A packet that two rulesets treat differently, from the rules that changed.
//!
//! All packets of a difference need diagrams of all that these packets traverse. One of them is
//! mostly found in the packets that a changed rule matches, by the interpreter. It shows that the
//! rulesets differ before that is described, and where it cannot be described within the limits.

use weir_model::{Rule, Test, lower_to_tests_with_match_index};
use weir_semantics::{OutcomeDifference, Verdict};

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::compared_pair::ComparedPair;
use crate::comparison_types::{ComparedPath, DiagramSizeAndSteps};
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::region::ComparedExamplePacket;
use crate::packet_sets::variable_layout::VariableOrder;
use crate::rule_diagrams::compose::DiagramContext;

/// A rule that only one of two rulesets has in its place, on a path to it.
#[derive(Debug)]
pub(crate) struct ChangedRuleOnPath<'f> {
    pub path: ComparedPath,
    pub point: HookContext,
    /// Whose it is.
    pub side: usize,
    pub rule: &'f Rule,
    /// Tests of the jumps that lead to it.
    pub passed: Vec<Test>,
}

/// Changed rules that are tried, and packets of each.
const TRIED_RULES_MAX: usize = 32;
const PACKETS_PER_RULE: usize = 16;
const CHANGED_RULE_SEARCH_STEPS_MAX: u64 = 200_000;
/// Elements of a set that are tried.
const IPSET_SAMPLE_SIZE: usize = 64;

impl<'f> ComparedPair<'f> {
    /// A packet of this path that a changed rule matches and that the rulesets treat differently:
    /// one that is newly allowed rather than another. `None` if no packet that was tried is one.
    pub fn find_differing_packet_of_changed_rules(
        &self,
        changed_rules: &[ChangedRuleOnPath<'f>],
        statistics: &mut DiagramSizeAndSteps,
    ) -> Option<ComparedExamplePacket> {
        let space = self.make_packet_space(VariableOrder::default()).ok()?;
        let mut context = DiagramContext::new(space.with_sampled_ipsets(IPSET_SAMPLE_SIZE));
        context.space.store.steps = statistics.steps;
        context.space.store.steps_max =
            (statistics.steps + CHANGED_RULE_SEARCH_STEPS_MAX).min(self.steps_max);
        let found = self.try_packets_of_changed_rules(&mut context, changed_rules);
        statistics.record_context_size_and_steps(&context);
        found
    }

    fn try_packets_of_changed_rules(
        &self,
        context: &mut DiagramContext<'f>,
        changed_rules: &[ChangedRuleOnPath<'f>],
    ) -> Option<ComparedExamplePacket> {
        // What PREROUTING drops of a datagram is costly to find out: ReassembledInput has none.
        let is_on_path = |changed: &&ChangedRuleOnPath<'_>| changed.path == self.path;
        let mut best: Option<ComparedExamplePacket> = None;
        for changed in changed_rules.iter().filter(is_on_path).take(TRIED_RULES_MAX) {
            let Ok(packets) = self.packets_matching_changed_rule(context, changed) else {
                break;
            };
            if packets == DiagramRef::ZERO {
                continue;
            }
            for witness in context.witnesses(packets, PACKETS_PER_RULE) {
                let Some((difference, verdicts)) = self.reproduce_witness(&witness) else {
                    continue;
                };
                let found = ComparedExamplePacket { witness, difference, verdicts };
                if importance(&found) == IMPORTANCE_MAX {
                    return Some(found);
                }
                if best.as_ref().is_none_or(|best| importance(best) < importance(&found)) {
                    best = Some(found);
                }
            }
        }
        best
    }

    /// The possible packets that pass the tests on the way to the rule, and match it. What rules
    /// before it write is not regarded: the packets are only tried.
    fn packets_matching_changed_rule(
        &self,
        context: &mut DiagramContext<'f>,
        changed: &ChangedRuleOnPath<'f>,
    ) -> Result<DiagramRef, LimitReached> {
        let side = &self.sides[changed.side];
        let state_id =
            side.activate_ipsets_get_state_ids(&mut context.space).stateful_test_id(changed.rule);
        let space = &mut context.space;
        let own = lower_to_tests_with_match_index(changed.rule, self.family);
        let passed = changed.passed.iter().map(|test| (None, test.clone()));
        let mut packets = space.possible_packets;
        for (from, test) in own.into_iter().chain(passed).rev() {
            let lowered = space.lower_test(changed.rule, state_id, from, &test, changed.point)?;
            packets = space.store.and(lowered.matching_packets, packets)?;
        }
        Ok(packets)
    }
}

const IMPORTANCE_MAX: u8 = 3;

/// How much somebody wants to know of a difference: what is newly allowed first, then what is newly
/// denied, then what is denied otherwise.
fn importance(example: &ComparedExamplePacket) -> u8 {
    match (example.difference, example.verdicts) {
        (OutcomeDifference::Verdict, (_, Verdict::Accept)) => IMPORTANCE_MAX,
        (OutcomeDifference::Verdict, (Verdict::Accept, _)) => 2,
        (OutcomeDifference::Verdict, _) => 1,
        _ => 0,
    }
}
