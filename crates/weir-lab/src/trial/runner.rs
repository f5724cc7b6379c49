//! One trial: sends a workload through a firewall, and reads every counter before and after.

use std::time::Duration;

use weir_stats::{Collected, DropCount, Noise};

use crate::LabError;
use crate::observe::counters::{ConntrackCounters, softnet_drops};
use crate::observe::cpu::{Moment, Pinned, REALTIME_LIMIT, spin};
use crate::observe::drops::{NETFILTER_DROP, Reasons};
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::topology::{TestFirewall, Topology};
use crate::trial::collect::Collecting;
use crate::workload::contract::{Scheduling, Workload};
use crate::workload::frames::FrameWorkload;
use crate::workload::stage::Stage;
use weir_stats::Measured;

/// Runs trials.
pub(crate) struct TrialRunner {
    /// What workloads send with.
    pub(crate) stage: Stage,
    best_spin: Duration,
}

/// Reads how many packets a ruleset says that it dropped so far.
pub(crate) type RuleDropCount<'a> = &'a dyn Fn() -> Result<u64, LabError>;

/// What one trial saw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observation {
    pub(crate) played: Played,
    pub(crate) arrived: Arrived,
    pub(crate) measured: Measured,
    pub(crate) dropped: Vec<DropCount>,
    pub(crate) noise: Noise,
    pub(crate) collected: Collected,
}

/// How the packets that rules drop are counted.
#[derive(Clone, Copy)]
pub(crate) enum DropSource<'a> {
    /// Not at all: the frames are all to be accepted, and the sum has to be right without.
    Unwatched,
    /// By the subject's own command.
    Counted(RuleDropCount<'a>),
    /// By the subject's own command, and the kernel's reasons next to it.
    Checked(RuleDropCount<'a>),
    /// By the kernel's reasons for freeing packets.
    Reasons,
}

/// Everything that counts, at one moment.
struct TrialCounters {
    devices: u64,
    stack: u64,
    conntrack: ConntrackCounters,
    softnet: u64,
    entered: u64,
    left: u64,
}

/// What was read before a trial.
struct Before {
    by_rules: Option<u64>,
    is_watched: bool,
    collecting: Collecting,
    counters: TrialCounters,
}

impl TrialRunner {
    /// Trials are run on `core`.
    pub(crate) fn new(
        topology: Topology,
        core: u32,
        realtime: bool,
    ) -> Result<TrialRunner, LabError> {
        let best_spin = {
            let _pinned = Pinned::to(core, realtime)?;
            (0..20).map(|_| spin()).min().unwrap_or_default()
        };
        Ok(TrialRunner { stage: Stage::new(topology, core, realtime)?, best_spin })
    }

    /// Time of the fixed loop on a quiet core.
    pub(crate) fn best_spin(&self) -> Duration {
        self.best_spin
    }

    /// Whether trials of that length run before everything else, and else why not.
    pub(crate) fn scheduling(&self, duration: Duration) -> Result<String, LabError> {
        if duration > REALTIME_LIMIT {
            return Ok("other: trials are too long for real-time priority".to_owned());
        }
        let is_realtime = Pinned::to(self.stage.core, self.stage.realtime)?.is_realtime();
        Ok(if is_realtime { "fifo 1" } else { "other: real-time priority is refused" }.to_owned())
    }

    /// One trial.
    pub(crate) fn trial(
        &mut self,
        firewall: &TestFirewall,
        workload: &mut dyn Workload,
        drops: DropSource<'_>,
    ) -> Result<Observation, LabError> {
        self.stage.topology.select(firewall)?;
        workload.prepare(&mut self.stage, firewall)?;
        let before = self.before(firewall, drops, workload.duration())?;
        let core = self.stage.core;
        let (earlier, later) = {
            let is_short = workload.duration() <= REALTIME_LIMIT;
            let _pinned = match workload.scheduling() {
                Scheduling::Burst => Some(Pinned::to(core, self.stage.realtime && is_short)?),
                Scheduling::Pinned => Some(Pinned::to(core, false)?),
                Scheduling::Own => None,
            };
            let earlier = Moment::now(core);
            workload.play(&mut self.stage, firewall)?;
            (earlier, Moment::now(core))
        };
        let outcome = workload.settle(&mut self.stage, firewall)?;
        let mut observation = Observation {
            played: outcome.played,
            arrived: outcome.arrived,
            measured: outcome.measured,
            dropped: Vec::new(),
            noise: earlier.noise_until(&later, self.best_spin),
            collected: Collected::default(),
        };
        let is_on_links = workload.is_counted_on_links();
        self.after(firewall, drops, before, is_on_links, &mut observation)?;
        workload.clean_up(firewall)?;
        Ok(observation)
    }

    /// Plays what is loaded over a link that nothing is on; what was sent, and what arrived.
    pub(crate) fn play_directly(
        &mut self,
        ifindex: u32,
        duration: Duration,
    ) -> Result<(Played, Arrived), LabError> {
        let stage = &mut self.stage;
        let before = stage.topology.sink().read()?;
        let played = {
            let realtime = stage.realtime && duration <= REALTIME_LIMIT;
            let _pinned = Pinned::to(stage.core, realtime)?;
            stage.play_into(ifindex, &FrameWorkload::overload(duration))?
        };
        Ok((played, stage.topology.sink().read()?.since(before)))
    }

    /// Reads every counter, and reads the kernel's reasons if requested.
    fn before(
        &mut self,
        firewall: &TestFirewall,
        drops: DropSource<'_>,
        expected: Duration,
    ) -> Result<Before, LabError> {
        let by_rules = count(drops)?;
        let is_watched = match drops {
            DropSource::Unwatched | DropSource::Counted(_) => false,
            DropSource::Checked(_) | DropSource::Reasons => firewall.target.watch_drops()?,
        };
        let collecting = Collecting::begin(firewall, self.stage.core, expected)?;
        Ok(Before { by_rules, is_watched, collecting, counters: self.counters(firewall)? })
    }

    /// Reads every counter again, and says what was dropped by which.
    fn after(
        &mut self,
        firewall: &TestFirewall,
        drops: DropSource<'_>,
        before: Before,
        is_on_links: bool,
        seen: &mut Observation,
    ) -> Result<(), LabError> {
        let after = self.counters(firewall)?;
        seen.collected = before.collecting.end(firewall)?;
        let counters = &before.counters;
        seen.dropped = vec![
            drop_count("device", after.devices - counters.devices),
            drop_count("stack", after.stack - counters.stack),
        ];
        let tracking = after.conntrack.dropped.saturating_sub(counters.conntrack.dropped);
        for (counter, packets) in
            [("conntrack", tracking), ("softnet", after.softnet - counters.softnet)]
        {
            if packets > 0 {
                seen.dropped.push(drop_count(counter, packets));
            }
        }
        let reasons = match before.is_watched {
            true => firewall.target.host().drop_reasons()?,
            false => Reasons::new(),
        };
        let by_rules = match (drops, count(drops)?, before.by_rules) {
            (_, Some(after), Some(before)) => after.saturating_sub(before),
            // The table's drops come out of the same hook.
            (DropSource::Reasons, ..) => {
                reasons.get(NETFILTER_DROP).copied().unwrap_or(0).saturating_sub(tracking)
            }
            _ => 0,
        };
        seen.dropped.insert(0, drop_count("rules", by_rules));
        if is_on_links && self.stage.ends.is_none() {
            lost_on_the_way(counters, &after, seen);
        }
        for (reason, packets) in reasons {
            seen.dropped.push(drop_count(&format!("skb: {reason}"), packets));
        }
        Ok(())
    }

    fn counters(&mut self, firewall: &TestFirewall) -> Result<TrialCounters, LabError> {
        Ok(TrialCounters {
            devices: firewall.devices.dropped()?,
            stack: firewall.stack.dropped()?,
            conntrack: firewall.conntrack.read()?,
            entered: firewall.entered.packets()?,
            left: firewall.left.packets()?,
            softnet: softnet_drops(&firewall.target.host().proc_file("net/softnet_stat")?),
        })
    }
}

/// Frames that are in no counter of drops, but are known to be lost: a link that is down, or has no
/// NAPI context, discards them without counting (`link`); after the firewall they arrive where no
/// program counts them (`sink`).
fn lost_on_the_way(before: &TrialCounters, after: &TrialCounters, seen: &mut Observation) {
    let dropped: u64 = seen.dropped.iter().filter(|d| !d.is_explanation()).map(|d| d.packets).sum();
    let arrived = seen.arrived.delivered + seen.arrived.leaked;
    let missing = seen.played.offered.saturating_sub(arrived + dropped);
    if missing == 0 {
        return;
    }
    let devices = after.devices - before.devices;
    let entered = after.entered.saturating_sub(before.entered);
    let on_link = seen.played.offered.saturating_sub(entered + devices).min(missing);
    let came = after.left.saturating_sub(before.left);
    let uncounted = came.saturating_sub(arrived + seen.arrived.foreign).min(missing - on_link);
    for (counter, packets) in [("link", on_link), ("sink", uncounted)] {
        if packets > 0 {
            seen.dropped.push(drop_count(counter, packets));
        }
    }
}

fn count(drops: DropSource<'_>) -> Result<Option<u64>, LabError> {
    match drops {
        DropSource::Counted(count) | DropSource::Checked(count) => count().map(Some),
        DropSource::Unwatched | DropSource::Reasons => Ok(None),
    }
}

fn drop_count(counter: &str, packets: u64) -> DropCount {
    DropCount { counter: counter.to_owned(), packets }
}

#[cfg(test)]
mod tests;
