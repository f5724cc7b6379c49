//! Studies: what is measured, at which points, how long, and what is claimed of it.
//!
//! A study is a folder `studies/<author><year>-<topic>` with a `study.toml`; its subjects are
//! declared in `subjects.toml` beside the folder. Everything is read whole or refused with a
//! place: a field that is not known, a subject or an axis that is not there.

mod paths;
mod workload;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use weir_stats::probe::{KIND_AXIS, LOAD_AXIS};
use weir_stats::{Claim, ClaimTest, Coordinate, Paper, PaperValue, Place, Scenario};

use crate::LabError;
use crate::looping::Looping;
use crate::probing::Probing;
use crate::sockets::Client;
use crate::subject::Subjects;
use crate::topology::Devices;
use crate::traffic::{Connecting, Traffic};

pub(crate) use workload::Feature;

/// A study as its file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// What a reader sees.
    pub title: String,
    /// What it asks.
    pub question: String,
    /// The experiment that it repeats.
    pub paper: Option<Paper>,
    /// Names of its subjects, in the order of the report.
    pub subjects: Vec<Spanned<String>>,
    /// Its grid; the order of axes is that of their names.
    #[serde(default)]
    pub axes: BTreeMap<String, AxisText>,
    /// The devices that its rulesets know; `eth0` and `eth1` without it.
    #[serde(default)]
    pub devices: Devices,
    /// How a ruleset is made.
    pub ruleset: Source,
    /// Whether the memory of each ruleset that is loaded is measured; a load then waits until the
    /// memory of the one before is given back.
    #[serde(default)]
    pub memory: bool,
    /// What is played; without it only the load commands are timed.
    pub traffic: Option<Traffic>,
    /// What else asks its firewalls.
    pub probe: Option<Probing>,
    /// How the rules of `MORE` are made.
    pub more: Option<Source>,
    /// The subject that is measured twice, for the noise floor.
    pub again: Option<Again>,
    /// What counts as a disturbance.
    #[serde(default)]
    pub noise: NoiseLimits,
    /// How long and how often, by name.
    pub presets: BTreeMap<String, PresetText>,
    /// Claims with their tests.
    #[serde(default)]
    pub claims: Vec<Spanned<Claim>>,
    /// Values that the paper's text states.
    #[serde(default)]
    pub paper_values: Vec<PaperValue>,
    /// Reasons to doubt the numbers.
    #[serde(default)]
    pub doubts: Vec<String>,
}

impl Study {
    /// How its frames are made, where it plays frames.
    pub fn frames(&self) -> Option<&Source> {
        match &self.traffic {
            Some(Traffic::Frames(source) | Traffic::Mixed { source, .. }) => Some(source),
            _ => None,
        }
    }

    /// The axis of the share of frames that rules have to drop, where it sets one.
    pub(crate) fn drop_axis(&self) -> Option<&str> {
        match &self.traffic {
            Some(Traffic::Mixed { drop_axis, .. }) => Some(drop_axis),
            _ => None,
        }
    }

    /// What it sends over loopback, where it does.
    pub(crate) fn looping(&self) -> Option<Looping> {
        match self.traffic {
            Some(Traffic::Loopback(looping)) => Some(looping),
            _ => None,
        }
    }

    /// Its connections, where it opens some.
    pub fn connecting(&self) -> Option<&Connecting> {
        match &self.traffic {
            Some(Traffic::Connections(connecting)) => Some(connecting),
            _ => None,
        }
    }
}

/// One axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisText {
    /// What a reader sees.
    pub title: String,
    /// Its values; a preset may take fewer.
    pub values: Vec<Coordinate>,
    /// What a reader sees for a value that is a name.
    #[serde(default)]
    pub titles: BTreeMap<String, String>,
}

/// A command that makes a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The axes that the file depends on.
    pub axes: Vec<Spanned<String>>,
    /// The command; it writes to `RULESET`, `FRAMES` or `MORE`.
    pub command: String,
}

impl Source {
    /// Names of its axes.
    pub fn axis_names(&self) -> Vec<&str> {
        self.axes.iter().map(|axis| axis.get_ref().as_str()).collect()
    }
}

/// A subject that is measured twice.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Again {
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
    pub switches: u64,
    /// How often a disturbed trial is repeated.
    pub repeats: u32,
}

impl Default for NoiseLimits {
    fn default() -> NoiseLimits {
        // Shared virtual processors change their speed by a quarter from one second to the next,
        // with nothing else to be seen; what is repeated then meets the same again.
        NoiseLimits { spin_ratio: 1.3, steal: 0.08, psi: 0.25, switches: 20, repeats: 2 }
    }
}

/// The preset of a subject against itself: a study's own, or else its smoke at two points.
pub const AGAINST_ITSELF: &str = "aa";

/// How long and how often.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresetText {
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
    /// Packets a second that are offered; as many as the firewall can take without it.
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

impl PresetText {
    /// The same at two points at most: the ends of the first axis, and the last value of others.
    fn short(&self, axes: &BTreeMap<String, AxisText>) -> PresetText {
        let mut short = PresetText { blocks: self.blocks.min(3), ..self.clone() };
        for (at, (name, axis)) in axes.iter().enumerate() {
            let values = self.axes.get(name).unwrap_or(&axis.values);
            let first = values.first().filter(|first| at == 0 && Some(*first) != values.last());
            let ends = first.into_iter().chain(values.last()).cloned().collect();
            short.axes.insert(name.clone(), ends);
        }
        short
    }

    /// Length of a trial that probes, seconds.
    pub(crate) fn probe_seconds(&self) -> f64 {
        if self.probe_seconds > 0.0 { self.probe_seconds } else { self.trial_seconds }
    }
}

/// A study, its subjects, and where they were read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Name of the study's folder.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Text of its file.
    pub text: String,
    /// The study.
    pub study: Study,
    /// Subjects of the file beside its folder.
    pub subjects: Subjects,
    /// Text of that file.
    pub subjects_text: String,
}

/// Reads a study from its folder or its file.
///
/// Its subjects are those of `subjects.toml` beside its folder, and those of `subjects.toml`
/// beside its file, which may not have the same names.
///
/// # Errors
/// With file and line: text that is no TOML, fields that are not known or are missing, subjects,
/// axes or values that are not there.
pub fn load(path: &Path) -> Result<Loaded, LabError> {
    let path = if path.is_dir() { path.join("study.toml") } else { path.to_owned() };
    let text = std::fs::read_to_string(&path).map_err(LabError::file("read", &path))?;
    let mut study: Study = parse(&path, &text)?;
    if study.looping().is_some() {
        study.devices = Devices { input: "lo".to_owned(), output: "lo".to_owned() };
    }
    let folder = path.canonicalize().map_err(LabError::file("read", &path))?;
    let folder = folder.parent().unwrap_or(Path::new("/")).to_owned();
    let beside = folder.join("subjects.toml");
    let above = folder.parent().unwrap_or(Path::new("/")).join("subjects.toml");
    let (subjects, subjects_text) = Subjects::read(&above, &beside)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let loaded = Loaded { name, path, text, study, subjects, subjects_text };
    loaded.check()?;
    Ok(loaded)
}

/// Reads TOML text; errors have file and line.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, LabError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        refused(path, text, at, error.message().trim().to_owned())
    })
}

pub(crate) fn refused(path: &Path, text: &str, at: usize, message: String) -> LabError {
    let before = text.get(..at.min(text.len())).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    LabError::Study { path: path.to_owned(), line, message }
}

impl Loaded {
    /// The preset of that name.
    ///
    /// # Errors
    /// [`LabError::Preset`] where there is none.
    pub fn preset(&self, name: &str) -> Result<&PresetText, LabError> {
        self.study.presets.get(name).ok_or_else(|| LabError::Preset {
            path: self.path.clone(),
            name: name.to_owned(),
            known: self.study.presets.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// Makes it a study of one subject against itself: `times` as many blocks as each preset has,
    /// no claims, and no loads where there is anything else.
    pub(crate) fn against_itself(&mut self, name: &str, times: u32) -> Result<(), LabError> {
        self.check_subject(name, 0)?;
        let subject = Spanned::new(0..0, name.to_owned());
        self.check_against_itself(&subject)?;
        let study = &mut self.study;
        study.subjects = vec![subject.clone()];
        study.again = Some(Again { subject, at: Scenario::default() });
        study.claims.clear();
        study.probe = None;
        study.title = format!("{}: {name} against itself", study.title);
        let has_own = study.presets.contains_key(AGAINST_ITSELF);
        if let Some(smoke) = study.presets.get("smoke").filter(|_| !has_own) {
            let short = smoke.short(&study.axes);
            study.presets.insert(AGAINST_ITSELF.to_owned(), short);
        }
        for preset in study.presets.values_mut() {
            // One block has no scatter to be judged by.
            preset.blocks = preset.blocks.max(2) * times;
            preset.loads = if study.traffic.is_none() { preset.blocks } else { 0 };
            preset.adds = 0;
        }
        Ok(())
    }

    /// Everything that one part of the file says about another.
    fn check(&self) -> Result<(), LabError> {
        let study = &self.study;
        for name in &study.subjects {
            self.check_subject(name.get_ref(), name.span().start)?;
            self.check_client(name.get_ref(), name.span().start)?;
        }
        let mut sources = vec![&study.ruleset];
        sources.extend(study.frames().into_iter().chain(&study.more));
        for axis in sources.iter().flat_map(|source| &source.axes) {
            self.check_axis(axis.get_ref(), axis.span().start)?;
        }
        let connecting = study.connecting();
        for axis in connecting.into_iter().flat_map(Connecting::axes) {
            self.check_axis(axis, self.text.find("[traffic]").unwrap_or(0))?;
        }
        self.check_paths()?;
        if let Some(probing) = &study.probe {
            self.check_probing(probing)?;
        }
        if let Some(again) = &study.again {
            let at = again.subject.span().start;
            self.check_subject(again.subject.get_ref(), at)?;
            self.check_point(&again.at, at)?;
        }
        for (name, preset) in &study.presets {
            let at = self.text.find(&format!("[presets.{name}")).unwrap_or(0);
            for (axis, values) in &preset.axes {
                self.check_axis(axis, at)?;
                for value in values {
                    self.check_value(axis, value, at)?;
                }
            }
            if preset.trial_seconds <= 0.0 || preset.trial_seconds > 600.0 || preset.blocks == 0 {
                let message = "a preset needs blocks, and trials of up to 600 seconds".to_owned();
                return Err(refused(&self.path, &self.text, at, message));
            }
            self.check_preset(name, preset)?;
        }
        for claim in &study.claims {
            self.check_claim(claim.get_ref(), claim.span().start)?;
        }
        Ok(())
    }

    fn check_probing(&self, probing: &Probing) -> Result<(), LabError> {
        let at = self.text.find("[probe]").unwrap_or(0);
        for name in &probing.subjects {
            self.check_subject(name.get_ref(), name.span().start)?;
        }
        probing
            .check()
            .and_then(|()| {
                let taken = [KIND_AXIS, LOAD_AXIS]
                    .into_iter()
                    .find(|axis| self.study.axes.contains_key(*axis));
                match (taken, self.workload().lacks(Feature::Probe)) {
                    (Some(axis), _) => Err(format!("`[probe]` has the axis `{axis}` for itself")),
                    (_, Some(why)) => {
                        let name = self.workload().name();
                        Err(format!("`[probe]` needs `[traffic]` of frames: {name} {why}"))
                    }
                    _ => Ok(()),
                }
            })
            .map_err(|message| refused(&self.path, &self.text, at, message))
    }

    fn check_claim(&self, claim: &Claim, at: usize) -> Result<(), LabError> {
        let place = |place: &Place| {
            self.check_subject(&place.subject, at)?;
            self.check_point(&place.at, at)
        };
        match &claim.test {
            Some(ClaimTest::Ratio { of, to, .. }) => place(of).and_then(|()| place(to)),
            Some(ClaimTest::Value { of, .. }) => place(of),
            Some(ClaimTest::Growth { subject, axis, at: point, above, from, to, .. }) => {
                self.check_subject(subject, at)?;
                self.check_point(point, at)?;
                self.check_value(axis, &Coordinate::Number(*from), at)?;
                self.check_value(axis, &Coordinate::Number(*to), at)?;
                above.as_ref().map_or(Ok(()), place)
            }
            None if claim.needs.is_none() => {
                let message = format!("claim `{}` has neither `test` nor `needs`", claim.id);
                Err(refused(&self.path, &self.text, at, message))
            }
            None => Ok(()),
        }
    }

    fn check_subject(&self, name: &str, at: usize) -> Result<(), LabError> {
        if self.subjects.0.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.subjects.0.keys().map(String::as_str).collect();
        let message = format!("no subject `{name}`; there are {}", known.join(", "));
        Err(refused(&self.path, &self.text, at, message))
    }

    /// Only in place of sockets somebody else can ask.
    fn check_client(&self, name: &str, at: usize) -> Result<(), LabError> {
        let client = self.subjects.0[name].client;
        let has_sockets = self.study.connecting().is_some_and(|c| c.sockets.is_some());
        if client == Client::Sockets || has_sockets {
            return Ok(());
        }
        let message = format!("subject `{name}` has a `client`: that needs kind `sockets`");
        Err(refused(&self.path, &self.text, at, message))
    }

    fn check_axis(&self, name: &str, at: usize) -> Result<(), LabError> {
        if self.study.axes.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.study.axes.keys().map(String::as_str).collect();
        let message = format!("no axis `{name}`; there are {}", known.join(", "));
        Err(refused(&self.path, &self.text, at, message))
    }

    fn check_value(&self, axis: &str, value: &Coordinate, at: usize) -> Result<(), LabError> {
        self.check_axis(axis, at)?;
        if self.study.axes[axis].values.contains(value) {
            return Ok(());
        }
        let message = format!("axis `{axis}` has no value {value}");
        Err(refused(&self.path, &self.text, at, message))
    }

    fn check_point(&self, point: &Scenario, at: usize) -> Result<(), LabError> {
        point.0.iter().try_for_each(|(axis, value)| match &self.study.probe {
            Some(probing) if [KIND_AXIS, LOAD_AXIS].contains(&axis.as_str()) => {
                let found = probing.has(axis, value);
                let message = || format!("`[probe]` has no {axis} `{value}`");
                found.then_some(()).ok_or_else(|| refused(&self.path, &self.text, at, message()))
            }
            _ => self.check_value(axis, value, at),
        })
    }
}

/// Where programs are found.
#[derive(Clone, Debug)]
pub struct Commands {
    folders: Vec<PathBuf>,
}

impl Commands {
    /// Looks in the folders of `path`, as the environment's `PATH` has it.
    pub fn new(path: &std::ffi::OsStr) -> Commands {
        Commands { folders: std::env::split_paths(path).collect() }
    }

    /// Whether a program of that name is there.
    pub fn finds(&self, name: &str) -> bool {
        self.folders.iter().any(|folder| folder.join(name).is_file())
    }
}
