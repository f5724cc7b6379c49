//! The next start removes all leftovers of a killed run, and the user's own network is never
//! touched.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use weir_testkit::live_network::describe_live_network;
use weir_testkit::{TempFolder, skip_test, skip_without_root, testdata};

/// One test looks at limits that the other one raises.
static ALONE: Mutex<()> = Mutex::new(());

fn output(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().expect(program);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn a_killed_lab_is_cleaned_up_by_the_next_start() {
    if skip_without_root() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let weir = env!("CARGO_BIN_EXE_weir");
    let before = describe_live_network();
    let out = std::env::temp_dir().join(format!("weir-killed-{}", std::process::id()));
    let study = testdata::repository_root().join("studies/kadlecsik2005-rules");
    // Any start removes leftovers, also one that fails.
    let nothing: &[&str] = &["lab", "run", "no-such-study", "-o", "no-such-run"];
    for (namespaces, start) in [(1, &["reap"][..]), (3, nothing), (5, &["reap"])] {
        let _ = std::fs::remove_dir_all(&out);
        let mut child = Command::new(weir)
            .args(["lab", "run"])
            .arg(&study)
            .arg("-o")
            .arg(&out)
            .args(["--preset", "smoke"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("weir runs");
        let own = format!("weir-{:x}.", child.id());
        let limit = Instant::now() + Duration::from_secs(60);
        while output("ip", &["netns"]).matches(&own).count() < namespaces {
            assert!(Instant::now() < limit, "no {namespaces} namespaces {own}*");
        }
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert!(output("ip", &["netns"]).contains(&own), "a killed run leaves its namespaces");
        output(weir, start);
        assert!(!output("ip", &["netns"]).contains(&own), "{}", output("ip", &["netns"]));
        assert_eq!(describe_live_network(), before, "killed with {namespaces} namespaces");
    }
    let _ = std::fs::remove_dir_all(&out);
}

#[test]
fn an_interrupted_verify_ends_and_removes_everything_whatever_it_waits_for() {
    if skip_without_root() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let weir = env!("CARGO_BIN_EXE_weir");
    let folder = TempFolder::new("verify-interrupted");
    let rules = folder.write_file(
        "a.rules",
        "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -m limit --limit 1/sec -j DROP\nCOMMIT\n",
    );
    let form = folder.path().join("form");
    let mut compile = Command::new(weir);
    compile.arg("compile").arg(&rules).args(["--to", "linear", "-o"]);
    assert!(compile.arg(&form).output().expect("weir runs").status.success());
    // The process that weir started, and one that this process started.
    let sleep = format!("sleep 1000.{}", std::process::id());
    let hanging = format!("{sleep} &\necho > \"$0.started\"\nexec {sleep}\n");
    for (script, packets) in [(Some(&hanging), "100"), (None, "1000000")] {
        if let Some(script) = script {
            std::fs::rename(form.join("load.sh"), form.join("load.sh.kept")).expect("rename");
            std::fs::write(form.join("load.sh"), script).expect("write");
        }
        let child = Command::new(weir)
            .arg("verify")
            .args([&rules, &form])
            .args(["--packets", packets])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("weir runs");
        let own = format!("weir-{:x}.", child.id());
        let is_far_enough = || match script {
            Some(_) => form.join("load.sh.started").exists(),
            // Packets pass the firewall of the form.
            None => output("ip", &["netns"]).matches(&own).count() > 3,
        };
        let limit = Instant::now() + Duration::from_secs(120);
        while !is_far_enough() {
            assert!(Instant::now() < limit, "{script:?}: {}", output("ip", &["netns"]));
        }
        output("kill", &["-INT", &child.id().to_string()]);
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || send.send(child.wait_with_output()));
        // Far less than what it waits for.
        let ended = receive.recv_timeout(Duration::from_secs(120));
        let ended = ended.unwrap_or_else(|_| panic!("{script:?}: it goes on")).expect("wait");
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), &*errors), (Some(2), "weir: interrupted\n"), "{script:?}");
        assert!(!output("ip", &["netns"]).contains(&own), "{script:?}: namespaces are removed");
        let sessions = output("ls", &["/run/weir/sessions"]);
        assert!(!sessions.contains(&own["weir-".len()..]), "{script:?}: {sessions}");
        assert!(!output("ps", &["-eo", "args"]).contains(&sleep), "{script:?}");
        if script.is_some() {
            std::fs::rename(form.join("load.sh.kept"), form.join("load.sh")).expect("rename");
        }
    }
}

/// The limits of connection tracking, which are one for the whole machine: entries and buckets.
fn limits() -> [u64; 2] {
    ["nf_conntrack_max", "nf_conntrack_buckets"].map(|name| {
        let path = format!("/proc/sys/net/netfilter/{name}");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    })
}

/// A study that holds this many connections that both limits are too low.
fn study_above(limits: [u64; 2], folder: &Path) {
    let held = limits[0].max(limits[1] * 2) + 2;
    let study = format!(
        "title = \"t\"\nquestion = \"q\"\nsubjects = [\"none\"]\n\
         [ruleset]\naxes = []\ncommand = ': > \"$RULESET\"'\n\
         [traffic]\nkind = \"concurrent\"\nconnections = {held}\n\
         [presets.smoke]\nlabel = \"l\"\ntrial_seconds = 1\nblocks = 1\nloads = 0\n"
    );
    let subjects = "[none]\ntitle = \"none\"\nabout = \"none\"\nload = 'true'\n";
    std::fs::create_dir_all(folder).expect("make a folder");
    std::fs::write(folder.join("study.toml"), study).expect("write");
    std::fs::write(folder.join("subjects.toml"), subjects).expect("write");
}

#[test]
fn limits_raised_by_a_killed_lab_are_restored_at_next_start() {
    if skip_without_root() {
        return;
    }
    let before = limits();
    if before.contains(&0) {
        return skip_test("needs connection tracking");
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let weir = env!("CARGO_BIN_EXE_weir");
    let folder = std::env::temp_dir().join(format!("weir-limits-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    study_above(before, &folder.join("study"));
    let run = |name: &str, more: &[&str]| {
        let mut command = Command::new(weir);
        command.args(["lab", "run", "--preset", "smoke"]);
        command.arg(folder.join("study")).arg("-o").arg(folder.join(name)).args(more);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let refused = run("unasked", &[]).status().expect("weir runs");
    assert_eq!((refused.code(), limits()), (Some(2), before), "nothing is raised unasked");

    let mut child = run("asked", &["--allow-global"]).spawn().expect("weir runs");
    let limit = Instant::now() + Duration::from_secs(60);
    while limits().iter().zip(before).any(|(now, before)| *now <= before) {
        assert!(Instant::now() < limit, "both limits are raised: {:?}", limits());
    }
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(limits() > before, "a killed run leaves its limits");
    output(weir, &["reap"]);
    assert_eq!(limits(), before);
    let _ = std::fs::remove_dir_all(&folder);
}
