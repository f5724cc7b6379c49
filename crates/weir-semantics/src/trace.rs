//! One packet's journey, step by step.
//!
//! [`trace`] evaluates a packet's journey and records every table that it entered and every rule
//! that was tried, with the test that was false.

use std::sync::Arc;

use weir_model::{Hook, Name, Packet, Rule, TableName, located_tests_of};

use crate::entry::Entry;
use crate::interpreter::{Failed, Interpreter, Observer};
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
    Table {
        /// At which hook.
        hook: Hook,
        /// Which table.
        table: TableName,
    },
    /// A rule was tried.
    Rule {
        /// Table.
        table: TableName,
        /// Chain.
        chain: &'f Name,
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
    Verdict {
        /// Which table.
        table: TableName,
        /// Chain that the packet was in.
        chain: &'f Name,
        /// The outcome of the packet.
        verdict: Verdict,
        /// It is the built-in chain's policy.
        policy: bool,
    },
}

/// The first test of a rule that did not hold for a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedTest {
    /// Index of the test in [`tests_of`](weir_model::tests_of).
    pub test: usize,
    /// The match that the test belongs to, an index into the rule's matches; `None` for
    /// `-s -d -i -o -p -f`.
    pub in_match: Option<usize>,
    /// The packet was dropped immediately.
    pub hotdrop: bool,
    /// The packet when it reached the rule; steps between two changes share it.
    pub packet: Arc<Packet>,
}

/// Follows a packet through a journey.
pub fn trace<'f>(
    interpreter: &Interpreter<'f>,
    packet: &Packet,
    entry: Entry,
    answers: &mut dyn Oracle,
) -> Trace<'f> {
    let mut recorder = Recorder::default();
    let outcome = interpreter.journey_observed(packet, entry, answers, &mut recorder);
    Trace { steps: recorder.steps, outcome }
}

/// Follows a packet through one hook alone.
pub fn trace_at_hook<'f>(
    interpreter: &Interpreter<'f>,
    packet: &Packet,
    hook: Hook,
    answers: &mut dyn Oracle,
) -> Trace<'f> {
    let mut recorder = Recorder::default();
    let outcome = interpreter.at_hook_observed(packet, hook, answers, &mut recorder);
    Trace { steps: recorder.steps, outcome }
}

/// Where the packet is.
struct TracePosition<'f> {
    table: TableName,
    chain: Option<&'f Name>,
    depth: usize,
}

#[derive(Default)]
struct Recorder<'f> {
    steps: Vec<TraceStep<'f>>,
    at: Option<TracePosition<'f>>,
    /// The packet when it reached the last rule that did not match.
    packet: Option<Arc<Packet>>,
}

impl Recorder<'_> {
    fn shared(&mut self, packet: &Packet) -> Arc<Packet> {
        match &self.packet {
            Some(last) if **last == *packet => Arc::clone(last),
            _ => Arc::clone(self.packet.insert(Arc::new(packet.clone()))),
        }
    }
}

impl<'f> Observer<'f> for Recorder<'f> {
    fn table(&mut self, hook: Hook, table: TableName, _: &Packet) {
        self.steps.push(TraceStep::Table { hook, table });
        self.at = Some(TracePosition { table, chain: None, depth: 0 });
    }

    fn chain(&mut self, chain: &'f Name, depth: usize) {
        if let Some(at) = &mut self.at {
            (at.chain, at.depth) = (Some(chain), depth);
        }
    }

    fn rule(&mut self, rule: &'f Rule, number: u32, failed: Option<Failed>, packet: &Packet) {
        let Some(TracePosition { table, chain: Some(chain), depth }) = self.at else { return };
        let failed = failed.map(|f| {
            let (in_match, _) = located_tests_of(rule, packet.family)[f.test];
            let packet = self.shared(packet);
            FailedTest { test: f.test, in_match, hotdrop: f.hotdrop, packet }
        });
        self.steps.push(TraceStep::Rule { table, chain, depth, number, rule, failed });
    }

    fn verdict(&mut self, verdict: Verdict, policy: bool) {
        let Some(TracePosition { table, chain: Some(chain), .. }) = self.at else { return };
        self.steps.push(TraceStep::Verdict { table, chain, verdict, policy });
    }
}
