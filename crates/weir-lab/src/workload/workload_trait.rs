//! The interface of every workload.
//!
//! The trial runner reads counters before and after [`Workload::send_traffic`], and the noise of
//! the core during it; a workload sends, waits for packets in flight, and reports what arrived. Its
//! resources belong to the [`WorkloadResources`] of a run, because they are reused from trial to
//! trial.

use std::time::Duration;

use weir_stats::TrialResults;

use crate::LabError;
use crate::bpf_program::frame_generator::SendResult;
use crate::bpf_program::sink::SinkPacketCounts;
use crate::topology::FirewallWithCounters;
use crate::workload::workload_resources::WorkloadResources;

/// The scheduling of the current thread while a workload runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadScheduling {
    /// On the generator's core, before everything else where the trial is short enough.
    RealtimeOnGeneratorCore,
    /// On the generator's core, as any other thread.
    NormalPriorityOnGeneratorCore,
    /// The workload pins its threads itself.
    SelfPinned,
}

/// What is sent through a firewall in one trial.
pub(crate) trait Workload {
    /// How long it sends, about.
    fn duration(&self) -> Duration;

    /// How it is scheduled.
    fn scheduling(&self) -> WorkloadScheduling {
        WorkloadScheduling::RealtimeOnGeneratorCore
    }

    /// Whether a packet that no counter of drops knows of can be looked for on the links: only
    /// where each packet that is sent arrives at the sink's program.
    fn can_attribute_link_losses(&self) -> bool {
        false
    }

    /// Starts servers and takes baselines of counters, before the runner reads its own.
    fn begin_trial(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError>;

    /// Sends.
    fn send_traffic(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError>;

    /// Waits until all packets have arrived or been dropped, or nothing moves any more; what was
    /// sent, and what arrived.
    fn await_packets_accounted_for(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<WorkloadOutcome, LabError>;

    /// Puts back what would disturb later trials, after the counters were read.
    fn clean_up(&mut self, _firewall: &FirewallWithCounters) -> Result<(), LabError> {
        Ok(())
    }
}

/// What a workload saw at its own ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkloadOutcome {
    pub(crate) send_result: SendResult,
    pub(crate) arrived: SinkPacketCounts,
    pub(crate) trial_results: TrialResults,
}
