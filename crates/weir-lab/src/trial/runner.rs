//! One trial: sends a workload through a firewall, and reads every counter before and after.

use std::time::Duration;

use weir_stats::{DropCount, MachineObservations, TrialNoise};

use crate::LabError;
use crate::bpf_program::frame_generator::SendResult;
use crate::bpf_program::sink::SinkPacketCounts;
use crate::observe::core_noise::{NoiseSnapshot, time_spin_loop};
use crate::observe::core_pinning::{CorePinGuard, MAX_REALTIME_TRIAL};
use crate::observe::drop_reasons::{DropReasonCounts, NETFILTER_DROP_REASON};
use crate::observe::kernel_counters::{ConntrackCounters, sum_softnet_drops};
use crate::topology::{FirewallWithCounters, Topology};
use crate::trial::machine_observation::MachineObserver;
use crate::workload::frames::FrameWorkload;
use crate::workload::workload_resources::WorkloadResources;
use crate::workload::workload_trait::{Workload, WorkloadScheduling};
use weir_stats::TrialResults;

/// Runs trials.
pub(crate) struct TrialRunner {
    /// What workloads send with.
    pub(crate) resources: WorkloadResources,
    fastest_spin_time: Duration,
}

/// Reads how many packets a ruleset says that it dropped so far.
pub(crate) type RuleDropReader<'a> = &'a dyn Fn() -> Result<u64, LabError>;

/// What one trial saw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrialObservation {
    pub(crate) send_result: SendResult,
    pub(crate) arrived: SinkPacketCounts,
    pub(crate) trial_results: TrialResults,
    pub(crate) drop_counts: Vec<DropCount>,
    pub(crate) noise: TrialNoise,
    pub(crate) machine_observations: MachineObservations,
}

/// How the packets that rules drop are counted.
#[derive(Clone, Copy)]
pub(crate) enum DropCountSource<'a> {
    /// Not at all: the frames are all to be accepted, and the sum has to be right without.
    NotCounted,
    /// By the subject's own command.
    RuleCounters(RuleDropReader<'a>),
    /// By the subject's own command, and the kernel's reasons next to it.
    RuleCountersAndReasons(RuleDropReader<'a>),
    /// By the kernel's reasons for freeing packets.
    KernelReasons,
}

/// Everything that counts, at one moment.
struct RunnerCounterSnapshot {
    device_drops: u64,
    stack_drops: u64,
    conntrack: ConntrackCounters,
    softnet_drops: u64,
    received_from_source: u64,
    received_after_firewall: u64,
}

/// What was read before a trial.
struct TrialBaseline {
    rule_drops: Option<u64>,
    is_drop_watch_on: bool,
    machine_observer: MachineObserver,
    counters: RunnerCounterSnapshot,
}

impl TrialRunner {
    /// Trials are run on `core`.
    pub(crate) fn new(
        topology: Topology,
        core: u32,
        realtime: bool,
    ) -> Result<TrialRunner, LabError> {
        let best_spin = {
            let _pinned = CorePinGuard::pin_to_core(core, realtime)?;
            (0..20).map(|_| time_spin_loop()).min().unwrap_or_default()
        };
        Ok(TrialRunner {
            resources: WorkloadResources::new(topology, core, realtime)?,
            fastest_spin_time: best_spin,
        })
    }

    /// Time of the fixed loop on a quiet core.
    pub(crate) fn spin_time_at_calibration(&self) -> Duration {
        self.fastest_spin_time
    }

    /// Whether trials of that length run before everything else, and else why not.
    pub(crate) fn describe_trial_scheduling(&self, duration: Duration) -> Result<String, LabError> {
        if duration > MAX_REALTIME_TRIAL {
            return Ok("other: trials are too long for real-time priority".to_owned());
        }
        let is_realtime =
            CorePinGuard::pin_to_core(self.resources.core, self.resources.realtime)?.is_realtime();
        Ok(if is_realtime { "fifo 1" } else { "other: real-time priority is refused" }.to_owned())
    }

    /// One trial.
    pub(crate) fn run_trial(
        &mut self,
        firewall: &FirewallWithCounters,
        workload: &mut dyn Workload,
        drops: DropCountSource<'_>,
    ) -> Result<TrialObservation, LabError> {
        self.resources.topology.switch_cables_to(firewall)?;
        workload.begin_trial(&mut self.resources, firewall)?;
        let before = self.start_watches_and_read_baseline(firewall, drops, workload.duration())?;
        let core = self.resources.core;
        let (earlier, later) = {
            let is_short = workload.duration() <= MAX_REALTIME_TRIAL;
            let _pinned = match workload.scheduling() {
                WorkloadScheduling::RealtimeOnGeneratorCore => {
                    Some(CorePinGuard::pin_to_core(core, self.resources.realtime && is_short)?)
                }
                WorkloadScheduling::NormalPriorityOnGeneratorCore => {
                    Some(CorePinGuard::pin_to_core(core, false)?)
                }
                WorkloadScheduling::SelfPinned => None,
            };
            let earlier = NoiseSnapshot::take(core);
            workload.send_traffic(&mut self.resources, firewall)?;
            (earlier, NoiseSnapshot::take(core))
        };
        let outcome = workload.await_packets_accounted_for(&mut self.resources, firewall)?;
        let mut observation = TrialObservation {
            send_result: outcome.send_result,
            arrived: outcome.arrived,
            trial_results: outcome.trial_results,
            drop_counts: Vec::new(),
            noise: earlier.noise_until(&later, self.fastest_spin_time),
            machine_observations: MachineObservations::default(),
        };
        let is_on_links = workload.can_attribute_link_losses();
        self.record_drops_of_every_counter(firewall, drops, before, is_on_links, &mut observation)?;
        workload.clean_up(firewall)?;
        Ok(observation)
    }

    /// Plays what is loaded over a link that nothing is on; what was sent, and what arrived.
    pub(crate) fn send_over_direct_link(
        &mut self,
        ifindex: u32,
        duration: Duration,
    ) -> Result<(SendResult, SinkPacketCounts), LabError> {
        let stage = &mut self.resources;
        let before = stage.topology.sink().read_counts()?;
        let played = {
            let realtime = stage.realtime && duration <= MAX_REALTIME_TRIAL;
            let _pinned = CorePinGuard::pin_to_core(stage.core, realtime)?;
            stage.send_frames_into_device(ifindex, &FrameWorkload::overload_plan(duration))?
        };
        Ok((played, stage.topology.sink().read_counts()?.since(before)))
    }

    /// Reads every counter, and reads the kernel's reasons if requested.
    fn start_watches_and_read_baseline(
        &mut self,
        firewall: &FirewallWithCounters,
        drops: DropCountSource<'_>,
        expected: Duration,
    ) -> Result<TrialBaseline, LabError> {
        let by_rules = read_total_rule_drops_so_far(drops)?;
        let is_watched = match drops {
            DropCountSource::NotCounted | DropCountSource::RuleCounters(_) => false,
            DropCountSource::RuleCountersAndReasons(_) | DropCountSource::KernelReasons => {
                firewall.command_target.start_drop_watch()?
            }
        };
        let collecting = MachineObserver::start(firewall, self.resources.core, expected)?;
        Ok(TrialBaseline {
            rule_drops: by_rules,
            is_drop_watch_on: is_watched,
            machine_observer: collecting,
            counters: self.read_counters(firewall)?,
        })
    }

    /// Reads every counter again, and says what was dropped by which.
    fn record_drops_of_every_counter(
        &mut self,
        firewall: &FirewallWithCounters,
        drops: DropCountSource<'_>,
        before: TrialBaseline,
        is_on_links: bool,
        seen: &mut TrialObservation,
    ) -> Result<(), LabError> {
        let after = self.read_counters(firewall)?;
        seen.machine_observations = before.machine_observer.finish(firewall)?;
        let counters = &before.counters;
        seen.drop_counts = vec![
            new_drop_count("device", after.device_drops - counters.device_drops),
            new_drop_count("stack", after.stack_drops - counters.stack_drops),
        ];
        let tracking = after.conntrack.dropped.saturating_sub(counters.conntrack.dropped);
        for (counter, packets) in
            [("conntrack", tracking), ("softnet", after.softnet_drops - counters.softnet_drops)]
        {
            if packets > 0 {
                seen.drop_counts.push(new_drop_count(counter, packets));
            }
        }
        let reasons = match before.is_drop_watch_on {
            true => firewall.command_target.host().take_drop_reasons()?,
            false => DropReasonCounts::new(),
        };
        let by_rules = match (drops, read_total_rule_drops_so_far(drops)?, before.rule_drops) {
            (_, Some(after), Some(before)) => after.saturating_sub(before),
            // The table's drops come out of the same hook.
            (DropCountSource::KernelReasons, ..) => {
                reasons.get(NETFILTER_DROP_REASON).copied().unwrap_or(0).saturating_sub(tracking)
            }
            _ => 0,
        };
        seen.drop_counts.insert(0, new_drop_count("rules", by_rules));
        if is_on_links && self.resources.tcp_endpoints.is_none() {
            attribute_uncounted_losses(counters, &after, seen);
        }
        for (reason, packets) in reasons {
            seen.drop_counts.push(new_drop_count(&format!("skb: {reason}"), packets));
        }
        Ok(())
    }

    fn read_counters(
        &mut self,
        firewall: &FirewallWithCounters,
    ) -> Result<RunnerCounterSnapshot, LabError> {
        Ok(RunnerCounterSnapshot {
            device_drops: firewall.device_drops.dropped_packets()?,
            stack_drops: firewall.stack_counters.discarded_packets()?,
            conntrack: firewall.conntrack_counters.read()?,
            received_from_source: firewall.received_from_source.received_packets()?,
            received_after_firewall: firewall.received_after_firewall.received_packets()?,
            softnet_drops: sum_softnet_drops(
                &firewall.command_target.host().read_proc_file("net/softnet_stat")?,
            ),
        })
    }
}

/// Frames that are in no counter of drops, but are known to be lost: a link that is down, or has no
/// NAPI context, discards them without counting (`link`); after the firewall they arrive where no
/// program counts them (`sink`).
fn attribute_uncounted_losses(
    before: &RunnerCounterSnapshot,
    after: &RunnerCounterSnapshot,
    seen: &mut TrialObservation,
) {
    let dropped: u64 =
        seen.drop_counts.iter().filter(|d| !d.is_counted_elsewhere()).map(|d| d.packets).sum();
    let arrived = seen.arrived.delivered + seen.arrived.leaked;
    let missing = seen.send_result.offered.saturating_sub(arrived + dropped);
    if missing == 0 {
        return;
    }
    let devices = after.device_drops - before.device_drops;
    let entered = after.received_from_source.saturating_sub(before.received_from_source);
    let on_link = seen.send_result.offered.saturating_sub(entered + devices).min(missing);
    let came = after.received_after_firewall.saturating_sub(before.received_after_firewall);
    let uncounted = came.saturating_sub(arrived + seen.arrived.foreign).min(missing - on_link);
    for (counter, packets) in [("link", on_link), ("sink", uncounted)] {
        if packets > 0 {
            seen.drop_counts.push(new_drop_count(counter, packets));
        }
    }
}

fn read_total_rule_drops_so_far(drops: DropCountSource<'_>) -> Result<Option<u64>, LabError> {
    match drops {
        DropCountSource::RuleCounters(count) | DropCountSource::RuleCountersAndReasons(count) => {
            count().map(Some)
        }
        DropCountSource::NotCounted | DropCountSource::KernelReasons => Ok(None),
    }
}

fn new_drop_count(counter: &str, packets: u64) -> DropCount {
    DropCount { counter: counter.to_owned(), packets }
}

#[cfg(test)]
mod tests;
