//! Firewalls without rules: everything that is sent through them must arrive. A link that is set up
//! wrongly always loses packets, without any error.

use std::time::Duration;

use weir_stats::{ConnectionClose, ConnectionCounts, DropCount};
use weir_study::traffic::loopback::LoopbackUdpToClosedPort;
use weir_study::{ClientKind, ConnectionLoad};

use crate::LabError;
use crate::bpf_program::frame_generator::SendPlan;
use crate::bpf_program::stateless_tcp::ConnectionPlan;
use crate::topology::FirewallWithCounters;
use crate::trial::runner::{DropCountSource, TrialObservation, TrialRunner};
use crate::workload::frames::FrameWorkload;
use crate::workload::loopback::LoopbackWorkload;
use crate::workload::sockets::SocketWorkload;
use crate::workload::sockets::socket_plan::{
    DEFAULT_CONCURRENT_CONNECTIONS, SocketPlan, read_client_resources,
};
use crate::workload::stateless_tcp::StatelessTcpWorkload;
use crate::workload::workload_trait::Workload;
use weir_stats::TrialResults;

/// Frames and datagrams.
const CHECK_PACKETS: u64 = 1000;
/// Connections of the small TCP.
const CHECK_STATELESS_CONNECTIONS: u64 = 500;
/// Connections between sockets, and their rate.
const CHECK_SOCKET_CONNECTIONS: u64 = 50;
const SOCKET_CONNECTIONS_PER_SECOND: u64 = 500;
/// Tries until a link is taken as wrong: one that the kernel has only just set up on a busy machine
/// may lose the first packets.
const MAX_TRIES: u32 = 3;

/// Plays the frames that are loaded.
pub(crate) fn check_frames_arrive(
    runner: &mut TrialRunner,
    firewall: &FirewallWithCounters,
) -> Result<(), LabError> {
    let mut last = Ok(());
    for _ in 0..MAX_TRIES {
        let play = SendPlan {
            duration: Duration::from_millis(500),
            rate_pps: 0,
            packets_max: CHECK_PACKETS,
            shuffled: false,
            seed: 1,
        };
        let seen = run_trial_without_drop_counts(runner, firewall, &mut FrameWorkload::new(play))?;
        let arrived = seen.arrived.delivered + seen.arrived.leaked;
        if arrived == seen.send_result.offered && arrived >= CHECK_PACKETS {
            return Ok(());
        }
        last = Err(build_empty_firewall_loss(
            firewall,
            (arrived, seen.send_result.offered),
            &describe_drops(&seen.dropped),
        ));
    }
    last
}

/// Opens connections of the small TCP.
pub(crate) fn check_stateless_tcp_completes(
    runner: &mut TrialRunner,
    firewall: &FirewallWithCounters,
    seed: u64,
) -> Result<(), LabError> {
    let mut last = Ok(());
    for _ in 0..MAX_TRIES {
        let open = ConnectionPlan {
            duration: Duration::from_millis(500),
            rate: 0,
            connections_max: CHECK_STATELESS_CONNECTIONS,
            close: ConnectionClose::Fin,
            verify_checksums: false,
            secret: runner.resources.next_trial_tag(seed),
            flood_syns_per_connection: 0,
        };
        let seen =
            run_trial_without_drop_counts(runner, firewall, &mut StatelessTcpWorkload::new(open))?;
        let record = expect_connection_counts(&seen);
        if record.completed >= CHECK_STATELESS_CONNECTIONS {
            return Ok(());
        }
        let failed = record.failed.iter().map(|f| format!("{} at {}", f.connections, f.at));
        let why: Vec<String> = failed.chain(describe_drops(&seen.dropped)).collect();
        last = Err(build_empty_firewall_loss(
            firewall,
            (seen.arrived.delivered, seen.send_result.offered),
            &why,
        ));
    }
    last
}

/// Fetches by sockets.
pub(crate) fn check_socket_connections_complete(
    runner: &mut TrialRunner,
    firewall: &FirewallWithCounters,
    load: &ConnectionLoad,
) -> Result<(), LabError> {
    let endpoints = &load.endpoints;
    let clients = endpoints.client_count.min(CHECK_SOCKET_CONNECTIONS as u32);
    let plan = SocketPlan {
        client: ClientKind::Sockets,
        endpoints,
        clients,
        rate: SOCKET_CONNECTIONS_PER_SECOND,
        concurrency: DEFAULT_CONCURRENT_CONNECTIONS,
        duration: Duration::from_secs(CHECK_SOCKET_CONNECTIONS)
            / SOCKET_CONNECTIONS_PER_SECOND as u32,
        resources: read_client_resources(
            &runner.resources.topology,
            load,
            (clients, endpoints.server_count),
        ),
    };
    let seen = run_trial_without_drop_counts(runner, firewall, &mut SocketWorkload::new(plan))?;
    let record = expect_connection_counts(&seen);
    if record.completed > 0 && record.failed.is_empty() {
        return Ok(());
    }
    let why = record.failed.iter().map(|f| format!("{} {}", f.connections, f.at));
    Err(build_empty_firewall_loss(
        firewall,
        (record.completed, record.offered),
        &why.collect::<Vec<_>>(),
    ))
}

/// Sends to a host: all must arrive at the port.
pub(crate) fn check_datagrams_arrive(
    runner: &mut TrialRunner,
    host: &FirewallWithCounters,
    udp: LoopbackUdpToClosedPort,
) -> Result<(), LabError> {
    let mut workload = LoopbackWorkload::new(udp, (Duration::from_secs(1), CHECK_PACKETS), false);
    let seen = run_trial_without_drop_counts(runner, host, &mut workload)?;
    let (arrived, offered) = (seen.arrived.delivered, seen.send_result.offered);
    if arrived == offered {
        return Ok(());
    }
    Err(build_empty_firewall_loss(host, (arrived, offered), &describe_drops(&seen.dropped)))
}

fn run_trial_without_drop_counts(
    runner: &mut TrialRunner,
    firewall: &FirewallWithCounters,
    workload: &mut dyn Workload,
) -> Result<TrialObservation, LabError> {
    runner.run_trial(firewall, workload, DropCountSource::NotCounted)
}

fn expect_connection_counts(seen: &TrialObservation) -> &ConnectionCounts {
    match &seen.measured {
        TrialResults::Connections(record) => record,
        _ => unreachable!("a workload of connections records them"),
    }
}

fn describe_drops(dropped: &[DropCount]) -> Vec<String> {
    dropped.iter().map(|drop| format!("{} {}", drop.counter, drop.packets)).collect()
}

fn build_empty_firewall_loss(
    firewall: &FirewallWithCounters,
    (of, offered): (u64, u64),
    why: &[String],
) -> LabError {
    let namespace = firewall.namespace_name().to_owned();
    LabError::EmptyFirewallLoss { of, offered, namespace, why: why.join(", ") }
}
