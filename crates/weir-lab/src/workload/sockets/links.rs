//! Packets that entered a firewall of sockets, and that came out of it.

use std::time::{Duration, Instant};

use crate::LabError;
use crate::observe::counters::ReceivedReader;
use crate::topology::{TestFirewall, Topology};

/// How long packets may be under way after the last reply.
const SETTLE_LIMIT: Duration = Duration::from_millis(200);

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

    /// Packets that entered the firewall, and that came out of it.
    pub(super) fn read(&self) -> Result<(u64, u64), LabError> {
        let sum = |[one, other]: &[ReceivedReader; 2]| -> Result<u64, LabError> {
            Ok(one.packets()? + other.packets()?)
        };
        Ok((sum(&self.into_firewall)?, sum(&self.out_of_it)?))
    }

    /// Waits until what entered came out, or nothing moves any more; what is there then.
    pub(super) fn settle(&self, before: (u64, u64)) -> Result<(u64, u64), LabError> {
        let begun = Instant::now();
        let mut last = (self.read()?, Instant::now());
        loop {
            let now = self.read()?;
            if now != last.0 {
                last = (now, Instant::now());
            }
            let is_still = last.1.elapsed() > SETTLE_LIMIT / 10;
            if is_still || begun.elapsed() > SETTLE_LIMIT {
                return Ok((now.0 - before.0, now.1 - before.1));
            }
            std::thread::yield_now();
        }
    }
}
