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
use weir_kernel::{Session, interrupt};
use weir_stats::{Coordinate, Record, Scenario, folder};

use crate::LabError;
use crate::host::command::CommandEnv;
use crate::host::target::Host;
use crate::observe::cpu::last_core;
use crate::observe::environment;
use crate::record;
use crate::schedule::clock::{RunClock, RunProgress};
use crate::schedule::files::Files;
use crate::schedule::options::{SELF_TESTS, StudyRunOptions};
use crate::schedule::resume::{self, FinishedTrials};
use crate::schedule::state::RunState;
use crate::schedule::{load, measure, probe, search};
use crate::topology::Topology;
use crate::trial::runner::TrialRunner;
use crate::workload::sockets::plan::before_run;
use weir_study::Hosts;
use weir_study::ProbeCase;
use weir_study::{self, LoadedStudy, PresetText, ProgramPath};
use weir_study::{PlannedTrial, Variant, plan};

/// Runs a study and writes its records to `out`, which must be empty or not exist; with
/// [`StudyRunOptions::resume`] it contains an interrupted run, which is completed.
///
/// `progress` is called before each step. Ctrl-C (see [`weir_kernel::interrupt`]) ends the run
/// after the current step; the records so far are preserved, marked as incomplete.
///
/// # Errors
/// A study that cannot be read or run with these options, commands that fail, a machine that lacks
/// something (not root), [`LabError::Interrupted`].
pub fn run(
    study: &Path,
    out: &Path,
    options: &StudyRunOptions,
    progress: &mut dyn FnMut(RunProgress<'_>),
) -> Result<Record, LabError> {
    let mut loaded = weir_study::load(study)?;
    if let Some(subject) = &options.against_itself {
        loaded.against_itself(subject, SELF_TESTS)?;
    }
    let preset = loaded.preset_for(&options.request())?;
    let hosts = options.hosts.as_deref().map(|path| Hosts::of(path, &loaded)).transpose()?;
    let prior = if options.resume { Some(resume::prior(out, &loaded, options)?) } else { None };
    match prior {
        Some(prior) if prior.run.complete => return Ok(prior),
        Some(_) => (),
        None => record::refuse_occupied(out)?,
    }
    let prior = prior.filter(|prior| !prior.run.complete);
    let failed = |source| LabError::System { action: "catch Ctrl-C", source };
    interrupt::install().map_err(failed)?;
    let _alone = alone(progress)?;
    let session = Session::new()?;
    let work = session.directory().join("study");
    let tools = session.namespace("tools")?;
    let core = match options.core {
        Some(core) => core,
        None => last_core()?,
    };
    let mut topology = Topology::new(session, loaded.study.devices.clone())?;
    if let Some(hosts) = &hosts {
        topology.use_remote_host(hosts, &options.weir, &options.version)?;
    }
    if prior.is_none() {
        record::make_folder(out, &loaded)?;
    }
    let runner = TrialRunner::new(topology, core, options.realtime)?;
    let scheduling = runner.scheduling(Duration::from_secs_f64(preset.trial_seconds))?;
    let mut run = RunState {
        axes: axes(&loaded, preset),
        lacking: lacking(&loaded, runner.stage.topology.host())?,
        hosts: runner.stage.topology.host().record()?.into_iter().collect(),
        loaded: &loaded,
        preset,
        options,
        out,
        runner,
        files: Files::new(work, tools, command_env(&loaded, preset.trial_seconds, core, options))?,
        firewalls: BTreeMap::new(),
        left_out: BTreeSet::new(),
        not_timed: BTreeSet::new(),
        given_up: prior.as_ref().map_or(0, |prior| prior.run.counts.given_up),
        before: prior.as_ref().map(|prior| prior.run.clone()),
        done: FinishedTrials::default(),
        trials: prior.map_or_else(Vec::new, |prior| prior.trials),
        searches: Vec::new(),
        rulesets: Vec::new(),
        core,
        environment: environment::capture(core, scheduling.clone()),
        scheduling,
        began: SystemTime::now(),
        clock: RunClock::new(progress),
    };
    let ended = run.steps();
    let record = record::finish(&run, ended.is_ok());
    folder::save_run(out, &record)?;
    ended?;
    folder::compress(out)?;
    Ok(Record { run: record, trials: run.trials, searches: run.searches })
}

/// What the commands of a study are told.
fn command_env(
    loaded: &LoadedStudy,
    trial_seconds: f64,
    core: u32,
    options: &StudyRunOptions,
) -> CommandEnv {
    CommandEnv {
        weir: options.weir.clone(),
        seed: options.seed,
        devices: loaded.study.devices.clone(),
        trial_seconds,
        core,
    }
}

impl RunState<'_> {
    /// Everything that is done, in order.
    fn steps(&mut self) -> Result<(), LabError> {
        let points = plan::grid(&self.axes);
        let ruleset_axes = self.loaded.study.ruleset.axis_names();
        let mut rulesets: Vec<Scenario> =
            points.iter().map(|point| point.on(&ruleset_axes)).collect();
        rulesets.sort_unstable();
        rulesets.dedup();
        self.plan_work(&points, &rulesets);
        let validations = points.iter().map(|point| self.variants(point).len()).sum();
        self.done = FinishedTrials::of(&self.trials, validations, self.loaded.study.noise.repeats);
        // Records exist from the first moment, so that a killed run is seen to be one.
        folder::save_run(self.out, &record::finish(self, false))?;
        self.raise_limits(&points)?;
        self.make_files(&points, &rulesets)?;
        search::refuse_without_loss(self, &points)?;
        self.runner.stage.topology.host().send_files(self.files.root())?;
        load::all(self, &rulesets)?;
        if self.loaded.study.traffic.is_none() {
            return Ok(());
        }
        self.set_up(&rulesets)?;
        for said in before_run(&self.runner.stage.topology, self.loaded, &points) {
            self.step(&said, 0.0)?;
        }
        let mut validated = 0;
        let mut overload = Vec::new();
        for point in &points {
            for variant in self.variants(point) {
                self.step(&format!("check {} at {point}", variant.subject), self.trial_expected())?;
                let trial = measure::validate(self, point, &variant)?;
                validated += 1;
                overload.push((point.clone(), variant.clone(), trial.pps));
                if validated > self.done.validations {
                    self.keep(trial)?;
                }
            }
        }
        if let Some(goal) = &self.options.search {
            for (point, variant, pps) in overload.iter().filter(|(.., pps)| *pps > 0.0) {
                search::one(self, point, variant, goal, *pps)?;
            }
            return Ok(());
        }
        for block in 0..self.preset.blocks {
            let steps =
                plan::block(&points, |point| self.variants(point), block, self.options.seed);
            let probes = self.loaded.study.probe.as_ref();
            let asked = probes.map_or_else(Vec::new, |plan| plan.trials(&steps));
            for step in steps.into_iter().chain(asked) {
                let message = format!(
                    "block {} of {}: {} at {}",
                    block + 1,
                    self.preset.blocks,
                    step.variant.subject,
                    step.scenario
                );
                self.step(&message, self.trial_expected())?;
                match ProbeCase::of(&step) {
                    Some(case) => probe::measure(self, &step, case)?,
                    None => measure::measure(self, &step)?,
                }
            }
            folder::save_run(self.out, &record::finish(self, false))?;
        }
        Ok(())
    }

    fn plan_work(&mut self, points: &[Scenario], rulesets: &[Scenario]) {
        let variants: u64 = points.iter().map(|point| self.variants(point).len() as u64).sum();
        let subjects = self.subjects().count() as u64;
        let sets = rulesets.len() as u64;
        let timed = u64::from(self.preset.loads) * sets * subjects;
        let trials = variants * (1 + 2 * u64::from(self.preset.blocks));
        let steps = plan::block(points, |point| self.variants(point), 0, self.options.seed);
        let probes = self.loaded.study.probe.as_ref();
        let asked = probes.map_or(0, |plan| plan.trials(&steps).len() as u64);
        let asked = asked * u64::from(self.preset.blocks);
        self.clock.total = asked + sets * (subjects + 2) + points.len() as u64 + timed + trials;
        self.clock.expected = sets as f64 * subjects as f64 * 0.6
            + timed as f64 * 0.2
            + trials as f64 * self.trial_expected()
            + asked as f64 * (self.preset.probe_seconds() + 0.3);
    }
}

/// The trials of packets that a run of this preset and seed consists of, without their repeats, in
/// their order. Subjects that this machine lacks are in it.
///
/// # Errors
/// A study that cannot be read, a preset that it has not.
pub fn planned(study: &Path, preset: &str, seed: u64) -> Result<Vec<PlannedTrial>, LabError> {
    let loaded = weir_study::load(study)?;
    let preset = loaded.preset(preset)?;
    let points = plan::grid(&axes(&loaded, preset));
    let again = loaded.study.again.as_ref();
    let variants = |point: &Scenario| {
        let names = loaded.study.subjects.iter().map(|name| name.get_ref().clone());
        let mut variants: Vec<Variant> =
            names.map(|subject| Variant { subject, copy: 0 }).collect();
        let second = again.filter(|again| point.contains(&again.at));
        let second = second.map(|again| again.subject.get_ref().clone());
        variants.extend(second.map(|subject| Variant { subject, copy: 1 }));
        variants
    };
    let block = |block| {
        let steps = plan::block(&points, variants, block, seed);
        let asked = loaded.study.probe.as_ref().map_or_else(Vec::new, |plan| plan.trials(&steps));
        steps.into_iter().chain(asked)
    };
    Ok((0..preset.blocks).flat_map(block).collect())
}

/// Waits until no other run measures on this machine; they would measure each other.
pub(crate) fn alone(progress: &mut dyn FnMut(RunProgress<'_>)) -> Result<File, LabError> {
    let folder = Path::new("/run/weir");
    fs::create_dir_all(folder).map_err(LabError::file("create", folder))?;
    let path = folder.join("lab.lock");
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(LabError::file("open", &path))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let message = "another run is measuring on this machine: waiting for its end";
        progress(RunProgress { done: 0, total: 1, message, left: None, trials: &[] });
        while let Err(error) = flock(&file, FlockOperation::LockExclusive) {
            if interrupt::requested() {
                return Err(LabError::Interrupted);
            }
            if error != rustix::io::Errno::INTR {
                return Err(LabError::file("lock", &path)(error.into()));
            }
        }
    }
    Ok(file)
}

/// The grid's axes with the values that the preset takes.
fn axes(loaded: &LoadedStudy, preset: &PresetText) -> BTreeMap<String, Vec<Coordinate>> {
    let values = |(name, axis): (&String, &weir_study::AxisText)| {
        (name.clone(), preset.axes.get(name).unwrap_or(&axis.values).clone())
    };
    loaded.study.axes.iter().map(values).collect()
}

/// Subjects that cannot be measured, with the reason. What they need is needed on the firewall's
/// host, too, where that is another one.
fn lacking(loaded: &LoadedStudy, host: &dyn Host) -> Result<BTreeMap<String, String>, LabError> {
    let commands = ProgramPath::new(&std::env::var_os("PATH").unwrap_or_default());
    let mut lacking = BTreeMap::new();
    for name in loaded.study.subjects.iter().map(|name| name.get_ref()) {
        let subject = &loaded.subjects.0[name];
        let mut why = subject.lacking(&commands);
        if why.is_none() {
            why = host.lacks(&subject.needs, subject.before_netfilter)?;
        }
        lacking.extend(why.map(|why| (name.clone(), why)));
    }
    Ok(lacking)
}
