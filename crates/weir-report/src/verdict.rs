//! The first sentence of a page, and whether to trust it.

use weir_stats::{
    ClaimOutcome, RatioDifference, RunSubject, State, Trial, TrialKind, series, within_limit,
};

use crate::number::{count, fine, interval, percent, plain, times};
use crate::report_model::{ReportModel, label};

/// Effects below this share are not reported as a difference, whatever their interval is.
const THRESHOLD: f64 = 0.02;

/// The verdict, in parts: the number stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeadlineParts {
    /// `At 16,384 rules, weir's nft form forwards`.
    pub(crate) before: String,
    /// `31×`; empty where nothing was compared.
    pub(crate) number: String,
    /// `[28, 34]`.
    pub(crate) interval: String,
    /// `what iptables-legacy forwards`.
    pub(crate) after: String,
}

impl HeadlineParts {
    /// The whole sentence.
    pub(crate) fn sentence(&self) -> String {
        let parts = [&self.before, &self.number, &self.interval, &self.after];
        let parts: Vec<&str> =
            parts.iter().map(|part| part.as_str()).filter(|part| !part.is_empty()).collect();
        format!("{}.", parts.join(" "))
    }
}

/// What the run found.
pub(crate) fn verdict(model: &ReportModel<'_>) -> HeadlineParts {
    let Some(headline) = &model.headline else { return claims(model) };
    let Some(gain) = headline.gains.first() else { return claims(model) };
    let place = match (model.axis, headline.at) {
        (Some(axis), Some(at)) => format!("At {} {}, ", count(at), axis.name),
        _ => String::new(),
    };
    let name = format!("weir’s {} form", gain.subject.name);
    let reference = label(headline.reference);
    let interval = interval(&gain.ratio, plain);
    if gain.ratio.difference(THRESHOLD) == RatioDifference::None {
        return HeadlineParts {
            before: format!("{place}{name} and {reference} do not differ:"),
            number: times(gain.ratio.value),
            interval,
            after: String::new(),
        };
    }
    HeadlineParts {
        before: format!("{place}{name} {}", model.verb()),
        number: times(gain.ratio.value),
        interval,
        after: format!("what {reference} {}", model.verb()),
    }
}

/// The outcome of the claims of a run that compares no form of weir with anything.
fn claims(model: &ReportModel<'_>) -> HeadlineParts {
    let claims = &model.record.run.claims;
    let of = |outcome| claims.iter().filter(|claim| claim.outcome == outcome).count();
    let [whole, shape, not] =
        [ClaimOutcome::Reproduced, ClaimOutcome::ReproducedInShape, ClaimOutcome::NotReproduced]
            .map(of);
    let decided = whole + shape + not;
    if model.accepted().next().is_none() || decided == 0 {
        return HeadlineParts {
            before: "This run has no pair of accepted trials to compare".to_owned(),
            number: String::new(),
            interval: String::new(),
            after: String::new(),
        };
    }
    let mut after = "claims hold".to_owned();
    if shape > 0 {
        after.push_str(&format!(", {shape} in shape"));
    }
    if not > 0 {
        after.push_str(&format!(", {not} not"));
    }
    HeadlineParts {
        before: String::new(),
        number: format!("{whole} of {decided}"),
        interval: String::new(),
        after,
    }
}

/// How far the numbers can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trust {
    /// Nothing speaks against them.
    Ok,
    /// The machine was not quiet: orders of magnitude hold, percents may not.
    Noisy,
    /// Something is wrong.
    Invalid,
}

impl Trust {
    /// The word on the badge.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Trust::Ok => "trustworthy",
            Trust::Noisy => "noisy",
            Trust::Invalid => "invalid",
        }
    }

    /// Its class in the style sheet.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Trust::Ok => "ok",
            Trust::Noisy => "noisy",
            Trust::Invalid => "invalid",
        }
    }
}

/// Trust with the reasons that lower it, gravest first, and with what a reader should know though
/// it lowers nothing.
pub(crate) fn trust(model: &ReportModel<'_>) -> (Trust, Vec<String>) {
    let mut reasons: Vec<(Trust, String)> = Vec::new();
    completeness(model, &mut reasons);
    sums(model, &mut reasons);
    noise(model, &mut reasons);
    pressure(model, &mut reasons);
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.0));
    let trust = reasons.first().map_or(Trust::Ok, |(trust, _)| *trust);
    (trust, reasons.into_iter().map(|(_, reason)| reason).collect())
}

fn completeness(model: &ReportModel<'_>, reasons: &mut Vec<(Trust, String)>) {
    let run = &model.record.run;
    if model.accepted().next().is_none() {
        reasons.push((Trust::Invalid, "No trial was accepted.".to_owned()));
    }
    if !run.complete {
        reasons.push((Trust::Invalid, "The run was interrupted before its end.".to_owned()));
    }
    let failed = number_of(model, State::Failed);
    if failed > 0 {
        reasons.push((Trust::Invalid, format!("{} failed.", trials(failed))));
    }
}

fn sums(model: &ReportModel<'_>, reasons: &mut Vec<(Trust, String)>) {
    // For a flood, the arrivals are the intended result.
    let leaking = model.accepted().filter(|trial| trial.kind != TrialKind::Connections);
    let leaked: u64 = leaking.map(|trial| leaked(model, trial)).sum();
    if leaked > 0 {
        let packets = count(leaked);
        reasons
            .push((Trust::Invalid, format!("{packets} packets arrived that had to be dropped.")));
    }
    let unbalanced = number_of(model, State::Unbalanced);
    if unbalanced > 0 {
        let all = model.record.trials.len();
        let grave = if unbalanced * 20 > all { Trust::Invalid } else { Trust::Noisy };
        reasons.push((grave, format!("{} did not add up and were excluded.", trials(unbalanced))));
    }
}

/// Packets that arrived and had to be dropped, beyond what a subject's limit accepts.
fn leaked(model: &ReportModel<'_>, trial: &Trial) -> u64 {
    let of_trial = |subject: &&RunSubject| subject.name == trial.subject;
    let subject = model.record.run.subjects.iter().find(of_trial);
    let may_pass =
        subject.map_or(0, |subject| within_limit(subject.lets_through_pps, trial.seconds));
    trial.leaked.saturating_sub(may_pass)
}

/// Blocks below which an interval is little more than the values themselves.
const FEWEST_BLOCKS: u32 = 3;

fn noise(model: &ReportModel<'_>, reasons: &mut Vec<(Trust, String)>) {
    let run = &model.record.run;
    if run.preset.blocks < FEWEST_BLOCKS {
        let times = if run.preset.blocks == 1 { "once" } else { "twice" };
        let reason = format!("Every point was measured only {times}: intervals mean little.");
        reasons.push((Trust::Noisy, reason));
    }
    let (all, disturbed) = (model.record.trials.len(), number_of(model, State::Disturbed));
    if disturbed > 0 {
        let share = disturbed as f64 / all.max(1) as f64;
        let reason = format!(
            "{} of {} were disturbed and repeated ({}).",
            count(disturbed as u64),
            trials(all),
            percent(share)
        );
        if share > 0.10 {
            reasons.push((Trust::Noisy, reason));
        }
    }
    let given_up = run.counts.given_up;
    if given_up as f64 > 0.05 * model.accepted().count() as f64 {
        reasons.push((
            Trust::Noisy,
            format!(
                "{} count although they were disturbed: repeating them did not help.",
                trials(given_up as usize)
            ),
        ));
    }
    if let Some(floor) = &run.noise_floor {
        let ratio = &floor.ratio;
        let off = (ratio.value - 1.0).abs().max((ratio.lo - 1.0).abs()).max((ratio.hi - 1.0).abs());
        if off > 0.05 {
            reasons.push((
                Trust::Noisy,
                format!(
                    "The same subject measured twice differs: {} {}.",
                    fine(ratio.value),
                    interval(ratio, fine)
                ),
            ));
        }
    } else {
        reasons.push((Trust::Noisy, "There was no A/A pair, so no noise floor.".to_owned()));
    }
}

/// Other work on the machine. It does not itself reduce the trust: its effect on the numbers shows
/// in the subject that is measured twice.
fn pressure(model: &ReportModel<'_>, reasons: &mut Vec<(Trust, String)>) {
    const BUSY: f64 = 0.25;
    let rates = model.accepted().filter(|trial| trial.kind == TrialKind::Rate);
    let Some(median) = series::median_pressure(rates).filter(|median| *median > BUSY) else {
        return;
    };
    let scheduling = &model.record.run.environment.scheduling;
    // With priority, other tasks wait, including the kernel's own threads of that core.
    let who = if scheduling.starts_with("fifo") {
        "Other tasks waited for the generator, which had priority,"
    } else {
        "The machine was busy: tasks waited for a processor"
    };
    let share = percent(median.min(1.0));
    let reason = format!("{who} in {share} of the median trial (scheduling {scheduling}).");
    reasons.push((Trust::Ok, reason));
}

fn number_of(model: &ReportModel<'_>, state: State) -> usize {
    model.record.trials.iter().filter(|trial: &&Trial| trial.state == state).count()
}

fn trials(count_of: usize) -> String {
    if count_of == 1 { "1 trial".to_owned() } else { format!("{} trials", count(count_of as u64)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_gain_is_said_with_its_interval() {
        let record = sample::record();
        let sentence = verdict(&ReportModel::new(&record)).sentence();
        assert!(sentence.starts_with("At 16,384 rules, weir’s nft form forwards "), "{sentence}");
        assert!(sentence.ends_with("] what linear forwards."), "{sentence}");
    }

    #[test]
    fn a_gain_that_trials_cannot_see_is_not_claimed() {
        let mut record = sample::record();
        for trial in &mut record.trials {
            trial.pps = 1000.0;
        }
        let sentence = verdict(&ReportModel::new(&record)).sentence();
        assert!(sentence.contains("do not differ: 1.00× [1.00, 1.00]"), "{sentence}");
    }

    #[test]
    fn a_run_without_forms_of_weir_counts_its_claims() {
        let mut record = sample::record();
        record.run.subjects.iter_mut().for_each(|subject| subject.weir = false);
        let sentence = verdict(&ReportModel::new(&record)).sentence();
        assert_eq!(sentence, "1 of 2 claims hold, 1 in shape.");
        record.run.claims[0].outcome = ClaimOutcome::NotReproduced;
        let sentence = verdict(&ReportModel::new(&record)).sentence();
        assert_eq!(sentence, "1 of 2 claims hold, 1 not.");
        record.run.claims.clear();
        assert!(verdict(&ReportModel::new(&record)).sentence().starts_with("This run has no pair"));
    }

    #[test]
    fn an_empty_run_says_so_and_is_invalid() {
        let record = weir_stats::Record { trials: Vec::new(), ..sample::record() };
        let model = ReportModel::new(&record);
        assert!(verdict(&model).sentence().starts_with("This run has no pair"));
        assert_eq!(trust(&model).0, Trust::Invalid);
    }

    #[test]
    fn a_quiet_run_is_trusted_and_each_fault_lowers_it() {
        let quiet = sample::record();
        assert_eq!(trust(&ReportModel::new(&quiet)), (Trust::Ok, Vec::new()));

        let mut interrupted = sample::record();
        interrupted.run.complete = false;
        assert_eq!(trust(&ReportModel::new(&interrupted)).0, Trust::Invalid);

        let mut leaking = sample::record();
        leaking.trials[3].leaked = 7;
        let (badge, reasons) = trust(&ReportModel::new(&leaking));
        assert_eq!(badge, Trust::Invalid);
        assert_eq!(reasons, ["7 packets arrived that had to be dropped."]);

        let limiting = &leaking.trials[3].subject;
        let of_limit = leaking.run.subjects.iter_mut().find(|subject| subject.name == *limiting);
        of_limit.unwrap().lets_through_pps = 3;
        let passing = 7 - within_limit(3, leaking.trials[3].seconds);
        let (_, reasons) = trust(&ReportModel::new(&leaking));
        assert_eq!(reasons, [format!("{passing} packets arrived that had to be dropped.")]);
        let of_limit = leaking.run.subjects.iter_mut().find(|subject| subject.lets_through_pps > 0);
        of_limit.unwrap().lets_through_pps = 7;
        assert_eq!(trust(&ReportModel::new(&leaking)), (Trust::Ok, Vec::new()));

        let mut shaking = sample::record();
        if let Some(floor) = &mut shaking.run.noise_floor {
            floor.ratio.hi = 1.2;
        }
        assert_eq!(trust(&ReportModel::new(&shaking)).0, Trust::Noisy);

        let mut busy = sample::record();
        busy.trials.iter_mut().for_each(|trial| trial.noise.psi = 0.9);
        let (badge, notes) = trust(&ReportModel::new(&busy));
        assert_eq!(badge, Trust::Ok);
        assert!(notes[0].starts_with("Other tasks waited"), "{notes:?}");

        let mut disturbed = sample::record();
        for trial in disturbed.trials.iter_mut().step_by(4) {
            trial.state = State::Disturbed;
        }
        assert_eq!(trust(&ReportModel::new(&disturbed)).0, Trust::Noisy);
    }
}
