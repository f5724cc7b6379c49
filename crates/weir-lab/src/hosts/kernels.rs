//! A study once for each kernel of the firewall's host, with a boot before each.
//!
//! Each kernel's run is a run like any other, in a folder of its own; nothing is shared by them but
//! the study, the preset and the seed.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use weir_kernel::interrupt;
use weir_stats::Record;

use super::{Hosts, boot};
use crate::run::{self, Progress, RunOptions};
use crate::{LabError, records, resume, study};

/// A kernel of the firewall's host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// What it is called here; the folder of its records, too.
    pub name: Spanned<String>,
    /// A command for a shell on the host, as root, that makes it boot this kernel.
    pub boot: Spanned<String>,
}

/// What is wrong with the kernels of a file.
pub(super) fn check(hosts: &Hosts) -> Result<(), LabError> {
    let kernels = &hosts.firewall.kernels;
    for (at, Kernel { name, boot }) in kernels.iter().enumerate() {
        if !is_plain(name.get_ref()) {
            let message = "a kernel's name is that of a folder: letters, digits and `._+-`";
            return Err(hosts.refused(name, message));
        }
        if kernels[..at].iter().any(|other| other.name.get_ref() == name.get_ref()) {
            return Err(hosts.refused(name, "another kernel has this name"));
        }
        if boot.get_ref().trim().is_empty() {
            return Err(hosts.refused(boot, "a command that boots this kernel is needed"));
        }
    }
    match &hosts.firewall.boot_limit_seconds {
        Some(limit) if *limit.get_ref() == 0 => {
            Err(hosts.refused(limit, "no host boots in 0 seconds"))
        }
        Some(limit) if kernels.is_empty() => {
            Err(hosts.refused(limit, "nothing is booted without `kernels`"))
        }
        _ => Ok(()),
    }
}

/// Whether a name is one of a folder that needs no quoting and is not hidden.
fn is_plain(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    !name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(is_letter)
}

/// A study that is run once for each kernel, its records in a folder for each.
#[derive(Debug)]
pub struct PerKernel {
    study: PathBuf,
    options: RunOptions,
    hosts: Hosts,
    runs: Vec<KernelRun>,
}

/// One of the runs.
#[derive(Debug)]
pub struct KernelRun {
    /// The kernel's name in the file.
    pub name: String,
    /// Folder of its records.
    pub folder: PathBuf,
    /// What is there already.
    prior: Option<Record>,
}

impl PerKernel {
    /// Reads everything, and looks for what can be found wrong before anything is booted. `None`
    /// where the file of the hosts names no kernels.
    ///
    /// # Errors
    /// As [`run`](crate::run()): a study, preset or file of hosts that cannot be read, records that
    /// are in the way or are those of another run.
    pub fn new(
        study: &Path,
        out: &Path,
        options: &RunOptions,
    ) -> Result<Option<PerKernel>, LabError> {
        let Some(path) = &options.hosts else { return Ok(None) };
        let loaded = study::load(study)?;
        let hosts = Hosts::of(path, &loaded)?;
        let Some(first) = hosts.firewall.kernels.first() else { return Ok(None) };
        if options.against_itself.is_some() {
            let message = "a subject is measured against itself on one kernel: leave these out";
            return Err(hosts.refused(&first.name, message));
        }
        loaded.preset_for(options)?;
        if !options.resume {
            records::refuse_occupied(out)?;
        }
        let mut runs = Vec::new();
        for kernel in &hosts.firewall.kernels {
            let name = kernel.name.get_ref().clone();
            let folder = out.join(&name);
            let prior = folder.exists().then(|| resume::prior(&folder, &loaded, options));
            runs.push(KernelRun { name, folder, prior: prior.transpose()? });
        }
        let (study, options) = (study.to_owned(), options.clone());
        Ok(Some(PerKernel { study, options, hosts, runs }))
    }

    /// The runs, in the order of the file.
    pub fn runs(&self) -> &[KernelRun] {
        &self.runs
    }

    /// Boots a kernel and runs the study. What was finished before is not repeated; what was
    /// interrupted goes on, after another boot.
    ///
    /// # Errors
    /// A boot that fails or takes too long, another kernel than the one that the interrupted run
    /// had, and as [`run`](crate::run()).
    pub fn run(
        &self,
        one: &KernelRun,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Record, LabError> {
        if let Some(prior) = one.prior.as_ref().filter(|prior| prior.run.complete) {
            return Ok(prior.clone());
        }
        let release = self.boot(one, progress)?;
        let before = one.prior.as_ref().map(|prior| &prior.run.firewall().kernel);
        if let Some(before) = before.filter(|before| **before != release) {
            let what = format!("it was begun on the kernel {before}, `boot` made this {release}");
            return Err(LabError::Resume { path: one.folder.clone(), what });
        }
        let options = RunOptions { resume: one.prior.is_some(), ..self.options.clone() };
        run::run(&self.study, &one.folder, &options, progress)
    }

    /// Boots the kernel of a run, while nothing else is measured from here.
    fn boot(
        &self,
        one: &KernelRun,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<String, LabError> {
        let failed = |source| LabError::System { action: "catch Ctrl-C", source };
        interrupt::install().map_err(failed)?;
        // It would end what another run measures.
        let _alone = run::alone(progress)?;
        let message = format!("boot {} on the firewall's host", one.name);
        progress(Progress { done: 0, total: 1, message: &message, left: None, trials: &[] });
        let mut kernels = self.hosts.firewall.kernels.iter();
        let kernel = kernels.find(|kernel| *kernel.name.get_ref() == one.name);
        boot::boot(&self.hosts, kernel.expect("a run of this file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_folder() {
        for good in ["6.1", "6.12.8-rt+", "no_mitigations"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "-o", "a/b", "a b", "ü"] {
            assert!(!is_plain(bad), "{bad}");
        }
    }
}
