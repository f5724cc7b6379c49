//! Packets that entered and left a firewall of a sockets trial.

use std::time::Duration;

use crate::LabError;
use crate::observe::counters::ReceivedReader;
use crate::topology::{TestFirewall, Topology};
use crate::workload::settle::{TransitReading, wait_until_settled};

/// How long packets may be under way after the last reply.
const SETTLE_LIMIT: Duration = Duration::from_millis(200);
/// How long nothing may move before it is taken to be over.
const STILL: Duration = Duration::from_millis(20);

/// Packets on the links of one firewall.
pub(super) struct Links {
    into_firewall: [ReceivedReader; 2],
    out_of_it: [ReceivedReader; 2],
}

impl Links {
    /// Opens the counters.
    pub(super) fn of(topology: &Topology, firewall: &TestFirewall) -> Result<Links, LabError> {
        let devices = topology.devices();
        let open = ReceivedReader::open;
        Ok(Links {
            into_firewall: [
                open(&firewall.namespace, &devices.input)?,
                open(&firewall.namespace, &devices.output)?,
            ],
            out_of_it: [
                open(topology.source(), &firewall.ends.0)?,
                open(topology.sink_side(), &firewall.ends.1)?,
            ],
        })
    }

    /// Packets that entered the firewall, and packets that left it.
    pub(super) fn read(&self) -> Result<(u64, u64), LabError> {
        let sum = |[one, other]: &[ReceivedReader; 2]| -> Result<u64, LabError> {
            Ok(one.packets()? + other.packets()?)
        };
        Ok((sum(&self.into_firewall)?, sum(&self.out_of_it)?))
    }

    /// Waits until nothing moves any more; what entered and came out since `before`.
    pub(super) fn settle(&self, before: (u64, u64)) -> Result<(u64, u64), LabError> {
        wait_until_settled(SETTLE_LIMIT, STILL, || {
            let (entered, left) = self.read()?;
            let value = (entered - before.0, left - before.1);
            // Packets for the firewall itself never come out of it: only rest says that it is done.
            Ok(TransitReading { moved: entered + left, is_complete: false, value })
        })
    }
}
