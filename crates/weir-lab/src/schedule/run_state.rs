//! The state of a run in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::SystemTime;

use weir_kernel::stop_signal;
use weir_stats::rate_search::RateSearchRecord;
use weir_stats::{
    Coordinate, FrameFactsRecord, GeneratedRulesetRecord, HostEnvironment, RemoteHostRecord,
    Scenario, Trial, run_folder,
};
use weir_study::{LoadedStudy, PresetDefinition, SubjectCopy};

use crate::LabError;
use crate::schedule::generated_files::GeneratedRunFiles;
use crate::schedule::resume::FinishedTrials;
use crate::schedule::run_progress::RunProgressTracker;
use crate::schedule::study_run_options::StudyRunOptions;
use crate::topology::FirewallWithCounters;
use crate::trial::runner::TrialRunner;

/// What a run knows and has.
pub(crate) struct RunState<'a> {
    pub(crate) loaded_study: &'a LoadedStudy,
    pub(crate) preset: &'a PresetDefinition,
    pub(crate) options: &'a StudyRunOptions,
    pub(crate) record_folder: &'a Path,
    pub(crate) runner: TrialRunner,
    pub(crate) generated_files: GeneratedRunFiles,
    pub(crate) firewalls: BTreeMap<(Scenario, SubjectCopy), FirewallWithCounters>,
    /// Subjects that have nothing to measure with a ruleset.
    pub(crate) subjects_with_nothing_to_measure: BTreeSet<(Scenario, String)>,
    /// Subjects whose loads of a ruleset have nothing to time.
    pub(crate) subjects_with_nothing_to_time: BTreeSet<(Scenario, String)>,
    pub(crate) trials: Vec<Trial>,
    pub(crate) searches: Vec<RateSearchRecord>,
    pub(crate) rulesets: Vec<GeneratedRulesetRecord>,
    pub(crate) frame_facts: Vec<FrameFactsRecord>,
    pub(crate) axes: BTreeMap<String, Vec<Coordinate>>,
    pub(crate) unmeasurable_subjects: BTreeMap<String, String>,
    pub(crate) accepted_disturbed_trial_count: u64,
    pub(crate) core: u32,
    pub(crate) scheduling: String,
    pub(crate) environment: HostEnvironment,
    /// Other machines than the one that measures.
    pub(crate) hosts: Vec<RemoteHostRecord>,
    pub(crate) started_at: SystemTime,
    /// What was done before an interruption.
    pub(crate) finished_trials: FinishedTrials,
    /// The record of it: when it began, how long it took.
    pub(crate) interrupted_record: Option<weir_stats::Run>,
    pub(crate) progress_tracker: RunProgressTracker<'a>,
}

impl RunState<'_> {
    /// The subjects that are measured at a point, the second copy of one included.
    pub(crate) fn subject_copies_at_point(&self, point: &Scenario) -> Vec<SubjectCopy> {
        let mut variants: Vec<SubjectCopy> = self
            .measurable_subjects()
            .map(|subject| SubjectCopy { subject, copy_index: 0 })
            .collect();
        if let Some(again) = &self.loaded_study.study.again {
            let subject = again.subject.get_ref().clone();
            if point.has_coordinates_of(&again.at)
                && !self.unmeasurable_subjects.contains_key(&subject)
            {
                variants.push(SubjectCopy { subject, copy_index: 1 });
            }
        }
        variants.retain(|variant| !self.has_reported_nothing_to_measure(point, variant));
        variants
    }

    /// Whether a subject reported that it has nothing to measure with the ruleset of a point.
    pub(crate) fn has_reported_nothing_to_measure(
        &self,
        point: &Scenario,
        variant: &SubjectCopy,
    ) -> bool {
        let ruleset = point.project_to_axes(&self.loaded_study.study.ruleset.declared_axis_names());
        self.subjects_with_nothing_to_measure.contains(&(ruleset, variant.subject.clone()))
    }

    /// Names of the subjects that this machine can measure.
    pub(crate) fn measurable_subjects(&self) -> impl Iterator<Item = String> + '_ {
        let names = self.loaded_study.study.subjects.iter().map(|name| name.get_ref().clone());
        names.filter(|name| !self.unmeasurable_subjects.contains_key(name))
    }

    /// A step begins: ends the run if the user requested it, and reports the step.
    pub(crate) fn report_step_or_interrupt(
        &mut self,
        message: &str,
        expected: f64,
    ) -> Result<(), LabError> {
        if stop_signal::is_stop_requested() {
            return Err(LabError::Interrupted);
        }
        self.progress_tracker.report_step_start(message, expected, &self.trials);
        Ok(())
    }

    /// Numbers a trial, writes it down and keeps it.
    pub(crate) fn record_trial(&mut self, trial: Trial) -> Result<(), LabError> {
        self.record_trials(vec![trial])
    }

    /// Numbers trials that belong together, writes them down in one piece and keeps them.
    pub(crate) fn record_trials(&mut self, mut trials: Vec<Trial>) -> Result<(), LabError> {
        for (number, trial) in (self.trials.len()..).zip(&mut trials) {
            trial.number = number as u64;
        }
        run_folder::append_trials(self.record_folder, &trials)?;
        self.trials.extend(trials);
        Ok(())
    }

    /// Length of a trial including preparation and evaluation, seconds.
    pub(crate) fn expected_trial_seconds(&self) -> f64 {
        self.preset.trial_seconds + 0.06
    }
}
