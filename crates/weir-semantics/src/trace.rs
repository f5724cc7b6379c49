//! One packet's journey, step by step.
//!
//! [`trace_journey`] evaluates a packet's journey and records every table that it entered and every
//! rule that was tried, with the test that was false.

use std::sync::Arc;

use weir_model::{
    Hook, Match, Packet, Rule, SharedName, TableName, lower_to_tests_with_match_index,
    match_effects,
};

use crate::interpreter::{FailedOrHotdropTest, Interpreter, WalkObserver};
use crate::journey_kind::JourneyKind;
use crate::oracle::Oracle;
use crate::outcome::{Outcome, Verdict};

/// The steps of a packet's journey, and its outcome.
#[derive(Clone, Debug)]
pub struct Trace<'f> {
    /// What happened, in order.
    pub steps: Vec<TraceStep<'f>>,
    /// The outcome of the packet.
    pub outcome: Outcome<'f>,
}

/// One step of a journey.
#[derive(Clone, Debug)]
pub enum TraceStep<'f> {
    /// A table was entered.
    EnterTable {
        /// At which hook.
        hook: Hook,
        /// Which table.
        table: TableName,
        /// The packet as the table sees it.
        packet: Arc<Packet>,
    },
    /// A rule was tried.
    TryRule {
        /// Table.
        table: TableName,
        /// Chain.
        chain: &'f SharedName,
        /// Jumps from the built-in chain to this one.
        depth: usize,
        /// Number from 1.
        number: u32,
        /// The rule itself.
        rule: &'f Rule,
        /// Which test was false; `None` if all were true and the rule counted.
        failed: Option<FailedTest>,
    },
    /// A table was left.
    LeaveTable {
        /// Which table.
        table: TableName,
        /// Chain that the packet was in.
        chain: &'f SharedName,
        /// The outcome of the packet.
        verdict: Verdict,
        /// It is the built-in chain's policy.
        policy: bool,
    },
}

/// The first test of a rule that did not hold for a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedTest {
    /// Index of the test in [`lower_to_tests`](weir_model::lower_to_tests).
    pub test_index: usize,
    /// The match that the test belongs to, an index into the rule's matches; `None` for
    /// `-s -d -i -o -p -f`.
    pub match_index: Option<usize>,
    /// The packet was dropped immediately.
    pub hotdrop: bool,
    /// The packet when the test was evaluated, after what earlier matches of the rule wrote; steps
    /// between two changes share it.
    pub packet: Arc<Packet>,
}

/// Follows a packet through a journey.
pub fn trace_journey<'f>(
    interpreter: &Interpreter<'f>,
    packet: &Packet,
    entry: JourneyKind,
    answers: &mut dyn Oracle,
) -> Trace<'f> {
    let mut recorder = TraceRecorder::default();
    let outcome = interpreter.evaluate_journey_observed(packet, entry, answers, &mut recorder);
    Trace { steps: recorder.steps, outcome }
}

/// Follows a packet through one hook alone.
pub fn trace_at_hook<'f>(
    interpreter: &Interpreter<'f>,
    packet: &Packet,
    hook: Hook,
    answers: &mut dyn Oracle,
) -> Trace<'f> {
    let mut recorder = TraceRecorder::default();
    let outcome = interpreter.traverse_hook_observed(packet, hook, answers, &mut recorder);
    Trace { steps: recorder.steps, outcome }
}

/// Where the packet is.
struct TracePosition<'f> {
    table: TableName,
    chain: Option<&'f SharedName>,
    depth: usize,
}

#[derive(Default)]
struct TraceRecorder<'f> {
    steps: Vec<TraceStep<'f>>,
    position: Option<TracePosition<'f>>,
    /// The packet when it entered a table or reached a rule that did not match, most recently.
    packet: Option<Arc<Packet>>,
    /// A rule may have changed the packet since: to compare it for each rule takes longer than the
    /// walk.
    may_packet_differ: bool,
}

impl TraceRecorder<'_> {
    fn reuse_or_store_packet(&mut self, packet: &Packet) -> Arc<Packet> {
        let may_differ = std::mem::replace(&mut self.may_packet_differ, false);
        match &self.packet {
            Some(last) if !may_differ || **last == *packet => Arc::clone(last),
            _ => Arc::clone(self.packet.insert(Arc::new(packet.clone()))),
        }
    }
}

impl<'f> WalkObserver<'f> for TraceRecorder<'f> {
    fn on_table_entered(&mut self, hook: Hook, table: TableName, packet: &Packet) {
        // Conntrack and routing change it between tables.
        self.may_packet_differ = true;
        let packet = self.reuse_or_store_packet(packet);
        self.steps.push(TraceStep::EnterTable { hook, table, packet });
        self.position = Some(TracePosition { table, chain: None, depth: 0 });
    }

    fn on_chain_entered_or_resumed(&mut self, chain: &'f SharedName, depth: usize) {
        if let Some(at) = &mut self.position {
            (at.chain, at.depth) = (Some(chain), depth);
        }
    }

    fn on_rule_tried(
        &mut self,
        rule: &'f Rule,
        number: u32,
        failed: Option<FailedOrHotdropTest>,
        packet: &Packet,
    ) {
        let Some(TracePosition { table, chain: Some(chain), depth }) = self.position else {
            return;
        };
        let failed = failed.map(|f| {
            let (in_match, _) = lower_to_tests_with_match_index(rule, packet.family)[f.test_index];
            let passed_matches = &rule.matches[..in_match.unwrap_or(0)];
            let writes = |m: &Match| !match_effects(m, packet.family).writes.is_empty();
            self.may_packet_differ |= passed_matches.iter().any(writes);
            let packet = self.reuse_or_store_packet(packet);
            FailedTest {
                test_index: f.test_index,
                match_index: in_match,
                hotdrop: f.hotdrop,
                packet,
            }
        });
        self.may_packet_differ |= failed.is_none();
        self.steps.push(TraceStep::TryRule { table, chain, depth, number, rule, failed });
    }

    fn on_table_left(&mut self, verdict: Verdict, policy: bool) {
        let Some(TracePosition { table, chain: Some(chain), .. }) = self.position else { return };
        self.steps.push(TraceStep::LeaveTable { table, chain, verdict, policy });
    }
}
