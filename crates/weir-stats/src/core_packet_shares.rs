//! The packets that each core handled in a set of trials.

use std::collections::BTreeMap;

use crate::trial::Trial;

/// A core that took less is not part of the work: what else runs has packets, too.
const BUSY_CORE_MIN_PACKET_SHARE: f64 = 0.05;

/// Packets by core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorePacketTotals {
    packets_by_core: BTreeMap<u32, u64>,
}

impl CorePacketTotals {
    /// Those of all these trials.
    pub fn from_trials<'a>(trials: impl Iterator<Item = &'a Trial>) -> CorePacketTotals {
        let mut packets = BTreeMap::new();
        for core in trials.flat_map(|trial| &trial.observations.cores) {
            *packets.entry(core.core).or_default() += core.packets;
        }
        CorePacketTotals { packets_by_core: packets }
    }

    /// Whether there are no counts per core.
    pub fn is_empty(&self) -> bool {
        self.packets_by_core.is_empty()
    }

    /// Numbers of the cores.
    pub fn core_numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.packets_by_core.keys().copied()
    }

    /// Share of the packets that one core took.
    pub fn packet_share(&self, core: u32) -> f64 {
        let all: u64 = self.packets_by_core.values().sum();
        self.packets_by_core.get(&core).copied().unwrap_or(0) as f64 / all.max(1) as f64
    }

    /// Cores that took a part.
    pub fn busy_core_count(&self) -> usize {
        self.core_numbers()
            .filter(|core| self.packet_share(*core) >= BUSY_CORE_MIN_PACKET_SHARE)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(packets: [(u32, u64); 2]) -> CorePacketTotals {
        CorePacketTotals { packets_by_core: BTreeMap::from(packets) }
    }

    #[test]
    fn only_cores_with_a_significant_share_are_busy() {
        assert_eq!(of([(0, 3), (1, 997)]).busy_core_count(), 1);
        assert_eq!(of([(0, 300), (1, 700)]).busy_core_count(), 2);
        assert_eq!(of([(0, 300), (1, 700)]).packet_share(1), 0.7);
        assert_eq!(CorePacketTotals::default().busy_core_count(), 0);
    }
}
