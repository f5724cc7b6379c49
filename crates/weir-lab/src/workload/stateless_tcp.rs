//! Connections of the small TCP ([`crate::bpf_program::stateless_tcp`]), opened through a firewall.

use std::time::Duration;

use weir_stats::{ConnectionClose, DropCount, DurationDistribution};
use weir_study::{ClientKind, ConnectionLoad, ConnectionPath};

use crate::LabError;
use crate::bpf_program::frame_generator::SendResult;
use crate::bpf_program::sink::SinkPacketCounts;
use crate::bpf_program::stateless_tcp::{
    ConnectionGeneratorResult, ConnectionPlan, StatelessTcpEndpoints,
};
use crate::topology::FirewallWithCounters;
use crate::workload::completed_connection_sampling::CompletedConnectionSampler;
use crate::workload::connection_planning::{
    connection_trial_kind_by_clients_and_close, plan_connections_and_set_endpoints,
};
use crate::workload::settle::{InFlightPacketReading, SettleTimeLimits, wait_until_settled};
use crate::workload::workload_planner::{
    MissingArrivals, NEW_LINK_CHECK_TRIES_MAX, PlannedWorkload, TrialParameters, WorkloadPlanner,
    describe_drop_counts, unwrap_connection_counts,
};
use crate::workload::workload_resources::WorkloadResources;
use crate::workload::workload_trait::{Workload, WorkloadOutcome};
use weir_stats::TrialResults;

/// Connections through a firewall without rules.
const EMPTY_FIREWALL_CHECK_CONNECTIONS: u64 = 500;

/// Connections of a study that the small TCP opens.
pub(crate) struct StatelessTcpPlanner<'a> {
    connection_load: &'a ConnectionLoad,
    path: ConnectionPath,
    client: ClientKind,
}

impl<'a> StatelessTcpPlanner<'a> {
    /// On a subject's path; `client` is the subject's.
    pub(crate) fn new(
        connection_load: &'a ConnectionLoad,
        path: ConnectionPath,
        client: ClientKind,
    ) -> StatelessTcpPlanner<'a> {
        StatelessTcpPlanner { connection_load, path, client }
    }
}

impl<'a> WorkloadPlanner<'a> for StatelessTcpPlanner<'a> {
    fn create_firewall(
        &self,
        resources: &mut WorkloadResources,
        _ipv6: bool,
    ) -> Result<FirewallWithCounters, LabError> {
        resources.create_stateless_tcp_path(self.path, &self.connection_load.endpoints)
    }

    fn plan_trial(
        &self,
        resources: &mut WorkloadResources,
        trial: &TrialParameters<'_>,
    ) -> Result<PlannedWorkload<'a>, LabError> {
        let open = plan_connections_and_set_endpoints(resources, self.connection_load, trial)?;
        let rate = open.rate as f64;
        Ok(PlannedWorkload::of_connections(
            StatelessTcpWorkload::new(open),
            // Beside a flood, connections may be dropped, too.
            self.connection_load.flood_axis.is_some(),
            (connection_trial_kind_by_clients_and_close(self.connection_load), rate),
            self.client.to_substitute_client_report(DurationDistribution::default()),
        ))
    }

    fn plan_empty_firewall_trial(
        &self,
        resources: &mut WorkloadResources,
        trial: &TrialParameters<'_>,
    ) -> Result<Box<dyn Workload + 'a>, LabError> {
        Ok(Box::new(StatelessTcpWorkload::new(ConnectionPlan {
            duration: Duration::from_millis(500),
            rate: 0,
            connections_max: EMPTY_FIREWALL_CHECK_CONNECTIONS,
            close: ConnectionClose::Fin,
            verify_checksums: false,
            secret: resources.next_trial_tag(trial.run_seed),
            flood_syns_per_connection: 0,
        })))
    }

    fn max_empty_firewall_check_tries(&self) -> u32 {
        NEW_LINK_CHECK_TRIES_MAX
    }

    fn find_empty_firewall_loss(
        &self,
        outcome: &WorkloadOutcome,
        dropped: &[DropCount],
    ) -> Option<MissingArrivals> {
        let record = unwrap_connection_counts(outcome);
        if record.completed >= EMPTY_FIREWALL_CHECK_CONNECTIONS {
            return None;
        }
        Some(MissingArrivals::of_connections(record, describe_drop_counts(dropped)))
    }
}

/// Connections as a trial opens them.
pub(crate) struct StatelessTcpWorkload {
    connection_plan: ConnectionPlan,
    completed_connection_sampler: Option<CompletedConnectionSampler>,
    open_result: ConnectionGeneratorResult,
}

impl StatelessTcpWorkload {
    /// As `open` says.
    pub(crate) fn new(open: ConnectionPlan) -> StatelessTcpWorkload {
        StatelessTcpWorkload {
            connection_plan: open,
            completed_connection_sampler: None,
            open_result: ConnectionGeneratorResult::default(),
        }
    }

    /// Memory is measured only where connections are left open.
    fn leaves_connections_open(&self) -> bool {
        self.connection_plan.close == ConnectionClose::Never
    }
}

impl Workload for StatelessTcpWorkload {
    fn duration(&self) -> Duration {
        self.connection_plan.duration
    }

    fn begin_trial(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        firewall.command_target.flush_conntrack(self.leaves_connections_open())?;
        self.completed_connection_sampler = CompletedConnectionSampler::start_for_long_trial(
            expect_tcp_endpoints(resources),
            self.connection_plan.duration,
        )?;
        Ok(())
    }

    fn send_traffic(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        let source = resources.topology.source_namespace().clone();
        self.open_result = expect_tcp_endpoints(resources).open_connections(
            &source,
            firewall.send_ifindex,
            &self.connection_plan,
        )?;
        Ok(())
    }

    fn await_packets_accounted_for(
        &mut self,
        resources: &mut WorkloadResources,
        _firewall: &FirewallWithCounters,
    ) -> Result<WorkloadOutcome, LabError> {
        let (ends, opened) = (expect_tcp_endpoints(resources), self.open_result);
        await_all_packets(ends, opened.offered + opened.flood)?;
        let both = ends.read_tallies()?;
        let mut record =
            ends.build_connections_record(&opened, &both, self.connection_plan.close)?;
        record.progress = self
            .completed_connection_sampler
            .take()
            .map_or_else(Vec::new, CompletedConnectionSampler::stop);
        Ok(WorkloadOutcome {
            send_result: SendResult {
                offered: opened.offered + opened.flood + both.answers_sent(),
                to_drop: opened.flood,
                skipped_behind_schedule: opened.skipped_behind_schedule,
                finished: opened.finished,
                seconds: opened.seconds,
            },
            arrived: SinkPacketCounts {
                delivered: both.connection_packets_received(),
                leaked: both.server.flood_syns_received,
                foreign: both.client.foreign + both.server.foreign,
            },
            trial_results: TrialResults::Connections(Box::new(record)),
        })
    }

    /// Millions of entries would be walked, and would take memory, in the trials of others.
    fn clean_up(&mut self, firewall: &FirewallWithCounters) -> Result<(), LabError> {
        firewall.command_target.flush_conntrack(self.leaves_connections_open())
    }
}

fn expect_tcp_endpoints(resources: &mut WorkloadResources) -> &mut StatelessTcpEndpoints {
    resources.tcp_endpoints.as_mut().expect("a study of connections has both ends")
}

/// Waits until every packet has arrived, or none does any more.
fn await_all_packets(ends: &StatelessTcpEndpoints, opened: u64) -> Result<(), LabError> {
    wait_until_settled(SettleTimeLimits::BPF_PROGRAMS, || {
        let both = ends.read_tallies()?;
        let moved = both.connection_packets_received() + both.server.flood_syns_received;
        let is_complete = moved >= opened + both.answers_sent();
        Ok(InFlightPacketReading { counted_packets: moved, is_complete, final_value: () })
    })
}
