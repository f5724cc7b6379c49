//! Builds the record of a trial from the observations.

use weir_stats::{Trial, TrialKind};
use weir_study::PlannedTrial;

use crate::trial::runner::TrialObservation;

/// The trial of a step, nothing measured yet.
pub(crate) fn blank_trial(step: &PlannedTrial, kind: TrialKind) -> Trial {
    Trial {
        copy_index: step.subject_copy.copy_index,
        block: step.block,
        order_in_block: step.order_in_block,
        abba_leg: step.abba_leg,
        ..Trial::new(kind, step.scenario.clone(), &step.subject_copy.subject)
    }
}

/// The trial of a step as it was observed; `rate_pps` is that of the preset, 0 without one.
pub(crate) fn build_unjudged_trial(
    step: &PlannedTrial,
    rate_pps: u64,
    seen: &TrialObservation,
) -> Trial {
    let kind = if rate_pps == 0 { TrialKind::Rate } else { TrialKind::Paced };
    let seconds = seen.send_result.seconds;
    let by_rules: u64 =
        seen.drop_counts.iter().filter(|d| d.counter == "rules").map(|d| d.packets).sum();
    let decided = seen.arrived.delivered + seen.arrived.leaked + by_rules;
    Trial {
        offered: seen.send_result.offered,
        delivered: seen.arrived.delivered,
        leaked: seen.arrived.leaked,
        foreign: seen.arrived.foreign,
        expected_drops: seen.send_result.to_drop,
        drop_counts: seen.drop_counts.iter().filter(|drop| drop.packets > 0).cloned().collect(),
        seconds,
        correct_verdict_pps: if seconds > 0.0 { decided as f64 / seconds } else { 0.0 },
        rate_pps: rate_pps as f64,
        noise: seen.noise.clone(),
        observations: seen.machine_observations.clone(),
        results: seen.trial_results.clone(),
        ..blank_trial(step, kind)
    }
}
