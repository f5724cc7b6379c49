//! Rulesets, frames and folders of a run, generated once before anything is measured.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use weir_kernel::Namespace;
use weir_stats::{Coordinate, RulesetRecord, Scenario};

use crate::LabError;
use crate::frames::mix;
use crate::frames::{self, Frame};
use crate::host::command::{CommandEnv, Job};
use crate::host::target::ExecTarget;
use weir_study::{GeneratedFile, Study};

/// Rulesets up to this length are kept with the records.
const KEPT_BYTES: u64 = 16 * 1024;

/// Files of one run, by the part of the grid that they depend on.
pub(crate) struct Files {
    folder: PathBuf,
    /// Where the commands run that make them: a namespace that leads nowhere.
    tools: Namespace,
    env: CommandEnv,
    frames: BTreeMap<Scenario, Vec<Frame>>,
    prepared: BTreeMap<(Scenario, String), PathBuf>,
}

impl Files {
    /// Nothing generated yet; everything goes into `folder`.
    pub(crate) fn new(
        folder: PathBuf,
        tools: Namespace,
        env: CommandEnv,
    ) -> Result<Files, LabError> {
        fs::create_dir_all(&folder).map_err(LabError::file("create", &folder))?;
        let (frames, prepared) = (BTreeMap::new(), BTreeMap::new());
        Ok(Files { folder, tools, env, frames, prepared })
    }

    /// The folder of them all.
    pub(crate) fn root(&self) -> &Path {
        &self.folder
    }

    /// Runs a command where rulesets are loaded.
    pub(crate) fn run_on(
        &self,
        target: &dyn ExecTarget,
        job: &Job<'_>,
        is_timed: bool,
    ) -> Result<(Duration, String), LabError> {
        self.env.run_on(target, &self.folder, job, is_timed)
    }

    /// File of the ruleset at a point.
    pub(crate) fn ruleset(&self, study: &Study, point: &Scenario) -> PathBuf {
        self.path("ruleset", &study.ruleset, point)
    }

    /// File of the rules to add at a point.
    pub(crate) fn more(&self, study: &Study, point: &Scenario) -> PathBuf {
        study.more.as_ref().map_or_else(PathBuf::new, |more| self.path("more", more, point))
    }

    fn path(&self, what: &str, source: &GeneratedFile, point: &Scenario) -> PathBuf {
        let part = point.on(&source.axis_names()).to_string().replace(' ', ",");
        self.folder.join(format!("{what}-{part}"))
    }

    /// Makes the ruleset of a point, where it is not there yet; its record the first time.
    pub(crate) fn make_ruleset(
        &self,
        study: &Study,
        point: &Scenario,
        out: &Path,
    ) -> Result<Option<RulesetRecord>, LabError> {
        let path = self.ruleset(study, point);
        if path.exists() {
            return Ok(None);
        }
        let part = point.on(&study.ruleset.axis_names());
        self.make("RULESET", &study.ruleset, &part, &path)?;
        let text = fs::read(&path).map_err(LabError::file("read", &path))?;
        let hash = Sha256::digest(&text);
        let mut record = RulesetRecord {
            scenario: part,
            command: study.ruleset.command.trim().to_owned(),
            sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            bytes: text.len() as u64,
            file: None,
        };
        if record.bytes <= KEPT_BYTES {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let folder = out.join("rulesets");
            fs::create_dir_all(&folder).map_err(LabError::file("create", &folder))?;
            let kept = folder.join(format!("{name}.rules"));
            fs::write(&kept, &text).map_err(LabError::file("write", &kept))?;
            record.file = Some(format!("rulesets/{name}.rules"));
        }
        Ok(Some(record))
    }

    /// Makes the rules to add at a point.
    pub(crate) fn make_more(&self, study: &Study, point: &Scenario) -> Result<(), LabError> {
        let Some(more) = &study.more else { return Ok(()) };
        let path = self.path("more", more, point);
        if path.exists() {
            return Ok(());
        }
        self.make("MORE", more, &point.on(&more.axis_names()), &path)
    }

    /// Makes and reads the frames of a point.
    pub(crate) fn make_frames(&mut self, study: &Study, point: &Scenario) -> Result<(), LabError> {
        let Some(traffic) = study.frames() else { return Ok(()) };
        let part = point.on(&traffic.axis_names());
        if self.frames.contains_key(&part) {
            return Ok(());
        }
        let path = self.path("frames", traffic, point);
        let ruleset = self.ruleset(study, point);
        let job = Job {
            what: "traffic".to_owned(),
            text: &traffic.command,
            scenario: &part,
            files: vec![("FRAMES", &path), ("RULESET", &ruleset)],
        };
        self.env.run(&self.tools, &job)?;
        let mut frames = frames::load(&path)?;
        if let Some(axis) = study.drop_axis() {
            let share = part.coordinate(axis).and_then(Coordinate::number);
            frames =
                mix::mixed(&frames, share).map_err(|message| LabError::Frames { path, message })?;
        }
        self.frames.insert(part, frames);
        Ok(())
    }

    /// The frames of a point, and the part of the grid that they depend on.
    pub(crate) fn frames(&self, study: &Study, point: &Scenario) -> (Scenario, &[Frame]) {
        let axes = study.frames().map_or_else(Vec::new, GeneratedFile::axis_names);
        let part = point.on(&axes);
        let frames = self.frames.get(&part).map_or(&[][..], Vec::as_slice);
        (part, frames)
    }

    /// Whether any frame is IPv6.
    pub(crate) fn has_ipv6(&self) -> bool {
        self.frames.values().flatten().any(Frame::is_ipv6)
    }

    fn make(
        &self,
        variable: &'static str,
        source: &GeneratedFile,
        part: &Scenario,
        path: &Path,
    ) -> Result<(), LabError> {
        let job = Job {
            what: variable.to_ascii_lowercase(),
            text: &source.command,
            scenario: part,
            files: vec![(variable, path)],
        };
        self.env.run(&self.tools, &job).map(drop)
    }

    /// Runs a subject's `prepare` at a point, once.
    pub(crate) fn prepare(
        &mut self,
        study: &Study,
        point: &Scenario,
        name: &str,
        command: &str,
    ) -> Result<(), LabError> {
        let part = point.on(&study.ruleset.axis_names());
        let key = (part.clone(), name.to_owned());
        if self.prepared.contains_key(&key) {
            return Ok(());
        }
        let folder = self.folder.join(format!("{name}-{}", part.to_string().replace(' ', ",")));
        if !command.is_empty() {
            let ruleset = self.ruleset(study, point);
            let job = Job {
                what: format!("prepare of {name}"),
                text: command,
                scenario: &part,
                files: vec![("DIR", &folder), ("RULESET", &ruleset)],
            };
            self.env.run(&self.tools, &job)?;
        }
        self.prepared.insert(key, folder);
        Ok(())
    }

    /// Folder of a subject at a point.
    pub(crate) fn folder(&self, study: &Study, point: &Scenario, name: &str) -> PathBuf {
        let key = (point.on(&study.ruleset.axis_names()), name.to_owned());
        self.prepared.get(&key).cloned().unwrap_or_default()
    }
}
