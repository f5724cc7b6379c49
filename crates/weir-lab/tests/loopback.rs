//! A host that sends to itself: arrivals, replies, and intended losses.
//!
//! It needs root and `iptables-legacy`. No time is asserted.

mod common;

use weir_stats::{RunRecord, Trial, TrialKind, TrialState};

use common::run_study;

const SUBJECTS: &str = r#"
[accepting]
title = "accepts"
about = "no rules"
baseline = true
load = "true"

[dropping]
title = "drops"
about = "drops all that comes"
drops_all = true
load = 'iptables-legacy -t raw -A PREROUTING -p udp -j DROP'
count = '''
iptables-legacy -t raw -vxnL PREROUTING | awk '/DROP/ { n = $1 } END { print "dropped " n + 0 }'
'''

[silent]
title = "silent"
about = "drops its own answers"
load = 'iptables-legacy -A OUTPUT -p icmp -j DROP'

[losing]
title = "loses every second packet"
about = "and says that it accepts"
load = 'iptables-legacy -A INPUT -p udp -m statistic --mode nth --every 2 --packet 0 -j DROP'

[leaking]
title = "lets everything pass"
about = "and says that it drops"
drops_all = true
load = "true"
"#;

const STUDY: &str = r#"
title = "A small study"
question = "Is every packet counted?"
subjects = ["accepting", "dropping", "silent", "losing", "leaking"]
[ruleset]
axes = []
command = ': > "$RULESET"'
[traffic]
kind = "loopback"
ANY_NOISE
[presets.tiny]
label = "for a test"
trial_seconds = 0.02
blocks = 1
loads = 0
"#;

fn record() -> RunRecord {
    run_study(&common::study("loopback", "today-loopback", SUBJECTS, STUDY)).unwrap()
}

/// The measured trials of a subject, in both directions of the block.
fn of<'a>(record: &'a RunRecord, subject: &str) -> Vec<&'a Trial> {
    let all = record.trials.iter().filter(|trial| trial.state != TrialState::Warmup);
    let trials: Vec<&Trial> =
        all.filter(|trial| trial.subject == subject && trial.kind == TrialKind::Rate).collect();
    assert!(trials.len() >= 2, "{subject}");
    trials
}

#[test]
fn packets_to_a_port_that_nobody_listens_to_add_up() {
    let record = record();
    for trial in of(&record, "accepting") {
        assert_eq!(trial.state, TrialState::Accepted, "{:?}", trial.rejection_reason);
        assert!(trial.offered > 0);
        assert_eq!(trial.delivered, trial.offered);
        assert_eq!(trial.observations.snmp["Icmp.OutDestUnreachs"], trial.offered, "all answered");
    }
    for trial in of(&record, "dropping") {
        assert_eq!(trial.state, TrialState::Accepted, "{:?}", trial.rejection_reason);
        let rules = trial.drop_counts.iter().find(|drop| drop.counter == "rules").unwrap();
        assert_eq!((rules.packets, trial.delivered, trial.leaked), (trial.offered, 0, 0));
    }
    for trial in of(&record, "silent") {
        assert_eq!(trial.state, TrialState::Accepted, "{:?}", trial.rejection_reason);
        assert_eq!(trial.delivered, trial.offered, "answers belong into no sum");
    }
    // The validation reads the kernel's drop reasons: these rules drop packets that they must
    // accept.
    for trial in of(&record, "losing").into_iter().filter(|t| t.state != TrialState::Failed) {
        assert_eq!(trial.state, TrialState::Unbalanced);
        assert_eq!(trial.unaccounted_packets() as u64, trial.offered / 2);
    }
    assert!(of(&record, "losing").iter().any(|trial| trial.state == TrialState::Unbalanced));
    for trial in of(&record, "leaking") {
        assert_eq!(trial.state, TrialState::Failed);
        assert_eq!(trial.leaked, trial.offered);
    }
}
