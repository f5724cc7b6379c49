//! The interface of every kind of traffic that a study can send: its firewall, and the workloads of
//! its trials.
//!
//! A [`WorkloadPlanner`] is made for one subject of a study. It creates the subject's firewall,
//! with what the traffic needs at both ends, and plans the [`Workload`] of each trial: first a
//! short one while the firewall has no rules, then those that are measured. What differs between
//! trials is in [`TrialParameters`]; schedules know nothing else of the traffic.

use std::time::Duration;

use weir_stats::{
    ConnectionCounts, DropCount, Scenario, SubstituteClientReport, Trial, TrialKind, TrialResults,
};

use crate::LabError;
use crate::error::ArrivalUnit;
use crate::frames::Frame;
use crate::topology::FirewallWithCounters;
use crate::workload::workload_resources::WorkloadResources;
use crate::workload::workload_trait::{Workload, WorkloadOutcome};

/// Packets of the trial of a firewall without rules.
pub(crate) const EMPTY_FIREWALL_CHECK_PACKETS: u64 = 1000;
/// Attempts before a link is considered broken: a link that the kernel has only just set up on a
/// busy machine may lose the first packets.
pub(crate) const NEW_LINK_CHECK_TRIES_MAX: u32 = 3;

/// Sends the traffic of a study through the firewall of one subject.
pub(crate) trait WorkloadPlanner<'a> {
    /// Creates the firewall; `ipv6` says that some frames are IPv6.
    fn create_firewall(
        &self,
        resources: &mut WorkloadResources,
        ipv6: bool,
    ) -> Result<FirewallWithCounters, LabError>;

    /// The workload of a trial that is recorded.
    fn plan_trial(
        &self,
        resources: &mut WorkloadResources,
        trial: &TrialParameters<'_>,
    ) -> Result<PlannedWorkload<'a>, LabError>;

    /// A short workload for a firewall without rules. The length, the rate and the block of the
    /// parameters do not apply to it.
    fn plan_empty_firewall_trial(
        &self,
        resources: &mut WorkloadResources,
        trial: &TrialParameters<'_>,
    ) -> Result<Box<dyn Workload + 'a>, LabError>;

    /// How often that trial is attempted before the firewall is considered broken.
    fn max_empty_firewall_check_tries(&self) -> u32 {
        1
    }

    /// What is missing in the outcome of that trial; `None` if everything arrived.
    fn find_empty_firewall_loss(
        &self,
        outcome: &WorkloadOutcome,
        dropped: &[DropCount],
    ) -> Option<MissingArrivals> {
        MissingArrivals::find_packet_loss(outcome, dropped, 0)
    }
}

/// The point of a study's grid that a trial belongs to, and how the trial is measured.
#[derive(Clone, Default)]
pub(crate) struct TrialParameters<'t> {
    /// The point of the grid.
    pub(crate) scenario: Scenario,
    /// The number of the block.
    pub(crate) block: u32,
    /// How long it sends.
    pub(crate) duration: Duration,
    /// The preset's rate; 0: as fast as possible.
    pub(crate) rate_pps: u64,
    /// The run's seed.
    pub(crate) run_seed: u64,
    /// Verify everything possible, at the cost of speed.
    pub(crate) verify_all: bool,
    /// The part of the grid that the frames depend on.
    pub(crate) frames_scenario: Scenario,
    /// The frames of the point; none in a study of other traffic.
    pub(crate) frames: &'t [Frame],
}

/// A workload, and how its trial is recorded.
pub(crate) struct PlannedWorkload<'a> {
    pub(crate) workload: Box<dyn Workload + 'a>,
    /// Rules may have to drop some of what is sent.
    pub(crate) expects_drops: bool,
    /// The name of a trial of connections, and its rate; that of packets follows the preset.
    connection_kind_and_rate: Option<(TrialKind, f64)>,
    /// A client that opens connections in place of sockets.
    substitute_client: Option<SubstituteClientReport>,
}

impl<'a> PlannedWorkload<'a> {
    /// Packets, which are offered as the preset says.
    pub(crate) fn of_packets(
        workload: impl Workload + 'a,
        expects_drops: bool,
    ) -> PlannedWorkload<'a> {
        PlannedWorkload {
            workload: Box::new(workload),
            expects_drops,
            connection_kind_and_rate: None,
            substitute_client: None,
        }
    }

    /// Connections at a rate per second; 0: clients have no rate.
    pub(crate) fn of_connections(
        workload: impl Workload + 'a,
        expects_drops: bool,
        (kind, rate_per_second): (TrialKind, f64),
        substitute_client: Option<SubstituteClientReport>,
    ) -> PlannedWorkload<'a> {
        PlannedWorkload {
            workload: Box::new(workload),
            expects_drops,
            connection_kind_and_rate: Some((kind, rate_per_second)),
            substitute_client,
        }
    }

    /// Sets the kind and rate of a trial, and the client that opened its connections.
    pub(crate) fn set_trial_kind_rate_and_client(&self, trial: &mut Trial) {
        if let Some((kind, rate_pps)) = self.connection_kind_and_rate {
            // The compared quantity is the same for all clients.
            (trial.kind, trial.rate_pps) = (kind, rate_pps);
        }
        if let (TrialResults::Connections(record), Some(client)) =
            (&mut trial.results, &self.substitute_client)
        {
            record.client = Some(client.clone());
        }
    }
}

/// A shortfall of packets or connections after a firewall without rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingArrivals {
    pub(crate) arrived: u64,
    pub(crate) offered: u64,
    pub(crate) unit: ArrivalUnit,
    /// What counters and clients report.
    pub(crate) reasons: Vec<String>,
}

impl MissingArrivals {
    /// The packets that are missing; `None` if all arrived, and at least `min_packets`.
    pub(crate) fn find_packet_loss(
        outcome: &WorkloadOutcome,
        dropped: &[DropCount],
        min_packets: u64,
    ) -> Option<MissingArrivals> {
        let arrived = outcome.arrived.delivered + outcome.arrived.leaked;
        let offered = outcome.send_result.offered;
        if arrived == offered && arrived >= min_packets {
            return None;
        }
        let (unit, reasons) = (ArrivalUnit::Packets, describe_drop_counts(dropped));
        Some(MissingArrivals { arrived, offered, unit, reasons })
    }

    /// The connections that were not completed, with the failed ones and other reasons.
    pub(crate) fn of_connections(
        record: &ConnectionCounts,
        other_reasons: Vec<String>,
    ) -> MissingArrivals {
        let failed = record.failed.iter().map(|f| format!("{} {}", f.at, f.connections));
        MissingArrivals {
            arrived: record.completed,
            offered: record.started,
            unit: ArrivalUnit::Connections,
            reasons: failed.chain(other_reasons).collect(),
        }
    }
}

/// A text for each counter.
pub(crate) fn describe_drop_counts(dropped: &[DropCount]) -> Vec<String> {
    dropped.iter().map(|drop| format!("{} {}", drop.counter, drop.packets)).collect()
}

/// The connections of a workload that opens them.
pub(crate) fn unwrap_connection_counts(outcome: &WorkloadOutcome) -> &ConnectionCounts {
    match &outcome.trial_results {
        TrialResults::Connections(record) => record,
        _ => unreachable!("a workload of connections records them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::datagram_outcome::DatagramCounts;
    use weir_stats::{ConnectionClose, ConnectionFailureCount};

    #[test]
    fn packets_not_arrived_or_not_sent_are_missing() {
        let dropped = [DropCount { counter: "device".to_owned(), packets: 1 }];
        let missing = |sent, received, min_packets| {
            let counts = DatagramCounts { sent, received, seconds: 0.1 };
            let outcome = counts.to_workload_outcome(false);
            MissingArrivals::find_packet_loss(&outcome, &dropped, min_packets)
        };
        assert_eq!(missing(10, 10, 10), None);
        let reasons = vec!["device 1".to_owned()];
        let unit = ArrivalUnit::Packets;
        let one = MissingArrivals { arrived: 9, offered: 10, unit, reasons };
        assert_eq!(missing(10, 9, 0), Some(one));
        assert!(missing(9, 9, 10).is_some(), "one was not sent");
    }

    #[test]
    fn an_error_about_missing_connections_does_not_mention_packets() {
        let failed = ConnectionFailureCount { at: "SYN".to_owned(), connections: 2 };
        let record = ConnectionCounts {
            started: 5,
            completed: 3,
            failed: vec![failed],
            ..ConnectionCounts::empty(ConnectionClose::Fin)
        };
        let missing = MissingArrivals::of_connections(&record, vec!["device 1".to_owned()]);
        let error = LabError::EmptyFirewallLoss {
            arrived: missing.arrived,
            offered: missing.offered,
            unit: missing.unit,
            namespace: "fw0".to_owned(),
            why: missing.reasons.join(", "),
        };
        let said = "3 of 5 connections were completed after fw0: SYN 2, device 1";
        assert_eq!(error.to_string(), said);
    }
}
