//! The highest rate without loss, or with little loss, of each subject at each point.
//!
//! [`weir_stats::search`] decides; this module runs a trial at a rate. A packet that the generator
//! could not send in time counts as lost, like one that the firewall lost: on one core, both mean
//! that the rate is not sustained. The upper end of the search is twice what the validation trial
//! forwarded at overload. Every trial is recorded, paced and with its rate, in the order of the
//! search.

use std::time::Duration;

use weir_stats::search::{self, Goal, Search};
use weir_stats::{Scenario, Trial, TrialKind, folder};

use crate::LabError;
use crate::program::generator::Play;
use crate::schedule::state::RunState;
use crate::schedule::workloads::load_frames;
use crate::trial::entry;
use crate::trial::runner::DropSource;
use crate::workload::frames::FrameWorkload;
use weir_study::StudyError;
use weir_study::{PlannedTrial, Variant};

/// Searches for one subject at one point; `overload_pps` is what it forwarded at overload.
pub(crate) fn one(
    run: &mut RunState<'_>,
    point: &Scenario,
    variant: &Variant,
    goal: &Goal,
    overload_pps: f64,
) -> Result<(), LabError> {
    let (mut order, mut steps) = (0, Vec::new());
    let high = overload_pps * 2.0;
    let found = search::search(goal, high / 256.0, high, &mut |rate| {
        let step = PlannedTrial {
            scenario: point.clone(),
            variant: variant.clone(),
            block: 0,
            order,
            leg: 0,
        };
        order += 1;
        run.step(&format!("search {} at {point}: {rate:.0} packets/s", variant.subject), 0.2)?;
        let trial = at_rate(run, &step, rate as u64)?;
        let loss = 1.0 - trial.0;
        run.keep(trial.1)?;
        steps.push(search::SearchStep { rate_pps: rate, loss_ratio: loss });
        Ok::<f64, LabError>(loss)
    })?;
    let (subject, scenario) = (variant.subject.clone(), point.clone());
    let search = Search { subject, scenario, goal: *goal, found, steps };
    folder::append_search(run.out, &search)?;
    run.searches.push(search);
    Ok(())
}

/// Refuses a search at a point where every frame has to be dropped: nothing can be lost there, and
/// every rate would pass.
pub(crate) fn refuse_without_loss(
    run: &mut RunState<'_>,
    points: &[Scenario],
) -> Result<(), LabError> {
    if run.options.search.is_none() {
        return Ok(());
    }
    for point in points {
        let (_, frames) = run.files.frames(&run.loaded.study, point);
        if frames.iter().all(|frame| frame.to_drop) {
            let what = format!(
                "`--search` at {point}: every frame must be dropped, so none can be lost; remove \
                 the point from the preset"
            );
            return Err(StudyError::Options(what).into());
        }
    }
    Ok(())
}

/// A trial at a rate, and the share that arrived of what was to be sent and not dropped.
fn at_rate(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
    rate_pps: u64,
) -> Result<(f64, Trial), LabError> {
    let study = &run.loaded.study;
    load_frames(run, step)?;
    let firewall =
        &run.firewalls[&(step.scenario.on(&study.ruleset.axis_names()), step.variant.clone())];
    let play = Play {
        duration: Duration::from_secs_f64(run.preset.trial_seconds),
        rate_pps: rate_pps.max(1),
        packets_max: 0,
        // A mix is even in its given order.
        shuffled: study.drop_axis().is_none(),
        seed: run.options.seed as u32 ^ step.order,
    };
    let seen = run.runner.trial(firewall, &mut FrameWorkload::new(play), DropSource::Unwatched)?;
    let (offered, late) = (seen.played.offered, seen.played.given_up);
    let wanted = (offered + late).saturating_sub(seen.played.to_drop);
    let arrived = if wanted == 0 { 1.0 } else { seen.arrived.delivered as f64 / wanted as f64 };
    let seconds = seen.played.seconds;
    let trial = Trial {
        copy: step.variant.copy,
        offered,
        delivered: seen.arrived.delivered,
        leaked: seen.arrived.leaked,
        foreign: seen.arrived.foreign,
        to_drop: seen.played.to_drop,
        dropped: seen.dropped,
        seconds,
        pps: if seconds > 0.0 { seen.arrived.delivered as f64 / seconds } else { 0.0 },
        rate_pps: rate_pps as f64,
        noise: seen.noise,
        ..entry::blank(step, TrialKind::Paced)
    };
    Ok((arrived.min(1.0), trial))
}
