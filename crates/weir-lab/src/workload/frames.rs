//! Frames of a table, played through a firewall to the sink.

use std::time::{Duration, Instant};

use crate::LabError;
use crate::program::generator::{Play, Played};
use crate::program::sink::Arrived;
use crate::topology::TestFirewall;
use crate::workload::contract::{Workload, WorkloadOutcome};
use crate::workload::stage::Stage;
use weir_stats::Measured;

/// How long the counters may take to come to rest after a trial.
const SETTLE_LIMIT: Duration = Duration::from_millis(100);

/// The frames that the stage has loaded.
pub(crate) struct FrameWorkload {
    play: Play,
    before: ArrivalCounters,
    played: Played,
}

/// Counters that say when all frames are accounted for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArrivalCounters {
    arrived: Arrived,
    /// Drops of devices, and of the IP stack.
    dropped: u64,
}

impl ArrivalCounters {
    /// The counters now.
    pub(crate) fn read(
        stage: &mut Stage,
        firewall: &TestFirewall,
    ) -> Result<ArrivalCounters, LabError> {
        Ok(ArrivalCounters {
            arrived: stage.topology.sink().read()?,
            dropped: firewall.devices.dropped()? + firewall.stack.dropped()?,
        })
    }

    /// Waits until every packet is accounted for, or nothing moves any more; what arrived.
    pub(crate) fn settle(
        &self,
        stage: &mut Stage,
        firewall: &TestFirewall,
        offered: u64,
    ) -> Result<Arrived, LabError> {
        let begun = Instant::now();
        let mut last = 0;
        loop {
            let after = ArrivalCounters::read(stage, firewall)?;
            let arrived = after.arrived.since(self.arrived);
            let known = arrived.delivered + arrived.leaked + after.dropped - self.dropped;
            let limit = if known == last { SETTLE_LIMIT / 20 } else { SETTLE_LIMIT };
            if known >= offered || begun.elapsed() > limit {
                return Ok(arrived);
            }
            last = known;
            std::thread::yield_now();
        }
    }
}

impl FrameWorkload {
    /// As `play` says.
    pub(crate) fn new(play: Play) -> FrameWorkload {
        FrameWorkload { play, before: ArrivalCounters::default(), played: Played::default() }
    }

    /// As fast as it goes, in random order.
    pub(crate) fn overload(duration: Duration) -> Play {
        Play { duration, rate_pps: 0, packets_max: 0, shuffled: true, seed: 1 }
    }
}

impl Workload for FrameWorkload {
    fn duration(&self) -> Duration {
        self.play.duration
    }

    fn is_counted_on_links(&self) -> bool {
        true
    }

    fn prepare(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError> {
        self.before = ArrivalCounters::read(stage, firewall)?;
        Ok(())
    }

    fn play(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError> {
        self.played = stage.play(firewall, &self.play)?;
        Ok(())
    }

    fn settle(
        &mut self,
        stage: &mut Stage,
        firewall: &TestFirewall,
    ) -> Result<WorkloadOutcome, LabError> {
        let arrived = self.before.settle(stage, firewall, self.played.offered)?;
        Ok(WorkloadOutcome { played: self.played, arrived, measured: Measured::Sums })
    }
}
