//! Loads rulesets: once to be measured, and repeatedly to be timed.

use weir_stats::{Measured, Noise, Scenario, State, Trial, TrialKind};

use crate::LabError;
use crate::host::command::Job;
use crate::host::target::ExecTarget;
use crate::observe::cpu::Moment;
use crate::schedule::state::RunState;
use crate::trial::entry;
use weir_study::{PlannedTrial, Variant, plan};

/// Loads a subject's ruleset into a namespace; how long it took, seconds. `None` if the subject
/// says that there is nothing to measure at this point.
pub(crate) fn load(
    run: &RunState<'_>,
    target: &dyn ExecTarget,
    point: &Scenario,
    name: &str,
) -> Result<Option<f64>, LabError> {
    let subject = &run.loaded.subjects.0[name];
    let steps = [("setup", &subject.setup), ("load", &subject.load)];
    let mut seconds = 0.0;
    for (what, text) in steps.into_iter().filter(|(_, text)| !text.is_empty()) {
        match command(run, target, point, name, what, text) {
            Ok(taken) => seconds = taken,
            Err(error) if error.is_nothing_to_measure() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(seconds))
}

/// Times every load, each in a fresh namespace with the firewall's devices, and the adding of
/// single rules after it.
///
/// A subject that has nothing to load there is only excluded from the loads: its load into the
/// firewall decides whether it has anything to measure.
///
/// The order is that of trials: each ruleset is loaded by every subject, in forward and reverse
/// order. A block has each load once in forward order, so that all blocks together have the
/// preset's number of loads.
pub(crate) fn all(run: &mut RunState<'_>, rulesets: &[Scenario]) -> Result<(), LabError> {
    let variants = variants(run);
    for block in 0..run.preset.loads {
        let seed = run.options.seed ^ 0x10ad;
        let steps = plan::block(rulesets, |_| variants.clone(), block / 2, seed);
        let leg = block % 2;
        for step in steps.into_iter().filter(|step| step.leg == leg) {
            let step = PlannedTrial { block, ..step };
            let place = (step.scenario.clone(), step.variant.subject.clone());
            if run.done.load(&step) || run.not_timed.contains(&place) {
                continue;
            }
            let of = format!("load {} at {}", step.variant.subject, step.scenario);
            run.step(&of, 0.2)?;
            one(run, &step)?;
        }
    }
    Ok(())
}

/// Who loads. A study of loads alone has the second copy of a subject here.
fn variants(run: &RunState<'_>) -> Vec<Variant> {
    let study = &run.loaded.study;
    let second = study.again.as_ref().filter(|_| study.traffic.is_none());
    let second = second.map(|again| again.subject.get_ref().clone());
    let copies = |subject: String| {
        let copies = if second.as_ref() == Some(&subject) { 2 } else { 1 };
        (0..copies).map(move |copy| Variant { subject: subject.clone(), copy })
    };
    let loads = |name: &String| !run.loaded.subjects.0[name].baseline;
    run.subjects().filter(loads).flat_map(copies).collect()
}

fn one(run: &mut RunState<'_>, step: &PlannedTrial) -> Result<(), LabError> {
    let name = &step.variant.subject;
    let target = run.runner.stage.topology.bare()?;
    let target = &*target;
    let is_measured = run.loaded.study.memory;
    let memory = is_measured.then(|| target.host().ruleset_memory(true)).transpose()?;
    let before = Moment::now(run.core);
    let Some(seconds) = load(run, target, &step.scenario, name)? else {
        run.not_timed.insert((step.scenario.clone(), name.clone()));
        return target.remove();
    };
    let mut trial = trial(step, TrialKind::Load, seconds);
    if let Some(before) = memory {
        trial.collected.load_memory_bytes = Some(target.host().ruleset_memory(false)? - before);
    }
    trial.noise = noise(&before, run);
    let mut trials = vec![trial];
    if step.block < run.preset.adds && run.loaded.study.more.is_some() {
        trials.extend(add(run, step, target)?);
    }
    run.keep_all(trials)?;
    let unload = &run.loaded.subjects.0[name].unload;
    if !unload.is_empty() {
        command(run, target, &step.scenario, name, "unload", unload)?;
    }
    target.remove()
}

/// Adds single rules to those in force, if the subject supports it.
fn add(
    run: &RunState<'_>,
    step: &PlannedTrial,
    target: &dyn ExecTarget,
) -> Result<Option<Trial>, LabError> {
    let name = &step.variant.subject;
    let subject = &run.loaded.subjects.0[name];
    let point = &step.scenario;
    let ready = if subject.prepare_add.is_empty() {
        Ok(0.0)
    } else {
        command(run, target, point, name, "prepare_add", &subject.prepare_add)
    };
    if subject.add.is_empty() || ready.as_ref().is_err_and(LabError::is_nothing_to_measure) {
        return Ok(None);
    }
    ready?;
    let before = Moment::now(run.core);
    let seconds = command(run, target, point, name, "add", &subject.add)?;
    let mut trial = trial(step, TrialKind::Add, seconds);
    let added = additions(&run.files.more(&run.loaded.study, point))?;
    trial.measured = Measured::Additions(added);
    trial.noise = noise(&before, run);
    Ok(Some(trial))
}

fn command(
    run: &RunState<'_>,
    target: &dyn ExecTarget,
    point: &Scenario,
    name: &str,
    what: &str,
    text: &str,
) -> Result<f64, LabError> {
    let study = &run.loaded.study;
    let ruleset = run.files.ruleset(study, point);
    let folder = run.files.folder(study, point, name);
    let more = run.files.more(study, point);
    let job = Job {
        what: format!("{what} of {name}"),
        text,
        scenario: point,
        files: vec![("RULESET", &ruleset), ("DIR", &folder), ("MORE", &more)],
    };
    let (taken, _) = run.files.run_on(target, &job, true)?;
    Ok(taken.as_secs_f64())
}

/// Lines of a file of rules that add one.
fn additions(more: &std::path::Path) -> Result<u64, LabError> {
    let text = std::fs::read_to_string(more).map_err(LabError::file("read", more))?;
    Ok(text.lines().filter(|line| line.starts_with("-A ")).count() as u64)
}

fn noise(before: &Moment, run: &RunState<'_>) -> Noise {
    before.noise_until(&Moment::now(run.core), run.runner.best_spin())
}

fn trial(step: &PlannedTrial, kind: TrialKind, seconds: f64) -> Trial {
    Trial { seconds, state: State::Accepted, ..entry::blank(step, kind) }
}
