//! The records of a run.

use std::fs;
use std::path::Path;

use weir_stats::run::FORMAT;
use weir_stats::{
    NoiseFloor, Preset, Run as RunRecord, RunSubject, Scenario, ScenarioAxis, State, TrialCounts,
    claim, series,
};

use crate::LabError;
use crate::observe::environment::{mask_paths, utc};
use crate::schedule::state::RunState;
use weir_study::LoadedStudy;

/// Nothing may be in the folder of the records.
pub(crate) fn refuse_occupied(out: &Path) -> Result<(), LabError> {
    match fs::read_dir(out).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(LabError::Occupied(out.to_owned())),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::file("read", out)(error))
        }
        _ => Ok(()),
    }
}

/// The folder of the records with its first files.
pub(crate) fn make_folder(out: &Path, loaded: &LoadedStudy) -> Result<(), LabError> {
    fs::create_dir_all(out).map_err(LabError::file("create", out))?;
    for (name, text) in [("study.toml", &loaded.text), ("subjects.toml", &loaded.subjects_text)] {
        let path = out.join(name);
        fs::write(&path, text).map_err(LabError::file("write", &path))?;
    }
    let path = out.join("trials.jsonl");
    fs::write(&path, "").map_err(LabError::file("write", &path))
}

/// The run as it is now: complete, or truncated.
pub(crate) fn finish(run: &RunState<'_>, complete: bool) -> RunRecord {
    let study = &run.loaded.study;
    let seed = run.options.seed;
    let claims =
        study.claims.iter().map(|claim| claim::evaluate(claim.get_ref(), &run.trials, seed));
    let noise_floor = study.again.as_ref().and_then(|again| {
        let subject = again.subject.get_ref().clone();
        let ratio = series::noise_floor(&run.trials, &subject, seed)?;
        Some(NoiseFloor { subject, ratio })
    });
    RunRecord {
        format: FORMAT,
        study: run.loaded.name.clone(),
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
        date: run.before.as_ref().map_or_else(|| utc(run.began), |before| before.date.clone()),
        seconds: run.before.as_ref().map_or(0.0, |before| before.seconds)
            + run.began.elapsed().map_or(0.0, |elapsed| elapsed.as_secs_f64()),
        complete,
        command: mask_paths(&run.options.command),
        weir: run.options.version.clone(),
        seed,
        environment: run.environment.clone(),
        hosts: run.hosts.clone(),
        axes: axes(run),
        subjects: subjects(run),
        rulesets: run.rulesets.clone(),
        noise_floor,
        counts: counts(run),
        claims: claims.collect(),
        paper_values: study.paper_values.clone(),
        doubts: doubts(run),
    }
}

fn axes(run: &RunState<'_>) -> Vec<ScenarioAxis> {
    let axis = |(name, values): (&String, &Vec<weir_stats::Coordinate>)| {
        let text = &run.loaded.study.axes[name];
        ScenarioAxis {
            name: name.clone(),
            title: text.title.clone(),
            values: values.clone(),
            titles: text.titles.clone(),
        }
    };
    run.axes.iter().map(axis).collect()
}

fn subjects(run: &RunState<'_>) -> Vec<RunSubject> {
    let subject = |name: &String| {
        let subject = &run.loaded.subjects.0[name];
        RunSubject {
            name: name.clone(),
            title: subject.title.clone(),
            about: subject.about.clone(),
            baseline: subject.baseline,
            weir: subject.weir,
            load: subject.load.trim().to_owned(),
            lets_through_pps: subject.lets_through_pps,
            lacking: run.lacking.get(name).cloned(),
            limit: limit_of(run, name),
        }
    };
    run.loaded.study.subjects.iter().map(|name| subject(name.get_ref())).collect()
}

/// A subject that reported that it has nothing to measure, or that its load has nothing to time.
fn limit_of(run: &RunState<'_>, name: &str) -> Option<String> {
    let nothing = "its command reports that there is nothing to measure";
    let left_out = run.left_out.iter();
    // Where nothing but loads is measured, these are what is omitted.
    let is_loads = run.loaded.study.traffic.is_none();
    let left_out = left_out.chain(run.not_timed.iter().filter(|_| is_loads));
    let measured = places(left_out, name).map(|at| format!("{nothing} at {at}"));
    let timed = run.not_timed.iter().filter(|place| !is_loads && !run.left_out.contains(place));
    let timed = places(timed, name)
        .map(|at| format!("its loads are not timed at {at}: {nothing} in a namespace of its own"));
    let both: Vec<String> = measured.into_iter().chain(timed).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

/// The points of a subject, in words.
fn places<'a>(all: impl Iterator<Item = &'a (Scenario, String)>, name: &str) -> Option<String> {
    let points = all.filter(|(_, subject)| subject == name);
    let places: Vec<String> = points.map(|(point, _)| point.to_string()).collect();
    // A ruleset that lies on no axis is the same at every point.
    let is_any = places.iter().any(String::is_empty);
    (!places.is_empty()).then(|| if is_any { "any point".to_owned() } else { places.join("; ") })
}

fn counts(run: &RunState<'_>) -> TrialCounts {
    let of = |state| run.trials.iter().filter(|trial| trial.state == state).count() as u64;
    TrialCounts {
        all: run.trials.len() as u64,
        accepted: of(State::Accepted),
        warmup: of(State::Warmup),
        disturbed: of(State::Disturbed),
        unbalanced: of(State::Unbalanced),
        failed: of(State::Failed),
        given_up: run.given_up,
    }
}

fn doubts(run: &RunState<'_>) -> Vec<String> {
    let mut doubts = run.loaded.study.doubts.clone();
    doubts
        .push("One boot of one machine: another boot may differ by more than an interval.".into());
    if !run.scheduling.starts_with("fifo") {
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
        let connection_load = run.loaded.study.connections().filter(|c| c.rate_axis.is_none());
        if connection_load.is_some() && run.preset.rate_pps == 0 {
            doubts.push(
                "Connections had no rate: over real cables clients open more connections than a \
                 firewall can serve, and the excess is lost."
                    .into(),
            );
        }
    }
    if run.before.is_some() {
        doubts.push(format!(
            "The run was interrupted, and resumed at {} with newly set up firewalls.",
            utc(run.began)
        ));
    }
    if !run.runner.stage.topology.host().knows_drop_reasons() {
        doubts.push(
            "This kernel does not report why it frees packets: drops are known from counters only."
                .into(),
        );
    }
    doubts
}
