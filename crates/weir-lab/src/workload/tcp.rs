//! Connections of the small TCP ([`crate::program::tcp`]), opened through a firewall.

use std::time::Duration;

use weir_stats::Close;

use crate::LabError;
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::program::tcp::{ConnectionPlan, Opened, TcpEnds};
use crate::topology::TestFirewall;
use crate::workload::contract::{Workload, WorkloadOutcome};
use crate::workload::progress::ProgressSampler;
use crate::workload::settle::{TransitReading, wait_until_settled};
use crate::workload::stage::Stage;
use weir_stats::Measured;

/// How long packets may be under way after a trial.
const SETTLE_LIMIT: Duration = Duration::from_millis(100);
/// How long none may arrive before the rest counts as lost.
const STILL: Duration = Duration::from_millis(5);

/// Connections as a trial opens them.
pub(crate) struct TcpWorkload {
    open: ConnectionPlan,
    sampler: Option<ProgressSampler>,
    opened: Opened,
}

impl TcpWorkload {
    /// As `open` says.
    pub(crate) fn new(open: ConnectionPlan) -> TcpWorkload {
        TcpWorkload { open, sampler: None, opened: Opened::default() }
    }

    /// Memory is looked at only where connections are left open.
    fn is_held(&self) -> bool {
        self.open.close == Close::Never
    }
}

impl Workload for TcpWorkload {
    fn duration(&self) -> Duration {
        self.open.duration
    }

    fn prepare(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError> {
        firewall.target.flush_connections(self.is_held())?;
        self.sampler = ProgressSampler::start(ends(stage), self.open.duration)?;
        Ok(())
    }

    fn play(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError> {
        let source = stage.topology.source().clone();
        self.opened = ends(stage).open(&source, firewall.ifindex, &self.open)?;
        Ok(())
    }

    fn settle(
        &mut self,
        stage: &mut Stage,
        _firewall: &TestFirewall,
    ) -> Result<WorkloadOutcome, LabError> {
        let (ends, opened) = (ends(stage), self.opened);
        settle(ends, opened.offered + opened.flood)?;
        let both = ends.read()?;
        let mut record = ends.record(&opened, &both, self.open.close)?;
        record.progress = self.sampler.take().map_or_else(Vec::new, ProgressSampler::stop);
        Ok(WorkloadOutcome {
            played: Played {
                offered: opened.offered + opened.flood + both.answered(),
                to_drop: opened.flood,
                given_up: opened.given_up,
                finished: opened.finished,
                seconds: opened.seconds,
            },
            arrived: Arrived {
                delivered: both.received(),
                leaked: both.server.flood,
                foreign: both.client.foreign + both.server.foreign,
            },
            measured: Measured::Connections(Box::new(record)),
        })
    }

    /// Millions of entries would be walked, and would take memory, in the trials of others.
    fn clean_up(&mut self, firewall: &TestFirewall) -> Result<(), LabError> {
        firewall.target.flush_connections(self.is_held())
    }
}

fn ends(stage: &mut Stage) -> &mut TcpEnds {
    stage.ends.as_mut().expect("a study of connections has both ends")
}

/// Waits until every packet has arrived, or none does any more.
fn settle(ends: &TcpEnds, opened: u64) -> Result<(), LabError> {
    wait_until_settled(SETTLE_LIMIT, STILL, || {
        let both = ends.read()?;
        let moved = both.received() + both.server.flood;
        let is_complete = moved >= opened + both.answered();
        Ok(TransitReading { moved, is_complete, value: () })
    })
}
