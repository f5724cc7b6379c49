//! What every workload does in a trial.
//!
//! The runner of trials reads counters before and after, and the noise of the core around
//! [`Workload::play`]; a workload sends, waits for what is under way, and says what arrived. What
//! it sends with belongs to the [`Stage`] of a run, for it is kept from one trial to the next.

use std::time::Duration;

use weir_stats::Measured;

use crate::LabError;
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::topology::TestFirewall;
use crate::workload::stage::Stage;

/// How the current thread runs while a workload plays.
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
