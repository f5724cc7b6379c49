//! What workloads of connections have in common: the plan of a trial, and its name.

use weir_stats::{ConnectionClose, TrialKind};
use weir_study::ConnectionLoad;

use crate::LabError;
use crate::bpf_program::stateless_tcp::ConnectionPlan;
use crate::workload::workload_planner::TrialParameters;
use crate::workload::workload_resources::WorkloadResources;

/// How a trial opens the connections of a study. At ends of the small TCP, the clients and servers
/// of the trial's point become active.
pub(crate) fn plan_connections_and_set_endpoints(
    resources: &mut WorkloadResources,
    load: &ConnectionLoad,
    trial: &TrialParameters<'_>,
) -> Result<ConnectionPlan, LabError> {
    let point = &trial.scenario;
    let held = load.concurrent_connections_at(point, resources.topology.conntrack_limit()?);
    let (clients, servers) = load.active_endpoint_counts_at(point);
    // Sockets need no programs at the ends.
    if let Some(ends) = &mut resources.tcp_endpoints {
        ends.set_active_client_server_counts(clients, servers);
    }
    let on = |axis: &Option<String>| point.coordinate(axis.as_ref()?)?.as_number();
    Ok(ConnectionPlan {
        duration: trial.duration,
        rate: on(&load.preset_rate_override_axis).unwrap_or(trial.rate_pps),
        flood_syns_per_connection: on(&load.flood_axis).unwrap_or(0) as u32,
        connections_max: held.unwrap_or(0),
        close: load.close,
        verify_checksums: load.verify_checksums || trial.verify_all,
        secret: resources.next_trial_tag(trial.run_seed),
    })
}

/// The kind of a trial; the same for all clients of a study.
pub(crate) fn connection_trial_kind_by_clients_and_close(load: &ConnectionLoad) -> TrialKind {
    match load.close {
        _ if load.kernel_socket_clients.is_some() => TrialKind::Sockets,
        _ if load.concurrency.is_some() => TrialKind::Concurrent,
        ConnectionClose::Fin => TrialKind::Connections,
        ConnectionClose::Reset => TrialKind::ConnectionsReset,
        ConnectionClose::Never => TrialKind::Handshakes,
    }
}
