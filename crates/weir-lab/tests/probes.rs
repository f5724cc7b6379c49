//! Echoes, shells and streams through small firewalls, and intended losses.
//!
//! They need root, `iptables-legacy` and a kernel with live frames. No time is asserted.

mod common;

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use weir_lab::{LabError, frames};
use weir_packet::pcap;
use weir_stats::{RunRecord, Trial, TrialKind, TrialState};
use weir_study::StudyError;

use common::{frame, run_study};

const SUBJECTS: &str = r#"
[none]
title = "no firewall"
about = "forwards everything"
baseline = true
load = "true"

[every-second]
title = "loses every second echo"
about = "drops them on their way there"
load = '''
iptables-legacy -A FORWARD -o "$OUT" -p icmp -m statistic --mode nth --every 2 --packet 0 -j DROP
iptables-legacy -A FORWARD -o "$OUT" -p udp --dport 7 -m statistic --mode nth --every 2 --packet 0 -j DROP
'''

[deaf]
title = "lets no echo pass"
about = "drops all ICMP"
load = 'iptables-legacy -A FORWARD -p icmp -j DROP'
"#;

const STUDY: &str = r#"
title = "A small study"
question = "Is every answer counted, and every loss?"
subjects = [SUBJECTS]
[ruleset]
axes = []
command = ': > "$RULESET"'
[traffic]
axes = []
command = 'cp "FOLDER/all.pcap" "$FRAMES"; cp "FOLDER/all.pcap.verdicts" "$FRAMES.verdicts"'
[probe]
PROBE
rate_per_second = 500
lines_per_second = 50
ANY_NOISE
[presets.tiny]
label = "for a test"
trial_seconds = 0.02
probe_seconds = 0.1
blocks = 1
loads = 0
"#;

fn study(name: &str, subjects: &str, probe: &str) -> PathBuf {
    let text = STUDY.replace("SUBJECTS", subjects).replace("PROBE", probe);
    let inner = common::study(name, "today-probes", SUBJECTS, &text);
    let path = inner.with_file_name("all.pcap");
    pcap::write_frames(&path, [frame(Ipv4Addr::new(203, 0, 113, 1))]).unwrap();
    fs::write(frames::verdicts_path(&path), "accept\n").unwrap();
    inner
}

/// The only trial that asked this of a subject.
fn asked<'a>(record: &'a RunRecord, subject: &str, probe: &str, load: &str) -> &'a Trial {
    let is_it = |trial: &&Trial| {
        trial.subject == subject
            && trial.scenario.coordinate("probe") == Some(&probe.into())
            && trial.scenario.coordinate("load") == Some(&load.into())
    };
    let mut there = record.trials.iter().filter(is_it);
    let trial = there.next().expect("it was probed");
    assert!(there.next().is_none(), "it was asked once");
    trial
}

#[test]
fn every_probe_gets_a_response_except_dropped_ones() {
    let probe = r#"kinds = ["icmp", "udp", "shell"]
        loads = ["idle", "frames"]"#;
    let study = study("probes", r#""none", "every-second""#, probe);
    let record = run_study(&study).unwrap();
    for (kind, planned, probe) in [
        (TrialKind::RoundTrip, 50, "icmp"),
        (TrialKind::RoundTrip, 50, "udp"),
        (TrialKind::FirewallProcessResponse, 5, "shell"),
    ] {
        for load in ["idle", "frames"] {
            let trial = asked(&record, "none", probe, load);
            let found = trial.probe_result().unwrap();
            assert_eq!(
                trial.state,
                TrialState::Accepted,
                "{probe} {load}: {:?}",
                trial.rejection_reason
            );
            assert_eq!((trial.kind, found.planned, found.lost_requests()), (kind, planned, 0));
            assert_eq!(found.latency_from_planned_time.count, planned);
            assert!(
                found.latency_from_planned_time.duration_at_quantile(0.0).unwrap() > 0.0,
                "a response takes time"
            );
            assert_eq!(trial.offered > 0, load == "frames", "frames are played under load only");
            assert_eq!(trial.unaccounted_packets(), 0);
        }
    }
    for probe in ["icmp", "udp"] {
        let trial = asked(&record, "every-second", probe, "idle");
        assert_eq!(trial.probe_result().unwrap().lost_requests(), 25, "{probe}");
        assert_eq!(trial.state, TrialState::Accepted, "a loss is a result");
    }
    assert_eq!(
        asked(&record, "every-second", "shell", "idle").probe_result().unwrap().lost_requests(),
        0
    );
}

#[test]
fn a_firewall_that_lets_no_echo_pass_fails() {
    let probe = r#"kinds = ["icmp"]
        loads = ["idle"]"#;
    let record = run_study(&study("deaf", r#""deaf""#, probe)).unwrap();
    let trial = asked(&record, "deaf", "icmp", "idle");
    assert_eq!(trial.state, TrialState::Failed);
    assert_eq!(trial.probe_result().unwrap().lost_requests(), 50);
}

#[test]
fn a_stream_arrives_segment_by_segment() {
    let probe = r#"kinds = ["stream"]
        loads = ["idle"]"#;
    let study = study("stream", r#""none""#, probe);
    let record = run_study(&study).unwrap();
    let trial = asked(&record, "none", "stream", "idle");
    assert_eq!(trial.state, TrialState::Accepted, "{:?}", trial.rejection_reason);
    let stream = trial.bulk_tcp_stream_result().unwrap();
    assert!(stream.bytes > 0 && stream.seconds > 0.0);
    // Neither before the firewall nor in it are segments merged.
    let received = trial.observations.snmp["Ip.InReceives"];
    assert!(received * 1500 > stream.bytes, "{received} packets for {} bytes", stream.bytes);
}

#[test]
fn an_invalid_probe_section_is_refused() {
    for (probe, message) in [
        ("kinds = []\nloads = [\"idle\"]", "`kinds` is empty"),
        ("kinds = [\"smoke\"]\nloads = [\"idle\"]", "smoke"),
        ("kinds = [\"icmp\"]\nloads = [\"idle\"]\nsubjects = [\"nobody\"]", "no subject `nobody`"),
    ] {
        let error = run_study(&study("refused-probe", r#""none""#, probe)).unwrap_err();
        let LabError::UnusableStudy(StudyError::InvalidFile { message: said, .. }) = &error else {
            panic!("{error}")
        };
        assert!(said.contains(message), "{probe}: {said}");
    }
}
