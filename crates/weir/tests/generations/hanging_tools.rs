//! Tools that hang, kill weir or change the ruleset themselves in the middle of an apply.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use weir_testkit::skip_without_root;

use crate::filtering_host::{
    ALWAYS_DROPPED_PORT, FilteringHost, WEIR, rules_dropping_udp_ports, wait_until,
};

/// A command of weir whose `nft` is a script, with `$REAL` for nft itself. The script is run once:
/// after that, `nft` is nft.
fn weir_with_nft_script(host: &FilteringHost, script: &str) -> Command {
    let folder = host.path("tools");
    fs::create_dir(&folder).expect("a folder");
    let text = format!(
        "#!/bin/sh\nREAL=/usr/sbin/nft\n\
         if [ \"$*\" = '-f -' ] && mkdir {done} 2>/dev/null; then\n{script}\nfi\n\
         exec $REAL \"$@\"\n",
        done = host.path("done").display()
    );
    let file = folder.join("nft");
    fs::write(&file, text).expect("it is written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its mode is set");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("one"));
    let mut command = host.command(WEIR);
    command.env("PATH", path);
    command
}

/// A command of weir whose `nft` fails as long as a file is there, if it is to add a table with
/// this text. Returns the file, and one that has a line for each failure.
fn weir_with_failing_nft(host: &FilteringHost, text: &str) -> (Command, [String; 2]) {
    let folder = host.path("failing-tools");
    fs::create_dir(&folder).expect("a folder");
    let (broken, tries) = (host.write("broken", ""), host.path("tries"));
    // A file for each process: the supervisor ends tools at any time, and starts others.
    let script = format!(
        "#!/bin/sh\nREAL=/usr/sbin/nft\n[ \"$*\" = '-f -' ] || exec $REAL \"$@\"\n\
         transaction={folder}/$$\ncat > $transaction\n\
         if [ -e {broken} ] && grep -q {text} $transaction; then echo x >> {tries}; exit 1; fi\n\
         exec $REAL -f $transaction\n",
        folder = folder.display(),
        tries = tries.display(),
    );
    let file = folder.join("nft");
    fs::write(&file, script).expect("it is written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its mode is set");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("one"));
    let mut command = host.command(WEIR);
    command.env("PATH", path);
    (command, [broken, tries.display().to_string()])
}

#[test]
fn a_change_that_hangs_is_undone_at_the_deadline() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("hanging");
    let first = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "nft");
    let second =
        host.compile("b", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]), "linear");
    host.run_weir(&["apply", "--artefact", &first]);
    let before = host.nft_listing();
    let mut command = weir_with_nft_script(&host, "sleep 9999");
    let command = command.args(["apply", "--artefact", &second, "--confirm", "5s"]);
    let mut apply = command.stdout(Stdio::null()).spawn().expect("weir runs");
    wait_until("the first step", || !host.is_delivered(5001));
    assert!(host.nft_listing().contains("weir_filter"), "both are in force");
    wait_until("the way back", || host.is_delivered(5001));
    assert!(!apply.wait().expect("a child").success());
    wait_until("the record", || {
        let listing = host.weir_json(&["history", "--json"]);
        listing["unfinished"].is_null() && listing["in_force"] == 1
    });
    assert_eq!(host.nft_listing(), before);
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "by the ruleset of before");
    let history = host.run_weir(&["history"]);
    assert!(history.contains("rolled back: its apply was interrupted"), "{history}");
}

#[test]
fn a_crash_and_a_rule_of_others_lead_back_with_the_rule() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("crash-and-rule");
    let first = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "linear");
    let second = host.compile("b", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]), "nft");
    host.run_weir(&["apply", "--artefact", &first]);
    let rule = "$REAL \"$@\"\niptables-legacy -I INPUT 1 -p udp --dport 5003 -j DROP\n\
                kill -9 $PPID\nexit 0";
    let mut command = weir_with_nft_script(&host, rule);
    let output = command.args(["apply", "--artefact", &second]).output().expect("weir runs");
    assert!(!output.status.success(), "it is killed");
    wait_until("the way back", || host.is_delivered(5001));
    wait_until("the record", || host.weir_json(&["history", "--json"])["unfinished"].is_null());
    assert_eq!(host.nft_listing(), "");
    assert!(!host.is_delivered(5003), "the rule of others stays");
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "and the ruleset of before");
    assert_eq!(host.generation_in_force(), 3, "what is in force is a generation");
    let history = host.run_weir(&["history"]);
    assert!(
        history.contains("saved because another program had changed generation 1"),
        "{history}"
    );
    let said = host.run_refused_weir(&["rollback", "--force"]);
    assert!(said.contains("generation 2 was already rolled back"), "{said}");
    host.run_weir(&["rollback", "1"]);
    assert!(host.is_delivered(5003) && !host.is_delivered(ALWAYS_DROPPED_PORT));
    host.run_weir(&["rollback", "3"]);
    assert!(!host.is_delivered(5003));
}

#[test]
fn a_rollback_that_fails_again_and_again_saves_what_others_changed_once() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("failing-rollback");
    let first = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "nft");
    let second =
        host.compile("b", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]), "linear");
    host.run_weir(&["apply", "--artefact", &first]);
    let (mut command, [broken, tries]) = weir_with_failing_nft(&host, "INPUT-saddr1");
    let command = command.args(["apply", "--artefact", &second, "--confirm", "10s"]);
    assert!(command.status().expect("weir runs").success());
    let rule = "iptables-legacy -I INPUT 1 -p udp --dport 5003 -j DROP";
    host.tool(&rule.split(' ').collect::<Vec<_>>(), "");
    let count_tries = || fs::read_to_string(&tries).unwrap_or_default().lines().count();
    let before = count_tries();
    wait_until("three attempts", || count_tries() >= before + 3);
    let listing = host.weir_json(&["history", "--json"]);
    let generations = listing["generations"].as_array().expect("a list");
    assert_eq!(generations.len(), 4, "0, 1, 2, and what others changed: {listing}");
    fs::remove_file(&broken).expect("it is removed");
    wait_until("the rollback", || host.generation_in_force() == 1);
    assert!(host.is_delivered(5001) && host.is_delivered(5003));
    let history = host.run_weir(&["history"]);
    assert!(
        history.contains("saved because another program had changed generation 2"),
        "{history}"
    );
}
