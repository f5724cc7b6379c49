//! Probes over two hosts: requests from here return through the firewall there.

use super::*;

const SUBJECTS: &str = r#"
[none]
title = "no firewall"
about = "forwards everything"
baseline = true
load = 'true'
[every-second]
title = "loses every second echo"
about = "drops them on their way there"
needs = ["iptables-legacy"]
load = '''
iptables-legacy -A FORWARD -o "$OUT" -p icmp -m statistic --mode nth --every 2 --packet 0 -j DROP
'''
"#;

const PROBES: &str = r#"
title = "Probes over two hosts"
question = "Does every answer come back?"
subjects = ["none", "every-second"]
[ruleset]
axes = []
command = '"$WEIR" example rules --count 16 --seed "$SEED" > "$RULESET"'
[traffic]
axes = []
command = '"$WEIR" traffic "$RULESET" --pattern far --count 64 --seed "$SEED" -o "$FRAMES"'
[probe]
kinds = ["icmp", "udp", "stream"]
loads = ["idle", "frames", "stream"]
rate_per_second = 500
[noise]
repeats = 1
[presets.tiny]
label = "for a test"
trial_seconds = 0.02
probe_seconds = 0.1
blocks = 1
loads = 0
"#;

#[test]
fn probes_are_answered_through_a_firewall_on_another_host() {
    let Some(lan) = Lan::new("hosts-probes") else { return };
    let before = (Lan::devices(&lan.ends), Lan::devices(&lan.firewall));
    lan.study(PROBES, SUBJECTS);
    let hosts = lan.hosts("fw", "fw");
    let ended = lan.run("out", "tiny", Some(&hosts)).output().unwrap();
    assert!(ended.status.success(), "{}", said(&ended));
    assert_eq!((Lan::devices(&lan.ends), Lan::devices(&lan.firewall)), before);

    let record = run_folder::load_record_recomputing_claims(&lan.folder.join("out")).unwrap();
    let asked = |subject: &str, probe: &str, load: &str| {
        let scenario =
            Scenario::default().with_coordinate("probe", probe).with_coordinate("load", load);
        let is_it = |trial: &&Trial| trial.subject == subject && trial.scenario == scenario;
        let trial = record.trials.iter().rfind(is_it).expect("it was probed");
        assert_eq!(trial.state, TrialState::Accepted, "{trial:?}");
        trial
    };
    for probe in ["icmp", "udp"] {
        for load in ["idle", "frames", "stream"] {
            let trial = asked("none", probe, load);
            let found = trial.probe_result().unwrap();
            assert_eq!((found.planned, found.lost_requests()), (50, 0), "{trial:?}");
            assert!(
                found.latency_from_planned_time.duration_at_quantile(0.0).unwrap() > 0.0,
                "a response takes time"
            );
            assert_eq!(trial.offered > 0, load == "frames", "frames are played under load only");
            // Segments of a bulk stream are not offered packets, but devices may drop some of them.
            if load != "stream" {
                assert_eq!(trial.unaccounted_packets(), 0, "{trial:?}");
            }
        }
    }
    let lossy = asked("every-second", "icmp", "idle");
    assert_eq!(lossy.probe_result().unwrap().lost_requests(), 25, "{lossy:?}");
    let stream = asked("none", "stream", "idle").bulk_tcp_stream_result().unwrap();
    assert!(stream.bytes > 0 && stream.seconds > 0.0, "{stream:?}");
}
