//! Policies of the examples: they hold, each mistake in a ruleset fails the test that is about it,
//! and no packet contradicts what was decided for all.

use std::fs;
use std::path::Path;

use weir_model::{Family, Field, FieldReading, Firewall, Packet};
use weir_packet::Transport;
use weir_review::policy_check::{
    PolicyCheckLimits, PolicyReport, PolicyTestReport, PolicyTestResult, check_policy,
};
use weir_semantics::{
    AlwaysFalseOracle, Interpreter, JourneyKind, RuleAnswersTrueOracle, SeededOracle, Verdict,
};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::policy::{
    ExpectedVerdict, FirewallPolicy, PolicyTest, PolicyTestPackets, parse_policy,
};
use weir_syntax::{ipset, packet};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

const LIMITS: PolicyCheckLimits =
    PolicyCheckLimits { memory_bytes: 1 << 30, steps_max: 100_000_000 };

fn example(name: &str) -> String {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn firewall(rules: &str, sets: &str) -> Firewall {
    let sets = ipset::parse(sets).expect("sets");
    let settings = ParserSettings { known_sets: Some(&sets), ..ParserSettings::default() };
    let ruleset = match parse(rules, &settings) {
        Ok(ruleset) => ruleset,
        Err(errors) => {
            panic!("{}", weir_syntax::render_diagnostics(&errors, "rules", rules, false))
        }
    };
    let (v4, v6) = match ruleset.family {
        Family::V4 => (Some(ruleset), None),
        Family::V6 => (None, Some(ruleset)),
    };
    Firewall { v4, v6, sets }
}

fn policy(text: &str) -> FirewallPolicy {
    match parse_policy(text) {
        Ok(policy) => policy,
        Err(errors) => {
            panic!("{}", weir_syntax::render_diagnostics(&errors, "policy", text, false))
        }
    }
}

fn check(policy: &FirewallPolicy, firewall: &Firewall) -> PolicyReport {
    check_policy(policy, firewall, LIMITS, &mut |_, _| {})
}

/// One test against some rules of FORWARD in the filter table, with a policy of DROP.
fn check_forward(test: &str, rules: &str) -> PolicyTestReport {
    let text = format!(
        "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n{rules}COMMIT\n"
    );
    let mut report = check(&policy(&format!("{test}\n")), &firewall(&text, ""));
    assert_eq!(report.tests.len(), 1);
    report.tests.remove(0)
}

/// The files of an example: policy, rules, sets.
const EXAMPLES: [(&str, &str, &str); 3] = [
    ("office.policy", "office.rules", ""),
    ("host6.policy", "host6.rules6", ""),
    ("blocklist.policy", "blocklist.rules", "blocklist.ipset"),
];

fn load(example_files: (&str, &str, &str)) -> (FirewallPolicy, String, String) {
    let (policy_file, rules, sets) = example_files;
    let sets = if sets.is_empty() { String::new() } else { example(sets) };
    (policy(&example(policy_file)), example(rules), sets)
}

#[test]
fn the_policies_of_the_examples_hold() {
    for files in EXAMPLES {
        let (policy, rules, sets) = load(files);
        let report = check(&policy, &firewall(&rules, &sets));
        assert_eq!(report.holding_tests, policy.tests.len(), "{}", report.render_text(files.0));
        assert!(policy.tests.len() >= 5);
    }
}

/// Example, a line of its rules or sets, what replaces it, the test that must fail.
const MISTAKES: [(usize, &str, &str, &str); 16] = [
    (
        0,
        "-d 192.168.20.5/32 -p tcp -m multiport --dports 80,443",
        "-d 192.168.20.5/32 -p tcp -m multiport --dports 80",
        "the web server is reachable by its public address",
    ),
    (0, "--to-destination 192.168.20.6", "--to-destination 192.168.20.7", "mail is delivered"),
    (
        0,
        "-A FORWARD -i wan0 -o dmz0 -j from_outside\n",
        "-A FORWARD -i wan0 -j from_outside\n-A FORWARD -i wan0 -s 198.51.100.9/32 -j ACCEPT\n",
        "nothing else is forwarded",
    ),
    (
        0,
        "-A INPUT -i lo -j ACCEPT\n",
        "-A INPUT -i lo -j ACCEPT\n-A INPUT -s 203.0.113.98/32 -p tcp -m tcp --dport 22 -j ACCEPT\n",
        "no ssh, neither to the router nor through it",
    ),
    (0, "-A block -s 198.51.100.67/32 -j DROP\n", "", "known attackers open no connection"),
    (0, "--dport 51820", "--dport 51821", "the tunnel is open"),
    (0, "--icmp-type 8 -m limit", "--icmp-type 0 -m limit", "ping is answered"),
    (
        0,
        "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n",
        "-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n",
        "replies come back",
    ),
    (0, "-j REJECT --reject-with icmp-admin-prohibited", "-j DROP", "mail goes through our server"),
    (
        0,
        "--dports 22,80,443,993",
        "--dports 22,80,443,993,8080",
        "other ports of servers are closed",
    ),
    (0, "-A staff -s 192.168.10.9/32", "-A staff -s 192.168.10.8/30", "and from no other"),
    (1, "--icmpv6-type 2 ", "--icmpv6-type 3 ", "path MTU discovery"),
    (1, "-A INPUT -p tcp -j REJECT --reject-with tcp-reset\n", "", "other services refuse at once"),
    (
        1,
        "--icmpv6-type 135 -m hl --hl-eq 255",
        "--icmpv6-type 135 -m hl --hl-gt 253",
        "forged neighbours",
    ),
    (
        2,
        "add blocked 198.51.100.64/29\n",
        "add blocked 198.51.100.64/30\n",
        "blocked addresses reach nothing, not even with an old connection",
    ),
    (2, "--dports 80,443", "--dports 80,443,8443", "no other service is open"),
];

#[test]
fn each_mistake_in_a_ruleset_fails_the_test_about_it_with_a_packet() {
    for (example_number, line, replacement, name) in MISTAKES {
        let (policy, rules, sets) = load(EXAMPLES[example_number]);
        let changed = |text: &str| text.replacen(line, replacement, 1);
        assert!(rules.contains(line) || sets.contains(line), "{line}");
        let (rules, sets) = (changed(&rules), changed(&sets));
        let firewall = firewall(&rules, &sets);
        let report = check(&policy, &firewall);
        let test = report.tests.iter().find(|test| test.name == name).expect(name);
        assert_eq!(test.result, PolicyTestResult::Fails, "{name}:\n{}", report.render_text("p"));
        let failing = test.paths.iter().find(|p| p.result == PolicyTestResult::Fails);
        let shown = failing.and_then(|path| path.packet.as_ref()).expect("a packet");
        let words = packet::parse_packet(&shown.packet).expect("words of a packet");
        assert_eq!(packet::print_packet(&words), shown.packet);
        assert!(shown.trace_text.contains("verdict: "), "{}", shown.trace_text);
    }
}

#[test]
fn one_wrong_packet_among_all_is_found() {
    let all_but_one = "-A FORWARD -s 10.0.0.0/8 ! -d 192.0.2.77/32 -i lan0 -p tcp -m tcp --dport 1:65535 -j ACCEPT\n\
         -A FORWARD -s 10.0.0.0/8 -i lan0 -p tcp -m tcp ! --sport 4711 -j ACCEPT\n\
         -A FORWARD -s 10.0.0.0/9 -i lan0 -p tcp -m tcp -j ACCEPT\n\
         -A FORWARD -s 10.128.0.0/9 -i lan0 -p tcp -m tcp ! --dport 443 -j ACCEPT\n";
    let without = "-A FORWARD ! -s 10.200.7.8/32 -i lan0 -p tcp -j ACCEPT\n";
    let test = "accept all via forward iif lan0 ip saddr 10.0.0.0/8 tcp";
    // Positive control.
    let closed = format!("{all_but_one}{without}-A FORWARD -i lan0 -p tcp -j ACCEPT\n");
    assert_eq!(check_forward(test, &closed).result, PolicyTestResult::Holds);
    let report = check_forward(test, &format!("{all_but_one}{without}"));
    assert_eq!(report.result, PolicyTestResult::Fails);
    let shown = report.paths[0].packet.as_ref().expect("a packet");
    for words in ["ip saddr 10.200.7.8", "ip daddr 192.0.2.77", "tcp sport 4711", "tcp dport 443"] {
        assert!(shown.packet.contains(words), "{}", shown.packet);
    }
    assert!(report.paths[0].failing_share.expect("a share") < 1e-12);
}

#[test]
fn tests_that_depend_on_state_are_undecided_naming_it() {
    let limited = "-A FORWARD -i lan0 -m limit --limit 5/sec -j ACCEPT\n";
    for kind in ["all iif lan0", "packet iif lan0 ip saddr 10.0.0.1 ip daddr 10.1.0.1 udp dport 5"]
    {
        let (kind, words) = kind.split_once(' ').expect("two parts");
        for verdict in ["accept", "drop"] {
            let report = check_forward(&format!("{verdict} {kind} via forward {words}"), limited);
            assert_eq!(report.result, PolicyTestResult::Undecided, "{verdict} {kind}");
            let why = report.paths[0].why.as_deref().expect("a reason");
            assert!(why.contains("limit"), "{why}");
        }
        for (assumption, verdict, other) in
            [("matches", "accept", "drop"), ("does not match", "drop", "accept")]
        {
            let test =
                |verdict| format!("{verdict} {kind} via forward {words} if limit {assumption}");
            assert_eq!(check_forward(&test(verdict), limited).result, PolicyTestResult::Holds);
            assert_eq!(check_forward(&test(other), limited).result, PolicyTestResult::Fails);
        }
        // Both results lead to the same verdict.
        let both = format!("{limited}-A FORWARD -i lan0 -j ACCEPT\n");
        let test = format!("accept {kind} via forward {words}");
        assert_eq!(check_forward(&test, &both).result, PolicyTestResult::Holds);
    }
    let opaque = "-A FORWARD -i lan0 -j NFQUEUE\n";
    let report = check_forward("handed-over all via forward iif lan0", opaque);
    assert_eq!(report.result, PolicyTestResult::Undecided, "the program may return the packet");
}

#[test]
fn matches_and_targets_that_may_drop_are_named_unless_they_are_assumed_not_to() {
    let clamp = "-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu\n\
                 -A FORWARD -i lan0 -j ACCEPT\n";
    let hashlimit = "-A FORWARD -p tcp -m hashlimit --hashlimit-above 9/sec --hashlimit-mode srcip \
                     --hashlimit-name a -j LOG\n-A FORWARD -i lan0 -j ACCEPT\n";
    for (name, rules) in [("TCPMSS", clamp), ("hashlimit", hashlimit)] {
        for kind in [
            "all via forward iif lan0 tcp",
            "packet via forward iif lan0 ip saddr 10.0.0.1 ip daddr 10.1.0.1 tcp sport 9 tcp dport 5",
        ] {
            let report = check_forward(&format!("accept {kind}"), rules);
            assert_eq!(report.result, PolicyTestResult::Undecided, "{name} {kind}");
            let why = report.paths[0].why.as_deref().expect("a reason");
            assert!(why.contains(name) && why.contains("drops the packet"), "{why}");
            assert!(!why.contains("matches"), "{why}");
            // What is dropped by the match itself has a header that is whole.
            let shown = report.paths[0].packet.as_ref().expect("a packet");
            assert!(!shown.trace_text.contains("truncated"), "{}", shown.trace_text);
            let assumed = format!("accept {kind} if {name} does not drop");
            let report = check_forward(&assumed, rules);
            assert_eq!(report.result, PolicyTestResult::Holds, "{assumed}");
        }
    }
}

#[test]
fn tcp_flags_of_failing_packets_are_listed_once_each() {
    let rules = "-A FORWARD -p tcp -m tcp --tcp-flags ALL RST,ACK -j ACCEPT\n";
    let test = "accept all via forward tcp flags rst,ack ct state any";
    let report = check_forward(test, rules);
    assert_eq!(report.result, PolicyTestResult::Fails);
    let packets = report.paths[0].failing_regions.join("\n");
    for flags in ["rst,psh,ack", "rst,ack,urg", "rst,psh,ack,urg"] {
        let listed = packets.split(['{', '}', ' ']).filter(|w| w.trim_end_matches(',') == flags);
        assert_eq!(listed.count(), 1, "{packets}");
    }
    let exact = "accept all via forward tcp flags rst,ack / fin,syn,rst,psh,ack,urg ct state any";
    assert_eq!(check_forward(exact, rules).result, PolicyTestResult::Holds);
}

#[test]
fn a_test_that_does_not_apply_to_the_ruleset_is_invalid() {
    for (test, message) in [
        ("drop all icmp th dport 5", "no packet is in the region"),
        ("drop all ip ttl 0-1 ip saddr 192.0.2.1 length 3", "no packet is in the region"),
        ("drop all ip6 saddr 2001:db8::1", "the ruleset has no IPv6 rules"),
        ("drop packet iif a ip6 saddr 2001:db8::1", "the ruleset has no IPv6 rules"),
        ("drop packet iif lan0 oif wan0 udp", "the packet has no saddr"),
        ("drop all if quota matches", "no rule has -m quota"),
        ("drop all if TCPMSS does not drop", "no rule has -m TCPMSS or -j TCPMSS"),
    ] {
        let report = check_forward(test, "-A FORWARD -s 192.0.2.1/32 -j ACCEPT\n");
        assert_eq!(report.result, PolicyTestResult::Invalid, "{test}");
        let reason = report.invalid.expect("a reason");
        assert!(reason.message.contains(message), "{test}: {}", reason.message);
        assert!(!reason.cure.is_empty());
    }
}

#[test]
fn a_region_without_a_path_is_decided_on_every_path_of_its_devices() {
    for (words, paths) in [
        ("", &["forward", "input", "output"][..]),
        ("iif lan0", &["forward", "input"]),
        ("oif lan0", &["forward", "output"]),
        ("iif lan0 oif wan0", &["forward"]),
        ("via input iif lan0", &["input"]),
    ] {
        let (via, rest) = match words.strip_prefix("via input") {
            Some(rest) => ("via input", rest),
            None => ("", words),
        };
        let report = check_forward(&format!("drop all {via} {rest}"), "");
        let decided: Vec<&str> = report.paths.iter().map(|path| path.path).collect();
        assert_eq!(decided, paths, "{words}");
    }
}

#[test]
fn translated_destinations_are_what_later_tables_see() {
    let rules = "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        :POSTROUTING ACCEPT [0:0]\n\
        -A PREROUTING -i wan0 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.1:8080\n\
        COMMIT\n*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        -A FORWARD -d 10.0.0.1/32 -p tcp -m tcp --dport 8080 -j ACCEPT\nCOMMIT\n";
    let firewall = firewall(rules, "");
    let report = check(
        &policy(
            "accept all iif wan0 oif lan0 tcp dport 80\ndrop all iif wan0 oif lan0 tcp dport 81\n",
        ),
        &firewall,
    );
    assert_eq!(report.holding_tests, 2, "{}", report.render_text("p"));
    let report = check(&policy("drop all iif wan0 oif lan0 tcp dport 80\n"), &firewall);
    assert_eq!(report.failing_tests, 1);
}

/// The verdicts of packets on the boundaries of all rules never contradict a decision for all.
#[test]
fn no_packet_contradicts_a_decision_about_its_region() {
    for files in EXAMPLES {
        let (policy, rules, sets) = load(files);
        let opened =
            rules.replace(":FORWARD DROP", ":FORWARD ACCEPT").replace("--dport 22", "--dport 23");
        for rules in [rules, opened] {
            let firewall = firewall(&rules, &sets);
            let report = check(&policy, &firewall);
            let mut compared = 0;
            for (test, decided) in policy.tests.iter().zip(&report.tests) {
                compared += compare_packets_of_region(test, decided, &firewall);
            }
            assert!(compared > 200, "{}: {compared}", files.0);
        }
    }
}

/// Sends packets of a test's region through the interpreter; how many.
fn compare_packets_of_region(
    test: &PolicyTest,
    decided: &PolicyTestReport,
    firewall: &Firewall,
) -> usize {
    let PolicyTestPackets::Region { region, .. } = &test.subject else { return 0 };
    let interpreter = Interpreter::new(firewall);
    let mut compared = 0;
    for path in &decided.paths {
        let journey = match path.path {
            "forward" => JourneyKind::Forward,
            "input" => JourneyKind::Input,
            _ => JourneyKind::Output,
        };
        let ruleset = firewall.rulesets().next().expect("rules");
        let options = TrafficOptions {
            seed: 7,
            max_packets: 4_000,
            journey_kind: journey,
            ..TrafficOptions::default()
        };
        for packet in generate_boundary_and_random_packets(ruleset, &firewall.sets, &options) {
            if !region.contains(&packet) || !is_whole_and_forwardable(&packet) {
                continue;
            }
            compared += 1;
            let verdicts = [
                interpreter.evaluate_journey(&packet, journey, &mut AlwaysFalseOracle).verdict,
                interpreter.evaluate_journey(&packet, journey, &mut RuleAnswersTrueOracle).verdict,
                interpreter
                    .evaluate_journey(&packet, journey, &mut QuietOracle(SeededOracle(3)))
                    .verdict,
            ];
            let expected = verdicts.map(|verdict| is_expected(&test.expected, verdict));
            let assumes = !test.assumed_results.is_empty();
            if path.result == PolicyTestResult::Holds && !assumes {
                let words = packet::print_packet(&packet);
                assert_eq!(expected, [true; 3], "{}: {words}: {verdicts:?}", test.words);
            }
        }
    }
    compared
}

/// Seeded results of matches; what the host knows of connections is that of a first packet.
struct QuietOracle(SeededOracle);

impl weir_semantics::Oracle for QuietOracle {
    fn match_holds_or_target_ends_traversal(
        &mut self,
        question: &weir_semantics::OracleQuestion<'_>,
    ) -> bool {
        self.0.match_holds_or_target_ends_traversal(question)
    }
}

fn is_whole_and_forwardable(packet: &Packet) -> bool {
    let whole = packet.fragment.offset == 0
        && !packet.fragment.more_fragments
        && packet.transport != Transport::Truncated;
    whole && matches!(Field::Ttl.read(packet), FieldReading::Value(ttl) if ttl >= 2)
}

fn is_expected(expected: &ExpectedVerdict, verdict: Verdict) -> bool {
    match expected {
        ExpectedVerdict::Accept => verdict == Verdict::Accept,
        ExpectedVerdict::Drop => verdict == Verdict::Drop,
        ExpectedVerdict::Deny => matches!(verdict, Verdict::Drop | Verdict::Reject(_)),
        ExpectedVerdict::Reject(Some(with)) => verdict == Verdict::Reject(with),
        ExpectedVerdict::Reject(None) => matches!(verdict, Verdict::Reject(_)),
        ExpectedVerdict::HandedOver => matches!(verdict, Verdict::Divert(_)),
    }
}
