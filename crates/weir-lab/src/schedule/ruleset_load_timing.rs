//! Loads rulesets: once to be measured, and repeatedly to be timed.

use weir_stats::{Scenario, Trial, TrialKind, TrialNoise, TrialResults, TrialState};

use crate::LabError;
use crate::host::host_trait::ExecTarget;
use crate::host::study_command::StudyCommand;
use crate::observe::core_noise::NoiseSnapshot;
use crate::schedule::run_state::RunState;
use crate::trial::trial_record;
use weir_study::{PlannedTrial, SubjectCopy, trial_plan};

/// Loads a subject's ruleset into a namespace; how long it took, seconds. `None` if the subject
/// says that there is nothing to measure at this point.
pub(crate) fn run_setup_and_time_load(
    run: &RunState<'_>,
    target: &dyn ExecTarget,
    point: &Scenario,
    name: &str,
) -> Result<Option<f64>, LabError> {
    let subject = &run.loaded_study.subjects.0[name];
    let steps = [("setup", &subject.setup), ("load", &subject.load)];
    let mut seconds = 0.0;
    for (what, text) in steps.into_iter().filter(|(_, text)| !text.is_empty()) {
        match time_subject_command(run, target, point, name, what, text) {
            Ok(taken) => seconds = taken,
            Err(error) if error.is_nothing_to_measure_exit_status() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(seconds))
}

/// Times every load, each in a fresh namespace with the firewall's devices, and the adding of
/// single rules after it.
///
/// A subject that has nothing to load there is only excluded from the loads: its load into the
/// firewall decides whether it has anything to measure.
///
/// The order is that of trials: each ruleset is loaded by every subject, in forward and reverse
/// order. A block has each load once in forward order, so that all blocks together have the
/// preset's number of loads.
pub(crate) fn time_all_loads_and_rule_additions(
    run: &mut RunState<'_>,
    rulesets: &[Scenario],
) -> Result<(), LabError> {
    let variants = list_load_timing_subject_copies(run);
    for block in 0..run.preset.loads {
        let seed = run.options.seed ^ 0x10ad;
        let steps = trial_plan::plan_abba_block(rulesets, |_| variants.clone(), block / 2, seed);
        let leg = block % 2;
        for step in steps.into_iter().filter(|step| step.abba_leg == leg) {
            let step = PlannedTrial { block, ..step };
            let place = (step.scenario.clone(), step.subject_copy.subject.clone());
            if run.finished_trials.is_ruleset_load_timed(&step)
                || run.subjects_with_nothing_to_time.contains(&place)
            {
                continue;
            }
            let of = format!("load {} at {}", step.subject_copy.subject, step.scenario);
            run.report_step_or_interrupt(&of, 0.2)?;
            time_ruleset_load_and_additions(run, &step)?;
        }
    }
    Ok(())
}

/// Who loads. A study of loads alone has the second copy of a subject here.
fn list_load_timing_subject_copies(run: &RunState<'_>) -> Vec<SubjectCopy> {
    let study = &run.loaded_study.study;
    let second = study.again.as_ref().filter(|_| study.traffic.is_none());
    let second = second.map(|again| again.subject.get_ref().clone());
    let copies = |subject: String| {
        let copies = if second.as_ref() == Some(&subject) { 2 } else { 1 };
        (0..copies).map(move |copy| SubjectCopy { subject: subject.clone(), copy_index: copy })
    };
    let loads = |name: &String| !run.loaded_study.subjects.0[name].loads_no_rules;
    run.measurable_subjects().filter(loads).flat_map(copies).collect()
}

fn time_ruleset_load_and_additions(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
) -> Result<(), LabError> {
    let name = &step.subject_copy.subject;
    let target = run.runner.resources.topology.create_load_timing_namespace()?;
    let target = &*target;
    let is_measured = run.loaded_study.study.memory;
    let memory = is_measured.then(|| target.host().read_ruleset_kernel_memory(true)).transpose()?;
    let before = NoiseSnapshot::take(run.core);
    let Some(seconds) = run_setup_and_time_load(run, target, &step.scenario, name)? else {
        run.subjects_with_nothing_to_time.insert((step.scenario.clone(), name.clone()));
        return target.remove_namespace();
    };
    let mut trial = build_accepted_timed_trial(step, TrialKind::Load, seconds);
    if let Some(before) = memory {
        trial.observations.load_memory_bytes =
            Some(target.host().read_ruleset_kernel_memory(false)? - before);
    }
    trial.noise = noise_since(&before, run);
    let mut trials = vec![trial];
    if step.block < run.preset.adds && run.loaded_study.study.more.is_some() {
        trials.extend(time_rule_additions(run, step, target)?);
    }
    run.record_trials(trials)?;
    let unload = &run.loaded_study.subjects.0[name].unload;
    if !unload.is_empty() {
        time_subject_command(run, target, &step.scenario, name, "unload", unload)?;
    }
    target.remove_namespace()
}

/// Adds single rules to those in force, if the subject supports it.
fn time_rule_additions(
    run: &RunState<'_>,
    step: &PlannedTrial,
    target: &dyn ExecTarget,
) -> Result<Option<Trial>, LabError> {
    let name = &step.subject_copy.subject;
    let subject = &run.loaded_study.subjects.0[name];
    let point = &step.scenario;
    let ready = if subject.prepare_add.is_empty() {
        Ok(0.0)
    } else {
        time_subject_command(run, target, point, name, "prepare_add", &subject.prepare_add)
    };
    if subject.add.is_empty()
        || ready.as_ref().is_err_and(LabError::is_nothing_to_measure_exit_status)
    {
        return Ok(None);
    }
    ready?;
    let before = NoiseSnapshot::take(run.core);
    let seconds = time_subject_command(run, target, point, name, "add", &subject.add)?;
    let mut trial = build_accepted_timed_trial(step, TrialKind::Add, seconds);
    let added =
        count_added_rules(&run.generated_files.added_rules_path(&run.loaded_study.study, point))?;
    trial.results = TrialResults::AddedRules(added);
    trial.noise = noise_since(&before, run);
    Ok(Some(trial))
}

fn time_subject_command(
    run: &RunState<'_>,
    target: &dyn ExecTarget,
    point: &Scenario,
    name: &str,
    what: &str,
    text: &str,
) -> Result<f64, LabError> {
    let study = &run.loaded_study.study;
    let ruleset = run.generated_files.ruleset_path(study, point);
    let folder = run.generated_files.subject_folder(study, point, name);
    let more = run.generated_files.added_rules_path(study, point);
    let job = StudyCommand {
        label: format!("{what} of {name}"),
        script: text,
        scenario: point,
        file_variables: vec![("RULESET", &ruleset), ("DIR", &folder), ("MORE", &more)],
    };
    let (taken, _) = run.generated_files.run_command_on_target(target, &job, true)?;
    Ok(taken.as_secs_f64())
}

/// Lines of a file of rules that add one.
fn count_added_rules(added_rules_file: &std::path::Path) -> Result<u64, LabError> {
    let text = std::fs::read_to_string(added_rules_file)
        .map_err(LabError::file_error("read", added_rules_file))?;
    Ok(text.lines().filter(|line| line.starts_with("-A ")).count() as u64)
}

fn noise_since(before: &NoiseSnapshot, run: &RunState<'_>) -> TrialNoise {
    before.noise_until(&NoiseSnapshot::take(run.core), run.runner.spin_time_at_calibration())
}

fn build_accepted_timed_trial(step: &PlannedTrial, kind: TrialKind, seconds: f64) -> Trial {
    Trial { seconds, state: TrialState::Accepted, ..trial_record::blank_trial(step, kind) }
}
