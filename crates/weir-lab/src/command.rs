//! The commands of a study and of its subjects.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use weir_kernel::Namespace;
use weir_stats::Scenario;

use crate::LabError;
use crate::host::protocol::Work;
use crate::host::remote::Room;
use crate::schedule::load::Hurried;
use weir_study::Devices;

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

    /// Runs a command where rulesets are loaded; `hurried` comes before the machine's other work.
    /// Files are those of `folder`.
    pub(crate) fn run_on(
        &self,
        ground: &Ground,
        folder: &Path,
        job: &Job<'_>,
        hurried: bool,
    ) -> Result<(Duration, String), LabError> {
        let room = match ground {
            Ground::Here(namespace) => {
                let _hurried = hurried.then(Hurried::new);
                return self.run(namespace, job);
            }
            Ground::There(room) => room,
        };
        let inside = |path: &Path| path.strip_prefix(folder).unwrap_or(path).display().to_string();
        let files = job.files.iter().map(|(name, path)| ((*name).to_owned(), inside(path)));
        let ran = room.run(Work {
            room: room.number(),
            command: job.text.to_owned(),
            variables: self.variables(job),
            files: files.collect(),
            hurried,
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

/// Runs a command by `sh -ec` inside a namespace to its end; how long it took.
pub(crate) fn shell(
    namespace: &Namespace,
    text: &str,
    variables: &BTreeMap<String, String>,
) -> io::Result<(Duration, Output)> {
    let mut command = namespace.command("sh");
    command.args(["-ec", text]).envs(variables);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = Instant::now();
    let output = command.spawn()?.wait_with_output()?;
    Ok((begun.elapsed(), output))
}

/// Where a ruleset is loaded.
#[derive(Clone, Debug)]
pub(crate) enum Ground {
    /// In a namespace of this machine.
    Here(Namespace),
    /// In one of another host.
    There(Room),
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
