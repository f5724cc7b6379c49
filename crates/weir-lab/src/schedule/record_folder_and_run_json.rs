//! The records of a run.

use std::fs;
use std::path::Path;

use weir_stats::run::RECORD_FORMAT_VERSION;
use weir_stats::{
    NoiseFloor, Preset, Run, RunQuality, RunSubject, Scenario, ScenarioAxis, TrialCounts,
    TrialState, claim, trial_selection,
};

use crate::LabError;
use crate::observe::environment::{format_utc, reduce_paths_to_last_part};
use crate::schedule::run_state::RunState;
use weir_study::LoadedStudy;

/// Nothing may be in the folder of the records.
pub(crate) fn refuse_nonempty_folder(out: &Path) -> Result<(), LabError> {
    match fs::read_dir(out).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(LabError::RecordFolderNotEmpty(out.to_owned())),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::file_error("read", out)(error))
        }
        _ => Ok(()),
    }
}

/// The folder of the records with its first files.
pub(crate) fn create_record_folder_with_study_copies(
    out: &Path,
    loaded: &LoadedStudy,
) -> Result<(), LabError> {
    fs::create_dir_all(out).map_err(LabError::file_error("create", out))?;
    for (name, text) in [("study.toml", &loaded.text), ("subjects.toml", &loaded.subjects_text)] {
        let path = out.join(name);
        fs::write(&path, text).map_err(LabError::file_error("write", &path))?;
    }
    let path = out.join("trials.jsonl");
    fs::write(&path, "").map_err(LabError::file_error("write", &path))
}

/// The run as it is now: complete, or truncated.
pub(crate) fn build_run_and_evaluate_claims(run: &RunState<'_>, complete: bool) -> Run {
    let study = &run.loaded_study.study;
    let seed = run.options.seed;
    let noise_floor = study.again.as_ref().and_then(|again| {
        let subject = again.subject.get_ref().clone();
        let ratio = trial_selection::estimate_noise_floor(&run.trials, &subject)?;
        Some(NoiseFloor { subject, ratio })
    });
    let mut json = Run {
        format: RECORD_FORMAT_VERSION,
        study: run.loaded_study.name.clone(),
        title: study.title.clone(),
        question: study.question.clone(),
        paper: study.paper.clone(),
        preset: Preset {
            name: run.options.preset.clone(),
            trial_seconds: run.preset.trial_seconds,
            blocks: run.preset.blocks,
            loads: run.preset.loads,
            label: run.preset.label.clone(),
        },
        date: run
            .interrupted_record
            .as_ref()
            .map_or_else(|| format_utc(run.started_at), |before| before.date.clone()),
        seconds: run.interrupted_record.as_ref().map_or(0.0, |before| before.seconds)
            + run.started_at.elapsed().map_or(0.0, |elapsed| elapsed.as_secs_f64()),
        complete,
        command: reduce_paths_to_last_part(&run.options.command),
        weir: run.options.weir_version.clone(),
        seed,
        environment: run.environment.clone(),
        hosts: run.hosts.clone(),
        axes: build_record_axes(run),
        subjects: build_record_subjects(run),
        rulesets: run.rulesets.clone(),
        frame_facts: run.frame_facts.clone(),
        noise_floor,
        counts: count_trials_by_state(run),
        claims: Vec::new(),
        paper_values: study.paper_values.clone(),
        doubts: collect_doubts(run),
    };
    let shortcomings = RunQuality::from_run(&json).shortcomings();
    let decide = |claim: &toml::Spanned<_>| {
        claim::evaluate_claim(claim.get_ref(), &run.trials, &shortcomings)
    };
    json.claims = study.claims.iter().map(decide).collect();
    json
}

fn build_record_axes(run: &RunState<'_>) -> Vec<ScenarioAxis> {
    let axis = |(name, values): (&String, &Vec<weir_stats::Coordinate>)| {
        let text = &run.loaded_study.study.axes[name];
        ScenarioAxis {
            name: name.clone(),
            title: text.title.clone(),
            measured_values: values.clone(),
            titles: text.titles.clone(),
        }
    };
    run.axes.iter().map(axis).collect()
}

fn build_record_subjects(run: &RunState<'_>) -> Vec<RunSubject> {
    let subject = |name: &String| {
        let subject = &run.loaded_study.subjects.0[name];
        RunSubject {
            name: name.clone(),
            title: subject.title.clone(),
            about: subject.about.clone(),
            loads_no_rules: subject.loads_no_rules,
            weir: subject.weir,
            load: subject.measured_command().trim().to_owned(),
            lets_through_pps: subject.lets_through_pps,
            lacking: run.unmeasurable_subjects.get(name).cloned(),
            excluded_points_and_reason: describe_points_with_nothing_to_measure(run, name),
        }
    };
    run.loaded_study.study.subjects.iter().map(|name| subject(name.get_ref())).collect()
}

/// A subject that reported that it has nothing to measure, or that its load has nothing to time.
fn describe_points_with_nothing_to_measure(run: &RunState<'_>, name: &str) -> Option<String> {
    let nothing = "its command reports that there is nothing to measure";
    let left_out = run.subjects_with_nothing_to_measure.iter();
    // Where nothing but loads is measured, these are what is omitted.
    let is_loads = run.loaded_study.study.traffic.is_none();
    let left_out = left_out.chain(run.subjects_with_nothing_to_time.iter().filter(|_| is_loads));
    let measured = format_points_of_subject(left_out, name).map(|at| format!("{nothing} at {at}"));
    let timed = run
        .subjects_with_nothing_to_time
        .iter()
        .filter(|place| !is_loads && !run.subjects_with_nothing_to_measure.contains(place));
    let timed = format_points_of_subject(timed, name)
        .map(|at| format!("its loads are not timed at {at}: {nothing} in a namespace of its own"));
    let both: Vec<String> = measured.into_iter().chain(timed).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

/// The points of a subject, in words.
fn format_points_of_subject<'a>(
    all: impl Iterator<Item = &'a (Scenario, String)>,
    name: &str,
) -> Option<String> {
    let points = all.filter(|(_, subject)| subject == name);
    let places: Vec<String> = points.map(|(point, _)| point.to_string()).collect();
    // A ruleset that lies on no axis is the same at every point.
    let is_any = places.iter().any(String::is_empty);
    (!places.is_empty()).then(|| if is_any { "any point".to_owned() } else { places.join("; ") })
}

fn count_trials_by_state(run: &RunState<'_>) -> TrialCounts {
    let of = |state| run.trials.iter().filter(|trial| trial.state == state).count() as u64;
    TrialCounts {
        all: run.trials.len() as u64,
        accepted: of(TrialState::Accepted),
        warmup: of(TrialState::Warmup),
        disturbed: of(TrialState::Disturbed),
        unbalanced: of(TrialState::Unbalanced),
        failed: of(TrialState::Failed),
        accepted_despite_disturbance: run.accepted_disturbed_trial_count,
    }
}

fn collect_doubts(run: &RunState<'_>) -> Vec<String> {
    let mut doubts = run.loaded_study.study.doubts.clone();
    doubts
        .push("One boot of one machine: another boot may differ by more than an interval.".into());
    let sends_packets = !run.loaded_study.study.measures_lookups();
    if sends_packets && !run.scheduling.starts_with("fifo") {
        let why = run.scheduling.trim_start_matches("other: ");
        doubts.push(format!(
            "The generator had no real-time priority ({why}): other processes slow \
                 down every subject."
        ));
    }
    if !run.hosts.is_empty() {
        doubts.push(
            "The firewall was another host: noise is that of the measuring machine, and a \
             firewall that is faster than its cables shows their speed."
                .into(),
        );
        let connection_load = run
            .loaded_study
            .study
            .connection_load()
            .filter(|c| c.preset_rate_override_axis.is_none());
        if connection_load.is_some() && run.preset.rate_pps == 0 {
            doubts.push(
                "Connections had no rate: over real cables clients open more connections than a \
                 firewall can serve, and the excess is lost."
                    .into(),
            );
        }
    }
    if run.interrupted_record.is_some() {
        doubts.push(format!(
            "The run was interrupted, and resumed at {} with newly set up firewalls.",
            format_utc(run.started_at)
        ));
    }
    if sends_packets && !run.runner.resources.topology.firewall_host().can_report_drop_reasons() {
        doubts.push(
            "This kernel does not report why it frees packets: drops are known from counters only."
                .into(),
        );
    }
    doubts
}
