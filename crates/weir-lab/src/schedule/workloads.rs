//! The workload of a study at a point.

use std::time::Duration;

use weir_stats::{Close, Measured, Spectrum, Trial, TrialKind};
use weir_study::{ConnectionLoad, PlannedTrial, Traffic};

use crate::LabError;
use crate::program::generator::Play;
use crate::program::tcp::ConnectionPlan;
use crate::schedule::state::RunState;
use crate::workload::contract::Workload;
use crate::workload::frames::FrameWorkload;
use crate::workload::loopback::LoopbackWorkload;
use crate::workload::sockets::SocketWorkload;
use crate::workload::sockets::plan::plan;
use crate::workload::tcp::TcpWorkload;

/// A workload, and what a trial of it is.
pub(crate) struct StudyWorkload<'a> {
    pub(crate) workload: Box<dyn Workload + 'a>,
    /// Rules may have to drop some of what is sent.
    pub(crate) some_to_drop: bool,
    /// The name of a trial of connections, and its rate; that of packets follows the preset.
    connections: Option<(TrialKind, f64)>,
    /// A client that opens connections in place of sockets.
    stateless: Option<weir_stats::Client>,
}

impl StudyWorkload<'_> {
    /// Says of a trial what it is.
    pub(crate) fn label(&self, trial: &mut Trial) {
        if let Some((kind, rate_pps)) = self.connections {
            // The compared quantity is the same for all clients.
            (trial.kind, trial.rate_pps) = (kind, rate_pps);
        }
        if let (Measured::Connections(record), Some(client)) =
            (&mut trial.measured, &self.stateless)
        {
            record.client = Some(client.clone());
        }
    }
}

/// The traffic for the subject of a step, for a number of seconds; `check` verifies everything
/// possible.
pub(crate) fn of_step<'a>(
    run: &mut RunState<'a>,
    step: &PlannedTrial,
    seconds: f64,
    check: bool,
) -> Result<StudyWorkload<'a>, LabError> {
    let loaded = run.loaded;
    let subject = &loaded.subjects.0[&step.variant.subject];
    let duration = Duration::from_secs_f64(seconds);
    let packets = |workload: Box<dyn Workload + 'a>, some_to_drop| StudyWorkload {
        workload,
        some_to_drop,
        connections: None,
        stateless: None,
    };
    match &loaded.study.traffic {
        Some(Traffic::Connections(load)) => {
            let mut open = open(run, load, step, seconds)?;
            open.verify |= check;
            let client = subject.client;
            let rate_pps = if client.keeps_a_rate() { open.rate as f64 } else { 0.0 };
            let is_socket = load.by(client).sockets.is_some();
            let stateless = client.record(Spectrum::default()).filter(|_| !is_socket);
            let workload: Box<dyn Workload + 'a> = match is_socket {
                true => {
                    let topology = &run.runner.stage.topology;
                    let plan = plan(topology, load, client, &step.scenario, &open);
                    Box::new(SocketWorkload::new(plan))
                }
                false => Box::new(TcpWorkload::new(open)),
            };
            Ok(StudyWorkload {
                workload,
                // Beside a flood, connections may be dropped, too.
                some_to_drop: load.flood_axis.is_some(),
                connections: Some((kind_of(load), rate_pps)),
                stateless,
            })
        }
        Some(Traffic::Loopback(udp)) => {
            let to_drop = subject.drops_all;
            Ok(packets(Box::new(LoopbackWorkload::new(*udp, (duration, 0), to_drop)), to_drop))
        }
        Some(Traffic::Frames(_) | Traffic::Mixed { .. }) | None => {
            let some_to_drop = load_frames(run, step)?;
            let play = Play {
                duration,
                rate_pps: run.preset.rate_pps,
                packets_max: 0,
                // A mix is even in its given order.
                shuffled: loaded.study.drop_axis().is_none(),
                seed: run.options.seed as u32 ^ step.block,
            };
            Ok(packets(Box::new(FrameWorkload::new(play)), some_to_drop))
        }
    }
}

/// Puts the frames of a step into the generator's table; whether some have to be dropped.
pub(crate) fn load_frames(run: &mut RunState<'_>, step: &PlannedTrial) -> Result<bool, LabError> {
    let (part, frames) = run.files.frames(&run.loaded.study, &step.scenario);
    run.runner.stage.load_frames(&part, frames, run.options.seed)?;
    Ok(frames.iter().any(|frame| frame.to_drop))
}

/// How a step of a study opens connections; prints the limits of the clients that take part.
fn open(
    run: &mut RunState<'_>,
    load: &ConnectionLoad,
    step: &PlannedTrial,
    seconds: f64,
) -> Result<ConnectionPlan, LabError> {
    let held = load.held_at(&step.scenario, run.runner.stage.topology.table_limit()?);
    let (clients, servers) = load.endpoints_at(&step.scenario);
    // Sockets need no programs at the ends.
    if let Some(ends) = &mut run.runner.stage.ends {
        ends.take_part(clients, servers);
    }
    let on = |axis: &Option<String>| step.scenario.coordinate(axis.as_ref()?)?.number();
    Ok(ConnectionPlan {
        duration: Duration::from_secs_f64(seconds),
        rate: on(&load.rate_axis).unwrap_or(run.preset.rate_pps),
        flood: on(&load.flood_axis).unwrap_or(0) as u32,
        connections_max: held.unwrap_or(0),
        close: load.close,
        verify: load.verify,
        secret: run.runner.stage.next_magic(run.options.seed),
    })
}

/// The kind of a trial.
fn kind_of(load: &ConnectionLoad) -> TrialKind {
    match load.close {
        _ if load.sockets.is_some() => TrialKind::Sockets,
        _ if load.hold.is_some() => TrialKind::Concurrent,
        Close::Fin => TrialKind::Connections,
        Close::Reset => TrialKind::ConnectionsReset,
        Close::Never => TrialKind::Handshakes,
    }
}
