//! The interface of every workload.
//!
//! The trial runner reads counters before and after [`Workload::play`], and the noise of the core
//! during it; a workload sends, waits for packets in flight, and reports what arrived. Its
//! resources belong to the [`Stage`] of a run, because they are reused from trial to trial.

use std::time::Duration;

use weir_stats::Measured;

use crate::LabError;
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::topology::TestFirewall;
use crate::workload::stage::Stage;

/// The scheduling of the current thread while a workload runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduling {
    /// On the generator's core, before everything else where the trial is short enough.
    Burst,
    /// On the generator's core, as any other thread.
    Pinned,
    /// The workload pins its threads itself.
    Own,
}

/// What is sent through a firewall in one trial.
pub(crate) trait Workload {
    /// How long it sends, about.
    fn duration(&self) -> Duration;

    /// How it is scheduled.
    fn scheduling(&self) -> Scheduling {
        Scheduling::Burst
    }

    /// Whether a packet that no counter of drops knows of can be looked for on the links: only
    /// where each packet that is sent arrives at the sink's program.
    fn is_counted_on_links(&self) -> bool {
        false
    }

    /// Gets ready, before any counter is read.
    fn prepare(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError>;

    /// Sends.
    fn play(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError>;

    /// Waits until nothing is under way any more; what was sent, and what arrived.
    fn settle(
        &mut self,
        stage: &mut Stage,
        firewall: &TestFirewall,
    ) -> Result<WorkloadOutcome, LabError>;

    /// Puts back what would disturb later trials, after the counters were read.
    fn clean_up(&mut self, _firewall: &TestFirewall) -> Result<(), LabError> {
        Ok(())
    }
}

/// What a workload saw at its own ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkloadOutcome {
    pub(crate) played: Played,
    pub(crate) arrived: Arrived,
    pub(crate) measured: Measured,
}
