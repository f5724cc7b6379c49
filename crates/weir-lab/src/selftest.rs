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
use weir_stats::{ConnectionClose, Scenario};

use crate::LabError;
use crate::bpf_program::stateless_tcp::ConnectionPlan;
use crate::frames::flows::{FlowPopularity, FlowProtocol, FlowSpec, FrameSize};
use crate::observe::core_pinning::last_allowed_core;
use crate::topology::{FirewallWithCounters, Topology};
use crate::trial::empty_firewall_check::check_empty_firewall;
use crate::trial::runner::{DropCountSource, TrialRunner};
use crate::workload::frames::FrameWorkload;
use crate::workload::stateless_tcp::{StatelessTcpPlanner, StatelessTcpWorkload};
use crate::workload::workload_planner::{TrialParameters, WorkloadPlanner};
use weir_stats::TrialResults;
use weir_study::{ClientKind, ConnectionLoad, ConnectionPath, FirewallDevices};

/// Parts of the self-test; a block measures them in forward and reverse order.
pub const SELF_TEST_PART_COUNT: usize = 7;

/// How the self-test is run.
#[derive(Clone, Copy, Debug)]
pub struct SelfTestOptions {
    /// Length of a trial; above 0.6 s they run without real-time priority.
    pub trial_duration: Duration,
    /// Passes over all parts, there and back.
    pub forward_reverse_blocks: u32,
}

/// One part of it.
#[derive(Clone, Debug, Serialize)]
pub struct SelfTestMeasurement {
    /// What was done.
    pub name: String,
    /// Packets a second that arrived: median of the trials.
    #[serde(rename = "pps")]
    pub median_delivered_pps: f64,
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
    pps_samples: Vec<f64>,
    #[serde(skip)]
    connection_rate_samples: Vec<f64>,
}

/// What the self-test found.
#[derive(Clone, Debug, Serialize)]
pub struct SelfTestReport {
    /// Its parts.
    pub parts: Vec<SelfTestMeasurement>,
    /// How many times faster connections are without tracking: what the laboratory must see.
    #[serde(rename = "without_tracking")]
    pub untracked_to_tracked_rate_ratio: Option<Estimate>,
    /// How many times as long as a frame a packet of a connection takes through the same kind of
    /// router: what the laboratory's ends cost. The rest is the kernel's, and a faster generator
    /// would not make it less.
    #[serde(rename = "beside_frames")]
    pub frame_to_connection_pps_ratio: Option<Estimate>,
    /// How the generator was scheduled.
    pub scheduling: String,
}

impl SelfTestMeasurement {
    fn new(name: &str) -> SelfTestMeasurement {
        SelfTestMeasurement {
            name: name.to_owned(),
            median_delivered_pps: 0.0,
            connections_per_second: 0.0,
            offered: 0,
            delivered: 0,
            dropped: 0,
            failed: 0,
            pps_samples: Vec::new(),
            connection_rate_samples: Vec::new(),
        }
    }

    /// Packets that were sent, did not arrive and are in no counter.
    pub fn unaccounted_packets(&self) -> i64 {
        self.offered as i64 - self.delivered as i64 - self.dropped as i64
    }

    /// Every packet arrived, and every connection was completed.
    pub fn is_delivered_and_completed(&self) -> bool {
        self.offered > 0 && self.delivered == self.offered && self.failed == 0
    }
}

/// Where a part is measured.
enum SelfTestSetup {
    DirectLink(u32, FlowSpec),
    RouterFrames(FlowSpec),
    RouterConnections,
    SingleClientConnectionsNoGro,
    TrackedConnections,
}

/// The parts with their names, in their order; `direct` is the index of the link's device.
fn build_named_self_test_setups(
    direct: u32,
) -> [(&'static str, SelfTestSetup); SELF_TEST_PART_COUNT] {
    let flows = |size| FlowSpec {
        size,
        flow_count: 1024,
        popularity: FlowPopularity::Uniform,
        family: Family::V4,
        protocol: FlowProtocol::Udp,
    };
    [
        (
            "frames of 64 bytes, one link",
            SelfTestSetup::DirectLink(direct, flows(FrameSize::Fixed(64))),
        ),
        (
            "frames of 1518 bytes, one link",
            SelfTestSetup::DirectLink(direct, flows(FrameSize::Fixed(1518))),
        ),
        ("frames of IMIX, one link", SelfTestSetup::DirectLink(direct, flows(FrameSize::Imix))),
        ("frames of 64 bytes, router", SelfTestSetup::RouterFrames(flows(FrameSize::Fixed(64)))),
        ("connections, router", SelfTestSetup::RouterConnections),
        ("connections, 1 client, no GRO", SelfTestSetup::SingleClientConnectionsNoGro),
        ("connections, tracked", SelfTestSetup::TrackedConnections),
    ]
}

/// Measures the laboratory itself.
///
/// # Errors
/// A machine that lacks something (not root).
pub fn run_self_test(
    options: &SelfTestOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<SelfTestReport, LabError> {
    let connection_load = ConnectionLoad::default();
    let topology = Topology::new(Session::new()?, FirewallDevices::default())?;
    let mut runner = TrialRunner::new(topology, last_allowed_core()?, true)?;
    let direct = runner.resources.topology.create_direct_link()?;
    let router = runner.resources.topology.create_firewall(false)?;
    let planner =
        StatelessTcpPlanner::new(&connection_load, ConnectionPath::Gateway, ClientKind::Sockets);
    let plain = planner.create_firewall(&mut runner.resources, false)?;
    let tracked = planner.create_firewall(&mut runner.resources, false)?;
    let least = planner.create_firewall(&mut runner.resources, false)?;
    attach_pass_program_and_disable_gro(&mut runner, &least)?;
    for firewall in [&plain, &tracked, &least] {
        let trial = TrialParameters::default();
        check_empty_firewall(&mut runner, firewall, &planner, &trial)?;
    }
    let track = b"table ip weir {\nchain forward {\ntype filter hook forward priority 0\n\
        ct state new,established accept\n}\n}\n";
    tracked.namespace.run_command(&["nft", "-f", "-"], track)?;
    let ways = build_named_self_test_setups(direct);
    let many = (connection_load.endpoints.client_count, connection_load.endpoints.server_count);
    let mut parts: Vec<SelfTestMeasurement> =
        ways.iter().map(|(name, _)| SelfTestMeasurement::new(name)).collect();
    let there: Vec<usize> = (0..ways.len()).collect();
    let order: Vec<usize> = there.iter().chain(there.iter().rev()).copied().collect();
    // The first pass is a warm-up.
    for block in 0..=options.forward_reverse_blocks {
        for at in &order {
            let (name, way) = &ways[*at];
            progress(name);
            let mut part = SelfTestMeasurement::new(name);
            match way {
                SelfTestSetup::DirectLink(ifindex, flows) => {
                    measure_direct_link(&mut runner, *ifindex, flows, options, &mut part)?;
                }
                SelfTestSetup::RouterFrames(flows) => {
                    measure_router_frames(&mut runner, &router, flows, options, &mut part)?
                }
                SelfTestSetup::RouterConnections => {
                    measure_connections(&mut runner, &plain, many, options, &mut part)?
                }
                SelfTestSetup::TrackedConnections => {
                    measure_connections(&mut runner, &tracked, many, options, &mut part)?
                }
                // Packets that follow one another have one address: the router looks it up once
                // in eight (ip_route_use_hint; GRO's batch is what it is given at once).
                SelfTestSetup::SingleClientConnectionsNoGro => {
                    measure_connections(&mut runner, &least, (1, 1), options, &mut part)?
                }
            }
            if block > 0 {
                parts[*at].add_trial(part);
            }
        }
    }
    Ok(SelfTestReport::from_measurements(
        parts,
        runner.describe_trial_scheduling(options.trial_duration)?,
    ))
}

impl SelfTestReport {
    /// Of the parts in their order, with their medians.
    fn from_measurements(
        mut parts: Vec<SelfTestMeasurement>,
        scheduling: String,
    ) -> SelfTestReport {
        let ratio = |over: &[f64], under: &[f64]| {
            let pairs: Vec<(f64, f64)> =
                average_rates_per_block(over).zip(average_rates_per_block(under)).collect();
            estimate::estimate_median_of_pair_ratios(&pairs)
        };
        let [.., frames, plain, _, tracked] = &parts[..] else { unreachable!("there are seven") };
        let without_tracking =
            ratio(&plain.connection_rate_samples, &tracked.connection_rate_samples);
        let beside_frames = ratio(&frames.pps_samples, &plain.pps_samples);
        for part in &mut parts {
            part.median_delivered_pps =
                estimate::estimate_median(&part.pps_samples).map_or(0.0, |all| all.value);
            part.connections_per_second = estimate::estimate_median(&part.connection_rate_samples)
                .map_or(0.0, |all| all.value);
        }
        SelfTestReport {
            parts,
            untracked_to_tracked_rate_ratio: without_tracking,
            frame_to_connection_pps_ratio: beside_frames,
            scheduling,
        }
    }
}

impl SelfTestMeasurement {
    fn add_trial(&mut self, trial: SelfTestMeasurement) {
        self.offered += trial.offered;
        self.delivered += trial.delivered;
        self.dropped += trial.dropped;
        self.failed += trial.failed;
        self.pps_samples.extend(trial.pps_samples);
        self.connection_rate_samples.extend(trial.connection_rate_samples);
    }
}

/// Both legs of each block together.
fn average_rates_per_block(rates: &[f64]) -> impl Iterator<Item = f64> {
    rates.chunks(2).map(|legs| legs.iter().sum::<f64>() / legs.len() as f64)
}

fn load_flow_frames(runner: &mut TrialRunner, flows: &FlowSpec) -> Result<(), LabError> {
    let frames = flows
        .generate_frames(1)
        .map_err(|message| LabError::UnsendableFrames { path: "flows".into(), message })?;
    let part = Scenario::default().with_coordinate("flows", format!("{flows:?}").as_str());
    runner.resources.load_frames_into_generator(&part, &frames, 1)
}

fn measure_direct_link(
    runner: &mut TrialRunner,
    ifindex: u32,
    flows: &FlowSpec,
    options: &SelfTestOptions,
    part: &mut SelfTestMeasurement,
) -> Result<(), LabError> {
    load_flow_frames(runner, flows)?;
    let (played, arrived) = runner.send_over_direct_link(ifindex, options.trial_duration)?;
    part.offered = played.offered;
    part.delivered = arrived.delivered;
    part.pps_samples.push(arrived.delivered as f64 / played.seconds.max(1e-9));
    Ok(())
}

fn measure_router_frames(
    runner: &mut TrialRunner,
    firewall: &FirewallWithCounters,
    flows: &FlowSpec,
    options: &SelfTestOptions,
    part: &mut SelfTestMeasurement,
) -> Result<(), LabError> {
    load_flow_frames(runner, flows)?;
    let mut workload = FrameWorkload::new(FrameWorkload::overload_plan(options.trial_duration));
    let seen = runner.run_trial(firewall, &mut workload, DropCountSource::NotCounted)?;
    part.offered = seen.send_result.offered;
    part.delivered = seen.arrived.delivered;
    part.dropped =
        seen.drop_counts.iter().filter(|d| !d.is_counted_elsewhere()).map(|d| d.packets).sum();
    part.pps_samples.push(seen.arrived.delivered as f64 / seen.send_result.seconds.max(1e-9));
    Ok(())
}

/// Lets a firewall receive each packet separately.
fn attach_pass_program_and_disable_gro(
    runner: &mut TrialRunner,
    firewall: &FirewallWithCounters,
) -> Result<(), LabError> {
    let namespace = &firewall.namespace;
    let ends = runner.resources.tcp_endpoints.as_mut().expect("a firewall is between them");
    let FirewallDevices { input, output } = runner.resources.topology.firewall_devices();
    for device in [input, output] {
        ends.attach_pass_program(namespace, namespace.ifindex(device)?)?;
        namespace.set_gro(device, false)?;
    }
    Ok(())
}

fn measure_connections(
    runner: &mut TrialRunner,
    firewall: &FirewallWithCounters,
    (clients, servers): (u32, u32),
    options: &SelfTestOptions,
    part: &mut SelfTestMeasurement,
) -> Result<(), LabError> {
    runner
        .resources
        .tcp_endpoints
        .as_mut()
        .expect("a firewall is between them")
        .set_active_client_server_counts(clients, servers);
    let open = ConnectionPlan {
        duration: options.trial_duration,
        rate: 0,
        connections_max: 0,
        close: ConnectionClose::Fin,
        verify_checksums: false,
        secret: runner.resources.next_trial_tag(1),
        flood_syns_per_connection: 0,
    };
    let seen = runner.run_trial(
        firewall,
        &mut StatelessTcpWorkload::new(open),
        DropCountSource::NotCounted,
    )?;
    let TrialResults::Connections(record) = &seen.trial_results else {
        unreachable!("a workload of connections records them")
    };
    let seconds = seen.send_result.seconds.max(1e-9);
    part.offered = seen.send_result.offered;
    part.delivered = seen.arrived.delivered;
    part.dropped =
        seen.drop_counts.iter().filter(|d| !d.is_counted_elsewhere()).map(|d| d.packets).sum();
    part.failed = record.started.saturating_sub(record.completed);
    part.pps_samples.push(seen.arrived.delivered as f64 / seconds);
    part.connection_rate_samples.push(record.completed as f64 / seconds);
    Ok(())
}
