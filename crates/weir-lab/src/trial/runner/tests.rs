//! Each kind of loss is induced, and must be reported under its name. Needs root.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_kernel::Session;
use weir_packet::Family;
use weir_stats::Scenario;

use super::*;
use crate::frames::flows::{Flows, Popularity, Protocol, Size};
use crate::observe::cpu::last_core;
use crate::program::generator::Play;
use weir_study::Devices;

/// Trials that run at once would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

const FRAMES: u64 = 1000;

struct Pipeline {
    runner: TrialRunner,
    firewall: TestFirewall,
    _alone: MutexGuard<'static, ()>,
}

impl Pipeline {
    fn new(size: Size) -> Pipeline {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let topology = Topology::new(Session::new().unwrap(), Devices::default()).unwrap();
        let mut runner = TrialRunner::new(topology, last_core().unwrap(), true).unwrap();
        let firewall = runner.stage.firewall(None, true).unwrap();
        let mut pipeline = Pipeline { runner, firewall, _alone: alone };
        pipeline.load(size, 64, Popularity::Uniform, Family::V4, Protocol::Udp);
        pipeline
    }

    fn load(
        &mut self,
        size: Size,
        flows: u32,
        popularity: Popularity,
        family: Family,
        protocol: Protocol,
    ) {
        let flows = Flows { size, flows, popularity, family, protocol };
        let part = Scenario::default().with("flows", format!("{flows:?}").as_str());
        self.runner.stage.load_frames(&part, &flows.frames(1).unwrap(), 1).unwrap();
    }

    /// Plays some frames: how many arrived, and what was lost by which name.
    fn play(&mut self, drops: DropSource<'_>) -> (u64, Vec<(String, u64)>) {
        let play =
            Play { packets_max: FRAMES, ..FrameWorkload::overload(Duration::from_millis(500)) };
        let seen = self.runner.trial(&self.firewall, &mut FrameWorkload::new(play), drops).unwrap();
        assert_eq!(seen.played.offered, FRAMES);
        let lost = seen.dropped.iter().filter(|d| !d.is_explanation() && d.packets > 0);
        let lost: Vec<(String, u64)> = lost.map(|d| (d.counter.clone(), d.packets)).collect();
        let sum: u64 = lost.iter().map(|(_, packets)| packets).sum();
        assert_eq!(seen.arrived.delivered + sum, FRAMES, "{seen:?}");
        (seen.arrived.delivered, lost)
    }
}

fn all(counter: &str) -> (u64, Vec<(String, u64)>) {
    (0, vec![(counter.to_owned(), FRAMES)])
}

#[test]
fn each_kind_of_loss_is_found_under_its_name() {
    let mut pipeline = Pipeline::new(Size::Bytes(64));
    assert_eq!(
        pipeline.play(DropSource::Unwatched),
        (FRAMES, Vec::new()),
        "nothing is lost at first"
    );

    let drop_all = b"table ip t {\nchain f {\ntype filter hook forward priority 0\ndrop\n}\n}\n";
    pipeline.firewall.namespace.run(&["nft", "-f", "-"], drop_all).unwrap();
    assert_eq!(pipeline.play(DropSource::Reasons), all("rules"));
    pipeline.firewall.namespace.run(&["nft", "flush", "ruleset"], b"").unwrap();

    pipeline.firewall.namespace.ip(&["route del default"]).unwrap();
    assert_eq!(pipeline.play(DropSource::Unwatched), all("stack"));
    pipeline.firewall.namespace.ip(&["route add default via 198.18.1.2 dev eth1"]).unwrap();
    assert_eq!(pipeline.play(DropSource::Unwatched), (FRAMES, Vec::new()), "whole again");

    let source = pipeline.runner.stage.topology.source().clone();
    source.ip(&["link set f0 down"]).unwrap();
    assert_eq!(pipeline.play(DropSource::Unwatched), all("link"));
    source.ip(&["link set f0 up"]).unwrap();

    pipeline.firewall.namespace.set_gro("eth0", false).unwrap();
    assert_eq!(pipeline.play(DropSource::Unwatched), all("link"), "no NAPI context");
    pipeline.firewall.namespace.set_gro("eth0", true).unwrap();

    pipeline.runner.stage.topology.sink().detach();
    assert_eq!(pipeline.play(DropSource::Unwatched), all("sink"));
}

#[test]
fn frames_of_every_size_and_kind_arrive() {
    let mut pipeline = Pipeline::new(Size::Imix);
    assert_eq!(pipeline.play(DropSource::Unwatched), (FRAMES, Vec::new()), "IMIX");
    for bytes in [64, 128, 132, 133, 512, 1024, 1280, 1518] {
        for family in [Family::V4, Family::V6] {
            let bytes = if family == Family::V6 { bytes.max(82) } else { bytes };
            let (one, udp) = (Popularity::Uniform, Protocol::Udp);
            pipeline.load(Size::Bytes(bytes), 8, one, family, udp);
            assert_eq!(
                pipeline.play(DropSource::Unwatched),
                (FRAMES, Vec::new()),
                "{bytes} {family:?}"
            );
        }
    }
    for protocol in [Protocol::Tcp, Protocol::Icmp] {
        pipeline.load(Size::Bytes(96), 100_000, Popularity::Zipf, Family::V4, protocol);
        assert_eq!(pipeline.play(DropSource::Unwatched), (FRAMES, Vec::new()), "{protocol:?}");
    }
    pipeline.load(Size::Bytes(64), 1_000_000, Popularity::Uniform, Family::V4, Protocol::Udp);
    assert_eq!(pipeline.play(DropSource::Unwatched), (FRAMES, Vec::new()), "a million flows");
}
