//! The effects of single rules on packets, measured in the kernel.
//!
//! A [`RuleEffectTester`] loads many rules at once, each in its own chain, and sends one copy of a
//! packet through each of them. The copies differ only in the middle bits of their identification
//! (IPv4) or flow label (IPv6), which hold their number: the dispatch to the chains tests these
//! bits, and the measured rules do not. Counters show for each rule whether it matched, and whether
//! the traversal continued after it; if neither, the evaluation itself dropped the packet.
//!
//! Each rule is followed by *probes*, rules that each test one field. A copy without a rule goes
//! through the same probes: if the two differ, the rule's target modified the field. Further probes
//! are at the end of the journey, in mangle POSTROUTING.

mod copy_number;
mod effect_test_packet;
mod effect_test_ruleset;
mod measured_rule;

use std::collections::{HashMap, HashSet};

use weir_kernel::xtables_counters::LegacyTableCounterReader;
use weir_kernel::{Namespace, Session, conntrack};
use weir_model::{Family, Firewall, Hook, Packet, TableName};
use weir_packet::{ConntrackInfo, CtState};
use weir_semantics::{
    CountedObject, Interpreter, JourneyKind, Oracle, OracleQuestion, Outcome, UnknownWrite, Verdict,
};

pub use effect_test_packet::{EffectTestPacket, generate_packets_without_ct_entry};
pub use effect_test_ruleset::SOURCE_MAC_GIVEN_MARK_ONE;
pub use measured_rule::RuleToMeasure;

use crate::VerifyError;
use crate::link_macs::{FIREWALL_INPUT_MAC, NEIGHBOUR_MAC};
use crate::packet_batch::{PacketBatch, PacketPath, PreparedPacket};
use crate::packet_numbering::read_packet_number;
use crate::testbed::Testbed;

/// Maximum number of rules of one bench: one batch has a packet for each.
pub const EFFECT_TEST_RULES_PER_BATCH_MAX: usize = 800;

/// What a copy of a packet did at one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleObservation {
    /// It reached the rule.
    pub reached_rule: bool,
    /// The rule counted it.
    pub matched: bool,
    /// The next rule of the chain counted it, too.
    pub reached_next_rule: bool,
    /// Which of the probes after the rule counted it.
    pub probe_hits: Vec<bool>,
    /// Which of the probes at the end of the journey counted it; `None` if it did not come so far.
    pub final_probe_hits: Option<Vec<bool>>,
    /// Its first bytes from the network header on, as it left or was delivered, without the number
    /// of the copy.
    pub observed_bytes: Option<Vec<u8>>,
    /// The mark that it left with.
    pub mark: u32,
    /// It reached the host itself.
    pub is_delivered_locally: bool,
    /// What conntrack took it for, where it is in use.
    pub ct_state: Option<CtState>,
}

impl RuleObservation {
    /// The packet ended at the rule: the next one did not see it.
    pub fn has_ended_at_rule(&self) -> bool {
        self.reached_rule && !self.reached_next_rule
    }
}

/// Rules that are measured together.
#[derive(Debug)]
pub struct RuleEffectTester {
    measured_rules: Vec<RuleToMeasure>,
    probe_count: usize,
    family: Family,
    parsed_firewall: Firewall,
    testbed: Testbed,
    table_counter_readers: Vec<(TableName, LegacyTableCounterReader)>,
    /// Where a rule's counter is: table, chain, number.
    counter_positions: HashMap<(TableName, String, u32), (usize, usize)>,
    last_counts: Vec<Vec<u64>>,
}

impl RuleEffectTester {
    /// Loads the rules, each followed by the probes. `sets` is text for `ipset restore`.
    ///
    /// # Errors
    /// If the kernel or weir does not accept a rule.
    ///
    /// # Panics
    /// If there are more than [`EFFECT_TEST_RULES_PER_BATCH_MAX`] rules, or weir does not read one
    /// of them.
    pub fn new(
        session: &Session,
        name: &str,
        family: Family,
        subjects: Vec<RuleToMeasure>,
        probes: &[String],
        sets: &str,
    ) -> Result<RuleEffectTester, VerifyError> {
        assert!(
            subjects.len() <= EFFECT_TEST_RULES_PER_BATCH_MAX,
            "a batch holds a packet for each rule"
        );
        let text = effect_test_ruleset::write_effect_test_ruleset(family, &subjects, probes);
        let firewall = effect_test_ruleset::parse_effect_test_ruleset(family, &text, sets);
        let tool = match family {
            Family::V4 => "iptables-legacy-restore",
            Family::V6 => "ip6tables-legacy-restore",
        };
        let fail = |source| VerifyError::LoadRuleset { way: name.to_owned(), source };
        let tracked = Interpreter::new(&firewall).is_conntrack_used_by_family(family);
        let states = if tracked { &[family][..] } else { &[] };
        let testbed = Testbed::new(session, name, &[family], states, |ns| {
            if !sets.is_empty() {
                ns.run_command(&["ipset", "restore"], sets.as_bytes()).map_err(fail)?;
            }
            ns.run_command(&[tool], text.as_bytes()).map(drop).map_err(fail)
        })?;
        let mut bench = RuleEffectTester {
            probe_count: probes.len(),
            measured_rules: subjects,
            family,
            parsed_firewall: firewall,
            testbed,
            table_counter_readers: Vec::new(),
            counter_positions: HashMap::new(),
            last_counts: Vec::new(),
        };
        bench.open_and_index_all_rule_counters()?;
        Ok(bench)
    }

    /// The rules that are measured.
    pub fn measured_rules(&self) -> &[RuleToMeasure] {
        &self.measured_rules
    }

    /// The namespace in which the rules are.
    pub fn namespace(&self) -> &Namespace {
        &self.testbed.firewall_namespace
    }

    /// The rule of a subject as weir reads it; `None` for the empty one.
    pub fn parsed_rule(&self, which: usize) -> Option<&weir_model::Rule> {
        let subject = &self.measured_rules[which];
        let ruleset = self.parsed_firewall.rulesets().next()?;
        let table = ruleset.tables.iter().find(|t| t.name == subject.table)?;
        let chain = table
            .chains
            .iter()
            .find(|c| *c.name == *effect_test_ruleset::measured_chain_name_of_rule(which))?;
        chain.rules.first().filter(|_| !subject.rule.is_empty())
    }

    /// The loaded rules as weir reads them.
    pub fn parsed_firewall(&self) -> &Firewall {
        &self.parsed_firewall
    }

    fn open_and_index_all_rule_counters(&mut self) -> Result<(), VerifyError> {
        for ruleset in self.parsed_firewall.rulesets() {
            for name in ruleset.tables.iter().map(|t| t.name) {
                let counters = LegacyTableCounterReader::open(
                    &self.testbed.firewall_namespace,
                    self.family,
                    name.as_str(),
                )?;
                for (i, place) in counters.rule_and_policy_positions().iter().enumerate() {
                    if let Some(number) = place.number {
                        let key = (name, place.chain.clone(), number);
                        self.counter_positions.insert(key, (self.table_counter_readers.len(), i));
                    }
                }
                self.last_counts.push(vec![0; counters.rule_and_policy_positions().len()]);
                self.table_counter_readers.push((name, counters));
            }
        }
        self.read_packet_count_deltas().map(drop)
    }

    /// Packets counted since the last reading.
    fn read_packet_count_deltas(&mut self) -> Result<Vec<Vec<u64>>, VerifyError> {
        let mut since = Vec::new();
        for ((_, table), before) in self.table_counter_readers.iter_mut().zip(&mut self.last_counts)
        {
            let now: Vec<u64> =
                table.read_counters_if_not_replaced()?.iter().map(|c| c.packets).collect();
            since.push(now.iter().zip(before.iter()).map(|(n, b)| n.wrapping_sub(*b)).collect());
            *before = now;
        }
        Ok(since)
    }

    /// Sends a copy of the packet through every rule, and says what each did to it.
    ///
    /// # Errors
    /// If packets cannot be sent, or are lost.
    pub fn send_through_all_rules(
        &mut self,
        sample: &EffectTestPacket,
    ) -> Result<Vec<RuleObservation>, VerifyError> {
        let all: Vec<usize> = (0..self.measured_rules.len()).collect();
        self.send_through_rules(sample, &all)
    }

    /// The same for some rules alone.
    ///
    /// # Errors
    /// As [`send_through_all_rules`](RuleEffectTester::send_through_all_rules).
    pub fn send_through_rules(
        &mut self,
        sample: &EffectTestPacket,
        which: &[usize],
    ) -> Result<Vec<RuleObservation>, VerifyError> {
        let batch = self.build_batch(sample, which);
        let seen = self.testbed.send_batch(&batch)?;
        let counts = self.read_packet_count_deltas()?;
        let lost = seen.reached_first_hook.iter().filter(|b| !**b).count();
        if lost > 0 && !sample.may_be_dropped_before_first_hook {
            return Err(VerifyError::PacketsLost { way: self.testbed.name.clone(), lost });
        }
        let mut out = Vec::new();
        for ((i, left), state) in which.iter().zip(seen.packets_at_last_hook).zip(seen.ct_states) {
            let subject = &self.measured_rules[*i];
            let chain = effect_test_ruleset::measured_chain_name_of_rule(*i);
            let count = |table: TableName, chain: &str, number: u32| {
                let (table, at) = self.counter_positions[&(table, chain.to_owned(), number)];
                counts[table][at] > 0
            };
            let (group, number) = effect_test_ruleset::find_dispatch_jump(&self.measured_rules, *i);
            let first = 1 + u32::from(!subject.rule.is_empty());
            let next = |k: usize| count(subject.table, &chain, first + k as u32);
            let late = effect_test_ruleset::final_probe_chain_name(*i);
            let is_late = self.probe_count > 0 && count(TableName::Mangle, &late, 1);
            let is_late = is_late.then(|| {
                (0..self.probe_count)
                    .map(|k| count(TableName::Mangle, &late, k as u32 + 2))
                    .collect()
            });
            out.push(RuleObservation {
                reached_rule: count(subject.table, &group, number),
                matched: first == 2 && count(subject.table, &chain, 1),
                reached_next_rule: next(0),
                probe_hits: (0..self.probe_count).map(|k| next(k + 1)).collect(),
                final_probe_hits: is_late,
                mark: left.as_ref().map_or(0, |l| l.mark),
                is_delivered_locally: left.as_ref().is_some_and(|l| l.is_delivered_locally),
                observed_bytes: left.map(|l| sample.without_copy_number(l.bytes)),
                ct_state: state,
            });
        }
        Ok(out)
    }

    fn build_batch(&self, sample: &EffectTestPacket, which: &[usize]) -> PacketBatch {
        let path = PacketPath {
            family: self.family,
            journey_kind: JourneyKind::Forward,
            iif: effect_test_ruleset::INPUT_DEVICE.to_owned(),
            oif: effect_test_ruleset::OUTPUT_DEVICE.to_owned(),
            treats_all_addresses_as_own: false,
        };
        let mut connections: Vec<conntrack::ConntrackEntry> = sample.needed_conntrack_entries();
        let placeholder = Packet::new(self.family, weir_model::Addr(0), weir_model::Addr(0), 59);
        let each = which.iter().map(|i| {
            let copy = effect_test_ruleset::copy_number_of_rule(*i);
            let frame = sample.frame_of_copy(FIREWALL_INPUT_MAC, NEIGHBOUR_MAC, copy);
            let number = read_packet_number(&frame[14..]).expect("a network header");
            let prepared = PreparedPacket {
                packet: placeholder.clone(),
                frame,
                conntrack_entries: std::mem::take(&mut connections),
                is_delivered_locally: false,
            };
            (number, prepared)
        });
        PacketBatch::from_numbered_packets(path, each)
    }

    /// The interpreter's result for a copy; `None` if the packet cannot be modelled. `matched`
    /// answers questions about the rule.
    pub fn predict_observation(
        &self,
        interpreter: &Interpreter<'_>,
        sample: &EffectTestPacket,
        which: usize,
        seen: &RuleObservation,
    ) -> Option<PredictedObservation> {
        let mut packet = sample.packet.clone()?;
        packet.ct = match seen.ct_state {
            Some(state) if state == packet.ct.state => packet.ct,
            Some(state) => ConntrackInfo::from_state(state),
            None => ConntrackInfo::from_state(CtState::Invalid),
        };
        packet.iif = effect_test_ruleset::INPUT_DEVICE.to_owned();
        packet.oif = effect_test_ruleset::OUTPUT_DEVICE.to_owned();
        packet.smac = Some(sample.smac.unwrap_or(NEIGHBOUR_MAC));
        let mut answers = ObservedRuleOracle {
            rule_index: which,
            observation: seen,
            oracle_was_asked_about_rule: false,
            wrote_unknown_value: false,
        };
        let outcome = interpreter.evaluate_journey(&packet, JourneyKind::Forward, &mut answers);
        let ObservedRuleOracle {
            oracle_was_asked_about_rule: asked,
            wrote_unknown_value: wrote,
            ..
        } = answers;
        let observed = self.observation_from_outcome(&outcome, which);
        Some(PredictedObservation {
            observation: observed,
            oracle_was_asked_about_rule: asked,
            wrote_unknown_value: wrote,
            verdict: format!("{:?}", outcome.verdict),
        })
    }

    fn observation_from_outcome(&self, outcome: &Outcome<'_>, which: usize) -> RuleObservation {
        let subject = &self.measured_rules[which];
        let hits: HashSet<(TableName, &str, u32)> = outcome
            .hits
            .iter()
            .filter_map(|h| match h.counted_object {
                CountedObject::Rule { table, chain, number } => Some((table, &**chain, number)),
                _ => None,
            })
            .collect();
        let count = |table, chain: &str, number| hits.contains(&(table, chain, number));
        let (group, number) = effect_test_ruleset::find_dispatch_jump(&self.measured_rules, which);
        let chain = effect_test_ruleset::measured_chain_name_of_rule(which);
        let first = 1 + u32::from(!subject.rule.is_empty());
        let late = effect_test_ruleset::final_probe_chain_name(which);
        let is_late = self.probe_count > 0 && count(TableName::Mangle, &late, 1);
        let is_late = is_late.then(|| {
            (0..self.probe_count).map(|k| count(TableName::Mangle, &late, k as u32 + 2)).collect()
        });
        RuleObservation {
            reached_rule: count(subject.table, &group, number),
            matched: first == 2 && count(subject.table, &chain, 1),
            reached_next_rule: count(subject.table, &chain, first),
            probe_hits: (0..self.probe_count)
                .map(|k| count(subject.table, &chain, first + 1 + k as u32))
                .collect(),
            final_probe_hits: is_late,
            observed_bytes: (outcome.verdict == Verdict::Accept).then(|| outcome.packet.to_bytes()),
            mark: outcome.packet.mark,
            is_delivered_locally: outcome.hits.iter().any(|h| h.hook == Hook::Input),
            ct_state: None,
        }
    }
}

/// The interpreter's result for a copy.
#[derive(Clone, Debug)]
pub struct PredictedObservation {
    /// What should be seen of it.
    pub observation: RuleObservation,
    /// The rule's own test was put to the caller.
    pub oracle_was_asked_about_rule: bool,
    /// Its target wrote a value for which the caller was asked, who left it unchanged.
    pub wrote_unknown_value: bool,
    /// The verdict in words.
    pub verdict: String,
}

/// The oracle for the copy of one rule: the dispatch leads only to that rule, and observations
/// answer questions about it.
struct ObservedRuleOracle<'s> {
    rule_index: usize,
    observation: &'s RuleObservation,
    oracle_was_asked_about_rule: bool,
    wrote_unknown_value: bool,
}

impl Oracle for ObservedRuleOracle<'_> {
    fn match_holds_or_target_ends_traversal(&mut self, question: &OracleQuestion<'_>) -> bool {
        match question.rule.target.jump_target() {
            Some(chain) if effect_test_ruleset::is_generated_chain(chain) => {
                effect_test_ruleset::is_on_dispatch_path(chain, self.rule_index)
            }
            _ => {
                self.oracle_was_asked_about_rule = true;
                self.observation.matched
            }
        }
    }

    fn match_or_target_drops_packet(&mut self, question: &OracleQuestion<'_>) -> bool {
        let is_own = question
            .rule
            .target
            .jump_target()
            .is_none_or(|c| !effect_test_ruleset::is_generated_chain(c));
        is_own && self.observation.has_ended_at_rule()
    }

    fn choose_written_value(&mut self, write: &UnknownWrite<'_>) -> u128 {
        self.wrote_unknown_value = true;
        write.old_value
    }
}
