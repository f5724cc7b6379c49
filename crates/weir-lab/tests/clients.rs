//! Other clients through the same firewalls as weir's own: `httperf` and `wrk`.
//!
//! It needs root, `iptables-legacy`, and both programs. No time is asserted.

mod common;

use weir_stats::{ConnectionCounts, Quantity, RunRecord, Trial, TrialKind, TrialState};
use weir_testkit::{skip_test, skip_without_root};

use common::run_study;

const SUBJECTS: &str = r#"
[sockets]
title = "weir's sockets"
about = "the client that the others are compared with"
load = 'sh "$RULESET"'

[stateless]
title = "weir's small TCP"
about = "remembers nothing"
client = "stateless"
load = 'sh "$RULESET"'

[httperf]
title = "httperf"
about = "a connection for each request, at planned times"
client = "httperf"
load = 'sh "$RULESET"'

[wrk]
title = "wrk"
about = "a connection for each request"
client = "wrk"
load = 'sh "$RULESET"'

[wrk-kept]
title = "wrk, kept"
about = "connections stay open"
client = "wrk-kept"
load = 'sh "$RULESET"'
"#;

const STUDY: &str = r#"
title = "A small study"
question = "Do clients agree?"
subjects = [CLIENTS]
[axes.requests]
title = "connections per second"
values = [500]
[axes.firewall]
title = "what the firewall does"
values = ["passes", "refuses"]
[ruleset]
axes = ["firewall"]
command = '''
case "$FIREWALL" in
    passes) rule='-m conntrack --ctstate UNTRACKED' ;;
    refuses) rule='-p tcp --syn -j REJECT --reject-with tcp-reset' ;;
esac
echo "iptables-legacy -A FORWARD $rule" > "$RULESET"
'''
[traffic]
kind = "sockets"
rate_axis = "requests"
servers = 1
at_once = 8
ANY_NOISE
[presets.tiny]
label = "for a test"
trial_seconds = 0.4
blocks = 1
loads = 0
"#;

fn ran(name: &str, clients: &str) -> RunRecord {
    let study = common::study(name, "today-clients", SUBJECTS, &STUDY.replace("CLIENTS", clients));
    run_study(&study).unwrap()
}

/// Whether the test must stand aside.
fn lacks(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    if !is_there {
        skip_test(&format!("needs {program}: apt-get install {program}"));
    }
    !is_there || skip_without_root()
}

/// Trials of a subject that count, or that failed, with their connections.
fn of<'a>(
    record: &'a RunRecord,
    subject: &str,
    firewall: &str,
) -> Vec<(&'a Trial, &'a ConnectionCounts)> {
    let is_here = |trial: &&Trial| {
        let value = trial.scenario.coordinate("firewall").map(ToString::to_string);
        trial.subject == subject && value.as_deref() == Some(firewall)
    };
    let trials = record.trials.iter().filter(|trial| trial.state != TrialState::Warmup);
    let here: Vec<_> =
        trials.filter(is_here).map(|trial| (trial, trial.connection_counts().unwrap())).collect();
    assert!(here.len() >= 2, "{subject} through a firewall that {firewall}: {}", here.len());
    here
}

/// What every trial through the firewall that passes has to be.
fn check_passed(trial: &Trial, connections: &ConnectionCounts) {
    assert_eq!((trial.kind, trial.state), (TrialKind::Sockets, TrialState::Accepted), "{trial:?}");
    assert!(connections.completed > 0 && connections.failed.is_empty(), "{connections:?}");
    assert_eq!(
        (connections.unaccounted_connections(), connections.invalid_packets),
        (0, 0),
        "{connections:?}"
    );
    assert!(Quantity::SocketsPerSecond.value_in_trial(trial).unwrap() > 0.0);
    assert!(Quantity::ClientReplyNsMean.value_in_trial(trial).unwrap() > 0.0);
}

/// What every trial through the firewall that refuses has to be.
fn check_refused(trial: &Trial, connections: &ConnectionCounts) {
    assert_eq!((trial.state, connections.completed), (TrialState::Failed, 0), "{connections:?}");
    assert!(!connections.failed.is_empty(), "{connections:?}");
}

#[test]
fn httperf_sends_requests_at_planned_times_like_weirs_sockets() {
    if lacks("httperf") {
        return;
    }
    let record = ran("clients-httperf", r#""sockets", "httperf""#);
    for subject in ["sockets", "httperf"] {
        for (trial, connections) in of(&record, subject, "passes") {
            check_passed(trial, connections);
            assert_eq!(
                connections.started + connections.skipped_behind_schedule,
                200,
                "0.4 s of 500 a second"
            );
            let packets = Quantity::PacketsPerReply.value_in_trial(trial).unwrap();
            assert!((7.0..14.0).contains(&packets), "{subject}: {packets} packets a fetch");
        }
        for (trial, connections) in of(&record, subject, "refuses") {
            check_refused(trial, connections);
            let offered = connections.started as i64;
            assert_eq!(
                connections.failed_connections_of_kind("refused"),
                offered,
                "{subject}: {connections:?}"
            );
        }
    }
    let [(httperf, connections), ..] = of(&record, "httperf", "passes")[..] else { panic!() };
    assert_eq!(connections.client.as_ref().unwrap().name, "httperf");
    assert_eq!(
        Quantity::ReplyNsP50.value_in_trial(httperf),
        None,
        "its times count from another moment"
    );
    assert!(record.run.environment.tools["httperf"].contains("httperf"));
}

#[test]
fn wrk_sends_the_next_request_after_each_reply() {
    if lacks("wrk") {
        return;
    }
    let record = ran("clients-wrk", r#""wrk", "wrk-kept""#);
    let mut packets = Vec::new();
    for subject in ["wrk", "wrk-kept"] {
        for (trial, connections) in of(&record, subject, "passes") {
            check_passed(trial, connections);
            assert_eq!(trial.rate_pps, 0.0, "it has no rate");
            assert!(trial.seconds >= 1.0, "it counts whole seconds");
            let client = connections.client.as_ref().unwrap();
            assert_eq!((client.name.as_str(), client.response_times.quantiles.len()), (subject, 4));
            packets.push(Quantity::PacketsPerReply.value_in_trial(trial).unwrap());
        }
        for (trial, connections) in of(&record, subject, "refuses") {
            check_refused(trial, connections);
            assert_eq!(
                connections.failed_connections_of_kind("refused"),
                1,
                "it gives up: {connections:?}"
            );
        }
    }
    assert!(packets[..2].iter().all(|packets| (7.0..14.0).contains(packets)), "{packets:?}");
    assert!(packets[2..].iter().all(|packets| *packets < 5.0), "kept connections: {packets:?}");
}

#[test]
fn the_stateless_client_can_replace_sockets() {
    if skip_without_root() {
        return;
    }
    let record = ran("clients-stateless", r#""sockets", "stateless""#);
    for (trial, connections) in of(&record, "stateless", "passes") {
        check_passed(trial, connections);
        assert_eq!(connections.client.as_ref().unwrap().name, "stateless");
        let packets = Quantity::PacketsPerReply.value_in_trial(trial).unwrap();
        assert!((packets - 7.0).abs() < 0.1, "seven packets and no more: {packets}");
    }
    for (trial, connections) in of(&record, "stateless", "refuses") {
        check_refused(trial, connections);
    }
    for (trial, connections) in of(&record, "sockets", "passes") {
        check_passed(trial, connections);
        assert!(connections.client.is_none());
        assert!(Quantity::ReplyNsP50.value_in_trial(trial).is_some());
    }
}

#[test]
fn a_client_requires_traffic_of_kind_sockets() {
    let study = STUDY.replace("CLIENTS", r#""sockets", "wrk""#);
    let study = study.replace("kind = \"sockets\"", "kind = \"connections\"");
    let study = study.replace("at_once = 8", "");
    let path = common::study("clients-refused", "today-clients", SUBJECTS, &study);
    let error = run_study(&path).unwrap_err().to_string();
    assert!(error.contains("study.toml:4: subject `wrk` has a `client`"), "{error}");
}
