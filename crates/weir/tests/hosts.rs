//! Studies over two hosts: namespaces stand for the machines, `sshd` runs in one of them, and the
//! cables between them are virtual. They need root and an ssh server.

#[path = "hosts/connections.rs"]
mod connections;
#[path = "hosts/kernels.rs"]
mod kernels;
#[path = "hosts/probes.rs"]
mod probes;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_kernel::process::PidWithStartTime;
use weir_kernel::{Namespace, Session, VethEndAddresses, VethOptions};
use weir_stats::trial_selection::{TrialSelection, estimate_block_paired_ratio};
use weir_stats::{
    Estimate, Quantity, RunRecord, Scenario, Trial, TrialKind, TrialState, run_folder,
};
use weir_testkit::{skip_test, skip_without_root};

const SSHD: &str = "/usr/sbin/sshd";
const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// What is awaited here takes less than a second on a quiet machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The hosts of one test share what two machines would not: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

const SUBJECTS: &str = r#"
[linear]
title = "iptables"
about = "one rule after another"
needs = ["iptables-legacy-restore"]
load = 'iptables-legacy-restore "$RULESET"'
COUNT_DROPS
[tree]
title = "a tree"
about = "compiled where weir was started, loaded on the firewall"
prepare = '"$WEIR" compile "$RULESET" --to tree -o "$DIR"'
load = 'sh "$DIR/load.sh"'
COUNT_DROPS
[absent]
title = "a tool that nobody has"
about = "cannot be measured"
needs = ["weir-no-such-program"]
load = "weir-no-such-program"
"#;

/// What `COUNT_DROPS` stands for: the packets that a rule dropped.
const COUNT_DROPS: &str = r#"count = '''
iptables-legacy-save -c | tr ':[]' '   ' | awk '
    / -j DROP$/ { dropped += $1 } END { print "dropped " dropped + 0 }'
'''"#;

const STUDY: &str = r#"
title = "A small study"
question = "Is it the same over two hosts?"
subjects = ["linear", "tree", "absent"]
[axes.pattern]
title = "which packets: none that is listed, or all of them"
values = ["far", "uniform"]
[ruleset]
axes = []
command = '"$WEIR" example rules --count 2048 --seed "$SEED" > "$RULESET"'
[traffic]
axes = ["pattern"]
command = '"$WEIR" traffic "$RULESET" --pattern "$PATTERN" --count 1024 --seed "$SEED" -o "$FRAMES"'
[noise]
repeats = 1
[presets.tiny]
label = "for a test"
trial_seconds = 0.1
blocks = 5
loads = 2
[presets.long]
label = "is killed"
trial_seconds = 0.2
blocks = 1000
loads = 0
"#;

/// Two hosts with a cable for `ssh` and two for data.
struct Lan {
    /// Owns both.
    _session: Session,
    ends: Namespace,
    firewall: Namespace,
    folder: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Lan {
    /// `None` if this machine cannot have it, after saying so.
    fn new(name: &str) -> Option<Lan> {
        if skip_without_root() {
            return None;
        }
        if !Path::new(SSHD).exists() {
            skip_test("needs sshd, which is not installed");
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("study")).unwrap();
        fs::write(folder.join("study/study.toml"), STUDY).unwrap();
        let subjects = SUBJECTS.replace("COUNT_DROPS", COUNT_DROPS);
        fs::write(folder.join("study/subjects.toml"), subjects).unwrap();
        let session = Session::new().unwrap();
        let (ends, firewall) = (
            session.create_namespace("ends").unwrap(),
            session.create_namespace("firewall").unwrap(),
        );
        let end = |addr: &str| VethEndAddresses { mac: None, addrs: vec![addr.to_owned()] };
        let management = VethOptions {
            end_a: end("192.0.2.1/24"),
            end_b: end("192.0.2.2/24"),
            ..VethOptions::default()
        };
        session.create_veth_pair(&ends, "m0", &firewall, "m0", &management).unwrap();
        for (near, far) in [("e0", "g0"), ("e1", "g1")] {
            session.create_veth_pair(&ends, near, &firewall, far, &VethOptions::default()).unwrap();
        }
        let lan = Lan { _session: session, ends, firewall, folder, _alone: alone };
        lan.start_sshd();
        Some(lan)
    }

    fn start_sshd(&self) {
        let in_folder = |name: &str| self.folder.join(name).display().to_string();
        for key in ["host", "user"] {
            let path = in_folder(key);
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &path])
                .status()
                .expect("ssh-keygen runs");
            assert!(made.success());
        }
        let public = fs::read_to_string(self.folder.join("host.pub")).unwrap();
        fs::write(self.folder.join("known"), format!("192.0.2.2 {public}")).unwrap();
        let server = format!(
            "ListenAddress 192.0.2.2\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             UsePAM no\nPidFile {}\nPermitRootLogin prohibit-password\n\
             KexAlgorithms curve25519-sha256\n",
            in_folder("host"),
            in_folder("user.pub"),
            in_folder("sshd.pid")
        );
        let client = format!(
            "Host fw\n Port 22\nHost nobody\n Port 23\nHost *\n HostName 192.0.2.2\n User root\n \
             IdentityFile {}\n UserKnownHostsFile {}\n",
            in_folder("user"),
            in_folder("known")
        );
        fs::write(self.folder.join("sshd_config"), server).unwrap();
        fs::write(self.folder.join("ssh_config"), client).unwrap();
        // The system's own start script makes it.
        fs::create_dir_all("/run/sshd").unwrap();
        let mut sshd = self.firewall.command(SSHD);
        sshd.args(["-D", "-e", "-f", &in_folder("sshd_config")]).stderr(Stdio::piped());
        let mut sshd = sshd.spawn().expect("sshd starts");
        let mut said = BufReader::new(sshd.stderr.take().unwrap()).lines().map_while(Result::ok);
        let is_listening = said.any(|line| line.contains("listening"));
        // It ends with the session.
        std::thread::spawn(move || {
            said.for_each(drop);
            sshd.wait()
        });
        assert!(is_listening, "sshd listens");
    }

    /// Puts another study in the place of the usual one.
    fn study(&self, study: &str, subjects: &str) {
        fs::write(self.folder.join("study/study.toml"), study).unwrap();
        fs::write(self.folder.join("study/subjects.toml"), subjects).unwrap();
    }

    /// The file of the hosts, with one thing changed.
    fn hosts(&self, before: &str, after: &str) -> PathBuf {
        let text = format!(
            "[ends]\ninput = \"e0\"\noutput = \"e1\"\n[firewall]\nhost = \"fw\"\ninput = \"g0\"\n\
             output = \"g1\"\nssh = [\"-F\", \"{}\"]\n",
            self.folder.join("ssh_config").display()
        );
        assert!(text.contains(before));
        let path = self.folder.join("hosts.toml");
        fs::write(&path, text.replacen(before, after, 1)).unwrap();
        path
    }

    /// `weir lab run` on the host of both ends.
    fn run(&self, out: &str, preset: &str, hosts: Option<&Path>) -> Command {
        let mut command = self.ends.command(WEIR);
        command.args(["lab", "run"]).arg(self.folder.join("study"));
        command.arg("-o").arg(self.folder.join(out)).args(["--preset", preset]);
        if let Some(hosts) = hosts {
            command.arg("--hosts").arg(hosts);
        }
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// The devices of a host: names, addresses, and which are up. Whether the other end is, too, is
    /// told a while later.
    fn devices(host: &Namespace) -> String {
        let text = host.run_command(&["ip", "-br", "link"], b"").unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            format!("{} {} {}", words[0], words[2], words[3].contains(",UP"))
        };
        let mut lines: Vec<String> = text.lines().map(line).collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    /// The agent that runs on the firewall's host; a child that it is about to start looks like it,
    /// but is younger.
    fn agent(&self) -> Option<PidWithStartTime> {
        let text = Command::new("ip").args(["netns", "pids", self.firewall.name()]).output();
        let text = String::from_utf8(text.unwrap().stdout).unwrap();
        let is_agent = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.ends_with(b"weir\0lab\0agent\0")
        };
        let pids = text.lines().filter_map(|line| line.trim().parse().ok()).filter(is_agent);
        pids.filter_map(PidWithStartTime::from_pid).min_by_key(|id| (id.start, id.pid))
    }
}

/// Whether a process left namespaces.
fn has_left(pid: u32) -> bool {
    let text = Command::new("ip").arg("netns").output().unwrap().stdout;
    String::from_utf8(text).unwrap().contains(&format!("weir-{pid:x}."))
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        std::thread::yield_now();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How many times as many packets go through the tree as through the list.
fn gain(record: &RunRecord, pattern: &str) -> Estimate {
    let all = Scenario::default().with_coordinate("pattern", pattern);
    let of = |subject| TrialSelection::of_first_copy(Quantity::Pps, subject, &all);
    estimate_block_paired_ratio(of("tree"), of("linear"), &record.trials).unwrap()
}

/// Whether two ratios are the same within their intervals, each made wider by a quarter: those of
/// few blocks on a busy machine are too narrow one time in a few.
fn agree(one: &Estimate, other: &Estimate) -> bool {
    one.lo / 1.25 <= other.hi * 1.25 && other.lo / 1.25 <= one.hi * 1.25
}

#[test]
fn a_study_over_two_hosts_gives_single_machine_ratios() {
    let Some(lan) = Lan::new("hosts-ratios") else { return };
    let before = (Lan::devices(&lan.ends), Lan::devices(&lan.firewall));
    let hosts = lan.hosts("fw", "fw");
    for (out, hosts) in [("local", None), ("remote", Some(hosts.as_path()))] {
        let ended = lan.run(out, "tiny", hosts).output().unwrap();
        assert!(ended.status.success(), "{out}: {}", said(&ended));
    }
    assert_eq!((Lan::devices(&lan.ends), Lan::devices(&lan.firewall)), before);
    let local = run_folder::load_record_recomputing_claims(&lan.folder.join("local")).unwrap();
    let remote = run_folder::load_record_recomputing_claims(&lan.folder.join("remote")).unwrap();

    let of = |record: &RunRecord, kind: TrialKind| {
        record.trials.iter().filter(|t| t.kind == kind).count()
    };
    assert_eq!(of(&remote, TrialKind::Load), of(&local, TrialKind::Load));
    for trial in remote.trials.iter().filter(|t| t.kind == TrialKind::Rate) {
        assert!(
            matches!(
                trial.state,
                TrialState::Accepted | TrialState::Warmup | TrialState::Disturbed
            ),
            "{trial:?}"
        );
        let is_listed = trial.scenario.to_string().contains("uniform");
        // A few rules of the list accept.
        let enough = if is_listed { trial.expected_drops } else { trial.delivered };
        assert!(enough > trial.offered / 100 * 99 && trial.offered > 0, "{trial:?}");
        assert_eq!(trial.expected_drops + trial.delivered, trial.offered, "{trial:?}");
        assert_eq!((trial.unaccounted_packets(), trial.leaked), (0, 0), "{trial:?}");
    }
    for pattern in ["far", "uniform"] {
        let (here, there) = (gain(&local, pattern), gain(&remote, pattern));
        eprintln!("tree to linear, {pattern}: {here:?} on one machine, {there:?} over two hosts");
        assert!(here.lo > 1.0 && there.lo > 1.0, "both ratios differ from 1");
        assert!(agree(&here, &there), "{here:?} {there:?}");
        let none = Estimate { value: 1.0, lo: 1.0, hi: 1.0, samples: there.samples };
        assert!(!agree(&none, &there), "what differs does not agree: {there:?}");
    }

    let [host] = remote.run.hosts.as_slice() else { panic!("one other host") };
    assert_eq!(host.role, "firewall");
    assert_eq!(host.environment.kernel, remote.run.environment.kernel);
    // Both hosts use the same clock here.
    assert!(host.clock_offset_seconds.abs() <= host.clock_round_trip_seconds);
    let lacking: Vec<bool> = remote.run.subjects.iter().map(|s| s.lacking.is_some()).collect();
    assert_eq!(lacking, [false, false, true]);
}

#[test]
fn host_errors_name_the_line_of_the_hosts_file() {
    let Some(lan) = Lan::new("hosts-wrong") else { return };
    let before = (Lan::devices(&lan.ends), Lan::devices(&lan.firewall));
    let cases = [
        ("\"fw\"", "\"nobody\"", ":5: `ssh` cannot reach the firewall's host: ", "refused"),
        ("\"g1\"", "\"g9\"", ":7: ", "device g9: it does not exist"),
        ("\"e0\"", "\"e9\"", ":2: ", "device e9: it does not exist"),
        ("\"g0\"", "\"m0\"", ":6: ", "it has the address 192.0.2.2"),
        ("ssh =", "weir = \"/no/weir\"\nssh =", ":8: weir cannot run", "/no/weir"),
        ("ssh =", "as_root = [\"nobody-sudo\"]\nssh =", ":5: weir cannot run", "nobody-sudo"),
        ("ssh =", "boot_limit_seconds = 9\nssh =", ":8: it requires `kernels`", "`kernels`"),
    ];
    for (from, to, line, why) in cases {
        let hosts = lan.hosts(from, to);
        let ended = lan.run("wrong", "tiny", Some(&hosts)).output().unwrap();
        let said = said(&ended);
        assert_eq!(ended.status.code(), Some(2), "{to}: {said}");
        assert!(said.contains(&format!("hosts.toml{line}")) && said.contains(why), "{to}: {said}");
        assert!(!lan.folder.join("wrong").exists(), "{to}: no records of nothing");
    }
    assert_eq!((Lan::devices(&lan.ends), Lan::devices(&lan.firewall)), before);
}

#[test]
fn interfaces_are_returned_after_a_killed_run() {
    let Some(lan) = Lan::new("hosts-killed") else { return };
    let hosts = lan.hosts("fw", "fw");
    let before = (Lan::devices(&lan.ends), Lan::devices(&lan.firewall));
    let reap = || assert!(Command::new(WEIR).arg("reap").output().unwrap().status.success());
    let start = |out: &str| {
        let child = lan.run(out, "long", Some(&hosts)).stderr(Stdio::null()).spawn().unwrap();
        let trials = lan.folder.join(out).join("trials.jsonl");
        wait_for("trials begin", || {
            fs::read_to_string(&trials).is_ok_and(|text| text.lines().count() > 3)
        });
        assert!(!Lan::devices(&lan.firewall).contains("g0@"), "the interfaces are in use");
        child
    };

    // Kill the measuring process: the firewall's host detects the closed connection.
    let mut child = start("run-killed");
    let agent = lan.agent().expect("an agent runs");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the agent ends", || !agent.is_alive());
    assert_eq!(Lan::devices(&lan.firewall), before.1);
    assert!(!has_left(agent.pid) && has_left(child.id()));
    assert!(!Lan::devices(&lan.ends).contains("e0@"), "a killed run did not return the interfaces");
    reap();
    assert_eq!(Lan::devices(&lan.ends), before.0);
    assert!(!has_left(child.id()));

    // Kill the agent: the run ends with an error, and the next start cleans up the firewall's host.
    let child = start("agent-killed");
    let agent = lan.agent().expect("an agent runs");
    agent.kill_and_wait(LIMIT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert_eq!(Lan::devices(&lan.ends), before.0);
    assert!(
        !Lan::devices(&lan.firewall).contains("g0@"),
        "a killed agent did not return the interfaces"
    );
    reap();
    assert_eq!(Lan::devices(&lan.firewall), before.1);
    assert!(!has_left(agent.pid));
}
