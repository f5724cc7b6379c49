//! Options of a run.

use std::path::PathBuf;

use weir_stats::rate_search::SearchGoal;
use weir_study::PresetAndRunMode;

/// How a study is run.
#[derive(Clone, Debug)]
pub struct StudyRunOptions {
    /// Which preset of the study: how long and how often.
    pub preset: String,
    /// Seed of the order, the rulesets and the frames.
    pub seed: u64,
    /// The program that `WEIR` names in the commands of the study.
    pub weir_program: PathBuf,
    /// Its version.
    pub weir_version: String,
    /// The command line, for the record; paths in it are masked.
    pub command: String,
    /// The core that everything happens on; the last one without it.
    pub core: Option<u32>,
    /// Real-time priority for the generator, in bursts of at most 0.6 s.
    pub realtime: bool,
    /// Go on with the run in the folder rather than begin one in an empty folder.
    pub resume: bool,
    /// Measure this subject alone, against itself, as often as [`AA_TEST_REPETITIONS`] runs would.
    pub against_itself: Option<String>,
    /// Limits of the whole machine may be raised while it runs.
    pub allow_global: bool,
    /// Search the highest rate with this loss rather than measure at overload.
    pub search: Option<SearchGoal>,
    /// Run over the hosts of this file rather than in namespaces of this machine.
    pub hosts: Option<PathBuf>,
}

/// A quick run from seed 1 by the `weir` of the path, without extras.
impl Default for StudyRunOptions {
    fn default() -> StudyRunOptions {
        StudyRunOptions {
            preset: "quick".to_owned(),
            seed: 1,
            weir_program: PathBuf::from("weir"),
            weir_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: "weir lab run".to_owned(),
            core: None,
            realtime: true,
            resume: false,
            against_itself: None,
            allow_global: false,
            search: None,
            hosts: None,
        }
    }
}

impl StudyRunOptions {
    /// What they require of a study.
    pub(crate) fn requested_preset_and_run_mode(&self) -> PresetAndRunMode<'_> {
        PresetAndRunMode {
            preset_name: &self.preset,
            search_rate: self.search.is_some(),
            resume: self.resume,
            aa_test: self.against_itself.is_some(),
        }
    }
}

/// Repetitions of a study that a subject is measured against itself.
pub const AA_TEST_REPETITIONS: u32 = 20;
