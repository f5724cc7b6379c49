//! The output of `weir explain`.

use weir_model::{Family, Firewall, Rule};
use weir_review::explain::{render_trace, trace_to_rows};
use weir_semantics::trace::{Trace, trace_journey};
use weir_semantics::{AlwaysFalseOracle, Interpreter, JourneyKind};
use weir_syntax::iptables::{ParserSettings, parse, print_rule};
use weir_syntax::packet::parse_packet;

const OFFICE: &str = "*filter
:FORWARD DROP [0:0]
:web - [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -i wan0 -j DROP
-A FORWARD -s 198.51.100.0/24 -p tcp -j web
-A FORWARD -p udp -m multiport --dports 53,123 -j ACCEPT
-A web -p tcp -m multiport --dports 80,443 -j ACCEPT
-A web -p tcp -m tcp --dport 22 -j RETURN
-A web -j DROP
COMMIT
";

fn firewall(text: &str) -> Firewall {
    let ruleset = parse(text, &ParserSettings::default()).expect("a good ruleset");
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

fn follow<T>(text: &str, words: &str, look: impl Fn(&Trace<'_>) -> T) -> T {
    let firewall = firewall(text);
    let interpreter = Interpreter::new(&firewall);
    let packet = parse_packet(words).expect("a good packet");
    look(&trace_journey(&interpreter, &packet, JourneyKind::Forward, &mut AlwaysFalseOracle))
}

fn drawn(text: &str, words: &str) -> String {
    follow(text, words, |t| render_trace(t, &|r: &Rule| print_rule(r, Family::V4)))
}

fn reasons(text: &str, words: &str) -> Vec<String> {
    follow(text, words, |t| trace_to_rows(t).into_iter().map(|r| r.reason).collect())
}

#[test]
fn a_journey_is_printed_rule_by_rule() {
    let text = drawn(OFFICE, "iif eth0 ip saddr 198.51.100.7 tcp dport 22 ct state new");
    let expected = "\
FORWARD filter
  - 1  -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
        ct state new is not in related,established
  - 2  -i wan0 -j DROP                                    iif is eth0, not wan0
  + 3  -s 198.51.100.0/24 -p tcp -j web                   matched
  web
    - 1  -p tcp -m multiport --dports 80,443 -j ACCEPT    dport 22 is not in 80,443
    + 2  -p tcp -m tcp --dport 22 -j RETURN               matched
  - 4  -p udp -m multiport --dports 53,123 -j ACCEPT      proto is tcp, not udp
  => filter: drop (policy of FORWARD)
verdict: drop, 6 rules evaluated
";
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn each_kind_of_failed_test_is_explained() {
    let text = "*filter
-A FORWARD ! -s 198.51.100.0/24
-A FORWARD -d 192.0.2.1/32
-A FORWARD -s 10.0.1.0/255.0.255.0
-A FORWARD -o eth+
-A FORWARD -p tcp -m tcp ! --dport 22
-A FORWARD -p tcp -m tcp --tcp-flags SYN,ACK ACK
-A FORWARD -m mac --mac-source 02:00:00:00:00:99
-A FORWARD -m limit --limit 3/sec
-A FORWARD -p tcp -m multiport --ports 1,2
-A FORWARD -m mark --mark 0x1/0xf
COMMIT
";
    let words = "iif eth0 oif wan0 ip saddr 198.51.100.7 tcp sport 9 tcp dport 22 ct state new";
    let expected = [
        "saddr 198.51.100.7 is in 198.51.100.0/24",
        "daddr 203.0.113.9 is not in 192.0.2.1",
        "saddr 198.51.100.7 is not in 10.0.1.0/255.0.255.0",
        "oif is wan0, not eth+",
        "dport is 22",
        "tcp flags syn is not in ack of syn,ack",
        "smac is 02:00:00:00:00:01, not 02:00:00:00:00:99",
        "limit is assumed not to match",
        "neither sport 9 nor dport 22 is in 1,2",
        "mark 0x0 is not in 0x1/0xf",
        "policy",
    ];
    assert_eq!(reasons(text, words), expected);
}

#[test]
fn missing_packet_fields_are_explained() {
    let text = "*filter
-A FORWARD -p udp -m udp --dport 53
-A FORWARD -p udp -m udp ! --dport 53
-A FORWARD -m mac ! --mac-source 02:00:00:00:00:99
-A FORWARD -p tcp -m tcp --dport 53
COMMIT
";
    assert_eq!(
        reasons(text, "udp fragment offset 185"),
        [
            "a later fragment has no ports",
            "a later fragment has no ports",
            "there is no Ethernet header",
            "proto is udp, not tcp",
            "policy",
        ]
    );
    assert_eq!(reasons(text, "tcp fragment offset 1").last().map(String::as_str), Some(""));
    assert!(
        drawn(text, "tcp truncated 8").contains("dropped by the match: the header is truncated")
    );
}

#[test]
fn long_runs_of_unmatched_rules_are_abbreviated() {
    let mut text = "*filter\n".to_owned();
    for i in 1..=100 {
        text.push_str(&format!("-A FORWARD -s 192.0.2.{i}/32 -j DROP\n"));
    }
    text.push_str("COMMIT\n");
    let out = drawn(&text, "ip saddr 198.51.100.7 udp dport 1");
    assert!(out.contains("  … 96 more evaluated\n"), "{out}");
    assert!(out.contains("  - 100  "), "{out}");
    assert!(out.lines().count() < 12, "{out}");
    assert!(out.ends_with("verdict: accept, 100 rules evaluated\n"), "{out}");
    // Nothing is omitted from the structure.
    assert_eq!(reasons(&text, "ip saddr 198.51.100.7 udp dport 1").len(), 101);
}
