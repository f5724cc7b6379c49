//! Runs a study from its file to its records.
//!
//! All firewalls of the grid are set up and loaded first, each in its own namespace; then blocks of
//! trials iterate over them. Rulesets stay loaded, so a trial takes little more than its own
//! length, and a block can contain the whole grid.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use weir_kernel::{Session, stop_signal};
use weir_stats::{Coordinate, RunRecord, Scenario, run_folder};

use crate::LabError;
use crate::host::host_trait::Host;
use crate::host::study_command::StudyCommandEnv;
use crate::observe::core_pinning::last_allowed_core;
use crate::observe::environment;
use crate::schedule::generated_files::GeneratedRunFiles;
use crate::schedule::record_folder_and_run_json;
use crate::schedule::resume::{self, FinishedTrials};
use crate::schedule::run_progress::{RunProgress, RunProgressTracker};
use crate::schedule::run_state::RunState;
use crate::schedule::study_run_options::{AA_TEST_REPETITIONS, StudyRunOptions};
use crate::schedule::{
    lookup_trials, packet_trials, probe_trials, ruleset_load_timing, subject_rate_search,
};
use crate::topology::Topology;
use crate::trial::runner::TrialRunner;
use crate::workload::sockets::socket_plan::raise_nofile_and_describe_client_rate_limits;
use weir_study::LabHostsFile;
use weir_study::ProbeKindAndLoad;
use weir_study::{self, LoadedStudy, PresetDefinition, ProgramSearchPath};
use weir_study::{PlannedTrial, SubjectCopy, trial_plan};

/// Runs a study and writes its records to `out`, which must be empty or not exist; with
/// [`StudyRunOptions::resume`] it contains an interrupted run, which is completed.
///
/// `progress` is called before each step. Ctrl-C (see [`weir_kernel::stop_signal`]) ends the run
/// after the current step; the records so far are preserved, marked as incomplete.
///
/// # Errors
/// A study that cannot be read or run with these options, commands that fail, a machine that lacks
/// something (not root), [`LabError::Interrupted`].
pub fn execute_study(
    study: &Path,
    out: &Path,
    options: &StudyRunOptions,
    progress: &mut dyn FnMut(RunProgress<'_>),
) -> Result<RunRecord, LabError> {
    let mut loaded = weir_study::load_study(study)?;
    if let Some(subject) = &options.against_itself {
        loaded.convert_to_aa_study(subject, AA_TEST_REPETITIONS)?;
    }
    let preset = loaded.check_request_and_find_preset(&options.requested_preset_and_run_mode())?;
    let hosts = read_hosts_file(&loaded, options)?;
    let load_prior = || resume::prepare_and_verify_prior_run(out, &loaded, options);
    let prior = options.resume.then(load_prior).transpose()?;
    match prior {
        Some(prior) if prior.run.complete => return Ok(prior),
        Some(_) => (),
        None => record_folder_and_run_json::refuse_nonempty_folder(out)?,
    }
    let prior = prior.filter(|prior| !prior.run.complete);
    let failed = |source| LabError::SystemCall { action: "catch Ctrl-C", source };
    stop_signal::install_stop_signal_handlers().map_err(failed)?;
    let _alone = wait_for_host_lock(progress)?;
    let session = Session::new()?;
    let work = session.session_directory().join("study");
    let tools = session.create_namespace("tools")?;
    let core = match options.core {
        Some(core) => core,
        None => last_allowed_core()?,
    };
    let mut topology = Topology::new(session, loaded.study.devices.clone())?;
    if let Some(hosts) = &hosts {
        topology.use_remote_host(hosts, &options.weir_program, &options.weir_version)?;
    }
    if prior.is_none() {
        record_folder_and_run_json::create_record_folder_with_study_copies(out, &loaded)?;
    }
    let runner = TrialRunner::new(topology, core, options.realtime)?;
    let scheduling =
        runner.describe_trial_scheduling(Duration::from_secs_f64(preset.trial_seconds))?;
    let firewall_host = runner.resources.topology.firewall_host();
    let command_env = build_command_env(&loaded, preset.trial_seconds, core, options);
    let run = RunState {
        axes: preset_axes(&loaded, preset),
        unmeasurable_subjects: find_unmeasurable_subjects(&loaded, firewall_host)?,
        hosts: firewall_host.remote_host_record_with_clock_offset()?.into_iter().collect(),
        loaded_study: &loaded,
        preset,
        options,
        record_folder: out,
        runner,
        generated_files: GeneratedRunFiles::new(work, tools, command_env)?,
        firewalls: BTreeMap::new(),
        subjects_with_nothing_to_measure: BTreeSet::new(),
        subjects_with_nothing_to_time: BTreeSet::new(),
        accepted_disturbed_trial_count: prior
            .as_ref()
            .map_or(0, |prior| prior.run.counts.accepted_despite_disturbance),
        interrupted_record: prior.as_ref().map(|prior| prior.run.clone()),
        finished_trials: FinishedTrials::default(),
        trials: prior.map_or_else(Vec::new, |prior| prior.trials),
        searches: Vec::new(),
        rulesets: Vec::new(),
        frame_facts: Vec::new(),
        core,
        environment: environment::capture_environment(core, scheduling.clone()),
        scheduling,
        started_at: SystemTime::now(),
        progress_tracker: RunProgressTracker::new(progress),
    };
    run_steps_and_save_record(run)
}

/// The file of other machines that the options name.
fn read_hosts_file(
    loaded: &LoadedStudy,
    options: &StudyRunOptions,
) -> Result<Option<LabHostsFile>, LabError> {
    let read = |path| LabHostsFile::read_for_study(path, loaded);
    Ok(options.hosts.as_deref().map(read).transpose()?)
}

/// Does all steps and saves the record, which says whether they all succeeded.
fn run_steps_and_save_record(mut run: RunState<'_>) -> Result<RunRecord, LabError> {
    let ended = run.run_all_steps();
    let record = record_folder_and_run_json::build_run_and_evaluate_claims(&run, ended.is_ok());
    run_folder::save_run_json(run.record_folder, &record)?;
    ended?;
    run_folder::compress_records(run.record_folder)?;
    Ok(RunRecord { run: record, trials: run.trials, searches: run.searches })
}

/// What the commands of a study are told.
fn build_command_env(
    loaded: &LoadedStudy,
    trial_seconds: f64,
    core: u32,
    options: &StudyRunOptions,
) -> StudyCommandEnv {
    StudyCommandEnv {
        weir_program: options.weir_program.clone(),
        seed: options.seed,
        devices: loaded.study.devices.clone(),
        trial_seconds,
        generator_core: core,
    }
}

impl RunState<'_> {
    /// Everything that is done, in order.
    fn run_all_steps(&mut self) -> Result<(), LabError> {
        let points = trial_plan::list_grid_points(&self.axes);
        let ruleset_axes = self.loaded_study.study.ruleset.declared_axis_names();
        let mut rulesets: Vec<Scenario> =
            points.iter().map(|point| point.project_to_axes(&ruleset_axes)).collect();
        rulesets.sort_unstable();
        rulesets.dedup();
        self.estimate_steps_and_time(&points, &rulesets);
        let validations = if self.loaded_study.study.measures_lookups() {
            0
        } else {
            points.iter().map(|point| self.subject_copies_at_point(point).len()).sum()
        };
        self.finished_trials = FinishedTrials::from_records(
            &self.trials,
            validations,
            self.loaded_study.study.noise.repeats,
        );
        // Records exist from the first moment, so that a killed run is seen to be one.
        run_folder::save_run_json(
            self.record_folder,
            &record_folder_and_run_json::build_run_and_evaluate_claims(self, false),
        )?;
        self.raise_conntrack_limits(&points)?;
        self.generate_files_and_prepare_subjects(&points, &rulesets)?;
        if self.loaded_study.study.measures_lookups() {
            return lookup_trials::measure_all_lookup_blocks(self, &points);
        }
        subject_rate_search::check_search_has_no_drop_only_points(self, &points)?;
        self.runner
            .resources
            .topology
            .firewall_host()
            .send_study_files_except_frames(self.generated_files.root_folder())?;
        ruleset_load_timing::time_all_loads_and_rule_additions(self, &rulesets)?;
        if self.loaded_study.study.traffic.is_none() {
            return Ok(());
        }
        self.set_up_all_firewalls(&rulesets)?;
        for said in raise_nofile_and_describe_client_rate_limits(
            &self.runner.resources.topology,
            self.loaded_study,
            &points,
        ) {
            self.report_step_or_interrupt(&said, 0.0)?;
        }
        let overload = self.measure_overload_pps_by_validation_trials(&points)?;
        if let Some(goal) = &self.options.search {
            for (point, variant, pps) in overload.iter().filter(|(.., pps)| *pps > 0.0) {
                subject_rate_search::search_subject_rate(self, point, variant, goal, *pps)?;
            }
            return Ok(());
        }
        for block in 0..self.preset.blocks {
            self.measure_block_forward_and_reverse(&points, block)?;
            run_folder::save_run_json(
                self.record_folder,
                &record_folder_and_run_json::build_run_and_evaluate_claims(self, false),
            )?;
        }
        Ok(())
    }

    /// Checks every subject at every point by one trial under overload, and says the packets a
    /// second that arrived.
    fn measure_overload_pps_by_validation_trials(
        &mut self,
        points: &[Scenario],
    ) -> Result<Vec<(Scenario, SubjectCopy, f64)>, LabError> {
        let mut validated = 0;
        let mut rates = Vec::new();
        for point in points {
            for variant in self.subject_copies_at_point(point) {
                self.report_step_or_interrupt(
                    &format!("check {} at {point}", variant.subject),
                    self.expected_trial_seconds(),
                )?;
                let trial =
                    packet_trials::run_counter_checking_warmup_trial(self, point, &variant)?;
                validated += 1;
                rates.push((point.clone(), variant.clone(), trial.correct_verdict_pps));
                if validated > self.finished_trials.validation_count {
                    self.record_trial(trial)?;
                }
            }
        }
        Ok(rates)
    }

    /// Measures every subject at every point once there and once back, then the probes.
    fn measure_block_forward_and_reverse(
        &mut self,
        points: &[Scenario],
        block: u32,
    ) -> Result<(), LabError> {
        let steps = trial_plan::plan_abba_block(
            points,
            |point| self.subject_copies_at_point(point),
            block,
            self.options.seed,
        );
        let probes = self.loaded_study.study.probe.as_ref();
        let asked = probes.map_or_else(Vec::new, |plan| plan.plan_probe_trials(&steps));
        for step in steps.into_iter().chain(asked) {
            let message = format!(
                "block {} of {}: {} at {}",
                block + 1,
                self.preset.blocks,
                step.subject_copy.subject,
                step.scenario
            );
            self.report_step_or_interrupt(&message, self.expected_trial_seconds())?;
            match ProbeKindAndLoad::from_planned_trial(&step) {
                Some(case) => probe_trials::measure_probe_until_undisturbed(self, &step, case)?,
                None => packet_trials::measure_packets_until_undisturbed(self, &step)?,
            }
        }
        Ok(())
    }

    fn estimate_steps_and_time(&mut self, points: &[Scenario], rulesets: &[Scenario]) {
        let variants: u64 =
            points.iter().map(|point| self.subject_copies_at_point(point).len() as u64).sum();
        let subjects = self.measurable_subjects().count() as u64;
        let sets = rulesets.len() as u64;
        let timed = u64::from(self.preset.loads) * sets * subjects;
        let validations = u64::from(!self.loaded_study.study.measures_lookups());
        let trials = variants * (validations + 2 * u64::from(self.preset.blocks));
        let steps = trial_plan::plan_abba_block(
            points,
            |point| self.subject_copies_at_point(point),
            0,
            self.options.seed,
        );
        let probes = self.loaded_study.study.probe.as_ref();
        let asked = probes.map_or(0, |plan| plan.plan_probe_trials(&steps).len() as u64);
        let asked = asked * u64::from(self.preset.blocks);
        self.progress_tracker.total_steps =
            asked + sets * (subjects + 2) + points.len() as u64 + timed + trials;
        self.progress_tracker.expected_seconds_of_all_steps = sets as f64 * subjects as f64 * 0.6
            + timed as f64 * 0.2
            + trials as f64 * self.expected_trial_seconds()
            + asked as f64 * (self.preset.probe_trial_seconds() + 0.3);
    }
}

/// The trials of packets that a run of this preset and seed consists of, without their repeats, in
/// their order. Subjects that this machine lacks are in it.
///
/// # Errors
/// A study that cannot be read, a preset that it has not.
pub fn plan_packet_and_probe_trials(
    study: &Path,
    preset: &str,
    seed: u64,
) -> Result<Vec<PlannedTrial>, LabError> {
    let loaded = weir_study::load_study(study)?;
    let preset = loaded.find_preset(preset)?;
    let points = trial_plan::list_grid_points(&preset_axes(&loaded, preset));
    let again = loaded.study.again.as_ref();
    let variants = |point: &Scenario| {
        let names = loaded.study.subjects.iter().map(|name| name.get_ref().clone());
        let mut variants: Vec<SubjectCopy> =
            names.map(|subject| SubjectCopy { subject, copy_index: 0 }).collect();
        let second = again.filter(|again| point.has_coordinates_of(&again.at));
        let second = second.map(|again| again.subject.get_ref().clone());
        variants.extend(second.map(|subject| SubjectCopy { subject, copy_index: 1 }));
        variants
    };
    let block = |block| {
        let steps = trial_plan::plan_abba_block(&points, variants, block, seed);
        let asked = loaded
            .study
            .probe
            .as_ref()
            .map_or_else(Vec::new, |plan| plan.plan_probe_trials(&steps));
        steps.into_iter().chain(asked)
    };
    Ok((0..preset.blocks).flat_map(block).collect())
}

/// Waits until no other run measures on this machine; they would measure each other.
pub(crate) fn wait_for_host_lock(
    progress: &mut dyn FnMut(RunProgress<'_>),
) -> Result<File, LabError> {
    let folder = Path::new("/run/weir");
    fs::create_dir_all(folder).map_err(LabError::file_error("create", folder))?;
    let path = folder.join("lab.lock");
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(LabError::file_error("open", &path))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let message = "another run is measuring on this machine: waiting for its end";
        progress(RunProgress {
            steps_done: 0,
            total_steps: 1,
            message,
            estimated_remaining_time: None,
            trials: &[],
        });
        while let Err(error) = flock(&file, FlockOperation::LockExclusive) {
            if stop_signal::is_stop_requested() {
                return Err(LabError::Interrupted);
            }
            if error != rustix::io::Errno::INTR {
                return Err(LabError::file_error("lock", &path)(error.into()));
            }
        }
    }
    Ok(file)
}

/// The grid's axes with the values that the preset takes.
fn preset_axes(
    loaded: &LoadedStudy,
    preset: &PresetDefinition,
) -> BTreeMap<String, Vec<Coordinate>> {
    let values = |(name, axis): (&String, &weir_study::AxisDefinition)| {
        (name.clone(), preset.axes.get(name).unwrap_or(&axis.values).clone())
    };
    loaded.study.axes.iter().map(values).collect()
}

/// Subjects that cannot be measured, with the reason. What they need is needed on the firewall's
/// host, too, where that is another one.
fn find_unmeasurable_subjects(
    loaded: &LoadedStudy,
    host: &dyn Host,
) -> Result<BTreeMap<String, String>, LabError> {
    let commands = ProgramSearchPath::new(&std::env::var_os("PATH").unwrap_or_default());
    let mut lacking = BTreeMap::new();
    for name in loaded.study.subjects.iter().map(|name| name.get_ref()) {
        let subject = &loaded.subjects.0[name];
        let mut why = subject.missing_program_message(&commands);
        if why.is_none() {
            why = host.missing_subject_requirement(&subject.needs, subject.before_netfilter)?;
        }
        lacking.extend(why.map(|why| (name.clone(), why)));
    }
    Ok(lacking)
}
