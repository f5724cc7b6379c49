//! Frames of a table, sent through a firewall to the sink.

use std::time::Duration;

use weir_stats::Measured;

use crate::LabError;
use crate::program::generator::Play;
use crate::topology::TestFirewall;
use crate::workload::arrivals::SentFrames;
use crate::workload::contract::{Workload, WorkloadOutcome};
use crate::workload::stage::Stage;

/// The frames that the stage has loaded.
pub(crate) struct FrameWorkload {
    play: Play,
    sent: SentFrames,
}

impl FrameWorkload {
    /// See `play`.
    pub(crate) fn new(play: Play) -> FrameWorkload {
        FrameWorkload { play, sent: SentFrames::default() }
    }

    /// As fast as possible, in random order.
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
        self.sent.prepare(stage, firewall)
    }

    fn play(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError> {
        self.sent.played = stage.play(firewall, &self.play)?;
        Ok(())
    }

    fn settle(
        &mut self,
        stage: &mut Stage,
        firewall: &TestFirewall,
    ) -> Result<WorkloadOutcome, LabError> {
        self.sent.settle(stage, firewall, Measured::Sums)
    }
}
