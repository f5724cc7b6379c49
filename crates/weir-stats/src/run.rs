//! What was run, and where.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::claim::ClaimRecord;
use crate::estimate::Estimate;
use crate::quantity::Quantity;
use crate::scenario::{Coordinate, Scenario};

/// Version of the record format; a reader refuses another one.
pub const RECORD_FORMAT_VERSION: u32 = 1;

/// One execution of a study: `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`RECORD_FORMAT_VERSION`].
    pub format: u32,
    /// Name of the study's folder.
    pub study: String,
    /// Its title.
    pub title: String,
    /// Its question, one sentence.
    pub question: String,
    /// The paper whose experiment it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<Paper>,
    /// How long and how often.
    pub preset: Preset,
    /// When it began, RFC 3339, UTC.
    pub date: String,
    /// How long it took, seconds.
    pub seconds: f64,
    /// False while it runs and where it was interrupted.
    pub complete: bool,
    /// The command line, paths masked.
    pub command: String,
    /// weir's version.
    pub weir: String,
    /// Seed of the order, the rulesets and the frames.
    pub seed: u64,
    /// The machine.
    pub environment: HostEnvironment,
    /// Other machines that took part, by their roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<RemoteHostRecord>,
    /// The grid.
    pub axes: Vec<ScenarioAxis>,
    /// What was measured, in the order of the study.
    pub subjects: Vec<RunSubject>,
    /// The rulesets that were generated.
    pub rulesets: Vec<GeneratedRulesetRecord>,
    /// What the commands that generated frames report of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frame_facts: Vec<FrameFactsRecord>,
    /// Ratio of the same subject measured twice: what this machine calls different although it
    /// is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_floor: Option<NoiseFloor>,
    /// What was tried.
    pub counts: TrialCounts,
    /// The study's claims with their outcome.
    pub claims: Vec<ClaimRecord>,
    /// Values that the paper's text states.
    #[serde(default)]
    pub paper_values: Vec<PaperStatedValue>,
    /// Reasons to doubt the numbers, a sentence each.
    #[serde(default)]
    pub doubts: Vec<String>,
}

impl Run {
    /// The machine whose rules were measured: the firewall's host, or the one that measured.
    pub fn firewall_environment(&self) -> &HostEnvironment {
        let mut hosts = self.hosts.iter();
        let firewall = hosts.find(|host| host.role == "firewall");
        firewall.map_or(&self.environment, |host| &host.environment)
    }
}

/// A published experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its title.
    pub title: String,
    /// Who wrote it.
    pub authors: String,
    /// Year; 0 where the text bears none.
    #[serde(default)]
    pub year: u32,
    /// Section and figures that the study repeats.
    pub part: String,
    /// What it was measured on, and how it differs from here.
    pub setting: String,
    /// Its figures that are redrawn with our values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<RemeasuredPaperFigure>,
}

/// A figure of a paper, on even axes: a quantity against the study's axis of numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemeasuredPaperFigure {
    /// Its number in the paper: `figure 7`.
    pub number: String,
    /// What it shows.
    pub title: String,
    /// What is drawn.
    pub quantity: Quantity,
    /// Last value of the axis that the paper has; all of ours without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "to")]
    pub last_axis_value: Option<u64>,
}

/// How long and how often a study is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preset {
    /// `smoke`, `quick`, …
    pub name: String,
    /// Length of a trial, seconds.
    pub trial_seconds: f64,
    /// Passes over the grid, each with two trials of a subject at a point.
    pub blocks: u32,
    /// Times that each ruleset is loaded.
    pub loads: u32,
    /// What a reader must know about trials of this length, e.g. that they are shorter than RFC
    /// 3511 requires.
    pub label: String,
}

/// The machine that a run was made on. Host names and paths are masked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostEnvironment {
    /// Kernel release.
    pub kernel: String,
    /// Machine architecture.
    pub architecture: String,
    /// Processor model.
    pub cpu_model: String,
    /// Processors online.
    pub cores: u32,
    /// Which of them generated, forwarded and received.
    pub core: u32,
    /// Scheduling of the generator: `fifo 1`, or `other` with the reason.
    #[serde(rename = "scheduling")]
    pub generator_scheduling_policy: String,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Hypervisor, where the processor says that there is one.
    pub hypervisor: bool,
    /// Clock source of the kernel.
    pub clocksource: String,
    /// Tools by name, each with the first line of its `--version`.
    pub tools: BTreeMap<String, String>,
    /// Kernel settings that matter, by name.
    pub sysctls: BTreeMap<String, String>,
    /// The kernel's defences against processor faults, by name.
    pub mitigations: BTreeMap<String, String>,
}

/// Another machine of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteHostRecord {
    /// What it did: `firewall`.
    pub role: String,
    /// weir's version there.
    pub weir: String,
    /// The machine.
    pub environment: HostEnvironment,
    /// Its clock less that of the machine that measured, seconds.
    pub clock_offset_seconds: f64,
    /// The round-trip time of that request, seconds: the offset is accurate to half of it.
    pub clock_round_trip_seconds: f64,
}

/// A dimension of a study's grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioAxis {
    /// Its name, as in [`Scenario`].
    pub name: String,
    /// What a reader sees.
    pub title: String,
    /// The values that this run's preset measured.
    #[serde(rename = "values")]
    pub measured_values: Vec<Coordinate>,
    /// The preset's name for each text value, where the study gives one.
    #[serde(default)]
    pub titles: BTreeMap<String, String>,
}

/// A measured subject: a way to load a ruleset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSubject {
    /// Its name in `subjects.toml`.
    pub name: String,
    /// What a reader sees.
    pub title: String,
    /// What it does, one sentence.
    pub about: String,
    /// Loads no rules: the line that nothing can be above.
    #[serde(rename = "baseline")]
    pub loads_no_rules: bool,
    /// Made by weir.
    pub weir: bool,
    /// The command that loads a ruleset, or measures look-ups in it.
    pub load: String,
    /// Packets per second that its limit accepts although they must be dropped; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lets_through_pps: u64,
    /// Why it was not measured, where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<String>,
    /// Points from which it was excluded on purpose, with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "limit")]
    pub excluded_points_and_reason: Option<String>,
}

/// Packets that a limit of `pps` may accept in `seconds`: those of its rate, and those of a bucket
/// that was filled for a second.
pub fn max_packets_accepted_by_limit(pps: u64, seconds: f64) -> u64 {
    (pps as f64 * (seconds + 1.0)).ceil() as u64
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A ruleset that a run measured, by its origin and hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedRulesetRecord {
    /// The part of the grid that it belongs to.
    pub scenario: Scenario,
    /// The command that wrote it.
    pub command: String,
    /// SHA-256 of its text, hexadecimal.
    pub sha256: String,
    /// Length of its text.
    pub bytes: u64,
    /// Its file in the run's folder, if it is small enough to be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// What the command that generated the frames of a point reports of them: for example how many
/// rules they hit. The names are the command's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameFactsRecord {
    /// The part of the grid that the frames belong to.
    pub scenario: Scenario,
    /// Numbers by name.
    pub facts: BTreeMap<String, f64>,
}

/// The same subject measured twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// Which one.
    pub subject: String,
    /// Second copy against the first, over all points.
    pub ratio: Estimate,
}

/// How many trials there were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialCounts {
    /// All.
    pub all: u64,
    /// Those that count.
    pub accepted: u64,
    /// Discarded first ones.
    pub warmup: u64,
    /// Disturbed ones.
    pub disturbed: u64,
    /// Those whose counters do not add up.
    pub unbalanced: u64,
    /// Failed ones.
    pub failed: u64,
    /// Trials that were accepted although they were disturbed, because the cap of repeats was
    /// reached: many of them make a run noisy.
    #[serde(rename = "given_up")]
    pub accepted_despite_disturbance: u64,
}

/// A value that a paper states in its text or a table; never one read off a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperStatedValue {
    /// What it is a value of.
    pub what: String,
    /// The value as text.
    pub value: String,
    /// Where it is written.
    pub place: String,
    /// The claim whose number is ours for the same, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}
