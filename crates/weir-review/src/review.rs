//! The result of a comparison, for people and for programs: `weir diff`.
//!
//! A [`Review`] is the result of [`compare_firewalls`](weir_diagram::compare_firewalls) in words.
//! Changes are ordered by importance: newly allowed, newly denied, denied in another way, other
//! effects; within these the largest part of all packets first. Each has its regions, and each
//! region the rules that decide it on both sides. [`Review::to_text`] and [`Review::to_markdown`]
//! render the same values that JSON has.

mod compare_counters;
mod deciding_rules;
mod packet_path_lines;
mod packets_not_covered_by_proof;
mod region_size;
mod region_words;
mod render;
mod review_types;
mod undecided_paths;

use std::cell::OnceCell;

use weir_diagram::{
    ComparedExamplePacket, ComparedPath, Comparison, ComparisonVerdict, CornerCaseDifference,
    CornerCaseKind, FamilyPathComparison, Region, RulesetDifference, StatefulTestIdResolver,
    StatefulTestPairing, Witness,
};
use weir_model::{Family, Hook};
use weir_semantics::trace::{Trace, trace_at_hook, trace_journey};
use weir_semantics::{Interpreter, OutcomeDifference, Verdict};
use weir_syntax::iptables::print_rule;

pub use self::compare_counters::compare_counters;
use self::deciding_rules::find_deciding_rules;
use self::packet_path_lines::render_path_lines;
pub use self::packets_not_covered_by_proof::describe_uncovered_packets;
use self::region_words::TestedDevices;
pub use self::review_types::{
    CornerCaseReview, CounterComparison, CounterDifference, DecisionsBeforeAndAfter,
    ExamplePacketReview, FamilyPathReview, LocatedRuleOrPolicy, PathThroughRuleset,
    PathsBeforeAndAfter, RegionFieldReview, RegionReview, Review, ReviewedRuleset, RulesetDecision,
    TreatmentChange, TreatmentChangeKind,
};
pub use self::undecided_paths::UndecidedPathCheckOptions;
use crate::explain::{trace_to_rows, verdict_words};

impl Review {
    /// Describes the result in words.
    pub fn from_comparison(
        comparison: &Comparison,
        sides: [ReviewedRuleset<'_>; 2],
        stateful_pairing: StatefulTestPairing,
    ) -> Review {
        let [before, after] = sides;
        let mut changes = Vec::new();
        let mut parts = Vec::new();
        let tracers = OnceCell::new();
        for part in &comparison.parts {
            let mut review = summarize_family_path_comparison(part);
            if let ComparisonVerdict::Differs(differs) = &part.verdict {
                let tracers =
                    tracers.get_or_init(|| WitnessTracer::for_sides(sides, stateful_pairing));
                let firewalls = sides.map(|side| side.firewall);
                let devices = TestedDevices::of_firewalls(firewalls, part.family);
                let reviewer =
                    FamilyPathReviewer { path_comparison: part, sides, tracers, devices: &devices };
                let found = reviewer.review_changes(differs);
                review.example = Some(reviewer.build_most_important_packet_paths(differs, &found));
                changes.extend(found.into_iter().map(|(change, _)| change));
            }
            if let ComparisonVerdict::DiffersOnPacket { example, .. } = &part.verdict {
                let tracers =
                    tracers.get_or_init(|| WitnessTracer::for_sides(sides, stateful_pairing));
                let firewalls = sides.map(|side| side.firewall);
                let devices = TestedDevices::of_firewalls(firewalls, part.family);
                let reviewer =
                    FamilyPathReviewer { path_comparison: part, sides, tracers, devices: &devices };
                review.example =
                    Some(reviewer.build_packet_paths(&example.witness, example.difference));
                changes.push(reviewer.review_differing_packet(example));
            }
            if let ComparisonVerdict::ReassemblyDiffers(f) = &part.verdict {
                let (with, without) =
                    if f.is_first_ruleset_reassembling { (before, after) } else { (after, before) };
                review.explanation = Some(format!(
                    "only {} has fragments reassembled before its rules, because of {} ({}); {} \
                     sees them individually",
                    with.name,
                    print_rule(&f.rule, part.family),
                    f.rule_position(),
                    without.name
                ));
            }
            parts.push(review);
        }
        changes.sort_by(|a, b| {
            a.kind.cmp(&b.kind).then(b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)))
        });
        Review {
            before: before.name.to_owned(),
            after: after.name.to_owned(),
            compared: "effects",
            proven_equal: comparison.is_equal(),
            changes,
            parts,
            counters: None,
            not_compared: Vec::new(),
        }
    }
}

/// The answer of a part, without its example.
fn summarize_family_path_comparison(part: &FamilyPathComparison) -> FamilyPathReview {
    let mut review = FamilyPathReview {
        family: lowercase_family_name(part.family),
        path: part.path.to_string(),
        answer: "equal",
        explanation: None,
        share: Some(0.0),
        headers: Some(0.0),
        packets_agreed: None,
        example: None,
    };
    match &part.verdict {
        ComparisonVerdict::Equal => {}
        ComparisonVerdict::ReassemblyDiffers(_) => review.answer = "differs",
        ComparisonVerdict::DiffersOnPacket { why, .. } => {
            (review.answer, review.explanation) = ("differs", Some(why.clone()));
            (review.share, review.headers) = (None, None);
        }
        ComparisonVerdict::Undecided { why } => {
            (review.answer, review.explanation) = ("unknown", Some(why.clone()));
            (review.share, review.headers) = (None, None);
        }
        ComparisonVerdict::Differs(differs) => {
            review.answer = "differs";
            (review.share, review.headers) = (Some(differs.share), Some(differs.packet_count));
        }
    }
    review
}

/// Sends witnesses through one of the firewalls.
struct WitnessTracer<'a> {
    interpreter: Interpreter<'a>,
    state_ids: StatefulTestIdResolver,
}

impl<'a> WitnessTracer<'a> {
    fn for_sides(
        sides: [ReviewedRuleset<'a>; 2],
        stateful_pairing: StatefulTestPairing,
    ) -> [WitnessTracer<'a>; 2] {
        let [a, b] = sides.map(|s| s.firewall);
        [(a, b), (b, a)].map(|(firewall, other)| WitnessTracer {
            interpreter: Interpreter::new_for_comparison_with(firewall, other),
            state_ids: StatefulTestIdResolver::new(firewall, stateful_pairing),
        })
    }
}

/// Words what one part of a comparison found.
struct FamilyPathReviewer<'a> {
    path_comparison: &'a FamilyPathComparison,
    sides: [ReviewedRuleset<'a>; 2],
    tracers: &'a [WitnessTracer<'a>; 2],
    devices: &'a TestedDevices,
}

impl FamilyPathReviewer<'_> {
    /// Each change, with the packet that shows it best.
    fn review_changes<'d>(
        &self,
        differs: &'d RulesetDifference,
    ) -> Vec<(TreatmentChange, Option<&'d Witness>)> {
        let mut out = Vec::new();
        for change in &differs.verdict_changes {
            let kind = match change {
                c if c.is_newly_allowed() => TreatmentChangeKind::NewlyAllowed,
                c if c.is_newly_denied() => TreatmentChangeKind::NewlyDenied,
                _ => TreatmentChangeKind::DeniedOtherwise,
            };
            let mut review =
                self.build_treatment_change(kind, &change.regions, &change.corner_cases);
            (review.share, review.headers) = (Some(change.share), Some(change.packet_count));
            review.verdict_before = Some(verdict_words(change.before));
            review.verdict_after = Some(verdict_words(change.after));
            out.push((review, find_first_region_witness(&change.regions)));
        }
        if let Some(effects) = &differs.effect_change {
            let mut review = self.build_treatment_change(
                TreatmentChangeKind::Effects,
                &effects.regions,
                &effects.corner_cases,
            );
            (review.share, review.headers) = (Some(effects.share), Some(effects.packet_count));
            out.push((review, find_first_region_witness(&effects.regions)));
        }
        out.sort_by(|(a, _), (b, _)| {
            a.kind.cmp(&b.kind).then(b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)))
        });
        out
    }

    /// A change of which one packet is known.
    fn review_differing_packet(&self, example: &ComparedExamplePacket) -> TreatmentChange {
        let (before, after) = example.verdicts;
        let is_verdict = example.difference == OutcomeDifference::Verdict;
        let kind = match (before == Verdict::Accept, after == Verdict::Accept) {
            _ if !is_verdict => TreatmentChangeKind::Effects,
            (false, true) => TreatmentChangeKind::NewlyAllowed,
            (true, false) => TreatmentChangeKind::NewlyDenied,
            _ => TreatmentChangeKind::DeniedOtherwise,
        };
        let packet = self.review_example(example);
        let region = RegionReview {
            packets: packet.packet.clone(),
            fields: Vec::new(),
            size: "one packet of those that differ".to_owned(),
            share: 0.0,
            headers: 1.0,
            decided_by: vec![self.trace_and_find_deciding_rules(&example.witness)],
            example: Some(packet),
        };
        TreatmentChange {
            verdict_before: is_verdict.then(|| verdict_words(before)),
            verdict_after: is_verdict.then(|| verdict_words(after)),
            regions: vec![region],
            ..self.build_treatment_change(kind, &[], &[])
        }
    }

    fn build_treatment_change(
        &self,
        kind: TreatmentChangeKind,
        regions: &[Region],
        corners: &[CornerCaseDifference],
    ) -> TreatmentChange {
        TreatmentChange {
            kind,
            family: lowercase_family_name(self.path_comparison.family),
            path: self.path_comparison.path.to_string(),
            verdict_before: None,
            verdict_after: None,
            share: None,
            headers: None,
            regions: regions.iter().map(|region| self.review_region(region)).collect(),
            corner_cases: corners.iter().map(|case| self.review_corner_case(case)).collect(),
        }
    }

    fn review_region(&self, region: &Region) -> RegionReview {
        let fields = region_words::region_fields(
            region,
            self.path_comparison.path,
            self.path_comparison.family,
        );
        let mut decided_by = Vec::new();
        for example in &region.examples {
            let decided = self.trace_and_find_deciding_rules(&example.witness);
            if !decided_by.contains(&decided) {
                decided_by.push(decided);
            }
        }
        RegionReview {
            packets: region_words::region_words(&fields),
            fields,
            size: region_size::region_size_words(region),
            share: region.share,
            headers: region.packet_count,
            decided_by,
            example: region.examples.first().map(|e| self.review_example(e)),
        }
    }

    fn review_corner_case(&self, case: &CornerCaseDifference) -> CornerCaseReview {
        CornerCaseReview {
            packets: match case.corner_case_kind {
                CornerCaseKind::UnreadableHeader => "truncated headers",
                CornerCaseKind::LaterFragment => "later fragments",
                CornerCaseKind::InvalidCtState => "invalid packets",
                CornerCaseKind::TranslatedNewConnection => {
                    "repeated first packets of translated connections"
                }
            },
            share: case.share,
            decided_by: case
                .example
                .as_ref()
                .map(|e| self.trace_and_find_deciding_rules(&e.witness)),
            example: case.example.as_ref().map(|e| self.review_example(e)),
        }
    }

    fn review_example(&self, example: &ComparedExamplePacket) -> ExamplePacketReview {
        region_words::build_example_review(
            &example.witness,
            example.difference,
            self.devices,
            self.compared_path_and_family(),
        )
    }

    /// Path and family of the packets.
    fn compared_path_and_family(&self) -> (ComparedPath, Family) {
        (self.path_comparison.path, self.path_comparison.family)
    }

    fn trace_witness_through_both(&self, witness: &Witness) -> [Trace<'_>; 2] {
        [0, 1].map(|i| {
            let WitnessTracer { interpreter, state_ids } = &self.tracers[i];
            let (mut answers, packet) = (witness.to_oracle(state_ids), &witness.packet);
            match self.path_comparison.path {
                ComparedPath::WholeJourney(entry) => {
                    trace_journey(interpreter, packet, entry, &mut answers)
                }
                ComparedPath::Hook(hook) => trace_at_hook(interpreter, packet, hook, &mut answers),
                ComparedPath::ReassembledInput => {
                    trace_at_hook(interpreter, packet, Hook::Input, &mut answers)
                }
            }
        })
    }

    fn trace_and_find_deciding_rules(&self, witness: &Witness) -> DecisionsBeforeAndAfter {
        let traces = self.trace_witness_through_both(witness);
        let [before, after] =
            find_deciding_rules(traces.each_ref(), self.sides, self.path_comparison.family);
        DecisionsBeforeAndAfter { before, after }
    }

    /// The path of the packet that shows the most important change.
    fn build_most_important_packet_paths(
        &self,
        differs: &RulesetDifference,
        changes: &[(TreatmentChange, Option<&Witness>)],
    ) -> PathsBeforeAndAfter {
        let first = changes.iter().find_map(|(_, witness)| *witness);
        let witness = first.unwrap_or(&differs.witness);
        let difference = match changes.first() {
            Some((change, Some(_))) if change.kind != TreatmentChangeKind::Effects => {
                OutcomeDifference::Verdict
            }
            _ => differs.difference,
        };
        self.build_packet_paths(witness, difference)
    }

    fn build_packet_paths(
        &self,
        witness: &Witness,
        difference: OutcomeDifference,
    ) -> PathsBeforeAndAfter {
        let example = region_words::build_example_review(
            witness,
            difference,
            self.devices,
            self.compared_path_and_family(),
        );
        let [before, after] = self
            .trace_witness_through_both(witness)
            .map(|t| trace_to_path_through_ruleset(&t, self.path_comparison.family));
        PathsBeforeAndAfter { example, before, after }
    }
}

/// The packet that shows the largest region best.
fn find_first_region_witness(regions: &[Region]) -> Option<&Witness> {
    regions.iter().find_map(|r| r.examples.first()).map(|e| &e.witness)
}

const fn lowercase_family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

fn trace_to_path_through_ruleset(trace: &Trace<'_>, family: Family) -> PathThroughRuleset {
    PathThroughRuleset {
        verdict: verdict_words(trace.outcome.verdict),
        tried: trace.outcome.rules_tried,
        text_lines: render_path_lines(trace, &|rule| print_rule(rule, family)),
        steps: trace_to_rows(trace),
    }
}
