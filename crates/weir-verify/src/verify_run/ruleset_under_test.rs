//! One ruleset under test: its firewall, its counters, and the differences found.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use weir_artefact::{ArtefactFileKind, Deviation, Manifest, StoredArtefact};
use weir_kernel::xtables_counters::PacketByteCount;
use weir_kernel::{KernelError, Namespace, Session, stop_signal};
use weir_model::{Family, Firewall};
use weir_semantics::{Interpreter, JourneyKind};

use crate::counters::{CreditCounters, OriginalRulesAndPolicies};
use crate::link_macs::FIREWALL_INPUT_MAC;
use crate::packet_batch::PacketBatch;
use crate::result_difference::{self, ExpectedCounts, ExpectedResult};
use crate::testbed::{PacketAtLastHook, Testbed};
use crate::{PacketDifference, RulesetReport, VerifyError};

use super::intended_differences;
use super::packet_round::{PacketRound, format_family_and_journey};

/// A difference, and the packet as an Ethernet frame.
#[derive(Debug)]
pub(crate) struct DifferenceWithFrame {
    pub difference: PacketDifference,
    pub frame: Vec<u8>,
}

/// How often packets are sent that are lost before the first hook.
const SEND_ATTEMPTS_MAX: u32 = 3;
/// A reading that takes longer is not repeated for packets that may differ anyway.
const CHEAP_COUNTER_READ_TIME_MAX: Duration = Duration::from_millis(20);

/// A ruleset under test.
pub(crate) struct RulesetUnderTest<'f> {
    testbed: Testbed,
    credit_counters: CreditCounters,
    /// Its intended differences.
    deviations: &'f [Deviation],
    /// The form, if a pass treats some packets differently on purpose.
    journey_deviation_interpreter: Option<Interpreter<'f>>,
    pub report: RulesetReport,
    /// How long the last reading of the counters took.
    last_counter_read_duration: Duration,
}

impl<'f> RulesetUnderTest<'f> {
    /// The original, loaded by the tools whose text it is.
    pub fn set_up_original(
        session: &Session,
        firewall: &Firewall,
        families: &[Family],
        originals: &OriginalRulesAndPolicies,
    ) -> Result<RulesetUnderTest<'f>, VerifyError> {
        let name = "linear";
        let load = |ns: &Namespace| {
            load_original_ruleset(ns, firewall)
                .map_err(|source| VerifyError::LoadRuleset { way: name.into(), source })
        };
        let testbed = Testbed::new(session, name, families, &[], load)?;
        let own = originals.identity_credit_map();
        let credit_counters =
            CreditCounters::new(name, &testbed.firewall_namespace, originals, &own, &[])?;
        Ok(RulesetUnderTest::from_testbed(testbed, credit_counters))
    }

    /// A form, loaded by its own script; `intended` as of
    /// [`intended_differences::read_form_with_journey_deviations`].
    pub fn set_up_form(
        session: &Session,
        (stored, intended): &'f (StoredArtefact, Option<Firewall>),
        families: &[Family],
        originals: &OriginalRulesAndPolicies,
    ) -> Result<RulesetUnderTest<'f>, VerifyError> {
        let Manifest { form, counters, summed, deviations, .. } = &stored.artefact.manifest;
        // The same form may be there twice, compiled with other options.
        let alike = |n: &String| n.contains(&format!("-fw-{form}"));
        let count = session.namespace_names().into_iter().filter(alike).count();
        let name = match count {
            0 => form.to_string(),
            n => format!("{form}-{n}"),
        };
        let script = stored.file_path(ArtefactFileKind::LoadScript);
        let load = |ns: &Namespace| {
            // The folder is tested in its current state, edited or not.
            ns.run_command(&["sh", &script.to_string_lossy(), "--allow-edited"], b"")
                .map(drop)
                .map_err(|source| VerifyError::LoadRuleset { way: name.clone(), source })
        };
        let testbed = Testbed::new(session, &name, families, &[], load)?;
        let credit_counters =
            CreditCounters::new(&name, &testbed.firewall_namespace, originals, counters, summed)?;
        let intended = intended.as_ref().map(Interpreter::new);
        Ok(RulesetUnderTest {
            deviations,
            journey_deviation_interpreter: intended,
            ..RulesetUnderTest::from_testbed(testbed, credit_counters)
        })
    }

    fn from_testbed(testbed: Testbed, credit_counters: CreditCounters) -> RulesetUnderTest<'f> {
        let report = RulesetReport { name: testbed.name.clone(), ..RulesetReport::default() };
        RulesetUnderTest {
            testbed,
            credit_counters,
            deviations: &[],
            journey_deviation_interpreter: None,
            report,
            last_counter_read_duration: Duration::ZERO,
        }
    }

    /// What is expected of a packet here.
    fn packet_with_expected_result<'r>(
        &self,
        batch: &'r PacketBatch,
        at: usize,
        original: &'r ExpectedResult,
        originals: &OriginalRulesAndPolicies,
    ) -> PacketWithExpectedResult<'r> {
        let intended = self.journey_deviation_interpreter.as_ref();
        match intended.and_then(|form| {
            intended_differences::find_intended_result_in_form(form, batch, at, original, originals)
        }) {
            Some((expected, why)) => PacketWithExpectedResult {
                batch,
                position: at,
                expected: Cow::Owned(expected),
                intended_cause: Some(why),
            },
            None => PacketWithExpectedResult {
                batch,
                position: at,
                expected: Cow::Borrowed(original),
                intended_cause: None,
            },
        }
    }

    fn packets_with_expected_results<'r>(
        &self,
        round: &'r PacketRound,
        originals: &OriginalRulesAndPolicies,
    ) -> Vec<PacketWithExpectedResult<'r>> {
        let each = round.batches.iter().flat_map(|(batch, expected)| {
            expected.iter().enumerate().map(move |(at, e)| (batch, at, e))
        });
        each.map(|(batch, at, e)| self.packet_with_expected_result(batch, at, e, originals))
            .collect()
    }

    /// Sends a round, compares, and looks closely at what differs; at most `max_new_differences`
    /// differences return.
    pub fn compare_round(
        &mut self,
        round: &PacketRound,
        originals: &OriginalRulesAndPolicies,
        max_new_differences: usize,
    ) -> Result<Vec<DifferenceWithFrame>, VerifyError> {
        let mut found = Vec::new();
        // What a form may treat in its own way is counted separately from what it may not.
        let (strict, lenient): (Vec<_>, Vec<_>) = self
            .packets_with_expected_results(round, originals)
            .into_iter()
            .partition(|i| self.find_applicable_deviation(i).is_none());
        for items in [strict, lenient] {
            if !items.is_empty() {
                self.send_and_compare_packets(&items, originals, max_new_differences, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Sends a round and says whether all is as expected, without noting what is not.
    pub fn send_round_and_check_expected(
        &mut self,
        round: &PacketRound,
        originals: &OriginalRulesAndPolicies,
    ) -> Result<bool, VerifyError> {
        let items = self.packets_with_expected_results(round, originals);
        let (left, counts) = self.send_and_read_counters(&collect_batch_positions(&items))?;
        let ends = items
            .iter()
            .zip(&left)
            .all(|(i, l)| i.expected.describe_difference(l.as_ref()).is_none());
        let holds = ends
            && ExpectedCounts::from_expected_results(
                items.iter().map(|i| &*i.expected),
                &self.credit_counters,
            )
            .is_within_bounds(&counts);
        if holds {
            self.count_compared_and_intended(&items);
        }
        Ok(holds)
    }

    fn send_and_compare_packets(
        &mut self,
        items: &[PacketWithExpectedResult<'_>],
        originals: &OriginalRulesAndPolicies,
        max_new_differences: usize,
        found: &mut Vec<DifferenceWithFrame>,
    ) -> Result<(), VerifyError> {
        self.count_compared_and_intended(items);
        let (left, counts) = self.send_and_read_counters(&collect_batch_positions(items))?;
        let expected = ExpectedCounts::from_expected_results(
            items.iter().map(|i| &*i.expected),
            &self.credit_counters,
        );
        let mut ended = 0;
        for (item, left) in items.iter().zip(&left) {
            let Some(what) = item.expected.describe_difference(left.as_ref()) else { continue };
            if !self.count_applicable_deviation(item) {
                ended += 1;
                self.report.verdict_differences += 1;
                if found.len() < max_new_differences {
                    found.push(self.make_difference_with_frame(item, vec![what]));
                }
            }
        }
        if ended == 0 && !expected.is_within_bounds(&counts) {
            if items.iter().all(|i| self.find_applicable_deviation(i).is_some()) {
                return self.count_counter_deviating_packets(items, originals);
            }
            self.bisect_counter_differences(items, originals, max_new_differences, found)?;
        }
        Ok(())
    }

    /// Counts the packets whose counters differ in the way that the form allows: one by one if
    /// reading counters is cheap, otherwise all of them together.
    fn count_counter_deviating_packets(
        &mut self,
        items: &[PacketWithExpectedResult<'_>],
        originals: &OriginalRulesAndPolicies,
    ) -> Result<(), VerifyError> {
        if self.last_counter_read_duration < CHEAP_COUNTER_READ_TIME_MAX {
            return self.bisect_counter_differences(items, originals, usize::MAX, &mut Vec::new());
        }
        for item in items {
            self.count_applicable_deviation(item);
        }
        Ok(())
    }

    /// Finds the packets that are counted otherwise: sends halves again, and halves of those that
    /// differ, until single packets are left.
    fn bisect_counter_differences(
        &mut self,
        items: &[PacketWithExpectedResult<'_>],
        originals: &OriginalRulesAndPolicies,
        max_new_differences: usize,
        found: &mut Vec<DifferenceWithFrame>,
    ) -> Result<(), VerifyError> {
        let mut open: Vec<&[PacketWithExpectedResult<'_>]> = vec![items];
        while let Some(some) = open.pop() {
            let (_, counts) = self.send_and_read_counters(&collect_batch_positions(some))?;
            let expected = ExpectedCounts::from_expected_results(
                some.iter().map(|i| &*i.expected),
                &self.credit_counters,
            );
            if expected.is_within_bounds(&counts) {
                continue;
            }
            if some.len() > 1 && found.len() < max_new_differences {
                let (a, b) = some.split_at(some.len() / 2);
                open.extend([b, a]);
                continue;
            }
            // With enough examples, a part that differs counts as one.
            if !some.iter().all(|i| self.count_applicable_deviation(i)) {
                self.report.packets_with_counter_difference += 1;
                if found.len() < max_new_differences {
                    let lines = expected.describe_wrong_counters(&counts, originals);
                    found.push(self.make_difference_with_frame(&some[0], lines));
                }
            }
        }
        Ok(())
    }

    /// Sends packets in their batches, and reads arrivals and counters. If some were lost before
    /// the first hook, all are sent again.
    fn send_and_read_counters(
        &mut self,
        items: &[BatchPosition<'_>],
    ) -> Result<(Vec<Option<PacketAtLastHook>>, Vec<PacketByteCount>), VerifyError> {
        let mut families: Vec<Family> = items.iter().map(|i| i.batch.path.family).collect();
        families.dedup();
        for attempt in 1.. {
            // Every packet that is compared comes here, in rounds, in halves or alone.
            if stop_signal::is_stop_requested() {
                return Err(VerifyError::Interrupted);
            }
            let (mut left, mut lost) = (Vec::with_capacity(items.len()), 0);
            for same in items.chunk_by(|a, b| std::ptr::eq(a.batch, b.batch)) {
                let batch = same[0].batch.select_packets(same.iter().map(|i| i.position));
                let mut seen = self.testbed.send_batch(&batch)?;
                // The firewall without rules took every one of them.
                lost += seen.reached_first_hook.iter().filter(|b| !**b).count();
                left.append(&mut seen.packets_at_last_hook);
            }
            let began = Instant::now();
            let counts = self.credit_counters.counts_since_last_read(&families)?;
            self.last_counter_read_duration = began.elapsed();
            self.report.counter_read_rounds += 1;
            if lost == 0 {
                return Ok((left, counts));
            }
            if attempt == SEND_ATTEMPTS_MAX {
                return Err(VerifyError::PacketsLost { way: self.testbed.name.clone(), lost });
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Sends one packet, and reads its arrival and counters.
    pub fn send_single_packet(
        &mut self,
        batch: &PacketBatch,
    ) -> Result<(Option<PacketAtLastHook>, Vec<PacketByteCount>), VerifyError> {
        let (mut left, counts) =
            self.send_and_read_counters(&[BatchPosition { batch, position: 0 }])?;
        Ok((left.remove(0), counts))
    }

    /// Whether one packet that was sent alone did as expected.
    pub fn is_packet_as_expected(
        &self,
        batch: &PacketBatch,
        expected: &ExpectedResult,
        left: Option<&PacketAtLastHook>,
        counts: &[PacketByteCount],
        originals: &OriginalRulesAndPolicies,
    ) -> bool {
        let item = self.packet_with_expected_result(batch, 0, expected, originals);
        let wanted =
            ExpectedCounts::from_expected_results([&*item.expected], &self.credit_counters);
        item.expected.describe_difference(left).is_none() && wanted.is_within_bounds(counts)
    }

    /// Compares one packet that was sent alone.
    pub fn compare_single_packet(
        &mut self,
        batch: &PacketBatch,
        expected: &ExpectedResult,
        left: Option<&PacketAtLastHook>,
        counts: &[PacketByteCount],
        originals: &OriginalRulesAndPolicies,
    ) -> Option<DifferenceWithFrame> {
        let item = self.packet_with_expected_result(batch, 0, expected, originals);
        self.count_compared_and_intended(std::slice::from_ref(&item));
        let wanted =
            ExpectedCounts::from_expected_results([&*item.expected], &self.credit_counters);
        let end = item.expected.describe_difference(left);
        if end.is_none() && wanted.is_within_bounds(counts)
            || self.count_applicable_deviation(&item)
        {
            return None;
        }
        if end.is_some() {
            self.report.verdict_differences += 1;
        } else {
            self.report.packets_with_counter_difference += 1;
        }
        let lines = wanted.describe_wrong_counters(counts, originals);
        Some(self.make_difference_with_frame(&item, end.into_iter().chain(lines).collect()))
    }

    /// Notes packets as compared, and those among them that differ as intended.
    fn count_compared_and_intended(&mut self, items: &[PacketWithExpectedResult<'_>]) {
        self.report.compared += items.len() as u64;
        for why in items.iter().filter_map(|i| i.intended_cause) {
            result_difference::increment_named_count(&mut self.report.named, why);
        }
    }

    /// Counts a difference under its name, where it has one.
    fn count_applicable_deviation(&mut self, item: &PacketWithExpectedResult<'_>) -> bool {
        let Some(deviation) = self.find_applicable_deviation(item) else { return false };
        result_difference::increment_named_count(
            &mut self.report.named,
            deviation.documented_id_or_other(),
        );
        true
    }

    /// Which of the form's deviations may apply to a packet.
    fn find_applicable_deviation(
        &self,
        item: &PacketWithExpectedResult<'_>,
    ) -> Option<&'f Deviation> {
        result_difference::find_applicable_deviation(
            self.deviations,
            &item.batch.packets[item.position].packet,
        )
    }

    fn make_difference_with_frame(
        &self,
        item: &PacketWithExpectedResult<'_>,
        what: Vec<String>,
    ) -> DifferenceWithFrame {
        let prepared = &item.batch.packets[item.position];
        let path = &item.batch.path;
        let frame = match path.journey_kind {
            JourneyKind::Output => prepared.packet.to_frame_with_dmac(FIREWALL_INPUT_MAC),
            JourneyKind::Forward | JourneyKind::Input => prepared.frame.clone(),
        };
        let difference = PacketDifference {
            way: self.testbed.name.clone(),
            packet: result_difference::describe_packet_and_path(
                &prepared.packet,
                &format_family_and_journey(path),
            ),
            what,
            frame: 0,
        };
        DifferenceWithFrame { difference, frame }
    }
}

/// One packet of a batch.
#[derive(Clone, Copy, Debug)]
struct BatchPosition<'r> {
    batch: &'r PacketBatch,
    position: usize,
}

fn collect_batch_positions<'r>(items: &[PacketWithExpectedResult<'r>]) -> Vec<BatchPosition<'r>> {
    items.iter().map(|i| BatchPosition { batch: i.batch, position: i.position }).collect()
}

/// One packet of a batch, with what is expected of it.
#[derive(Clone, Debug)]
struct PacketWithExpectedResult<'r> {
    batch: &'r PacketBatch,
    expected: Cow<'r, ExpectedResult>,
    position: usize,
    /// Why other counters are expected than the original's.
    intended_cause: Option<&'static str>,
}

/// Loads sets and rules with the tools that wrote such text.
fn load_original_ruleset(ns: &Namespace, firewall: &Firewall) -> Result<(), KernelError> {
    if !firewall.sets.is_empty() {
        let text = weir_syntax::ipset::print(&firewall.sets);
        ns.run_command(&["ipset", "restore"], text.as_bytes())?;
    }
    for ruleset in firewall.rulesets() {
        let tool = match ruleset.family {
            Family::V4 => "iptables-legacy-restore",
            Family::V6 => "ip6tables-legacy-restore",
        };
        let text = weir_syntax::iptables::print(ruleset, false);
        ns.run_command(&[tool], text.as_bytes())?;
    }
    Ok(())
}
