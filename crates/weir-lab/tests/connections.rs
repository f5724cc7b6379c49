//! Connections through a firewall, and connections that it breaks. Needs root.

use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use weir_kernel::Session;
use weir_lab::bpf_program::client_server_tally::ClientServerTallies;
use weir_lab::bpf_program::stateless_tcp::{
    ConnectionGeneratorResult, ConnectionPlan, StatelessTcpEndpoints,
};
use weir_lab::host::router_config::{FIREWALL_IN_MAC, SOURCE_MAC};
use weir_lab::topology::{FirewallWithCounters, Topology};
use weir_stats::{ConnectionClose, ConnectionCounts};
use weir_study::ConnectionPath;
use weir_study::Endpoints;
use weir_study::FirewallDevices;

/// Tests that play at once would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

struct Pipeline {
    topology: Topology,
    ends: StatelessTcpEndpoints,
    firewall: FirewallWithCounters,
    secret: u32,
    flood: u32,
    duration: Duration,
    verify: bool,
    _alone: MutexGuard<'static, ()>,
}

/// Keeps the thread on its core: one that moves on leaves its last packets to be received behind
/// it, and overruns the ring before them.
fn pin() {
    let mut core = CpuSet::new();
    core.set(sched_getcpu());
    sched_setaffinity(None, &core).unwrap();
}

impl Pipeline {
    fn new() -> Pipeline {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        pin();
        let endpoints = Endpoints {
            first_client: Ipv4Addr::new(198, 19, 0, 0),
            client_count: 256,
            first_server: Ipv4Addr::new(198, 19, 128, 0),
            server_count: 4,
            server_port: 80,
        };
        let mut topology =
            Topology::new(Session::new().unwrap(), FirewallDevices::default()).unwrap();
        let mut ends = StatelessTcpEndpoints::new(&endpoints, FIREWALL_IN_MAC, SOURCE_MAC).unwrap();
        let firewall = topology
            .create_path_between_endpoints(ConnectionPath::Gateway, &mut ends, &endpoints)
            .unwrap();
        let duration = Duration::from_millis(200);
        Pipeline {
            topology,
            ends,
            firewall,
            secret: 7,
            flood: 0,
            duration,
            verify: false,
            _alone: alone,
        }
    }

    fn open(
        &mut self,
        close: ConnectionClose,
        rate: u64,
        count: u64,
    ) -> (ConnectionGeneratorResult, ClientServerTallies, ConnectionCounts) {
        self.secret += 1;
        let open = ConnectionPlan {
            duration: self.duration,
            rate,
            connections_max: count,
            close,
            verify_checksums: self.verify,
            secret: self.secret,
            flood_syns_per_connection: self.flood,
        };
        let source = self.topology.source_namespace().clone();
        let opened =
            self.ends.open_connections(&source, self.firewall.send_ifindex, &open).unwrap();
        let ends = self.ends.read_tallies().unwrap();
        let record = self.ends.build_connections_record(&opened, &ends, close).unwrap();
        assert_eq!(record.unaccounted_connections(), 0, "offered is completed and failed");
        (opened, ends, record)
    }

    fn nft(&self, ruleset: &str) {
        // nft wants each rule on its own line.
        let ruleset = ruleset.replace('}', "\n}");
        self.firewall.namespace.run_command(&["nft", "-f", "-"], ruleset.as_bytes()).unwrap();
    }

    fn failed(&self, record: &ConnectionCounts) -> Vec<(String, i64)> {
        record.failed.iter().map(|f| (f.at.clone(), f.connections)).collect()
    }
}

#[test]
fn connections_are_complete_behind_an_empty_firewall() {
    let mut pipeline = Pipeline::new();
    for (close, packets) in
        [(ConnectionClose::Fin, 7), (ConnectionClose::Reset, 5), (ConnectionClose::Never, 3)]
    {
        let (opened, ends, record) = pipeline.open(close, 0, 1000);
        assert_eq!((opened.offered, record.completed), (1000, 1000), "{close:?}: {ends:?}");
        assert_eq!(ends.connection_packets_received(), 1000 * packets);
        assert_eq!(opened.offered + ends.answers_sent(), 1000 * packets);
        assert_eq!((record.invalid_packets, record.foreign_resets, record.icmp), (0, 0, 0));
        assert_eq!(record.establish.count, 1000);
        assert_eq!(record.whole.count, if close == ConnectionClose::Fin { 1000 } else { 0 });
    }
}

#[test]
fn a_firewall_with_state_sees_whole_connections() {
    let mut pipeline = Pipeline::new();
    pipeline.nft(
        "table ip t {
           counter new {}
           counter established {}
           counter other {}
           chain f { type filter hook forward priority 0; policy drop;
             ct state new tcp flags & (syn|ack) == syn counter name new accept
             ct state established counter name established accept
             counter name other
           }
         }",
    );
    let (_, _, record) = pipeline.open(ConnectionClose::Fin, 0, 1000);
    assert_eq!(record.completed, 1000, "{record:?}");
    let list = ["nft", "list", "counters"];
    let text =
        String::from_utf8(pipeline.firewall.namespace.run_command(&list, b"").unwrap()).unwrap();
    assert!(text.contains("packets 1000 ") && text.contains("packets 6000 "), "{text}");
    assert!(text.contains("packets 0 "), "no packet was invalid: {text}");
    let count = pipeline.firewall.namespace.read_sysctl("net.netfilter.nf_conntrack_count");
    assert_eq!(count.unwrap().trim(), "1000");
}

#[test]
fn connections_fail_at_the_step_that_the_firewall_drops() {
    let mut pipeline = Pipeline::new();
    for (rule, at) in [
        ("tcp flags == syn drop", "SYN"),
        ("tcp flags == syn|ack drop", "SYN+ACK"),
        ("ip daddr 198.19.128.0/24 @th,256,32 0x47455420 drop", "request"),
        ("@th,256,32 0x48545450 drop", "reply"),
        ("ip daddr 198.19.128.0/24 tcp flags == fin|ack drop", "FIN"),
        ("ip saddr 198.19.128.0/24 tcp flags == fin|ack drop", "FIN+ACK"),
        ("tcp flags == ack drop", "last ACK"),
    ] {
        pipeline.nft(&format!(
            "flush ruleset
             table ip t {{ chain f {{ type filter hook forward priority 0; {rule} }} }}"
        ));
        let (_, _, record) = pipeline.open(ConnectionClose::Fin, 0, 500);
        assert_eq!(pipeline.failed(&record), [(at.to_owned(), 500)], "{rule}");
        assert_eq!(record.completed, 0);
    }
}

#[test]
fn a_modified_payload_is_not_a_valid_request() {
    let mut pipeline = Pipeline::new();
    // The token's second half, and a checksum that fits: only the text is wrong.
    pipeline.nft(
        "table ip t { chain f { type filter hook forward priority 0;
           ip daddr 198.19.128.0/24 @th,256,32 0x47455420 @th,352,32 set 0x30303030 } }",
    );
    let (_, _, record) = pipeline.open(ConnectionClose::Fin, 0, 100);
    assert_eq!(pipeline.failed(&record), [("request".to_owned(), 100)]);
    assert_eq!(record.invalid_packets, 100);
}

#[test]
fn a_reset_from_the_firewall_is_counted_as_foreign() {
    let mut pipeline = Pipeline::new();
    pipeline.nft(
        "table ip t { chain f { type filter hook forward priority 0;
           tcp flags syn reject with tcp reset } }",
    );
    let (_, _, record) = pipeline.open(ConnectionClose::Fin, 0, 100);
    assert_eq!(pipeline.failed(&record), [("SYN".to_owned(), 100)]);
    assert_eq!(record.foreign_resets, 100);
}

#[test]
fn connections_complete_through_a_translating_firewall() {
    let mut pipeline = Pipeline::new();
    pipeline.nft(
        "table ip t {
           chain pre { type nat hook prerouting priority -100;
             ip daddr 198.19.128.0/24 dnat to 198.19.129.9 }
           chain post { type nat hook postrouting priority 100;
             oif eth1 snat to 198.19.250.1-198.19.250.99 } }",
    );
    let (_, _, record) = pipeline.open(ConnectionClose::Fin, 0, 500);
    assert_eq!(record.completed, 500, "{record:?}");
}

#[test]
fn skipped_connections_are_counted_if_the_rate_is_missed() {
    let mut pipeline = Pipeline::new();
    let (opened, _, record) = pipeline.open(ConnectionClose::Fin, 5000, 0);
    assert!(opened.offered > 0 && opened.finished);
    assert_eq!(opened.offered + opened.skipped_behind_schedule, 1000, "0.2 s of 5,000 a second");
    assert_eq!(record.completed, opened.offered);
}

#[test]
fn a_wrong_checksum_is_detected_if_checksums_are_verified() {
    let mut pipeline = Pipeline::new();
    let (_, _, record) = {
        pipeline.verify = true;
        pipeline.open(ConnectionClose::Fin, 0, 300)
    };
    assert_eq!(
        (record.completed, record.invalid_packets),
        (300, 0),
        "those of both ends are right"
    );
    // The checksum is overwritten with a wrong one.
    pipeline.nft(
        "table ip t { chain f { type filter hook forward priority 0;
           tcp flags == syn tcp checksum set 0x1234 } }",
    );
    pipeline.verify = false;
    let (_, _, record) = pipeline.open(ConnectionClose::Fin, 0, 300);
    assert_eq!(record.completed, 300, "without verification the error is not detected");
    pipeline.verify = true;
    let (_, _, record) = pipeline.open(ConnectionClose::Fin, 0, 300);
    assert_eq!(pipeline.failed(&record), [("SYN".to_owned(), 300)]);
    assert_eq!(record.invalid_packets, 300);
}

#[test]
fn stateless_translation_is_detected_with_correct_checksums() {
    let mut pipeline = Pipeline::new();
    pipeline.verify = true;
    let (_, _, record) = pipeline.open(ConnectionClose::Fin, 0, 300);
    assert_eq!(record.nat_translated_connections, 0);
    pipeline.nft(
        "table ip t {
           chain before { type filter hook prerouting priority raw;
             notrack
             ip daddr 198.19.64.0/24 ip daddr set (ip daddr & 0.0.0.255) | 198.19.0.0 }
           chain after { type filter hook postrouting priority srcnat;
             ip saddr 198.19.0.0/24 ip saddr set (ip saddr & 0.0.0.255) | 198.19.64.0 } }",
    );
    let (_, _, record) = pipeline.open(ConnectionClose::Fin, 0, 300);
    assert_eq!(
        (record.completed, record.nat_translated_connections, record.invalid_packets),
        (300, 300, 0)
    );
}

#[test]
fn flood_packets_are_interleaved_evenly_and_counted_separately() {
    let mut pipeline = Pipeline::new();
    pipeline.flood = 4;
    let (opened, ends, record) = pipeline.open(ConnectionClose::Fin, 0, 500);
    assert_eq!((opened.offered, opened.flood, record.completed), (500, 2000, 500), "{ends:?}");
    assert_eq!(
        (ends.server.flood_syns_received, ends.connection_packets_received()),
        (2000, 500 * 7),
        "all of it arrives"
    );
    pipeline.nft(
        "table ip t { chain f { type filter hook prerouting priority raw;
           ip saddr 198.18.128.0/17 drop } }",
    );
    let (opened, ends, record) = pipeline.open(ConnectionClose::Fin, 0, 500);
    assert_eq!((opened.flood, ends.server.flood_syns_received, record.completed), (2000, 0, 500));
    pipeline.nft("flush ruleset");
    let (opened, _, record) = pipeline.open(ConnectionClose::Fin, 5000, 0);
    assert!(opened.flood.abs_diff(4 * opened.offered) <= 4, "{opened:?}");
    assert_eq!(record.completed, opened.offered);
}

#[test]
fn a_full_conntrack_table_keeps_existing_entries_and_refuses_new() {
    let mut pipeline = Pipeline::new();
    pipeline.nft(
        "table ip t { chain f { type filter hook forward priority 0; ct state untracked counter } }",
    );
    let read = |pipeline: &Pipeline, key: &str| -> u64 {
        let text = pipeline.firewall.namespace.read_sysctl(key).unwrap();
        text.trim().parse().unwrap()
    };
    let limit = read(&pipeline, "net.netfilter.nf_conntrack_max");
    let before = pipeline.firewall.conntrack_counters.read().unwrap();
    pipeline.duration = Duration::from_secs(60);
    let (opened, _, record) = pipeline.open(ConnectionClose::Never, 0, limit + 10_000);
    assert_eq!(opened.offered, limit + 10_000);
    assert_eq!(read(&pipeline, "net.netfilter.nf_conntrack_count"), limit);
    let dropped = pipeline.firewall.conntrack_counters.read().unwrap().dropped - before.dropped;
    assert_eq!(record.completed + dropped, opened.offered, "{record:?}");
    assert_eq!(record.completed, limit, "{record:?}");
}
