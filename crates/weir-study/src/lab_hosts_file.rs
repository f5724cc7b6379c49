//! `hosts.toml`: a study over two machines instead of namespaces of one.
//!
//! The machine on which weir is started sends and counts, on two of its interfaces; the firewall is
//! another machine, reached by `ssh`. If the file names kernels ([`BootKernel`]), the firewall is
//! booted into each, with a run for each.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use weir_stats::ProbeKind;

use crate::StudyError;
use crate::connection_path::ConnectionPath;
use crate::loaded_study::LoadedStudy;
use crate::supported_workload_features::NOT_IMPLEMENTED_OVER_HOSTS;
use crate::toml_text::{check_and_deserialize_toml, error_at_offset};
use crate::value_rule_tables::HOSTS_VALUE_RULES;

/// The hosts of a run, as their file says.
#[derive(Clone, Debug)]
pub struct LabHostsFile {
    path: PathBuf,
    text: String,
    /// Where frames come from and where they arrive.
    pub tester: TesterInterfaces,
    /// What is measured.
    pub firewall: FirewallHost,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabHostsDefinition {
    ends: TesterInterfaces,
    firewall: FirewallHost,
}

/// The machine that weir is started on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TesterInterfaces {
    /// Not built yet.
    #[serde(rename = "host")]
    unsupported_remote_host: Option<Spanned<String>>,
    /// The interface that leads to the firewall's input.
    pub input: Spanned<String>,
    /// The interface that leads to the firewall's output.
    pub output: Spanned<String>,
}

/// The machine whose rules are measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirewallHost {
    /// What `ssh` knows it by.
    pub host: Spanned<String>,
    /// More arguments for `ssh`.
    #[serde(default)]
    pub ssh: Vec<String>,
    /// What makes a command run as root there, e.g. `["sudo", "-n"]`.
    #[serde(default)]
    pub as_root: Vec<String>,
    /// The weir that is installed there; without it weir copies itself there.
    pub weir: Option<Spanned<String>>,
    /// The interface towards the source.
    pub input: Spanned<String>,
    /// The interface towards the sink.
    pub output: Spanned<String>,
    /// What a study is run once for each of; what runs there now without any.
    #[serde(default)]
    pub kernels: Vec<BootKernel>,
    /// How long weir waits for the host after a boot, seconds; 600 by default.
    pub boot_limit_seconds: Option<Spanned<u64>>,
}

impl FirewallHost {
    /// Arguments for `ssh` up to the command; it never asks for a password. The first value of an
    /// option counts, so the user's own take precedence.
    pub fn ssh_arguments(&self) -> Vec<String> {
        const DEFAULT_SSH_OPTIONS: [&str; 5] =
            ["-T", "-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=15", "--"];
        let ours = DEFAULT_SSH_OPTIONS.iter().map(|word| (*word).to_owned());
        self.ssh.iter().cloned().chain(ours).chain([self.host.get_ref().clone()]).collect()
    }
}

impl LabHostsFile {
    /// Reads the file.
    ///
    /// # Errors
    /// With file and line: text that is no TOML, fields that are not known, are missing or are not
    /// built yet, hosts that `ssh` would take for options, one interface in two places.
    pub fn read(path: &Path) -> Result<LabHostsFile, StudyError> {
        let text =
            std::fs::read_to_string(path).map_err(StudyError::file_access_error("read", path))?;
        let LabHostsDefinition { ends, firewall } =
            check_and_deserialize_toml(path, &text, HOSTS_VALUE_RULES)?;
        let hosts = LabHostsFile { path: path.to_owned(), text, tester: ends, firewall };
        hosts.refuse_invalid_host_settings()?;
        Ok(hosts)
    }

    /// Reads the file for a study, which may do what is not built yet over hosts.
    pub fn read_for_study(path: &Path, study: &LoadedStudy) -> Result<LabHostsFile, StudyError> {
        check_study_supports_hosts(study)?;
        LabHostsFile::read(path)
    }

    fn refuse_invalid_host_settings(&self) -> Result<(), StudyError> {
        let LabHostsFile { tester: ends, firewall, .. } = self;
        if let Some(host) = &ends.unsupported_remote_host {
            let message = "ends on another machine are not implemented: start weir on that machine";
            return Err(self.error_at_value(host, message));
        }
        if firewall.host.get_ref().is_empty() || firewall.host.get_ref().starts_with('-') {
            return Err(self.error_at_value(&firewall.host, "invalid host name"));
        }
        for (input, output) in [(&ends.input, &ends.output), (&firewall.input, &firewall.output)] {
            if input.get_ref() == output.get_ref() {
                let message = "input and output must be two interfaces; one-armed is not \
                     implemented";
                return Err(self.error_at_value(output, message));
            }
        }
        check_boot_limit_requires_kernels(self)
    }

    /// What is wrong with a value, at its line.
    pub fn error_at_value<T>(&self, value: &Spanned<T>, message: impl ToString) -> StudyError {
        let Range { start, .. } = value.span();
        error_at_offset(&self.path, &self.text, start, message.to_string())
    }
}

/// Whether a study can be run over hosts.
///
/// # Errors
/// With the study's file and line: what it does that works on one machine only so far.
fn check_study_supports_hosts(loaded: &LoadedStudy) -> Result<(), StudyError> {
    let study = &loaded.study;
    let line = |table: &str| loaded.key_or_enclosing_table_offset(&[table]);
    let workload = study.workload_features();
    let lacks = workload.remote_hosts.err();
    let has_shell =
        study.probe.as_ref().is_some_and(|p| p.kinds.contains(&ProbeKind::ShellOnFirewall));
    let traffic = lacks.map(|why| (line("traffic"), workload.name.to_owned(), why));
    let shell = has_shell
        .then(|| (line("probe"), "`[probe]` by a shell".to_owned(), NOT_IMPLEMENTED_OVER_HOSTS));
    // A subject's path is a matter of the study that lists it.
    let paths = study.subjects.iter().filter_map(|name| {
        let path = match loaded.subjects.0[name.get_ref()].path {
            ConnectionPath::Gateway => return None,
            ConnectionPath::OneArmed => "one-armed",
            ConnectionPath::Direct => "direct",
        };
        let what = format!("the path `{path}` of subject `{}`", name.get_ref());
        Some((name.span().start, what, NOT_IMPLEMENTED_OVER_HOSTS))
    });
    let mut all = traffic.into_iter().chain(shell).chain(paths);
    let Some((at, what, why)) = all.next() else { return Ok(()) };
    let message = format!("{what} {why}: run it without `--hosts`");
    Err(error_at_offset(&loaded.path, &loaded.text, at, message))
}

/// A kernel of the firewall's host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootKernel {
    /// Its name, also of the folder of its records.
    pub name: Spanned<String>,
    /// A command for a shell on the host, as root, that makes it boot this kernel.
    pub boot: Spanned<String>,
}

/// What is wrong with the kernels of a file.
fn check_boot_limit_requires_kernels(hosts: &LabHostsFile) -> Result<(), StudyError> {
    match &hosts.firewall.boot_limit_seconds {
        Some(limit) if hosts.firewall.kernels.is_empty() => {
            Err(hosts.error_at_value(limit, "it requires `kernels`"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"[ends]
input = "e0"
output = "e1"
[firewall]
host = "fw"
input = "f0"
output = "f1"
"#;

    fn said(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("weir-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let read = LabHostsFile::read(&path);
        std::fs::remove_file(&path).unwrap();
        read.map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn errors_in_a_hosts_file_name_the_line() {
        assert_eq!(said("whole.toml", WHOLE), "");
        let cases = [
            ("host = \"fw\"", "host = \"-oProxyCommand=x\"", ":5: invalid host name"),
            ("output = \"f1\"", "output = \"f0\"", ":7: input and output must be two interfaces"),
            ("[firewall]", "host = \"x\"\n[firewall]", ":4: ends on another machine"),
            ("output = \"f1\"", "output = \"f1\"\nreboot = \"x\"", ":8: unknown field `reboot`"),
            ("[firewall]", "[firewall]\nkernels = [{ name = \"a\" }]", ":5: missing field `boot`"),
            ("host = \"fw\"\n", "", "missing field `host`"),
            ("[ends]", "[ens]", ":1: unknown field `ens`"),
        ];
        for (number, (before, after, expected)) in cases.into_iter().enumerate() {
            let said = said(&format!("{number}.toml"), &WHOLE.replace(before, after));
            assert!(said.contains(expected), "{after}: {said}");
        }
    }
}
