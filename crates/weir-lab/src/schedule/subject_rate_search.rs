//! The highest rate without loss, or with little loss, of each subject at each point.
//!
//! [`weir_stats::rate_search`] decides; this module runs a trial at a rate. A packet that the
//! generator could not send in time counts as lost, like one that the firewall lost: on one core,
//! both mean that the rate is not sustained. The upper end of the search is twice what the
//! validation trial forwarded at overload. Every trial is recorded, paced and with its rate, in the
//! order of the search.

use std::time::Duration;

use weir_stats::rate_search::{self, RateSearchRecord, SearchGoal};
use weir_stats::{Scenario, Trial, TrialKind, run_folder};

use crate::LabError;
use crate::bpf_program::frame_generator::SendPlan;
use crate::schedule::run_state::RunState;
use crate::schedule::workload_selection::load_step_frames;
use crate::trial::runner::DropCountSource;
use crate::trial::trial_record;
use crate::workload::frames::FrameWorkload;
use weir_study::StudyError;
use weir_study::{PlannedTrial, SubjectCopy};

/// Searches for one subject at one point; `overload_pps` is what it forwarded at overload.
pub(crate) fn search_subject_rate(
    run: &mut RunState<'_>,
    point: &Scenario,
    subject_copy: &SubjectCopy,
    goal: &SearchGoal,
    overload_pps: f64,
) -> Result<(), LabError> {
    let (mut order, mut steps) = (0, Vec::new());
    let high = overload_pps * 2.0;
    let found = rate_search::search_highest_rate(goal, high / 256.0, high, &mut |rate| {
        let step = PlannedTrial {
            scenario: point.clone(),
            subject_copy: subject_copy.clone(),
            block: 0,
            order_in_block: order,
            abba_leg: 0,
        };
        order += 1;
        run.report_step_or_interrupt(
            &format!("search {} at {point}: {rate:.0} packets/s", subject_copy.subject),
            0.2,
        )?;
        let trial = measure_arrived_share_at_rate(run, &step, rate as u64)?;
        let loss = 1.0 - trial.0;
        run.record_trial(trial.1)?;
        steps.push(rate_search::SearchTrial { rate_pps: rate, lost_or_unoffered_ratio: loss });
        Ok::<f64, LabError>(loss)
    })?;
    let (subject, scenario) = (subject_copy.subject.clone(), point.clone());
    let search = RateSearchRecord { subject, scenario, goal: *goal, found, steps };
    run_folder::append_search(run.record_folder, &search)?;
    run.searches.push(search);
    Ok(())
}

/// Refuses a search at a point where every frame has to be dropped: nothing can be lost there, and
/// every rate would pass.
pub(crate) fn check_search_has_no_drop_only_points(
    run: &mut RunState<'_>,
    points: &[Scenario],
) -> Result<(), LabError> {
    if run.options.search.is_none() {
        return Ok(());
    }
    for point in points {
        let (_, frames) = run.generated_files.frames_at_point(&run.loaded_study.study, point);
        if frames.iter().all(|frame| frame.to_drop) {
            let what = format!(
                "`--search` at {point}: every frame must be dropped, so none can be lost; remove \
                 the point from the preset"
            );
            return Err(StudyError::InvalidOptions(what).into());
        }
    }
    Ok(())
}

/// A trial at a rate, and the share that arrived of what was to be sent and not dropped.
fn measure_arrived_share_at_rate(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
    rate_pps: u64,
) -> Result<(f64, Trial), LabError> {
    let study = &run.loaded_study.study;
    load_step_frames(run, step)?;
    let firewall = &run.firewalls[&(
        step.scenario.project_to_axes(&study.ruleset.declared_axis_names()),
        step.subject_copy.clone(),
    )];
    let play = SendPlan {
        duration: Duration::from_secs_f64(run.preset.trial_seconds),
        rate_pps: rate_pps.max(1),
        packets_max: 0,
        // A mix is even in its given order.
        shuffled: study.drop_share_axis().is_none(),
        seed: run.options.seed as u32 ^ step.order_in_block,
    };
    let seen = run.runner.run_trial(
        firewall,
        &mut FrameWorkload::new(play),
        DropCountSource::NotCounted,
    )?;
    let (offered, late) = (seen.send_result.offered, seen.send_result.skipped_behind_schedule);
    let wanted = (offered + late).saturating_sub(seen.send_result.to_drop);
    let arrived = if wanted == 0 { 1.0 } else { seen.arrived.delivered as f64 / wanted as f64 };
    let seconds = seen.send_result.seconds;
    let trial = Trial {
        copy_index: step.subject_copy.copy_index,
        offered,
        delivered: seen.arrived.delivered,
        leaked: seen.arrived.leaked,
        foreign: seen.arrived.foreign,
        expected_drops: seen.send_result.to_drop,
        drop_counts: seen.drop_counts,
        seconds,
        correct_verdict_pps: if seconds > 0.0 {
            seen.arrived.delivered as f64 / seconds
        } else {
            0.0
        },
        rate_pps: rate_pps as f64,
        noise: seen.noise,
        ..trial_record::blank_trial(step, TrialKind::Paced)
    };
    Ok((arrived.min(1.0), trial))
}
