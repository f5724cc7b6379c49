//! Observations of the machine during a trial, in addition to the packets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Differences between the end and the beginning of a trial; what did not change is omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineObservations {
    /// The firewall's connection table; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<ConntrackTableObservation>,
    /// `/proc/net/softnet_stat`, all cores together: `processed`, `dropped`, `time_squeeze`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub softnet: BTreeMap<String, u64>,
    /// `/proc/interrupts`, all cores together, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interrupts: BTreeMap<String, u64>,
    /// Softirqs on the trial's core (`/proc/softirqs`), by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(rename = "softirqs")]
    pub trial_core_softirqs: BTreeMap<String, u64>,
    /// What each core took of the network's work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreNetworkLoad>,
    /// ICMP redirects that the firewall has sent since it was set up. Not a difference: the kernel
    /// sends at most nine to a sender, then again after 20 s of silence (`ip_rt_send_redirect` in
    /// net/ipv4/route.c), so most trials see none of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(rename = "redirects_sent")]
    pub redirects_sent_since_setup: u64,
    /// The firewall's `/proc/net/snmp`, `netstat` and `snmp6`: `Ip.InReceives`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub snmp: BTreeMap<String, u64>,
    /// Growth of the kernel's memory while a ruleset was loaded (`vmalloc`, unreclaimable slabs,
    /// per-CPU memory), bytes; absent if the study does not request it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_memory_bytes: Option<i64>,
    /// Lines that the kernel wrote to its log, the first of them; what else ran wrote some of
    /// them, maybe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_log: Vec<String>,
    /// Load average of the last minute, at the end.
    #[serde(default)]
    #[serde(rename = "load_average")]
    pub one_minute_load_average: f64,
}

/// What one core did during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreNetworkLoad {
    /// Its number.
    pub core: u32,
    /// Packets that the stack took on it (`processed` of `/proc/net/softnet_stat`); one that RPS
    /// hands over counts where it is handed to.
    pub packets: u64,
    /// Softirqs NET_RX on it; a NAPI thread needs none.
    pub net_rx: u64,
}

impl CoreNetworkLoad {
    /// What it did since `before`, where that was something. The kernel counts in 32 bits.
    pub fn nonzero_delta_since(&self, before: &[CoreNetworkLoad]) -> Option<CoreNetworkLoad> {
        let grown = |now: u64, before: u64| u64::from((now as u32).wrapping_sub(before as u32));
        let first = before.iter().find(|other| other.core == self.core)?;
        let packets = grown(self.packets, first.packets);
        let net_rx = grown(self.net_rx, first.net_rx);
        (packets + net_rx > 0).then_some(CoreNetworkLoad { core: self.core, packets, net_rx })
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl MachineObservations {
    /// Share of the packets that the busiest core took; `None` if no core took any.
    pub fn busiest_core_packet_share(&self) -> Option<f64> {
        let all: u64 = self.cores.iter().map(|core| core.packets).sum();
        let most = self.cores.iter().map(|core| core.packets).max()?;
        (all > 0).then(|| most as f64 / all as f64)
    }
}

/// The connection table during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConntrackTableObservation {
    /// Most entries that the machine allows.
    pub limit: u64,
    /// Buckets of its hash table.
    pub buckets: u64,
    /// Entries before the trial.
    pub before: u64,
    /// Entries after it.
    pub after: u64,
    /// Seconds since the beginning, and entries then.
    pub samples: Vec<(f64, u64)>,
    /// Counters that grew: `drop`, `early_drop`, `invalid`, `insert_failed`, `search_restart`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// Bytes of one entry in its slab, without extensions; 0 if the kernel does not report it.
    pub object_bytes: u64,
    /// Growth of all memory in slabs that cannot be reclaimed, bytes.
    pub slab_growth_bytes: i64,
}

impl ConntrackTableObservation {
    /// Most entries that were seen.
    pub fn peak_entries(&self) -> u64 {
        let sampled = self.samples.iter().map(|(_, entries)| *entries);
        sampled.chain([self.before, self.after]).max().unwrap_or(0)
    }

    /// Entries at the end over the most there were; `None` of an empty table.
    pub fn end_to_peak_entry_ratio(&self) -> Option<f64> {
        let peak = self.peak_entries();
        (peak > 0).then(|| self.after as f64 / peak as f64)
    }

    /// Seconds until the table was within 2 % of its most; `None` if it was not sampled.
    pub fn seconds_until_near_peak(&self) -> Option<f64> {
        let nearly = self.peak_entries() as f64 * 0.98;
        let full = |sample: &&(f64, u64)| sample.1 as f64 >= nearly;
        self.samples.iter().find(full).map(|(seconds, _)| *seconds)
    }

    /// Memory of one connection, extensions and slab overhead included; `None` if the trial added
    /// too few for other users of slabs, and room that they had left, not to matter.
    pub fn slab_bytes_per_added_entry(&self) -> Option<f64> {
        const MIN_CONNECTIONS_FOR_MEMORY_ESTIMATE: u64 = 100_000;
        let added = self.after.checked_sub(self.before)?;
        (added >= MIN_CONNECTIONS_FOR_MEMORY_ESTIMATE)
            .then(|| self.slab_growth_bytes as f64 / added as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_per_entry_requires_enough_added_connections() {
        let table = ConntrackTableObservation {
            before: 10,
            after: 200_010,
            slab_growth_bytes: 80_000_000,
            ..ConntrackTableObservation::default()
        };
        assert_eq!(table.slab_bytes_per_added_entry(), Some(400.0));
        assert_eq!(
            ConntrackTableObservation { after: 500, ..table.clone() }.slab_bytes_per_added_entry(),
            None
        );
        assert_eq!(
            ConntrackTableObservation { after: 0, ..table }.slab_bytes_per_added_entry(),
            None
        );
    }

    #[test]
    fn packets_are_attributed_to_cores() {
        let core = |core, packets| CoreNetworkLoad { core, packets, net_rx: 0 };
        let before = [core(0, 5), core(1, 0xffff_ffff)];
        let cores = [core(0, 35), core(1, 9), core(2, 9)];
        let cores: Vec<CoreNetworkLoad> =
            cores.iter().filter_map(|one| one.nonzero_delta_since(&before)).collect();
        assert_eq!(cores, [core(0, 30), core(1, 10)], "a core without an earlier value is omitted");
        let collected = MachineObservations { cores, ..MachineObservations::default() };
        assert_eq!(collected.busiest_core_packet_share(), Some(0.75));
        assert_eq!(MachineObservations::default().busiest_core_packet_share(), None);
    }

    #[test]
    fn a_peak_may_lie_between_the_ends() {
        let table = ConntrackTableObservation {
            after: 3,
            samples: vec![(0.1, 2), (0.2, 7)],
            ..ConntrackTableObservation::default()
        };
        assert_eq!(table.peak_entries(), 7);
        assert_eq!(
            (table.end_to_peak_entry_ratio(), table.seconds_until_near_peak()),
            (Some(3.0 / 7.0), Some(0.2))
        );
        assert_eq!(ConntrackTableObservation::default().end_to_peak_entry_ratio(), None);
    }
}
