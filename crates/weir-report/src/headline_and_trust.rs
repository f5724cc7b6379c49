//! The first sentence of a page, and whether to trust it.

use weir_stats::{
    ClaimOutcome, Quantity, RatioDifference, RunQuality, RunSubject, Trial, TrialKind, TrialState,
    max_packets_accepted_by_limit, trial_selection,
};

use crate::number_format::{
    format_count, format_interval, format_percent, format_ratio, format_ratio_without_times_sign,
};
use crate::report_model::{ReportModel, subject_label};

/// Effects below this share are not reported as a difference, whatever their interval is.
const MIN_REPORTED_RELATIVE_CHANGE: f64 = 0.02;

/// The verdict, in parts: the number stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeadlineParts {
    /// `At 16,384 rules, weir's nft form forwards`.
    pub(crate) lead_text: String,
    /// `31×`; empty where nothing was compared.
    pub(crate) number: String,
    /// `[28, 34]`.
    pub(crate) interval: String,
    /// `what iptables-legacy forwards`.
    pub(crate) closing_text: String,
}

impl HeadlineParts {
    /// The whole sentence.
    pub(crate) fn sentence(&self) -> String {
        let parts = [&self.lead_text, &self.number, &self.interval, &self.closing_text];
        let parts: Vec<&str> =
            parts.iter().map(|part| part.as_str()).filter(|part| !part.is_empty()).collect();
        format!("{}.", parts.join(" "))
    }
}

/// What the run found.
pub(crate) fn build_headline(model: &ReportModel<'_>) -> HeadlineParts {
    let Some(headline) = &model.headline else { return headline_from_claims(model) };
    let Some(gain) = headline.gains.first() else { return headline_from_claims(model) };
    let place = match (model.numeric_axis, headline.axis_value) {
        (Some(axis), Some(at)) => format!("At {} {}, ", format_count(at), axis.name),
        _ => String::new(),
    };
    let kind = if model.quantity == Quantity::LookupsPerSecond { "classifier" } else { "form" };
    let name = format!("weir’s {} {kind}", gain.subject.name);
    let reference = subject_label(headline.reference);
    let interval = format_interval(&gain.ratio, format_ratio_without_times_sign);
    if gain.ratio.classify_ratio_difference_beyond(MIN_REPORTED_RELATIVE_CHANGE)
        == RatioDifference::None
    {
        return HeadlineParts {
            lead_text: format!("{place}{name} and {reference} do not differ:"),
            number: format_ratio(gain.ratio.value),
            interval,
            closing_text: String::new(),
        };
    }
    HeadlineParts {
        lead_text: format!("{place}{name} {}", model.main_quantity_verb()),
        number: format_ratio(gain.ratio.value),
        interval,
        closing_text: format!("what {reference} {}", model.main_quantity_verb()),
    }
}

/// The outcome of the claims of a run that compares no form of weir with anything.
fn headline_from_claims(model: &ReportModel<'_>) -> HeadlineParts {
    let claims = &model.record.run.claims;
    let of = |outcome| claims.iter().filter(|claim| claim.outcome == outcome).count();
    let [whole, direction, refuted, undecided] = [
        ClaimOutcome::Reproduced,
        ClaimOutcome::InDirectionOnly,
        ClaimOutcome::Refuted,
        ClaimOutcome::Undecided,
    ]
    .map(of);
    let measured = whole + direction + refuted + undecided;
    if model.accepted_trials().next().is_none() || measured == 0 {
        return HeadlineParts {
            lead_text: "This run has no pair of accepted trials to compare".to_owned(),
            number: String::new(),
            interval: String::new(),
            closing_text: String::new(),
        };
    }
    let mut after = "claims hold".to_owned();
    let others = [(direction, "in direction only"), (refuted, "refuted"), (undecided, "undecided")];
    for (count, words) in others.into_iter().filter(|(count, _)| *count > 0) {
        after.push_str(&format!(", {count} {words}"));
    }
    HeadlineParts {
        lead_text: String::new(),
        number: format!("{whole} of {measured}"),
        interval: String::new(),
        closing_text: after,
    }
}

/// How far the numbers can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TrustLevel {
    /// Nothing speaks against them.
    Ok,
    /// The machine was not quiet: orders of magnitude hold, percents may not.
    Noisy,
    /// Something is wrong.
    Invalid,
}

impl TrustLevel {
    /// The word on the badge.
    pub(crate) fn badge_text(self) -> &'static str {
        match self {
            TrustLevel::Ok => "trustworthy",
            TrustLevel::Noisy => "noisy",
            TrustLevel::Invalid => "invalid",
        }
    }

    /// Its class in the style sheet.
    pub(crate) fn css_class(self) -> &'static str {
        match self {
            TrustLevel::Ok => "ok",
            TrustLevel::Noisy => "noisy",
            TrustLevel::Invalid => "invalid",
        }
    }
}

/// Trust with the reasons that lower it, gravest first, and with what a reader should know though
/// it lowers nothing.
pub(crate) fn assess_trust(model: &ReportModel<'_>) -> (TrustLevel, Vec<String>) {
    let mut reasons: Vec<(TrustLevel, String)> = Vec::new();
    check_for_interruption_and_failures(model, &mut reasons);
    check_leaks_and_packet_balance(model, &mut reasons);
    check_block_count_and_noise(model, &mut reasons);
    note_cpu_pressure(model, &mut reasons);
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.0));
    let trust = reasons.first().map_or(TrustLevel::Ok, |(trust, _)| *trust);
    (trust, reasons.into_iter().map(|(_, reason)| reason).collect())
}

fn check_for_interruption_and_failures(
    model: &ReportModel<'_>,
    reasons: &mut Vec<(TrustLevel, String)>,
) {
    let run = &model.record.run;
    if model.accepted_trials().next().is_none() {
        reasons.push((TrustLevel::Invalid, "No trial was accepted.".to_owned()));
    }
    if !run.complete {
        reasons.push((TrustLevel::Invalid, "The run was interrupted before its end.".to_owned()));
    }
    let failed = count_trials_in_state(model, TrialState::Failed);
    if failed > 0 {
        reasons.push((TrustLevel::Invalid, format!("{} failed.", format_trial_count(failed))));
    }
}

fn check_leaks_and_packet_balance(
    model: &ReportModel<'_>,
    reasons: &mut Vec<(TrustLevel, String)>,
) {
    // For a flood, the arrivals are the intended result.
    let leaking = model.accepted_trials().filter(|trial| trial.kind != TrialKind::Connections);
    let leaked: u64 = leaking.map(|trial| excess_leaked_packets(model, trial)).sum();
    if leaked > 0 {
        let packets = format_count(leaked);
        reasons.push((
            TrustLevel::Invalid,
            format!("{packets} packets arrived that had to be dropped."),
        ));
    }
    let unbalanced = count_trials_in_state(model, TrialState::Unbalanced);
    if unbalanced > 0 {
        let all = model.record.trials.len();
        let grave = if unbalanced * 20 > all { TrustLevel::Invalid } else { TrustLevel::Noisy };
        reasons.push((
            grave,
            format!("{} did not add up and were excluded.", format_trial_count(unbalanced)),
        ));
    }
}

/// Packets that arrived and had to be dropped, beyond what a subject's limit accepts.
fn excess_leaked_packets(model: &ReportModel<'_>, trial: &Trial) -> u64 {
    let of_trial = |subject: &&RunSubject| subject.name == trial.subject;
    let subject = model.record.run.subjects.iter().find(of_trial);
    let may_pass = subject.map_or(0, |subject| {
        max_packets_accepted_by_limit(subject.lets_through_pps, trial.seconds)
    });
    trial.leaked.saturating_sub(may_pass)
}

/// Blocks below which an interval is little more than the values themselves.
const MIN_BLOCKS_FOR_TRUSTED_INTERVAL: u32 = 3;

fn check_block_count_and_noise(model: &ReportModel<'_>, reasons: &mut Vec<(TrustLevel, String)>) {
    let run = &model.record.run;
    if run.preset.blocks < MIN_BLOCKS_FOR_TRUSTED_INTERVAL {
        let times = if run.preset.blocks == 1 { "once" } else { "twice" };
        let reason = format!("Every point was measured only {times}: intervals mean little.");
        reasons.push((TrustLevel::Noisy, reason));
    }
    let (all, disturbed) =
        (model.record.trials.len(), count_trials_in_state(model, TrialState::Disturbed));
    if disturbed > 0 {
        let share = disturbed as f64 / all.max(1) as f64;
        let reason = format!(
            "{} of {} were disturbed and repeated ({}).",
            format_count(disturbed as u64),
            format_trial_count(all),
            format_percent(share)
        );
        if share > 0.10 {
            reasons.push((TrustLevel::Noisy, reason));
        }
    }
    let quality = RunQuality::from_run(run);
    for shortcoming in quality.shortcomings() {
        reasons.push((TrustLevel::Noisy, format!("No claim is decided: {shortcoming}.")));
    }
}

/// Other work on the machine. It does not itself reduce the trust: its effect on the numbers shows
/// in the subject that is measured twice.
fn note_cpu_pressure(model: &ReportModel<'_>, reasons: &mut Vec<(TrustLevel, String)>) {
    const BUSY_CPU_PRESSURE_TIME_SHARE: f64 = 0.25;
    let rates = model.accepted_trials().filter(|trial| trial.kind == TrialKind::Rate);
    let Some(median) = trial_selection::median_cpu_pressure_time_share(rates)
        .filter(|median| *median > BUSY_CPU_PRESSURE_TIME_SHARE)
    else {
        return;
    };
    let scheduling = &model.record.run.environment.generator_scheduling_policy;
    // With priority, other tasks wait, including the kernel's own threads of that core.
    let who = if scheduling.starts_with("fifo") {
        "Other tasks waited for the generator, which had priority,"
    } else {
        "The machine was busy: tasks waited for a processor"
    };
    let share = format_percent(median.min(1.0));
    let reason = format!("{who} in {share} of the median trial (scheduling {scheduling}).");
    reasons.push((TrustLevel::Ok, reason));
}

fn count_trials_in_state(model: &ReportModel<'_>, state: TrialState) -> usize {
    model.record.trials.iter().filter(|trial: &&Trial| trial.state == state).count()
}

fn format_trial_count(count_of: usize) -> String {
    if count_of == 1 {
        "1 trial".to_owned()
    } else {
        format!("{} trials", format_count(count_of as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_records;

    #[test]
    fn a_gain_is_reported_with_its_interval() {
        let record = sample_records::sample_record();
        let sentence = build_headline(&ReportModel::new(&record)).sentence();
        assert!(sentence.starts_with("At 16,384 rules, weir’s nft form forwards "), "{sentence}");
        assert!(sentence.ends_with("] what linear forwards."), "{sentence}");
    }

    #[test]
    fn a_gain_within_the_noise_is_not_claimed() {
        let mut record = sample_records::sample_record();
        for trial in &mut record.trials {
            trial.correct_verdict_pps = 1000.0;
        }
        let sentence = build_headline(&ReportModel::new(&record)).sentence();
        assert!(sentence.contains("do not differ: 1.00× [1.00, 1.00]"), "{sentence}");
    }

    #[test]
    fn a_run_without_weir_forms_reports_its_claim_counts() {
        let mut record = sample_records::sample_record();
        record.run.subjects.iter_mut().for_each(|subject| subject.weir = false);
        let sentence = build_headline(&ReportModel::new(&record)).sentence();
        assert_eq!(sentence, "1 of 2 claims hold, 1 in direction only.");
        record.run.claims[0].outcome = ClaimOutcome::Refuted;
        let sentence = build_headline(&ReportModel::new(&record)).sentence();
        assert_eq!(sentence, "1 of 2 claims hold, 1 refuted.");
        record.run.claims.clear();
        assert!(
            build_headline(&ReportModel::new(&record))
                .sentence()
                .starts_with("This run has no pair")
        );
    }

    #[test]
    fn an_empty_run_is_reported_and_invalid() {
        let record =
            weir_stats::RunRecord { trials: Vec::new(), ..sample_records::sample_record() };
        let model = ReportModel::new(&record);
        assert!(build_headline(&model).sentence().starts_with("This run has no pair"));
        assert_eq!(assess_trust(&model).0, TrustLevel::Invalid);
    }

    #[test]
    fn a_quiet_run_is_trusted_and_each_fault_lowers_trust() {
        let quiet = sample_records::sample_record();
        assert_eq!(assess_trust(&ReportModel::new(&quiet)), (TrustLevel::Ok, Vec::new()));

        let mut interrupted = sample_records::sample_record();
        interrupted.run.complete = false;
        assert_eq!(assess_trust(&ReportModel::new(&interrupted)).0, TrustLevel::Invalid);

        let mut leaking = sample_records::sample_record();
        leaking.trials[3].leaked = 7;
        let (badge, reasons) = assess_trust(&ReportModel::new(&leaking));
        assert_eq!(badge, TrustLevel::Invalid);
        assert_eq!(reasons, ["7 packets arrived that had to be dropped."]);

        let limiting = &leaking.trials[3].subject;
        let of_limit = leaking.run.subjects.iter_mut().find(|subject| subject.name == *limiting);
        of_limit.unwrap().lets_through_pps = 3;
        let passing = 7 - max_packets_accepted_by_limit(3, leaking.trials[3].seconds);
        let (_, reasons) = assess_trust(&ReportModel::new(&leaking));
        assert_eq!(reasons, [format!("{passing} packets arrived that had to be dropped.")]);
        let of_limit = leaking.run.subjects.iter_mut().find(|subject| subject.lets_through_pps > 0);
        of_limit.unwrap().lets_through_pps = 7;
        assert_eq!(assess_trust(&ReportModel::new(&leaking)), (TrustLevel::Ok, Vec::new()));

        let mut shaking = sample_records::sample_record();
        if let Some(floor) = &mut shaking.run.noise_floor {
            floor.ratio.hi = 1.2;
        }
        assert_eq!(assess_trust(&ReportModel::new(&shaking)).0, TrustLevel::Noisy);

        let mut busy = sample_records::sample_record();
        busy.trials.iter_mut().for_each(|trial| trial.noise.psi = 0.9);
        let (badge, notes) = assess_trust(&ReportModel::new(&busy));
        assert_eq!(badge, TrustLevel::Ok);
        assert!(notes[0].starts_with("Other tasks waited"), "{notes:?}");

        let mut disturbed = sample_records::sample_record();
        for trial in disturbed.trials.iter_mut().step_by(4) {
            trial.state = TrialState::Disturbed;
        }
        assert_eq!(assess_trust(&ReportModel::new(&disturbed)).0, TrustLevel::Noisy);
    }
}
