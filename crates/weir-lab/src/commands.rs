//! The commands of a study and of its subjects.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weir_kernel::Namespace;
use weir_stats::Scenario;

use crate::LabError;
use crate::topology::Devices;

/// Variables that every command of a run sees.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
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

impl Surroundings {
    /// Runs a command inside a namespace; how long it took, and what it printed.
    ///
    /// What it starts is in the namespace too, so it ends with the session at the latest.
    pub(crate) fn run(
        &self,
        namespace: &Namespace,
        job: &Job<'_>,
    ) -> Result<(Duration, String), LabError> {
        let mut command = namespace.command("sh");
        self.prepare(&mut command, job);
        let begun = Instant::now();
        let child = command.spawn().map_err(|source| job.not_started(source))?;
        let output = child.wait_with_output().map_err(|source| job.not_started(source))?;
        let taken = begun.elapsed();
        job.check(&output)?;
        Ok((taken, String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    fn prepare(&self, command: &mut Command, job: &Job<'_>) {
        command.args(["-ec", job.text]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("WEIR", &self.weir).env("SEED", self.seed.to_string());
        command.env("IN", &self.devices.input).env("OUT", &self.devices.output);
        command.env("TRIAL_SECONDS", self.trial_seconds.to_string());
        command.env("CORE", self.core.to_string());
        for (axis, value) in &job.scenario.0 {
            command.env(axis.to_ascii_uppercase(), value.to_string());
        }
        for (name, path) in &job.files {
            command.env(name, path);
        }
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

/// The number behind `dropped` in what a `count` command prints.
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
