//! The packets that each core handled in a set of trials.

use std::collections::BTreeMap;

use crate::trial::Trial;

/// A core that took less is not part of the work: what else runs has packets, too.
const SHARE_MIN: f64 = 0.05;

/// Packets by core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreShares {
    packets: BTreeMap<u32, u64>,
}

impl CoreShares {
    /// Those of all these trials.
    pub fn of<'a>(trials: impl Iterator<Item = &'a Trial>) -> CoreShares {
        let mut packets = BTreeMap::new();
        for core in trials.flat_map(|trial| &trial.collected.cores) {
            *packets.entry(core.core).or_default() += core.packets;
        }
        CoreShares { packets }
    }

    /// Whether there are no counts per core.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Numbers of the cores.
    pub fn cores(&self) -> impl Iterator<Item = u32> + '_ {
        self.packets.keys().copied()
    }

    /// Share of the packets that one core took.
    pub fn share(&self, core: u32) -> f64 {
        let all: u64 = self.packets.values().sum();
        self.packets.get(&core).copied().unwrap_or(0) as f64 / all.max(1) as f64
    }

    /// Cores that took a part.
    pub fn busy_cores(&self) -> usize {
        self.cores().filter(|core| self.share(*core) >= SHARE_MIN).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(packets: [(u32, u64); 2]) -> CoreShares {
        CoreShares { packets: BTreeMap::from(packets) }
    }

    #[test]
    fn work_is_shared_where_a_second_core_has_a_part() {
        assert_eq!(of([(0, 3), (1, 997)]).busy_cores(), 1);
        assert_eq!(of([(0, 300), (1, 700)]).busy_cores(), 2);
        assert_eq!(of([(0, 300), (1, 700)]).share(1), 0.7);
        assert_eq!(CoreShares::default().busy_cores(), 0);
    }
}
