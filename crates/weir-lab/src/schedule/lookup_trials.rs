//! Trials of look-ups: a subject's program builds a classifier of the ruleset and measures it.
//!
//! No packet is sent, so there is no firewall, no counter and no load. A trial is one process of
//! the subject. Its rates are of processor time, which it reads itself; the noise of the machine
//! around it is recorded as for other trials, and a disturbed trial is repeated. A classifier that
//! does not take the rules is recorded with its reason, once: its limits are counted, not timed, so
//! it refuses always or never. One with a wrong answer fails its trial.

use weir_stats::{Scenario, Trial, TrialKind, TrialResults, TrialState, run_folder};
use weir_study::{PlannedTrial, trial_plan};

use crate::LabError;
use crate::host::study_command::StudyCommand;
use crate::observe::core_noise::NoiseSnapshot;
use crate::schedule::lookup_report::{LookupMeasurementOrWrongAnswer, parse_lookup_report};
use crate::schedule::packet_trials::decide_state_and_record_trial;
use crate::schedule::record_folder_and_run_json;
use crate::schedule::run_state::RunState;
use crate::trial::{judge, trial_record};

/// Measures every subject at every point in all blocks, each block in forward and reverse order.
pub(super) fn measure_all_lookup_blocks(
    run: &mut RunState<'_>,
    points: &[Scenario],
) -> Result<(), LabError> {
    for block in 0..run.preset.blocks {
        let steps = trial_plan::plan_abba_block(
            points,
            |point| run.subject_copies_at_point(point),
            block,
            run.options.seed,
        );
        for step in steps {
            if has_refused_rules(run, &step) {
                continue;
            }
            let (subject, blocks) = (&step.subject_copy.subject, run.preset.blocks);
            let message =
                format!("block {} of {blocks}: {subject} at {}", block + 1, step.scenario);
            run.report_step_or_interrupt(&message, run.expected_trial_seconds())?;
            measure_lookups_until_undisturbed(run, &step)?;
        }
        run_folder::save_run_json(
            run.record_folder,
            &record_folder_and_run_json::build_run_and_evaluate_claims(run, false),
        )?;
    }
    Ok(())
}

/// Whether an accepted trial of the step's subject at its point is a refusal.
fn has_refused_rules(run: &RunState<'_>, step: &PlannedTrial) -> bool {
    run.trials.iter().any(|trial| {
        trial.state == TrialState::Accepted
            && trial.subject == step.subject_copy.subject
            && trial.scenario == step.scenario
            && trial.lookup_measurement().is_some_and(|measured| measured.refusal.is_some())
    })
}

fn measure_lookups_until_undisturbed(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
) -> Result<(), LabError> {
    let limits = run.loaded_study.study.noise.clone();
    let Some(first) = run.finished_trials.next_repeat_unless_settled(step) else { return Ok(()) };
    for repeat in first..=limits.repeats {
        let (mut trial, verdict) = measure_lookups_once(run, step)?;
        trial.repeat_count = repeat;
        let disturbance = judge::judge_noise(&trial, &limits, false);
        let is_last = repeat == limits.repeats;
        if decide_state_and_record_trial(run, trial, verdict, disturbance, is_last)? {
            break;
        }
    }
    Ok(())
}

/// A trial, and why it failed if it did.
fn measure_lookups_once(
    run: &RunState<'_>,
    step: &PlannedTrial,
) -> Result<(Trial, Option<(TrialState, String)>), LabError> {
    let name = &step.subject_copy.subject;
    let ruleset = run.generated_files.ruleset_path(&run.loaded_study.study, &step.scenario);
    let job = StudyCommand {
        label: format!("measure of {name}"),
        script: &run.loaded_study.subjects.0[name].measure,
        scenario: &step.scenario,
        file_variables: vec![("RULESET", &ruleset)],
    };
    let before = NoiseSnapshot::take(run.core);
    let (taken, text) = run.generated_files.run_command_outside_firewalls(&job)?;
    let after = NoiseSnapshot::take(run.core);
    let reported = parse_lookup_report(&text).map_err(|message| LabError::CommandFailed {
        what: job.label.clone(),
        scenario: step.scenario.clone(),
        command: job.script.to_owned(),
        status: "no report".to_owned(),
        message,
    })?;
    let mut trial = Trial {
        seconds: taken.as_secs_f64(),
        noise: before.noise_until(&after, run.runner.spin_time_at_calibration()),
        ..trial_record::blank_trial(step, TrialKind::Lookups)
    };
    match reported {
        LookupMeasurementOrWrongAnswer::Measured(measured) => {
            trial.results = TrialResults::Lookups(Box::new(measured));
            Ok((trial, None))
        }
        LookupMeasurementOrWrongAnswer::WrongAnswer(why) => {
            Ok((trial, Some((TrialState::Failed, format!("a wrong answer: {why}")))))
        }
    }
}
