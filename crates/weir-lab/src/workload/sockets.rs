//! Connections between kernel sockets, for realism: like a browser and a server.
//!
//! Both ends are threads with `epoll`, with the firewall between them. Connections are opened at
//! planned times, and response times count from the planned time. Each connection has one of many
//! client addresses, a port that the kernel chooses when it connects (`IP_BIND_ADDRESS_NO_PORT`), a
//! request and a reply that are compared byte by byte, and a timeout of 5 seconds. The client
//! closes first, so its port waits in TIME_WAIT. Errors are counted by kind.
//!
//! Here clients and servers cost more than the firewall, tens of microseconds per connection. Use
//! [`crate::bpf_program::stateless_tcp`] to distinguish firewalls, and this workload to check that
//! real ends work, how many packets a fetch needs, and where a client's own limits apply
//! ([`client_limits`]).
//!
//! A subject may name another client ([`ClientKind`]): weir's small TCP, or
//! another program, which runs on the clients' core and sends requests to the same servers.
//!
//! Packets are balanced on the links: what entered the firewall by either device left by the other
//! one and arrived, or is in a counter of drops.

mod client;
pub(crate) mod client_limits;
mod client_result;
mod external_clients;
mod http;
mod link_counters;
mod server;
pub(crate) mod socket_plan;

use std::time::Duration;

use weir_kernel::Namespace;
use weir_stats::{ConnectionClose, ConnectionCounts, DropCount};
use weir_study::{ClientKind, ConnectionLoad, KernelSocketClients};

use crate::LabError;
use crate::bpf_program::frame_generator::SendResult;
use crate::bpf_program::sink::SinkPacketCounts;
use crate::observe::core_pinning::pick_other_core_or_same;
use crate::topology::FirewallWithCounters;
use crate::workload::connection_planning::{
    connection_trial_kind_by_clients_and_close, plan_connections_and_set_endpoints,
};
use crate::workload::response_time::summarise_latencies;
use crate::workload::workload_planner::{
    MissingArrivals, PlannedWorkload, TrialParameters, WorkloadPlanner, unwrap_connection_counts,
};
use crate::workload::workload_resources::WorkloadResources;
use crate::workload::workload_trait::{Workload, WorkloadOutcome, WorkloadScheduling};
use weir_stats::TrialResults;

use client::{FetchPlan, FetchResult};
use client_limits::ClientResources;
use client_result::{ClientCountsAndSeconds, socket_io_error, to_failure_records};
use link_counters::LinkCounters;
use server::ServerThread;
use socket_plan::{
    DEFAULT_CONCURRENT_CONNECTIONS, SocketPlan, assemble_socket_plan_at_point,
    read_client_resources,
};

/// Connections through a firewall without rules, and their rate.
const EMPTY_FIREWALL_CHECK_CONNECTIONS: u64 = 50;
const EMPTY_FIREWALL_CHECK_CONNECTIONS_PER_SECOND: u64 = 500;

/// Connections of a study between sockets.
pub(crate) struct SocketWorkloadPlanner<'a> {
    connection_load: &'a ConnectionLoad,
    client: ClientKind,
}

impl<'a> SocketWorkloadPlanner<'a> {
    /// With a subject's client.
    pub(crate) fn new(
        connection_load: &'a ConnectionLoad,
        client: ClientKind,
    ) -> SocketWorkloadPlanner<'a> {
        SocketWorkloadPlanner { connection_load, client }
    }
}

impl<'a> WorkloadPlanner<'a> for SocketWorkloadPlanner<'a> {
    fn create_firewall(
        &self,
        resources: &mut WorkloadResources,
        _ipv6: bool,
    ) -> Result<FirewallWithCounters, LabError> {
        let ConnectionLoad { endpoints, kernel_socket_clients, .. } = self.connection_load;
        let ports = kernel_socket_clients.as_ref().map_or(0, KernelSocketClients::ports_per_client);
        resources.topology.create_kernel_socket_firewall(endpoints, ports)
    }

    fn plan_trial(
        &self,
        resources: &mut WorkloadResources,
        trial: &TrialParameters<'_>,
    ) -> Result<PlannedWorkload<'a>, LabError> {
        let (connection_load, client) = (self.connection_load, self.client);
        let open = plan_connections_and_set_endpoints(resources, connection_load, trial)?;
        let socket_plan = assemble_socket_plan_at_point(
            &resources.topology,
            connection_load,
            client,
            &trial.scenario,
            &open,
        );
        let rate_pps = if client.opens_at_fixed_rate() { open.rate as f64 } else { 0.0 };
        Ok(PlannedWorkload::of_connections(
            SocketWorkload::new(socket_plan),
            false,
            (connection_trial_kind_by_clients_and_close(connection_load), rate_pps),
            None,
        ))
    }

    /// Fetches by weir's own client.
    fn plan_empty_firewall_trial(
        &self,
        resources: &mut WorkloadResources,
        _trial: &TrialParameters<'_>,
    ) -> Result<Box<dyn Workload + 'a>, LabError> {
        let endpoints = &self.connection_load.endpoints;
        let clients = endpoints.client_count.min(EMPTY_FIREWALL_CHECK_CONNECTIONS as u32);
        let counts = (clients, endpoints.server_count);
        Ok(Box::new(SocketWorkload::new(SocketPlan {
            client: ClientKind::Sockets,
            endpoints,
            clients,
            rate: EMPTY_FIREWALL_CHECK_CONNECTIONS_PER_SECOND,
            concurrency: DEFAULT_CONCURRENT_CONNECTIONS,
            duration: Duration::from_secs(EMPTY_FIREWALL_CHECK_CONNECTIONS)
                / EMPTY_FIREWALL_CHECK_CONNECTIONS_PER_SECOND as u32,
            resources: read_client_resources(&resources.topology, self.connection_load, counts),
        })))
    }

    fn find_empty_firewall_loss(
        &self,
        outcome: &WorkloadOutcome,
        _dropped: &[DropCount],
    ) -> Option<MissingArrivals> {
        let record = unwrap_connection_counts(outcome);
        if record.completed > 0 && record.failed.is_empty() {
            return None;
        }
        Some(MissingArrivals::of_connections(record, Vec::new()))
    }
}

/// Connections between sockets: clients on the stage's core, servers on another.
pub(crate) struct SocketWorkload<'a> {
    socket_plan: SocketPlan<'a>,
    prepared_trial: Option<PreparedSocketTrial>,
    client_result: Option<ClientCountsAndSeconds>,
}

/// What is before a trial.
struct PreparedSocketTrial {
    server_thread: ServerThread,
    link_counters: LinkCounters,
    /// Packets that entered and left so far.
    packets_before: (u64, u64),
    first_client_offset: u32,
}

impl<'a> SocketWorkload<'a> {
    /// As the plan says.
    pub(crate) fn new(socket_plan: SocketPlan<'a>) -> SocketWorkload<'a> {
        SocketWorkload { socket_plan, prepared_trial: None, client_result: None }
    }
}

impl Workload for SocketWorkload<'_> {
    fn duration(&self) -> Duration {
        self.socket_plan.duration
    }

    fn scheduling(&self) -> WorkloadScheduling {
        WorkloadScheduling::NormalPriorityOnGeneratorCore
    }

    fn begin_trial(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        firewall.command_target.flush_conntrack(false)?;
        let link_counters = LinkCounters::open(&resources.topology, firewall)?;
        let (sink, port) =
            (resources.topology.sink_namespace(), self.socket_plan.endpoints.server_port);
        let serving = sink
            .call_inside(|| {
                ServerThread::start_in_current_namespace(
                    &firewall.source_and_sink_devices.1,
                    port,
                    pick_other_core_or_same(resources.core),
                )
            })?
            .map_err(socket_io_error)?;
        let before = link_counters.read_packets_entered_and_left()?;
        let first_client_offset =
            resources.reserve_clients_and_get_first_index(self.socket_plan.clients);
        self.prepared_trial = Some(PreparedSocketTrial {
            server_thread: serving,
            link_counters,
            packets_before: before,
            first_client_offset,
        });
        Ok(())
    }

    fn send_traffic(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        let first = self.prepared_trial.as_ref().expect("prepared before").first_client_offset;
        self.client_result = Some(run_clients(
            resources.topology.source_namespace(),
            firewall,
            &self.socket_plan,
            first,
        )?);
        Ok(())
    }

    fn await_packets_accounted_for(
        &mut self,
        _stage: &mut WorkloadResources,
        _firewall: &FirewallWithCounters,
    ) -> Result<WorkloadOutcome, LabError> {
        let PreparedSocketTrial {
            server_thread: serving,
            link_counters,
            packets_before: before,
            ..
        } = self.prepared_trial.take().expect("prepared before");
        let (mut connections, seconds) = self.client_result.take().expect("played before");
        let (entered, left) = link_counters.await_no_packet_movement(before)?;
        let served = serving.stop().map_err(socket_io_error)?;
        // A reply that was never sent.
        connections.invalid_packets = connections.completed.saturating_sub(served);
        Ok(WorkloadOutcome {
            send_result: SendResult {
                offered: entered,
                skipped_behind_schedule: connections.skipped_behind_schedule,
                finished: true,
                seconds,
                ..SendResult::default()
            },
            arrived: SinkPacketCounts { delivered: left, ..SinkPacketCounts::default() },
            trial_results: TrialResults::Connections(Box::new(connections)),
        })
    }

    fn clean_up(&mut self, firewall: &FirewallWithCounters) -> Result<(), LabError> {
        firewall.command_target.flush_conntrack(false)
    }
}

/// Runs the clients of a trial on the current core.
fn run_clients(
    source: &Namespace,
    firewall: &FirewallWithCounters,
    socket_plan: &SocketPlan<'_>,
    first_client_index: u32,
) -> Result<ClientCountsAndSeconds, LabError> {
    if let Some(program) = external_clients::choose_program_adapter(socket_plan.client) {
        return external_clients::run_program_for_connection_counts(
            source,
            firewall,
            socket_plan,
            first_client_index,
            &program,
        );
    }
    let fetching = FetchPlan {
        socket_plan: *socket_plan,
        first_client_offset: first_client_index,
        device: &firewall.source_and_sink_devices.0,
    };
    let fetched =
        source.call_inside(|| client::run_fetches(&fetching))?.map_err(socket_io_error)?;
    Ok((build_record_from_client_results(&fetched, &socket_plan.resources), fetched.seconds))
}

fn build_record_from_client_results(
    fetched: &FetchResult,
    resources: &ClientResources,
) -> ConnectionCounts {
    ConnectionCounts {
        started: fetched.offered,
        completed: fetched.completed,
        failed: to_failure_records(
            fetched.failures_by_kind.iter().map(|(at, count)| (*at, *count)),
        ),
        foreign_resets: fetched.failures_by_kind.get("reset").copied().unwrap_or(0),
        skipped_behind_schedule: fetched.skipped_behind_schedule,
        establish: summarise_latencies(&fetched.planned_to_established_times_ns),
        whole: summarise_latencies(&fetched.planned_to_reply_times_ns),
        limits: client_limits::to_limit_records(&resources.connection_rate_limits()),
        ..ConnectionCounts::empty(ConnectionClose::Fin)
    }
}
