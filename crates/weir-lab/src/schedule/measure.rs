//! Trials of packets: first validated, then measured, and repeated if they were disturbed.

use weir_stats::{Scenario, State, Trial};
use weir_study::{LoadedStudy, PlannedTrial, Variant};

use crate::LabError;
use crate::host::command::{Job, dropped_in};
use crate::host::target::ExecTarget;
use crate::schedule::files::Files;
use crate::schedule::state::RunState;
use crate::schedule::workloads;
use crate::trial::entry;
use crate::trial::judge::{self, Tolerance};
use crate::trial::runner::{DropSource, Observation};

/// Longest validation trial: its counters matter, not its length.
const VALIDATION_SECONDS: f64 = 0.1;

/// The first trial of a variant at a point: discarded as a warm-up, its counters checked against
/// the rules' own and the kernel's reasons.
pub(crate) fn validate(
    run: &mut RunState<'_>,
    point: &Scenario,
    variant: &Variant,
) -> Result<Trial, LabError> {
    let step = PlannedTrial {
        scenario: point.clone(),
        variant: variant.clone(),
        block: 0,
        order: 0,
        leg: 0,
    };
    let seconds = run.preset.trial_seconds.min(VALIDATION_SECONDS);
    let (_, mut trial) = play(run, &step, seconds, true)?;
    trial.state = State::Warmup;
    let told = run.runner.stage.topology.host().knows_drop_reasons()
        && !run.loaded.subjects.0[&step.variant.subject].before_netfilter;
    let unlike = told.then(|| judge::of_reasons(&trial)).flatten();
    if let Some((state, why)) = verdict(run, &trial).or(unlike) {
        trial.state = state;
        trial.why = Some(why);
    }
    Ok(trial)
}

/// One trial that counts, repeated while it is disturbed and the cap allows.
pub(crate) fn measure(run: &mut RunState<'_>, step: &PlannedTrial) -> Result<(), LabError> {
    let limits = run.loaded.study.noise.clone();
    let realtime = run.scheduling.starts_with("fifo");
    let Some(first) = run.done.next_repeat(step) else { return Ok(()) };
    for repeat in first..=limits.repeats {
        let (seen, mut trial) = play(run, step, run.preset.trial_seconds, false)?;
        trial.repeat = repeat;
        let is_last = repeat == limits.repeats;
        let mut disturbance = judge::of_noise(&trial, &limits, realtime);
        if !seen.played.finished {
            disturbance = Some("the generator did not finish".to_owned());
        }
        let asked = asked(&seen, &trial);
        // On an axis of rates some exceed what the machine can handle, which is intended.
        let is_swept = run.loaded.study.connections().is_some_and(|c| c.rate_axis.is_some());
        if seen.played.given_up * 100 > asked && !is_swept {
            disturbance = Some(format!("{} of {asked} came too late", seen.played.given_up));
        }
        let (verdict, usable) = (verdict(run, &trial), is_last && seen.played.finished);
        if settle(run, trial, verdict, disturbance, usable)? {
            break;
        }
    }
    Ok(())
}

/// Keeps a trial with its verdict, or else with what disturbed it: it counts all the same where it
/// is `usable`, for no repeat is left. Whether the step is done.
pub(crate) fn settle(
    run: &mut RunState<'_>,
    mut trial: Trial,
    verdict: Option<(State, String)>,
    disturbance: Option<String>,
    usable: bool,
) -> Result<bool, LabError> {
    if let Some((state, why)) = verdict {
        (trial.state, trial.why) = (state, Some(why));
    } else if let Some(why) = disturbance {
        trial.state = if usable { State::Accepted } else { State::Disturbed };
        trial.why = Some(why);
        run.given_up += u64::from(usable);
    }
    let is_done = matches!(trial.state, State::Accepted | State::Failed);
    run.keep(trial)?;
    Ok(is_done)
}

/// The packets or connections that correspond to the rate of a trial.
fn asked(seen: &Observation, trial: &Trial) -> u64 {
    let offered = trial.connections().map_or(seen.played.offered, |all| all.offered);
    offered + seen.played.given_up
}

/// What the packets of a trial say, and its connections.
fn verdict(run: &RunState<'_>, trial: &Trial) -> Option<(State, String)> {
    let subject = &run.loaded.subjects.0[&trial.subject];
    let tolerance = Tolerance {
        lets_through: weir_stats::within_limit(subject.lets_through_pps, trial.seconds),
        many_cores: subject.many_cores,
    };
    let is_flooded = run.loaded.study.connections().is_some_and(|c| c.flood_axis.is_some());
    judge::of_connections(trial).or_else(|| match is_flooded {
        // The arrivals of a flood, and of connections that a firewall treats as a flood, are the
        // result itself.
        true => judge::of_sum(trial, tolerance),
        false => judge::of_packets(trial, tolerance),
    })
}

fn play(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
    seconds: f64,
    check: bool,
) -> Result<(Observation, Trial), LabError> {
    let loaded = run.loaded;
    let mut of_study = workloads::of_step(run, step, seconds, check)?;
    let subject = &loaded.subjects.0[&step.variant.subject];
    let point = step.scenario.on(&loaded.study.ruleset.axis_names());
    let firewall = &run.firewalls[&(point.clone(), step.variant.clone())];
    let files = &run.files;
    let count = || dropped_by_rules(loaded, files, step, &point, &*firewall.target);
    let drops = match (check, of_study.some_to_drop, subject.count.is_empty()) {
        (false, false, _) => DropSource::Unwatched,
        (false, true, false) => DropSource::Counted(&count),
        (true, _, false) => DropSource::Checked(&count),
        (_, _, true) => DropSource::Reasons,
    };
    let seen = run.runner.trial(firewall, &mut *of_study.workload, drops)?;
    let mut trial = entry::observed(step, run.preset.rate_pps, &seen);
    of_study.label(&mut trial);
    Ok((seen, trial))
}

/// What the subject of a step says that its rules dropped so far.
fn dropped_by_rules(
    loaded: &LoadedStudy,
    files: &Files,
    step: &PlannedTrial,
    point: &Scenario,
    target: &dyn ExecTarget,
) -> Result<u64, LabError> {
    let study = &loaded.study;
    let ruleset = files.ruleset(study, point);
    let folder = files.folder(study, point, &step.variant.subject);
    let job = Job {
        what: format!("count of {}", step.variant.subject),
        text: &loaded.subjects.0[&step.variant.subject].count,
        scenario: point,
        files: vec![("RULESET", &ruleset), ("DIR", &folder)],
    };
    let (_, text) = files.run_on(target, &job, false)?;
    dropped_in(&text).ok_or_else(|| LabError::Command {
        what: job.what.clone(),
        scenario: point.clone(),
        command: job.text.to_owned(),
        status: "no line `dropped N`".to_owned(),
        message: text.lines().take(3).collect::<Vec<_>>().join("; "),
    })
}
