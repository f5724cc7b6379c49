//! Frames that a workload sent through a firewall: what arrived of them, and when all are accounted
//! for.

use weir_stats::TrialResults;

use crate::LabError;
use crate::bpf_program::frame_generator::SendResult;
use crate::bpf_program::sink::SinkPacketCounts;
use crate::topology::FirewallWithCounters;
use crate::workload::settle::{InFlightPacketReading, SettleTimeLimits, wait_until_settled};
use crate::workload::workload_resources::WorkloadResources;
use crate::workload::workload_trait::WorkloadOutcome;

/// The frames of a trial.
#[derive(Debug, Default)]
pub(crate) struct SentFrameTracker {
    counters_before: ArrivalAndDropCounts,
    /// What was sent.
    pub(crate) send_result: SendResult,
}

/// Counters that say when all frames are accounted for.
#[derive(Clone, Copy, Debug, Default)]
struct ArrivalAndDropCounts {
    arrived: SinkPacketCounts,
    /// Drops of devices, and of the IP stack.
    dropped: u64,
}

impl ArrivalAndDropCounts {
    /// The counters now.
    fn read(
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<ArrivalAndDropCounts, LabError> {
        Ok(ArrivalAndDropCounts {
            arrived: resources.topology.sink().read_counts()?,
            dropped: firewall.device_drops.dropped_packets()?
                + firewall.stack_counters.discarded_packets()?,
        })
    }
}

impl SentFrameTracker {
    /// Reads the counters before anything is sent.
    pub(crate) fn store_counters_before(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        self.counters_before = ArrivalAndDropCounts::read(resources, firewall)?;
        Ok(())
    }

    /// Waits until every frame is accounted for, or nothing moves any more.
    pub(crate) fn await_packets_accounted_for(
        &self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
        trial_results: TrialResults,
    ) -> Result<WorkloadOutcome, LabError> {
        let (before, played) = (self.counters_before, self.send_result);
        let arrived = wait_until_settled(SettleTimeLimits::BPF_PROGRAMS, || {
            let after = ArrivalAndDropCounts::read(resources, firewall)?;
            let arrived = after.arrived.since(before.arrived);
            let moved = arrived.delivered + arrived.leaked + after.dropped - before.dropped;
            let is_complete = moved >= played.offered;
            Ok(InFlightPacketReading { counted_packets: moved, is_complete, final_value: arrived })
        })?;
        Ok(WorkloadOutcome { send_result: played, arrived, trial_results })
    }
}
