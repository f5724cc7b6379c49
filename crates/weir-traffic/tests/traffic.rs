//! Packets for a ruleset: which rules are reached, and how often.

use std::collections::HashSet;

use weir_model::{Family, Firewall, OriginalRuleIndex, Packet};
use weir_packet::Transport;
use weir_semantics::{AlwaysFalseOracle, Interpreter, JourneyKind, SeededOracle, Verdict};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_traffic::{
    DecidingFilterRuleOrPolicy, PacketPatternOptions, PatternPacket, PatternPacketGenerationError,
    TrafficOptions, TrafficPattern, generate_boundary_and_random_packets, generate_pattern_packets,
};

fn firewall(text: &str) -> Firewall {
    let ruleset = parse(text, &ParserSettings::default()).expect("a good ruleset");
    match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    }
}

fn traffic(firewall: &Firewall, options: &TrafficOptions) -> Vec<Packet> {
    let ruleset = firewall.rulesets().next().expect("a ruleset");
    generate_boundary_and_random_packets(ruleset, &firewall.sets, options)
}

fn hit(firewall: &Firewall, options: &TrafficOptions) -> HashSet<OriginalRuleIndex> {
    let interpreter = Interpreter::new(firewall);
    let mut hit = HashSet::new();
    for packet in traffic(firewall, options) {
        let outcome =
            interpreter.evaluate_journey(&packet, options.journey_kind, &mut SeededOracle(1));
        hit.extend(outcome.hits.iter().flat_map(|h| h.credited_originals.iter().copied()));
    }
    hit
}

#[test]
fn packets_are_generated_on_both_sides_of_range_bounds() {
    let f = firewall("*filter\n-A FORWARD -p tcp -m tcp --dport 1000:2000 -j DROP\nCOMMIT\n");
    let options = TrafficOptions { max_packets: 500, ..TrafficOptions::default() };
    let ports: HashSet<u16> =
        traffic(&f, &options).iter().filter_map(|p| p.ports()).map(|p| p.1).collect();
    for port in [999, 1000, 2000, 2001] {
        assert!(ports.contains(&port), "{port} is missing");
    }
}

#[test]
fn packets_are_generated_on_both_sides_of_prefix_bounds() {
    let f = firewall("*filter\n-A FORWARD -s 192.0.2.64/27 -j DROP\nCOMMIT\n");
    let options = TrafficOptions { max_packets: 500, ..TrafficOptions::default() };
    let sources: HashSet<u128> = traffic(&f, &options).iter().map(|p| p.saddr.0).collect();
    for last in [63, 64, 95, 96] {
        assert!(sources.contains(&(0xc000_0200 + last)), "192.0.2.{last} is missing");
    }
}

#[test]
fn no_packet_matches_a_reversed_range() {
    // The udp match accepts the range, unlike tcp and multiport; it contains no port.
    let rule = "-A FORWARD -p udp -m udp --dport 60000:29 -j DROP\n";
    let f = firewall(&format!("*filter\n{rule}-A FORWARD -p udp -j ACCEPT\nCOMMIT\n"));
    let options = TrafficOptions { max_packets: 500, ..TrafficOptions::default() };
    assert_eq!(hit(&f, &options), HashSet::from([OriginalRuleIndex(1)]));
}

#[test]
fn a_rule_in_nested_chains_is_reached() {
    let f = firewall(
        "*filter\n:a - [0:0]\n:b - [0:0]\n:c - [0:0]\n\
         -A FORWARD -s 10.0.0.0/8 -i ppp+ -j a\n-A a -s 10.1.0.0/16 -p tcp -j b\n\
         -A b ! -s 10.1.2.0/24 -p tcp -m tcp --dport 80:90 -g c\n\
         -A c -p tcp -m tcp --tcp-flags SYN,ACK SYN -m mark --mark 0x7/0xf -m state --state NEW \
         -j DROP\nCOMMIT\n",
    );
    let options = TrafficOptions { max_packets: 300, ..TrafficOptions::default() };
    assert_eq!(hit(&f, &options).len(), 4);
}

#[test]
fn generated_packets_avoid_earlier_rules() {
    // On the device that most rules name, packets without an accepted address are dropped; those
    // with a known hardware address return from their chain.
    let f = firewall(
        "*filter\n:macs - [0:0]\n:web - [0:0]\n\
         -A FORWARD -s 10.0.0.0/8 -i lan0 -j ACCEPT\n-A FORWARD -i lan0 -j DROP\n\
         -A FORWARD -d 192.0.2.0/24 -j macs\n-A FORWARD -d 192.0.2.0/24 -p tcp -j web\n\
         -A macs -m mac --mac-source 02:00:00:00:00:aa -j RETURN\n-A macs -j DROP\n\
         -A web -p tcp -m tcp --dport 80 -j ACCEPT\n-A web -p tcp -m tcp --dport 81 -j ACCEPT\n\
         COMMIT\n",
    );
    let plain = TrafficOptions { max_packets: 200, ..TrafficOptions::default() };
    assert_eq!(hit(&f, &plain).len(), 8);
}

#[test]
fn one_packet_per_rule_reaches_most_rules() {
    let mut text = "*filter\n".to_owned();
    for i in 0..400 {
        text.push_str(&format!("-A FORWARD -s 10.0.{}.{}/32 -p udp -j DROP\n", i / 250, i % 250));
    }
    text.push_str("COMMIT\n");
    let f = firewall(&text);
    let options = TrafficOptions { max_packets: 400, ..TrafficOptions::default() };
    assert!(hit(&f, &options).len() >= 300);
    let options = TrafficOptions { max_packets: 600, ..TrafficOptions::default() };
    assert_eq!(hit(&f, &options).len(), 400);
}

#[test]
fn excluded_kinds_of_packets_are_not_generated() {
    let f = firewall(
        "*filter\n-A FORWARD -p tcp -m tcp --dport 22 -m state --state NEW -j DROP\nCOMMIT\n",
    );
    let all = TrafficOptions { max_packets: 2000, ..TrafficOptions::default() };
    let cut = |p: &Packet| p.transport == Transport::Truncated;
    let made = traffic(&f, &all);
    assert!(made.iter().any(cut) && made.iter().any(Packet::is_fragment));
    assert!(made.iter().any(|p| p.fragment.offset == 1 && p.proto == 6));
    assert!(made.iter().any(|p| p.ct.state != weir_model::CtState::New));
    let plain = TrafficOptions {
        include_fragments: false,
        include_truncated: false,
        include_untested_ct_states: false,
        ..all
    };
    let made = traffic(&f, &plain);
    assert!(made.len() > 500);
    assert!(!made.iter().any(|p| cut(p) || p.is_fragment()));
    assert!(made.iter().all(|p| p.ct.state == weir_model::CtState::New));
}

#[test]
fn packets_have_the_devices_of_their_journey_kind() {
    let f = firewall("*mangle\n-A PREROUTING -i wan0\n-A POSTROUTING -o lan0\nCOMMIT\n");
    for (entry, iif, oif) in [
        (JourneyKind::Forward, true, true),
        (JourneyKind::Input, true, false),
        (JourneyKind::Output, false, true),
    ] {
        let options =
            TrafficOptions { max_packets: 100, journey_kind: entry, ..TrafficOptions::default() };
        for p in traffic(&f, &options) {
            assert_eq!((!p.iif.is_empty(), !p.oif.is_empty()), (iif, oif), "{entry:?}");
        }
    }
}

#[test]
fn packets_are_generated_for_set_elements() {
    let text = "*filter\n-A FORWARD -m set --match-set s src,dst -j DROP\nCOMMIT\n";
    let sets = "create s hash:ip,port family inet\n\
                add s 192.0.2.7,tcp:80\nadd s 192.0.2.8,udp:53\nadd s 192.0.2.9,icmp:8/0\n";
    let sets = weir_syntax::ipset::parse(sets).expect("good sets");
    let f = Firewall { sets, ..firewall(text) };
    let options = TrafficOptions { max_packets: 300, ..TrafficOptions::default() };
    let interpreter = Interpreter::new(&f);
    let mut dropped = HashSet::new();
    for p in traffic(&f, &options) {
        if interpreter.evaluate_journey(&p, JourneyKind::Forward, &mut AlwaysFalseOracle).verdict
            == Verdict::Drop
        {
            dropped.insert(p.saddr.0 & 0xff);
        }
    }
    assert_eq!(dropped, HashSet::from([7, 8, 9]));
}

const ROWS: &str = "*filter\n:FORWARD DROP [0:0]\n\
    -A FORWARD -s 10.1.0.1/32 -j ACCEPT\n-A FORWARD -s 10.1.0.2/32 -j ACCEPT\n\
    -A FORWARD -s 10.2.0.3/32 -j ACCEPT\n-A FORWARD -p udp -j ACCEPT\nCOMMIT\n";

fn pattern(pattern: TrafficPattern) -> Vec<PatternPacket> {
    let options =
        PacketPatternOptions { pattern, max_packets: 64, ..PacketPatternOptions::default() };
    generate_pattern_packets(&firewall(ROWS), &options).expect("the rows have every pattern")
}

#[test]
fn pattern_packets_end_at_the_expected_rule() {
    let f = firewall(ROWS);
    let interpreter = Interpreter::new(&f);
    let tried = |p: &Packet| {
        interpreter.evaluate_journey(p, JourneyKind::Forward, &mut AlwaysFalseOracle).rules_tried
    };
    for kind in TrafficPattern::ALL {
        assert_eq!(pattern(kind).len(), 64, "{}", kind.as_str());
        assert!(pattern(kind).iter().all(|p| p.verdict == Verdict::Accept), "{}", kind.as_str());
    }
    assert!(pattern(TrafficPattern::AllMatchAtEnd).iter().all(|p| tried(&p.packet) == 4));
    let met: HashSet<u32> =
        pattern(TrafficPattern::Uniform).iter().map(|p| tried(&p.packet)).collect();
    assert_eq!(met, HashSet::from([1, 2, 3, 4]));
    for kind in TrafficPattern::ALL {
        assert!(pattern(kind).iter().all(|p| p.rules_tried == tried(&p.packet)));
    }
    let ends = pattern(TrafficPattern::AllMatchAtEnd);
    let last = DecidingFilterRuleOrPolicy {
        chain: "FORWARD".to_owned(),
        rule: Some(4),
        is_user_chain: false,
    };
    assert!(ends.iter().all(|p| p.decided_by.as_ref() == Some(&last)));
}

#[test]
fn near_misses_are_close_to_listed_addresses_unlike_far_ones() {
    let listed = [0x0a01_0001, 0x0a01_0002, 0x0a02_0003];
    for p in pattern(TrafficPattern::NearMiss).into_iter().map(|p| p.packet) {
        assert!([0x0a01, 0x0a02].contains(&(p.saddr.0 >> 16)), "{:x}", p.saddr.0);
        assert!(!listed.contains(&p.saddr.0));
    }
    for p in pattern(TrafficPattern::Far).into_iter().map(|p| p.packet) {
        assert_ne!(p.saddr.0 >> 24, 10);
    }
}

/// Customers whose chains are reached from a FORWARD that only jumps.
const CUSTOMERS: &str = "*filter\n:FORWARD ACCEPT [0:0]\n:a - [0:0]\n:b - [0:0]\n\
    -A FORWARD -s 10.1.0.1/32 -j a\n-A FORWARD -s 10.1.0.2/32 -j b\n\
    -A a -j ACCEPT\n-A b -j ACCEPT\nCOMMIT\n";

fn generate_pattern_from_text(
    text: &str,
    pattern: TrafficPattern,
) -> Result<Vec<PatternPacket>, PatternPacketGenerationError> {
    let options =
        PacketPatternOptions { pattern, max_packets: 16, ..PacketPatternOptions::default() };
    generate_pattern_packets(&firewall(text), &options)
}

#[test]
fn packets_matching_no_rule_do_not_replace_packets_matching_the_last_rule() {
    let within = generate_pattern_from_text(CUSTOMERS, TrafficPattern::Uniform).unwrap();
    assert_eq!(within.len(), 16);
    assert!(within.iter().all(|p| p.decided_by.as_ref().unwrap().is_user_chain));
    let error = generate_pattern_from_text(CUSTOMERS, TrafficPattern::AllMatchAtEnd).unwrap_err();
    assert_eq!(error, PatternPacketGenerationError::OnlyJumps { chain: "FORWARD".to_owned() });
}

#[test]
fn a_policy_after_rules_without_jumps_is_the_end_of_the_chain() {
    let log = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -s 10.1.0.1/32 -j LOG\nCOMMIT\n";
    let ends = generate_pattern_from_text(log, TrafficPattern::AllMatchAtEnd).unwrap();
    let policy = DecidingFilterRuleOrPolicy {
        chain: "FORWARD".to_owned(),
        rule: None,
        is_user_chain: false,
    };
    assert!(!ends.is_empty() && ends.iter().all(|p| p.decided_by.as_ref() == Some(&policy)));
}

#[test]
fn a_pattern_that_a_ruleset_does_not_have_is_an_error() {
    let no_rule = "*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n";
    assert_eq!(
        generate_pattern_from_text(no_rule, TrafficPattern::Uniform),
        Err(PatternPacketGenerationError::NoDecidingRule)
    );
    assert_eq!(
        generate_pattern_from_text(no_rule, TrafficPattern::NearMiss),
        Err(PatternPacketGenerationError::NoListedAddress)
    );
    let hidden = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j ACCEPT\n\
                  -A FORWARD -s 10.1.0.1/32 -j ACCEPT\nCOMMIT\n";
    let error = generate_pattern_from_text(hidden, TrafficPattern::AllMatchAtEnd).unwrap_err();
    assert!(matches!(error, PatternPacketGenerationError::NoPacketFound { .. }), "{error}");
    let everywhere: String =
        (0..256).map(|net| format!("-A FORWARD -s {net}.0.0.1/32 -j ACCEPT\n")).collect();
    let all = format!("*filter\n:FORWARD ACCEPT [0:0]\n{everywhere}COMMIT\n");
    assert_eq!(
        generate_pattern_from_text(&all, TrafficPattern::Far),
        Err(PatternPacketGenerationError::NoFarAddress)
    );
    assert!(generate_pattern_from_text(&all, TrafficPattern::NearMiss).is_ok(), "positive control");
}

#[test]
fn packets_that_are_not_accepted_are_excluded_on_request() {
    let text = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -s 10.1.0.1/32 -j ACCEPT\n\
                -A FORWARD -s 10.1.0.2/32 -j DROP\nCOMMIT\n";
    let pattern = |only_accepted| {
        let pattern = TrafficPattern::Uniform;
        let options =
            PacketPatternOptions { pattern, max_packets: 64, only_accepted, ..Default::default() };
        generate_pattern_packets(&firewall(text), &options).unwrap()
    };
    let dropped = |all: Vec<PatternPacket>| {
        (all.len(), all.iter().filter(|p| p.verdict != Verdict::Accept).count())
    };
    assert!(dropped(pattern(false)).1 > 0, "positive control");
    assert_eq!(dropped(pattern(true)), (64, 0));
}
