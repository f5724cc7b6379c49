//! Connections on each path between clients and servers, in small studies. Needs root.

mod common;

use weir_stats::{ConnectionCounts, EndpointCounts, RunRecord, Trial, TrialKind, TrialState};

const SUBJECTS: &str = r#"
[direct]
title = "no gateway"
about = "one link"
baseline = true
path = "direct"
load = "true"

[gateway]
title = "a gateway"
about = "two devices"
load = "true"

[arm]
title = "a gateway with one arm"
about = "one device"
path = "one-armed"
load = "true"

[telling]
title = "one that tells of the shorter way"
about = "one device, with redirects"
path = "one-armed"
load = 'echo 1 > "/proc/sys/net/ipv4/conf/$IN/send_redirects"'
"#;

const STUDY: &str = r#"
title = "A small study of paths"
question = "Who had what of it?"
subjects = ["direct", "gateway", "arm", "telling"]
[axes.clients]
title = "clients"
values = [1, 2]
[ruleset]
axes = []
command = ': > "$RULESET"'
[traffic]
kind = "connections"
clients = 2
clients_axis = "clients"
servers = 3
[presets.tiny]
label = "for a test"
trial_seconds = 0.05
blocks = 1
loads = 0
"#;

fn of<'a>(record: &'a RunRecord, subject: &'a str) -> impl Iterator<Item = &'a Trial> {
    let is_one = |trial: &&Trial| trial.kind == TrialKind::Connections;
    record.trials.iter().filter(is_one).filter(move |trial| trial.subject == subject)
}

fn connections(trial: &Trial) -> &ConnectionCounts {
    trial.connection_counts().expect("a trial of connections counts them")
}

fn sum(members: &[EndpointCounts], what: impl Fn(&EndpointCounts) -> u64) -> u64 {
    members.iter().map(what).sum()
}

#[test]
fn each_path_carries_connections_of_every_client_and_server() {
    let study = common::study("paths", "today-paths", SUBJECTS, STUDY);
    let record = common::run_study(&study).unwrap();
    for subject in ["direct", "gateway", "arm", "telling"] {
        let mut trials = 0;
        for trial in of(&record, subject) {
            let seen = connections(trial);
            let clients =
                trial.scenario.coordinate("clients").unwrap().as_number().unwrap() as usize;
            assert!(
                !matches!(trial.state, TrialState::Failed | TrialState::Unbalanced),
                "{trial:?}"
            );
            assert!(seen.completed > 100, "{subject}: {seen:?}");
            assert_eq!((seen.clients.len(), seen.servers.len()), (clients, 3));
            for members in [&seen.clients, &seen.servers] {
                assert_eq!(sum(members, |one| one.connections), seen.completed, "{subject}");
                let least = members.iter().map(|one| one.connections).min().unwrap();
                assert!(least > 0, "{subject}: every endpoint has connections: {members:?}");
            }
            // What came from clients came to servers, packet by packet and byte by byte.
            let from = sum(&seen.clients, |one| one.arrived_from_endpoint.packets);
            assert_eq!(from, sum(&seen.servers, |one| one.arrived_at_endpoint.packets));
            assert_eq!(from, seen.arrived_at_servers.packets);
            assert_eq!(
                sum(&seen.servers, |one| one.arrived_from_endpoint.frame_bytes),
                seen.arrived_at_clients.frame_bytes
            );
            assert_eq!(
                sum(&seen.clients, |one| one.arrived_at_endpoint.frame_bytes),
                seen.arrived_at_clients.frame_bytes
            );
            if seen.completed == seen.started {
                // SYN, request, FIN, ACK; SYN+ACK, reply, FIN+ACK: 66 bytes each without text.
                assert_eq!(seen.arrived_at_servers.packets, 4 * seen.completed);
                assert_eq!(seen.arrived_at_servers.frame_bytes, (4 * 66 + 40) * seen.completed);
                assert_eq!(seen.arrived_at_clients.frame_bytes, (3 * 66 + 48) * seen.completed);
            }
            trials += 1;
        }
        assert!(trials >= 2 * 3, "{subject}: a warm-up and two legs at both points");
    }
}

#[test]
fn a_one_armed_gateway_sends_redirects_only_if_enabled() {
    let study = common::study("redirects", "today-paths", SUBJECTS, STUDY);
    let record = common::run_study(&study).unwrap();
    for subject in ["direct", "gateway", "arm"] {
        assert!(
            of(&record, subject).all(|trial| trial.observations.redirects_sent_since_setup == 0),
            "{subject}"
        );
    }
    let told: Vec<u64> =
        of(&record, "telling").map(|trial| trial.observations.redirects_sent_since_setup).collect();
    assert!(told.iter().all(|sent| *sent > 0), "{told:?}");
    // Redirects are sent to clients and servers only: each arrives at one of them.
    let heard: u64 = of(&record, "telling").map(|trial| connections(trial).icmp).sum();
    assert_eq!(told.iter().max(), Some(&heard));
}
