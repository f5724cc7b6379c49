//! Objections that a referee could raise, computed from the records.
//!
//! An objection does not change a status. A shortcoming does: it makes a claim undecided.
//! Shortcomings are objections too, as is anything that a reader of a decided claim should know but
//! cannot see.

use weir_stats::aa_test::{AaStatistic, AaTestRecord};
use weir_stats::trial_selection::{TrialSelection, estimate_block_paired_ratio};
use weir_stats::{
    Claim, ClaimBounds, ClaimSource, ClaimTest, Estimate, EvidenceShortcoming, Quantity, RunRecord,
    SubjectPoint, TrialKind,
};

use super::estimate_text::format_estimate;
use super::kept_runs::KeptRunRecord;
use super::objection::{Objection, ObjectionKind};
use super::statement_status::{ClaimEvidence, StatementStatus};
use crate::loaded_study::LoadedStudy;

/// A bound that is exceeded by this factor is trivial.
const TRIVIAL_BOUND_FACTOR: f64 = 10.0;

/// The objections to one claim.
pub(super) fn list_claim_objections(
    loaded: &LoadedStudy,
    claim: &Claim,
    evidence: &ClaimEvidence,
    kept: &[KeptRunRecord],
) -> Vec<Objection> {
    let mut found = Vec::new();
    let Some(test) = &claim.test else { return found };
    let mut object = |kind, text: String| {
        found.push(Objection { kind, claim: Some(claim.id.clone()), text });
    };
    if matches!(evidence.status, StatementStatus::NotMeasured | StatementStatus::NotRun) {
        object(ObjectionKind::NotMeasured, "no kept run measured what the test needs".to_owned());
    }
    for shortcoming in &evidence.shortcomings {
        object(kind_of_shortcoming(shortcoming), shortcoming.to_string());
    }
    if claim.by == ClaimSource::Paper && claim.expects.is_none() {
        let text =
            "`expects` does not state the number or direction that the paper reports".to_owned();
        object(ObjectionKind::UnstatedExpectation, text);
    }
    if let Some(text) = find_identical_ratio_sides(loaded, test) {
        object(ObjectionKind::TrueByConstruction, text);
    }
    if let Some(estimate) = &evidence.estimate {
        for other in &evidence.other_runs {
            if !is_overlapping(estimate, &other.estimate) {
                let text = format!(
                    "{} ({}) has {}, outside of this interval",
                    other.run,
                    other.cpu,
                    format_estimate(&other.estimate)
                );
                object(ObjectionKind::ContradictingRun, text);
            }
        }
        if evidence.status == StatementStatus::Reproduced
            && let Some(factor) = bound_margin_factor(test.reproduced_bounds(), estimate)
            && factor >= TRIVIAL_BOUND_FACTOR
        {
            let text = format!(
                "the bound ({}) is exceeded {factor:.0}-fold: the test could not fail here",
                test.reproduced_bounds()
            );
            object(ObjectionKind::TrivialBound, text);
        }
    }
    let Some(decisive) = kept.iter().find(|one| Some(&one.run.folder) == evidence.run.as_ref())
    else {
        return found;
    };
    if !decisive.has_same_test(loaded, &claim.id) {
        let text = "its test was written or changed after the run".to_owned();
        object(ObjectionKind::TestNewerThanRun, text);
    }
    for (part, reason) in accepted_changes_of_test(loaded, decisive, test) {
        let text = format!("the {part} of the study changed after the run; accepted: {reason}");
        object(ObjectionKind::ChangedDefinition, text);
    }
    if loaded.study.frames_generator().is_some()
        && is_measured_with_frames(test)
        && decisive.record.run.frame_facts.is_empty()
    {
        let text = "the record does not contain which rules the frames hit".to_owned();
        object(ObjectionKind::UnrecordedTraffic, text);
    }
    for text in describe_subjects_without_observed_effect(&decisive.record, test) {
        object(ObjectionKind::SubjectWithoutObservedEffect, text);
    }
    found
}

/// The objections to a statement as a whole.
pub(super) fn list_statement_objections(evidence: &[ClaimEvidence]) -> Vec<Objection> {
    let mut cpus: Vec<&str> = evidence.iter().filter_map(|one| one.cpu.as_deref()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() < 2 {
        return Vec::new();
    }
    let text = format!("its claims rest on runs of several processors: {}", cpus.join(", "));
    vec![Objection { kind: ObjectionKind::SeveralProcessors, claim: None, text }]
}

/// The objections to the A/A comparison of a study.
pub(super) fn list_aa_objections(kept: Option<&AaTestRecord>) -> Vec<Objection> {
    let text = match kept {
        None => "no subject was compared with itself (`weir lab run --aa SUBJECT --keep`)",
        Some(kept) if kept.result.statistic == AaStatistic::StudentT => {
            "the A/A comparison was decided by Student's t, which decides no claim"
        }
        Some(kept) if !kept.result.passes() => {
            "a subject compared with itself differs more often than expected by chance"
        }
        Some(_) => return Vec::new(),
    };
    vec![Objection { kind: ObjectionKind::AaComparison, claim: None, text: text.to_owned() }]
}

fn kind_of_shortcoming(shortcoming: &EvidenceShortcoming) -> ObjectionKind {
    match shortcoming {
        EvidenceShortcoming::UnknownNoiseFloor | EvidenceShortcoming::WideNoiseFloor { .. } => {
            ObjectionKind::NoiseFloor
        }
        EvidenceShortcoming::ManyGivenUpTrials { .. } => ObjectionKind::GivenUpTrials,
        EvidenceShortcoming::FewSamples { .. } => ObjectionKind::FewSamples,
        EvidenceShortcoming::ChangedDefinition { .. } => ObjectionKind::ChangedDefinition,
        EvidenceShortcoming::StraddledBound { .. } => ObjectionKind::StraddledBound,
    }
}

fn is_overlapping(first: &Estimate, second: &Estimate) -> bool {
    first.lo <= second.hi && second.lo <= first.hi
}

/// The factor by which an interval exceeds the only bound of `within`; `None` if there are two
/// bounds or a factor is meaningless.
fn bound_margin_factor(within: &ClaimBounds, estimate: &Estimate) -> Option<f64> {
    match (within.min, within.max) {
        (Some(min), None) if min > 0.0 => Some(estimate.lo / min),
        (None, Some(max)) if max > 0.0 && estimate.hi > 0.0 => Some(max / estimate.hi),
        _ => None,
    }
}

/// The reason if both sides of a ratio measure the same subject at the same point.
fn find_identical_ratio_sides(loaded: &LoadedStudy, test: &ClaimTest) -> Option<String> {
    let ClaimTest::Ratio { of, to, .. } = test else { return None };
    let subject = |place: &SubjectPoint| loaded.subjects.0.get(&place.subject);
    let (first, second) = (subject(of)?, subject(to)?);
    let is_same = of.at == to.at
        && [&first.prepare, &first.setup, &first.load]
            == [&second.prepare, &second.setup, &second.load]
        && (first.path, first.client) == (second.path, second.client);
    is_same.then(|| {
        format!("`{}` and `{}` have the same commands: their ratio is 1", of.subject, to.subject)
    })
}

fn accepted_changes_of_test<'a>(
    loaded: &'a LoadedStudy,
    kept: &KeptRunRecord,
    test: &ClaimTest,
) -> Vec<(String, &'a str)> {
    let reason = |part: String| {
        let mut accepted = loaded.study.accepted_changes.iter();
        let found = accepted
            .find(|change| change.run == kept.run.folder && change.parts.contains(&part))?;
        Some((part, found.reason.as_str()))
    };
    kept.list_changed_parts(loaded, test).into_iter().filter_map(reason).collect()
}

fn quantity_of_test(test: &ClaimTest) -> Quantity {
    match test {
        ClaimTest::Ratio { quantity, .. }
        | ClaimTest::Value { quantity, .. }
        | ClaimTest::Growth { quantity, .. } => *quantity,
    }
}

fn is_measured_with_frames(test: &ClaimTest) -> bool {
    matches!(quantity_of_test(test).trial_kind(), TrialKind::Rate | TrialKind::Paced)
}

/// Subjects of a test that do not differ from the one without rules, and whose rules dropped no
/// packets.
fn describe_subjects_without_observed_effect(record: &RunRecord, test: &ClaimTest) -> Vec<String> {
    let quantity = quantity_of_test(test);
    let places: Vec<&SubjectPoint> = match test {
        ClaimTest::Ratio { of, to, .. } => vec![of, to],
        ClaimTest::Value { of, .. } => vec![of],
        ClaimTest::Growth { .. } => return Vec::new(),
    };
    let baseline = record.run.subjects.iter().find(|subject| subject.loads_no_rules);
    let Some(baseline) = baseline else { return Vec::new() };
    let is_silent = |place: &&SubjectPoint| {
        let subject = record.run.subjects.iter().find(|subject| subject.name == place.subject);
        if subject.is_none_or(|subject| subject.loads_no_rules) {
            return false;
        }
        let of = TrialSelection::of_first_copy(quantity, &place.subject, &place.at);
        let without = TrialSelection::of_first_copy(quantity, &baseline.name, &place.at);
        let is_equal = estimate_block_paired_ratio(of, without, &record.trials)
            .is_some_and(|ratio| ratio.lo <= 1.0 && 1.0 <= ratio.hi);
        let has_dropped = of.matching_accepted_trials(&record.trials).any(|trial| {
            trial.drop_counts.iter().any(|drop| drop.counter == "rules" && drop.packets > 0)
        });
        is_equal && !has_dropped && is_traffic_quantity(quantity)
    };
    let mut silent: Vec<String> = places
        .into_iter()
        .filter(is_silent)
        .map(|place| {
            format!(
                "`{}` does not differ from `{}` and its rules dropped no packets: the record does not \
                 show that they were evaluated",
                place.subject, baseline.name
            )
        })
        .collect();
    silent.dedup();
    silent
}

fn is_traffic_quantity(quantity: Quantity) -> bool {
    !matches!(quantity.trial_kind(), TrialKind::Load | TrialKind::Add)
}
