//! Probe trials, after the other trials of a block.

use std::io;
use std::time::Duration;

use weir_stats::{ProbeKind, Trial, TrialKind};
use weir_study::{NoiseLimits, PlannedTrial, ProbeCase};

use crate::LabError;
use crate::schedule::state::RunState;
use crate::schedule::{measure, workloads};
use crate::trial::entry;
use crate::trial::judge;
use crate::trial::runner::DropSource;
use crate::workload::probe::load::ProbeWorkload;
use crate::workload::probe::open_loop::ProbeSchedule;

/// How long answers are waited for after the last question.
const GRACE: Duration = Duration::from_secs(2);

/// Attempts of a trial whose load starts too late.
const LOAD_TRIES: u32 = 3;

/// One trial that probes, repeated while it is disturbed and the cap allows.
pub(crate) fn measure(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
    case: ProbeCase,
) -> Result<(), LabError> {
    let Some(first) = run.done.next_repeat(step) else { return Ok(()) };
    // Questions take the generator off its core: that is their purpose.
    let limits = NoiseLimits { switches: u64::MAX, ..run.loaded.study.noise.clone() };
    for repeat in first..=limits.repeats {
        let mut trial = one(run, step, case)?;
        trial.repeat = repeat;
        let (verdict, noise) = (judge::of_probe(&trial), judge::of_noise(&trial, &limits, true));
        if measure::settle(run, trial, verdict, noise, repeat == limits.repeats)? {
            break;
        }
    }
    Ok(())
}

/// Whether a trial ended because its load did not come through the firewall in time: the machine
/// was busy.
fn is_load_late(error: &LabError) -> bool {
    matches!(error, LabError::System { source, .. } if source.kind() == io::ErrorKind::TimedOut)
}

fn one(run: &mut RunState<'_>, step: &PlannedTrial, case: ProbeCase) -> Result<Trial, LabError> {
    let study = &run.loaded.study;
    workloads::load_frames(run, step)?;
    let point = step.scenario.on(&study.ruleset.axis_names());
    let firewall = &run.firewalls[&(point, step.variant.clone())];
    let rate = study.probe.as_ref().map_or(1, |plan| plan.rate_of(case.kind));
    let duration = Duration::from_secs_f64(run.preset.probe_seconds());
    let mut tries = 1;
    let seen = loop {
        let mut workload = ProbeWorkload::new(case, ProbeSchedule::new(rate, duration, GRACE));
        match run.runner.trial(firewall, &mut workload, DropSource::Unwatched) {
            Err(error) if is_load_late(&error) && tries < LOAD_TRIES => tries += 1,
            ended => break ended?,
        }
    };
    let kind = match case.kind {
        ProbeKind::Icmp | ProbeKind::Udp => TrialKind::RoundTrip,
        ProbeKind::Shell => TrialKind::Response,
        ProbeKind::Stream => TrialKind::Stream,
    };
    let is_asked = case.kind != ProbeKind::Stream;
    let rate_pps = if is_asked { f64::from(rate) } else { 0.0 };
    Ok(Trial { kind, rate_pps, ..entry::observed(step, run.preset.rate_pps, &seen) })
}
