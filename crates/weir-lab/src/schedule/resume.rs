//! Resumes an interrupted run.
//!
//! The order of a run follows from its study, preset and seed alone, so the remaining steps are the
//! plan minus the records. Firewalls are set up again, so each subject is warmed up once more; that
//! trial is recorded only if there was none. A step that was interrupted between its repeats
//! continues with the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use weir_stats::{Record, Scenario, State, Trial, TrialKind, folder};

use crate::LabError;
use crate::schedule::options::StudyRunOptions;
use weir_study::LoadedStudy;
use weir_study::{PlannedTrial, Variant};

/// What makes a step the same one.
type TrialKey = (u32, u32, u32, Scenario, Variant);

fn key_of_trial(trial: &Trial) -> TrialKey {
    let variant = Variant { subject: trial.subject.clone(), copy: trial.copy };
    (trial.block, trial.order, trial.leg, trial.scenario.clone(), variant)
}

fn key_of_step(step: &PlannedTrial) -> TrialKey {
    (step.block, step.order, step.leg, step.scenario.clone(), step.variant.clone())
}

/// What was done before.
#[derive(Debug, Default)]
pub(crate) struct FinishedTrials {
    loads: BTreeSet<TrialKey>,
    /// Validation trials: the first trials of packets in the records, in the order of the plan.
    pub(crate) validations: usize,
    /// Repeats that a step had, and whether the last of them settled it.
    packets: BTreeMap<TrialKey, (u32, bool)>,
}

impl FinishedTrials {
    /// What `trials` hold of a plan that begins with `validations` validation trials and repeats a
    /// disturbed step at most `repeats` times.
    pub(crate) fn of(trials: &[Trial], validations: usize, repeats: u32) -> FinishedTrials {
        let mut done = FinishedTrials::default();
        for trial in trials {
            match trial.kind {
                TrialKind::Load => drop(done.loads.insert(key_of_trial(trial))),
                TrialKind::Add => (),
                _ if done.validations < validations => done.validations += 1,
                _ => {
                    let counts = matches!(trial.state, State::Accepted | State::Failed);
                    let settled = counts || trial.repeat >= repeats;
                    done.packets.insert(key_of_trial(trial), (trial.repeat + 1, settled));
                }
            }
        }
        done
    }

    /// Whether a load was timed.
    pub(crate) fn load(&self, step: &PlannedTrial) -> bool {
        self.loads.contains(&key_of_step(step))
    }

    /// The repeat that a step continues with; `None` if it is settled.
    pub(crate) fn next_repeat(&self, step: &PlannedTrial) -> Option<u32> {
        match self.packets.get(&key_of_step(step)) {
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
pub(crate) fn prior(
    out: &Path,
    loaded: &LoadedStudy,
    options: &StudyRunOptions,
) -> Result<Record, LabError> {
    let refuse = |what: String| LabError::Resume { path: out.to_owned(), what };
    for (name, text) in [("study.toml", &loaded.text), ("subjects.toml", &loaded.subjects_text)] {
        let path = out.join(name);
        let there = fs::read_to_string(&path).map_err(LabError::file("read", &path))?;
        if there != *text {
            return Err(refuse(format!("{name} has changed since then")));
        }
    }
    let record = folder::load_interrupted(out)?;
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
    use weir_study::plan;

    fn step(order: u32) -> PlannedTrial {
        let variant = Variant { subject: "a".to_owned(), copy: 0 };
        PlannedTrial { scenario: Scenario::default(), variant, block: 0, order, leg: 0 }
    }

    fn trial(order: u32, repeat: u32, state: State) -> Trial {
        let blank = crate::trial::entry::blank(&step(order), TrialKind::Rate);
        Trial { repeat, state, ..blank }
    }

    #[test]
    fn a_step_goes_on_where_it_was_cut_short() {
        let trials = [
            trial(0, 0, State::Warmup),
            trial(0, 0, State::Accepted),
            trial(1, 0, State::Disturbed),
            trial(2, 2, State::Unbalanced),
        ];
        let done = FinishedTrials::of(&trials, 1, 2);
        let next: Vec<Option<u32>> = (0..4).map(|order| done.next_repeat(&step(order))).collect();
        assert_eq!(next, [None, Some(1), None, Some(0)]);
        assert_eq!(done.validations, 1);
    }

    #[test]
    fn a_validation_that_failed_is_not_taken_for_the_first_step() {
        let done = FinishedTrials::of(&[trial(0, 0, State::Failed)], 1, 2);
        assert_eq!(done.next_repeat(&step(0)), Some(0));
        assert_eq!(plan::grid(&BTreeMap::new()).len(), 1);
    }
}
