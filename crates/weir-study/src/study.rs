//! A study as declared in its file: what is measured, at which points, for how long, and what is
//! claimed.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use weir_stats::{Claim, ClaimBounds, Coordinate, Paper, PaperStatedValue, Scenario};

use crate::file_generator::FileGenerator;
use crate::firewall_devices::FirewallDevices;
use crate::probe_plan::ProbePlan;
use crate::supported_workload_features::{RULESET_LOADS_ONLY_FEATURES, WorkloadFeatures};
use crate::traffic::{ConnectionLoad, Traffic};

/// A study as its file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// What a reader sees.
    pub title: String,
    /// Its question.
    pub question: String,
    /// The experiment that it repeats.
    pub paper: Option<Paper>,
    /// Names of its subjects, in the order of the report.
    pub subjects: Vec<Spanned<String>>,
    /// Its grid; the order of axes is that of their names.
    #[serde(default)]
    pub axes: BTreeMap<String, AxisDefinition>,
    /// The devices that its rulesets know; `eth0` and `eth1` without it.
    #[serde(default)]
    pub devices: FirewallDevices,
    /// How a ruleset is made.
    pub ruleset: FileGenerator,
    /// Whether the memory of each ruleset that is loaded is measured; a load then waits until the
    /// memory of the one before is given back.
    #[serde(default)]
    pub memory: bool,
    /// The traffic; without it only the load commands are timed.
    pub traffic: Option<Traffic>,
    /// Additional probes.
    pub probe: Option<ProbePlan>,
    /// How the rules of `MORE` are made.
    pub more: Option<FileGenerator>,
    /// The subject that is measured twice, for the noise floor.
    pub again: Option<AaControl>,
    /// What counts as a disturbance.
    #[serde(default)]
    pub noise: NoiseLimits,
    /// How long and how often, by name.
    pub presets: BTreeMap<String, PresetDefinition>,
    /// Claims with their tests.
    #[serde(default)]
    pub claims: Vec<Spanned<Claim>>,
    /// Changes of the study after a kept run that leave the run usable, each with the reason.
    #[serde(default)]
    pub accepted_changes: Vec<AcceptedChange>,
    /// Values that the paper's text states.
    #[serde(default)]
    pub paper_values: Vec<PaperStatedValue>,
    /// Reasons to doubt the numbers.
    #[serde(default)]
    pub doubts: Vec<String>,
}

impl Study {
    /// What it measures, and what it supports.
    pub fn workload_features(&self) -> &'static WorkloadFeatures {
        self.traffic.as_ref().map_or(&RULESET_LOADS_ONLY_FEATURES, Traffic::workload_features)
    }

    /// Whether the study says that a change of `part` after the run in `folder` leaves it usable.
    pub fn accepts_change(&self, folder: &str, part: &str) -> bool {
        let accepts = |change: &AcceptedChange| {
            change.run == folder && change.parts.iter().any(|accepted| accepted == part)
        };
        self.accepted_changes.iter().any(accepts)
    }

    /// How its frames are made, where it plays frames.
    pub fn frames_generator(&self) -> Option<&FileGenerator> {
        Some(&self.traffic.as_ref()?.frames()?.source)
    }

    /// What its frames must be like, by the names of facts; nothing where it plays none.
    pub fn required_frame_facts(&self) -> &BTreeMap<String, ClaimBounds> {
        static NONE: BTreeMap<String, ClaimBounds> = BTreeMap::new();
        let frames = self.traffic.as_ref().and_then(Traffic::frames);
        frames.map_or(&NONE, |frames| &frames.required_facts)
    }

    /// The axis of the share of frames that rules have to drop, where it sets one.
    pub fn drop_share_axis(&self) -> Option<&str> {
        self.traffic.as_ref()?.frames()?.drop_axis.as_deref()
    }

    /// Whether it measures look-ups in user space: there is no firewall, and no load is timed.
    pub fn measures_lookups(&self) -> bool {
        self.traffic.as_ref().is_some_and(Traffic::is_lookups)
    }

    /// Its connections, where it opens some.
    pub fn connection_load(&self) -> Option<&ConnectionLoad> {
        self.traffic.as_ref()?.connection_load()
    }
}

/// Parts of a study that changed after a kept run, and do not change what its claims measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedChange {
    /// The run's folder below the study's: `runs/2026-11-21-amd-epyc-2cpu`.
    pub run: String,
    /// `ruleset`, `traffic`, `subject NAME`.
    pub parts: Vec<String>,
    /// Why the run is still evidence, one sentence.
    pub reason: String,
}

/// One axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisDefinition {
    /// What a reader sees.
    pub title: String,
    /// Its values; a preset may take fewer.
    pub values: Vec<Coordinate>,
    /// What a reader sees for a value that is a name.
    #[serde(default)]
    pub titles: BTreeMap<String, String>,
}

/// A subject that is measured twice.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AaControl {
    /// Which.
    pub subject: Spanned<String>,
    /// At which points.
    #[serde(default)]
    pub at: Scenario,
}

/// What counts as a disturbance of a trial.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NoiseLimits {
    /// Slowest spin, against the fastest of the run.
    pub spin_ratio: f64,
    /// Largest share of stolen time.
    pub steal: f64,
    /// Largest share of stalled time, where the generator does not run before everything else.
    pub psi: f64,
    /// Most times that the generator may be taken off its core.
    #[serde(rename = "switches")]
    pub generator_preemptions: u64,
    /// How often a disturbed trial is repeated.
    pub repeats: u32,
}

impl Default for NoiseLimits {
    fn default() -> NoiseLimits {
        // Shared virtual processors change their speed by a quarter from one second to the next,
        // with nothing else to be seen; what is repeated then meets the same again.
        NoiseLimits {
            spin_ratio: 1.3,
            steal: 0.08,
            psi: 0.25,
            generator_preemptions: 20,
            repeats: 2,
        }
    }
}

/// The preset of a subject against itself: a study's own, or else its smoke at two points.
pub const AA_PRESET_NAME: &str = "aa";

/// How long and how often.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresetDefinition {
    /// What a reader must know about trials of this length.
    pub label: String,
    /// Length of a trial.
    pub trial_seconds: f64,
    /// Passes over the grid.
    pub blocks: u32,
    /// Times that each ruleset is loaded.
    pub loads: u32,
    /// Times that single rules are added.
    #[serde(default)]
    pub adds: u32,
    /// Fewer values on some axes.
    #[serde(default)]
    pub axes: BTreeMap<String, Vec<Coordinate>>,
    /// Packets per second that are offered; as many as the firewall can take without it.
    #[serde(default)]
    pub rate_pps: u64,
    /// Entries that the connection table has to hold in one trial, where the machine's usual limit
    /// is too low for them.
    #[serde(default)]
    pub table_entries: u64,
    /// Length of a trial that probes; 0: as long as the others.
    #[serde(default)]
    pub probe_seconds: f64,
}

impl PresetDefinition {
    /// The same at two points at most: the ends of the first axis, and the last value of others.
    pub(crate) fn reduce_to_two_points_and_three_blocks(
        &self,
        axes: &BTreeMap<String, AxisDefinition>,
    ) -> PresetDefinition {
        let mut short = PresetDefinition { blocks: self.blocks.min(3), ..self.clone() };
        for (at, (name, axis)) in axes.iter().enumerate() {
            let values = self.axes.get(name).unwrap_or(&axis.values);
            let first = values.first().filter(|first| at == 0 && Some(*first) != values.last());
            let ends = first.into_iter().chain(values.last()).cloned().collect();
            short.axes.insert(name.clone(), ends);
        }
        short
    }

    /// Length of a trial that probes, seconds.
    pub fn probe_trial_seconds(&self) -> f64 {
        if self.probe_seconds > 0.0 { self.probe_seconds } else { self.trial_seconds }
    }
}
