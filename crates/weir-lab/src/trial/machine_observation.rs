//! Observations of the machine during a trial: counters before and after, and the connection table
//! throughout.

use std::time::{Duration, Instant};

use weir_stats::{ConntrackTableObservation, CoreNetworkLoad, MachineObservations};

use crate::LabError;
use crate::observe::kernel_counters::ConntrackCounters;
use crate::observe::proc_parsers::{self, CountersByName};
use crate::topology::FirewallWithCounters;

/// Lines of the kernel's log that are kept of one trial.
const KEPT_KERNEL_LOG_LINES: usize = 20;
/// Looks at the connection table in one trial, about, and the time between two of them.
const CONNTRACK_SAMPLES_PER_TRIAL: u32 = 40;
const MIN_CONNTRACK_SAMPLE_PERIOD: Duration = Duration::from_millis(5);
const MAX_CONNTRACK_SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// A trial is being watched while it lives.
pub(crate) struct MachineObserver {
    started_at: Instant,
    softnet: CountersByName,
    interrupts: CountersByName,
    softirqs: CountersByName,
    cores: Vec<CoreNetworkLoad>,
    snmp: CountersByName,
    conntrack: ConntrackCounters,
    unreclaimable_slab_bytes: i64,
    is_conntrack_sampled: bool,
    softirq_core: Option<u32>,
}

impl MachineObserver {
    /// Reads everything, and starts sampling the connection table.
    pub(crate) fn start(
        firewall: &FirewallWithCounters,
        softirq_core: u32,
        expected: Duration,
    ) -> Result<MachineObserver, LabError> {
        let host = firewall.command_target.host();
        host.drain_kernel_log_keeping_first_lines(0)?;
        // A card's interrupts may be on any core of another host.
        let softirq_core = (!host.is_remote()).then_some(softirq_core);
        let period = (expected / CONNTRACK_SAMPLES_PER_TRIAL)
            .clamp(MIN_CONNTRACK_SAMPLE_PERIOD, MAX_CONNTRACK_SAMPLE_PERIOD);
        Ok(MachineObserver {
            softnet: proc_parsers::sum_softnet_stat_columns(
                &host.read_proc_file("net/softnet_stat")?,
            ),
            interrupts: proc_parsers::parse_interrupts_summed_over_cores(
                &host.read_proc_file("interrupts")?,
            ),
            softirqs: proc_parsers::parse_softirqs_of_core_or_all(
                &host.read_proc_file("softirqs")?,
                softirq_core,
            ),
            cores: proc_parsers::parse_core_network_load(
                &host.read_proc_file("net/softnet_stat")?,
                &host.read_proc_file("softirqs")?,
            ),
            snmp: firewall.stack_counters.read_all_counters()?,
            conntrack: firewall.conntrack_counters.read()?,
            unreclaimable_slab_bytes: proc_parsers::parse_meminfo_unreclaimable_slab_bytes(
                &host.read_proc_file("meminfo")?,
            ),
            is_conntrack_sampled: firewall.command_target.start_conntrack_sampling(period)?,
            started_at: Instant::now(),
            softirq_core,
        })
    }

    /// Reads everything again; what changed.
    pub(crate) fn finish(
        self,
        firewall: &FirewallWithCounters,
    ) -> Result<MachineObservations, LabError> {
        let host = firewall.command_target.host();
        let mut samples =
            if self.is_conntrack_sampled { host.take_conntrack_samples()? } else { Vec::new() };
        let after = firewall.conntrack_counters.read()?;
        let unreclaimable_slab_bytes =
            proc_parsers::parse_meminfo_unreclaimable_slab_bytes(&host.read_proc_file("meminfo")?);
        if !samples.is_empty() {
            samples.push((self.started_at.elapsed().as_secs_f64(), after.entries));
        }
        let before = self.conntrack;
        let seen = samples.iter().map(|(_, entries)| *entries);
        let is_in_use = seen.chain([before.entries, after.entries]).any(|entries| entries > 0);
        let setting = |name: &str| -> Result<u64, LabError> {
            let text = host.read_proc_file(&format!("sys/net/netfilter/{name}"))?;
            Ok(text.trim().parse().unwrap_or(0))
        };
        let mut table = None;
        if is_in_use {
            table = Some(ConntrackTableObservation {
                limit: setting("nf_conntrack_max")?,
                buckets: setting("nf_conntrack_buckets")?,
                before: before.entries,
                after: after.entries,
                samples,
                counters: after.counter_growth_since(&before),
                object_bytes: proc_parsers::parse_conntrack_entry_bytes(
                    &host.read_proc_file("slabinfo")?,
                ),
                slab_growth_bytes: unreclaimable_slab_bytes - self.unreclaimable_slab_bytes,
            });
        }
        let snmp = firewall.stack_counters.read_all_counters()?;
        let now = proc_parsers::parse_core_network_load(
            &host.read_proc_file("net/softnet_stat")?,
            &host.read_proc_file("softirqs")?,
        );
        Ok(MachineObservations {
            table,
            softnet: proc_parsers::compute_counter_growth(
                &proc_parsers::sum_softnet_stat_columns(&host.read_proc_file("net/softnet_stat")?),
                &self.softnet,
            ),
            interrupts: proc_parsers::compute_counter_growth(
                &proc_parsers::parse_interrupts_summed_over_cores(
                    &host.read_proc_file("interrupts")?,
                ),
                &self.interrupts,
            ),
            trial_core_softirqs: proc_parsers::compute_counter_growth(
                &proc_parsers::parse_softirqs_of_core_or_all(
                    &host.read_proc_file("softirqs")?,
                    self.softirq_core,
                ),
                &self.softirqs,
            ),
            cores: now.iter().filter_map(|core| core.nonzero_delta_since(&self.cores)).collect(),
            redirects_sent_since_setup: snmp.get("Icmp.OutRedirects").copied().unwrap_or(0),
            snmp: proc_parsers::compute_counter_growth(&snmp, &self.snmp),
            load_memory_bytes: None,
            kernel_log: host.drain_kernel_log_keeping_first_lines(KEPT_KERNEL_LOG_LINES)?,
            one_minute_load_average: proc_parsers::parse_load_average(
                &host.read_proc_file("loadavg")?,
            ),
        })
    }
}
