//! Policies: what is read of their words, and the errors of those that are wrong.

use weir_model::{Family, Field, Hook, Packet, PacketRegion};
use weir_syntax::packet::parse_packet;
use weir_syntax::policy::{
    ExpectedVerdict, FirewallPolicy, PolicyTest, PolicyTestPackets, parse_policy,
};

fn read(text: &str) -> FirewallPolicy {
    parse_policy(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

fn single(text: &str) -> PolicyTest {
    let mut policy = read(text);
    assert_eq!(policy.tests.len(), 1, "{text}");
    policy.tests.remove(0)
}

fn region(words: &str) -> (PacketRegion, Option<Family>) {
    match single(&format!("drop all {words}\n")).subject {
        PolicyTestPackets::Region { region, family, .. } => (region, family),
        PolicyTestPackets::Packet { .. } => panic!("{words} is a packet"),
    }
}

fn packet(words: &str) -> Packet {
    parse_packet(words).unwrap_or_else(|error| panic!("{words}: {error}"))
}

#[test]
fn a_ruleset_in_the_place_of_a_policy_is_one_error() {
    assert_eq!(read("# *filter\ndrop all tcp dport 22\n").tests.len(), 1);
    let errors = parse_policy("# saved\n\n*filter\n:INPUT ACCEPT\n-A INPUT -j DROP\nCOMMIT\n")
        .expect_err("a ruleset");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].message.contains("not a policy"), "{errors:?}");
    assert_eq!(errors[0].span, weir_model::Span { start: 9, end: 16 });
}

#[test]
fn tests_keep_their_name_group_line_and_text() {
    let text = "# policy\ndefine web = { 80, 443 }\n\"a b\" drop all iif wan0  # why\n\
                group \"g\"\naccept all\n    tcp dport $web\n\n  \"x\"\n";
    let errors = parse_policy(text).expect_err("a name inside of a test");
    assert!(errors[0].message.contains("unknown word x"), "{errors:?}");
    let policy = read(&text.replace("\n  \"x\"\n", ""));
    let [first, second] = &policy.tests[..] else { panic!("{:?}", policy.tests) };
    assert_eq!((&*first.name, first.group.as_deref(), first.line), ("a b", None, 3));
    assert_eq!(first.words, "drop all iif wan0");
    assert_eq!((second.group.as_deref(), second.line), (Some("g"), 5));
    assert_eq!((&*second.name, &*second.words), ("accept all tcp dport $web", &*second.name));
    let place = second.span.byte_range().expect("a place");
    assert_eq!(&text[place], "accept all\n    tcp dport $web");
}

#[test]
fn every_verdict_and_path_is_read() {
    let reject = ExpectedVerdict::Reject;
    for (words, expected) in [
        ("accept", ExpectedVerdict::Accept),
        ("drop", ExpectedVerdict::Drop),
        ("deny", ExpectedVerdict::Deny),
        ("handed-over", ExpectedVerdict::HandedOver),
        ("reject", reject(None)),
        ("reject with tcp-reset", reject(Some("tcp-reset"))),
        ("reject with icmp6-no-route", reject(Some("icmp6-no-route"))),
    ] {
        assert_eq!(single(&format!("{words} all\n")).expected, expected, "{words}");
    }
    for (words, via) in [
        ("via forward", Some(Hook::Forward)),
        ("via INPUT", Some(Hook::Input)),
        ("via output", Some(Hook::Output)),
        ("", None),
    ] {
        assert_eq!(single(&format!("drop all {words}\n")).via, via, "{words}");
    }
}

#[test]
fn assumptions_are_parsed_after_the_subject() {
    for words in ["drop all iif a tcp", "drop packet iif a tcp dport 1"] {
        let test = single(&format!("{words} if limit matches\n if owner does not match\n"));
        let assumed: Vec<_> =
            test.assumed_results.iter().map(|a| (&*a.module, a.matches)).collect();
        assert_eq!(assumed, [("limit", true), ("owner", false)], "{words}");
        assert_eq!(single(&format!("{words}\n")).subject, test.subject, "{words}");
    }
}

#[test]
fn matches_and_targets_may_be_assumed_not_to_drop() {
    let words =
        "accept all tcp if TCPMSS does not drop if limit matches if hashlimit does not drop";
    let test = single(&format!("{words}\n"));
    assert_eq!(test.assumed_not_to_drop, ["TCPMSS", "hashlimit"]);
    assert_eq!(test.assumed_results.len(), 1);
}

#[test]
fn a_packet_may_name_a_definition_with_one_value() {
    let text = "define lan = eth0\ndefine hosts = { 192.0.2.1, 192.0.2.2 }\n";
    let test = read(&format!("{text}drop packet iif $lan tcp dport 22\n")).tests.remove(0);
    let PolicyTestPackets::Packet { packet: read, .. } = test.subject else { panic!("a region") };
    assert_eq!(*read, packet("iif eth0 tcp dport 22"));
    let several = format!("{text}drop packet iif $lan ip saddr $hosts\n");
    let errors = parse_policy(&several).expect_err("two values");
    assert!(errors[0].message.contains("$hosts in a packet"), "{errors:?}");
    // The place of an error after a definition is that in the policy.
    let wrong = format!("{text}drop packet iif $lan tcp dport ninety\n");
    let errors = parse_policy(&wrong).expect_err("no port");
    let place = errors[0].span.byte_range().expect("a place");
    assert_eq!(&wrong[place], "ninety", "{errors:?}");
}

#[test]
fn a_packet_subject_may_span_several_lines() {
    let test = single("drop packet iif eth0 # in\n  tcp flags syn,ack tcp dport 22\n");
    let PolicyTestPackets::Packet { packet: read, given } = test.subject else {
        panic!("a region")
    };
    assert_eq!(*read, packet("iif eth0 tcp flags syn,ack tcp dport 22"));
    assert!(given.contains(Field::Dport) && !given.contains(Field::Sport));
}

/// Words of a region, packets in it, packets that are not.
const REGIONS: [(&str, &[&str], &[&str]); 26] = [
    ("iif wan0", &["iif wan0"], &["iif wan1", "oif wan0"]),
    ("iif { ppp*, eth0 }", &["iif ppp7", "iif eth0"], &["iif eth1", "iif pp"]),
    ("iif != { ppp*, eth0 }", &["iif eth1"], &["iif ppp7", "iif eth0"]),
    (
        "ip saddr 192.0.2.0/24",
        &["ip saddr 192.0.2.0", "ip saddr 192.0.2.255"],
        &["ip saddr 192.0.1.255", "ip saddr 192.0.3.0"],
    ),
    (
        "ip6 daddr { 2001:db8::1, 2001:db8::10-2001:db8::1f }",
        &["ip6 daddr 2001:db8::1", "ip6 daddr 2001:db8::1f"],
        &["ip6 daddr 2001:db8::2", "ip6 daddr 2001:db8::20"],
    ),
    (
        "tcp dport { 22, 80-82 }",
        &["tcp dport 22", "tcp dport 82"],
        &["tcp dport 83", "udp dport 22"],
    ),
    ("tcp dport ssh", &["tcp dport 22"], &["tcp dport 23"]),
    ("tcp dport != 22", &["tcp dport 23"], &["tcp dport 22", "udp dport 23"]),
    (
        "proto { tcp, udp } th dport 53",
        &["tcp dport 53", "udp dport 53"],
        &["udp dport 54", "icmp"],
    ),
    ("udp", &["udp dport 1"], &["tcp dport 1"]),
    (
        "tcp",
        &["tcp flags syn", "tcp flags syn,psh"],
        &["tcp flags syn,ack", "tcp flags ack", "tcp flags none", "tcp ct state established"],
    ),
    ("tcp flags any", &["tcp flags none", "tcp flags fin,ack"], &["udp dport 1"]),
    ("tcp flags syn,ack", &["tcp flags syn,ack"], &["tcp flags syn", "tcp flags syn,ack,rst"]),
    (
        "tcp flags rst,ack / fin,syn,rst,psh,ack,urg",
        &["tcp flags rst,ack"],
        &["tcp flags rst,psh,ack", "tcp flags rst,ack,urg", "tcp flags rst"],
    ),
    (
        "icmpv6 type { nd-neighbor-solicit, 143 }",
        &["icmpv6 type 135 ct state untracked"],
        &["icmpv6 type 135 ct state new", "icmpv6 type 136 ct state untracked"],
    ),
    (
        "icmpv6 type 134-137",
        &["icmpv6 type 135 ct state new"],
        &["icmpv6 type 135 ct state untracked"],
    ),
    ("tcp flags ack / ack", &["tcp flags ack", "tcp flags syn,ack,urg"], &["tcp flags syn"]),
    (
        "icmp type echo-request",
        &["icmp type 8", "icmp type 8 code 3"],
        &["icmp type 0", "udp dport 8"],
    ),
    (
        "icmp type 8-9",
        &["icmp type 8 code 1", "icmp type 9"],
        &["icmp type 7 code 255", "icmp type 10"],
    ),
    (
        "icmp type 3 code { 1, 3 }",
        &["icmp type 3 code 3"],
        &["icmp type 3 code 2", "icmp type 8 code 1"],
    ),
    (
        "ct state { established, related }",
        &["ct state established", "ct state related", "ct state established tcp flags ack"],
        &["ct state new", "ct state invalid", "ct state established ct status dnat"],
    ),
    (
        "ct state any",
        &[
            "ct state new",
            "ct state invalid",
            "ct state established",
            "ct state established ct mark 7",
        ],
        &["mark 1", "pkttype broadcast"],
    ),
    ("mark 0x10/0xf0", &["mark 0x10", "mark 0x13"], &["mark 0x20", "mark 0"]),
    ("ip ttl 9-10", &["ip ttl 9", "ip ttl 10"], &["ip ttl 8", "ip ttl 11"]),
    ("ip6 hoplimit 0x10", &["ip6 hoplimit 16", "ip6 ttl 16"], &["ip6 hoplimit 15"]),
    ("ip dscp 10-12", &["ip dscp 10", "ip dscp 12"], &["ip dscp 13", "ip dscp 9"]),
];

#[test]
fn a_region_contains_exactly_the_described_packets() {
    for (words, inside, outside) in REGIONS {
        let (region, _) = region(words);
        for packet_words in inside {
            assert!(region.contains(&packet(packet_words)), "{words}: {packet_words}");
        }
        for packet_words in outside {
            assert!(!region.contains(&packet(packet_words)), "{words}: {packet_words}");
        }
    }
}

#[test]
fn the_words_of_a_region_decide_its_family() {
    for (words, family) in [
        ("tcp dport 22", None),
        ("ip ttl 1", Some(Family::V4)),
        ("icmp", Some(Family::V4)),
        ("ip6 saddr 2001:db8::/32", Some(Family::V6)),
        ("icmpv6 type echo-request", Some(Family::V6)),
    ] {
        assert_eq!(region(words).1, family, "{words}");
    }
}

#[test]
fn errors_are_reported_with_span_and_help() {
    for (text, message, place) in [
        ("foo\n", "unknown word foo", "foo"),
        ("drop\n", "the test has no packets", ""),
        ("drop some tcp\n", "some instead of packet or all", "some"),
        ("\"a\" \"b\" drop all\n", "a second name", "\"b\""),
        ("drop all tcp dport 99999\n", "99999 is not a port", "99999"),
        ("drop all tcp dport 9-1\n", "the range 9-1 is empty", "9-1"),
        ("drop all ip saddr 10.0.0.1/8\n", "bits beyond its prefix", "10.0.0.1/8"),
        ("drop all ip saddr 10.0.0.0/33\n", "not a prefix length", "10.0.0.0/33"),
        ("drop all ip saddr 2001:db8::1\n", "of the other family", "2001:db8::1"),
        ("drop all ip saddr localhost\n", "not an address", "localhost"),
        ("drop all ip ttl 1 ip6 saddr ::1\n", "of the other family", "ip6"),
        ("drop all tcp udp\n", "a second protocol", "udp"),
        ("drop all proto tcp udp\n", "a second protocol", "udp"),
        ("drop all tcp dport { 1, 2\n", "the list is not closed", "2"),
        ("drop all tcp dport { }\n", "no value after {", "{"),
        ("drop all tcp dport !=\n", "nothing after !=", "!="),
        ("drop all ct state { new, any }\n", "any among other values", "any"),
        ("drop all tcp dport 3 tcp dport 4\n", "dport is given twice", "dport"),
        ("drop all iif eth+\n", "eth+ is not a device name", "eth+"),
        ("drop all fragment first\n", "fragment in a region", "fragment"),
        ("drop all icmp code 1\n", "a code without a type", "code"),
        ("drop all th\n", "th without a port", "th"),
        ("drop all if limit\n", "an assumption that is not complete", "if"),
        ("drop all if a matches if a matches\n", "a second assumption about a", "a"),
        ("drop all if a does not drop if a does not drop\n", "a second assumption about a", "a"),
        ("drop all tcp via forward\n", "via among the words", "via"),
        ("drop packet iif a tcp via input\n", "via among the words", "via"),
        ("drop all tcp flags { syn, ack }\n", "TCP flags in braces", "syn"),
        ("drop all tcp flags syn / ack\n", "a flag is set that is not tested", "/"),
        ("drop all tcp flags syn / any\n", "a slash without flags", "/"),
        ("drop all via nowhere\n", "unknown path nowhere", "nowhere"),
        ("drop all via input oif eth0\n", "no output device", "drop all via input oif eth0"),
        ("drop all via output iif eth0\n", "no input device", "drop all via output iif eth0"),
        ("drop packet tcp dport 5\n", "the path of the packet", "drop packet tcp dport 5"),
        ("drop packet iif a tcp dprt 5\n", "unknown word dprt", "dprt"),
        ("drop packet iif a tcp dport { 5 }\n", "{ in a packet", "{"),
        ("drop packet iif a ip saddr $x\n", "x is not defined", "$x"),
        ("reject with nothing all\n", "unknown REJECT type", "nothing"),
        ("drop all ip saddr $x\n", "x is not defined", "$x"),
        ("group a\n", "in quotes", "a"),
        ("group \"a\"\n drop all\n", "more than a name", "drop"),
        ("\"a\" drop all\n\"a\" drop all\n", "a second test of this name", "\"a\""),
        ("# nothing\n", "the policy has no test", ""),
        (" drop all\n", "without a line above", "drop"),
    ] {
        let errors = parse_policy(text).expect_err(text);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        let error = &errors[0];
        assert!(error.message.contains(message), "{text}: {}", error.message);
        assert!(error.help.is_some(), "{text}");
        assert_eq!(&text[error.span.byte_range().expect("a place")], place, "{text}");
    }
}

#[test]
fn all_errors_of_a_policy_are_reported_together() {
    let errors = parse_policy("foo\ndrop all\nbar\n").expect_err("two errors");
    assert_eq!(errors.len(), 2);
}
