//! Firewalls without rules: everything that is sent through them must arrive. A link that is set up
//! wrongly always loses packets, without any error.

use std::time::Duration;

use weir_stats::{Close, Connections, DropCount};
use weir_study::{ClientKind, ConnectionLoad, LoopbackUdp};

use crate::LabError;
use crate::program::generator::Play;
use crate::program::tcp::ConnectionPlan;
use crate::topology::TestFirewall;
use crate::trial::runner::{DropSource, Observation, TrialRunner};
use crate::workload::contract::Workload;
use crate::workload::frames::FrameWorkload;
use crate::workload::loopback::LoopbackWorkload;
use crate::workload::sockets::SocketWorkload;
use crate::workload::sockets::plan::{AT_ONCE, SocketPlan, resources};
use crate::workload::tcp::TcpWorkload;
use weir_stats::Measured;

/// Frames and datagrams.
const FRAMES: u64 = 1000;
/// Connections of the small TCP.
const CONNECTIONS: u64 = 500;
/// Connections between sockets, and their rate.
const FETCHES: u64 = 50;
const FETCH_RATE: u64 = 500;
/// Tries until a link is taken as wrong: one that the kernel has only just set up on a busy machine
/// may lose the first packets.
const TRIES: u32 = 3;

/// Plays the frames that are loaded.
pub(crate) fn frames(runner: &mut TrialRunner, firewall: &TestFirewall) -> Result<(), LabError> {
    let mut last = Ok(());
    for _ in 0..TRIES {
        let play = Play {
            duration: Duration::from_millis(500),
            rate_pps: 0,
            packets_max: FRAMES,
            shuffled: false,
            seed: 1,
        };
        let seen = observe(runner, firewall, &mut FrameWorkload::new(play))?;
        let arrived = seen.arrived.delivered + seen.arrived.leaked;
        if arrived == seen.played.offered && arrived >= FRAMES {
            return Ok(());
        }
        last = Err(lost(firewall, (arrived, seen.played.offered), &drops(&seen.dropped)));
    }
    last
}

/// Opens connections of the small TCP.
pub(crate) fn connections(
    runner: &mut TrialRunner,
    firewall: &TestFirewall,
    seed: u64,
) -> Result<(), LabError> {
    let mut last = Ok(());
    for _ in 0..TRIES {
        let open = ConnectionPlan {
            duration: Duration::from_millis(500),
            rate: 0,
            connections_max: CONNECTIONS,
            close: Close::Fin,
            verify: false,
            secret: runner.stage.next_magic(seed),
            flood: 0,
        };
        let seen = observe(runner, firewall, &mut TcpWorkload::new(open))?;
        let record = connections_of(&seen);
        if record.completed >= CONNECTIONS {
            return Ok(());
        }
        let failed = record.failed.iter().map(|f| format!("{} at {}", f.connections, f.at));
        let why: Vec<String> = failed.chain(drops(&seen.dropped)).collect();
        last = Err(lost(firewall, (seen.arrived.delivered, seen.played.offered), &why));
    }
    last
}

/// Fetches by sockets.
pub(crate) fn fetches(
    runner: &mut TrialRunner,
    firewall: &TestFirewall,
    load: &ConnectionLoad,
) -> Result<(), LabError> {
    let endpoints = &load.endpoints;
    let clients = endpoints.clients.min(FETCHES as u32);
    let plan = SocketPlan {
        client: ClientKind::Sockets,
        endpoints,
        clients,
        rate: FETCH_RATE,
        at_once: AT_ONCE,
        duration: Duration::from_secs(FETCHES) / FETCH_RATE as u32,
        resources: resources(&runner.stage.topology, load, (clients, endpoints.servers)),
    };
    let seen = observe(runner, firewall, &mut SocketWorkload::new(plan))?;
    let record = connections_of(&seen);
    if record.completed > 0 && record.failed.is_empty() {
        return Ok(());
    }
    let why = record.failed.iter().map(|f| format!("{} {}", f.connections, f.at));
    Err(lost(firewall, (record.completed, record.offered), &why.collect::<Vec<_>>()))
}

/// Sends to a host: all must arrive at the port.
pub(crate) fn datagrams(
    runner: &mut TrialRunner,
    host: &TestFirewall,
    udp: LoopbackUdp,
) -> Result<(), LabError> {
    let mut workload = LoopbackWorkload::new(udp, (Duration::from_secs(1), FRAMES), false);
    let seen = observe(runner, host, &mut workload)?;
    let (arrived, offered) = (seen.arrived.delivered, seen.played.offered);
    if arrived == offered {
        return Ok(());
    }
    Err(lost(host, (arrived, offered), &drops(&seen.dropped)))
}

fn observe(
    runner: &mut TrialRunner,
    firewall: &TestFirewall,
    workload: &mut dyn Workload,
) -> Result<Observation, LabError> {
    runner.trial(firewall, workload, DropSource::Unwatched)
}

fn connections_of(seen: &Observation) -> &Connections {
    match &seen.measured {
        Measured::Connections(record) => record,
        _ => unreachable!("a workload of connections records them"),
    }
}

fn drops(dropped: &[DropCount]) -> Vec<String> {
    dropped.iter().map(|drop| format!("{} {}", drop.counter, drop.packets)).collect()
}

fn lost(firewall: &TestFirewall, (of, offered): (u64, u64), why: &[String]) -> LabError {
    let namespace = firewall.name().to_owned();
    LabError::Probe { of, offered, namespace, why: why.join(", ") }
}
