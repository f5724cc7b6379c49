//! The state of a run in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::SystemTime;

use weir_kernel::interrupt;
use weir_stats::search::Search;
use weir_stats::{Coordinate, Environment, HostRecord, RulesetRecord, Scenario, Trial, folder};
use weir_study::{LoadedStudy, PresetText, Variant};

use crate::LabError;
use crate::schedule::clock::RunClock;
use crate::schedule::files::Files;
use crate::schedule::options::StudyRunOptions;
use crate::schedule::resume::FinishedTrials;
use crate::topology::TestFirewall;
use crate::trial::runner::TrialRunner;

/// What a run knows and has.
pub(crate) struct RunState<'a> {
    pub(crate) loaded: &'a LoadedStudy,
    pub(crate) preset: &'a PresetText,
    pub(crate) options: &'a StudyRunOptions,
    pub(crate) out: &'a Path,
    pub(crate) runner: TrialRunner,
    pub(crate) files: Files,
    pub(crate) firewalls: BTreeMap<(Scenario, Variant), TestFirewall>,
    /// Subjects that have nothing to measure with a ruleset.
    pub(crate) left_out: BTreeSet<(Scenario, String)>,
    /// Subjects whose loads of a ruleset have nothing to time.
    pub(crate) not_timed: BTreeSet<(Scenario, String)>,
    pub(crate) trials: Vec<Trial>,
    pub(crate) searches: Vec<Search>,
    pub(crate) rulesets: Vec<RulesetRecord>,
    pub(crate) axes: BTreeMap<String, Vec<Coordinate>>,
    pub(crate) lacking: BTreeMap<String, String>,
    pub(crate) given_up: u64,
    pub(crate) core: u32,
    pub(crate) scheduling: String,
    pub(crate) environment: Environment,
    /// Other machines than the one that measures.
    pub(crate) hosts: Vec<HostRecord>,
    pub(crate) began: SystemTime,
    /// What was done before an interruption.
    pub(crate) done: FinishedTrials,
    /// The record of it: when it began, how long it took.
    pub(crate) before: Option<weir_stats::Run>,
    pub(crate) clock: RunClock<'a>,
}

impl RunState<'_> {
    /// The subjects that are measured at a point, the second copy of one included.
    pub(crate) fn variants(&self, point: &Scenario) -> Vec<Variant> {
        let mut variants: Vec<Variant> =
            self.subjects().map(|subject| Variant { subject, copy: 0 }).collect();
        if let Some(again) = &self.loaded.study.again {
            let subject = again.subject.get_ref().clone();
            if point.contains(&again.at) && !self.lacking.contains_key(&subject) {
                variants.push(Variant { subject, copy: 1 });
            }
        }
        variants.retain(|variant| !self.is_left_out(point, variant));
        variants
    }

    /// Whether a subject reported that it has nothing to measure with the ruleset of a point.
    pub(crate) fn is_left_out(&self, point: &Scenario, variant: &Variant) -> bool {
        let ruleset = point.on(&self.loaded.study.ruleset.axis_names());
        self.left_out.contains(&(ruleset, variant.subject.clone()))
    }

    /// Names of the subjects that this machine can measure.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = String> + '_ {
        let names = self.loaded.study.subjects.iter().map(|name| name.get_ref().clone());
        names.filter(|name| !self.lacking.contains_key(name))
    }

    /// A step begins: ends the run if the user requested it, and reports the step.
    pub(crate) fn step(&mut self, message: &str, expected: f64) -> Result<(), LabError> {
        if interrupt::requested() {
            return Err(LabError::Interrupted);
        }
        self.clock.step(message, expected, &self.trials);
        Ok(())
    }

    /// Numbers a trial, writes it down and keeps it.
    pub(crate) fn keep(&mut self, trial: Trial) -> Result<(), LabError> {
        self.keep_all(vec![trial])
    }

    /// Numbers trials that belong together, writes them down in one piece and keeps them.
    pub(crate) fn keep_all(&mut self, mut trials: Vec<Trial>) -> Result<(), LabError> {
        for (number, trial) in (self.trials.len()..).zip(&mut trials) {
            trial.number = number as u64;
        }
        folder::append_trials(self.out, &trials)?;
        self.trials.extend(trials);
        Ok(())
    }

    /// Length of a trial including preparation and evaluation, seconds.
    pub(crate) fn trial_expected(&self) -> f64 {
        self.preset.trial_seconds + 0.06
    }
}
