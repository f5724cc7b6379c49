//! Trials of packets: first validated, then measured, and repeated if they were disturbed.

use weir_stats::{Scenario, Trial, TrialState};
use weir_study::{LoadedStudy, PlannedTrial, SubjectCopy};

use crate::LabError;
use crate::host::host_trait::ExecTarget;
use crate::host::study_command::{StudyCommand, find_number_after_dropped_word};
use crate::schedule::generated_files::GeneratedRunFiles;
use crate::schedule::run_state::RunState;
use crate::schedule::workload_selection;
use crate::trial::judge::{self, LeakAndMiscountTolerance};
use crate::trial::runner::{DropCountSource, TrialObservation};
use crate::trial::trial_record;

/// Longest validation trial: its counters matter, not its length.
const MAX_VALIDATION_SECONDS: f64 = 0.1;

/// The first trial of a variant at a point: discarded as a warm-up, its counters checked against
/// the rules' own and the kernel's reasons.
pub(crate) fn run_counter_checking_warmup_trial(
    run: &mut RunState<'_>,
    point: &Scenario,
    subject_copy: &SubjectCopy,
) -> Result<Trial, LabError> {
    let step = PlannedTrial {
        scenario: point.clone(),
        subject_copy: subject_copy.clone(),
        block: 0,
        order_in_block: 0,
        abba_leg: 0,
    };
    let seconds = run.preset.trial_seconds.min(MAX_VALIDATION_SECONDS);
    let (_, mut trial) = run_step_and_build_trial(run, &step, seconds, true)?;
    trial.state = TrialState::Warmup;
    let told = run.runner.resources.topology.firewall_host().can_report_drop_reasons()
        && !run.loaded_study.subjects.0[&step.subject_copy.subject].before_netfilter;
    let unlike = told.then(|| judge::judge_rule_drops_against_kernel(&trial)).flatten();
    if let Some((state, why)) = judge_packet_and_connection_counts(run, &trial).or(unlike) {
        trial.state = state;
        trial.rejection_reason = Some(why);
    }
    Ok(trial)
}

/// One trial that counts, repeated while it is disturbed and the cap allows.
pub(crate) fn measure_packets_until_undisturbed(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
) -> Result<(), LabError> {
    let limits = run.loaded_study.study.noise.clone();
    let realtime = run.scheduling.starts_with("fifo");
    let Some(first) = run.finished_trials.next_repeat_unless_settled(step) else { return Ok(()) };
    for repeat in first..=limits.repeats {
        let (seen, mut trial) =
            run_step_and_build_trial(run, step, run.preset.trial_seconds, false)?;
        trial.repeat_count = repeat;
        let is_last = repeat == limits.repeats;
        let mut disturbance = judge::judge_noise(&trial, &limits, realtime);
        if !seen.send_result.finished {
            disturbance = Some("the generator did not finish".to_owned());
        }
        let asked = count_offered_and_skipped_packets_or_connections(&seen, &trial);
        // On an axis of rates some exceed what the machine can handle, which is intended.
        let is_swept = run
            .loaded_study
            .study
            .connection_load()
            .is_some_and(|c| c.preset_rate_override_axis.is_some());
        if seen.send_result.skipped_behind_schedule * 100 > asked && !is_swept {
            disturbance = Some(format!(
                "{} of {asked} came too late",
                seen.send_result.skipped_behind_schedule
            ));
        }
        let (verdict, counts_though_disturbed) =
            (judge_packet_and_connection_counts(run, &trial), is_last && seen.send_result.finished);
        if decide_state_and_record_trial(run, trial, verdict, disturbance, counts_though_disturbed)?
        {
            break;
        }
    }
    Ok(())
}

/// Keeps a trial with its verdict, or else with what disturbed it: it counts all the same where it
/// is `counts_though_disturbed`, for no repeat is left. Whether the step is done.
pub(crate) fn decide_state_and_record_trial(
    run: &mut RunState<'_>,
    mut trial: Trial,
    verdict: Option<(TrialState, String)>,
    disturbance: Option<String>,
    counts_though_disturbed: bool,
) -> Result<bool, LabError> {
    if let Some((state, why)) = verdict {
        (trial.state, trial.rejection_reason) = (state, Some(why));
    } else if let Some(why) = disturbance {
        trial.state =
            if counts_though_disturbed { TrialState::Accepted } else { TrialState::Disturbed };
        trial.rejection_reason = Some(why);
        run.accepted_disturbed_trial_count += u64::from(counts_though_disturbed);
    }
    let is_done = matches!(trial.state, TrialState::Accepted | TrialState::Failed);
    run.record_trial(trial)?;
    Ok(is_done)
}

/// The packets or connections that correspond to the rate of a trial.
fn count_offered_and_skipped_packets_or_connections(seen: &TrialObservation, trial: &Trial) -> u64 {
    let offered = trial.connection_counts().map_or(seen.send_result.offered, |all| all.started);
    offered + seen.send_result.skipped_behind_schedule
}

/// What the packets of a trial say, and its connections.
fn judge_packet_and_connection_counts(
    run: &RunState<'_>,
    trial: &Trial,
) -> Option<(TrialState, String)> {
    let subject = &run.loaded_study.subjects.0[&trial.subject];
    let tolerance = LeakAndMiscountTolerance {
        max_leaked: weir_stats::max_packets_accepted_by_limit(
            subject.lets_through_pps,
            trial.seconds,
        ),
        has_racy_counters: subject.runs_on_several_cores,
    };
    let is_flooded =
        run.loaded_study.study.connection_load().is_some_and(|c| c.flood_axis.is_some());
    judge::judge_connection_integrity(trial).or_else(|| match is_flooded {
        // The arrivals of a flood, and of connections that a firewall treats as a flood, are the
        // result itself.
        true => judge::judge_packet_balance(trial, tolerance),
        false => judge::judge_packet_counts(trial, tolerance),
    })
}

fn run_step_and_build_trial(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
    seconds: f64,
    verify_all: bool,
) -> Result<(TrialObservation, Trial), LabError> {
    let loaded = run.loaded_study;
    let mut of_study = workload_selection::plan_step_workload(run, step, seconds, verify_all)?;
    let subject = &loaded.subjects.0[&step.subject_copy.subject];
    let point = step.scenario.project_to_axes(&loaded.study.ruleset.declared_axis_names());
    let firewall = &run.firewalls[&(point.clone(), step.subject_copy.clone())];
    let generated_files = &run.generated_files;
    let count =
        || query_total_rule_drops(loaded, generated_files, step, &point, &*firewall.command_target);
    let drops = match (verify_all, of_study.expects_drops, subject.count.is_empty()) {
        (false, false, _) => DropCountSource::NotCounted,
        (false, true, false) => DropCountSource::RuleCounters(&count),
        (true, _, false) => DropCountSource::RuleCountersAndReasons(&count),
        (_, _, true) => DropCountSource::KernelReasons,
    };
    let seen = run.runner.run_trial(firewall, &mut *of_study.workload, drops)?;
    let mut trial = trial_record::build_unjudged_trial(step, run.preset.rate_pps, &seen);
    of_study.set_trial_kind_rate_and_client(&mut trial);
    Ok((seen, trial))
}

/// What the subject of a step says that its rules dropped so far.
fn query_total_rule_drops(
    loaded: &LoadedStudy,
    files: &GeneratedRunFiles,
    step: &PlannedTrial,
    point: &Scenario,
    target: &dyn ExecTarget,
) -> Result<u64, LabError> {
    let study = &loaded.study;
    let ruleset = files.ruleset_path(study, point);
    let folder = files.subject_folder(study, point, &step.subject_copy.subject);
    let job = StudyCommand {
        label: format!("count of {}", step.subject_copy.subject),
        script: &loaded.subjects.0[&step.subject_copy.subject].count,
        scenario: point,
        file_variables: vec![("RULESET", &ruleset), ("DIR", &folder)],
    };
    let (_, text) = files.run_command_on_target(target, &job, false)?;
    find_number_after_dropped_word(&text).ok_or_else(|| LabError::CommandFailed {
        what: job.label.clone(),
        scenario: point.clone(),
        command: job.script.to_owned(),
        status: "no line `dropped N`".to_owned(),
        message: text.lines().take(3).collect::<Vec<_>>().join("; "),
    })
}
