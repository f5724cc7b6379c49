//! One trial: frames played through a firewall, and every counter read before and after.

use std::time::{Duration, Instant};

use weir_stats::{Collected, DropCount, Noise, Scenario};
use weir_study::{ConnectionLoad, ConnectionPath};

use crate::LabError;
use crate::frames::Frame;
use crate::observe::counters::{Conntrack, softnet_drops};
use crate::observe::cpu::{Moment, Pinned, REALTIME_LIMIT};
use crate::observe::drops::{NETFILTER_DROP, Reasons};
use crate::program::generator::{Generator, Play, Played};
use crate::program::sink::Arrived;
use crate::program::tcp::TcpEnds;
use crate::topology::{Firewall, Topology};
use crate::trial::collect::Collecting;

/// How long the counters may take to come to rest after a trial.
const SETTLE_LIMIT: Duration = Duration::from_millis(100);
/// Frames of the probe before anything is measured.
const PROBE_FRAMES: u64 = 1000;
/// Tries of a probe before its link is taken as wrong.
const PROBE_TRIES: u32 = 3;

/// What plays, counts and watches.
pub(crate) struct Bench {
    pub(crate) topology: Topology,
    generator: Generator,
    /// Clients and servers, in a study of connections.
    pub(crate) ends: Option<TcpEnds>,
    pub(crate) core: u32,
    pub(crate) realtime: bool,
    best_spin: Duration,
    loaded: Option<Scenario>,
    /// How often the tag was changed.
    fillings: u32,
    /// The next client address of sockets, counted from the first.
    next_client: u32,
}

/// Reads how many packets a ruleset says that it dropped so far.
pub(crate) type RuleCount<'a> = &'a dyn Fn() -> Result<u64, LabError>;

/// What one trial saw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) played: Played,
    pub(crate) arrived: Arrived,
    pub(crate) dropped: Vec<DropCount>,
    pub(crate) noise: Noise,
    pub(crate) collected: Collected,
}

/// How the packets that rules drop are counted.
#[derive(Clone, Copy)]
pub(crate) enum Rules<'a> {
    /// Not at all: the frames are all to be accepted, and the sum has to be right without.
    Unwatched,
    /// By the subject's own command.
    Counted(RuleCount<'a>),
    /// By the subject's own command, and the kernel's reasons beside it.
    Checked(RuleCount<'a>),
    /// By the kernel's reasons for freeing packets.
    Reasons,
}

/// Everything that counts, at one moment.
struct Counters {
    arrived: Arrived,
    devices: u64,
    stack: u64,
    conntrack: Conntrack,
    softnet: u64,
    entered: u64,
    left: u64,
}

/// What was read before a trial.
pub(crate) struct Before {
    by_rules: Option<u64>,
    is_watched: bool,
    collecting: Collecting,
    counters: Counters,
}

impl Bench {
    /// Sets the bench up on `core`.
    pub(crate) fn new(topology: Topology, core: u32, realtime: bool) -> Result<Bench, LabError> {
        let best_spin = {
            let _pinned = Pinned::to(core, realtime)?;
            (0..20).map(|_| crate::observe::cpu::spin()).min().unwrap_or_default()
        };
        Ok(Bench {
            topology,
            generator: Generator::new()?,
            ends: None,
            core,
            realtime,
            best_spin,
            loaded: None,
            fillings: 0,
            next_client: 0,
        })
    }

    /// Time of the fixed loop on a quiet core.
    pub(crate) fn best_spin(&self) -> Duration {
        self.best_spin
    }

    /// Whether the kernel tells why it frees packets.
    pub(crate) fn knows_reasons(&self) -> bool {
        self.topology.host().knows_drop_reasons()
    }

    /// Whether trials of that length run before everything else, and else why not.
    pub(crate) fn scheduling(&self, duration: Duration) -> Result<String, LabError> {
        if duration > REALTIME_LIMIT {
            return Ok("other: trials are too long for real-time priority".to_owned());
        }
        let is_realtime = Pinned::to(self.core, self.realtime)?.is_realtime();
        Ok(if is_realtime { "fifo 1" } else { "other: real-time priority is refused" }.to_owned())
    }

    /// Puts the frames of `part` into the generator's table, where others are there.
    pub(crate) fn load_frames(
        &mut self,
        part: &Scenario,
        frames: &[Frame],
        seed: u64,
    ) -> Result<(), LabError> {
        if self.loaded.as_ref() == Some(part) {
            return Ok(());
        }
        let magic = self.next_magic(seed);
        let (to, from) = self.topology.macs();
        self.generator.load_frames(frames, magic, to, from)?;
        self.topology.sink().expect(magic);
        self.loaded = Some(part.clone());
        Ok(())
    }

    /// Another word each time: a packet that is late belongs to no trial.
    pub(crate) fn next_magic(&mut self, seed: u64) -> u32 {
        self.fillings += 1;
        (seed as u32) << 16 | self.fillings
    }

    /// The first of so many client addresses that a trial of sockets uses: the next ones each time,
    /// for the ports of the last ones wait in TIME_WAIT.
    pub(crate) fn next_client(&mut self, clients: u32) -> u32 {
        let first = self.next_client;
        self.next_client = first.wrapping_add(clients);
        first
    }

    /// Makes a firewall, for frames or for connections.
    pub(crate) fn firewall(
        &mut self,
        connecting: Option<&ConnectionLoad>,
        ipv6: bool,
    ) -> Result<Firewall, LabError> {
        match connecting {
            None => self.topology.firewall(ipv6),
            Some(connecting) => self.between(ConnectionPath::Gateway, connecting),
        }
    }

    /// Makes what is between clients and servers.
    pub(crate) fn between(
        &mut self,
        way: ConnectionPath,
        ConnectionLoad { endpoints, sockets, .. }: &ConnectionLoad,
    ) -> Result<Firewall, LabError> {
        if let Some(sockets) = sockets {
            return self.topology.firewall_for_sockets(endpoints, sockets.ports());
        }
        if self.ends.is_none() {
            let (to, from) = self.topology.macs();
            self.ends = Some(TcpEnds::new(endpoints, to, from)?);
        }
        let ends = self.ends.as_mut().expect("made just now");
        self.topology.between(way, ends, endpoints)
    }

    /// Sends frames through a firewall that has no rules yet: they must all arrive. A link that is
    /// set up wrongly loses them without a word, every time; one that the kernel has only just set
    /// up on a busy machine may lose the first ones.
    pub(crate) fn probe(&mut self, firewall: &Firewall) -> Result<(), LabError> {
        for _ in 1..PROBE_TRIES {
            if self.probe_once(firewall).is_ok() {
                return Ok(());
            }
        }
        self.probe_once(firewall)
    }

    fn probe_once(&mut self, firewall: &Firewall) -> Result<(), LabError> {
        let play = Play {
            duration: Duration::from_millis(500),
            rate_pps: 0,
            packets_max: PROBE_FRAMES,
            shuffled: false,
            seed: 1,
        };
        let seen = self.trial(firewall, &play, Rules::Unwatched)?;
        let arrived = seen.arrived.delivered + seen.arrived.leaked;
        if arrived == seen.played.offered && arrived >= PROBE_FRAMES {
            return Ok(());
        }
        let drops = seen.dropped.iter().map(|drop| format!("{} {}", drop.counter, drop.packets));
        Err(LabError::Probe {
            of: arrived,
            offered: seen.played.offered,
            namespace: firewall.name().to_owned(),
            why: drops.collect::<Vec<_>>().join(", "),
        })
    }

    /// One trial.
    pub(crate) fn trial(
        &mut self,
        firewall: &Firewall,
        play: &Play,
        rules: Rules<'_>,
    ) -> Result<Seen, LabError> {
        let before = self.before(firewall, rules, play.duration)?;
        let realtime = self.realtime && play.duration <= REALTIME_LIMIT;
        let (played, earlier, later) = {
            let _pinned = Pinned::to(self.core, realtime)?;
            let earlier = Moment::now(self.core);
            let source = self.topology.source().clone();
            let played = self.generator.play(&source, firewall.ifindex, play)?;
            (played, earlier, Moment::now(self.core))
        };
        let mut seen = Seen {
            played,
            arrived: Arrived::default(),
            dropped: Vec::new(),
            noise: earlier.noise_until(&later, self.best_spin),
            collected: Collected::default(),
        };
        self.settle(firewall, &before.counters, &mut seen)?;
        self.after(firewall, rules, before, &mut seen)?;
        Ok(seen)
    }

    /// Plays what is loaded through a firewall, on the current core.
    pub(crate) fn play(&mut self, firewall: &Firewall, play: &Play) -> Result<Played, LabError> {
        let source = self.topology.source().clone();
        self.generator.play(&source, firewall.ifindex, play)
    }

    /// Waits until what was played is accounted for, and reads every counter again.
    pub(crate) fn finish(
        &mut self,
        firewall: &Firewall,
        before: Before,
        seen: &mut Seen,
    ) -> Result<(), LabError> {
        self.settle(firewall, &before.counters, seen)?;
        self.after(firewall, Rules::Unwatched, before, seen)
    }

    /// As fast as it goes, in random order.
    pub(crate) fn play_of(duration: Duration) -> Play {
        Play { duration, rate_pps: 0, packets_max: 0, shuffled: true, seed: 1 }
    }

    /// Plays what is loaded over a link that nothing is on; what was sent, and what arrived.
    pub(crate) fn play_directly(
        &mut self,
        ifindex: u32,
        duration: Duration,
    ) -> Result<(Played, Arrived), LabError> {
        let before = self.topology.sink().read()?;
        let source = self.topology.source().clone();
        let played = {
            let _pinned = Pinned::to(self.core, self.realtime && duration <= REALTIME_LIMIT)?;
            self.generator.play(&source, ifindex, &Bench::play_of(duration))?
        };
        Ok((played, self.topology.sink().read()?.since(before)))
    }

    /// Reads every counter, and has the kernel tell its reasons where that was asked for.
    pub(crate) fn before(
        &mut self,
        firewall: &Firewall,
        rules: Rules<'_>,
        expected: Duration,
    ) -> Result<Before, LabError> {
        self.topology.select(firewall)?;
        let by_rules = count(rules)?;
        let is_watched = match rules {
            Rules::Unwatched | Rules::Counted(_) => false,
            Rules::Checked(_) | Rules::Reasons => firewall.target.watch_drops()?,
        };
        let collecting = Collecting::begin(firewall, self.core, expected)?;
        Ok(Before { by_rules, is_watched, collecting, counters: self.counters(firewall)? })
    }

    /// Reads every counter again, and says what was dropped by which.
    pub(crate) fn after(
        &mut self,
        firewall: &Firewall,
        rules: Rules<'_>,
        before: Before,
        seen: &mut Seen,
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
        let by_rules = match (rules, count(rules)?, before.by_rules) {
            (_, Some(after), Some(before)) => after.saturating_sub(before),
            // The table's drops come out of the same hook.
            (Rules::Reasons, ..) => {
                reasons.get(NETFILTER_DROP).copied().unwrap_or(0).saturating_sub(tracking)
            }
            _ => 0,
        };
        seen.dropped.insert(0, drop_count("rules", by_rules));
        if self.ends.is_none() && !firewall.is_host {
            lost_on_the_way(counters, &after, seen);
        }
        for (reason, packets) in reasons {
            seen.dropped.push(drop_count(&format!("skb: {reason}"), packets));
        }
        Ok(())
    }

    /// Waits until every packet is accounted for, or nothing moves any more.
    fn settle(
        &mut self,
        firewall: &Firewall,
        before: &Counters,
        seen: &mut Seen,
    ) -> Result<(), LabError> {
        let begun = Instant::now();
        let mut last = 0;
        loop {
            let after = self.counters(firewall)?;
            seen.arrived = after.arrived.since(before.arrived);
            let devices = after.devices - before.devices;
            let stack = after.stack - before.stack;
            let known = seen.arrived.delivered + seen.arrived.leaked + devices + stack;
            let limit = if known == last { SETTLE_LIMIT / 20 } else { SETTLE_LIMIT };
            if known >= seen.played.offered || begun.elapsed() > limit {
                return Ok(());
            }
            last = known;
            std::thread::yield_now();
        }
    }

    fn counters(&mut self, firewall: &Firewall) -> Result<Counters, LabError> {
        Ok(Counters {
            arrived: self.topology.sink().read()?,
            devices: firewall.devices.dropped()?,
            stack: firewall.stack.dropped()?,
            conntrack: firewall.conntrack.read()?,
            entered: firewall.entered.packets()?,
            left: firewall.left.packets()?,
            softnet: softnet_drops(&firewall.target.host().proc_file("net/softnet_stat")?),
        })
    }
}

/// Frames that no counter of drops knows of, and that were seen to be lost all the same: a link
/// that is down, or has no NAPI context, takes them without a word (`link`); behind the firewall
/// they arrive where no program counts them (`sink`).
fn lost_on_the_way(before: &Counters, after: &Counters, seen: &mut Seen) {
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

fn count(rules: Rules<'_>) -> Result<Option<u64>, LabError> {
    match rules {
        Rules::Counted(count) | Rules::Checked(count) => count().map(Some),
        Rules::Unwatched | Rules::Reasons => Ok(None),
    }
}

fn drop_count(counter: &str, packets: u64) -> DropCount {
    DropCount { counter: counter.to_owned(), packets }
}

#[cfg(test)]
mod tests;
