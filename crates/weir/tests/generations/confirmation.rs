//! Generations that wait for their confirmation: what confirms them, and what becomes of them
//! without it.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use weir_kernel::process::PidWithStartTime;
use weir_kernel::{Namespace, VethEndAddresses, VethOptions};
use weir_testkit::skip_without_root;

use crate::filtering_host::{
    ALWAYS_DROPPED_PORT, FilteringHost, WAIT_LIMIT, WEIR, rules_dropping_udp_ports, wait_until,
};

const HOST: &str = "198.51.100.1";

/// The supervisor of a host's state folder, by its command line.
fn find_supervisor(host: &FilteringHost) -> Option<PidWithStartTime> {
    let state = host.path("state").display().to_string();
    let is_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.get(1) == Some(&&b"supervise"[..]) && words.contains(&state.as_bytes())
    };
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_it).find_map(PidWithStartTime::from_pid)
}

#[test]
fn without_a_confirmation_the_old_ruleset_is_restored_at_the_deadline() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("deadline");
    host.load_legacy(&rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    let before = host.saved_rulesets();
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]), "nft");
    host.run_weir(&["apply", "--artefact", &folder, "--confirm", "5s"]);
    assert!(!host.is_delivered(5001), "the new ruleset is in force");
    let listing = host.weir_json(&["history", "--json"]);
    assert_eq!(listing["pending"]["generation"], 1, "{listing}");
    let (_, status, _) = host.weir(&["status"]);
    assert!(status.contains("generation 1 waits for its confirmation"), "{status}");
    wait_until("the rollback", || host.generation_in_force() == 0);
    wait_until("the end of the supervisor", || find_supervisor(&host).is_none());
    assert_eq!(host.saved_rulesets(), before);
    assert!(host.is_delivered(5001));
    let history = host.run_weir(&["history"]);
    assert!(history.contains("it was not confirmed within 5 s"), "{history}");
    let said = host.run_refused_weir(&["confirm", "--console"]);
    assert!(said.contains("no generation waits for its confirmation"), "{said}");
    assert!(said.contains("generation 1 was rolled back"), "{said}");
}

#[test]
fn a_supervisor_retries_reading_an_unreadable_journal() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("unreadable");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    host.run_weir(&["apply", "--artefact", &folder, "--confirm", "8s"]);
    let generations = fs::read_dir(host.path("state/generations")).expect("a folder");
    let namespace = generations.flatten().next().expect("a namespace").path();
    let (journal, current) = (namespace.join("journal.json"), namespace.join("current.json"));
    let [texts, broken] = [[&journal, &current], [&current, &journal]];
    let texts = texts.map(|file| fs::read_to_string(file).expect("a text"));
    for file in broken {
        fs::write(file, "{").expect("it is written");
    }
    // The supervisor reads both all the time: it opens files that are broken.
    let reads = || {
        let io = fs::read_to_string(format!(
            "/proc/{}/io",
            find_supervisor(&host).expect("it is there").pid
        ));
        let io = io.expect("the kernel counts");
        io.lines().find_map(|l| l.strip_prefix("syscr: ")?.parse::<u64>().ok()).expect("reads")
    };
    let before = reads();
    wait_until("four attempts", || reads() >= before + 8);
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "the new ruleset is in force");
    for (file, text) in [&journal, &current].into_iter().zip(texts) {
        fs::write(file, text).expect("it is written");
    }
    wait_until("the rollback", || host.is_delivered(ALWAYS_DROPPED_PORT));
}

#[test]
fn neither_a_full_disk_nor_a_foreign_change_prevents_the_rollback() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("deadline-disk");
    let folder =
        host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]), "ipset");
    let state = host.path("state");
    fs::create_dir(&state).expect("a folder");
    // The file system ends with the processes that have it: the supervisor is the last.
    let script = format!(
        "mount -t tmpfs -o size=1m,mode=700 none {state} && \
         {WEIR} apply --artefact {folder} --confirm 7s && \
         iptables-legacy -A INPUT -p udp --dport 5003 -j DROP && \
         ! dd if=/dev/zero of={state}/full bs=4k 2>{state}/../said",
        state = state.display()
    );
    let output = host.command("unshare").args(["-m", "sh", "-c", &script]).output();
    let output = output.expect("unshare runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = fs::read_to_string(host.path("said")).expect("what dd said");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(!host.is_delivered(5001) && !host.is_delivered(5003), "the new ruleset is in force");
    wait_until("the rollback", || host.is_delivered(5001));
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT) && host.is_delivered(5003));
}

#[test]
fn after_a_kill_of_the_supervisor_the_next_command_rolls_back() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("supervisor");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    host.run_weir(&["apply", "--artefact", &folder, "--confirm", "5s"]);
    let supervisor = find_supervisor(&host).expect("it runs");
    let (_, status, _) = host.weir(&["status"]);
    assert!(status.contains("s left, then generation 0 is restored\n"), "{status}");
    supervisor.kill_and_wait(WAIT_LIMIT).expect("it is killed");
    let (_, status, _) = host.weir(&["status"]);
    assert!(
        status.contains("by the next weir apply, confirm or rollback: no supervisor"),
        "{status}"
    );
    let seconds_left = || {
        let listing = host.weir_json(&["history", "--json"]);
        listing["pending"]["seconds_left"].as_u64()
    };
    wait_until("the deadline", || seconds_left() == Some(0));
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "nobody is there to roll back");
    let said = host.run_refused_weir(&["confirm", "--console"]);
    assert!(said.contains("generation 1 was rolled back because it was not confirmed"), "{said}");
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
}

/// It does what was asked for, and no more.
#[test]
fn a_rollback_that_finds_the_deadline_missed_is_done_with_it() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("missed");
    host.load_legacy(&rules_dropping_udp_ports(&[5001]));
    let rules = rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]);
    let folders = ["a", "b"].map(|name| host.compile(name, &rules, "tree"));
    host.run_weir(&["apply", "--artefact", &folders[0]]);
    host.run_weir(&["apply", "--artefact", &folders[1], "--confirm", "5s"]);
    let supervisor = find_supervisor(&host).expect("it runs");
    supervisor.kill_and_wait(WAIT_LIMIT).expect("it is killed");
    let seconds_left = || {
        let listing = host.weir_json(&["history", "--json"]);
        listing["pending"]["seconds_left"].as_u64()
    };
    wait_until("the deadline", || seconds_left() == Some(0));
    let said = host.run_weir(&["rollback"]);
    assert_eq!(said, "generation 1 is in force and replaces generation 2\n");
    assert_eq!(host.generation_in_force(), 1);
}

#[test]
fn a_confirmation_at_the_console_keeps_the_ruleset_and_ends_the_supervisor() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("console");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    host.run_weir(&["apply", "--artefact", &folder, "--confirm", "5min"]);
    assert!(find_supervisor(&host).is_some());
    let said = host.run_refused_weir(&["apply", "--artefact", &folder]);
    assert!(said.contains("generation 1 waits for its confirmation"), "{said}");
    let said = host.run_refused_weir(&["confirm"]);
    assert!(said.contains("this session has no TCP connection from another host"), "{said}");
    host.run_weir(&["confirm", "--console"]);
    wait_until("the end of the supervisor", || find_supervisor(&host).is_none());
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
    host.run_weir(&["apply", "--artefact", &folder, "--confirm", "5min"]);
    host.run_weir(&["rollback"]);
    wait_until("the end of the supervisor", || find_supervisor(&host).is_none());
    assert_eq!(host.generation_in_force(), 1);
}

/// A host that another one can connect to. This process stands for sshd: it holds the accepted
/// connections, and weir is its child.
pub struct LoginServer {
    client: Namespace,
    listener: TcpListener,
}

impl LoginServer {
    /// Links a client's namespace to a host and listens there.
    pub fn new(host: &FilteringHost) -> LoginServer {
        let client = host.session.create_namespace("client").expect("a namespace");
        let end = |address: &str| VethEndAddresses { addrs: vec![address.to_owned()], mac: None };
        let options = VethOptions {
            end_a: end("198.51.100.1/24"),
            end_b: end("198.51.100.2/24"),
            ..VethOptions::default()
        };
        let link =
            host.session.create_veth_pair(&host.namespace, "eth0", &client, "eth0", &options);
        link.expect("a link");
        let bind = || TcpListener::bind((HOST, 2222));
        let listener = host.namespace.call_inside(bind).expect("entered").expect("a listener");
        listener.set_nonblocking(true).expect("it does not wait");
        LoginServer { client, listener }
    }

    /// Connects; both ends, or none if nothing answers.
    pub fn log_in(&self) -> Option<[TcpStream; 2]> {
        let to = self.listener.local_addr().expect("an address");
        let try_to = || TcpStream::connect_timeout(&to, Duration::from_secs(2));
        let connected = self.client.call_inside(try_to).expect("the namespace is entered");
        let connected = connected.inspect_err(|e| eprintln!("connect to {to}: {e}")).ok()?;
        let mut accepted = None;
        wait_until("the connection", || match self.listener.accept() {
            Ok((socket, _)) => accepted.insert(socket).peer_addr().is_ok(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("accept: {error}"),
        });
        Some([connected, accepted?])
    }
}

#[test]
fn only_a_connection_opened_after_the_apply_confirms() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("session");
    let server = LoginServer::new(&host);
    let old_session = server.log_in().expect("no rule blocks it");

    let blocking = rules_dropping_udp_ports(&[]).replace(
        "COMMIT",
        "-A INPUT -p tcp -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
         -A INPUT -p tcp -m tcp --dport 2222 -j DROP\nCOMMIT",
    );
    let blocking = host.compile("blocking", &blocking, "tree");
    host.run_weir(&["apply", "--artefact", &blocking, "--confirm", "5min"]);
    assert!(server.log_in().is_none(), "the ruleset blocks new connections");
    let said = host.run_refused_weir(&["confirm"]);
    assert!(said.contains("was opened before the ruleset was in force"), "{said}");
    assert!(said.contains("generation 1 is not confirmed"), "{said}");
    host.run_weir(&["rollback"]);

    let open = host.compile("open", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    host.run_weir(&["apply", "--artefact", &open, "--confirm", "5min"]);
    let said = host.run_refused_weir(&["confirm"]);
    assert!(said.contains("was opened before the ruleset was in force"), "{said}");
    let new_session = server.log_in().expect("the ruleset lets it pass");
    let said = host.run_weir(&["confirm"]);
    let peer = new_session[0].local_addr().expect("an address");
    assert!(said.contains(&format!("is confirmed (connection from {peer})")), "{said}");
    drop((old_session, new_session));
}
