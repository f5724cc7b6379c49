//! Runs a study once per kernel of the firewall's host, with a boot before each run.
//!
//! Each kernel's run is an ordinary run in its own folder; they share only the study, the preset
//! and the seed.

use std::path::{Path, PathBuf};

use weir_kernel::interrupt;
use weir_stats::Record;

use crate::LabError;
use crate::host::boot;
use crate::record;
use crate::schedule::clock::RunProgress;
use crate::schedule::options::StudyRunOptions;
use crate::schedule::resume;
use crate::schedule::run;
use weir_study;
use weir_study::Hosts;

/// A study that is run once for each kernel, its records in a folder for each.
#[derive(Debug)]
pub struct PerKernel {
    study: PathBuf,
    options: StudyRunOptions,
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
    /// What already exists.
    prior: Option<Record>,
}

impl PerKernel {
    /// Reads everything, and looks for what can be found wrong before anything is booted. `None` if
    /// the file of the hosts names no kernels.
    ///
    /// # Errors
    /// As for [`run`](crate::run()): a study, preset or file of hosts that cannot be read, or
    /// existing records of another run.
    pub fn new(
        study: &Path,
        out: &Path,
        options: &StudyRunOptions,
    ) -> Result<Option<PerKernel>, LabError> {
        let Some(path) = &options.hosts else { return Ok(None) };
        let loaded = weir_study::load(study)?;
        let hosts = Hosts::of(path, &loaded)?;
        let Some(first) = hosts.firewall.kernels.first() else { return Ok(None) };
        if options.against_itself.is_some() {
            let message = "a subject is measured against itself on one kernel: remove these";
            return Err(hosts.refused(&first.name, message).into());
        }
        loaded.preset_for(&options.request())?;
        if !options.resume {
            record::refuse_occupied(out)?;
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
    /// interrupted continues, after another boot.
    ///
    /// # Errors
    /// A boot that fails or takes too long, another kernel than the one that the interrupted run
    /// had, and as [`run`](crate::run()).
    pub fn run(
        &self,
        one: &KernelRun,
        progress: &mut dyn FnMut(RunProgress<'_>),
    ) -> Result<Record, LabError> {
        if let Some(prior) = one.prior.as_ref().filter(|prior| prior.run.complete) {
            return Ok(prior.clone());
        }
        let release = self.boot(one, progress)?;
        let before = one.prior.as_ref().map(|prior| &prior.run.firewall().kernel);
        if let Some(before) = before.filter(|before| **before != release) {
            let what = format!("it was started on kernel {before}, but `boot` booted {release}");
            return Err(LabError::Resume { path: one.folder.clone(), what });
        }
        let options = StudyRunOptions { resume: one.prior.is_some(), ..self.options.clone() };
        run::run(&self.study, &one.folder, &options, progress)
    }

    /// Boots the kernel of a run, while nothing else is measured from here.
    fn boot(
        &self,
        one: &KernelRun,
        progress: &mut dyn FnMut(RunProgress<'_>),
    ) -> Result<String, LabError> {
        let failed = |source| LabError::System { action: "catch Ctrl-C", source };
        interrupt::install().map_err(failed)?;
        // It would end what another run measures.
        let _alone = run::alone(progress)?;
        let message = format!("boot {} on the firewall's host", one.name);
        progress(RunProgress { done: 0, total: 1, message: &message, left: None, trials: &[] });
        let mut kernels = self.hosts.firewall.kernels.iter();
        let kernel = kernels.find(|kernel| *kernel.name.get_ref() == one.name);
        boot::boot(&self.hosts, kernel.expect("a run of this file"))
    }
}
