//! The workload of a study at a point.

use std::time::Duration;

use weir_stats::{ConnectionClose, DurationDistribution, Trial, TrialKind, TrialResults};
use weir_study::{ConnectionLoad, PlannedTrial, Traffic};

use crate::LabError;
use crate::bpf_program::frame_generator::SendPlan;
use crate::bpf_program::stateless_tcp::ConnectionPlan;
use crate::schedule::run_state::RunState;
use crate::workload::frames::FrameWorkload;
use crate::workload::loopback::LoopbackWorkload;
use crate::workload::sockets::SocketWorkload;
use crate::workload::sockets::socket_plan::build_socket_plan;
use crate::workload::stateless_tcp::StatelessTcpWorkload;
use crate::workload::workload_trait::Workload;

/// A workload, and what a trial of it is.
pub(crate) struct PlannedWorkload<'a> {
    pub(crate) workload: Box<dyn Workload + 'a>,
    /// Rules may have to drop some of what is sent.
    pub(crate) expects_drops: bool,
    /// The name of a trial of connections, and its rate; that of packets follows the preset.
    connection_kind_and_rate: Option<(TrialKind, f64)>,
    /// A client that opens connections in place of sockets.
    stateless_client: Option<weir_stats::SubstituteClientReport>,
}

impl PlannedWorkload<'_> {
    /// Says of a trial what it is.
    pub(crate) fn set_trial_kind_and_client(&self, trial: &mut Trial) {
        if let Some((kind, rate_pps)) = self.connection_kind_and_rate {
            // The compared quantity is the same for all clients.
            (trial.kind, trial.rate_pps) = (kind, rate_pps);
        }
        if let (TrialResults::Connections(record), Some(client)) =
            (&mut trial.results, &self.stateless_client)
        {
            record.client = Some(client.clone());
        }
    }
}

/// The traffic for the subject of a step, for a number of seconds; `check` verifies everything
/// possible.
pub(crate) fn build_workload_for_trial<'a>(
    run: &mut RunState<'a>,
    step: &PlannedTrial,
    seconds: f64,
    check: bool,
) -> Result<PlannedWorkload<'a>, LabError> {
    let loaded = run.loaded_study;
    let subject = &loaded.subjects.0[&step.variant.subject];
    let duration = Duration::from_secs_f64(seconds);
    let packets = |workload: Box<dyn Workload + 'a>, some_to_drop| PlannedWorkload {
        workload,
        expects_drops: some_to_drop,
        connection_kind_and_rate: None,
        stateless_client: None,
    };
    match (&loaded.study.traffic, loaded.study.connection_load()) {
        (_, Some(load)) => {
            let mut open = plan_connections(run, load, step, seconds)?;
            open.verify_checksums |= check;
            let client = subject.client;
            let rate_pps = if client.opens_at_fixed_rate() { open.rate as f64 } else { 0.0 };
            let is_socket = load.for_client(client).sockets.is_some();
            let stateless =
                client.to_trial_client(DurationDistribution::default()).filter(|_| !is_socket);
            let workload: Box<dyn Workload + 'a> = match is_socket {
                true => {
                    let topology = &run.runner.resources.topology;
                    let plan = build_socket_plan(topology, load, client, &step.scenario, &open);
                    Box::new(SocketWorkload::new(plan))
                }
                false => Box::new(StatelessTcpWorkload::new(open)),
            };
            Ok(PlannedWorkload {
                workload,
                // Beside a flood, connections may be dropped, too.
                expects_drops: load.flood_axis.is_some(),
                connection_kind_and_rate: Some((choose_connection_trial_kind(load), rate_pps)),
                stateless_client: stateless,
            })
        }
        (Some(Traffic::Loopback(udp)), None) => {
            let to_drop = subject.drops_all;
            Ok(packets(Box::new(LoopbackWorkload::new(*udp, (duration, 0), to_drop)), to_drop))
        }
        (_, None) => {
            let some_to_drop = load_step_frames(run, step)?;
            let play = SendPlan {
                duration,
                rate_pps: run.preset.rate_pps,
                packets_max: 0,
                // A mix is even in its given order.
                shuffled: loaded.study.drop_share_axis().is_none(),
                seed: run.options.seed as u32 ^ step.block,
            };
            Ok(packets(Box::new(FrameWorkload::new(play)), some_to_drop))
        }
    }
}

/// Puts the frames of a step into the generator's table; whether some have to be dropped.
pub(crate) fn load_step_frames(
    run: &mut RunState<'_>,
    step: &PlannedTrial,
) -> Result<bool, LabError> {
    let (part, frames) = run.files.frames_at_point(&run.loaded_study.study, &step.scenario);
    run.runner.resources.load_frames_into_generator(&part, frames, run.options.seed)?;
    Ok(frames.iter().any(|frame| frame.to_drop))
}

/// How a step of a study opens connections; prints the limits of the clients that take part.
fn plan_connections(
    run: &mut RunState<'_>,
    load: &ConnectionLoad,
    step: &PlannedTrial,
    seconds: f64,
) -> Result<ConnectionPlan, LabError> {
    let held = load.concurrent_connections_at(
        &step.scenario,
        run.runner.resources.topology.conntrack_limit()?,
    );
    let (clients, servers) = load.active_endpoint_counts_at(&step.scenario);
    // Sockets need no programs at the ends.
    if let Some(ends) = &mut run.runner.resources.tcp_ends {
        ends.set_active_endpoints(clients, servers);
    }
    let on = |axis: &Option<String>| step.scenario.coordinate(axis.as_ref()?)?.as_number();
    Ok(ConnectionPlan {
        duration: Duration::from_secs_f64(seconds),
        rate: on(&load.rate_axis).unwrap_or(run.preset.rate_pps),
        flood_syns_per_connection: on(&load.flood_axis).unwrap_or(0) as u32,
        connections_max: held.unwrap_or(0),
        close: load.close,
        verify_checksums: load.verify_checksums,
        secret: run.runner.resources.next_trial_tag(run.options.seed),
    })
}

/// The kind of a trial.
fn choose_connection_trial_kind(load: &ConnectionLoad) -> TrialKind {
    match load.close {
        _ if load.sockets.is_some() => TrialKind::Sockets,
        _ if load.concurrency.is_some() => TrialKind::Concurrent,
        ConnectionClose::Fin => TrialKind::Connections,
        ConnectionClose::Reset => TrialKind::ConnectionsReset,
        ConnectionClose::Never => TrialKind::Handshakes,
    }
}
