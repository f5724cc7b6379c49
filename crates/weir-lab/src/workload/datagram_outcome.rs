//! The outcome of a trial of single datagrams, which a socket or a counter of the stack counts.

use weir_stats::TrialResults;

use crate::bpf_program::frame_generator::SendResult;
use crate::bpf_program::sink::SinkPacketCounts;
use crate::workload::workload_trait::WorkloadOutcome;

/// Datagrams of a trial. All are alike, so the ruleset has to accept or to drop all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DatagramCounts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// How long they were sent.
    pub(crate) seconds: f64,
}

impl DatagramCounts {
    /// The outcome, if the ruleset had to drop all (`to_drop`) or none.
    pub(crate) fn to_workload_outcome(self, to_drop: bool) -> WorkloadOutcome {
        let DatagramCounts { sent, received, seconds } = self;
        let (delivered, leaked) = if to_drop { (0, received) } else { (received, 0) };
        WorkloadOutcome {
            send_result: SendResult {
                offered: sent,
                to_drop: if to_drop { sent } else { 0 },
                skipped_behind_schedule: 0,
                finished: true,
                seconds,
            },
            arrived: SinkPacketCounts { delivered, leaked, ..SinkPacketCounts::default() },
            trial_results: TrialResults::PacketSumsOrLoadTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arriving_packets_that_should_be_dropped_are_leaks() {
        let counts = DatagramCounts { sent: 10, received: 4, seconds: 0.5 };
        let accepted = counts.to_workload_outcome(false);
        assert_eq!((accepted.send_result.offered, accepted.send_result.to_drop), (10, 0));
        assert_eq!((accepted.arrived.delivered, accepted.arrived.leaked), (4, 0));
        let dropped = counts.to_workload_outcome(true);
        assert_eq!((dropped.send_result.offered, dropped.send_result.to_drop), (10, 10));
        assert_eq!((dropped.arrived.delivered, dropped.arrived.leaked), (0, 4));
    }
}
