//! Small studies through the whole laboratory, with subjects that are shell commands.
//!
//! They need root, `iptables-legacy` and a kernel with live frames. No time is asserted.

mod common;

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use weir_lab::execute_study;
use weir_lab::{AA_TEST_REPETITIONS, LabError, StudyRunOptions, frames};
use weir_packet::pcap;
use weir_stats::aa_test::evaluate_aa_test_of_block_groups;
use weir_stats::rate_search::SearchGoal;
use weir_stats::{RunRecord, Trial, TrialKind, TrialState};
use weir_study::StudyError;

use common::{frame, options, run_study};

const SUBJECTS: &str = r#"
[none]
title = "no firewall"
about = "forwards everything"
baseline = true
load = "true"

[linear]
title = "iptables"
about = "one rule after another"
needs = ["iptables-legacy-restore"]
load = 'iptables-legacy-restore "$RULESET"'
unload = 'iptables-legacy -F && iptables-legacy -P FORWARD ACCEPT'
count = '''
iptables-legacy-save -c -t filter | tr ':[]' '   ' | awk '
    / -j DROP$/ { dropped += $1 } /^ FORWARD DROP/ { dropped += $3 }
    END { print "dropped " dropped + 0 }'
'''
add = 'grep ^-A "$MORE" | while read -r rule; do iptables-legacy $rule; done'

[picky]
title = "a firewall for no rules"
about = "has nothing to do with any"
load = 'test "$RULES" = 0 || exit 77'

[bound]
title = "a firewall of a device"
about = "loads nothing where its device is not there"
load = 'ip link show dev "$IN" > /dev/null 2>&1 && ip link show dev "$OUT" > /dev/null || exit 77'

[untimed]
title = "a firewall between others"
about = "has nothing to load where no route leads anywhere"
load = 'ip route show default | grep -q . || exit 77'

[leaky]
title = "a firewall that does nothing"
about = "has rules and loads none"
load = "true"

[absent]
title = "a tool that nobody has"
about = "cannot be measured"
needs = ["weir-no-such-program"]
load = "weir-no-such-program"
"#;

const STUDY: &str = r#"
title = "A small study"
question = "Does the laboratory count what it plays?"
subjects = [SUBJECTS]
[axes.rules]
title = "rules"
values = [0, 8]
[axes.source]
title = "sources"
values = ["far", "half"]
[ruleset]
axes = ["rules"]
command = '''
{ echo '*filter'; echo ':FORWARD ACCEPT [0:0]'
  for n in $(seq 1 "$RULES"); do echo "-A FORWARD -s 192.0.2.$n/32 -j DROP"; done
  echo COMMIT; } > "$RULESET"
'''
[more]
axes = []
command = 'for n in 101 102 103; do echo "-A FORWARD -s 192.0.2.$n/32 -j DROP"; done > "$MORE"'
[traffic]
axes = ["source"]
command = 'cp "FOLDER/$SOURCE.pcap" "$FRAMES"; cp "FOLDER/$SOURCE.pcap.verdicts" "$FRAMES.verdicts"'
[presets.tiny]
label = "for a test"
trial_seconds = 0.05
blocks = 2
loads = 2
adds = 1
axes = AXES
"#;

/// Writes the study with its subjects and frames; `half` of the frames have to be dropped.
fn study(name: &str, subjects: &str, axes: &str) -> PathBuf {
    let text = STUDY.replace("SUBJECTS", subjects).replace("AXES", axes);
    let inner = common::study(name, "today-small", SUBJECTS, &text);
    let far: Vec<Ipv4Addr> = (1..=16).map(|n| Ipv4Addr::new(203, 0, 113, n)).collect();
    let listed: Vec<Ipv4Addr> = (1..=8).map(|n| Ipv4Addr::new(192, 0, 2, n)).collect();
    let half: Vec<Ipv4Addr> = far.iter().take(8).chain(&listed).copied().collect();
    for (name, sources) in [("far", &far), ("half", &half)] {
        let path = inner.with_file_name(format!("{name}.pcap"));
        pcap::write_frames(&path, sources.iter().map(|source| frame(*source))).unwrap();
        let verdict =
            |source: &Ipv4Addr| if listed.contains(source) { "drop\n" } else { "accept\n" };
        let verdicts: String = sources.iter().map(verdict).collect();
        fs::write(frames::verdicts_path(&path), verdicts).unwrap();
    }
    inner
}

fn of<'a>(
    record: &'a RunRecord,
    subject: &'a str,
    kind: TrialKind,
) -> impl Iterator<Item = &'a Trial> {
    record.trials.iter().filter(move |trial| trial.subject == subject && trial.kind == kind)
}

#[test]
fn a_study_file_is_run_and_its_records_are_complete() {
    let study = study("whole", r#""none", "linear", "picky", "absent""#, r#"{ source = ["far"] }"#);
    let record = run_study(&study).unwrap();
    assert!(record.run.complete);
    assert_eq!(record.run.command, "weir lab run …/today-small -o …/run");
    let lacking: Vec<bool> =
        record.run.subjects.iter().map(|subject| subject.lacking.is_some()).collect();
    assert_eq!(lacking, [false, false, false, true]);
    let limits: Vec<Option<&str>> = record
        .run
        .subjects
        .iter()
        .map(|subject| subject.excluded_points_and_reason.as_deref())
        .collect();
    let nothing = "its command reports that there is nothing to measure at rules=8";
    assert_eq!(limits, [None, None, Some(nothing), None]);
    let picky = of(&record, "picky", TrialKind::Rate);
    assert_eq!(
        picky.filter(|t| t.state == TrialState::Accepted).count(),
        2 * 2,
        "without rules alone"
    );
    for subject in ["none", "linear"] {
        let accepted: Vec<&Trial> = of(&record, subject, TrialKind::Rate)
            .filter(|t| t.state == TrialState::Accepted)
            .collect();
        assert_eq!(accepted.len(), 2 * 2 * 2, "points, blocks, legs");
        assert!(accepted.iter().all(|t| t.unaccounted_packets() == 0
            && t.delivered > 0
            && t.correct_verdict_pps > 0.0));
    }
    assert_eq!(of(&record, "linear", TrialKind::Load).count(), 2 * 2);
    assert!(
        of(&record, "linear", TrialKind::Add).all(|trial| trial.added_rule_count_or_zero() == 3)
    );
    assert_eq!(of(&record, "linear", TrialKind::Add).count(), 2);
    let read =
        weir_stats::run_folder::load_record_recomputing_claims(&study.with_file_name("records"))
            .unwrap();
    assert!(read == record, "records are read as they were written");
    assert!(
        matches!(run_study(&study), Err(LabError::RecordFolderNotEmpty(_))),
        "records are kept"
    );
}

#[test]
fn untimed_loads_do_not_prevent_rate_trials() {
    let axes = r#"{ rules = [8], source = ["far"] }"#;
    let study = study("bound", r#""none", "bound", "untimed", "picky""#, axes);
    let record = run_study(&study).unwrap();
    let accepted = |subject, kind| {
        of(&record, subject, kind).filter(|t| t.state == TrialState::Accepted).count()
    };
    assert_eq!(accepted("bound", TrialKind::Load), 2, "its devices are there");
    assert_eq!(accepted("untimed", TrialKind::Load), 0);
    for subject in ["none", "bound", "untimed"] {
        assert_eq!(accepted(subject, TrialKind::Rate), 2 * 2, "{subject}: blocks, legs");
    }
    assert_eq!(accepted("picky", TrialKind::Rate), 0, "it has nothing to measure in its firewall");
    let limits: Vec<Option<&str>> = record
        .run
        .subjects
        .iter()
        .map(|subject| subject.excluded_points_and_reason.as_deref())
        .collect();
    let untimed = "its loads are not timed at rules=8: its command reports that there is nothing \
                   to measure in a namespace of its own";
    let picky = "its command reports that there is nothing to measure at rules=8";
    assert_eq!(limits, [None, None, Some(untimed), Some(picky)]);
}

#[test]
fn an_aa_test_repeats_each_copy_for_twenty_runs() {
    let text = r#"
title = "A small study of loads"
question = "Is a load like itself?"
subjects = ["none", "linear"]
[ruleset]
axes = []
command = "printf '*filter\\n-A FORWARD -s 192.0.2.1/32 -j DROP\\nCOMMIT\\n' > \"$RULESET\""
[presets.tiny]
label = "for a test"
trial_seconds = 0.05
blocks = 1
loads = 1
"#;
    let study = common::study("again", "today-small", SUBJECTS, text);
    let options =
        |name: &str| StudyRunOptions { against_itself: Some(name.to_owned()), ..options() };
    let run_again = |name: &str, out: &str| {
        execute_study(&study, &study.with_file_name(out), &options(name), &mut |_| ())
    };
    let record = run_again("linear", "records").unwrap();
    let of_copy = |copy| record.trials.iter().filter(move |trial| trial.copy_index == copy);
    for copy in [0, 1] {
        assert_eq!(
            of_copy(copy).count(),
            6 * AA_TEST_REPETITIONS as usize,
            "fewer blocks have no interval of 95 %"
        );
    }
    assert!(record.trials.iter().all(|trial| trial.subject == "linear"));
    let found =
        evaluate_aa_test_of_block_groups(&record.trials, "linear", AA_TEST_REPETITIONS as usize);
    assert_eq!(
        (found.repetitions, found.points),
        (AA_TEST_REPETITIONS as usize, AA_TEST_REPETITIONS as usize)
    );
    let picky = run_again("picky", "picky").unwrap();
    let limit = picky.run.subjects[0].excluded_points_and_reason.as_deref();
    assert_eq!(limit, Some("its command reports that there is nothing to measure at any point"));
    let error = run_again("nobody", "none").unwrap_err().to_string();
    assert!(error.contains("nobody"), "{error}");
}

#[test]
fn packets_that_rules_drop_are_counted_by_the_rules() {
    let axes = r#"{ rules = [8], source = ["half"] }"#;
    let study = study("dropping", r#""linear""#, axes);
    let record = run_study(&study).unwrap();
    let mut seen = 0;
    for trial in
        of(&record, "linear", TrialKind::Rate).filter(|trial| trial.state == TrialState::Accepted)
    {
        let rules = trial.drop_counts.iter().find(|drop| drop.counter == "rules").unwrap();
        assert!(rules.packets > 0);
        assert_eq!(rules.packets, trial.expected_drops);
        assert_eq!(trial.delivered + rules.packets, trial.offered);
        seen += 1;
    }
    assert_eq!(seen, 4);
    let checked =
        of(&record, "linear", TrialKind::Rate).find(|t| t.state == TrialState::Warmup).unwrap();
    let reason =
        checked.drop_counts.iter().find(|drop| drop.counter == "skb: NETFILTER_DROP").unwrap();
    assert_eq!(reason.packets, checked.expected_drops, "the kernel's reasons agree with the rules");
}

#[test]
fn a_firewall_that_lets_everything_pass_is_caught() {
    let axes = r#"{ rules = [8], source = ["half"] }"#;
    let study = study("leaking", r#""leaky""#, axes);
    let record = run_study(&study).unwrap();
    assert!(of(&record, "leaky", TrialKind::Rate).all(|trial| trial.state == TrialState::Failed));
    let why = record.trials.last().unwrap().rejection_reason.clone().unwrap();
    assert!(why.contains("packets arrived that the ruleset drops"), "{why}");
}

#[test]
fn a_disturbed_trial_is_repeated_and_the_last_one_counted() {
    let axes = r#"{ rules = [0], source = ["far"] }"#;
    let study = study("disturbed", r#""none""#, axes);
    let path = study.join("study.toml");
    let text = fs::read_to_string(&path).unwrap();
    // No machine meets this limit.
    fs::write(&path, format!("{text}\n[noise]\nspin_ratio = 0\nrepeats = 1\n")).unwrap();
    let record = run_study(&study).unwrap();
    let states: Vec<TrialState> =
        of(&record, "none", TrialKind::Rate).map(|trial| trial.state).collect();
    let twice = [TrialState::Disturbed, TrialState::Accepted];
    assert_eq!(states, [&[TrialState::Warmup][..], &twice, &twice, &twice, &twice].concat());
    assert_eq!(
        (record.run.counts.disturbed, record.run.counts.accepted_despite_disturbance),
        (4, 4)
    );
}

#[test]
fn a_search_finds_the_highest_rate_within_the_loss_goal() {
    let axes = r#"{ rules = [8], source = ["far"] }"#;
    let study = study("searched", r#""linear""#, axes);
    let out = study.with_file_name("records");
    // Wide enough for the search to end on any machine.
    let goal = SearchGoal { loss_ratio: 0.05, width: 0.3, ..SearchGoal::HALF_PERCENT_MEDIAN_LOSS };
    let options = StudyRunOptions { search: Some(goal), ..options() };
    let record = execute_study(&study, &out, &options, &mut |_| ()).unwrap();
    let kept = weir_stats::run_folder::load_record_recomputing_claims(&out).unwrap();
    let [search] = &kept.searches[..] else { panic!("one search: {:?}", kept.searches) };
    let found = serde_json::to_value(search).unwrap();
    let paced = of(&record, "linear", TrialKind::Paced).count() as u64;
    assert_eq!(found["found"]["trials"], paced, "every trial of the search is kept");
    let (lower, upper) = (&found["found"]["lower"], &found["found"]["upper"]);
    let (Some(lower), Some(upper)) = (lower.as_f64(), upper.as_f64()) else {
        panic!("no bound: {found}");
    };
    assert!(lower < upper && (upper - lower) / upper <= 0.3, "{found}");
}

#[test]
fn a_search_with_only_frames_to_drop_is_refused() {
    let search = |name: &str, verdict: &str| {
        let study = study(name, r#""linear""#, r#"{ rules = [8], source = ["far"] }"#);
        let verdicts = frames::verdicts_path(&study.with_file_name("far.pcap"));
        fs::write(verdicts, format!("{verdict}\n").repeat(16)).unwrap();
        let goal =
            SearchGoal { loss_ratio: 0.05, width: 0.3, ..SearchGoal::HALF_PERCENT_MEDIAN_LOSS };
        let options = StudyRunOptions { search: Some(goal), ..options() };
        execute_study(&study, &study.with_file_name("records"), &options, &mut |_| ())
    };
    assert_eq!(search("search-some", "accept").unwrap().searches.len(), 1);
    let error = search("search-none", "drop").unwrap_err();
    assert!(matches!(error, LabError::UnusableStudy(StudyError::InvalidOptions(_))), "{error}");
    let said = error.to_string();
    assert!(said.contains("`--search` at rules=8 source=far: every frame"), "{said}");
}

#[test]
fn paced_trials_offer_the_rate_and_report_loss() {
    let axes = r#"{ rules = [8], source = ["far"] }"#;
    let study = study("paced", r#""linear""#, axes);
    let path = study.join("study.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("blocks = 2", "blocks = 2\nrate_pps = 10000")).unwrap();
    let record = run_study(&study).unwrap();
    let paced: Vec<&Trial> = of(&record, "linear", TrialKind::Paced)
        .filter(|t| t.state == TrialState::Accepted)
        .collect();
    assert_eq!(paced.len(), 4);
    assert!(paced.iter().all(|t| t.rate_pps == 10_000.0 && t.unexpected_loss_ratio() == 0.0));
    assert!(paced.iter().all(|t| (1..=500).contains(&t.offered)), "0.05 s of 10,000 a second");
}

/// The small study with connections in place of its frames.
fn connecting(name: &str, subjects: &str, traffic: &str) -> PathBuf {
    let study = study(name, subjects, r#"{ rules = [8], source = ["far"] }"#);
    let path = study.join("study.toml");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("[traffic]").unwrap();
    let (_, after) = rest.split_once("[presets").unwrap();
    fs::write(&path, format!("{before}[traffic]\n{traffic}\n[presets{after}")).unwrap();
    study
}

#[test]
fn connections_are_complete_and_add_up_in_every_trial() {
    for (close, kind) in [
        ("fin", TrialKind::Connections),
        ("reset", TrialKind::ConnectionsReset),
        ("never", TrialKind::Handshakes),
    ] {
        let traffic = format!("kind = \"connections\"\nclose = \"{close}\"");
        let study = connecting(&format!("connecting-{close}"), r#""none", "linear""#, &traffic);
        let record = run_study(&study).unwrap();
        for subject in ["none", "linear"] {
            let trials: Vec<&Trial> =
                of(&record, subject, kind).filter(|t| t.state == TrialState::Accepted).collect();
            assert_eq!(trials.len(), 4, "{:?}", record.trials);
            for trial in trials {
                let connections = trial.connection_counts().unwrap();
                assert_eq!(trial.unaccounted_packets(), 0);
                assert_eq!(connections.unaccounted_connections(), 0);
                assert!(connections.completed > 0 && connections.failed.is_empty());
                assert!(connections.establish.duration_at_quantile(0.5).unwrap() > 0.0);
            }
        }
        let read = weir_stats::run_folder::load_record_recomputing_claims(
            &study.with_file_name("records"),
        )
        .unwrap();
        assert!(read == record, "records are read as they were written");
    }
}

#[test]
fn a_firewall_that_refuses_connections_fails_every_trial() {
    let traffic = "kind = \"connections\"\nclient = \"192.0.2.1\"\nclients = 4";
    let study = connecting("connecting-refused", r#""linear""#, traffic);
    let record = run_study(&study).unwrap();
    let trials: Vec<&Trial> = of(&record, "linear", TrialKind::Connections).collect();
    assert_eq!(trials.len(), 1 + 4, "validated once, not repeated");
    for trial in trials {
        assert_eq!(trial.state, TrialState::Failed);
        let connections = trial.connection_counts().unwrap();
        assert_eq!((connections.completed, connections.unaccounted_connections()), (0, 0));
        assert_eq!(connections.failed[0].at, "SYN");
    }
}

#[test]
fn an_axis_sets_the_rate_of_connections() {
    let traffic = "kind = \"connections\"\nrate_axis = \"rules\"";
    let study = connecting("connecting-rate", r#""none""#, traffic);
    let path = study.join("study.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("[0, 8]", "[1, 2000]").replace("[8]", "[2000]")).unwrap();
    let record = run_study(&study).unwrap();
    let mut seen = 0;
    for trial in
        of(&record, "none", TrialKind::Connections).filter(|t| t.state == TrialState::Accepted)
    {
        let connections = trial.connection_counts().unwrap();
        assert_eq!(trial.rate_pps, 2000.0);
        assert_eq!(
            connections.started + connections.skipped_behind_schedule,
            100,
            "0.05 s of 2,000 a second"
        );
        seen += 1;
    }
    assert_eq!(seen, 4);
}

#[test]
fn concurrent_connections_stay_open_and_their_memory_is_recorded() {
    let traffic = "kind = \"concurrent\"\nconnections = 30000";
    let study = connecting("concurrent", r#""tracking""#, traffic);
    let subjects = study.with_file_name("subjects.toml");
    let tracking = r#"
[tracking]
title = "tracks connections"
about = "one rule"
needs = ["nft"]
load = '''
nft 'add table ip t; add chain ip t f { type filter hook forward priority 0; };
  add rule ip t f ct state new,established accept'
'''
"#;
    fs::write(&subjects, format!("{SUBJECTS}{tracking}")).unwrap();
    let path = study.join("study.toml");
    let text = fs::read_to_string(&path).unwrap();
    // A trial ends when all connections are open; the duration is only a limit.
    fs::write(&path, text.replace("trial_seconds = 0.05", "trial_seconds = 20.0")).unwrap();
    let record = run_study(&study).unwrap();
    let mut seen = 0;
    for trial in
        of(&record, "tracking", TrialKind::Concurrent).filter(|t| t.state == TrialState::Accepted)
    {
        let table = trial.observations.table.as_ref().unwrap();
        assert_eq!(trial.connection_counts().unwrap().completed, 30_000);
        assert_eq!((table.before, table.after, table.peak_entries()), (0, 30_000, 30_000));
        assert!(table.samples.is_sorted_by_key(|(_, entries)| *entries), "they only grow");
        assert!(table.object_bytes > 100, "{table:?}");
        assert_eq!(table.slab_bytes_per_added_entry(), None, "too few to tell");
        assert!(trial.observations.snmp["Ip.ForwDatagrams"] >= 90_000);
        assert!(trial.observations.softnet["processed"] > 0);
        seen += 1;
    }
    assert_eq!(seen, 4, "{:?}", record.trials);
}

#[test]
fn machine_limits_are_raised_only_with_allow_global() {
    let traffic = "kind = \"concurrent\"\nconnections = 2000000000";
    let study = connecting("concurrent-global", r#""none""#, traffic);
    let before = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max").unwrap();
    let error = run_study(&study).unwrap_err().to_string();
    assert!(error.contains("nf_conntrack_max") && error.contains("--allow-global"), "{error}");
    let after = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max").unwrap();
    assert_eq!(before, after);
}
