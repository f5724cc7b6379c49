//! Connections between kernel sockets through firewalls that accept them or do not.
//!
//! It needs root and `iptables-legacy`. No time is asserted.

mod common;

use weir_stats::{Quantity, RunRecord, Trial, TrialKind, TrialState};

use common::run_study;

const SUBJECTS: &str = r#"
[open]
title = "open"
about = "tracks, and drops nothing"
load = 'iptables-legacy -A FORWARD -m conntrack --ctstate UNTRACKED'

[refusing]
title = "refusing"
about = "answers in the server's place"
load = 'iptables-legacy -A FORWARD -p tcp --syn -j REJECT --reject-with tcp-reset'
"#;

const STUDY: &str = r#"
title = "A small study"
question = "What do real clients see?"
subjects = ["open", "refusing"]
[axes.requests]
title = "connections per second"
values = [1000]
[axes.clients]
title = "clients"
values = [1, 64]
[ruleset]
axes = []
command = ': > "$RULESET"'
[traffic]
kind = "sockets"
rate_axis = "requests"
clients_axis = "clients"
clients = 1024
servers = 1
ports = 100
ANY_NOISE
[presets.tiny]
label = "for a test"
trial_seconds = 0.2
blocks = 1
loads = 0
"#;

fn of<'a>(
    record: &'a RunRecord,
    subject: &'a str,
    clients: u64,
) -> impl Iterator<Item = &'a Trial> {
    record.trials.iter().filter(move |trial| {
        let here = trial.scenario.coordinate("clients").and_then(|value| value.as_number());
        trial.subject == subject && trial.state != TrialState::Warmup && here == Some(clients)
    })
}

#[test]
fn socket_clients_succeed_or_report_their_failures() {
    let study = common::study("sockets", "today-sockets", SUBJECTS, STUDY);
    let record = run_study(&study).unwrap();
    let mut seen = 0;
    for trial in of(&record, "open", 64) {
        seen += 1;
        assert_eq!(
            (trial.kind, trial.state),
            (TrialKind::Sockets, TrialState::Accepted),
            "{trial:?}"
        );
        let connections = trial.connection_counts().unwrap();
        assert!(connections.completed > 0 && connections.failed.is_empty(), "{connections:?}");
        assert_eq!(
            connections.started + connections.skipped_behind_schedule,
            200,
            "0.2 s of 1,000 a second"
        );
        assert_eq!(connections.invalid_packets, 0, "as many replies came as were sent");
        let packets = Quantity::PacketsPerReply.value_in_trial(trial).unwrap();
        assert!((7.0..14.0).contains(&packets), "{packets} packets a fetch");
        assert!(Quantity::PortsAllow.value_in_trial(trial).unwrap() > 100.0);
    }
    for trial in of(&record, "open", 1) {
        seen += 1;
        let connections = trial.connection_counts().unwrap();
        assert_eq!(connections.completed, 100, "each port once: {connections:?}");
        assert_eq!(
            connections.failed_connections_of_kind("address not available"),
            connections.started as i64 - 100
        );
        assert_eq!(connections.unaccounted_connections(), 0);
    }
    for trial in of(&record, "refusing", 64) {
        seen += 1;
        let connections = trial.connection_counts().unwrap();
        assert_eq!(
            (trial.state, connections.completed),
            (TrialState::Failed, 0),
            "{connections:?}"
        );
        assert_eq!(
            connections.failed_connections_of_kind("refused"),
            connections.started as i64,
            "{connections:?}"
        );
    }
    assert_eq!(seen, 7, "both legs; of points that fail, also the first trial");
}
