//! The generator and the sink, without a ruleset between them. Needs root.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_kernel::Session;
use weir_lab::bpf_program::frame_generator::{FrameGenerator, SendPlan};
use weir_lab::bpf_program::sink::SinkPacketCounts;
use weir_lab::frames::Frame;
use weir_lab::host::router_config::{FIREWALL_IN_MAC, SOURCE_MAC};
use weir_lab::topology::{FirewallWithCounters, Topology};
use weir_study::FirewallDevices;

/// UDP frames from 192.0.2.n to 198.51.100.2, each of another length.
fn frames(count: u8) -> Vec<Frame> {
    let frame = |n: u8| {
        let mut bytes = vec![0; 12];
        bytes.extend_from_slice(&[0x08, 0x00, 0x45, 0, 0, 28 + n, 0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend_from_slice(&[192, 0, 2, n, 198, 51, 100, 2, 0x30, 0x39, 0, 53, 0, 8 + n]);
        bytes.resize(42 + usize::from(n), 0);
        Frame { bytes, to_drop: n.is_multiple_of(2) }
    };
    (1..=count).map(frame).collect()
}

fn play(rate_pps: u64, packets_max: u64) -> SendPlan {
    let duration = Duration::from_millis(100);
    SendPlan { duration, rate_pps, packets_max, shuffled: true, seed: 1 }
}

/// A UDP frame from 2001:db8::1 to 2001:db8:1::2.
fn frame_v6() -> Frame {
    let mut bytes = vec![0; 12];
    bytes.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
    for last in [[0, 0, 1], [1, 0, 2]] {
        bytes.extend_from_slice(&[0x20, 0x01, 0x0d, 0xb8, 0, last[0], 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&last[1..]);
    }
    bytes.extend_from_slice(&[0x30, 0x39, 0, 53, 0, 8, 0, 0]);
    Frame { bytes, to_drop: false }
}

/// Tests that play at once would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

struct Pipeline {
    topology: Topology,
    firewall: FirewallWithCounters,
    generator: FrameGenerator,
    _alone: MutexGuard<'static, ()>,
}

impl Pipeline {
    fn new() -> Pipeline {
        Pipeline::of(&frames(64))
    }

    fn of(frames: &[Frame]) -> Pipeline {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut topology =
            Topology::new(Session::new().unwrap(), FirewallDevices::default()).unwrap();
        let firewall = topology.create_firewall(frames.iter().any(Frame::is_ipv6)).unwrap();
        let mut generator = FrameGenerator::new().unwrap();
        generator.load_frames(frames, 0x77, FIREWALL_IN_MAC, SOURCE_MAC).unwrap();
        topology.sink().set_expected_tag(0x77);
        Pipeline { topology, firewall, generator, _alone: alone }
    }

    /// What the sink counted since, as soon as that is as much as was offered: frames that another
    /// core was handed are on their way for a moment longer. After five seconds, what there is.
    fn arrived(&mut self, before: SinkPacketCounts, offered: u64) -> SinkPacketCounts {
        let began = Instant::now();
        loop {
            let arrived = self.topology.sink().read_counts().unwrap().since(before);
            let seen = arrived.delivered + arrived.leaked + arrived.foreign;
            if seen >= offered || began.elapsed() > Duration::from_secs(5) {
                return arrived;
            }
            std::thread::yield_now();
        }
    }

    fn play(&mut self, play: &SendPlan) -> weir_lab::bpf_program::frame_generator::SendResult {
        let source = self.topology.source_namespace().clone();
        self.generator.send_frames(&source, self.firewall.send_ifindex, play).unwrap()
    }
}

#[test]
fn every_frame_arrives_behind_an_empty_firewall() {
    let mut pipeline = Pipeline::new();
    let before = pipeline.topology.sink().read_counts().unwrap();
    let played = pipeline.play(&play(0, 0));
    let arrived = pipeline.arrived(before, played.offered);
    assert!(played.offered > 0 && played.finished);
    assert_eq!(arrived.delivered + arrived.leaked, played.offered);
    assert_eq!(arrived.leaked, played.to_drop, "marked frames are distinguished from others");
    assert_eq!(pipeline.firewall.device_drops.dropped_packets().unwrap(), 0);
}

#[test]
fn ipv6_is_forwarded_too() {
    let mut pipeline = Pipeline::of(&[frame_v6()]);
    let before = pipeline.topology.sink().read_counts().unwrap();
    let played = pipeline.play(&play(0, 1000));
    let arrived = pipeline.arrived(before, played.offered);
    assert_eq!((arrived.delivered, played.offered), (1000, 1000));
}

#[test]
fn skipped_frames_are_counted_if_the_rate_is_missed() {
    let mut pipeline = Pipeline::new();
    let played = pipeline.play(&play(20_000, 0));
    assert!(played.offered > 0);
    assert_eq!(played.offered + played.skipped_behind_schedule, 2000, "0.1 s of 20,000 a second");
}

#[test]
fn exactly_the_requested_number_of_packets_is_sent() {
    let mut pipeline = Pipeline::new();
    assert_eq!(pipeline.play(&play(0, 1000)).offered, 1000);
}

#[test]
fn frames_of_another_trial_are_foreign() {
    let mut pipeline = Pipeline::new();
    pipeline.topology.sink().set_expected_tag(0x78);
    let before = pipeline.topology.sink().read_counts().unwrap();
    let played = pipeline.play(&play(0, 1000));
    let arrived = pipeline.arrived(before, played.offered);
    assert_eq!(arrived.delivered + arrived.leaked, 0);
    assert!(arrived.foreign >= played.offered);
}

#[test]
fn frames_lost_in_the_stack_are_in_its_counters() {
    let mut pipeline = Pipeline::new();
    // Without a route the firewall has to discard everything.
    pipeline.firewall.namespace.run_ip_batch(&["route del default"]).unwrap();
    let played = pipeline.play(&play(0, 1000));
    let began = Instant::now();
    let dropped = || pipeline.firewall.stack_counters.discarded_packets().unwrap();
    while dropped() < played.offered && began.elapsed() < Duration::from_secs(5) {
        std::thread::yield_now();
    }
    assert_eq!(dropped(), played.offered);
}

#[test]
fn frames_lost_on_a_link_without_napi_are_not_counted() {
    let mut pipeline = Pipeline::new();
    pipeline.firewall.namespace.set_gro("eth0", false).unwrap();
    let before = pipeline.topology.sink().read_counts().unwrap();
    let played = pipeline.play(&play(0, 1000));
    let arrived = pipeline.topology.sink().read_counts().unwrap().since(before);
    assert_eq!(played.offered, 1000);
    assert_eq!(arrived.delivered + arrived.leaked, 0);
    assert_eq!(
        pipeline.firewall.device_drops.dropped_packets().unwrap(),
        0,
        "this is why there is a probe"
    );
}

/// One core fills the ring, another one empties it. (If two cores fill it, the kernel's own counter
/// of dropped frames loses increments: drivers/net/veth.c, `veth_xdp_xmit`.)
#[test]
fn frames_that_overflow_a_ring_are_counted_once() {
    let mut pipeline = Pipeline::new();
    let name = pipeline.firewall.namespace.name().to_owned();
    let threaded = "echo 1 > /sys/class/net/eth0/threaded";
    // `ip netns exec` shows the namespace's own devices below /sys.
    let exec = ["ip", "netns", "exec", &name, "sh", "-c", threaded];
    assert!(Command::new(exec[0]).args(&exec[1..]).status().unwrap().success());
    for _ in 0..50 {
        let arrived_before = pipeline.topology.sink().read_counts().unwrap();
        let dropped_before = pipeline.firewall.device_drops.dropped_packets().unwrap();
        let offered = pipeline.play(&play(0, 0)).offered;
        // Frames that are in the ring when the generator ends arrive a moment later.
        let began = Instant::now();
        let (seen, dropped) = loop {
            let arrived = pipeline.topology.sink().read_counts().unwrap().since(arrived_before);
            let dropped =
                pipeline.firewall.device_drops.dropped_packets().unwrap() - dropped_before;
            let seen = arrived.delivered + arrived.leaked + dropped;
            if seen >= offered || began.elapsed() > Duration::from_secs(5) {
                break (seen, dropped);
            }
            std::thread::yield_now();
        };
        assert_eq!(seen, offered);
        if dropped > 0 {
            return;
        }
    }
    panic!("no ring overflowed: the machine has one core?");
}
