//! Connections, their limits and memory over two hosts.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::PoisonError;

use weir_stats::trial_selection::{TrialSelection, estimate_block_paired_ratio};
use weir_stats::{
    ConntrackTableObservation, Estimate, Quantity, RunRecord, Scenario, Trial, TrialKind,
    TrialState, run_folder,
};
use weir_testkit::{skip_test, skip_without_root};

use super::{ALONE, Lan, STUDY, WEIR, agree, said};

const SUBJECTS: &str = r#"
[plain]
title = "no rules"
about = "forwards everything"
baseline = true
load = 'true'
[tracked]
title = "tracked"
about = "connection tracking alone"
needs = ["iptables-legacy"]
load = 'iptables-legacy -A FORWARD -m conntrack --ctstate UNTRACKED'
[listed]
title = "2,000 rules"
about = "none of them matches"
needs = ["iptables-legacy-restore"]
load = '''
{ echo '*filter'
  for at in $(seq 2000); do echo "-A FORWARD -s 192.0.2.1 -p tcp --dport $at -j DROP"; done
  echo COMMIT; } | iptables-legacy-restore
'''
"#;

const CONNECTIONS: &str = r#"
title = "Connections over two hosts"
question = "Is tracking as dear there as it is here?"
subjects = ["plain", "tracked", "listed"]
[ruleset]
axes = []
command = ': > "$RULESET"'
[traffic]
kind = "connections"
clients = 64
servers = 4
[noise]
repeats = 1
[presets.tiny]
label = "for a test"
trial_seconds = 0.1
blocks = 5
loads = 0
"#;

const MEMORY_SUBJECTS: &str = r#"
[linear]
title = "iptables"
about = "one rule after another"
needs = ["iptables-legacy-restore"]
load = 'iptables-legacy-restore "$RULESET"'
[nothing]
title = "nothing"
about = "loads no rules"
load = 'true'
"#;

const MEMORY: &str = r#"
title = "Memory over two hosts"
question = "Does a ruleset take as much there as it does here?"
subjects = ["linear", "nothing"]
memory = true
[ruleset]
axes = []
command = '"$WEIR" example rules --count 32768 --seed "$SEED" > "$RULESET"'
[presets.tiny]
label = "for a test"
trial_seconds = 0.1
blocks = 1
loads = 3
"#;

impl Lan {
    /// Records of the study on one machine, and over the hosts.
    fn both(&self) -> [RunRecord; 2] {
        let hosts = self.hosts("fw", "fw");
        [("local", None), ("remote", Some(hosts.as_path()))].map(|(out, hosts)| {
            let ended = self.run(out, "tiny", hosts).output().unwrap();
            assert!(ended.status.success(), "{out}: {}", said(&ended));
            run_folder::load_record_recomputing_claims(&self.folder.join(out)).unwrap()
        })
    }

    /// What a run over the hosts says that is refused.
    fn refused(&self, more: &[&str]) -> String {
        let hosts = self.hosts("fw", "fw");
        let ended: Output = self.run("refused", "tiny", Some(&hosts)).args(more).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{}", said(&ended));
        said(&ended)
    }
}

/// Connections a second of a subject against those without rules.
fn share(record: &RunRecord, subject: &str) -> Estimate {
    let all = Scenario::default();
    let of = |subject| TrialSelection::of_first_copy(Quantity::ConnectionsPerSecond, subject, &all);
    estimate_block_paired_ratio(of(subject), of("plain"), &record.trials).unwrap()
}

/// Whether the table was looked at while connections came.
fn has_course(trial: &Trial) -> bool {
    let table = trial.observations.table.as_ref().unwrap();
    let is_between = |(_, entries): &(f64, u64)| (1..table.after).contains(entries);
    table.samples.is_sorted_by_key(|(seconds, _)| *seconds) && table.samples.iter().any(is_between)
}

#[test]
fn tracking_cost_over_two_hosts_equals_that_on_one() {
    let Some(lan) = Lan::new("hosts-connections") else { return };
    let before = (Lan::devices(&lan.ends), Lan::devices(&lan.firewall));
    lan.study(CONNECTIONS, SUBJECTS);
    let [local, remote] = lan.both();
    assert_eq!((Lan::devices(&lan.ends), Lan::devices(&lan.firewall)), before);

    let of_connections = |trial: &&Trial| trial.kind == TrialKind::Connections;
    let trials: Vec<&Trial> = remote.trials.iter().filter(of_connections).collect();
    assert_eq!(local.trials.iter().filter(|t| t.state == TrialState::Warmup).count(), 3);
    let accepted = |record: &RunRecord| {
        let is_done =
            |t: &&Trial| t.kind == TrialKind::Connections && t.state == TrialState::Accepted;
        record.trials.iter().filter(is_done).count()
    };
    assert!(accepted(&local) > 0);
    assert_eq!(accepted(&remote), accepted(&local));
    for trial in &trials {
        assert!(
            matches!(
                trial.state,
                TrialState::Accepted | TrialState::Warmup | TrialState::Disturbed
            ),
            "{trial:?}"
        );
        let connections = trial.connection_counts().unwrap();
        assert!(connections.completed > 0, "{trial:?}");
        assert_eq!(
            (trial.unaccounted_packets(), connections.unaccounted_connections()),
            (0, 0),
            "{trial:?}"
        );
        assert_eq!((connections.invalid_packets, connections.foreign_resets), (0, 0), "{trial:?}");
        // The table there is emptied between trials, so it holds those of this one.
        let arrived = connections.completed..=connections.started;
        let is_own =
            |table: &ConntrackTableObservation| table.before == 0 && arrived.contains(&table.after);
        let is_own = trial.observations.table.as_ref().map(is_own);
        assert_eq!(is_own, (trial.subject == "tracked").then_some(true), "{trial:?}");
    }
    let doubts = |record: &RunRecord| record.run.doubts.join("\n").contains("had no rate");
    assert_eq!((doubts(&local), doubts(&remote)), (false, true));
    let mut tracked = trials.iter().filter(|trial| trial.subject == "tracked");
    assert!(tracked.any(|trial| has_course(trial)), "the table is followed there");

    for subject in ["tracked", "listed"] {
        let (here, there) = (share(&local, subject), share(&remote, subject));
        eprintln!("{subject} to plain: {here:?} on one machine, {there:?} over two hosts");
        assert!(there.hi < 1.0, "a ratio that differs from 1: {there:?}");
        assert!(agree(&here, &there), "{subject}: {here:?} {there:?}");
    }
    let (tracked, listed) = (share(&local, "tracked"), share(&remote, "listed"));
    assert!(!agree(&tracked, &listed), "what differs does not agree: {tracked:?} {listed:?}");
}

#[test]
fn ruleset_memory_on_a_remote_host_equals_local_memory() {
    let Some(lan) = Lan::new("hosts-memory") else { return };
    lan.study(MEMORY, MEMORY_SUBJECTS);
    let records = lan.both();
    let median = |record: &RunRecord, subject: &str| {
        let loads =
            record.trials.iter().filter(|t| t.kind == TrialKind::Load && t.subject == subject);
        let mut bytes: Vec<i64> = loads
            .map(|trial| trial.observations.load_memory_bytes.expect("it is measured"))
            .collect();
        assert_eq!(bytes.len(), 3);
        bytes.sort_unstable();
        bytes[1]
    };
    let [here, there] = records.each_ref().map(|record| median(record, "linear"));
    let nothing = median(&records[1], "nothing");
    eprintln!("32,768 rules take {here} bytes here, {there} there, and nothing {nothing}");
    assert!(there > 2 << 20, "{there} bytes of 32,768 rules");
    assert!(here < there * 2 && there < here * 2, "{here} here, {there} there");
    assert!(nothing.abs() < there / 2, "{nothing} bytes of nothing, {there} of rules");
}

#[test]
fn features_not_supported_over_hosts_are_refused_with_line() {
    let Some(lan) = Lan::new("hosts-refused") else { return };
    let kind = "kind = \"connections\"\nclients = 64\nservers = 4";
    let sockets = "kind = \"sockets\"\nrate_axis = \"rate\"";
    let rates = "[axes.rate]\ntitle = \"rate\"\nvalues = [10]\n[traffic]";
    let on_axis = CONNECTIONS.replace(kind, sockets).replace("[traffic]", rates);
    let loopback = CONNECTIONS.replace(kind, "kind = \"loopback\"");
    let probed = format!("{STUDY}[probe]\nkinds = [\"icmp\", \"shell\"]\nloads = [\"idle\"]\n");
    let probed = format!("{probed}rate_per_second = 10\n");
    let one_armed = SUBJECTS.replace("[plain]", "[plain]\npath = \"one-armed\"");
    let direct = SUBJECTS.replace("[plain]", "[plain]\npath = \"direct\"");
    let usual = fs::read_to_string(lan.folder.join("study/subjects.toml")).unwrap();
    let cases = [
        (on_axis.as_str(), SUBJECTS, "[traffic]", "kind `sockets` is not implemented over hosts"),
        (&loopback, SUBJECTS, "[traffic]", "kind `loopback` is not implemented over hosts"),
        (&probed, &usual, "[probe]", "`[probe]` by a shell is not implemented over hosts"),
        (CONNECTIONS, &one_armed, "subjects =", "the path `one-armed` of subject `plain` is"),
        (CONNECTIONS, &direct, "subjects =", "the path `direct` of subject `plain` is"),
    ];
    for (study, subjects, place, why) in cases {
        lan.study(study, subjects);
        let line = 1 + study[..study.find(place).unwrap()].matches('\n').count();
        let said = lan.refused(&[]);
        assert!(said.contains(&format!("study.toml:{line}: {why}")), "{said}");
        assert!(!lan.folder.join("refused").exists(), "{why}: no records of nothing");
    }
}

fn table_limit() -> Option<u64> {
    let path = Path::new("/proc/sys/net/netfilter/nf_conntrack_max");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[test]
fn errors_about_limits_name_the_firewalls_host() {
    let Some(lan) = Lan::new("hosts-limits") else { return };
    let before = table_limit();
    let held = "kind = \"concurrent\"\nconnections = 2000000000\nclients = 64";
    lan.study(&CONNECTIONS.replace("kind = \"connections\"\nclients = 64", held), SUBJECTS);
    let refused = lan.refused(&[]);
    let limit = "nf_conntrack_max on the firewall's host is ";
    assert!(refused.contains(limit) && refused.contains("--allow-global"), "{refused}");
    // A host that is only a network namespace may not raise the limit, and this host is one.
    fs::remove_dir_all(lan.folder.join("refused")).unwrap();
    let refused = lan.refused(&["--allow-global"]);
    assert!(refused.contains("on the firewall's host: set sysctl"), "{refused}");
    assert_eq!(table_limit(), before);
}

/// An agent on this machine, asked by hand.
struct Agent {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    fn start() -> Agent {
        let mut agent = Command::new(WEIR);
        agent.args(["lab", "agent"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = agent.spawn().expect("an agent starts");
        let to = child.stdin.take().unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap()).lines();
        let welcome = from.next().expect("an agent says who it is").unwrap();
        assert!(welcome.contains("\"version\""), "{welcome}");
        Agent { child, to, from }
    }

    fn raise(&mut self, to: u64) {
        let key = "net.netfilter.nf_conntrack_max";
        writeln!(self.to, r#"{{"RaiseSysctl":{{"key":"{key}","to":{to}}}}}"#).unwrap();
        let answer = self.from.next().expect("an agent answers").unwrap();
        assert_eq!(answer, r#"{"Completed":null}"#);
    }
}

#[test]
fn a_limit_raised_remotely_is_restored_even_after_a_kill() {
    if skip_without_root() {
        return;
    }
    let Some(before) = table_limit() else { return skip_test("needs connection tracking") };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);

    let mut agent = Agent::start();
    agent.raise(before + 1);
    assert_eq!(table_limit(), Some(before + 1));
    drop(agent.to);
    assert!(agent.child.wait().unwrap().success());
    assert_eq!(table_limit(), Some(before));

    let mut agent = Agent::start();
    agent.raise(before + 1);
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    assert_eq!(table_limit(), Some(before + 1), "a killed agent puts nothing back");
    assert!(Command::new(WEIR).arg("reap").output().unwrap().status.success());
    assert_eq!(table_limit(), Some(before));
}
