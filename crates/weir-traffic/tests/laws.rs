//! Properties of every ruleset: small random ones, and packets on and around their boundaries.

use proptest::prelude::*;
use weir_model::rule_match::{AddrMatch, Negatable, ProtoMatch, StatefulMatch};
use weir_model::target::Effect;
use weir_model::{
    Addr, Chain, Family, FieldReading, Firewall, Match, OriginalRuleIndex, Packet, Policy,
    PortSpan, Rule, Ruleset, Table, TableName, Target, Test, lower_to_tests,
};
use weir_semantics::{
    CountedObject, Interpreter, OutcomeDifference, RuleAnswersTrueOracle, SeededOracle,
};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

/// What a random rule tests.
fn tests() -> impl Strategy<Value = Rule> {
    let addr = (any::<bool>(), 0u128..4, 30u32..=32).prop_map(|(negated, host, len)| {
        let mask = Family::V4.netmask(len);
        AddrMatch { negated, addr: Addr((0xc000_0200 + host) & mask), mask: Addr(mask) }
    });
    let proto = (any::<bool>(), prop_oneof![Just(6u8), Just(17)]);
    let port = (any::<bool>(), 20u16..24, 0u16..3).prop_map(|(negated, lo, more)| {
        let value = PortSpan { lo, hi: lo + more };
        Match::Tcp {
            sport: None,
            dport: Some(Negatable { negated, value }),
            flags: None,
            option: None,
        }
    });
    let limit = Just(Match::Stateful(Box::new(StatefulMatch { module: "limit", options: vec![] })));
    let other = prop_oneof![3 => port, 1 => limit];
    let parts = (proptest::option::of(addr), proptest::option::of(proto), any::<bool>());
    (parts, proptest::option::of(other)).prop_map(|((addr, proto, source), other)| {
        let mut rule = Rule::unconditional(Target::None);
        if source {
            rule.base.saddr = addr;
        } else {
            rule.base.daddr = addr;
        }
        rule.base.proto = proto.map(|(negated, proto)| ProtoMatch { negated, proto });
        if let Some(m) = other {
            // As iptables has it: a port match needs its protocol.
            if matches!(m, Match::Tcp { .. }) {
                rule.base.proto = Some(ProtoMatch { negated: false, proto: 6 });
            }
            rule.matches.push(m);
        }
        rule
    })
}

fn target(chains_below: usize) -> impl Strategy<Value = Target> {
    let mark = (0u32..4).prop_map(|value| {
        Target::Effect(Box::new(Effect::Mark { xor_value: value, clear_mask: 0xff }))
    });
    let chain = move |n: usize| format!("c{}", n % chains_below.max(1));
    let mut targets = vec![
        (2, Just(Target::None).boxed()),
        (3, Just(Target::Accept).boxed()),
        (3, Just(Target::Drop).boxed()),
        (2, Just(Target::Return).boxed()),
        (1, mark.boxed()),
    ];
    if chains_below > 0 {
        targets.push((4, any::<usize>().prop_map(move |n| Target::Jump(chain(n).into())).boxed()));
        targets.push((1, any::<usize>().prop_map(move |n| Target::Goto(chain(n).into())).boxed()));
    }
    proptest::strategy::Union::new_weighted(targets)
}

fn rules(chains_below: usize) -> impl Strategy<Value = Vec<Rule>> {
    let rule = (tests(), target(chains_below)).prop_map(|(rule, target)| Rule { target, ..rule });
    proptest::collection::vec(rule, 0..5)
}

/// FORWARD jumps to c0..c2, c2 to c0 and c1, c1 to c0.
fn firewall() -> impl Strategy<Value = Firewall> {
    (rules(3), rules(0), rules(1), rules(2), any::<bool>()).prop_map(|(base, a, b, c, drop)| {
        let policy = if drop { Policy::Drop } else { Policy::Accept };
        let mut table = Table {
            name: TableName::Filter,
            chains: vec![
                Chain::new("FORWARD", Some(policy)),
                Chain::new("c0", None),
                Chain::new("c1", None),
                Chain::new("c2", None),
            ],
            leading_comments: Vec::new(),
            trailing_comments: Vec::new(),
        };
        for (chain, rules) in table.chains.iter_mut().zip([base, a, b, c]) {
            chain.rules = rules;
        }
        let all = table.chains.iter_mut().flat_map(|c| &mut c.rules);
        all.zip(0..).for_each(|(rule, id)| {
            rule.credited_originals = [OriginalRuleIndex(id)].into_iter().collect()
        });
        let mut ruleset = Ruleset::new(Family::V4);
        ruleset.tables.push(table);
        Firewall { v4: Some(ruleset), v6: None, sets: Vec::new() }
    })
}

fn chains(firewall: &mut Firewall) -> &mut Vec<Chain> {
    &mut firewall.v4.as_mut().expect("a v4 ruleset").tables[0].chains
}

/// FORWARD with one rule that counts.
fn one_rule(rule: Rule) -> Firewall {
    let mut forward = Chain::new("FORWARD", Some(Policy::Accept));
    forward
        .rules
        .push(Rule { credited_originals: [OriginalRuleIndex(0)].into_iter().collect(), ..rule });
    let mut ruleset = Ruleset::new(Family::V4);
    ruleset.tables.push(Table {
        name: TableName::Filter,
        chains: vec![forward],
        leading_comments: Vec::new(),
        trailing_comments: Vec::new(),
    });
    Firewall { v4: Some(ruleset), v6: None, sets: Vec::new() }
}

/// The definition, without an index or a view: field by field, opaque tests hold.
fn holds(rule: &Rule, packet: &Packet) -> bool {
    lower_to_tests(rule, packet.family).iter().all(|test| match test {
        Test::Field { field, predicate, negated } => match field.read(packet) {
            FieldReading::Value(v) => predicate.holds_for_value(v) != *negated,
            FieldReading::Absent | FieldReading::Truncated => false,
        },
        Test::Opaque { .. } => true,
        other => panic!("no rule here has {other:?}"),
    })
}

/// The first packet whose outcome differs, and how.
fn difference(a: &Firewall, b: &Firewall) -> Option<(Packet, OutcomeDifference)> {
    let (before, after) = (Interpreter::new(a), Interpreter::new(b));
    let options = TrafficOptions { max_packets: 400, ..TrafficOptions::default() };
    let ruleset = a.v4.as_ref().expect("a v4 ruleset");
    generate_boundary_and_random_packets(ruleset, &[], &options).into_iter().find_map(|p| {
        let one = before.evaluate_journey(&p, options.journey_kind, &mut SeededOracle(7));
        let other = after.evaluate_journey(&p, options.journey_kind, &mut SeededOracle(7));
        one.first_difference(&other).map(|d| (p, d))
    })
}

/// Nothing is written to the sources' folder; a failure prints its ruleset.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn return_at_the_end_of_a_user_chain_changes_nothing(before in firewall()) {
        let mut after = before.clone();
        for chain in &mut chains(&mut after)[1..] {
            chain.rules.push(Rule::unconditional(Target::Return));
        }
        prop_assert_eq!(difference(&before, &after), None);
    }

    #[test]
    fn an_unconditional_jump_equals_the_inlined_chain(
        mut before in firewall(),
    ) {
        // A return would leave the caller, a stateful match would be another one.
        let c0 = &mut chains(&mut before)[1];
        c0.rules.retain(|r| r.target != Target::Return);
        let inlined = c0.rules.clone();
        let mut jump = Rule::unconditional(Target::Jump("c0".into()));
        jump.credited_originals.clear();
        let mut after = before.clone();
        chains(&mut before)[0].rules.insert(0, jump);
        for rule in inlined.into_iter().rev() {
            chains(&mut after)[0].rules.insert(0, rule);
        }
        prop_assert_eq!(difference(&before, &after), None);
    }

    #[test]
    fn a_rule_after_an_unconditional_verdict_is_never_reached(before in firewall()) {
        let mut after = before.clone();
        let mut with_end = before;
        chains(&mut with_end)[0].rules.push(Rule::unconditional(Target::Accept));
        chains(&mut after)[0].rules.push(Rule::unconditional(Target::Accept));
        chains(&mut after)[0].rules.push(Rule::unconditional(Target::Drop));
        prop_assert_eq!(difference(&with_end, &after), None);
    }

    #[test]
    fn a_goto_at_the_end_of_a_user_chain_is_a_jump(mut before in firewall()) {
        let mut after = before.clone();
        chains(&mut before)[2].rules.push(Rule::unconditional(Target::Goto("c0".into())));
        chains(&mut after)[2].rules.push(Rule::unconditional(Target::Jump("c0".into())));
        prop_assert_eq!(difference(&before, &after), None);
    }

    #[test]
    fn a_policy_is_a_rule_at_the_end(mut before in firewall()) {
        // A policy counts packets that return in the built-in chain, a rule does not.
        let base = &mut chains(&mut before)[0];
        base.rules.retain(|r| !matches!(r.target, Target::Return | Target::Goto(_)));
        let mut after = before.clone();
        let base = &mut chains(&mut after)[0];
        let policy = if base.policy == Some(Policy::Drop) { Target::Drop } else { Target::Accept };
        base.rules.push(Rule::unconditional(policy));
        let found = difference(&before, &after);
        prop_assert!(matches!(found, None | Some((_, OutcomeDifference::Credit))), "{found:?}");
    }

    #[test]
    fn a_rule_matches_iff_all_its_tests_hold(rule in tests()) {
        let mut firewall = one_rule(rule);
        let rule = chains(&mut firewall)[0].rules[0].clone();
        let interpreter = Interpreter::new(&firewall);
        let options = TrafficOptions { max_packets: 300, ..TrafficOptions::default() };
        for p in generate_boundary_and_random_packets(firewall.v4.as_ref().expect("v4"), &[], &options) {
            let mut oracle = RuleAnswersTrueOracle;
            let outcome = interpreter.evaluate_journey(&p, options.journey_kind, &mut oracle);
            let hit = outcome.hits.iter().any(|h| *h.credited_originals == *rule.credited_originals);
            prop_assert_eq!(hit, holds(&rule, &p), "{:?}", p);
        }
    }

    #[test]
    fn changing_a_verdict_is_caught(before in firewall()) {
        let mut after = before.clone();
        let base = &mut chains(&mut after)[0];
        base.policy = Some(match base.policy {
            Some(Policy::Drop) => Policy::Accept,
            _ => Policy::Drop,
        });
        let interpreter = Interpreter::new(&before);
        let options = TrafficOptions { max_packets: 400, ..TrafficOptions::default() };
        let all = generate_boundary_and_random_packets(before.v4.as_ref().expect("v4"), &[], &options);
        let reaches = all.iter().any(|p| {
            let kind = options.journey_kind;
            let outcome = interpreter.evaluate_journey(p, kind, &mut SeededOracle(7));
            outcome.hits.iter().any(|h| matches!(h.counted_object, CountedObject::Policy { .. }))
        });
        let found = difference(&before, &after);
        prop_assert_eq!(matches!(found, Some((_, OutcomeDifference::Verdict))), reaches);
    }

    #[test]
    fn the_same_seed_makes_the_same_packets(firewall in firewall()) {
        let ruleset = firewall.v4.as_ref().expect("v4");
        let options = TrafficOptions { max_packets: 200, ..TrafficOptions::default() };
        let all = generate_boundary_and_random_packets(ruleset, &[], &options);
        prop_assert_eq!(&all, &generate_boundary_and_random_packets(ruleset, &[], &options));
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        prop_assert_eq!(distinct.len(), all.len());
    }
}
