//! Frames that a workload sent through a firewall: what arrived of them, and when all are accounted
//! for.

use std::time::Duration;

use weir_stats::Measured;

use crate::LabError;
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::topology::TestFirewall;
use crate::workload::contract::WorkloadOutcome;
use crate::workload::settle::{TransitReading, wait_until_settled};
use crate::workload::stage::Stage;

/// How long the counters may take to come to rest after a trial.
const SETTLE_LIMIT: Duration = Duration::from_millis(100);
/// How long nothing may move before the rest counts as lost.
const STILL: Duration = Duration::from_millis(5);

/// The frames of a trial.
#[derive(Debug, Default)]
pub(crate) struct SentFrames {
    before: ArrivalCounters,
    /// What was sent.
    pub(crate) played: Played,
}

/// Counters that say when all frames are accounted for.
#[derive(Clone, Copy, Debug, Default)]
struct ArrivalCounters {
    arrived: Arrived,
    /// Drops of devices, and of the IP stack.
    dropped: u64,
}

impl ArrivalCounters {
    /// The counters now.
    fn read(stage: &mut Stage, firewall: &TestFirewall) -> Result<ArrivalCounters, LabError> {
        Ok(ArrivalCounters {
            arrived: stage.topology.sink().read()?,
            dropped: firewall.devices.dropped()? + firewall.stack.dropped()?,
        })
    }
}

impl SentFrames {
    /// Reads the counters before anything is sent.
    pub(crate) fn prepare(
        &mut self,
        stage: &mut Stage,
        firewall: &TestFirewall,
    ) -> Result<(), LabError> {
        self.before = ArrivalCounters::read(stage, firewall)?;
        Ok(())
    }

    /// Waits until every frame is accounted for, or nothing moves any more.
    pub(crate) fn settle(
        &self,
        stage: &mut Stage,
        firewall: &TestFirewall,
        measured: Measured,
    ) -> Result<WorkloadOutcome, LabError> {
        let (before, played) = (self.before, self.played);
        let arrived = wait_until_settled(SETTLE_LIMIT, STILL, || {
            let after = ArrivalCounters::read(stage, firewall)?;
            let arrived = after.arrived.since(before.arrived);
            let moved = arrived.delivered + arrived.leaked + after.dropped - before.dropped;
            let is_complete = moved >= played.offered;
            Ok(TransitReading { moved, is_complete, value: arrived })
        })?;
        Ok(WorkloadOutcome { played, arrived, measured })
    }
}
