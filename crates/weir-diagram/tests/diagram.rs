//! Sets of packets against the interpreter, packet by packet.

use weir_diagram::{HookContext, PacketSet, PacketSpace};
use weir_model::{
    Chain, Family, Firewall, Hook, OriginalRuleIndex, Packet, Policy, Rule, Ruleset, Table,
};
use weir_model::{Match, TableName, Target};
use weir_semantics::{CountedObject, Interpreter, Oracle, OracleQuestion, Verdict};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::packet::parse_packet;
use weir_testkit::verdict_cases::read_verdict_cases;
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

/// Answers by the match alone, as a set of packets has it.
struct ByMatch(u64);

impl ByMatch {
    fn holds(&self, m: &Match) -> bool {
        // The negated test of a set and the plain one are the same question.
        let (m, negated) = match m {
            Match::Set(s) => {
                let plain = weir_model::rule_match::SetMatch { negated: false, ..s.clone() };
                (Match::Set(plain), s.negated)
            }
            other => (other.clone(), false),
        };
        let text = format!("{m:?}");
        let digest =
            text.bytes().fold(self.0, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0001b3));
        (digest >> 20 & 1 == 1) != negated
    }
}

impl Oracle for ByMatch {
    fn match_holds_or_target_ends_traversal(&mut self, question: &OracleQuestion<'_>) -> bool {
        question.match_in_question().is_some_and(|m| self.holds(m))
    }
}

/// FORWARD of filter with one rule that counts, and the sets.
fn one_rule(rule: &Rule, family: Family, sets: &[weir_model::IpSet]) -> Firewall {
    let mut forward = Chain::new("FORWARD", Some(Policy::Accept));
    forward.rules.push(Rule {
        credited_originals: [OriginalRuleIndex(0)].into_iter().collect(),
        target: Target::None,
        ..rule.clone()
    });
    let mut ruleset = Ruleset::new(family);
    ruleset.tables.push(Table {
        name: TableName::Filter,
        chains: vec![forward],
        leading_comments: Vec::new(),
        trailing_comments: Vec::new(),
    });
    let (v4, v6) = match family {
        Family::V4 => (Some(ruleset), None),
        Family::V6 => (None, Some(ruleset)),
    };
    Firewall { v4, v6, sets: sets.to_vec() }
}

/// How many packets were compared, how many matched, and how many were dropped immediately.
#[derive(Default)]
struct Seen {
    packets: usize,
    held: usize,
    dropped: usize,
}

/// What the set and the interpreter say of each packet must be the same.
fn compare(firewall: &Firewall, family: Family, sent: &[Packet], seen: &mut Seen) {
    let rule = &firewall.ruleset(family).expect("a ruleset").tables[0].chains[0].rules[0];
    let interpreter = Interpreter::new(firewall);
    let mut space = PacketSpace::new(family, firewall);
    let at = HookContext::at_hook(Hook::Forward);
    let holds = space.packets_matching_rule(rule, at).expect("room");
    let drops = space.packets_dropped_as_truncated(rule, at).expect("room");
    for packet in sent.iter().filter(|p| p.family == family) {
        for seed in 0..2 {
            let mut answers = ByMatch(seed);
            let (verdict, log) = interpreter.walk_table(
                TableName::Filter,
                Hook::Forward,
                &mut packet.clone(),
                &mut answers,
            );
            let counted = log.hits.iter().any(|h| {
                h.credited_originals.first() == Some(&OriginalRuleIndex(0))
                    && !matches!(h.counted_object, CountedObject::IpsetElement { .. })
            });
            let ask = |set: PacketSet| space.contains_packet(set, packet, |m, _| answers.holds(m));
            let Some(found) = ask(holds) else { continue };
            assert_eq!(found, counted, "{:?} {:?}\n{packet:?}", rule.base, rule.matches);
            let dropped = verdict == Verdict::Drop;
            assert_eq!(ask(drops), Some(dropped), "{:?}\n{packet:?}", rule.matches);
            assert_eq!(space.contains_packet(PacketSet::ALL, packet, |_, _| false), Some(true));
            seen.packets += 1;
            seen.held += usize::from(counted);
            seen.dropped += usize::from(dropped);
        }
    }
}

#[test]
fn rule_packet_sets_agree_with_interpreter_counters_on_all_cases() {
    let mut seen = Seen::default();
    for case in read_verdict_cases(&weir_testkit::testdata::testdata_path("verdicts")) {
        let family = if case.family == "v6" { Family::V6 } else { Family::V4 };
        let sets = weir_syntax::ipset::parse(&case.sets).expect("good sets");
        let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
        let ruleset = parse(&case.rules, &options).expect("a good ruleset");
        let said = case.packet.iter().map(|p| parse_packet(&p.words).expect("good words"));
        let said: Vec<Packet> = said.collect();
        for (_, _, rule) in ruleset.rules_with_table_and_chain() {
            let firewall = one_rule(rule, family, &sets);
            let options = TrafficOptions { max_packets: 150, ..TrafficOptions::default() };
            let ruleset = firewall.ruleset(family).expect("a ruleset");
            let mut sent = generate_boundary_and_random_packets(ruleset, &firewall.sets, &options);
            sent.extend(said.iter().cloned());
            compare(&firewall, family, &sent, &mut seen);
        }
    }
    let Seen { packets, held, dropped } = seen;
    println!("{packets} packets, {held} held, {dropped} dropped");
    assert!(packets > 10_000 && held > packets / 20 && dropped > 50);
}

/// The set of the first rule of a text's FORWARD chain, and the space it is in.
fn first_rule(firewall: &Firewall) -> (PacketSpace<'_>, PacketSet) {
    let ruleset = firewall.rulesets().next().expect("a ruleset");
    let mut space = PacketSpace::new(ruleset.family, firewall);
    let (_, _, rule) = ruleset.rules_with_table_and_chain().next().expect("a rule");
    let set = space.packets_matching_rule(rule, HookContext::at_hook(Hook::Forward)).expect("room");
    (space, set)
}

fn forward(lines: &str) -> Firewall {
    let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{lines}\nCOMMIT\n");
    let ruleset = parse(&text, &ParserSettings::default()).expect("a good ruleset");
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

/// Gives the answers of a witness, and false to all other questions.
struct Taken(Vec<(Match, bool)>);

impl Oracle for Taken {
    fn match_holds_or_target_ends_traversal(&mut self, question: &OracleQuestion<'_>) -> bool {
        self.0.iter().any(|(m, answer)| Some(m) == question.match_in_question() && *answer)
    }
}

#[test]
fn a_rule_counts_its_own_witness_packet() {
    let mut found = 0;
    for case in read_verdict_cases(&weir_testkit::testdata::testdata_path("verdicts")) {
        let family = if case.family == "v6" { Family::V6 } else { Family::V4 };
        let sets = weir_syntax::ipset::parse(&case.sets).expect("good sets");
        let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
        let ruleset = parse(&case.rules, &options).expect("a good ruleset");
        for (_, _, rule) in ruleset.rules_with_table_and_chain() {
            let firewall = one_rule(rule, family, &sets);
            let (mut space, set) = first_rule(&firewall);
            let Some(witness) = space.witness(set).expect("room") else { continue };
            let taken = witness
                .assumptions
                .iter()
                .filter_map(|o| Some((o.assumed_match.clone()?, o.answer)));
            let mut answers = Taken(taken.collect());
            let mut packet = witness.packet.clone();
            let interpreter = Interpreter::new(&firewall);
            let (_, log) =
                interpreter.walk_table(TableName::Filter, Hook::Forward, &mut packet, &mut answers);
            let counted = log
                .hits
                .iter()
                .any(|h| h.credited_originals.first() == Some(&OriginalRuleIndex(0)));
            assert!(counted, "{:?} {:?}\n{witness:?}", rule.base, rule.matches);
            assert!(space.largest_regions(set, 3).expect("room").len() <= 3);
            found += 1;
        }
    }
    assert!(found > 100, "{found} witnesses");
}

#[test]
fn subset_and_difference_of_packet_sets_respect_unions() {
    let firewall = forward(
        "-A FORWARD -s 10.0.0.0/9 -j DROP\n-A FORWARD -s 10.128.0.0/9 -j DROP\n\
         -A FORWARD -s 10.0.0.0/8 -p tcp -j DROP\n-A FORWARD -s 10.0.0.0/7 -j DROP",
    );
    let ruleset = firewall.v4.as_ref().expect("a ruleset");
    let mut space = PacketSpace::new(Family::V4, &firewall);
    let of = |(_, _, rule)| {
        space.packets_matching_rule(rule, HookContext::EVERYTHING_KNOWN).expect("room")
    };
    let sets: Vec<PacketSet> = ruleset.rules_with_table_and_chain().map(of).collect();
    let union = space.union_all(&sets[..2]).expect("room");
    assert!(space.is_subset(sets[2], union).expect("room"));
    assert!(!space.is_subset(sets[2], sets[0]).expect("room"));
    assert!(!space.is_subset(sets[3], union).expect("room"));
    assert!(space.has_common_packet(sets[3], union).expect("room"));
    let rest = space.minus(sets[3], union).expect("room");
    let regions = space.largest_regions(rest, 5).expect("room");
    let words: Vec<_> = regions.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["ip saddr 11.0.0.0/8"]);
    assert!((space.packet_share(rest).expect("room") - 1.0 / 256.0).abs() < 1e-12);
    let nodes = space.node_count();
    let mut kept = [rest, union];
    space.retain_packet_sets(&mut kept);
    assert!(space.node_count() < nodes);
    let regions = space.largest_regions(kept[0], 5).expect("room");
    assert_eq!(regions[0].to_string(), "ip saddr 11.0.0.0/8");
}

#[test]
fn a_port_and_its_negation_exclude_packets_without_ports() {
    let firewall = forward("-A FORWARD -p udp --dport 53\n-A FORWARD -p udp ! --dport 53");
    let ruleset = firewall.v4.as_ref().expect("a ruleset");
    let mut space = PacketSpace::new(Family::V4, &firewall);
    let of = |(_, _, rule)| {
        space.packets_matching_rule(rule, HookContext::EVERYTHING_KNOWN).expect("room")
    };
    let sets: Vec<PacketSet> = ruleset.rules_with_table_and_chain().map(of).collect();
    let both = space.union_all(&sets).expect("room");
    let neither = space.not(both).expect("room");
    for words in ["udp dport 53", "udp dport 54"] {
        let packet = parse_packet(words).expect("good words");
        assert_eq!(space.contains_packet(both, &packet, |_, _| false), Some(true), "{words}");
    }
    for words in ["udp dport 53 fragment offset 3", "udp dport 53 truncated 6", "tcp dport 53"] {
        let packet = parse_packet(words).expect("good words");
        assert_eq!(space.contains_packet(neither, &packet, |_, _| false), Some(true), "{words}");
    }
}

#[test]
fn regions_are_printed_in_the_packet_language() {
    let ports = "tcp dport { 80, 443, 8000-8080 }";
    let cut_after_ports = format!("with a truncated header truncated after the ports {ports}");
    let cases: [(&str, &[&str]); 8] = [
        (
            "-i eth0 -s 192.0.2.0/24 -p tcp --dport 22",
            &["iif eth0 tcp dport 22 ip saddr 192.0.2.0/24"],
        ),
        ("-p tcp -m multiport --dports 80,443,8000:8080", &[ports, &cut_after_ports]),
        ("-m conntrack --ctstate INVALID,NEW", &["ct state { invalid, new }"]),
        ("-p icmp --icmp-type 8/0", &["icmp type/code 8/0"]),
        ("-f", &["later fragment"]),
        ("-m addrtype --dst-type LOCAL", &["-m addrtype --dst-type LOCAL"]),
        ("-d 10.0.0.3 -m mark --mark 0x1", &["ip daddr 10.0.0.3 mark 0x1"]),
        ("", &["every packet"]),
    ];
    for (rule, want) in cases {
        let firewall = forward(&format!("-A FORWARD {rule}"));
        let (mut space, set) = first_rule(&firewall);
        let regions = space.largest_regions(set, 4).expect("room");
        let words: Vec<_> = regions.iter().map(ToString::to_string).collect();
        assert_eq!(words, want, "{rule}");
    }
}

#[test]
fn region_shares_sum_to_the_share_of_the_set() {
    // Headers inconsistent with the packet length, and unused device codes, are not packets.
    for rule in [
        "-i eth0 -s 192.0.2.0/24 -p tcp --dport 22",
        "-p icmp --icmp-type 8/0 -m length --length 60:90",
        "-p tcp -m multiport --dports 80,443",
        "-i eth0 -f",
        "-m addrtype --dst-type LOCAL -s 10.0.0.0/8",
    ] {
        let firewall = forward(&format!("-A FORWARD {rule}"));
        let (mut space, set) = first_rule(&firewall);
        let regions = space.largest_regions(set, 1000).expect("room");
        let (sum, share) =
            (regions.iter().map(|r| r.share).sum::<f64>(), space.packet_share(set).expect("room"));
        assert!(regions.len() < 1000, "{rule}: more regions than were asked for");
        assert!((sum / share - 1.0).abs() < 1e-9, "{rule}: regions of {sum}, a set of {share}");
        assert!(regions.is_sorted_by(|a, b| a.share >= b.share), "{rule}");
    }
}

#[test]
fn a_packet_space_without_memory_is_an_error() {
    let options = weir_diagram::PacketSpaceOptions { memory_bytes: 0, ..Default::default() };
    let firewall = Firewall::default();
    assert!(PacketSpace::for_firewalls(Family::V4, &[&firewall], options).is_err());
}
