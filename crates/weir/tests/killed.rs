//! A killed run leaves nothing behind that the next start does not remove, and the user's own
//! network is never touched.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weir_testkit::{data, lacking};

fn output(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().expect(program);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// What a run must never change in the user's own namespace.
fn live() -> Vec<String> {
    vec![
        output("ip", &["-o", "link"]),
        output("ip", &["route", "show", "table", "all"]),
        output("ip", &["rule"]),
        output("iptables-legacy-save", &[]),
        output("ip6tables-legacy-save", &[]),
        output("ipset", &["save"]),
        output("nft", &["list", "ruleset"]),
        output("sysctl", &["-a", "--pattern", "net.ipv4.*forward|rp_filter|nf_conntrack_max"]),
    ]
}

#[test]
fn a_killed_lab_is_cleaned_up_by_the_next_start() {
    if !rustix::process::geteuid().is_root() {
        return lacking("needs root: it makes network namespaces");
    }
    let weir = env!("CARGO_BIN_EXE_weir");
    let before = live();
    let out = std::env::temp_dir().join(format!("weir-killed-{}", std::process::id()));
    let study = data::root().join("studies/kadlecsik2005-rules");
    // Any start will do, also one that comes to nothing.
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
        assert_eq!(live(), before, "killed with {namespaces} namespaces");
    }
    let _ = std::fs::remove_dir_all(&out);
}
