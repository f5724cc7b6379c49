//! Packets that entered and left a firewall of a sockets trial.

use crate::LabError;
use crate::observe::kernel_counters::RxPacketCounterReader;
use crate::topology::{FirewallWithCounters, Topology};
use crate::workload::settle::{InFlightPacketReading, SettleTimeLimits, wait_until_settled};

/// Packets on the links of one firewall.
pub(super) struct LinkCounters {
    into_firewall: [RxPacketCounterReader; 2],
    out_of_firewall: [RxPacketCounterReader; 2],
}

impl LinkCounters {
    /// Opens the counters.
    pub(super) fn open(
        topology: &Topology,
        firewall: &FirewallWithCounters,
    ) -> Result<LinkCounters, LabError> {
        let devices = topology.firewall_devices();
        let open = RxPacketCounterReader::open;
        Ok(LinkCounters {
            into_firewall: [
                open(&firewall.namespace, &devices.input)?,
                open(&firewall.namespace, &devices.output)?,
            ],
            out_of_firewall: [
                open(topology.source_namespace(), &firewall.source_and_sink_devices.0)?,
                open(topology.sink_namespace(), &firewall.source_and_sink_devices.1)?,
            ],
        })
    }

    /// Packets that entered the firewall, and packets that left it.
    pub(super) fn read_packets_entered_and_left(&self) -> Result<(u64, u64), LabError> {
        let sum = |[one, other]: &[RxPacketCounterReader; 2]| -> Result<u64, LabError> {
            Ok(one.received_packets()? + other.received_packets()?)
        };
        Ok((sum(&self.into_firewall)?, sum(&self.out_of_firewall)?))
    }

    /// Waits until nothing moves any more; what entered and came out since `before`.
    pub(super) fn await_no_packet_movement(
        &self,
        before: (u64, u64),
    ) -> Result<(u64, u64), LabError> {
        wait_until_settled(SettleTimeLimits::KERNEL_SOCKETS, || {
            let (entered, left) = self.read_packets_entered_and_left()?;
            let final_value = (entered - before.0, left - before.1);
            // Packets for the firewall itself never come out of it: only rest says that it is done.
            Ok(InFlightPacketReading {
                counted_packets: entered + left,
                is_complete: false,
                final_value,
            })
        })
    }
}
