//! The commands of a study and of its subjects.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use weir_kernel::Namespace;
use weir_stats::Scenario;
use weir_study::Devices;

use crate::LabError;
use crate::host::shell::shell;
use crate::host::target::{ExecTarget, TargetCommand};

/// Variables that every command of a run sees.
#[derive(Clone, Debug)]
pub(crate) struct CommandEnv {
    /// The weir that runs the study.
    pub(crate) weir: std::path::PathBuf,
    /// The run's seed.
    pub(crate) seed: u64,
    /// The firewall's devices.
    pub(crate) devices: Devices,
    /// Length of a trial, seconds.
    pub(crate) trial_seconds: f64,
    /// The core that packets are made on.
    pub(crate) core: u32,
}

/// One command with its variables.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    /// For messages: `ruleset`, `load of tree`, …
    pub(crate) what: String,
    /// The command.
    pub(crate) text: &'a str,
    /// Where: each axis becomes a variable.
    pub(crate) scenario: &'a Scenario,
    /// More variables, files as a rule.
    pub(crate) files: Vec<(&'static str, &'a Path)>,
}

impl CommandEnv {
    /// Runs a command inside a namespace; how long it took, and what it printed.
    ///
    /// What it starts is in the namespace too, so it ends with the session at the latest.
    pub(crate) fn run(
        &self,
        namespace: &Namespace,
        job: &Job<'_>,
    ) -> Result<(Duration, String), LabError> {
        let mut variables = self.variables(job);
        variables.insert("WEIR".to_owned(), self.weir.to_string_lossy().into_owned());
        for (name, path) in &job.files {
            variables.insert((*name).to_owned(), path.to_string_lossy().into_owned());
        }
        let ended = shell(namespace, job.text, &variables);
        let (taken, output) = ended.map_err(|source| job.not_started(source))?;
        job.check(&output)?;
        Ok((taken, String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// Runs a command where rulesets are loaded; one that `is_timed` has priority over the
    /// machine's other work. Files are those of `folder`.
    pub(crate) fn run_on(
        &self,
        target: &dyn ExecTarget,
        folder: &Path,
        job: &Job<'_>,
        is_timed: bool,
    ) -> Result<(Duration, String), LabError> {
        let ran = target.run(&TargetCommand {
            text: job.text,
            variables: self.variables(job),
            files: &job.files,
            folder,
            weir: &self.weir,
            is_timed,
        });
        let ran = ran.map_err(|error| match error {
            LabError::System { source, .. } => job.not_started(source),
            other => other,
        })?;
        match ran.failed {
            None => Ok((Duration::from_secs_f64(ran.seconds), ran.stdout)),
            Some(status) => Err(job.failed(status, &ran.stderr)),
        }
    }

    /// Variables that are the same on every machine.
    fn variables(&self, job: &Job<'_>) -> BTreeMap<String, String> {
        let fixed = [
            ("SEED", self.seed.to_string()),
            ("IN", self.devices.input.clone()),
            ("OUT", self.devices.output.clone()),
            ("TRIAL_SECONDS", self.trial_seconds.to_string()),
            ("CORE", self.core.to_string()),
        ];
        let fixed = fixed.into_iter().map(|(name, value)| (name.to_owned(), value));
        let axes = job.scenario.0.iter();
        let axes = axes.map(|(axis, value)| (axis.to_ascii_uppercase(), value.to_string()));
        fixed.chain(axes).collect()
    }
}

impl Job<'_> {
    fn check(&self, output: &std::process::Output) -> Result<(), LabError> {
        if output.status.success() {
            return Ok(());
        }
        Err(self.failed(output.status.to_string(), &String::from_utf8_lossy(&output.stderr)))
    }

    fn not_started(&self, source: std::io::Error) -> LabError {
        self.failed("no status".to_owned(), &source.to_string())
    }

    fn failed(&self, status: String, stderr: &str) -> LabError {
        let lines: Vec<&str> = stderr.lines().rev().take(3).collect();
        LabError::Command {
            what: self.what.clone(),
            scenario: self.scenario.clone(),
            command: self.text.to_owned(),
            status,
            message: lines.into_iter().rev().collect::<Vec<_>>().join("; "),
        }
    }
}

/// The number after `dropped` in the output of a `count` command.
pub(crate) fn dropped_in(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.trim().strip_prefix("dropped ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_found_among_other_lines() {
        assert_eq!(dropped_in("accepted 7\ndropped 12\n"), Some(12));
        assert_eq!(dropped_in("dropped many\n"), None);
    }
}
