//! `weir boot`: what is in force after the machine was started again.
//!
//! A boot is simulated: the kernel's ruleset is emptied, and the identity of the boot in the state
//! is replaced. weir runs as process 1 of a PID namespace, so that the network namespace is the host's
//! own for it.

use std::fs;

use weir_testkit::skip_without_root;

use crate::filtering_host::{ALWAYS_DROPPED_PORT, FilteringHost, WEIR, rules_dropping_udp_ports};

/// The identity of a boot before this one.
const OTHER_BOOT: &str = "00000000-0000-4000-8000-000000000000";

/// Runs weir as the first process: its status, and what it printed.
fn run_as_first_process(host: &FilteringHost, words: &[&str], path: Option<&str>) -> (i32, String) {
    let mut command = host.command("/usr/bin/unshare");
    command.args(["--pid", "--fork", "--mount-proc", WEIR]).args(words);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let output = command.output().expect("unshare runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().expect("a status"), String::from_utf8(said).expect("UTF-8"))
}

fn succeed_as_first_process(host: &FilteringHost, words: &[&str]) -> String {
    let (status, said) = run_as_first_process(host, words, None);
    assert_eq!(status, 0, "{words:?}: {said}");
    said
}

/// Applies rules that drop datagrams to some ports, as the first process.
fn apply_dropping(host: &FilteringHost, ports: &[u16], form: &str, options: &[&str]) -> String {
    let name = format!("{}.rules", ports.last().expect("a port"));
    let file = host.write(&name, &rules_dropping_udp_ports(ports));
    let words = [&["apply", &file, "--to", form, "--packets", "50"], options].concat();
    succeed_as_first_process(host, &words)
}

/// Empties the kernel's ruleset, and gives all files of the state another boot.
fn simulate_boot(host: &FilteringHost) {
    for policy in ["INPUT", "FORWARD", "OUTPUT"] {
        host.tool(&["iptables-legacy", "-P", policy, "ACCEPT"], "");
    }
    host.tool(&["iptables-legacy", "-F"], "");
    host.tool(&["iptables-legacy", "-X"], "");
    host.tool(&["nft", "flush", "ruleset"], "");
    host.tool(&["ipset", "destroy"], "");
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT), "nothing is in force");
    let own = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the boot");
    let folder = host.path("state/generations/host");
    for name in ["current.json", "journal.json"] {
        let Ok(text) = fs::read_to_string(folder.join(name)) else { continue };
        let other = text.replace(own.trim(), OTHER_BOOT);
        assert!(other.contains(OTHER_BOOT), "{name}: {text}");
        fs::write(folder.join(name), other).expect("the state is written");
    }
}

#[test]
fn the_ruleset_of_before_the_boot_is_in_force_again_in_every_form() {
    if skip_without_root() {
        return;
    }
    for form in ["linear", "tree", "ipset", "nft"] {
        let host = FilteringHost::new(&format!("boot-{form}"));
        apply_dropping(&host, &[ALWAYS_DROPPED_PORT], form, &[]);
        let said = succeed_as_first_process(&host, &["boot"]);
        assert!(
            said.contains("generation 1 is in force since the boot: nothing changed"),
            "{said}"
        );
        simulate_boot(&host);
        let said = succeed_as_first_process(&host, &["boot"]);
        assert!(
            said.contains("generation 3 is in force, with the ruleset of generation 1"),
            "{said}"
        );
        assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "{form}");
        let said = succeed_as_first_process(&host, &["boot"]);
        assert!(said.contains("nothing changed"), "{form}: {said}");
        let counters = succeed_as_first_process(&host, &["counters", "--format", "csv"]);
        assert!(counters.contains("\"iptables/filter/INPUT/1\",1,"), "{form}: {counters}");
    }
}

#[test]
fn a_generation_that_was_not_confirmed_before_the_boot_is_not_restored() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("boot-pending");
    apply_dropping(&host, &[ALWAYS_DROPPED_PORT], "tree", &[]);
    apply_dropping(&host, &[ALWAYS_DROPPED_PORT, 5001], "tree", &["--confirm", "1h"]);
    assert!(!host.is_delivered(5001), "it is in force");
    simulate_boot(&host);
    let said = succeed_as_first_process(&host, &["boot"]);
    assert!(
        said.contains("generation 2 was not confirmed before the machine was rebooted"),
        "{said}"
    );
    assert!(said.contains("with the ruleset of generation 1"), "{said}");
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT) && host.is_delivered(5001));
}

#[test]
fn a_boot_that_failed_is_made_good_by_the_next_one() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("boot-again");
    apply_dropping(&host, &[ALWAYS_DROPPED_PORT], "nft", &[]);
    simulate_boot(&host);
    let (status, said) = run_as_first_process(&host, &["boot"], Some("/nonexistent"));
    assert_eq!(status, 2, "no nft: {said}");
    assert!(said.contains("nft is not installed"), "{said}");
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
    let metrics = succeed_as_first_process(&host, &["counters", "--format", "prometheus"]);
    assert!(metrics.contains("\nweir_ruleset_applied 0\n"), "{metrics}");
    // The machine is rebooted again before anybody notices.
    simulate_boot(&host);
    succeed_as_first_process(&host, &["boot"]);
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
    let metrics = succeed_as_first_process(&host, &["counters", "--format", "prometheus"]);
    assert!(metrics.contains("\nweir_ruleset_applied 1\n"), "{metrics}");
}

#[test]
fn a_generation_that_was_left_and_restored_is_the_one_of_the_next_boot() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("boot-forward");
    for port in [5001, 5002] {
        apply_dropping(&host, &[ALWAYS_DROPPED_PORT, port], "tree", &[]);
    }
    succeed_as_first_process(&host, &["rollback"]);
    succeed_as_first_process(&host, &["rollback", "2"]);
    let history = succeed_as_first_process(&host, &["history"]);
    let line = history.lines().find(|line| line.starts_with("*   2 ")).expect("it is in force");
    assert!(line.contains("applied") && !line.contains("rolled back"), "{history}");
    simulate_boot(&host);
    let said = succeed_as_first_process(&host, &["boot"]);
    assert!(said.contains("with the ruleset of generation 2"), "{said}");
    assert!(!host.is_delivered(5002) && host.is_delivered(5001));
    succeed_as_first_process(&host, &["rollback"]);
    assert!(!host.is_delivered(5001), "a rollback leads to the generation before");
    assert!(host.is_delivered(5002));
}

#[test]
fn a_confirmation_that_was_killed_before_its_end_counts_at_boot() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("boot-confirmed");
    apply_dropping(&host, &[ALWAYS_DROPPED_PORT], "tree", &["--confirm", "1h"]);
    let journal = host.path("state/generations/host/journal.json");
    let text = fs::read_to_string(&journal).expect("the journal");
    succeed_as_first_process(&host, &["confirm", "--console"]);
    fs::write(&journal, text).expect("the journal is there as before its removal");
    simulate_boot(&host);
    succeed_as_first_process(&host, &["boot"]);
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
    let history = succeed_as_first_process(&host, &["history"]);
    assert!(history.contains("confirmed") && !history.contains("rolled back"), "{history}");
}

#[test]
fn changes_and_sets_of_other_programs_do_not_prevent_the_restoration() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("boot-foreign");
    host.tool(&["ipset", "create", "blocked", "hash:ip"], "");
    host.tool(&["ipset", "add", "blocked", "192.0.2.1"], "");
    let rule = "-A INPUT -m set --match-set blocked src -j DROP\n-A INPUT -s 10.1.1";
    let rules = rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]);
    let file = host.write("a.rules", &rules.replacen("-A INPUT -s 10.1.1", rule, 1));
    succeed_as_first_process(&host, &["apply", &file, "--to", "linear", "--packets", "50"]);
    host.tool(&["iptables-legacy", "-I", "INPUT", "-s", "192.0.2.9", "-j", "DROP"], "");
    let second = host.write("b.rules", &rules_dropping_udp_ports(&[5001]));
    let words = ["apply", &second, "--to", "tree", "--packets", "50", "--force", "--confirm", "1h"];
    succeed_as_first_process(&host, &words);
    simulate_boot(&host);
    let said = succeed_as_first_process(&host, &["boot"]);
    assert!(said.contains("with the ruleset of generation 1"), "{said}");
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT) && host.is_delivered(5001));
    assert!(host.tool(&["ipset", "save", "blocked"], "").contains("add blocked 192.0.2.1"));
}

#[test]
fn a_missing_record_of_the_generation_to_restore_is_an_error() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("boot-missing");
    apply_dropping(&host, &[ALWAYS_DROPPED_PORT], "tree", &[]);
    simulate_boot(&host);
    fs::remove_file(host.path("state/generations/host/boot.json")).expect("it is there");
    let (status, said) = run_as_first_process(&host, &["boot"], None);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("boot.json is missing"), "{said}");
}

#[test]
fn what_was_rolled_back_to_before_weir_stays_so_after_a_boot() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("boot-none");
    let said = succeed_as_first_process(&host, &["boot"]);
    assert!(said.contains("no ruleset of weir was in force before the boot"), "{said}");
    apply_dropping(&host, &[ALWAYS_DROPPED_PORT], "tree", &[]);
    succeed_as_first_process(&host, &["rollback", "0"]);
    simulate_boot(&host);
    succeed_as_first_process(&host, &["boot"]);
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
}

#[test]
fn files_of_a_generation_that_were_changed_are_not_loaded_at_boot() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("boot-changed");
    apply_dropping(&host, &[ALWAYS_DROPPED_PORT], "tree", &[]);
    simulate_boot(&host);
    let copy = host.path("state/generations/host/1/source/iptables");
    let text = fs::read_to_string(&copy).expect("the copy of the file");
    fs::write(&copy, format!("# edited\n{text}")).expect("it is written");
    let (status, said) = run_as_first_process(&host, &["boot"], None);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("source/iptables was changed after generation 1 was applied"), "{said}");
}

#[test]
fn the_units_of_systemd_start_commands_of_the_packaged_program() {
    let folder = weir_testkit::testdata::repository_root().join("packaging");
    for (unit, command) in [("weir.service", "boot"), ("weir-metrics.service", "serve")] {
        let text = fs::read_to_string(folder.join(unit)).expect("the unit");
        let starts =
            text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
        assert!(starts.starts_with(&format!("/usr/bin/weir {command}")), "{unit}: {starts}");
    }
}
