//! Illegal frames among legal ones, and floods in addition to connections.
//!
//! It needs root, `iptables-legacy` and a kernel with live frames. No time is asserted.

mod common;

use std::fs;
use std::net::Ipv4Addr;

use weir_lab::frames;
use weir_packet::pcap;
use weir_stats::{Quantity, RunRecord, Trial, TrialKind, TrialState};

use common::{frame, run_study};

const SUBJECTS: &str = r#"
[strict]
title = "strict"
about = "drops what it has to"
load = 'iptables-legacy-restore "$RULESET"'
COUNT_DROPS

[careless]
title = "careless"
about = "drops half of what it has to"
load = 'grep -v -e "2[.]3/32" -e "2[.]4/32" "$RULESET" | iptables-legacy-restore'
COUNT_DROPS

[open]
title = "open"
about = "tracks, and drops nothing"
load = 'iptables-legacy -A FORWARD -m conntrack --ctstate UNTRACKED'
count = 'echo dropped 0'
"#;

const REST: &str = r#"
ANY_NOISE
[presets.tiny]
label = "for a test"
trial_seconds = 0.05
blocks = 1
loads = 0
"#;

fn run(name: &str, text: &str) -> RunRecord {
    let text = format!("{text}{REST}");
    let study = common::study(name, "today-attack", SUBJECTS, &text);
    let folder = study.parent().unwrap();
    // Eight sources, of which the ruleset drops four.
    let frames: Vec<Vec<u8>> = (1..=8).map(|n| frame(Ipv4Addr::new(192, 0, 2, n))).collect();
    let path = folder.join("all.pcap");
    pcap::write_frames(&path, &frames).unwrap();
    let verdicts = ["drop\n".repeat(4), "accept\n".repeat(4)].concat();
    fs::write(frames::verdicts_path(&path), verdicts).unwrap();
    run_study(&study).unwrap()
}

fn of<'a>(
    record: &'a RunRecord,
    subject: &'a str,
    kind: TrialKind,
) -> impl Iterator<Item = &'a Trial> {
    record.trials.iter().filter(move |trial| {
        trial.subject == subject && trial.kind == kind && trial.state != TrialState::Warmup
    })
}

#[test]
fn a_mix_has_its_drop_share_and_leaks_are_counted() {
    let record = run(
        "illegal",
        r#"
title = "A small study"
question = "Is what leaks counted?"
subjects = ["strict", "careless"]
[axes.illegal]
title = "to drop"
values = [0, 50]
[ruleset]
axes = []
command = '''
{ printf '*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n'
  for n in 1 2 3 4; do echo "-A FORWARD -s 192.0.2.$n/32 -j DROP"; done
  echo COMMIT; } > "$RULESET"
'''
[traffic]
axes = []
drop_axis = "illegal"
command = 'cp "FOLDER/all.pcap" "$FRAMES"; cp "FOLDER/all.pcap.verdicts" "$FRAMES.verdicts"'
"#,
    );
    let mut shares = Vec::new();
    for trial in of(&record, "strict", TrialKind::Rate) {
        assert_eq!(trial.state, TrialState::Accepted, "{trial:?}");
        // Exact to one frame, at whatever point the trial ended.
        let illegal = trial.scenario.coordinate("illegal").unwrap().as_number().unwrap();
        assert!(trial.expected_drops.abs_diff(trial.offered * illegal / 100) <= 1, "{trial:?}");
        shares.extend(Quantity::LeakedShare.value_in_trial(trial));
    }
    assert_eq!(shares, [0.0, 0.0], "where nothing is to be dropped nothing can leak");
    let leaking = |trial: &&Trial| trial.expected_drops > 0;
    let mut leaked = of(&record, "careless", TrialKind::Rate).filter(leaking).peekable();
    assert!(leaked.peek().is_some());
    for trial in leaked {
        assert_eq!(trial.state, TrialState::Failed, "a trial with leaked packets has failed");
        let by_rules = trial.drop_counts.iter().find(|drop| drop.counter == "rules");
        let dropped = by_rules.map_or(0, |drop| drop.packets);
        assert!(trial.leaked > 0 && dropped > 0, "{trial:?}");
        assert_eq!(trial.leaked + dropped, trial.expected_drops);
    }
}

#[test]
fn a_flood_arrives_or_is_dropped_without_failed_connections() {
    let record = run(
        "flood",
        r#"
title = "A small study"
question = "Is the flood counted?"
subjects = ["strict", "open"]
[axes.flood]
title = "SYNs for each connection"
values = [0, 4]
[ruleset]
axes = []
command = '''
{ printf '*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n'
  echo "-A PREROUTING -s 198.18.128.0/17 -j DROP"
  echo COMMIT; } > "$RULESET"
'''
[traffic]
kind = "connections"
flood_axis = "flood"
"#,
    );
    for (subject, share) in [("strict", 0.0), ("open", 1.0)] {
        let arrived: Vec<f64> = of(&record, subject, TrialKind::Connections)
            .filter_map(|trial| {
                assert_eq!(trial.state, TrialState::Accepted, "{trial:?}");
                assert_eq!(Quantity::ConnectionFailureRatio.value_in_trial(trial), Some(0.0));
                Quantity::FloodArrivedShare.value_in_trial(trial)
            })
            .collect();
        assert_eq!(arrived, [share, share], "both legs with a flood, none without");
    }
}
