//! Rulesets, frames and folders of a run, generated once before anything is measured.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use weir_kernel::Namespace;
use weir_stats::{Coordinate, FrameFactsRecord, GeneratedRulesetRecord, Scenario};

use crate::LabError;
use crate::frames::drop_mix;
use crate::frames::frame_facts::read_and_check_frame_facts;
use crate::frames::{self, Frame};
use crate::host::host_trait::ExecTarget;
use crate::host::study_command::{StudyCommand, StudyCommandEnv};
use weir_study::{FileGenerator, Study};

/// Rulesets up to this length are kept with the records.
const MAX_KEPT_RULESET_BYTES: u64 = 16 * 1024;

/// Files of one run, by the part of the grid that they depend on.
pub(crate) struct GeneratedRunFiles {
    folder: PathBuf,
    /// Where the commands run that make them: a namespace that leads nowhere.
    tool_namespace: Namespace,
    command_env: StudyCommandEnv,
    frames: BTreeMap<Scenario, Vec<Frame>>,
    subject_folders: BTreeMap<(Scenario, String), PathBuf>,
}

impl GeneratedRunFiles {
    /// Nothing generated yet; everything goes into `folder`.
    pub(crate) fn new(
        folder: PathBuf,
        tools: Namespace,
        env: StudyCommandEnv,
    ) -> Result<GeneratedRunFiles, LabError> {
        fs::create_dir_all(&folder).map_err(LabError::file_error("create", &folder))?;
        let (frames, prepared) = (BTreeMap::new(), BTreeMap::new());
        Ok(GeneratedRunFiles {
            folder,
            tool_namespace: tools,
            command_env: env,
            frames,
            subject_folders: prepared,
        })
    }

    /// The folder of them all.
    pub(crate) fn root_folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a command where rulesets are loaded.
    pub(crate) fn run_command_on_target(
        &self,
        target: &dyn ExecTarget,
        job: &StudyCommand<'_>,
        is_timed: bool,
    ) -> Result<(Duration, String), LabError> {
        self.command_env.run_on_target(target, &self.folder, job, is_timed)
    }

    /// Runs a command that needs no firewall, in the namespace where files are generated.
    pub(crate) fn run_command_outside_firewalls(
        &self,
        job: &StudyCommand<'_>,
    ) -> Result<(Duration, String), LabError> {
        self.command_env.run_in_namespace(&self.tool_namespace, job)
    }

    /// File of the ruleset at a point.
    pub(crate) fn ruleset_path(&self, study: &Study, point: &Scenario) -> PathBuf {
        self.generated_path("ruleset", &study.ruleset, point)
    }

    /// File of the rules to add at a point.
    pub(crate) fn added_rules_path(&self, study: &Study, point: &Scenario) -> PathBuf {
        study
            .more
            .as_ref()
            .map_or_else(PathBuf::new, |more| self.generated_path("more", more, point))
    }

    fn generated_path(&self, what: &str, source: &FileGenerator, point: &Scenario) -> PathBuf {
        let part =
            point.project_to_axes(&source.declared_axis_names()).to_string().replace(' ', ",");
        self.folder.join(format!("{what}-{part}"))
    }

    /// Makes the ruleset of a point, where it is not there yet; its record the first time.
    pub(crate) fn generate_ruleset(
        &self,
        study: &Study,
        point: &Scenario,
        out: &Path,
    ) -> Result<Option<GeneratedRulesetRecord>, LabError> {
        let path = self.ruleset_path(study, point);
        if path.exists() {
            return Ok(None);
        }
        let part = point.project_to_axes(&study.ruleset.declared_axis_names());
        self.run_generator_command("RULESET", &study.ruleset, &part, &path)?;
        let text = fs::read(&path).map_err(LabError::file_error("read", &path))?;
        let hash = Sha256::digest(&text);
        let mut record = GeneratedRulesetRecord {
            scenario: part,
            command: study.ruleset.command.trim().to_owned(),
            sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            bytes: text.len() as u64,
            file: None,
        };
        if record.bytes <= MAX_KEPT_RULESET_BYTES {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let folder = out.join("rulesets");
            fs::create_dir_all(&folder).map_err(LabError::file_error("create", &folder))?;
            let kept = folder.join(format!("{name}.rules"));
            fs::write(&kept, &text).map_err(LabError::file_error("write", &kept))?;
            record.file = Some(format!("rulesets/{name}.rules"));
        }
        Ok(Some(record))
    }

    /// Makes the rules to add at a point.
    pub(crate) fn generate_added_rules(
        &self,
        study: &Study,
        point: &Scenario,
    ) -> Result<(), LabError> {
        let Some(more) = &study.more else { return Ok(()) };
        let path = self.generated_path("more", more, point);
        if path.exists() {
            return Ok(());
        }
        self.run_generator_command(
            "MORE",
            more,
            &point.project_to_axes(&more.declared_axis_names()),
            &path,
        )
    }

    /// Makes and reads the frames of a point; the first time, what their command reports of them.
    pub(crate) fn generate_frames_by_study_command(
        &mut self,
        study: &Study,
        point: &Scenario,
    ) -> Result<Option<FrameFactsRecord>, LabError> {
        let Some(traffic) = study.frames_generator() else { return Ok(None) };
        let part = point.project_to_axes(&traffic.declared_axis_names());
        if self.frames.contains_key(&part) {
            return Ok(None);
        }
        let path = self.generated_path("frames", traffic, point);
        let ruleset = self.ruleset_path(study, point);
        let job = StudyCommand {
            label: "traffic".to_owned(),
            script: &traffic.command,
            scenario: &part,
            file_variables: vec![("FRAMES", &path), ("RULESET", &ruleset)],
        };
        self.command_env.run_in_namespace(&self.tool_namespace, &job)?;
        let facts = read_and_check_frame_facts(&path, study.required_frame_facts())?;
        let mut frames = frames::load_pcap_and_verdicts(&path)?;
        if let Some(axis) = study.drop_share_axis() {
            let share = part.coordinate(axis).and_then(Coordinate::as_number);
            frames = drop_mix::mix_by_drop_percent(&frames, share)
                .map_err(|message| LabError::UnsendableFrames { path, message })?;
        }
        self.frames.insert(part.clone(), frames);
        Ok((!facts.is_empty()).then_some(FrameFactsRecord { scenario: part, facts }))
    }

    /// The frames of a point, and the part of the grid that they depend on.
    pub(crate) fn frames_at_point(&self, study: &Study, point: &Scenario) -> (Scenario, &[Frame]) {
        let axes =
            study.frames_generator().map_or_else(Vec::new, FileGenerator::declared_axis_names);
        let part = point.project_to_axes(&axes);
        let frames = self.frames.get(&part).map_or(&[][..], Vec::as_slice);
        (part, frames)
    }

    /// Whether any frame is IPv6.
    pub(crate) fn has_ipv6_frames(&self) -> bool {
        self.frames.values().flatten().any(Frame::is_ipv6)
    }

    fn run_generator_command(
        &self,
        variable: &'static str,
        source: &FileGenerator,
        part: &Scenario,
        path: &Path,
    ) -> Result<(), LabError> {
        let job = StudyCommand {
            label: variable.to_ascii_lowercase(),
            script: &source.command,
            scenario: part,
            file_variables: vec![(variable, path)],
        };
        self.command_env.run_in_namespace(&self.tool_namespace, &job).map(drop)
    }

    /// Runs a subject's `prepare` at a point, once.
    pub(crate) fn prepare_subject(
        &mut self,
        study: &Study,
        point: &Scenario,
        name: &str,
        command: &str,
    ) -> Result<(), LabError> {
        let part = point.project_to_axes(&study.ruleset.declared_axis_names());
        let key = (part.clone(), name.to_owned());
        if self.subject_folders.contains_key(&key) {
            return Ok(());
        }
        let folder = self.folder.join(format!("{name}-{}", part.to_string().replace(' ', ",")));
        if !command.is_empty() {
            let ruleset = self.ruleset_path(study, point);
            let job = StudyCommand {
                label: format!("prepare of {name}"),
                script: command,
                scenario: &part,
                file_variables: vec![("DIR", &folder), ("RULESET", &ruleset)],
            };
            self.command_env.run_in_namespace(&self.tool_namespace, &job)?;
        }
        self.subject_folders.insert(key, folder);
        Ok(())
    }

    /// Folder of a subject at a point.
    pub(crate) fn subject_folder(&self, study: &Study, point: &Scenario, name: &str) -> PathBuf {
        let key = (point.project_to_axes(&study.ruleset.declared_axis_names()), name.to_owned());
        self.subject_folders.get(&key).cloned().unwrap_or_default()
    }
}
