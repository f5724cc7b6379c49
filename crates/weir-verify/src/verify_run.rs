//! The comparison: rounds of packets through every firewall.

mod exclusion_cause;
mod intended_differences;
mod packet_round;
mod ruleset_under_test;
mod test_packets;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use weir_kernel::xtables_counters::PacketByteCount;
use weir_kernel::{Session, stop_signal};
use weir_model::{CtState, Family, Firewall, OriginalRuleIndex};
use weir_packet::{ConntrackInfo, Packet};
use weir_semantics::{Interpreter, JourneyKind};

use crate::counters::OriginalRulesAndPolicies;
use crate::diagram_check::DiagramLookupByFamily;
use crate::kernel_oracle::{KernelOracle, LastKernelAnswerByRule};
use crate::packet_batch::{BATCH_PACKETS_MAX, BatchMaker, PacketBatch, PacketPath, PreparedPacket};
use crate::packet_numbering::PacketNumbering;
use crate::result_difference::{self, ExpectedResult, increment_named_count};
use crate::testbed::Testbed;
use crate::{ComparedPacket, VerifyError, VerifyOptions, VerifyReport};

use self::exclusion_cause::{
    find_observed_packet_to_compare, has_stateful_rule_matching_only_sometimes,
    unknown_result_cause,
};
use self::packet_round::{PacketRound, format_family_and_journey};
use self::ruleset_under_test::{DifferenceWithFrame, RulesetUnderTest};

/// Cause of exclusion: see [`VerifyOptions::single_packets_max`] and
/// [`VerifyOptions::single_packets_time_limit`].
const SINGLE_PACKET_LIMIT_CAUSE: &str = "skipped: single-packet limit reached";
/// Rounds of guesses that are no larger are tried one packet at a time.
const SINGLY_TRIED_ROUND_PACKETS_MAX: usize = 4;

/// What is to be compared next.
#[derive(Debug, Default)]
struct DeterminedAndGuessedRounds {
    /// Packets whose way the interpreter knows.
    determined: PacketRound,
    /// Packets whose way depends on what only the kernel can say.
    guessed: PacketRound,
}

impl DeterminedAndGuessedRounds {
    fn packet_count(&self) -> usize {
        self.determined.packet_count() + self.guessed.packet_count()
    }
}

struct VerifyRun<'f> {
    interpreter: Interpreter<'f>,
    diagrams: DiagramLookupByFamily<'f>,
    options: &'f VerifyOptions,
    originals: OriginalRulesAndPolicies,
    /// The original of each rule, by family.
    original_of_rule: HashMap<(Family, OriginalRuleIndex), usize>,
    /// Families in which datagrams are reassembled although conntrack is not in use.
    families_with_defrag_rules: Vec<Family>,
    empty_testbed: Testbed,
    rulesets_under_test: Vec<RulesetUnderTest<'f>>,
    batch_maker: BatchMaker,
    report: VerifyReport,
    is_original_hit: Vec<bool>,
    /// Packets that went through the firewall without rules.
    packets_sent_to_empty_testbed: u64,
    guessed_answers: LastKernelAnswerByRule,
    found_differences: Vec<DifferenceWithFrame>,
    /// Time that packets took which were tried one at a time, and what led to it.
    single_packets_time_spent: Duration,
}

pub(crate) fn run_verification(
    firewall: &Firewall,
    dirs: &[&Path],
    options: &VerifyOptions,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<VerifyReport, VerifyError> {
    let began = Instant::now();
    let mut forms = Vec::new();
    for dir in dirs {
        let stored = weir_artefact::read_artefact(dir)
            .map_err(|source| VerifyError::ReadArtefact { path: dir.to_path_buf(), source })?;
        let intended = intended_differences::read_form_with_journey_deviations(&stored, firewall)?;
        forms.push((stored, intended));
    }
    progress("creating namespaces and loading rulesets", 0.0);
    let session = Session::new()?;
    let interpreter = Interpreter::new(firewall);
    let originals = OriginalRulesAndPolicies::new(firewall);
    let families: Vec<Family> = firewall.rulesets().map(|r| r.family).collect();
    let tracked: Vec<Family> =
        families.iter().copied().filter(|f| interpreter.is_conntrack_used_by_family(*f)).collect();
    let empty = Testbed::new(&session, "empty", &families, &tracked, |_| Ok(()))?;
    let mut tested =
        vec![RulesetUnderTest::set_up_original(&session, firewall, &families, &originals)?];
    for form in &forms {
        tested.push(RulesetUnderTest::set_up_form(&session, form, &families, &originals)?);
    }
    let mut run = VerifyRun {
        original_of_rule: index_original_positions_by_rule(firewall, &originals),
        batch_maker: BatchMaker::new(
            PacketNumbering::new(firewall),
            test_packets::families_testing_length(firewall),
        ),
        report: VerifyReport { seed: options.seed, ..VerifyReport::default() },
        is_original_hit: vec![false; originals.rule_and_policy_ids.len()],
        packets_sent_to_empty_testbed: 0,
        guessed_answers: LastKernelAnswerByRule::new(),
        found_differences: Vec::new(),
        single_packets_time_spent: Duration::ZERO,
        families_with_defrag_rules: test_packets::families_with_defrag_rules(firewall),
        interpreter,
        diagrams: DiagramLookupByFamily::build_diagrams(firewall, options.check_diagrams),
        options,
        originals,
        empty_testbed: empty,
        rulesets_under_test: tested,
    };
    let paths = test_packets::generate_or_take_exact_packets_by_path(firewall, options);
    run.report.generated = paths.iter().map(|(_, p)| p.len() as u64).sum();
    run.compare_packets_in_rounds(paths, progress)?;
    drop(session);
    run.write_pcap_and_finish_report(began)
}

/// The original of each rule.
fn index_original_positions_by_rule(
    firewall: &Firewall,
    originals: &OriginalRulesAndPolicies,
) -> HashMap<(Family, OriginalRuleIndex), usize> {
    let mut out = HashMap::new();
    for ruleset in firewall.rulesets() {
        for (id, rule) in ruleset.rules_with_ids() {
            let original = originals.position_of(&id);
            let index = rule.credited_originals.first().zip(original);
            out.extend(index.map(|(index, at)| ((ruleset.family, *index), at)));
        }
    }
    out
}

impl VerifyRun<'_> {
    fn compare_packets_in_rounds(
        &mut self,
        paths: Vec<(PacketPath, VecDeque<Packet>)>,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<(), VerifyError> {
        let mut rounds = DeterminedAndGuessedRounds::default();
        for (path, mut packets) in paths {
            while !packets.is_empty() {
                let room = BATCH_PACKETS_MAX - rounds.packet_count();
                let batch = self.batch_maker.take_batch_of_distinct_connections(
                    path.clone(),
                    &mut packets,
                    room,
                );
                self.packets_sent_to_empty_testbed += batch.packets.len() as u64;
                self.send_to_empty_testbed_and_queue(&mut rounds, batch)?;
                if rounds.packet_count() >= BATCH_PACKETS_MAX * 9 / 10 {
                    self.compare_pending_rounds(&mut rounds)?;
                    let part = self.packets_sent_to_empty_testbed as f64
                        / self.report.generated.max(1) as f64;
                    progress(&format!("{} packets compared", self.report.compared), part);
                }
                if stop_signal::is_stop_requested() {
                    return Err(VerifyError::Interrupted);
                }
            }
        }
        self.compare_pending_rounds(&mut rounds)
    }

    /// Sends a batch through the firewall without rules, and adds what is to be compared to the
    /// rounds.
    fn send_to_empty_testbed_and_queue(
        &mut self,
        rounds: &mut DeterminedAndGuessedRounds,
        mut batch: PacketBatch,
    ) -> Result<(), VerifyError> {
        let seen = self.empty_testbed.send_batch(&batch)?;
        let tracked = self.interpreter.is_conntrack_used_by_family(batch.path.family);
        let reassembling = self.families_with_defrag_rules.contains(&batch.path.family);
        let (mut plain, mut guessed, mut sample) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..batch.packets.len() {
            let checked = find_observed_packet_to_compare(&batch, at, &seen, tracked, reassembling);
            let left = match checked {
                Ok(left) => left,
                Err(cause) => {
                    self.report.count_excluded_packets(cause, 1);
                    continue;
                }
            };
            let prepared = &mut batch.packets[at];
            let packet = &mut prepared.packet;
            set_observed_ct_state(packet, seen.ct_states[at]);
            prepared.is_delivered_locally = left.is_delivered_locally;
            let known =
                KernelOracle::from_namespaces(&batch.path, packet, left.is_delivered_locally);
            let mut known = known.with_guesses(&self.guessed_answers);
            let (outcome, looked) = self.diagrams.interpret_and_check_journey(
                &self.interpreter,
                packet,
                batch.path.journey_kind,
                &mut known,
            );
            if let Some(cause) = unknown_result_cause(&known, &outcome, packet) {
                self.report.count_excluded_packets(&cause, 1);
                continue;
            }
            let mut expected = ExpectedResult::from_outcome(
                &outcome,
                packet,
                &known.rules_uncertain_in_own_counter_only,
                &self.originals,
            );
            expected.diagram_check = looked;
            match (known.needs_kernel_answer, known.rules_uncertain_in_own_counter_only.is_empty())
            {
                (true, _) => guessed.push((at, expected)),
                (false, false) if self.has_ample_single_packet_budget() => sample.push(at),
                (false, _) => plain.push((at, expected)),
            }
        }
        for at in sample {
            self.compare_single_packet_within_budget(&batch.select_packets([at]))?;
        }
        rounds.determined.push_batch_selection(&batch, plain);
        rounds.guessed.push_batch_selection(&batch, guessed);
        Ok(())
    }

    /// Whether a packet whose counters are only known within bounds is tried separately.
    fn has_ample_single_packet_budget(&self) -> bool {
        self.single_packets_left_for_now() > self.single_packets_allowed_so_far() * 3 / 4
    }

    fn compare_pending_rounds(
        &mut self,
        rounds: &mut DeterminedAndGuessedRounds,
    ) -> Result<(), VerifyError> {
        let DeterminedAndGuessedRounds { determined: plain, guessed } = std::mem::take(rounds);
        if plain.packet_count() > 0 {
            self.compare_round(&plain)?;
        }
        self.bisect_guessed_round(guessed)
    }

    /// Packets whose way depends on what only the kernel can say: sent together as if every rule
    /// answered as it did last. Where the counters bear that out in every ruleset, that is what the
    /// kernel answered; else halves are tried, and in the end one packet at a time.
    fn bisect_guessed_round(&mut self, round: PacketRound) -> Result<(), VerifyError> {
        let mut open = vec![round];
        while let Some(round) = open.pop() {
            if round.packet_count() == 0 {
                continue;
            }
            if round.packet_count() > SINGLY_TRIED_ROUND_PACKETS_MAX
                || self.single_packets_left_for_now() == 0
            {
                let mut holds = true;
                let began = Instant::now();
                for tested in &mut self.rulesets_under_test {
                    holds =
                        holds && tested.send_round_and_check_expected(&round, &self.originals)?;
                }
                // What was sent in vain is part of what single packets cost.
                self.single_packets_time_spent +=
                    if holds { Duration::ZERO } else { began.elapsed() };
                if holds {
                    self.record_compared_round(&round);
                    continue;
                }
            }
            if self.single_packets_left_for_now() == 0 {
                self.report
                    .count_excluded_packets(SINGLE_PACKET_LIMIT_CAUSE, round.packet_count() as u64);
                continue;
            }
            if round.packet_count() > SINGLY_TRIED_ROUND_PACKETS_MAX {
                let [a, b] = round.split_in_half();
                open.extend([b, a]);
                continue;
            }
            for (batch, _) in &round.batches {
                for at in 0..batch.packets.len() {
                    self.compare_single_packet_within_budget(&batch.select_packets([at]))?;
                }
            }
        }
        Ok(())
    }

    /// How many packets may have been tried one at a time by now: in step with all packets, so
    /// that every way has its share.
    fn single_packets_allowed_so_far(&self) -> u64 {
        let part = self.packets_sent_to_empty_testbed as f64 / self.report.generated.max(1) as f64;
        (self.options.single_packets_max as f64 * part) as u64
    }

    /// How many more may be tried now; none where they have taken their time.
    fn single_packets_left_for_now(&self) -> u64 {
        let part = self.packets_sent_to_empty_testbed as f64 / self.report.generated.max(1) as f64;
        if self.single_packets_time_spent > self.options.single_packets_time_limit.mul_f64(part) {
            return 0;
        }
        self.single_packets_allowed_so_far().saturating_sub(self.report.singles)
    }

    /// Sends a round through every ruleset and compares.
    fn compare_round(&mut self, round: &PacketRound) -> Result<(), VerifyError> {
        self.record_compared_round(round);
        for tested in &mut self.rulesets_under_test {
            let room =
                self.options.detailed_differences_max.saturating_sub(self.found_differences.len());
            self.found_differences.append(&mut tested.compare_round(
                round,
                &self.originals,
                room,
            )?);
        }
        Ok(())
    }

    /// How many more differences are examined closely.
    fn remaining_detailed_differences(&self) -> usize {
        self.options.detailed_differences_max.saturating_sub(self.found_differences.len())
    }

    fn record_compared_round(&mut self, round: &PacketRound) {
        for (batch, expected) in &round.batches {
            for (prepared, expected) in batch.packets.iter().zip(expected) {
                self.record_compared_packet(prepared, &batch.path, expected);
            }
        }
    }

    /// One packet whose way depends on what only the kernel can say.
    fn compare_single_packet_within_budget(
        &mut self,
        batch: &PacketBatch,
    ) -> Result<(), VerifyError> {
        if self.single_packets_left_for_now() == 0 {
            self.report.count_excluded_packets(SINGLE_PACKET_LIMIT_CAUSE, 1);
            return Ok(());
        }
        let began = Instant::now();
        let done = self.send_and_compare_single_packet(batch);
        self.single_packets_time_spent += began.elapsed();
        done
    }

    fn send_and_compare_single_packet(&mut self, batch: &PacketBatch) -> Result<(), VerifyError> {
        let (packet, entry) = (&batch.packets[0].packet, batch.path.journey_kind);
        let family = packet.family;
        let mut noted = None;
        for i in 0..self.rulesets_under_test.len() {
            let (left, counts) = self.rulesets_under_test[i].send_single_packet(batch)?;
            let counted = self.packet_counts_by_rule(family, &counts);
            let mut script = Vec::new();
            let expected = loop {
                let known = KernelOracle::from_namespaces(
                    &batch.path,
                    packet,
                    batch.packets[0].is_delivered_locally,
                );
                let mut known = known.with_counters(&counted).with_scripted_answers(&script);
                let (outcome, looked) = self.diagrams.interpret_and_check_journey(
                    &self.interpreter,
                    packet,
                    entry,
                    &mut known,
                );
                for asked in &outcome.questions {
                    let answers =
                        asked.credited_originals.iter().map(|id| ((family, *id), asked.answer));
                    self.guessed_answers.extend(answers);
                }
                let cause = match has_stateful_rule_matching_only_sometimes(&outcome, &counted) {
                    true => Some(
                        "skipped: a stateful rule was evaluated twice and matched once".to_owned(),
                    ),
                    false => unknown_result_cause(&known, &outcome, packet),
                };
                if let Some(cause) = cause {
                    self.report.count_excluded_packets(&cause, 1);
                    return Ok(());
                }
                let mut expected =
                    ExpectedResult::from_outcome(&outcome, packet, &[], &self.originals);
                expected.diagram_check = looked;
                let open = known.open_question_count;
                let agrees = open == 0
                    || self.rulesets_under_test[i].is_packet_as_expected(
                        batch,
                        &expected,
                        left.as_ref(),
                        &counts,
                        &self.originals,
                    );
                if agrees || !advance_scripted_answers(&mut script, open) {
                    break expected;
                }
            };
            let left = left.as_ref();
            let found = self.rulesets_under_test[i].compare_single_packet(
                batch,
                &expected,
                left,
                &counts,
                &self.originals,
            );
            self.found_differences
                .extend(found.into_iter().take(self.remaining_detailed_differences()));
            noted.get_or_insert(expected);
        }
        if let Some(expected) = noted {
            self.report.singles += 1;
            self.record_compared_packet(&batch.packets[0], &batch.path, &expected);
        }
        Ok(())
    }

    /// How often each rule counted, by its identity.
    fn packet_counts_by_rule(
        &self,
        family: Family,
        counts: &[PacketByteCount],
    ) -> HashMap<OriginalRuleIndex, u64> {
        let of_family = self.original_of_rule.iter().filter(|((f, _), _)| *f == family);
        of_family
            .map(|((_, id), at)| (*id, counts[*at].packets))
            .filter(|(_, packets)| *packets > 0)
            .collect()
    }

    fn record_compared_packet(
        &mut self,
        prepared: &PreparedPacket,
        path: &PacketPath,
        expected: &ExpectedResult,
    ) {
        let packet = &prepared.packet;
        self.report.compared += 1;
        increment_named_count(&mut self.report.compared_by_path, &format_family_and_journey(path));
        increment_named_count(
            &mut self.report.compared_by_state,
            result_difference::ct_state_name(packet.ct.state),
        );
        self.report.record_diagram_check(
            packet,
            expected.diagram_check.as_ref(),
            self.options.detailed_differences_max,
        );
        for at in &expected.hits {
            self.is_original_hit[*at] = true;
        }
        if self.options.exact_packets.is_some() {
            self.report.compared_packets.push(ComparedPacket {
                journey_kind: if prepared.is_delivered_locally {
                    JourneyKind::Input
                } else {
                    path.journey_kind
                },
                packet: packet.clone(),
                verdict: expected.verdict,
            });
        }
    }

    fn write_pcap_and_finish_report(mut self, began: Instant) -> Result<VerifyReport, VerifyError> {
        let hit = self.is_original_hit.iter().filter(|h| **h).count() as u64;
        for tested in self.rulesets_under_test {
            let mut way = tested.report;
            (way.counters, way.counters_hit) =
                (self.originals.rule_and_policy_ids.len() as u64, hit);
            self.report.ways.push(way);
        }
        if let Some(path) =
            self.options.pcap_path.as_ref().filter(|_| !self.found_differences.is_empty())
        {
            weir_packet::pcap::write_frames(path, self.found_differences.iter().map(|f| &f.frame))
                .map_err(|source| VerifyError::WriteFile { path: path.clone(), source })?;
        }
        for (i, DifferenceWithFrame { mut difference, .. }) in
            self.found_differences.into_iter().enumerate()
        {
            difference.frame = if self.options.pcap_path.is_some() { i as u64 + 1 } else { 0 };
            self.report.differences.push(difference);
        }
        self.report
            .not_compared
            .push("skipped: incoming packets have no mark and no translated connection".to_owned());
        self.report.not_compared.push(
            "replies that the firewall itself sends (REJECT, echo replies) are dropped before \
             OUTPUT"
                .to_owned(),
        );
        self.report.seconds = began.elapsed().as_secs_f64();
        Ok(self.report)
    }
}

/// What conntrack takes the packet for; INVALID, without an entry, where it is not in use.
fn set_observed_ct_state(packet: &mut Packet, state: Option<CtState>) {
    let state = state.unwrap_or(CtState::Invalid);
    let made = packet.ct;
    packet.ct = ConntrackInfo::from_state(state);
    if state == CtState::Established && made.state == state {
        (packet.ct.is_reply_direction, packet.ct.mark) = (made.is_reply_direction, made.mark);
    }
}

/// The next answers to try where counters left some open: all of `open_question_count` questions in
/// turn, as a number counts. False where all were tried.
fn advance_scripted_answers(script: &mut Vec<bool>, open_question_count: usize) -> bool {
    script.resize(open_question_count.max(script.len()), false);
    for answer in script.iter_mut() {
        *answer = !*answer;
        if *answer {
            return true;
        }
    }
    false
}
