//! Frames of a table, sent through a firewall to the sink.

use std::time::Duration;

use weir_stats::{DropCount, TrialResults};
use weir_study::traffic::frames::FrameTraffic;

use crate::LabError;
use crate::bpf_program::frame_generator::SendPlan;
use crate::topology::FirewallWithCounters;
use crate::workload::frame_accounting::SentFrameTracker;
use crate::workload::workload_planner::{
    EMPTY_FIREWALL_CHECK_PACKETS, MissingArrivals, NEW_LINK_CHECK_TRIES_MAX, PlannedWorkload,
    TrialParameters, WorkloadPlanner,
};
use crate::workload::workload_resources::WorkloadResources;
use crate::workload::workload_trait::{Workload, WorkloadOutcome};

/// Frames of a study's command.
pub(crate) struct FrameWorkloadPlanner {
    has_drop_share: bool,
}

impl FrameWorkloadPlanner {
    /// As the study says.
    pub(crate) fn new(traffic: &FrameTraffic) -> FrameWorkloadPlanner {
        FrameWorkloadPlanner { has_drop_share: traffic.drop_axis.is_some() }
    }
}

impl<'a> WorkloadPlanner<'a> for FrameWorkloadPlanner {
    fn create_firewall(
        &self,
        resources: &mut WorkloadResources,
        ipv6: bool,
    ) -> Result<FirewallWithCounters, LabError> {
        resources.topology.create_firewall(ipv6)
    }

    fn plan_trial(
        &self,
        resources: &mut WorkloadResources,
        trial: &TrialParameters<'_>,
    ) -> Result<PlannedWorkload<'a>, LabError> {
        let TrialParameters { frames_scenario, frames, run_seed: seed, .. } = trial;
        resources.load_frames_into_generator(frames_scenario, frames, *seed)?;
        let send_plan = SendPlan {
            duration: trial.duration,
            rate_pps: trial.rate_pps,
            packets_max: 0,
            // A mix is even in its given order.
            shuffled: !self.has_drop_share,
            seed: *seed as u32 ^ trial.block,
        };
        let some_to_drop = frames.iter().any(|frame| frame.to_drop);
        Ok(PlannedWorkload::of_packets(FrameWorkload::new(send_plan), some_to_drop))
    }

    fn plan_empty_firewall_trial(
        &self,
        resources: &mut WorkloadResources,
        trial: &TrialParameters<'_>,
    ) -> Result<Box<dyn Workload + 'a>, LabError> {
        let TrialParameters { frames_scenario, frames, run_seed: seed, .. } = trial;
        resources.load_frames_into_generator(frames_scenario, frames, *seed)?;
        Ok(Box::new(FrameWorkload::new(SendPlan {
            duration: Duration::from_millis(500),
            rate_pps: 0,
            packets_max: EMPTY_FIREWALL_CHECK_PACKETS,
            shuffled: false,
            seed: 1,
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
        MissingArrivals::find_packet_loss(outcome, dropped, EMPTY_FIREWALL_CHECK_PACKETS)
    }
}

/// The frames that the stage has loaded.
pub(crate) struct FrameWorkload {
    send_plan: SendPlan,
    frame_tracker: SentFrameTracker,
}

impl FrameWorkload {
    /// See `send_plan`.
    pub(crate) fn new(send_plan: SendPlan) -> FrameWorkload {
        FrameWorkload { send_plan, frame_tracker: SentFrameTracker::default() }
    }

    /// As fast as possible, in random order.
    pub(crate) fn overload_plan(duration: Duration) -> SendPlan {
        SendPlan { duration, rate_pps: 0, packets_max: 0, shuffled: true, seed: 1 }
    }
}

impl Workload for FrameWorkload {
    fn duration(&self) -> Duration {
        self.send_plan.duration
    }

    fn can_attribute_link_losses(&self) -> bool {
        true
    }

    fn begin_trial(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        self.frame_tracker.store_counters_before(resources, firewall)
    }

    fn send_traffic(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        self.frame_tracker.send_result = resources.send_frames(firewall, &self.send_plan)?;
        Ok(())
    }

    fn await_packets_accounted_for(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<WorkloadOutcome, LabError> {
        self.frame_tracker.await_packets_accounted_for(
            resources,
            firewall,
            TrialResults::PacketSumsOrLoadTime,
        )
    }
}
