//! Frames of a table, sent through a firewall to the sink.

use std::time::Duration;

use weir_stats::TrialResults;

use crate::LabError;
use crate::bpf_program::frame_generator::SendPlan;
use crate::topology::FirewallWithCounters;
use crate::workload::frame_accounting::SentFrameTracker;
use crate::workload::workload_resources::WorkloadResources;
use crate::workload::workload_trait::{Workload, WorkloadOutcome};

/// The frames that the stage has loaded.
pub(crate) struct FrameWorkload {
    send_plan: SendPlan,
    frame_tracker: SentFrameTracker,
}

impl FrameWorkload {
    /// See `play`.
    pub(crate) fn new(play: SendPlan) -> FrameWorkload {
        FrameWorkload { send_plan: play, frame_tracker: SentFrameTracker::default() }
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

    fn prepare(
        &mut self,
        stage: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        self.frame_tracker.read_counters_before(stage, firewall)
    }

    fn send_traffic(
        &mut self,
        stage: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        self.frame_tracker.send_result = stage.send_frames(firewall, &self.send_plan)?;
        Ok(())
    }

    fn await_arrivals(
        &mut self,
        stage: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<WorkloadOutcome, LabError> {
        self.frame_tracker.await_arrivals(stage, firewall, TrialResults::PacketsOnly)
    }
}
