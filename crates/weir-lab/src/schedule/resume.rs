//! Resumes an interrupted run.
//!
//! The order of a run follows from its study, preset and seed alone, so the remaining steps are the
//! plan minus the records. Firewalls are set up again, so each subject is warmed up once more; that
//! trial is recorded only if there was none. A step that was interrupted between its repeats
//! continues with the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use weir_stats::{RunRecord, Scenario, Trial, TrialKind, TrialState, run_folder};

use crate::LabError;
use crate::schedule::study_run_options::StudyRunOptions;
use weir_study::LoadedStudy;
use weir_study::{PlannedTrial, SubjectCopy};

/// What makes a step the same one.
type PlanPositionKey = (u32, u32, u32, Scenario, SubjectCopy);

fn plan_position_of_trial(trial: &Trial) -> PlanPositionKey {
    let variant = SubjectCopy { subject: trial.subject.clone(), copy_index: trial.copy_index };
    (trial.block, trial.order_in_block, trial.abba_leg, trial.scenario.clone(), variant)
}

fn plan_position_of_planned_trial(step: &PlannedTrial) -> PlanPositionKey {
    (
        step.block,
        step.order_in_block,
        step.abba_leg,
        step.scenario.clone(),
        step.subject_copy.clone(),
    )
}

/// What was done before.
#[derive(Debug, Default)]
pub(crate) struct FinishedTrials {
    timed_loads: BTreeSet<PlanPositionKey>,
    /// Validation trials: the first trials of packets in the records, in the order of the plan.
    pub(crate) validation_count: usize,
    /// Repeats that a step had, and whether the last of them settled it.
    repeats_and_settled_by_step: BTreeMap<PlanPositionKey, (u32, bool)>,
}

impl FinishedTrials {
    /// What `trials` hold of a plan that begins with `validations` validation trials and repeats a
    /// disturbed step at most `repeats` times.
    pub(crate) fn from_records(
        trials: &[Trial],
        validations: usize,
        repeats: u32,
    ) -> FinishedTrials {
        let mut done = FinishedTrials::default();
        for trial in trials {
            match trial.kind {
                TrialKind::Load => drop(done.timed_loads.insert(plan_position_of_trial(trial))),
                TrialKind::Add => (),
                _ if done.validation_count < validations => done.validation_count += 1,
                _ => {
                    let counts = matches!(trial.state, TrialState::Accepted | TrialState::Failed);
                    let settled = counts || trial.repeat_count >= repeats;
                    done.repeats_and_settled_by_step
                        .insert(plan_position_of_trial(trial), (trial.repeat_count + 1, settled));
                }
            }
        }
        done
    }

    /// Whether a load was timed.
    pub(crate) fn is_ruleset_load_timed(&self, step: &PlannedTrial) -> bool {
        self.timed_loads.contains(&plan_position_of_planned_trial(step))
    }

    /// The repeat that a step continues with; `None` if it is settled.
    pub(crate) fn next_repeat_unless_settled(&self, step: &PlannedTrial) -> Option<u32> {
        match self.repeats_and_settled_by_step.get(&plan_position_of_planned_trial(step)) {
            None => Some(0),
            Some((next, false)) => Some(*next),
            Some((_, true)) => None,
        }
    }
}

/// Reads what an interrupted run left, and makes sure that it is the same run.
///
/// # Errors
/// Records that cannot be read; another study, other subjects, another preset or seed.
pub(crate) fn prepare_and_verify_prior_run(
    out: &Path,
    loaded: &LoadedStudy,
    options: &StudyRunOptions,
) -> Result<RunRecord, LabError> {
    let refuse = |what: String| LabError::CannotResumeRun { path: out.to_owned(), what };
    for (name, text) in [("study.toml", &loaded.text), ("subjects.toml", &loaded.subjects_text)] {
        let path = out.join(name);
        let there = fs::read_to_string(&path).map_err(LabError::file_error("read", &path))?;
        if there != *text {
            return Err(refuse(format!("{name} has changed since then")));
        }
    }
    let record = run_folder::prepare_and_load_run_to_resume(out)?;
    let run = &record.run;
    if run.preset.name != options.preset {
        return Err(refuse(format!("it was started with the preset `{}`", run.preset.name)));
    }
    if run.seed != options.seed {
        return Err(refuse(format!("it was started with the seed {}", run.seed)));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_study::trial_plan;

    fn step(order: u32) -> PlannedTrial {
        let subject_copy = SubjectCopy { subject: "a".to_owned(), copy_index: 0 };
        PlannedTrial {
            scenario: Scenario::default(),
            subject_copy,
            block: 0,
            order_in_block: order,
            abba_leg: 0,
        }
    }

    fn trial(order: u32, repeat: u32, state: TrialState) -> Trial {
        let blank = crate::trial::trial_record::blank_trial(&step(order), TrialKind::Rate);
        Trial { repeat_count: repeat, state, ..blank }
    }

    #[test]
    fn an_interrupted_step_resumes_at_its_next_repeat() {
        let trials = [
            trial(0, 0, TrialState::Warmup),
            trial(0, 0, TrialState::Accepted),
            trial(1, 0, TrialState::Disturbed),
            trial(2, 2, TrialState::Unbalanced),
        ];
        let done = FinishedTrials::from_records(&trials, 1, 2);
        let next: Vec<Option<u32>> =
            (0..4).map(|order| done.next_repeat_unless_settled(&step(order))).collect();
        assert_eq!(next, [None, Some(1), None, Some(0)]);
        assert_eq!(done.validation_count, 1);
    }

    #[test]
    fn a_failed_validation_is_not_counted_as_first_step() {
        let done = FinishedTrials::from_records(&[trial(0, 0, TrialState::Failed)], 1, 2);
        assert_eq!(done.next_repeat_unless_settled(&step(0)), Some(0));
        assert_eq!(trial_plan::list_grid_points(&BTreeMap::new()).len(), 1);
    }
}
