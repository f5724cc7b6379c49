//! Each kind of loss is induced, and must be reported under its name. Needs root.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_kernel::Session;
use weir_packet::Family;
use weir_stats::Scenario;

use super::*;
use crate::bpf_program::frame_generator::SendPlan;
use crate::frames::flows::{FlowPopularity, FlowProtocol, FlowSpec, FrameSize};
use crate::observe::core_pinning::last_allowed_core;
use weir_study::FirewallDevices;

/// Trials that run at once would measure each other.
static TRIAL_LOCK: Mutex<()> = Mutex::new(());

const FRAMES_PER_TRIAL: u64 = 1000;

struct RunnerFixture {
    runner: TrialRunner,
    firewall: FirewallWithCounters,
    _trial_lock: MutexGuard<'static, ()>,
}

impl RunnerFixture {
    fn new(size: FrameSize) -> RunnerFixture {
        let alone = TRIAL_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let topology = Topology::new(Session::new().unwrap(), FirewallDevices::default()).unwrap();
        let mut runner = TrialRunner::new(topology, last_allowed_core().unwrap(), true).unwrap();
        let firewall = runner.resources.topology.create_firewall(true).unwrap();
        let mut pipeline = RunnerFixture { runner, firewall, _trial_lock: alone };
        pipeline.generate_and_load_frames(
            size,
            64,
            FlowPopularity::Uniform,
            Family::V4,
            FlowProtocol::Udp,
        );
        pipeline
    }

    fn generate_and_load_frames(
        &mut self,
        size: FrameSize,
        flows: u32,
        popularity: FlowPopularity,
        family: Family,
        protocol: FlowProtocol,
    ) {
        let flows = FlowSpec { size, flow_count: flows, popularity, family, protocol };
        let part = Scenario::default().with_coordinate("flows", format!("{flows:?}").as_str());
        self.runner
            .resources
            .load_frames_into_generator(&part, &flows.generate_frames(1).unwrap(), 1)
            .unwrap();
    }

    /// Plays some frames: how many arrived, and what was lost by which name.
    fn run_and_list_losses(&mut self, drops: DropCountSource<'_>) -> (u64, Vec<(String, u64)>) {
        let play = SendPlan {
            packets_max: FRAMES_PER_TRIAL,
            ..FrameWorkload::overload_plan(Duration::from_millis(500))
        };
        let seen =
            self.runner.run_trial(&self.firewall, &mut FrameWorkload::new(play), drops).unwrap();
        assert_eq!(seen.send_result.offered, FRAMES_PER_TRIAL);
        let lost = seen.drop_counts.iter().filter(|d| !d.is_counted_elsewhere() && d.packets > 0);
        let lost: Vec<(String, u64)> = lost.map(|d| (d.counter.clone(), d.packets)).collect();
        let sum: u64 = lost.iter().map(|(_, packets)| packets).sum();
        assert_eq!(seen.arrived.delivered + sum, FRAMES_PER_TRIAL, "{seen:?}");
        (seen.arrived.delivered, lost)
    }
}

fn build_total_loss_result(counter: &str) -> (u64, Vec<(String, u64)>) {
    (0, vec![(counter.to_owned(), FRAMES_PER_TRIAL)])
}

#[test]
fn each_kind_of_loss_is_attributed_to_its_counter() {
    let mut pipeline = RunnerFixture::new(FrameSize::Fixed(64));
    assert_eq!(
        pipeline.run_and_list_losses(DropCountSource::NotCounted),
        (FRAMES_PER_TRIAL, Vec::new()),
        "nothing is lost at first"
    );

    let drop_all = b"table ip t {\nchain f {\ntype filter hook forward priority 0\ndrop\n}\n}\n";
    pipeline.firewall.namespace.run_command(&["nft", "-f", "-"], drop_all).unwrap();
    assert_eq!(
        pipeline.run_and_list_losses(DropCountSource::KernelReasons),
        build_total_loss_result("rules")
    );
    pipeline.firewall.namespace.run_command(&["nft", "flush", "ruleset"], b"").unwrap();

    pipeline.firewall.namespace.run_ip_batch(&["route del default"]).unwrap();
    assert_eq!(
        pipeline.run_and_list_losses(DropCountSource::NotCounted),
        build_total_loss_result("stack")
    );
    pipeline
        .firewall
        .namespace
        .run_ip_batch(&["route add default via 198.18.1.2 dev eth1"])
        .unwrap();
    assert_eq!(
        pipeline.run_and_list_losses(DropCountSource::NotCounted),
        (FRAMES_PER_TRIAL, Vec::new()),
        "whole again"
    );

    let source = pipeline.runner.resources.topology.source_namespace().clone();
    source.run_ip_batch(&["link set f0 down"]).unwrap();
    assert_eq!(
        pipeline.run_and_list_losses(DropCountSource::NotCounted),
        build_total_loss_result("link")
    );
    source.run_ip_batch(&["link set f0 up"]).unwrap();

    pipeline.firewall.namespace.set_gro("eth0", false).unwrap();
    assert_eq!(
        pipeline.run_and_list_losses(DropCountSource::NotCounted),
        build_total_loss_result("link"),
        "no NAPI context"
    );
    pipeline.firewall.namespace.set_gro("eth0", true).unwrap();

    pipeline.runner.resources.topology.sink().detach();
    assert_eq!(
        pipeline.run_and_list_losses(DropCountSource::NotCounted),
        build_total_loss_result("sink")
    );
}

#[test]
fn frames_of_every_size_and_kind_arrive() {
    let mut pipeline = RunnerFixture::new(FrameSize::Imix);
    assert_eq!(
        pipeline.run_and_list_losses(DropCountSource::NotCounted),
        (FRAMES_PER_TRIAL, Vec::new()),
        "IMIX"
    );
    for bytes in [64, 128, 132, 133, 512, 1024, 1280, 1518] {
        for family in [Family::V4, Family::V6] {
            let bytes = if family == Family::V6 { bytes.max(82) } else { bytes };
            let (one, udp) = (FlowPopularity::Uniform, FlowProtocol::Udp);
            pipeline.generate_and_load_frames(FrameSize::Fixed(bytes), 8, one, family, udp);
            assert_eq!(
                pipeline.run_and_list_losses(DropCountSource::NotCounted),
                (FRAMES_PER_TRIAL, Vec::new()),
                "{bytes} {family:?}"
            );
        }
    }
    for protocol in [FlowProtocol::Tcp, FlowProtocol::Icmp] {
        pipeline.generate_and_load_frames(
            FrameSize::Fixed(96),
            100_000,
            FlowPopularity::Zipf,
            Family::V4,
            protocol,
        );
        assert_eq!(
            pipeline.run_and_list_losses(DropCountSource::NotCounted),
            (FRAMES_PER_TRIAL, Vec::new()),
            "{protocol:?}"
        );
    }
    pipeline.generate_and_load_frames(
        FrameSize::Fixed(64),
        1_000_000,
        FlowPopularity::Uniform,
        Family::V4,
        FlowProtocol::Udp,
    );
    assert_eq!(
        pipeline.run_and_list_losses(DropCountSource::NotCounted),
        (FRAMES_PER_TRIAL, Vec::new()),
        "a million flows"
    );
}
