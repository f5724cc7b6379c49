//! Sessions on the real machine. All of these need root.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use weir_kernel::process::PidWithStartTime;
use weir_kernel::{Session, VethEndAddresses, VethOptions, reaper};
use weir_testkit::live_network::describe_live_network;

/// Tests that compare the whole machine before and after run one at a time.
static MACHINE: Mutex<()> = Mutex::new(());

fn machine() -> MutexGuard<'static, ()> {
    assert!(rustix::process::geteuid().is_root(), "needs root: it makes network namespaces");
    MACHINE.lock().unwrap_or_else(|e| e.into_inner())
}

fn output(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().expect(program);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn names(directory: &str, run: &str) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(directory) else { return BTreeSet::new() };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    names.filter(|n| n.contains(run)).collect()
}

#[test]
fn a_session_creates_and_removes_its_namespaces_and_links() {
    let _machine = machine();
    let before = describe_live_network();
    let session = Session::new().unwrap();
    let run = session.run_name().to_owned();
    let fw = session.create_namespace("fw").unwrap();
    let wan = session.create_namespace("wan").unwrap();
    let end = |addr: &str| VethEndAddresses { mac: None, addrs: vec![addr.to_owned()] };
    let options = VethOptions {
        end_a: end("192.0.2.1/24"),
        end_b: end("192.0.2.2/24"),
        gro: true,
        ..VethOptions::default()
    };
    session.create_veth_pair(&fw, "eth0", &wan, "wan0", &options).unwrap();
    fw.set_sysctl("net.ipv4.ip_forward", "1").unwrap();
    assert_eq!(fw.read_sysctl("net.ipv4.ip_forward").unwrap(), "1");
    assert!(fw.has_gro("eth0").unwrap() && wan.has_gro("wan0").unwrap());
    fw.set_gro("eth0", false).unwrap();
    assert!(!fw.has_gro("eth0").unwrap());
    let server = fw.call_inside(|| TcpListener::bind("192.0.2.1:7")).unwrap().unwrap();
    let limit = Duration::from_secs(5);
    let address = server.local_addr().unwrap();
    wan.call_inside(|| TcpStream::connect_timeout(&address, limit)).unwrap().unwrap();
    assert_eq!(
        output("ip", &["netns", "exec", fw.name(), "cat", "/sys/class/net/eth0/mtu"]),
        "1500\n"
    );
    assert_eq!(describe_live_network(), before);
    assert!(session.create_namespace("fw").is_err(), "a role is there once");

    let mut sleeper = fw.command("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    assert!(!names("/run/netns", &run).is_empty());
    drop(session);
    assert!(!sleeper.wait().unwrap().success(), "a process inside ends with the session");
    assert!(names("/run/netns", &run).is_empty());
    assert!(names("/run/weir/sessions", &run).is_empty());
    assert_eq!(describe_live_network(), before);
}

#[test]
fn the_thread_is_back_after_entering_even_when_the_work_panics() {
    let _machine = machine();
    let own = || fs::read_link("/proc/thread-self/ns/net").unwrap();
    let before = own();
    let session = Session::new().unwrap();
    let ns = session.create_namespace("a").unwrap();
    let inside = ns.call_inside(own).unwrap();
    assert_ne!(inside, before);
    assert_eq!(inside.to_string_lossy(), format!("net:[{}]", ns.inode()));
    let panicked = std::panic::catch_unwind(|| ns.call_inside(|| panic!("on purpose")));
    assert!(panicked.is_err());
    assert_eq!(own(), before);
}

#[test]
fn a_refused_ip_or_sysctl_command_is_an_error() {
    let _machine = machine();
    let session = Session::new().unwrap();
    let ns = session.create_namespace("a").unwrap();
    ns.run_ip_batch(&["link add x type dummyless"]).expect_err("no such link type");
    assert!(ns.set_sysctl("net.ipv4.no_such_thing", "1").is_err());
}

/// Not a test of its own: the process that the tests below kill.
#[test]
#[expect(clippy::zombie_processes, reason = "this process is killed while they run")]
fn owner_process() {
    if std::env::var_os("WEIR_TEST_OWNER").is_none() {
        return;
    }
    let session = Session::new().unwrap();
    println!("\nrun {}", session.run_name());
    let fw = session.create_namespace("fw").unwrap();
    println!("namespace");
    let other = session.create_namespace("other").unwrap();
    session.create_veth_pair(&fw, "eth0", &other, "eth1", &VethOptions::default()).unwrap();
    let sleeper = fw.command("sh").args(["-c", "sleep 1000 & sleep 1000"]).spawn().unwrap();
    let outside = session.host_command("sleep").arg("1000").spawn().unwrap();
    session.adopt_process(&outside).unwrap();
    let key = "net.core.message_burst";
    session.set_global_sysctl(key, "11").unwrap();
    println!("ready {} {}", sleeper.id(), outside.id());
    let forever = Instant::now() + Duration::from_secs(1000);
    while Instant::now() < forever {
        std::thread::park_timeout(Duration::from_secs(1));
    }
}

/// Starts an owner, reads its lines until one begins with `until`, and returns what it said.
fn start_owner(until: &str) -> (std::process::Child, Vec<String>) {
    start_owner_by(Command::new(std::env::current_exe().unwrap()), until)
}

/// The same by a command that starts this program, with its first arguments.
fn start_owner_by(mut command: Command, until: &str) -> (std::process::Child, Vec<String>) {
    let mut child = command
        .args(["--exact", "owner_process", "--nocapture"])
        .env("WEIR_TEST_OWNER", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = Vec::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(Ok(line)) = reader.next() {
        let done = line.starts_with(until);
        lines.push(line);
        if done {
            break;
        }
    }
    (child, lines)
}

fn run_of(lines: &[String]) -> String {
    let line = lines.iter().find_map(|l| l.strip_prefix("run "));
    line.expect("the owner told its run").to_owned()
}

#[test]
fn the_next_session_removes_leftovers_after_kill_9() {
    let _machine = machine();
    let before = describe_live_network();
    let burst = output("sysctl", &["-n", "net.core.message_burst"]);
    let (mut owner, lines) = start_owner("ready");
    let run = run_of(&lines);
    let children: Vec<PidWithStartTime> = lines.last().unwrap()["ready ".len()..]
        .split(' ')
        .filter_map(|pid| PidWithStartTime::from_pid(pid.parse().unwrap()))
        .collect();
    assert_eq!(children.len(), 2);
    assert_eq!(names("/run/netns", &run).len(), 2);
    assert_eq!(output("sysctl", &["-n", "net.core.message_burst"]), "11\n");

    let removed = reaper::reap_dead_sessions().removed;
    assert!(
        !removed.iter().any(|r| r.contains(&run)),
        "a live session is not touched: {removed:?}"
    );
    assert_eq!(names("/run/netns", &run).len(), 2);

    owner.kill().unwrap();
    owner.wait().unwrap();
    let next = Session::new().unwrap();
    assert!(names("/run/netns", &run).is_empty());
    assert!(names("/run/weir/sessions", &run).is_empty());
    assert!(!children.iter().any(|c| c.is_alive()));
    assert_eq!(output("sysctl", &["-n", "net.core.message_burst"]), burst);
    assert_eq!(describe_live_network(), before);
    drop(next);
}

#[test]
fn a_killed_session_without_its_file_is_found_by_the_names_of_its_namespaces() {
    let _machine = machine();
    let (mut owner, lines) = start_owner("namespace");
    let run = run_of(&lines);
    owner.kill().unwrap();
    owner.wait().unwrap();
    fs::remove_file(format!("/run/weir/sessions/{run}.json")).unwrap();
    assert!(!names("/run/netns", &run).is_empty());
    reaper::reap_dead_sessions();
    assert!(names("/run/netns", &run).is_empty());
}

#[test]
fn twenty_kills_at_any_moment_leave_nothing() {
    let _machine = machine();
    let before = describe_live_network();
    let mut runs = Vec::new();
    for round in 0..20u64 {
        let (mut owner, lines) = start_owner("run ");
        runs.push(run_of(&lines));
        // The delay differs in each round, so that kills cover all steps of the owner.
        std::thread::park_timeout(Duration::from_millis(round * 6));
        owner.kill().unwrap();
        owner.wait().unwrap();
    }
    reaper::reap_dead_sessions();
    for run in runs {
        for directory in ["/run/netns", "/run/weir/sessions", "/sys/fs/bpf/weir"] {
            assert!(names(directory, &run).is_empty(), "{directory} {run}");
        }
    }
    assert_eq!(describe_live_network(), before);
}

#[test]
fn a_borrowed_device_is_restored_and_a_used_one_refused() {
    let _machine = machine();
    let world = Session::new().unwrap();
    let (home, peer) =
        (world.create_namespace("home").unwrap(), world.create_namespace("peer").unwrap());
    let gro = VethOptions { gro: true, ..VethOptions::default() };
    world.create_veth_pair(&home, "d0", &peer, "p0", &gro).unwrap();
    let seen = || {
        (
            home.read_device_mac_carrier_and_use("d0").unwrap(),
            home.ifindex("d0").unwrap(),
            home.has_gro("d0"),
        )
    };
    let (device, index, gro) = seen();
    // This thread represents a weir process started in the namespace.
    let _inside = home.enter_guarded().unwrap();
    let session = Session::new().unwrap();
    let (room, other) =
        (session.create_namespace("room").unwrap(), session.create_namespace("other").unwrap());
    session.borrow_device("d0", &room, "eth0").unwrap();
    assert!(home.read_device_mac_carrier_and_use("d0").is_err(), "it is not in two places");
    session.move_device_between_own_namespaces("eth0", &room, &other).unwrap();
    assert_eq!(other.read_device_mac_carrier_and_use("eth0").unwrap().mac, device.mac);
    other.set_gro("eth0", false).unwrap();
    drop(session);
    let back = seen();
    assert_eq!((&back.0, back.1, back.2.unwrap()), (&device, index, gro.unwrap()));

    home.run_ip_batch(&["addr add 192.0.2.1/24 dev d0"]).unwrap();
    let session = Session::new().unwrap();
    let room = session.create_namespace("room").unwrap();
    let said = session.borrow_device("d0", &room, "eth0").unwrap_err().to_string();
    assert!(said.contains("d0") && said.contains("192.0.2.1"), "{said}");
    assert!(home.read_device_mac_carrier_and_use("d0").is_ok());
}

/// Not a test of its own: reaps where the tests below start it, and prints the result of it.
#[test]
fn reaping_process() {
    if std::env::var_os("WEIR_TEST_REAPER").is_none() {
        return;
    }
    let reaper::ReapReport { removed, skipped: left } = reaper::reap_dead_sessions();
    for (what, lines) in [("removed", removed), ("left", left)] {
        lines.iter().for_each(|line| println!("\n{what} {line}"));
    }
}

/// This program in other namespaces, by the options of `unshare`.
fn in_other_namespaces(options: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(options).args(["--fork", "--kill-child"]);
    command.arg(std::env::current_exe().unwrap());
    command
}

/// What a reaper in other namespaces says of a run.
fn reaped_in(options: &[&str], run: &str) -> Vec<String> {
    let out = in_other_namespaces(options)
        .args(["--exact", "reaping_process", "--nocapture"])
        .env("WEIR_TEST_REAPER", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{options:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
    text.lines().filter(|line| line.contains(run)).map(str::to_owned).collect()
}

#[test]
fn a_reaper_skips_sessions_whose_owner_is_not_visible() {
    let _machine = machine();
    let (mut owner, lines) = start_owner("ready");
    let run = run_of(&lines);
    let places: [(&[&str], &str); 3] = [
        (&["--pid", "--mount-proc"], "which is not visible from here"),
        (&["--pid"], "/proc does not belong to this PID namespace"),
        (&["--time", "--boottime", "1000"], "is in another time namespace"),
    ];
    for (options, expected) in places {
        let said = reaped_in(options, &run);
        let [line] = said.as_slice() else { panic!("{options:?}: {said:?}") };
        assert!(line.starts_with("left session") && line.contains(expected), "{line}");
        assert_eq!(names("/run/netns", &run).len(), 2, "{options:?}");
    }
    assert!(owner.try_wait().unwrap().is_none(), "the owner lives");
    owner.kill().unwrap();
    owner.wait().unwrap();
    // From there, its state cannot be determined; from its own namespace, it can.
    assert_eq!(reaped_in(&["--pid", "--mount-proc"], &run).len(), 1);
    assert_eq!(names("/run/netns", &run).len(), 2);
    let reaped = reaper::reap_dead_sessions();
    assert!(reaped.removed.iter().any(|line| line.contains(&run)), "{reaped:?}");
    assert!(names("/run/netns", &run).is_empty());
}

#[test]
fn liveness_of_a_session_in_a_child_pid_namespace_is_detected() {
    let _machine = machine();
    let burst = output("sysctl", &["-n", "net.core.message_burst"]);
    let options = ["--pid", "--mount-proc"];
    let (mut owner, lines) = start_owner_by(in_other_namespaces(&options), "ready");
    let run = run_of(&lines);
    let reaped = reaper::reap_dead_sessions();
    let said = reaped.removed.iter().chain(&reaped.skipped).find(|line| line.contains(&run));
    assert_eq!(said, None, "it lives, and that is seen");
    assert_eq!(names("/run/netns", &run).len(), 2);
    owner.kill().unwrap();
    owner.wait().unwrap();
    // The owner dies with `unshare`, a moment later.
    let begun = Instant::now();
    while !names("/run/netns", &run).is_empty() && begun.elapsed() < Duration::from_secs(20) {
        reaper::reap_dead_sessions();
    }
    assert!(names("/run/netns", &run).is_empty());
    assert!(names("/run/weir/sessions", &run).is_empty());
    assert_eq!(output("sysctl", &["-n", "net.core.message_burst"]), burst);
}

#[test]
fn a_session_file_with_a_path_that_leads_elsewhere_is_not_used() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let _machine = machine();
    fs::create_dir_all("/run/weir/sessions").unwrap();
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("elsewhere");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("precious")).unwrap();
    fs::write(folder.join("file"), "old").unwrap();
    let own = PidWithStartTime::of_this_process();
    // A process with this id that started at another time: it is dead.
    let (pid, start) = (own.pid, own.start + 1);
    let namespace = fs::metadata("/proc/self/ns/pid").unwrap().ino();
    let run = format!("{pid:x}.{start:x}.{namespace:x}.ee");
    let path = std::path::PathBuf::from(format!("/run/weir/sessions/{run}.json"));
    let record = |pin: &str, sysctl: &str| {
        let record = serde_json::json!({
            "run": run, "owner": { "pid": pid, "start": start }, "pid_namespace": namespace,
            "namespaces": [], "pins": if pin.is_empty() { vec![] } else { vec![pin] },
            "children": [], "sysctls": [{ "path": sysctl, "value": "10" }],
        });
        record.to_string()
    };
    let plain = record("", "/proc/sys/net/core/message_burst");
    let burst = output("sysctl", &["-n", "net.core.message_burst"]);
    fs::write(&path, plain.replace("\"10\"", &format!("{:?}", burst.trim()))).unwrap();
    let reaped = reaper::reap_dead_sessions();
    let sysctl = "sysctl /proc/sys/net/core/message_burst".to_owned();
    assert!(reaped.removed.contains(&sysctl), "what weir writes is used: {reaped:?}");
    assert!(!path.exists());

    let target = folder.strip_prefix("/").unwrap().display();
    let texts = [
        record(&format!("/sys/fs/bpf/../../../{target}/precious"), "/proc/sys/net/core/x"),
        record("", &format!("/proc/sys/../../{target}/file")),
    ];
    for text in texts {
        fs::write(&path, &text).unwrap();
        let reaped = reaper::reap_dead_sessions();
        let left = reaped.skipped.iter().find(|line| line.contains(&run));
        let left = left.unwrap_or_else(|| panic!("{text}: {reaped:?}"));
        assert!(left.contains("is not a plain path below") && left.contains("remove the file"));
        assert!(folder.join("precious").exists(), "{text}");
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "old", "{text}");
        assert!(path.exists(), "it is left for manual inspection");
    }
    fs::remove_file(&path).unwrap();
    fs::write(folder.join("linked"), &plain).unwrap();
    symlink(folder.join("linked"), &path).unwrap();
    let reaped = reaper::reap_dead_sessions();
    let left = reaped.skipped.iter().find(|line| line.contains(&run));
    assert!(left.is_some_and(|line| line.contains("not a regular file")), "{reaped:?}");
    fs::remove_file(&path).unwrap();
}
