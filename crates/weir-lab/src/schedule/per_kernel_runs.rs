//! Runs a study once per kernel of the firewall's host, with a boot before each run.
//!
//! Each kernel's run is an ordinary run in its own folder; they share only the study, the preset
//! and the seed.

use std::path::{Path, PathBuf};

use weir_kernel::stop_signal;
use weir_stats::RunRecord;

use crate::LabError;
use crate::host::kernel_boot;
use crate::schedule::record_folder_and_run_json;
use crate::schedule::resume;
use crate::schedule::run_progress::RunProgress;
use crate::schedule::study_execution;
use crate::schedule::study_run_options::StudyRunOptions;
use weir_study;
use weir_study::LabHostsFile;

/// A study that is run once for each kernel, its records in a folder for each.
#[derive(Debug)]
pub struct PerKernelStudy {
    study_path: PathBuf,
    options: StudyRunOptions,
    hosts_file: LabHostsFile,
    runs: Vec<StudyRunOnKernel>,
}

/// One of the runs.
#[derive(Debug)]
pub struct StudyRunOnKernel {
    /// The kernel's name in the file.
    pub name: String,
    /// Folder of its records.
    pub folder: PathBuf,
    /// What already exists.
    prior_record: Option<RunRecord>,
}

impl PerKernelStudy {
    /// Reads everything, and looks for what can be found wrong before anything is booted. `None` if
    /// the file of the hosts names no kernels.
    ///
    /// # Errors
    /// As for [`execute_study`](crate::execute_study()): a study, preset or file of hosts that
    /// cannot be read, or existing records of another run.
    pub fn new(
        study_path: &Path,
        out: &Path,
        options: &StudyRunOptions,
    ) -> Result<Option<PerKernelStudy>, LabError> {
        let Some(path) = &options.hosts else { return Ok(None) };
        let loaded = weir_study::load_study(study_path)?;
        let hosts_file = LabHostsFile::read_for_study(path, &loaded)?;
        let Some(first) = hosts_file.firewall.kernels.first() else { return Ok(None) };
        if options.against_itself.is_some() {
            let message = "a subject is measured against itself on one kernel: remove these";
            return Err(hosts_file.error_at_value(&first.name, message).into());
        }
        loaded.check_request_and_find_preset(&options.requested_preset_and_run_mode())?;
        if !options.resume {
            record_folder_and_run_json::refuse_nonempty_folder(out)?;
        }
        let mut runs = Vec::new();
        for kernel in &hosts_file.firewall.kernels {
            let name = kernel.name.get_ref().clone();
            let folder = out.join(&name);
            let prior = folder
                .exists()
                .then(|| resume::prepare_and_verify_prior_run(&folder, &loaded, options));
            runs.push(StudyRunOnKernel { name, folder, prior_record: prior.transpose()? });
        }
        let (study_path, options) = (study_path.to_owned(), options.clone());
        Ok(Some(PerKernelStudy { study_path, options, hosts_file, runs }))
    }

    /// The runs, in the order of the file.
    pub fn kernel_runs(&self) -> &[StudyRunOnKernel] {
        &self.runs
    }

    /// Boots a kernel and runs the study. What was finished before is not repeated; what was
    /// interrupted continues, after another boot.
    ///
    /// # Errors
    /// A boot that fails or takes too long, another kernel than the one that the interrupted run
    /// had, and as [`execute_study`](crate::execute_study()).
    pub fn boot_and_run_unless_complete(
        &self,
        one: &StudyRunOnKernel,
        progress: &mut dyn FnMut(RunProgress<'_>),
    ) -> Result<RunRecord, LabError> {
        if let Some(prior) = one.prior_record.as_ref().filter(|prior| prior.run.complete) {
            return Ok(prior.clone());
        }
        let release = self.boot_kernel_under_host_lock(one, progress)?;
        let before =
            one.prior_record.as_ref().map(|prior| &prior.run.firewall_environment().kernel);
        if let Some(before) = before.filter(|before| **before != release) {
            let what = format!("it was started on kernel {before}, but `boot` booted {release}");
            return Err(LabError::CannotResumeRun { path: one.folder.clone(), what });
        }
        let options =
            StudyRunOptions { resume: one.prior_record.is_some(), ..self.options.clone() };
        study_execution::execute_study(&self.study_path, &one.folder, &options, progress)
    }

    /// Boots the kernel of a run, while nothing else is measured from here.
    fn boot_kernel_under_host_lock(
        &self,
        one: &StudyRunOnKernel,
        progress: &mut dyn FnMut(RunProgress<'_>),
    ) -> Result<String, LabError> {
        let failed = |source| LabError::SystemCall { action: "catch Ctrl-C", source };
        stop_signal::install_stop_signal_handlers().map_err(failed)?;
        // It would end what another run measures.
        let _alone = study_execution::wait_for_host_lock(progress)?;
        let message = format!("boot {} on the firewall's host", one.name);
        progress(RunProgress {
            steps_done: 0,
            total_steps: 1,
            message: &message,
            estimated_remaining_time: None,
            trials: &[],
        });
        let mut kernels = self.hosts_file.firewall.kernels.iter();
        let kernel = kernels.find(|kernel| *kernel.name.get_ref() == one.name);
        kernel_boot::boot_firewall_host_and_read_release(
            &self.hosts_file,
            kernel.expect("a run of this file"),
        )
    }
}
