//! `weir test` as a program: exit statuses, both families, formats, errors with their places.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use weir_testkit::TempFolder;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const RULES: &str = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    -A INPUT -i lan0 -p tcp -m tcp --dport 22 -j ACCEPT\n\
    -A INPUT -i lan0 -m limit --limit 5/sec -j ACCEPT\nCOMMIT\n";
const RULES_V6: &str = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    -A INPUT -i lan0 -p tcp -m tcp --dport 22 -j ACCEPT\n\
    -A INPUT -i lan0 -s 2001:db8::/32 -p tcp -m tcp --dport 23 -j ACCEPT\nCOMMIT\n";

const HOLDS: &str = "\"ssh\" accept all via input iif lan0 tcp dport 22\n";
const FAILS: &str = "\"a < b # c\" drop all via input iif lan0 tcp dport 22-23\n";
const UNDECIDED: &str = "\"open\" drop all via input iif lan0 ip ttl 64 udp\n";
const INVALID: &str = "\"nothing\" drop all icmp th dport 22\n";

fn test(policy: &str, words: &[&str]) -> Output {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = TempFolder::new(&format!("policy-test-{number}"));
    let policy = folder.write_file("a.policy", policy);
    let rules = folder.write_file("a.rules", RULES);
    let rules_v6 = folder.write_file("a.rules6", RULES_V6);
    let paths: [&Path; 2] = [&policy, &rules];
    let mut command = Command::new(WEIR);
    command.arg("test").args(paths).arg("--ip6").arg(&rules_v6).args(words);
    command.output().expect("weir runs")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_exit_status_says_whether_all_tests_hold() {
    for (tests, status) in [
        (&[HOLDS][..], 0),
        (&[HOLDS, FAILS], 1),
        (&[HOLDS, UNDECIDED], 2),
        (&[FAILS, UNDECIDED], 1),
        (&[HOLDS, INVALID], 2),
        (&[FAILS, INVALID], 2),
        (&["drop everything\n"], 2),
    ] {
        for format in ["text", "json", "junit", "tap"] {
            let output = test(&tests.concat(), &["--format", format]);
            assert_eq!(output.status.code(), Some(status), "{tests:?} {}", printed(&output));
        }
    }
}

#[test]
fn sets_that_are_not_given_are_named_with_the_option() {
    let folder = TempFolder::new("policy-test-sets");
    let policy = folder.write_file("a.policy", HOLDS);
    let rule = "-A INPUT -m set --match-set blocked src -j DROP\n-A INPUT -i lan0";
    let rules = folder.write_file("a.rules", &RULES.replacen("-A INPUT -i lan0", rule, 1));
    let sets = folder.write_file("a.ipset", "create blocked hash:ip family inet\n");
    let run = |words: &[&Path]| {
        let mut command = Command::new(WEIR);
        let output = command.arg("test").args([&policy, &rules]).args(words).output();
        let output = output.expect("weir runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, errors) = run(&[]);
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("(blocked)") && errors.contains("--ipset FILE"), "{errors}");
    assert_eq!(run(&[Path::new("--ipset"), &sets]).0, Some(0), "an empty set matches nothing");
}

#[test]
fn both_families_are_decided_and_the_family_that_fails_is_named() {
    let output = test("drop all via input iif lan0 tcp dport 23 ip ttl any\n", &["--json"]);
    assert_eq!(output.status.code(), Some(2), "ip is a word of IPv4, where a limit decides");
    let output = test("\"telnet\" drop all via input iif lan0 tcp dport 23\n", &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["command"], &report["version"]), (&"test".into(), &1.into()));
    let test = &report["tests"][0];
    assert_eq!((&test["name"], &test["result"]), (&"telnet".into(), &"fails".into()));
    let paths: Vec<_> = test["paths"].as_array().expect("paths").iter().collect();
    let results: Vec<_> =
        paths.iter().map(|path| (path["family"].as_str(), path["result"].as_str())).collect();
    assert_eq!(
        results,
        [(Some("ipv4"), Some("undecided")), (Some("ipv6"), Some("fails"))],
        "{report:#}"
    );
    let packet = paths[1]["packet"]["packet"].as_str().expect("a packet");
    assert!(packet.contains("ip6 saddr 2001:db8:"), "{packet}");
    assert!(paths[1]["failing_share"].as_f64().is_some_and(|share| share > 0.0 && share < 1e-6));
    assert!(!paths[1]["packet"]["steps"].as_array().expect("steps").is_empty());
}

#[test]
fn junit_counts_and_escapes_what_it_reports() {
    let policy = format!("{HOLDS}group \"g\"\n{FAILS}{UNDECIDED}");
    let xml = printed(&test(&policy, &["--format", "junit"]));
    for part in [
        "<testsuites name=\"weir test\" tests=\"3\" failures=\"1\" errors=\"1\">",
        "<testsuite name=\"g\" tests=\"2\" failures=\"1\" errors=\"1\">",
        "name=\"a &lt; b # c\"",
        "<failure message=\"FAILS: expected drop\">",
        "verdict: accept",
    ] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
    assert_eq!(xml.matches("<testcase ").count(), 3);
    assert_eq!(xml.matches("</testcase>").count(), 2, "a test that holds is an empty element");
}

#[test]
fn tap_output_numbers_tests_and_escapes_directives_in_names() {
    let text = printed(&test(&format!("{HOLDS}{FAILS}"), &["--format", "tap"]));
    assert!(
        text.starts_with("TAP version 13\n1..2\nok 1 - ssh\nnot ok 2 - a < b \\# c\n"),
        "{text}"
    );
    assert!(text.lines().skip(4).all(|line| line.starts_with('#')), "{text}");
}

#[test]
fn a_region_without_packets_is_an_error_with_its_span() {
    let output = test(&format!("{HOLDS}{INVALID}"), &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("no packet is in the region"), "{errors}");
    assert!(errors.contains("a.policy:2:11") && errors.contains("^^^^"), "{errors}");
    assert!(errors.contains("help: "), "{errors}");
}
