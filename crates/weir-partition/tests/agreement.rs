//! Boxes of random runs against the interpreter, packet by packet.

use weir_model::{Family, Firewall, Hook, Packet, Policy, Ruleset, TableName, Target};
use weir_partition::{BoxBudget, BoxDecision, BoxLowering, PartitionError, RunBox, partition_run};
use weir_semantics::{AlwaysFalseOracle, Interpreter, Verdict};
use weir_syntax::iptables::ParserSettings;
use weir_testkit::random_ruleset::{self, RulesetShape, TestRng};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

/// A filter table with one chain, whose rules are a run of a random chain. Jumps become counters,
/// so that what is listed is what counts.
fn run_of(seed: u64) -> Firewall {
    let mut rng = TestRng::new(seed);
    let shape = RulesetShape {
        all_tables: false,
        opaque_matches: false,
        ..RulesetShape::random(&mut rng, 12)
    };
    let text = random_ruleset::generate_ruleset(seed, &shape);
    let family = if shape.v6 { Family::V6 } else { Family::V4 };
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    let read = weir_syntax::iptables::parse(&text, &options);
    let mut ruleset: Ruleset = read.unwrap_or_else(|e| panic!("seed {seed}: {e:?}\n{text}"));
    let table = ruleset.tables.iter_mut().find(|t| t.name == TableName::Filter).expect("a filter");
    let longest = table.chains.iter().max_by_key(|c| c.rules.len()).cloned().expect("a chain");
    for chain in &mut table.chains {
        chain.rules.clear();
        if &*chain.name == "FORWARD" {
            chain.policy = Some(Policy::Accept);
            chain.rules = longest.rules.clone();
            for rule in &mut chain.rules {
                match &rule.target {
                    Target::Jump(_) => rule.target = Target::None,
                    Target::Goto(_) => rule.target = Target::Return,
                    _ => {}
                }
            }
        }
    }
    match family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    }
}

/// The rules that count a packet in the chain, by index, and whether it is dropped.
fn walked(interpreter: &Interpreter<'_>, packet: &Packet) -> (Vec<usize>, bool) {
    let mut packet = packet.clone();
    let (verdict, log) = interpreter.walk_table(
        TableName::Filter,
        Hook::Forward,
        &mut packet,
        &mut AlwaysFalseOracle,
    );
    let rules = log.hits.iter().filter_map(|hit| hit.rule_or_policy_id(Family::V4)?.number);
    (rules.map(|n| n as usize - 1).collect(), verdict == Verdict::Drop)
}

fn said(run: &RunBox, targets: &[Target]) -> (Vec<usize>, bool) {
    let mut rules = run.rules_matched_before_decision.clone();
    let dropped = match run.decision {
        BoxDecision::DecidedByRule(rule) => {
            rules.push(rule);
            targets[rule] == Target::Drop
        }
        BoxDecision::TruncatedHeaderDrop(_) => true,
        BoxDecision::ContinueAfterRun => false,
    };
    (rules, dropped)
}

#[test]
fn every_packet_is_in_one_box_with_the_boxs_outcome() {
    let (mut compared, mut decided, mut cut, mut credited) = (0, 0, 0, 0);
    for seed in 0..150 {
        let mut firewall = run_of(seed);
        let own = firewall.clone();
        let ruleset = firewall.v4.as_mut().or(firewall.v6.as_mut()).expect("a ruleset");
        let context = own.v4.as_ref().or(own.v6.as_ref()).expect("a ruleset");
        let table = context.table(&TableName::Filter).expect("a filter");
        let mut lowering = BoxLowering::for_table(&own, context, table);
        let rules = &table.chain("FORWARD").expect("a chain").rules;
        let budget = BoxBudget::default();
        let boxes = partition_run(&mut lowering, rules, budget);
        let end = boxes.as_ref().map_or_else(|e| e.failing_rule(), |_| rules.len());
        let run = &rules[..end];
        let boxes = partition_run(&mut lowering, run, budget).expect("the rules before it fit");
        for (i, a) in boxes.iter().enumerate() {
            assert!(
                boxes[i + 1..].iter().all(|b| !a.packets.intersects(&b.packets)),
                "seed {seed}"
            );
        }
        let chains = ruleset.tables.iter_mut().flat_map(|t| &mut t.chains);
        chains.filter(|c| &*c.name == "FORWARD").for_each(|c| c.rules.truncate(end));
        let ruleset = ruleset.clone();
        let interpreter = Interpreter::new(&firewall);
        let targets: Vec<Target> = run.iter().map(|r| r.target.clone()).collect();
        let options = TrafficOptions { max_packets: 400, seed, ..TrafficOptions::default() };
        for packet in generate_boundary_and_random_packets(&ruleset, &[], &options) {
            let point = lowering.box_of_packet(&packet, &|_, _| false);
            let of: Vec<&RunBox> = boxes.iter().filter(|b| b.packets.covers(&point)).collect();
            let [one] = of[..] else {
                panic!("seed {seed}: {} boxes hold {packet:?}", of.len());
            };
            let (is, expected) = (said(one, &targets), walked(&interpreter, &packet));
            assert_eq!(is, expected, "seed {seed}: {one:?} {packet:?}");
            compared += 1;
            decided += usize::from(matches!(one.decision, BoxDecision::DecidedByRule(_)));
            cut += usize::from(matches!(one.decision, BoxDecision::TruncatedHeaderDrop(_)));
            credited += one.rules_matched_before_decision.len();
        }
    }
    println!(
        "{compared} packets: {decided} decided, {cut} with a truncated header, {credited} credits"
    );
    assert!(compared > 10_000 && decided > 1000 && cut > 10 && credited > 100);
}

#[test]
fn every_device_matches_the_empty_prefix() {
    let text = "*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n\
                -A FORWARD -i eth1 -j ACCEPT\n-A FORWARD ! -i + -j DROP\nCOMMIT\n";
    let ruleset =
        weir_syntax::iptables::parse(text, &ParserSettings::default()).expect("a ruleset");
    let firewall = Firewall { v4: Some(ruleset.clone()), ..Firewall::default() };
    let table = ruleset.table(&TableName::Filter).expect("a filter");
    let rules = &table.chain("FORWARD").expect("a chain").rules;
    let mut lowering = BoxLowering::for_table(&firewall, &ruleset, table);
    assert_eq!(lowering.lower_rule(&rules[1]).matched_boxes, []);
    let interpreter = Interpreter::new(&firewall);
    for device in ["", "eth1", "eth2"] {
        let mut packet = Packet::new(Family::V4, Default::default(), Default::default(), 17);
        packet.iif = device.to_owned();
        assert!(!walked(&interpreter, &packet).1, "{device}");
    }
}

#[test]
fn an_exceeded_box_budget_names_the_rule() {
    let text = "*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n\
                -A FORWARD -s 10.0.0.0/8 -j ACCEPT\n-A FORWARD -d 10.0.0.0/8 -j DROP\n\
                -A FORWARD -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
    let ruleset =
        weir_syntax::iptables::parse(text, &ParserSettings::default()).expect("a ruleset");
    let firewall = Firewall { v4: Some(ruleset.clone()), ..Firewall::default() };
    let table = ruleset.table(&TableName::Filter).expect("a filter");
    let rules = &table.chain("FORWARD").expect("a chain").rules;
    assert!(rules.iter().all(|r| r.target.leaves_chain()));
    let mut lowering = BoxLowering::for_table(&firewall, &ruleset, table);
    let all = partition_run(&mut lowering, rules, BoxBudget::default()).expect("a small run");
    let budget = |boxes| BoxBudget { boxes_max: boxes, ..BoxBudget::default() };
    assert_eq!(partition_run(&mut lowering, rules, budget(all.len())), Ok(all));
    let refused = partition_run(&mut lowering, rules, budget(7));
    assert_eq!(refused, Err(PartitionError::BudgetExceeded { rule: 2 }));
    let few = BoxBudget { comparisons_max: 2, ..BoxBudget::default() };
    assert_eq!(
        partition_run(&mut lowering, rules, few),
        Err(PartitionError::BudgetExceeded { rule: 1 })
    );
}
