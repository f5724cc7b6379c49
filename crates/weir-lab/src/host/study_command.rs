//! The commands of a study and of its subjects.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use weir_kernel::Namespace;
use weir_stats::Scenario;
use weir_study::FirewallDevices;

use crate::LabError;
use crate::host::host_trait::{ExecTarget, TargetCommand};
use crate::host::namespace_command::time_shell_command_in_namespace;

/// Variables that every command of a run sees.
#[derive(Clone, Debug)]
pub(crate) struct StudyCommandEnv {
    /// The weir that runs the study.
    pub(crate) weir_program: std::path::PathBuf,
    /// The run's seed.
    pub(crate) seed: u64,
    /// The firewall's devices.
    pub(crate) devices: FirewallDevices,
    /// Length of a trial, seconds.
    pub(crate) trial_seconds: f64,
    /// The core that packets are made on.
    pub(crate) generator_core: u32,
}

/// One command with its variables.
#[derive(Clone, Debug)]
pub(crate) struct StudyCommand<'a> {
    /// For messages: `ruleset`, `load of tree`, …
    pub(crate) label: String,
    /// The command.
    pub(crate) script: &'a str,
    /// Where: each axis becomes a variable.
    pub(crate) scenario: &'a Scenario,
    /// More variables, files as a rule.
    pub(crate) file_variables: Vec<(&'static str, &'a Path)>,
}

impl StudyCommandEnv {
    /// Runs a command inside a namespace; how long it took, and what it printed.
    ///
    /// What it starts is in the namespace too, so it ends with the session at the latest.
    pub(crate) fn run_in_namespace(
        &self,
        namespace: &Namespace,
        job: &StudyCommand<'_>,
    ) -> Result<(Duration, String), LabError> {
        let mut variables = self.machine_independent_variables(job);
        variables.insert("WEIR".to_owned(), self.weir_program.to_string_lossy().into_owned());
        for (name, path) in &job.file_variables {
            variables.insert((*name).to_owned(), path.to_string_lossy().into_owned());
        }
        let ended = time_shell_command_in_namespace(namespace, job.script, &variables);
        let (taken, output) = ended.map_err(|source| job.start_error(source))?;
        job.check_status(&output)?;
        Ok((taken, String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// Runs a command where rulesets are loaded; one that `is_timed` has priority over the
    /// machine's other work. Files are those of `files_folder`.
    pub(crate) fn run_on_target(
        &self,
        target: &dyn ExecTarget,
        files_folder: &Path,
        job: &StudyCommand<'_>,
        is_timed: bool,
    ) -> Result<(Duration, String), LabError> {
        let ran = target.run_command(&TargetCommand {
            script: job.script,
            variables: self.machine_independent_variables(job),
            file_variables: &job.file_variables,
            files_folder,
            weir_program: &self.weir_program,
            is_timed,
        });
        let ran = ran.map_err(|error| match error {
            LabError::SystemCall { source, .. } => job.start_error(source),
            other => other,
        })?;
        match ran.failed {
            None => Ok((Duration::from_secs_f64(ran.seconds), ran.stdout)),
            Some(status) => Err(job.status_error(status, &ran.stderr)),
        }
    }

    /// Variables that are the same on every machine.
    fn machine_independent_variables(&self, job: &StudyCommand<'_>) -> BTreeMap<String, String> {
        let fixed = [
            ("SEED", self.seed.to_string()),
            ("IN", self.devices.input.clone()),
            ("OUT", self.devices.output.clone()),
            ("TRIAL_SECONDS", self.trial_seconds.to_string()),
            ("CORE", self.generator_core.to_string()),
        ];
        let fixed = fixed.into_iter().map(|(name, value)| (name.to_owned(), value));
        let axes = job.scenario.0.iter();
        let axes = axes.map(|(axis, value)| (axis.to_ascii_uppercase(), value.to_string()));
        fixed.chain(axes).collect()
    }
}

impl StudyCommand<'_> {
    fn check_status(&self, output: &std::process::Output) -> Result<(), LabError> {
        if output.status.success() {
            return Ok(());
        }
        Err(self.status_error(output.status.to_string(), &String::from_utf8_lossy(&output.stderr)))
    }

    fn start_error(&self, source: std::io::Error) -> LabError {
        self.status_error("no status".to_owned(), &source.to_string())
    }

    fn status_error(&self, status: String, stderr: &str) -> LabError {
        let lines: Vec<&str> = stderr.lines().rev().take(3).collect();
        LabError::CommandFailed {
            what: self.label.clone(),
            scenario: self.scenario.clone(),
            command: self.script.to_owned(),
            status,
            message: lines.into_iter().rev().collect::<Vec<_>>().join("; "),
        }
    }
}

/// The number after `dropped` in the output of a `count` command.
pub(crate) fn find_number_after_dropped_word(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.trim().strip_prefix("dropped ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_found_among_other_lines() {
        assert_eq!(find_number_after_dropped_word("accepted 7\ndropped 12\n"), Some(12));
        assert_eq!(find_number_after_dropped_word("dropped many\n"), None);
    }
}
