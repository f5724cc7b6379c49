//! Observations of the machine during a trial: counters before and after, and the connection table
//! throughout.

use std::time::{Duration, Instant};

use weir_stats::{Collected, ConntrackTable, CoreWork};

use crate::LabError;
use crate::observe::counters::ConntrackCounters;
use crate::observe::proc::{self, NamedCounts};
use crate::topology::TestFirewall;

/// Lines of the kernel's log that are kept of one trial.
const LOG_LINES: usize = 20;
/// Looks at the connection table in one trial, about, and the time between two of them.
const SAMPLES: u32 = 40;
const SHORTEST_PERIOD: Duration = Duration::from_millis(5);
const LONGEST_PERIOD: Duration = Duration::from_secs(1);

/// A trial is being watched while it lives.
pub(crate) struct Collecting {
    begun: Instant,
    softnet: NamedCounts,
    interrupts: NamedCounts,
    softirqs: NamedCounts,
    cores: Vec<CoreWork>,
    snmp: NamedCounts,
    conntrack: ConntrackCounters,
    slab: i64,
    is_sampled: bool,
    core: Option<u32>,
}

impl Collecting {
    /// Reads everything, and starts sampling the connection table.
    pub(crate) fn begin(
        firewall: &TestFirewall,
        core: u32,
        expected: Duration,
    ) -> Result<Collecting, LabError> {
        let host = firewall.target.host();
        host.kernel_log(0)?;
        // A card's interrupts may be on any core of another host.
        let core = (!host.is_remote()).then_some(core);
        let period = (expected / SAMPLES).clamp(SHORTEST_PERIOD, LONGEST_PERIOD);
        Ok(Collecting {
            softnet: proc::softnet(&host.proc_file("net/softnet_stat")?),
            interrupts: proc::interrupts(&host.proc_file("interrupts")?),
            softirqs: proc::softirqs(&host.proc_file("softirqs")?, core),
            cores: proc::cores(&host.proc_file("net/softnet_stat")?, &host.proc_file("softirqs")?),
            snmp: firewall.stack.values()?,
            conntrack: firewall.conntrack.read()?,
            slab: proc::slab_bytes(&host.proc_file("meminfo")?),
            is_sampled: firewall.target.sample_connections(period)?,
            begun: Instant::now(),
            core,
        })
    }

    /// Reads everything again; what changed.
    pub(crate) fn end(self, firewall: &TestFirewall) -> Result<Collected, LabError> {
        let host = firewall.target.host();
        let mut samples = if self.is_sampled { host.samples()? } else { Vec::new() };
        let after = firewall.conntrack.read()?;
        let slab = proc::slab_bytes(&host.proc_file("meminfo")?);
        if !samples.is_empty() {
            samples.push((self.begun.elapsed().as_secs_f64(), after.entries));
        }
        let before = self.conntrack;
        let seen = samples.iter().map(|(_, entries)| *entries);
        let is_in_use = seen.chain([before.entries, after.entries]).any(|entries| entries > 0);
        let setting = |name: &str| -> Result<u64, LabError> {
            let text = host.proc_file(&format!("sys/net/netfilter/{name}"))?;
            Ok(text.trim().parse().unwrap_or(0))
        };
        let mut table = None;
        if is_in_use {
            table = Some(ConntrackTable {
                limit: setting("nf_conntrack_max")?,
                buckets: setting("nf_conntrack_buckets")?,
                before: before.entries,
                after: after.entries,
                samples,
                counters: after.grown_since(&before),
                object_bytes: proc::object_bytes(&host.proc_file("slabinfo")?),
                slab_growth_bytes: slab - self.slab,
            });
        }
        let snmp = firewall.stack.values()?;
        let now = proc::cores(&host.proc_file("net/softnet_stat")?, &host.proc_file("softirqs")?);
        Ok(Collected {
            table,
            softnet: proc::grown(
                &proc::softnet(&host.proc_file("net/softnet_stat")?),
                &self.softnet,
            ),
            interrupts: proc::grown(
                &proc::interrupts(&host.proc_file("interrupts")?),
                &self.interrupts,
            ),
            softirqs: proc::grown(
                &proc::softirqs(&host.proc_file("softirqs")?, self.core),
                &self.softirqs,
            ),
            cores: now.iter().filter_map(|core| core.since(&self.cores)).collect(),
            redirects_sent: snmp.get("Icmp.OutRedirects").copied().unwrap_or(0),
            snmp: proc::grown(&snmp, &self.snmp),
            load_memory_bytes: None,
            kernel_log: host.kernel_log(LOG_LINES)?,
            load_average: proc::load_average(&host.proc_file("loadavg")?),
        })
    }
}
