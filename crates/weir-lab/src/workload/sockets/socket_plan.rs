//! How a trial opens connections between sockets.

use std::time::Duration;

use weir_stats::Scenario;
use weir_study::{ClientKind, ConnectionLoad, Endpoints, KernelSocketClients, LoadedStudy};

use crate::bpf_program::stateless_tcp::ConnectionPlan;
use crate::topology::Topology;
use crate::workload::sockets::client_limits::ClientResources;

/// Connections at once of a client that has no rate.
pub(crate) const DEFAULT_CONCURRENT_CONNECTIONS: u16 = 64;

/// How a trial opens connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketPlan<'a> {
    /// Who opens them.
    pub(crate) client: ClientKind,
    /// All addresses that the topology has.
    pub(crate) endpoints: &'a Endpoints,
    /// Client addresses that are used.
    pub(crate) clients: u32,
    /// Connections a second.
    pub(crate) rate: u64,
    /// Connections at once, where a client has no rate.
    pub(crate) concurrency: u16,
    /// How long they are opened.
    pub(crate) duration: Duration,
    /// What of the machine they may use.
    pub(crate) resources: ClientResources,
}

impl SocketPlan<'_> {
    /// Connections that are planned.
    pub(super) fn planned_connections(&self) -> u64 {
        (self.duration.as_secs_f64() * self.rate as f64).round() as u64
    }
}

/// How a trial of a study opens them at a point.
pub(crate) fn assemble_socket_plan_at_point<'a>(
    topology: &Topology,
    load: &'a ConnectionLoad,
    client: ClientKind,
    point: &Scenario,
    open: &ConnectionPlan,
) -> SocketPlan<'a> {
    let ConnectionPlan { rate, duration, .. } = *open;
    // A program has one address, and sends to one server.
    let (clients, servers) =
        client.program_name().map_or_else(|| load.active_endpoint_counts_at(point), |_| (1, 1));
    let resources = read_client_resources(topology, load, (clients, servers));
    let at_once = load
        .kernel_socket_clients
        .as_ref()
        .and_then(|kernel_socket_clients| kernel_socket_clients.closed_loop_client_connections);
    let at_once = at_once.unwrap_or(DEFAULT_CONCURRENT_CONNECTIONS);
    SocketPlan {
        client,
        endpoints: &load.endpoints,
        clients,
        rate,
        concurrency: at_once,
        duration,
        resources,
    }
}

/// What this many clients of so many servers have.
pub(crate) fn read_client_resources(
    topology: &Topology,
    load: &ConnectionLoad,
    (clients, servers): (u32, u32),
) -> ClientResources {
    let ports =
        load.kernel_socket_clients.as_ref().map_or(0, KernelSocketClients::ports_per_client);
    let endpoints = (u64::from(clients), u64::from(ports), u64::from(servers));
    ClientResources::from_source_and_sink_namespaces(
        endpoints,
        topology.source_namespace(),
        topology.sink_namespace(),
    )
}

/// Raises the number of descriptors as far as the process may; returns the clients' limits to print
/// before the measurement, one text per number of clients.
pub(crate) fn raise_nofile_and_describe_client_rate_limits(
    topology: &Topology,
    loaded: &LoadedStudy,
    points: &[Scenario],
) -> Vec<String> {
    let Some(load) = loaded.study.connection_load().filter(|c| c.kernel_socket_clients.is_some())
    else {
        return Vec::new();
    };
    raise_descriptor_limit_to_hard();
    let rate =
        |point: &Scenario| point.coordinate(load.preset_rate_override_axis.as_ref()?)?.as_number();
    let most = points.iter().filter_map(rate).max().unwrap_or(0);
    let mut endpoints: Vec<_> =
        points.iter().map(|point| load.active_endpoint_counts_at(point)).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    endpoints
        .iter()
        .map(|counts| read_client_resources(topology, load, *counts).describe_limits(most))
        .collect()
}

/// Raises the soft limit of descriptors to the hard one.
fn raise_descriptor_limit_to_hard() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused the preflight check reads what there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
