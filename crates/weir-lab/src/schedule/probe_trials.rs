//! Probe trials, after the other trials of a block.

use std::io;
use std::time::Duration;

use weir_stats::{ProbeKind, Trial, TrialKind};
use weir_study::{NoiseLimits, PlannedTrial, ProbeKindAndLoad};

use crate::LabError;
use crate::schedule::run_state::RunState;
use crate::schedule::{packet_trials, workload_selection};
use crate::trial::judge;
use crate::trial::runner::DropCountSource;
use crate::trial::trial_record;
use crate::workload::probe::open_loop::PeriodicProbeSchedule;
use crate::workload::probe::probe_workload::ProbeWorkload;

/// How long answers are waited for after the last question.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Attempts of a trial whose load starts too late.
const MAX_BACKGROUND_LOAD_TRIES: u32 = 3;

/// One trial that probes, repeated while it is disturbed and the cap allows.
pub(crate) fn measure_probe_until_undisturbed(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
    case: ProbeKindAndLoad,
) -> Result<(), LabError> {
    let Some(first) = run.finished_trials.next_repeat_unless_settled(step) else { return Ok(()) };
    // Questions take the generator off its core: that is their purpose.
    let limits =
        NoiseLimits { generator_preemptions: u64::MAX, ..run.loaded_study.study.noise.clone() };
    for repeat in first..=limits.repeats {
        let mut trial = run_probe_trial_with_load_retries(run, step, case)?;
        trial.repeat_count = repeat;
        let (verdict, noise) =
            (judge::judge_probe_or_bulk_stream(&trial), judge::judge_noise(&trial, &limits, true));
        if packet_trials::decide_state_and_record_trial(
            run,
            trial,
            verdict,
            noise,
            repeat == limits.repeats,
        )? {
            break;
        }
    }
    Ok(())
}

/// Whether a trial ended because its load did not come through the firewall in time: the machine
/// was busy.
fn is_background_load_start_timeout(error: &LabError) -> bool {
    matches!(error, LabError::SystemCall { source, .. } if source.kind() == io::ErrorKind::TimedOut)
}

fn run_probe_trial_with_load_retries(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
    case: ProbeKindAndLoad,
) -> Result<Trial, LabError> {
    let study = &run.loaded_study.study;
    workload_selection::load_step_frames(run, step)?;
    let point = step.scenario.project_to_axes(&study.ruleset.declared_axis_names());
    let firewall = &run.firewalls[&(point, step.subject_copy.clone())];
    let rate = study.probe.as_ref().map_or(1, |plan| plan.requests_per_second(case.kind));
    let duration = Duration::from_secs_f64(run.preset.probe_trial_seconds());
    let mut tries = 1;
    let seen = loop {
        let mut workload = ProbeWorkload::new(
            case,
            PeriodicProbeSchedule::new(rate, duration, LAST_ANSWER_TIMEOUT),
        );
        match run.runner.run_trial(firewall, &mut workload, DropCountSource::NotCounted) {
            Err(error)
                if is_background_load_start_timeout(&error)
                    && tries < MAX_BACKGROUND_LOAD_TRIES =>
            {
                tries += 1
            }
            ended => break ended?,
        }
    };
    let kind = match case.kind {
        ProbeKind::Icmp | ProbeKind::Udp => TrialKind::RoundTrip,
        ProbeKind::ShellOnFirewall => TrialKind::FirewallProcessResponse,
        ProbeKind::BulkTcpStream => TrialKind::Stream,
    };
    let is_asked = case.kind != ProbeKind::BulkTcpStream;
    let rate_pps = if is_asked { f64::from(rate) } else { 0.0 };
    Ok(Trial {
        kind,
        rate_pps,
        ..trial_record::build_unjudged_trial(step, run.preset.rate_pps, &seen)
    })
}
