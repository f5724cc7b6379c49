//! Tests that a file of cases cannot express: questions and their order, translations that the
//! caller chooses, depth, loops, repeatability.

use weir_model::rule_match::OpaqueExtension;
use weir_model::target::NatTarget;
use weir_model::{Addr, Chain, Firewall, Hook, OriginalRuleIndex, Policy, Rule, TableName, Target};
use weir_semantics::trace::{TraceStep, trace_journey};
use weir_semantics::{
    AlwaysFalseOracle, Interpreter, JourneyKind, NatQuestion, Oracle, OracleQuestion,
    OutcomeDifference, PerRuleAnswerOracle, QuestionSubject, RuleAnswersTrueOracle, SeededOracle,
    Verdict,
};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::packet::parse_packet;

fn firewall(text: &str) -> Firewall {
    let ruleset = parse(text, &ParserSettings::default()).expect("a good ruleset");
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

fn filter(rules: &str) -> Firewall {
    firewall(&format!("*filter\n{rules}COMMIT\n"))
}

fn chains(firewall: &mut Firewall) -> &mut Vec<Chain> {
    &mut firewall.v4.as_mut().expect("a v4 ruleset").tables[0].chains
}

fn packet(words: &str) -> weir_model::Packet {
    parse_packet(words).expect("a good packet")
}

#[test]
fn matches_are_evaluated_from_left_to_right() {
    let before = filter("-A FORWARD -p udp -m limit --limit 1/sec -m udp --dport 9 -j DROP\n");
    let after = filter("-A FORWARD -p udp -m udp --dport 9 -m limit --limit 1/sec -j DROP\n");
    let other_port = packet("udp dport 10");
    let asked = |firewall: &Firewall| {
        let interpreter = Interpreter::new(firewall);
        interpreter
            .evaluate_journey(&other_port, JourneyKind::Forward, &mut RuleAnswersTrueOracle)
            .questions
            .len()
    };
    assert_eq!(asked(&before), 1, "limit spends a token on a packet to another port");
    assert_eq!(asked(&after), 0);
}

#[test]
fn moving_a_stateful_match_is_caught() {
    let before = filter("-A FORWARD -p udp -m limit --limit 1/sec -m udp --dport 9 -j DROP\n");
    let after = filter("-A FORWARD -p udp -m udp --dport 9 -m limit --limit 1/sec -j DROP\n");
    let (one, other) = (Interpreter::new(&before), Interpreter::new(&after));
    let p = packet("udp dport 10");
    let one = one.evaluate_journey(&p, JourneyKind::Forward, &mut RuleAnswersTrueOracle);
    let other = other.evaluate_journey(&p, JourneyKind::Forward, &mut RuleAnswersTrueOracle);
    assert_eq!(one.first_difference(&one.clone()), None);
    assert_eq!(one.first_difference(&other), Some(OutcomeDifference::StatefulQuestions));
}

#[test]
fn seeded_answers_follow_a_moved_rule() {
    let text = "-A FORWARD -m limit --limit 1/sec -j DROP\n";
    let mut before = filter(text);
    let mut after = filter(&format!(
        ":moved - [0:0]\n-A FORWARD -j moved\n{}",
        text.replace("FORWARD", "moved")
    ));
    for (f, chain) in [(&mut before, "FORWARD"), (&mut after, "moved")] {
        let chain = chains(f).iter_mut().find(|c| &*c.name == chain).expect("the chain");
        chain.rules[0].credited_originals = [OriginalRuleIndex(77)].into_iter().collect();
    }
    let (one, other) = (Interpreter::new(&before), Interpreter::new(&after));
    let mut dropped = 0;
    for port in 0..200 {
        let p = packet(&format!("udp dport {port}"));
        let a = one.evaluate_journey(&p, JourneyKind::Forward, &mut SeededOracle(3)).verdict;
        assert_eq!(
            a,
            other.evaluate_journey(&p, JourneyKind::Forward, &mut SeededOracle(3)).verdict
        );
        dropped += u32::from(a == Verdict::Drop);
    }
    assert!((50..150).contains(&dropped), "{dropped} of 200 dropped");
}

#[test]
fn scripted_answers_are_given_per_rule() {
    let f = filter(
        "-A FORWARD -m limit --limit 1/sec -j DROP\n-A FORWARD -m limit --limit 1/sec -j ACCEPT\n",
    );
    let interpreter = Interpreter::new(&f);
    let mut script = PerRuleAnswerOracle {
        answers_by_rule: [(OriginalRuleIndex(1), true)].into(),
        default_answer: false,
    };
    let outcome =
        interpreter.evaluate_journey(&packet("udp dport 1"), JourneyKind::Forward, &mut script);
    assert_eq!(outcome.verdict, Verdict::Accept);
    assert_eq!(outcome.hits.len(), 1);
}

#[test]
fn the_oracle_decides_whether_an_unknown_target_ends_traversal() {
    let mut f = filter("-A FORWARD -j DROP\n");
    let opaque = OpaqueExtension { name: "FROBNICATE".to_owned(), words: Vec::new() };
    chains(&mut f)
        .iter_mut()
        .find(|c| &*c.name == "FORWARD")
        .expect("FORWARD")
        .rules
        .insert(0, Rule::unconditional(Target::Opaque(Box::new(opaque))));
    let interpreter = Interpreter::new(&f);
    let p = packet("udp dport 1");
    let goes_on = interpreter.evaluate_journey(&p, JourneyKind::Forward, &mut AlwaysFalseOracle);
    assert_eq!(
        (goes_on.verdict, goes_on.questions[0].subject),
        (Verdict::Drop, QuestionSubject::Target)
    );
    let ends = interpreter.evaluate_journey(&p, JourneyKind::Forward, &mut RuleAnswersTrueOracle);
    assert_eq!(ends.verdict, Verdict::Unknown);
}

/// Chooses as a kernel with one address and free ports would.
struct Chooses;

impl Oracle for Chooses {
    fn match_holds_or_target_ends_traversal(&mut self, _: &OracleQuestion<'_>) -> bool {
        false
    }

    fn choose_nat_mapping(&mut self, t: &NatQuestion<'_>) -> Option<(Addr, Option<u16>)> {
        assert!(matches!(t.target, NatTarget::Masquerade(_)));
        Some((Addr(0xcb00_7101), Some(40_000)))
    }
}

#[test]
fn the_caller_chooses_undetermined_addresses_and_ports_of_nat() {
    let f = firewall("*nat\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n");
    let interpreter = Interpreter::new(&f);
    let p = packet("ip saddr 192.0.2.1 udp sport 9 udp dport 1");
    let told = interpreter.evaluate_journey(&p, JourneyKind::Forward, &mut Chooses).packet;
    assert_eq!((told.saddr, told.ports()), (Addr(0xcb00_7101), Some((40_000, 1))));
    assert!(told.ct.snat);
    let untold =
        interpreter.evaluate_journey(&p, JourneyKind::Forward, &mut AlwaysFalseOracle).packet;
    assert_eq!((untold.saddr, untold.ports()), (p.saddr, p.ports()));
}

#[test]
fn a_thousand_nested_chains_are_walked() {
    let mut text = String::new();
    for i in 0..1000 {
        text.push_str(&format!(":c{i} - [0:0]\n"));
    }
    text.push_str("-A FORWARD -j c0\n");
    for i in 0..999 {
        text.push_str(&format!("-A c{i} -j c{}\n", i + 1));
    }
    text.push_str("-A c999 -p tcp -j DROP\n");
    let f = filter(&text);
    let interpreter = Interpreter::new(&f);
    let deep = interpreter.evaluate_journey(
        &packet("tcp dport 1"),
        JourneyKind::Forward,
        &mut AlwaysFalseOracle,
    );
    assert_eq!((deep.verdict, deep.rules_tried), (Verdict::Drop, 1001));
    let back = interpreter.evaluate_journey(
        &packet("udp dport 1"),
        JourneyKind::Forward,
        &mut AlwaysFalseOracle,
    );
    assert_eq!(back.verdict, Verdict::Accept);
}

#[test]
fn a_loop_ends_in_a_drop() {
    let mut f = filter(":a - [0:0]\n:b - [0:0]\n-A FORWARD -j a\n-A a -j b\n-A b\n");
    let interpreter = Interpreter::new(&f);
    let p = packet("udp dport 1");
    let good = interpreter.evaluate_journey(&p, JourneyKind::Forward, &mut AlwaysFalseOracle);
    assert_eq!(good.verdict, Verdict::Accept);
    for target in [Target::Jump("a".into()), Target::Goto("a".into())] {
        let b = chains(&mut f).iter_mut().find(|c| &*c.name == "b").expect("b");
        b.rules[0].target = target;
        let looped = Interpreter::new(&f);
        let outcome = looped.evaluate_journey(&p, JourneyKind::Forward, &mut AlwaysFalseOracle);
        assert_eq!(outcome.verdict, Verdict::Drop);
    }
}

/// Chains that each jump to the next twice; the last accepts datagrams to port 2.
fn doubling_chains(levels: usize) -> Firewall {
    let declared: String = (0..=levels).map(|level| format!(":c{level} - [0:0]\n")).collect();
    let jumps: String =
        (0..levels).map(|level| format!("-A c{level} -j c{}\n", level + 1).repeat(2)).collect();
    filter(&format!(
        ":FORWARD DROP [0:0]\n{declared}-A FORWARD -j c0\n{jumps}\
         -A c{levels} -p udp -m udp --dport 2 -j ACCEPT\n"
    ))
}

#[test]
fn the_verdict_of_a_packet_that_enters_chains_without_end_is_unknown() {
    let verdict = |firewall: &Firewall, words: &str| {
        let interpreter = Interpreter::new(firewall);
        let packet = packet(words);
        interpreter.evaluate_journey(&packet, JourneyKind::Forward, &mut AlwaysFalseOracle).verdict
    };
    let few = doubling_chains(10);
    assert_eq!(verdict(&few, "udp dport 1"), Verdict::Drop);
    assert_eq!(verdict(&few, "udp dport 2"), Verdict::Accept);
    let many = doubling_chains(40);
    assert_eq!(verdict(&many, "udp dport 1"), Verdict::Unknown);
    assert_eq!(verdict(&many, "udp dport 2"), Verdict::Accept);
}

#[test]
fn one_table_or_one_chain_can_be_walked_separately() {
    let f = filter(":a - [0:0]\n-A FORWARD -p tcp -j a\n-A a -p tcp -m tcp --dport 22 -j DROP\n");
    let interpreter = Interpreter::new(&f);
    let mut ssh = packet("tcp dport 22");
    let walk = |p: &mut weir_model::Packet| {
        interpreter.walk_table(TableName::Filter, Hook::Forward, p, &mut AlwaysFalseOracle).0
    };
    assert_eq!(walk(&mut ssh), Verdict::Drop);
    assert_eq!(walk(&mut packet("udp dport 22")), Verdict::Accept);
    let chain = |p: &mut weir_model::Packet| {
        interpreter.walk_chain(TableName::Filter, "a", Hook::Forward, p, &mut AlwaysFalseOracle).0
    };
    assert_eq!(chain(&mut ssh), Some(Verdict::Drop));
    assert_eq!(chain(&mut packet("tcp dport 23")), None);
    // A missing table accepts.
    let (verdict, log) =
        interpreter.walk_table(TableName::Raw, Hook::Output, &mut ssh, &mut AlwaysFalseOracle);
    assert_eq!((verdict, log.rules_tried), (Verdict::Accept, 0));
}

#[test]
fn the_nat_table_is_evaluated_if_conntrack_is_otherwise_used() {
    let f = firewall("*nat\n-A PREROUTING -p udp\nCOMMIT\n");
    let p = packet("udp dport 1");
    let alone = Interpreter::new(&f);
    assert!(
        alone.evaluate_journey(&p, JourneyKind::Forward, &mut AlwaysFalseOracle).hits.is_empty()
    );
    let with = Interpreter::new(&f).with_conntrack_in_use();
    assert!(
        !with.evaluate_journey(&p, JourneyKind::Forward, &mut AlwaysFalseOracle).hits.is_empty()
    );
}

#[test]
fn notrack_alone_does_not_use_conntrack() {
    let notrack = firewall("*raw\n-A PREROUTING -j CT --notrack\nCOMMIT\n");
    assert!(!Interpreter::new(&notrack).is_conntrack_used_by_family(weir_model::Family::V4));
    let state = filter("-A FORWARD -m conntrack --ctstate NEW\n");
    assert!(Interpreter::new(&state).is_conntrack_used_by_family(weir_model::Family::V4));
    assert!(!Interpreter::new(&state).is_conntrack_used_by_family(weir_model::Family::V6));
}

#[test]
#[should_panic(expected = "nowhere")]
fn a_jump_to_a_missing_chain_panics() {
    let mut f = filter("-A FORWARD -j DROP\n");
    let mut base = Chain::new("FORWARD", Some(Policy::Accept));
    base.rules.push(Rule::unconditional(Target::Jump("nowhere".into())));
    *chains(&mut f) = vec![base];
    let _ = Interpreter::new(&f);
}

#[test]
fn a_policy_after_goto_is_that_of_the_built_in_chain() {
    let firewall = firewall(
        "*filter\n:FORWARD DROP [0:0]\n:list - [0:0]\n-A FORWARD -p tcp -g list\n\
         -A list -s 192.0.2.1/32 -j ACCEPT\nCOMMIT\n",
    );
    let interpreter = Interpreter::new(&firewall);
    let packet = packet("ip saddr 198.51.100.7 ip daddr 203.0.113.9 tcp dport 80");
    let trace = trace_journey(&interpreter, &packet, JourneyKind::Forward, &mut SeededOracle(1));
    let policies: Vec<&str> = trace
        .steps
        .iter()
        .filter_map(|step| match step {
            TraceStep::LeaveTable { chain, policy: true, .. } => Some(&***chain),
            _ => None,
        })
        .collect();
    assert_eq!(policies, ["FORWARD"]);
}

/// A target writes the mark, and so does a match of a rule that fails behind it.
#[test]
fn a_trace_has_the_packet_as_each_failing_rule_saw_it() {
    let firewall = firewall(
        "*mangle\n:PREROUTING ACCEPT [0:0]\n\
         -A PREROUTING -m mark --mark 0x1 -j DROP\n\
         -A PREROUTING -j MARK --set-xmark 0x2/0xffffffff\n\
         -A PREROUTING -m mark --mark 0x1 -j DROP\n\
         -A PREROUTING -m socket --restore-skmark -m mark --mark 0x1 -j DROP\n\
         -A PREROUTING -m mark --mark 0x1 -j DROP\nCOMMIT\n",
    );
    let interpreter = Interpreter::new(&firewall);
    let packet = packet("ip saddr 198.51.100.7 ip daddr 203.0.113.9 tcp dport 80");
    let mut marks_written_by_socket = 0;
    for seed in 0..8 {
        let mut answers = SeededOracle(seed);
        let trace = trace_journey(&interpreter, &packet, JourneyKind::Forward, &mut answers);
        let failed = trace.steps.iter().filter_map(|step| match step {
            TraceStep::TryRule { failed, .. } => failed.as_ref(),
            _ => None,
        });
        let seen: Vec<u32> = failed.map(|failed| failed.packet.mark).collect();
        let last = trace.outcome.packet.mark;
        assert_eq!(seen, [0, 2, last, last], "seed {seed}");
        marks_written_by_socket += usize::from(last != 2);
    }
    assert!(marks_written_by_socket > 1, "the socket match wrote no mark");
}
