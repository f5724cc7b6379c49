//! The workload of a study at a point.
//!
//! [`choose_planner_for_subject`] is the only place that distinguishes kinds of traffic: all other
//! steps of a run have a [`WorkloadPlanner`].

use std::time::Duration;

use weir_study::traffic::concurrent::ConcurrentConnections;
use weir_study::traffic::connections::NewConnections;
use weir_study::traffic::sockets::SocketConnections;
use weir_study::{ClientKind, PlannedTrial, Subject, Traffic};

use crate::LabError;
use crate::schedule::run_state::RunState;
use crate::workload::frames::FrameWorkloadPlanner;
use crate::workload::loopback::LoopbackWorkloadPlanner;
use crate::workload::sockets::SocketWorkloadPlanner;
use crate::workload::stateless_tcp::StatelessTcpPlanner;
use crate::workload::workload_planner::{PlannedWorkload, TrialParameters, WorkloadPlanner};

/// Sends the study's traffic through the firewall of a subject.
pub(crate) fn choose_planner_for_subject<'a>(
    run: &RunState<'a>,
    subject: &str,
) -> Box<dyn WorkloadPlanner<'a> + 'a> {
    let traffic = run.loaded_study.study.traffic.as_ref();
    let traffic = traffic.expect("only a study with traffic has firewalls");
    choose_planner_for_traffic(traffic, &run.loaded_study.subjects.0[subject])
}

/// The planner of a kind of traffic.
fn choose_planner_for_traffic<'a>(
    traffic: &'a Traffic,
    subject: &'a Subject,
) -> Box<dyn WorkloadPlanner<'a> + 'a> {
    match traffic {
        Traffic::Frames(frames) => Box::new(FrameWorkloadPlanner::new(frames)),
        Traffic::Connections(NewConnections(load))
        | Traffic::Concurrent(ConcurrentConnections(load)) => {
            Box::new(StatelessTcpPlanner::new(load, subject.path, subject.client))
        }
        Traffic::Sockets(SocketConnections(load)) if subject.client == ClientKind::Stateless => {
            Box::new(StatelessTcpPlanner::new(load, subject.path, subject.client))
        }
        Traffic::Sockets(SocketConnections(load)) => {
            Box::new(SocketWorkloadPlanner::new(load, subject.client))
        }
        Traffic::Loopback(udp) => Box::new(LoopbackWorkloadPlanner::new(*udp, subject.drops_all)),
        Traffic::Lookups(_) => unreachable!("a study of look-ups has no firewalls"),
    }
}

/// The traffic for the subject of a step, for a number of seconds; `verify_all` verifies everything
/// possible.
pub(crate) fn plan_step_workload<'a>(
    run: &mut RunState<'a>,
    step: &PlannedTrial,
    seconds: f64,
    verify_all: bool,
) -> Result<PlannedWorkload<'a>, LabError> {
    let planner = choose_planner_for_subject(run, &step.subject_copy.subject);
    let study = &run.loaded_study.study;
    let (frames_scenario, frames) = run.generated_files.frames_at_point(study, &step.scenario);
    let trial = TrialParameters {
        scenario: step.scenario.clone(),
        block: step.block,
        duration: Duration::from_secs_f64(seconds),
        rate_pps: run.preset.rate_pps,
        run_seed: run.options.seed,
        verify_all,
        frames_scenario,
        frames,
    };
    planner.plan_trial(&mut run.runner.resources, &trial)
}

/// Puts the frames of a step into the generator's table.
pub(crate) fn load_step_frames(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
) -> Result<(), LabError> {
    let (part, frames) =
        run.generated_files.frames_at_point(&run.loaded_study.study, &step.scenario);
    run.runner.resources.load_frames_into_generator(&part, frames, run.options.seed)
}
