//! The performance of the laboratory itself on this machine, before any firewall is measured.
//!
//! A generator that is slower than a firewall measures itself. The parts are: frames over one link
//! directly into the sink; frames and connections through a router without rules; connections
//! through a router with connection tracking, for the difference that must be resolved; and
//! connections through a minimal router, for the cost of the ends. Trials are short, the parts
//! alternate (A B C C B A), and every packet must be accounted for.

use std::time::Duration;

use serde::Serialize;
use weir_kernel::Session;
use weir_packet::Family;
use weir_stats::estimate::{self, Estimate};
use weir_stats::{Close, Scenario};

use crate::LabError;
use crate::frames::flows::{Flows, Popularity, Protocol, Size};
use crate::observe::cpu::last_core;
use crate::program::tcp::ConnectionPlan;
use crate::topology::{TestFirewall, Topology};
use crate::trial::empty;
use crate::trial::runner::{DropSource, TrialRunner};
use crate::workload::frames::FrameWorkload;
use crate::workload::tcp::TcpWorkload;
use weir_stats::Measured;
use weir_study::ConnectionLoad;
use weir_study::Devices;

/// Parts of the self-test; a block measures them in forward and reverse order.
pub const PARTS: usize = 7;

/// How the self-test is run.
#[derive(Clone, Copy, Debug)]
pub struct SelfTestOptions {
    /// Length of a trial; above 0.6 s they run without real-time priority.
    pub trial: Duration,
    /// Passes over all parts, there and back.
    pub blocks: u32,
}

/// One part of it.
#[derive(Clone, Debug, Serialize)]
pub struct SelfTestPart {
    /// What was done.
    pub name: String,
    /// Packets a second that arrived: median of the trials.
    pub pps: f64,
    /// Complete connections per second; 0 for frames.
    pub connections_per_second: f64,
    /// Packets that were sent, in all trials.
    pub offered: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets in the drop counters of devices, the IP stack and the connection table.
    pub dropped: u64,
    /// Connections that were begun and not completed.
    pub failed: u64,
    #[serde(skip)]
    rates: Vec<f64>,
    #[serde(skip)]
    connections: Vec<f64>,
}

/// What the self-test found.
#[derive(Clone, Debug, Serialize)]
pub struct SelfTestReport {
    /// Its parts.
    pub parts: Vec<SelfTestPart>,
    /// How many times faster connections are without tracking: what the laboratory must see.
    pub without_tracking: Option<Estimate>,
    /// How many times as long as a frame a packet of a connection takes through the same kind of
    /// router: what the laboratory's ends cost. The rest is the kernel's, and a faster generator
    /// would not make it less.
    pub beside_frames: Option<Estimate>,
    /// How the generator was scheduled.
    pub scheduling: String,
}

impl SelfTestPart {
    fn new(name: &str) -> SelfTestPart {
        SelfTestPart {
            name: name.to_owned(),
            pps: 0.0,
            connections_per_second: 0.0,
            offered: 0,
            delivered: 0,
            dropped: 0,
            failed: 0,
            rates: Vec::new(),
            connections: Vec::new(),
        }
    }

    /// Packets that were sent, did not arrive and are in no counter.
    pub fn missing(&self) -> i64 {
        self.offered as i64 - self.delivered as i64 - self.dropped as i64
    }

    /// Every packet arrived, and every connection was completed.
    pub fn is_without_loss(&self) -> bool {
        self.offered > 0 && self.delivered == self.offered && self.failed == 0
    }
}

/// Where a part is measured.
enum PartKind {
    Direct(u32, Flows),
    Router(Flows),
    Connections,
    Least,
    Tracked,
}

/// Measures the laboratory itself.
///
/// # Errors
/// A machine that lacks something (not root).
pub fn run(
    options: &SelfTestOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<SelfTestReport, LabError> {
    let connection_load = ConnectionLoad::default();
    let topology = Topology::new(Session::new()?, Devices::default())?;
    let mut runner = TrialRunner::new(topology, last_core()?, true)?;
    let direct = runner.stage.topology.direct()?;
    let flows = |size| Flows {
        size,
        flows: 1024,
        popularity: Popularity::Uniform,
        family: Family::V4,
        protocol: Protocol::Udp,
    };
    let router = runner.stage.firewall(None, false)?;
    let plain = runner.stage.firewall(Some(&connection_load), false)?;
    let tracked = runner.stage.firewall(Some(&connection_load), false)?;
    let least = runner.stage.firewall(Some(&connection_load), false)?;
    without_gro(&mut runner, &least)?;
    for firewall in [&plain, &tracked, &least] {
        empty::connections(&mut runner, firewall, 0)?;
    }
    let track = b"table ip weir {\nchain forward {\ntype filter hook forward priority 0\n\
        ct state new,established accept\n}\n}\n";
    tracked.namespace.run(&["nft", "-f", "-"], track)?;
    let ways: [(&str, PartKind); PARTS] = [
        ("frames of 64 bytes, one link", PartKind::Direct(direct, flows(Size::Bytes(64)))),
        ("frames of 1518 bytes, one link", PartKind::Direct(direct, flows(Size::Bytes(1518)))),
        ("frames of IMIX, one link", PartKind::Direct(direct, flows(Size::Imix))),
        ("frames of 64 bytes, router", PartKind::Router(flows(Size::Bytes(64)))),
        ("connections, router", PartKind::Connections),
        ("connections, 1 client, no GRO", PartKind::Least),
        ("connections, tracked", PartKind::Tracked),
    ];
    let many = (connection_load.endpoints.clients, connection_load.endpoints.servers);
    let mut parts: Vec<SelfTestPart> =
        ways.iter().map(|(name, _)| SelfTestPart::new(name)).collect();
    let there: Vec<usize> = (0..ways.len()).collect();
    let order: Vec<usize> = there.iter().chain(there.iter().rev()).copied().collect();
    // The first pass is a warm-up.
    for block in 0..=options.blocks {
        for at in &order {
            let (name, way) = &ways[*at];
            progress(name);
            let mut part = SelfTestPart::new(name);
            match way {
                PartKind::Direct(ifindex, flows) => {
                    one_link(&mut runner, *ifindex, flows, options, &mut part)?;
                }
                PartKind::Router(flows) => frames(&mut runner, &router, flows, options, &mut part)?,
                PartKind::Connections => connect(&mut runner, &plain, many, options, &mut part)?,
                PartKind::Tracked => connect(&mut runner, &tracked, many, options, &mut part)?,
                // Packets that follow one another have one address: the router looks it up once
                // in eight (ip_route_use_hint; GRO's batch is what it is given at once).
                PartKind::Least => connect(&mut runner, &least, (1, 1), options, &mut part)?,
            }
            if block > 0 {
                parts[*at].add(part);
            }
        }
    }
    Ok(SelfTestReport::of(parts, runner.scheduling(options.trial)?))
}

impl SelfTestReport {
    /// Of the parts in their order, with their medians.
    fn of(mut parts: Vec<SelfTestPart>, scheduling: String) -> SelfTestReport {
        let ratio = |over: &[f64], under: &[f64]| {
            let pairs: Vec<(f64, f64)> = by_block(over).zip(by_block(under)).collect();
            estimate::median_ratio(&pairs, 1)
        };
        let [.., frames, plain, _, tracked] = &parts[..] else { unreachable!("there are seven") };
        let without_tracking = ratio(&plain.connections, &tracked.connections);
        let beside_frames = ratio(&frames.rates, &plain.rates);
        for part in &mut parts {
            part.pps = estimate::of_median(&part.rates, 1).map_or(0.0, |all| all.value);
            part.connections_per_second =
                estimate::of_median(&part.connections, 1).map_or(0.0, |all| all.value);
        }
        SelfTestReport { parts, without_tracking, beside_frames, scheduling }
    }
}

impl SelfTestPart {
    fn add(&mut self, trial: SelfTestPart) {
        self.offered += trial.offered;
        self.delivered += trial.delivered;
        self.dropped += trial.dropped;
        self.failed += trial.failed;
        self.rates.extend(trial.rates);
        self.connections.extend(trial.connections);
    }
}

/// Both legs of each block together.
fn by_block(rates: &[f64]) -> impl Iterator<Item = f64> {
    rates.chunks(2).map(|legs| legs.iter().sum::<f64>() / legs.len() as f64)
}

fn load(runner: &mut TrialRunner, flows: &Flows) -> Result<(), LabError> {
    let frames =
        flows.frames(1).map_err(|message| LabError::Frames { path: "flows".into(), message })?;
    let part = Scenario::default().with("flows", format!("{flows:?}").as_str());
    runner.stage.load_frames(&part, &frames, 1)
}

fn one_link(
    runner: &mut TrialRunner,
    ifindex: u32,
    flows: &Flows,
    options: &SelfTestOptions,
    part: &mut SelfTestPart,
) -> Result<(), LabError> {
    load(runner, flows)?;
    let (played, arrived) = runner.play_directly(ifindex, options.trial)?;
    part.offered = played.offered;
    part.delivered = arrived.delivered;
    part.rates.push(arrived.delivered as f64 / played.seconds.max(1e-9));
    Ok(())
}

fn frames(
    runner: &mut TrialRunner,
    firewall: &TestFirewall,
    flows: &Flows,
    options: &SelfTestOptions,
    part: &mut SelfTestPart,
) -> Result<(), LabError> {
    load(runner, flows)?;
    let mut workload = FrameWorkload::new(FrameWorkload::overload(options.trial));
    let seen = runner.trial(firewall, &mut workload, DropSource::Unwatched)?;
    part.offered = seen.played.offered;
    part.delivered = seen.arrived.delivered;
    part.dropped = seen.dropped.iter().filter(|d| !d.is_explanation()).map(|d| d.packets).sum();
    part.rates.push(seen.arrived.delivered as f64 / seen.played.seconds.max(1e-9));
    Ok(())
}

/// Lets a firewall receive each packet separately.
fn without_gro(runner: &mut TrialRunner, firewall: &TestFirewall) -> Result<(), LabError> {
    let namespace = &firewall.namespace;
    let ends = runner.stage.ends.as_mut().expect("a firewall is between them");
    let Devices { input, output } = runner.stage.topology.devices();
    for device in [input, output] {
        ends.attach_pass(namespace, namespace.ifindex(device)?)?;
        namespace.set_gro(device, false)?;
    }
    Ok(())
}

fn connect(
    runner: &mut TrialRunner,
    firewall: &TestFirewall,
    (clients, servers): (u32, u32),
    options: &SelfTestOptions,
    part: &mut SelfTestPart,
) -> Result<(), LabError> {
    runner.stage.ends.as_mut().expect("a firewall is between them").take_part(clients, servers);
    let open = ConnectionPlan {
        duration: options.trial,
        rate: 0,
        connections_max: 0,
        close: Close::Fin,
        verify: false,
        secret: runner.stage.next_magic(1),
        flood: 0,
    };
    let seen = runner.trial(firewall, &mut TcpWorkload::new(open), DropSource::Unwatched)?;
    let Measured::Connections(record) = &seen.measured else {
        unreachable!("a workload of connections records them")
    };
    let seconds = seen.played.seconds.max(1e-9);
    part.offered = seen.played.offered;
    part.delivered = seen.arrived.delivered;
    part.dropped = seen.dropped.iter().filter(|d| !d.is_explanation()).map(|d| d.packets).sum();
    part.failed = record.offered.saturating_sub(record.completed);
    part.rates.push(seen.arrived.delivered as f64 / seconds);
    part.connections.push(record.completed as f64 / seconds);
    Ok(())
}
