//! Comparisons of whole rulesets: equal if the meaning is, and otherwise with a packet.

use std::ops::Range;

use weir_diagram::{
    CompareLevel, CompareOptions, CompareScope, ComparedPath, Comparison, ComparisonVerdict,
    RulesetDifference, StatefulTestIdResolver, StatefulTestPairing, compare_firewalls,
};
use weir_model::{Family, Firewall, Hook};
use weir_semantics::{Interpreter, JourneyKind, OutcomeDifference, Verdict};
use weir_syntax::iptables::{ParserSettings, parse};

fn v4(text: &str) -> Firewall {
    let ruleset = match parse(text, &ParserSettings::default()) {
        Ok(ruleset) => ruleset,
        Err(e) => panic!("{e:?}\n{text}"),
    };
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

/// Rules of the filter table.
fn filter(lines: &str) -> Firewall {
    v4(&format!("*filter\n:FORWARD ACCEPT [0:0]\n{lines}\nCOMMIT\n"))
}

fn by_text() -> CompareOptions {
    CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        ..CompareOptions::default()
    }
}

fn compared(before: &Firewall, after: &Firewall, options: &CompareOptions) -> Comparison {
    compare_firewalls(before, after, options).expect("no mistake in weir")
}

fn assert_equal(before: &Firewall, after: &Firewall) {
    let comparison = compared(before, after, &by_text());
    assert!(comparison.is_equal(), "{comparison:#?}");
}

/// The difference of the first part that differs.
fn differs(before: &Firewall, after: &Firewall, options: &CompareOptions) -> RulesetDifference {
    let comparison = compared(before, after, options);
    let found = comparison.differences().next().map(|(_, d)| d.clone());
    found.unwrap_or_else(|| panic!("they do not differ: {comparison:#?}"))
}

#[test]
fn disjoint_rules_commute_and_overlapping_rules_do_not() {
    let a = "-A FORWARD -s 10.0.0.0/8 -j DROP\n";
    let b = "-A FORWARD -s 11.0.0.0/8 -j ACCEPT\n";
    let c = "-A FORWARD -s 10.1.0.0/16 -j ACCEPT\n";
    assert_equal(&filter(&format!("{a}{b}")), &filter(&format!("{b}{a}")));
    let (one, other) = (filter(&format!("{a}{c}")), filter(&format!("{c}{a}")));
    let found = differs(&one, &other, &by_text());
    assert_eq!(found.difference, OutcomeDifference::Verdict);
    assert_eq!(found.verdicts, (Verdict::Drop, Verdict::Accept));
    assert!(found.verdict_changes[0].is_newly_allowed());
    assert_eq!(found.regions[0].to_string(), "ip saddr 10.1.0.0/16 ip ttl 2-255");
    assert_eq!(found.witness.packet.saddr.0 >> 16, 0x0a01);
}

#[test]
fn splitting_a_rule_and_adding_a_shadowed_rule_are_equal() {
    let one = filter("-A FORWARD -s 10.0.0.0/8 -p tcp -m tcp --dport 1:99 -j DROP");
    let two = filter(
        "-A FORWARD -s 10.128.0.0/9 -p tcp -m tcp --dport 1:99 -j DROP\n\
         -A FORWARD -s 10.0.0.0/9 -p tcp -m tcp --dport 1:99 -j DROP\n\
         -A FORWARD -s 10.3.0.0/16 -p tcp -m tcp --dport 80 -j ACCEPT",
    );
    assert_equal(&one, &two);
}

#[test]
fn a_device_prefix_has_more_names_than_rules_can_test() {
    // Each character that a name may go on with, as far as they are usual.
    let tested = ('0'..='9').chain('a'..='z').map(|c| format!("-A FORWARD -i eth{c}+ -j DROP\n"));
    let tested = tested.collect::<String>() + "-A FORWARD -i eth -j DROP\n";
    let all = "-A FORWARD -i eth+ -j DROP\n";
    assert_equal(&filter(&format!("{all}{tested}")), &filter(all));
    let found = differs(&filter(&tested), &filter(all), &by_text());
    let device = found.witness.packet.iif.clone();
    assert_eq!(found.verdicts, (Verdict::Accept, Verdict::Drop), "{device}");
    assert!(device.starts_with("eth"), "{device}");
}

#[test]
fn moving_a_port_match_differs_for_truncated_headers() {
    let port = "-A FORWARD -p udp -m udp --dport 53 -j ACCEPT\n";
    let src = "-A FORWARD -s 10.0.0.0/8 -j ACCEPT\n";
    let (one, other) = (filter(&format!("{port}{src}")), filter(&format!("{src}{port}")));
    let found = differs(&one, &other, &by_text());
    assert_eq!(found.verdicts, (Verdict::Drop, Verdict::Accept));
    assert_eq!(found.witness.packet.transport, weir_packet::Transport::Truncated);
}

#[test]
fn a_user_chain_equals_its_inlined_rules_for_jump_and_goto() {
    let flat = filter(
        "-A FORWARD -s 10.0.0.0/8 -p tcp -j ACCEPT\n-A FORWARD -s 10.0.0.0/8 -j DROP\n\
         -A FORWARD -p udp -j DROP",
    );
    let nested = |jump: &str| {
        v4(&format!(
            "*filter\n:FORWARD ACCEPT [0:0]\n:c - [0:0]\n-A FORWARD -s 10.0.0.0/8 {jump} c\n\
             -A FORWARD -p udp -j DROP\n-A c -p tcp -j ACCEPT\n-A c -j DROP\nCOMMIT\n"
        ))
    };
    assert_equal(&flat, &nested("-j"));
    assert_equal(&flat, &nested("-g"));
    let returns = |jump: &str| {
        v4(&format!(
            "*filter\n:FORWARD ACCEPT [0:0]\n:c - [0:0]\n-A FORWARD -s 10.0.0.0/8 {jump} c\n\
             -A FORWARD -j DROP\n-A c -p tcp -j RETURN\n-A c -j DROP\nCOMMIT\n"
        ))
    };
    let found = differs(&returns("-j"), &returns("-g"), &by_text());
    assert_eq!(found.verdicts, (Verdict::Drop, Verdict::Accept));
    assert_eq!(found.witness.packet.proto, 6);
}

#[test]
fn effects_and_their_order_are_compared_except_at_verdict_level() {
    let log = |prefix: &str| format!("-A FORWARD -p tcp -j LOG --log-prefix {prefix}\n");
    let (one, other) = (
        filter(&format!("{}{}", log("a"), log("b"))),
        filter(&format!("{}{}", log("b"), log("a"))),
    );
    let found = differs(&one, &other, &by_text());
    assert_eq!(found.difference, OutcomeDifference::Effects);
    assert!(found.verdict_changes.is_empty());
    let verdict = CompareOptions { level: CompareLevel::Verdict, ..by_text() };
    assert!(compared(&one, &other, &verdict).is_equal());
}

#[test]
fn a_mark_is_seen_by_later_tables() {
    let text = |mark: &str, wanted: &str| {
        v4(&format!(
            "*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -s 10.0.0.0/8 -j MARK --set-xmark {mark}\n\
             COMMIT\n*filter\n:FORWARD DROP [0:0]\n-A FORWARD -m mark --mark {wanted} -j ACCEPT\n\
             COMMIT\n"
        ))
    };
    let verdict = CompareOptions { level: CompareLevel::Verdict, ..by_text() };
    let (one, same) = (text("0x1/0xff", "0x1/0xff"), text("0x1/0xff", "0x1/0xf"));
    assert!(compared(&one, &one, &verdict).is_equal());
    let found = differs(&one, &same, &verdict);
    // A packet from another source address with a mark such as 0x11 distinguishes the two masks.
    assert_ne!(found.witness.packet.saddr.0 >> 24, 10);
    let other = text("0x3/0xff", "0x1/0xff");
    let found = differs(&one, &other, &verdict);
    assert_eq!(found.witness.packet.saddr.0 >> 24, 10);
}

#[test]
fn the_filter_table_sees_the_translated_address() {
    let text = |to: &str, wanted: &str| {
        v4(&format!(
            "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -d 192.0.2.1 -j DNAT --to-destination {to}\n\
             COMMIT\n*filter\n:FORWARD DROP [0:0]\n-A FORWARD -d {wanted} -j ACCEPT\nCOMMIT\n"
        ))
    };
    let verdict = CompareOptions { level: CompareLevel::Verdict, ..by_text() };
    let one = text("10.0.0.1", "10.0.0.1");
    let found = differs(&one, &text("10.0.0.2", "10.0.0.1"), &verdict);
    assert_eq!(found.witness.packet.daddr.0, 0xc000_0201);
    assert_eq!(found.witness.packet.ct.state, weir_model::CtState::New);
    assert_equal(&one, &one);
    let range = text("10.0.0.4-10.0.0.7", "10.0.0.4/30");
    assert_equal(&range, &range);
    let found = differs(&range, &text("10.0.0.4-10.0.0.7", "10.0.0.4/31"), &verdict);
    assert!(found.witness.assumptions.iter().any(|o| o.assumed_match.is_none()));
}

#[test]
fn a_redirected_packet_goes_to_input() {
    let text = |policy: &str| {
        v4(&format!(
            "*nat\n:PREROUTING ACCEPT [0:0]\n\
             -A PREROUTING -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 3128\nCOMMIT\n\
             *filter\n:INPUT {policy} [0:0]\n:FORWARD ACCEPT [0:0]\nCOMMIT\n"
        ))
    };
    let forward = CompareOptions { journey_kind: Some(JourneyKind::Forward), ..by_text() };
    let found = differs(&text("ACCEPT"), &text("DROP"), &forward);
    assert_eq!(found.witness.packet.ports().map(|p| p.1), Some(80));
}

#[test]
fn stateful_tests_are_paired_by_rule_number_or_text() {
    let limit = |n: u32| format!("-A FORWARD -p tcp -m limit --limit {n}/sec -j ACCEPT\n");
    let one = filter(&format!("{}{}", limit(1), limit(2)));
    let swapped = filter(&format!("{}{}", limit(2), limit(1)));
    // By number, the rules differ; by text, their order differs.
    for options in [CompareOptions::default(), by_text()] {
        assert!(compared(&one, &one, &options).is_equal());
        assert!(!compared(&one, &swapped, &options).is_equal());
    }
    let shifted = filter(&format!("-A FORWARD -p tcp\n{}{}", limit(1), limit(2)));
    assert_equal(&one, &shifted);
    assert!(!compared(&one, &shifted, &CompareOptions::default()).is_equal());
    let twice = filter(&format!("{}{}{}", limit(1), limit(1), limit(2)));
    let found = differs(&one, &twice, &by_text());
    assert!(matches!(
        found.difference,
        OutcomeDifference::StatefulQuestions | OutcomeDifference::Verdict
    ));
}

#[test]
fn an_opaque_test_is_one_variable_in_all_rules() {
    let local = "-m addrtype --dst-type LOCAL";
    let one = filter(&format!("-A FORWARD {local} -j DROP\n-A FORWARD -p tcp -j ACCEPT"));
    let two = filter(&format!(
        "-A FORWARD -p tcp {local} -j DROP\n-A FORWARD -p tcp -j ACCEPT\n\
         -A FORWARD {local} -j DROP"
    ));
    assert_equal(&one, &two);
    let other = filter("-A FORWARD -p tcp -j ACCEPT");
    let found = differs(&one, &other, &by_text());
    assert!(
        found.witness.assumptions.iter().any(|o| o.answer && o.description.contains("addrtype"))
    );
}

#[test]
fn a_set_match_equals_one_rule_per_element() {
    let rules = "-A FORWARD -s 10.0.0.0/8 -j DROP\n-A FORWARD -s 192.0.2.7/32 -j DROP";
    let mut sets = filter("-A FORWARD -m set --match-set s src -j DROP");
    let text = "create s hash:net family inet\nadd s 10.0.0.0/8\nadd s 192.0.2.7\n";
    sets.sets = weir_syntax::ipset::parse(text).expect("good sets");
    assert_equal(&filter(rules), &sets);
    std::sync::Arc::make_mut(&mut sets.sets[0].elements).pop();
    let found = differs(&filter(rules), &sets, &by_text());
    assert_eq!(found.witness.packet.saddr.0, 0xc000_0207);
}

#[test]
fn loops_and_memory_limits_are_undecided_with_a_reason() {
    let text = "*filter\n:FORWARD ACCEPT [0:0]\n:a - [0:0]\n-A FORWARD -j a\n-A a -p tcp\nCOMMIT\n";
    let mut looped = v4(text);
    let table = &mut looped.v4.as_mut().expect("a ruleset").tables[0];
    let chain = table.chains.iter_mut().find(|c| &*c.name == "a").expect("chain a");
    chain.rules[0].target = weir_model::Target::Jump("a".into());
    let why = |comparison: &Comparison| {
        comparison.undecided_comparisons().next().map(|(_, w)| w.to_owned())
    };
    let found = compared(&looped, &looped, &by_text());
    let said = why(&found).unwrap_or_else(|| panic!("it is known: {found:#?}"));
    assert!(said.contains("chain a of table filter"), "{said}");
    let mut rules = String::new();
    for i in 0..500u32 {
        let (a, b) = (i * 7919 % 251, i * 104_729 % 241);
        rules += &format!("-A FORWARD -s 10.{a}.{b}.0/24 -d 10.{b}.{a}.0/24 -j DROP\n");
    }
    let half: Vec<&str> = rules.lines().take(250).collect();
    let (large, small) = (filter(&rules), filter(&half.join("\n")));
    let little = CompareOptions { memory_bytes: 200_000, ..by_text() };
    assert!(why(&compared(&large, &small, &little)).expect("unknown").contains("MiB"));
    assert!(!compared(&large, &small, &by_text()).is_equal());
}

#[test]
fn a_comparison_can_be_limited_to_one_hook() {
    let text = |input: &str| {
        v4(&format!(
            "*filter\n:INPUT {input} [0:0]\n:FORWARD DROP [0:0]\n-A FORWARD -p tcp -j ACCEPT\nCOMMIT\n"
        ))
    };
    let hook = |hook| CompareOptions { scope: CompareScope::OneHook(hook), ..by_text() };
    let (one, other) = (text("ACCEPT"), text("DROP"));
    assert!(compared(&one, &other, &hook(Hook::Forward)).is_equal());
    assert!(!compared(&one, &other, &hook(Hook::Input)).is_equal());
}

#[test]
fn evaluating_the_witness_reproduces_the_difference() {
    let one =
        filter("-A FORWARD -m set --match-set unknown src -j DROP\n-A FORWARD -p tcp -j DROP");
    let other =
        filter("-A FORWARD -m set ! --match-set unknown src -j DROP\n-A FORWARD -p tcp -j DROP");
    let comparison = compared(&one, &other, &by_text());
    for (part, found) in comparison.differences() {
        let weir_diagram::ComparedPath::WholeJourney(entry) = part.path else { continue };
        let run = |firewall| {
            let state_ids = StatefulTestIdResolver::new(firewall, StatefulTestPairing::ByRuleText);
            let mut answers = found.witness.to_oracle(&state_ids);
            Interpreter::new(firewall)
                .evaluate_journey(&found.witness.packet, entry, &mut answers)
                .verdict
        };
        assert_eq!((run(&one), run(&other)), found.verdicts);
        assert_ne!(found.verdicts.0, found.verdicts.1);
    }
    assert_eq!(comparison.differences().count(), 1);
    assert!(matches!(comparison.parts[1].verdict, ComparisonVerdict::Equal), "INPUT has no rules");
    assert_eq!(comparison.parts[0].family, Family::V4);
}

/// Tables that differ, each in the packets of a bit of every mark that the table before may set.
fn hard(drop: &str) -> Firewall {
    let mut mangle = String::new();
    for bit in 0..12 {
        let (port, mark) = (1000 + 37 * bit, 1u32 << bit);
        mangle += &format!(
            "-A PREROUTING -p udp -m udp --dport {port}:{} -j MARK --set-xmark {mark:#x}/{mark:#x}\n\
             -A PREROUTING -s 10.{bit}.0.0/16 -j MARK --set-xmark 0x0/{mark:#x}\n",
            port + 4000
        );
    }
    let mut filter = String::new();
    for bit in 0..12 {
        let mark = 1u32 << bit;
        filter += &format!(
            "-A FORWARD -m mark --mark {mark:#x}/{mark:#x} -d 10.{bit}.0.0/16 -j {drop}\n\
             -A FORWARD -m mark --mark {mark:#x}/{mark:#x} -j LOG --log-prefix bit{bit}\n"
        );
    }
    v4(&format!(
        "*mangle\n:PREROUTING ACCEPT [0:0]\n{mangle}-A PREROUTING -p {} -j TTL --ttl-dec 1\nCOMMIT\n\
         *filter\n:FORWARD ACCEPT [0:0]\n{filter}COMMIT\n",
        if drop == "DROP" { "tcp" } else { "sctp" }
    ))
}

#[test]
fn a_comparison_stops_at_its_step_limit_as_undecided() {
    let (one, other) = (hard("DROP"), hard("REJECT"));
    let within = |steps_max| CompareOptions { steps_max, ..by_text() };
    for steps_max in [0, 1_000, 100_000] {
        let comparison = compared(&one, &other, &within(steps_max));
        let forward = &comparison.parts[0];
        let why = match &forward.verdict {
            ComparisonVerdict::Undecided { why } => why,
            // A packet that matches the changed rule shows a difference.
            ComparisonVerdict::DiffersOnPacket { why, example } => {
                let (before, after) = &example.verdicts;
                let is_verdict = example.difference == OutcomeDifference::Verdict;
                assert_eq!(before != after, is_verdict, "{example:?}");
                why
            }
            other => panic!("{other:?}"),
        };
        assert!(why.contains("not proven within"), "{why}");
        assert!(forward.statistics.steps <= steps_max, "{} steps", forward.statistics.steps);
        assert!(!comparison.is_equal());
    }
    // The same comparison with the same step limit has the same result.
    let small = filter("-A FORWARD -s 10.0.0.0/8 -j DROP");
    let halves = filter("-A FORWARD -s 10.0.0.0/9 -j DROP\n-A FORWARD -s 10.128.0.0/9 -j DROP");
    // One path may use all steps but those for choosing the order of fields.
    let at_forward = |steps_max| {
        let scope = CompareScope::OneHook(Hook::Forward);
        compared(&small, &halves, &CompareOptions { scope, ..within(steps_max) })
    };
    let enough = at_forward(1_000_000);
    assert!(enough.is_equal());
    let [forward] = &enough.parts[..] else { panic!("{} parts", enough.parts.len()) };
    let steps = forward.statistics.steps;
    assert!(at_forward(steps + steps / 7 + 1).is_equal());
    assert!(!at_forward(steps - 1).is_equal());
    // Identical rulesets need no steps.
    assert!(compared(&small, &small, &within(0)).is_equal());
}

#[test]
fn chains_are_identified_by_meaning_of_callees_not_by_names() {
    let firewall = |leaf: &str, name: &str| {
        v4(&format!(
            "*filter\n:FORWARD ACCEPT [0:0]\n:list - [0:0]\n:{name} - [0:0]\n\
             -A FORWARD -p tcp -j list\n-A list -s 10.0.0.0/8 -j {name}\n\
             -A list -s 11.0.0.0/8 -g {name}\n-A FORWARD -p tcp -j DROP\n{leaf}COMMIT\n"
        ))
    };
    let one = firewall("-A leaf -p tcp -j ACCEPT\n", "leaf");
    let renamed = firewall("-A other -p tcp -m tcp -j ACCEPT\n-A other -j DROP\n", "other");
    let same = firewall("-A other ! -p udp -j ACCEPT\n", "other");
    let else_drops = firewall("-A leaf -p tcp -m tcp --dport 80 -j ACCEPT\n", "leaf");
    assert_equal(&one, &same);
    differs(&one, &else_drops, &by_text());
    // A bare `-m tcp` drops truncated headers.
    differs(&one, &renamed, &by_text());
}

#[test]
fn no_ipv4_fragment_reaches_input() {
    let tables = |lines: &str| {
        v4(&format!("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n{lines}COMMIT\n"))
    };
    // A packet that is forwarded may be a fragment, one that is delivered may not.
    differs(&tables("-A FORWARD -f -j DROP\n"), &tables(""), &by_text());
    assert_equal(&tables("-A INPUT -f -j DROP\n"), &tables(""));
}

#[test]
fn a_reassembled_datagram_does_not_keep_its_prerouting_length() {
    let tables = |tracked: &str, drop: &str| {
        v4(&format!(
            "*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j MARK --set-xmark 0x0/0xffffffff\n\
             -A PREROUTING -p udp -m length --length 0:100 -j MARK --set-xmark 0x1/0xffffffff\n\
             COMMIT\n*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n{drop}{tracked}COMMIT\n"
        ))
    };
    let drop = "-A INPUT -m mark --mark 0x1 -m length ! --length 0:100 -j DROP\n";
    // Conntrack reassembles datagrams before PREROUTING: then the length is one.
    let tracked = "-A FORWARD -m conntrack --ctstate NEW\n";
    assert_equal(&tables(tracked, drop), &tables(tracked, ""));
    let found =
        compare_firewalls(&tables("", drop), &tables("", ""), &by_text()).expect("no mistake");
    let ways: Vec<ComparedPath> = found.differences().map(|(part, _)| part.path).collect();
    assert_eq!(ways, [ComparedPath::ReassembledInput]);
}

#[test]
fn dropping_all_fragments_is_recognized_in_any_chain() {
    let rules = |table: &str, lines: &str| {
        v4(&format!("*{table}\n:PREROUTING ACCEPT [0:0]\n:c - [0:0]\n{lines}COMMIT\n"))
    };
    for table in ["raw", "mangle"] {
        let list = rules(
            table,
            "-A PREROUTING -s 10.0.0.0/16 -j DROP\n-A PREROUTING -s 10.1.0.0/16 -p tcp -j DROP\n",
        );
        let chains = |second: &str| {
            let tree = "-A PREROUTING -s 10.0.0.0/15 -g c\n-A c -s 10.0.0.0/16 -j DROP\n";
            rules(table, &format!("{tree}{second}"))
        };
        assert_equal(&list, &chains("-A c -p tcp -j DROP\n"));
        assert_equal(&chains("-A c -p tcp -j DROP\n"), &list);
        let found = differs(&list, &chains("-A c -p udp -j DROP\n"), &by_text());
        assert_eq!(found.difference, OutcomeDifference::Verdict);
        differs(&list, &chains(""), &by_text());
    }
    // If the fragments of a datagram are dropped, nothing reaches INPUT.
    let both = |raw: &str, input: &str| {
        v4(&format!(
            "*raw\n:PREROUTING ACCEPT [0:0]\n{raw}COMMIT\n\
             *filter\n:INPUT ACCEPT [0:0]\n{input}COMMIT\n"
        ))
    };
    let raw = "-A PREROUTING -s 10.0.0.0/16 -j DROP\n";
    let input = "-A INPUT -s 10.0.0.0/16 -j DROP\n";
    assert_equal(&both(raw, input), &both(raw, ""));
    differs(&both(raw, ""), &both("", ""), &by_text());
}

#[test]
fn a_mark_written_by_a_match_is_part_of_the_packet() {
    let mangle = |lines: &str| {
        v4(&format!(
            "*mangle\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n{lines}-A INPUT -m socket\nCOMMIT\n"
        ))
    };
    let socket = "-A PREROUTING -p tcp -m socket --restore-skmark\n";
    let mark = "-A PREROUTING -j MARK --set-xmark 0x5/0xffffffff\n";
    let both = |first: &str, second: &str| mangle(&format!("{first}{second}"));
    assert_equal(&mangle(socket), &mangle(socket));
    // An overwritten mark is not observable.
    assert_equal(&both(socket, mark), &mangle(mark));
    let differs = |a: &Firewall, b: &Firewall| {
        let found = compare_firewalls(a, b, &by_text()).expect("no mistake");
        assert!(found.differences().count() > 0, "{found:?}");
        assert!(
            found.differences().all(|(_, d)| d.difference == OutcomeDifference::Packet),
            "{found:?}"
        );
    };
    differs(&mangle(socket), &mangle(""));
    differs(&both(socket, mark), &both(mark, socket));
}

#[test]
fn an_example_packet_shows_a_difference_too_large_to_describe() {
    let log = |numbers: Range<u32>| {
        let rule = |n| format!("-A FORWARD -m limit --limit 5/min -j LOG --log-prefix n{n}\n");
        filter(&numbers.map(rule).collect::<String>())
    };
    let options = CompareOptions { steps_max: 4_000_000, ..by_text() };
    // The first rule is changed: packets of the difference are logged by any of those below it.
    let comparison = compared(&log(0..200), &log(1..200), &options);
    let ComparisonVerdict::DiffersOnPacket { example, why } = &comparison.parts[0].verdict else {
        panic!("{:?}", comparison.parts[0].verdict)
    };
    assert_eq!(example.difference, OutcomeDifference::Effects);
    assert!(why.contains("not proven within"), "{why}");
    assert!(!comparison.is_equal());
    // Control: the same rules are equal, and a smaller difference is described, also one that only
    // has many rules above it.
    assert!(compared(&log(0..200), &log(0..200), &options).is_equal());
    assert_eq!(compared(&log(0..6), &log(1..6), &options).differences().count(), 1);
    assert_eq!(compared(&log(0..200), &log(0..199), &options).differences().count(), 1);
}

#[test]
fn a_rule_with_a_large_set_differs_on_a_packet_within_few_steps() {
    let mut sets = "create hosts hash:ip family inet hashsize 1024 maxelem 65536\n".to_owned();
    for number in 0_u32..20_000 {
        let host = std::net::Ipv4Addr::from(number.wrapping_mul(2_654_435_761) | 1 << 24);
        sets += &format!("add hosts {host}\n");
    }
    let with_set = |rules: &str| Firewall {
        sets: weir_syntax::ipset::parse(&sets).expect("a set"),
        ..filter(rules)
    };
    let rule = "-A FORWARD -m set --match-set hosts src -j DROP";
    // Fewer steps than the diagram of the set has nodes.
    let options = CompareOptions { steps_max: 60_000, ..by_text() };
    let comparison = compared(&with_set(rule), &with_set(""), &options);
    let forward = &comparison.parts[0].verdict;
    assert!(matches!(forward, ComparisonVerdict::DiffersOnPacket { .. }), "{forward:?}");
    // A rule that changes nothing is not claimed to differ.
    let unchanged = compared(&with_set(rule), &with_set(&format!("{rule}\n{rule}")), &by_text());
    assert!(unchanged.is_equal(), "{unchanged:?}");
}

#[test]
fn empty_chains_are_equal_if_their_policies_are() {
    let with = |policy: &str, rules: &str| {
        v4(&format!("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD {policy} [0:0]\n{rules}COMMIT\n"))
    };
    let input = "-A INPUT -p tcp -j DROP\n";
    let options = CompareOptions { scope: CompareScope::OneHook(Hook::Forward), ..by_text() };
    let compare = |a: &Firewall, b: &Firewall| compared(a, b, &options).is_equal();
    assert!(compare(&with("DROP", ""), &with("DROP", input)));
    assert!(!compare(&with("DROP", ""), &with("ACCEPT", "")));
    assert!(!compare(&with("DROP", ""), &with("DROP", "-A FORWARD -j ACCEPT\n")));
    assert!(!compare(&with("ACCEPT", "-A FORWARD -j DROP\n"), &with("ACCEPT", "")));
}
