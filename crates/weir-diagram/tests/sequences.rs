//! Rules after stateful and opaque tests are compared as sequences, not multiplied out.

use weir_diagram::{CompareOptions, Comparison, StatefulTestPairing, compare_firewalls};
use weir_model::Firewall;
use weir_syntax::iptables::{ParserSettings, parse};

fn firewall(text: &str) -> Firewall {
    let ruleset = parse(text, &ParserSettings::default()).expect("it can be read");
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

fn forward(rules: &[String]) -> Firewall {
    let rules: String = rules.iter().map(|rule| format!("{rule}\n")).collect();
    firewall(&format!("*filter\n:FORWARD ACCEPT [0:0]\n:list - [0:0]\n{rules}COMMIT\n"))
}

fn compared(a: &[String], b: &[String]) -> Comparison {
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        steps_max: 20_000_000,
        ..CompareOptions::default()
    };
    compare_firewalls(&forward(a), &forward(b), &options).expect("both load")
}

/// Not equal, and a packet shows it.
fn differs(a: &[String], b: &[String]) -> bool {
    compared(a, b).differences().next().is_some()
}

fn log(number: usize) -> String {
    format!("-A FORWARD -m limit --limit 5/min -j LOG --log-prefix \"n{number} \"")
}

fn mark(number: usize, tests: &str) -> String {
    format!("-A FORWARD {tests} -j MARK --set-xmark {number:#x}/0xffffffff")
}

fn rules(count: usize, rule: impl Fn(usize) -> String) -> Vec<String> {
    (0..count).map(rule).collect()
}

fn most_steps(comparison: &Comparison) -> u64 {
    comparison.parts.iter().map(|part| part.statistics.steps).max().unwrap_or(0)
}

#[test]
fn steps_for_limited_log_rules_grow_almost_linearly() {
    let steps = |count| {
        // The last rule does what the policy does, so that the lists are equal but not identical.
        let mut other = rules(count, log);
        other.push("-A FORWARD -j ACCEPT".to_owned());
        let comparison = compared(&rules(count, log), &other);
        assert!(comparison.is_equal(), "{count} rules");
        most_steps(&comparison)
    };
    let (few, many) = (steps(100), steps(400));
    assert!(many < few * 6, "{few} and {many} steps");
}

#[test]
fn marks_after_stateful_tests_are_proven_equal() {
    let tests = |i: usize| {
        let every = 2 + i;
        format!("-m limit --limit 5/min -m statistic --mode nth --every {every} --packet 0")
    };
    let one = rules(60, |i| mark(i + 1, &tests(i)));
    assert!(compared(&one, &one).is_equal());
}

#[test]
fn a_wrong_mark_after_a_stateful_test_is_found() {
    let one = rules(12, |i| mark(i + 1, &format!("-m limit --limit {}/min", i + 5)));
    assert!(compared(&one, &one).is_equal());
    for wrong in [
        mark(0x77, "-m limit --limit 10/min"),
        mark(6, "-m limit --limit 50/min"),
        mark(6, "-s 10.0.0.0/8 -m limit --limit 10/min"),
    ] {
        let mut other = one.clone();
        other[5] = wrong;
        assert!(differs(&one, &other), "{}", other[5]);
    }
    let mut swapped = one.clone();
    swapped.swap(10, 11);
    assert!(differs(&one, &swapped), "the last mark wins, the tests have an order");
}

#[test]
fn marks_after_opaque_tests_are_proven_equal() {
    let tests = |i: usize| format!("-m u32 --u32 0x0=0x{i:x} -m u32 --u32 0x4=0x{i:x}");
    let one = rules(64, |i| mark(i + 1, &tests(i)));
    assert!(compared(&one, &one).is_equal());
}

#[test]
fn events_of_disjoint_packets_commute_and_others_do_not() {
    let on = |address: usize, i: usize| {
        format!("-A FORWARD -s 10.{address}.0.0/16 -m limit --limit 5/min -j LOG --log-prefix n{i}")
    };
    let one = rules(12, |i| on(i, i));
    let mut other = one.clone();
    other.reverse();
    assert!(compared(&one, &other).is_equal(), "each packet has the same events");
    // Two rules for the same packets.
    let (mut one, mut other) = (one, other);
    one.extend([on(3, 100), on(3, 101)]);
    other.extend([on(3, 100), on(3, 101)]);
    assert!(compared(&one, &other).is_equal());
    other.swap(12, 13);
    assert!(differs(&one, &other));
}

#[test]
fn a_test_that_follows_a_limited_mark_sees_it() {
    let mut one = rules(12, log);
    one.push(mark(1, "-m limit --limit 5/min"));
    one.push("-A FORWARD -m mark --mark 0x1 -j DROP".to_owned());
    assert!(compared(&one, &one).is_equal());
    // The mark is set too late.
    let mut late = one.clone();
    late.swap(12, 13);
    assert!(differs(&one, &late));
}

#[test]
fn return_and_goto_leave_chains_with_stateful_tests_correctly() {
    let with = |jump: &str, end: &str| {
        let mut all = rules(12, log);
        all.push(format!("-A FORWARD -p udp {jump} list"));
        all.push("-A FORWARD -s 10.0.0.0/8 -j DROP".to_owned());
        all.push("-A list -m limit --limit 9/min -j LOG --log-prefix x".to_owned());
        all.push(format!("-A list -d 11.0.0.0/8 {end}"));
        all.push("-A list -m limit --limit 7/min -j LOG --log-prefix y".to_owned());
        all
    };
    assert!(compared(&with("-j", "-j RETURN"), &with("-j", "-j RETURN")).is_equal());
    assert!(compared(&with("-g", "-j RETURN"), &with("-g", "-j RETURN")).is_equal());
    // After a goto, a return does not lead to the drop.
    assert!(differs(&with("-j", "-j RETURN"), &with("-g", "-j RETURN")));
    assert!(differs(&with("-j", "-j RETURN"), &with("-j", "-j ACCEPT")));
}
