//! What other programs and users do meanwhile neither stops the way back nor is lost by it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use weir_testkit::skip_without_root;

use crate::filtering_host::{
    ALWAYS_DROPPED_PORT, FilteringHost, WEIR, rules_dropping_udp_ports, wait_until,
};

#[test]
fn a_set_that_others_use_is_left_and_the_deadline_is_met() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("used-set");
    let rules = rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT])
        .replace("COMMIT", "-A INPUT -m set --match-set own src -j DROP\nCOMMIT");
    let file = host.write("a.rules", &rules);
    let sets = host.write("own.ipset", "create own hash:ip family inet\n");
    let words =
        ["apply", &file, "--ipset", &sets, "--to", "tree", "--packets", "50", "--confirm", "5s"];
    host.run_weir(&words);
    let rule = "iptables-legacy -t mangle -A PREROUTING -m set --match-set own src -j DROP";
    host.tool(&rule.split(' ').collect::<Vec<_>>(), "");
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "the new ruleset is in force");
    wait_until("the rollback", || host.generation_in_force() == 0);
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
    assert_eq!(host.tool(&["ipset", "list", "-n"], ""), "own\n", "it is in use");
}

#[test]
fn a_lock_that_any_user_can_hold_does_not_stop_the_deadline() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("user-lock");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    host.run_weir(&["apply", "--artefact", &folder, "--confirm", "6s"]);
    let script = "exec 9</proc/self/ns/net; flock 9; echo locked; cat";
    let mut user = host.command("setpriv");
    user.args(["--reuid=65534", "--clear-groups", "sh", "-c", script]);
    user.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut user = user.spawn().expect("setpriv runs");
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "the new ruleset is in force");
    wait_until("the lock", || {
        let said = host.weir(&["rollback", "0", "--wait", "0"]);
        said.2.contains("another process that holds a lock on /proc/self/ns/net")
            || said.0 == Some(0)
    });
    wait_until("the rollback", || host.is_delivered(ALWAYS_DROPPED_PORT));
    user.kill().expect("it is a child");
    user.wait().expect("it is a child");
}

#[test]
fn a_rollback_after_one_that_weir_made_itself_does_not_go_further_back() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("twice");
    let first = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    let second = host.compile("b", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]), "tree");
    host.run_weir(&["apply", "--artefact", &first]);
    host.run_weir(&["apply", "--artefact", &second, "--confirm", "5s"]);
    wait_until("the rollback", || host.generation_in_force() == 1);
    let said = host.run_refused_weir(&["rollback", "--wait", "60"]);
    assert!(said.contains("generation 2 was already rolled back"), "{said}");
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "generation 1 is in force");
    host.run_weir(&["rollback", "0"]);
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
}

#[test]
fn a_rule_that_another_program_adds_during_an_apply_stops_it_and_stays() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("race");
    let first = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "linear");
    let second = host.compile("b", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "nft");
    host.run_weir(&["apply", "--artefact", &first]);
    let racer = host.write(
        "nft",
        "#!/bin/sh\ncase \"$*\" in '-f -') iptables-legacy -I INPUT 1 -p udp --dport 5003 -j DROP;; \
         esac\nexec /usr/sbin/nft \"$@\"\n",
    );
    fs::set_permissions(&racer, fs::Permissions::from_mode(0o755)).expect("its mode is set");
    let path = format!("{}:{}", host.folder.path().display(), std::env::var("PATH").expect("one"));
    let mut command = host.command(WEIR);
    let output = command.args(["apply", "--artefact", &second]).env("PATH", path).output();
    let output = output.expect("weir runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("was changed by another program in the meantime"), "{said}");
    assert!(!host.is_delivered(5003), "the rule of the other program is in force");
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
    assert_eq!(host.nft_listing(), "", "and what was changed was undone");
}

#[test]
fn what_could_not_be_restored_is_refused() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("restorable");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    let comment = "x\n-A INPUT -j DROP";
    let broken = ["iptables-legacy", "-A", "INPUT", "-m", "comment", "--comment", comment];
    host.tool(&broken, "");
    let said = host.run_refused_weir(&["apply", "--artefact", &folder]);
    assert!(said.contains("a rule with a line break"), "{said}");
    host.tool(&["iptables-legacy", "-F"], "");
    host.run_weir(&["apply", "--artefact", &folder]);
    host.run_weir(&["apply", "--artefact", &folder]);
    let generations = fs::read_dir(host.path("state/generations")).expect("a folder");
    let namespace = generations.flatten().next().expect("a namespace").path();
    fs::write(namespace.join("1/ruleset/iptables-filter"), "").expect("it is cut");
    let said = host.run_refused_weir(&["rollback", "1"]);
    assert!(said.contains("was changed since it was saved"), "{said}");
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "generation 2 is in force");
    // The name of a spare set is reserved for weir.
    host.tool(&["ipset", "create", "own~", "hash:ip"], "");
    host.run_weir(&["rollback", "0"]);
    assert_eq!(host.tool(&["ipset", "list", "-n"], ""), "own~\n");
}

#[test]
fn the_lock_of_iptables_that_another_program_holds_is_named_with_the_cure() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("iptables-lock");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    let lock = host.write("xtables", "");
    let mut holder = host.command("flock");
    holder.args([&lock, "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut holder = holder.spawn().expect("flock runs");
    let is_held = || {
        let status = host.command("flock").args(["-n", &lock, "true"]).status();
        !status.expect("flock runs").success()
    };
    wait_until("the lock", is_held);
    let said = host.run_refused_weir(&["apply", "--artefact", &folder]);
    assert!(said.contains("another program has held the lock of iptables"), "{said}");
    assert!(said.contains("wait until it exits"), "{said}");
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
    drop(holder.stdin.take());
    holder.wait().expect("it is a child");
    host.run_weir(&["apply", "--artefact", &folder]);
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
}

#[test]
fn the_generation_in_force_can_be_restored_after_another_program_changed_it() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("restore-current");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    host.run_weir(&["apply", "--artefact", &folder]);
    let said = host.run_refused_weir(&["rollback", "1"]);
    assert!(said.contains("generation 1 is already in force"), "{said}");
    let rule = "iptables-legacy -I INPUT 1 -p udp --dport 5003 -j DROP";
    host.tool(&rule.split(' ').collect::<Vec<_>>(), "");
    let said = host.run_refused_weir(&["rollback", "1"]);
    assert!(said.contains("was changed by another program"), "{said}");
    assert!(!host.is_delivered(5003), "nothing was changed");
    let said = host.run_weir(&["rollback", "1", "--force"]);
    assert!(said.contains("generation 1 is in force and replaces generation 2"), "{said}");
    assert!(host.is_delivered(5003), "the rule of the other program is gone");
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
    // What the other program had made is a generation.
    host.run_weir(&["rollback", "2"]);
    assert!(!host.is_delivered(5003));
}
