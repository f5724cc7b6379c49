//! Commands that are killed at random points: in each unit exactly the old or the new ruleset is in
//! force, packets that both drop are dropped, and the next command ends the change.

use std::io::Read as _;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use weir_random::Rng;
use weir_testkit::skip_without_root;

use crate::filtering_host::{
    ALWAYS_DROPPED_PORT, FilteringHost, WEIR, add_rule_without_nft_form, rules_dropping_udp_ports,
    wait_until,
};

const KILLS: u32 = 120;
/// Forms, and whether the ruleset has a rule that only legacy iptables evaluates.
const FORMS: [(&str, bool); 5] =
    [("linear", false), ("tree", false), ("ipset", false), ("nft", false), ("nft", true)];

/// Runs weir, waits for its end, and kills it if that does not come in time; whether it was killed.
fn run_and_kill(host: &FilteringHost, words: &[&str], limit: Duration) -> bool {
    let mut command = host.command(WEIR);
    let command = command.args(words).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let mut output = child.stdout.take().expect("it is a pipe");
    let (ended, end) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut text = Vec::new();
            let _ = output.read_to_end(&mut text);
            ended.send(())
        });
        if end.recv_timeout(limit).is_err() {
            child.kill().expect("it is a child");
        }
        !child.wait().expect("it is a child").success()
    })
}

/// What datagrams show of the ruleset in force: whether those to two ports are dropped.
fn dropped_ports(host: &FilteringHost) -> [bool; 2] {
    [5001, 5002].map(|port| !host.is_delivered(port))
}

#[test]
fn a_killed_command_leaves_the_old_or_the_new_ruleset_and_the_next_one_ends_it() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("kills");
    host.load_legacy(&rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    let compile = |name: &str, port: u16, (form, is_partial): (&str, bool)| {
        let rules = rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, port]);
        let (suffix, rules) = match is_partial {
            true => ("-partial", add_rule_without_nft_form(&rules)),
            false => ("", rules),
        };
        host.compile(&format!("{name}{suffix}"), &rules, form)
    };
    let folders: Vec<[String; 2]> =
        FORMS.iter().map(|form| [compile("a", 5001, *form), compile("b", 5002, *form)]).collect();
    let mut random = Rng::new(1);
    let mut below = |limit: usize| random.below(limit);
    let (mut killed, mut kept_old, mut kept_new) = (0, 0, 0);
    let mut longest = Duration::from_millis(300);
    host.run_weir(&["apply", "--artefact", &folders[0][0]]);
    let mut round = 0;
    while killed < KILLS {
        round += 1;
        assert!(round < KILLS * 4, "{killed} of {round} commands were killed");
        let first = &folders[below(FORMS.len())][0];
        let second = &folders[below(FORMS.len())][1];
        host.run_weir(&["apply", "--artefact", first, "--wait", "60"]);
        let old = host.generation_in_force();
        let is_rollback = below(3) == 0;
        let (words, expected): (Vec<&str>, _) = if is_rollback {
            host.run_weir(&["apply", "--artefact", second, "--wait", "60"]);
            (vec!["rollback", "--wait", "60"], [[false, true], [true, false]])
        } else {
            (vec!["apply", "--artefact", second, "--wait", "60"], [[true, false], [false, true]])
        };
        let before = host.saved_rulesets();
        let after = longest.mul_f64(below(1000) as f64 / 1000.0);
        let begin = Instant::now();
        if !run_and_kill(&host, &words, after) {
            longest = longest.min(begin.elapsed() * 2).max(Duration::from_millis(50));
            continue;
        }
        killed += 1;
        longest = longest.max(after.mul_f64(1.2)).min(Duration::from_secs(3));
        assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "{words:?} killed after {after:?}");
        assert_ne!(dropped_ports(&host), [false, false], "no ruleset is in force");
        let mut said = String::new();
        if killed % 2 == 0 {
            wait_until("the end of the change", || {
                host.weir_json(&["history", "--json"])["unfinished"].is_null()
            });
        } else {
            // A tool that weir started, or the supervisor, may hold the lock.
            said = host.run_refused_weir(&["confirm", "--console", "--wait", "60"]);
            assert!(said.contains("no generation waits for its confirmation"), "{said}");
        }
        let dropped = dropped_ports(&host);
        assert!(expected.contains(&dropped), "{words:?} killed after {after:?}: {said}");
        let is_new = dropped == expected[1];
        *(if is_new { &mut kept_new } else { &mut kept_old }) += 1;
        if !is_new {
            assert_eq!(host.saved_rulesets(), before, "{words:?} killed after {after:?}: {said}");
        } else if is_rollback {
            assert_eq!(host.generation_in_force(), old);
        }
        let listing = host.weir_json(&["history", "--json"]);
        assert!(listing["unfinished"].is_null() && listing["pending"].is_null(), "{listing}");
    }
    assert!(kept_old > 5 && kept_new > 0, "{kept_old} old, {kept_new} new of {killed} killed");
    host.run_weir(&["rollback", "0", "--wait", "60"]);
    assert_eq!(dropped_ports(&host), [false, false]);
}
