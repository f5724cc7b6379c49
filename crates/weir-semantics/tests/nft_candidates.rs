//! Rules of a long nft chain that are skipped could not have matched: the same rules in short
//! chains, in which none is skipped, do the same.

use weir_model::nft::{
    BaseChain, Chain, ChainKind, Comparand, CreditedRuleOrPolicy, ElementKeyPart, LoadExpression,
    MapKeyExpression, Rule, Ruleset, Statement, Table, Test, Verdict, VerdictMap,
    VerdictMapElement,
};
use weir_model::{Addr, Family, Hook, OriginalRuleIndex, Packet, Policy, TableName};
use weir_packet::Transport;
use weir_semantics::nft::{NftEvaluator, NftWalkEnd};
use weir_testkit::random_ruleset::TestRng;

const RULES: usize = 300;
/// Shorter than any chain in which rules are skipped.
const RULES_PER_SHORT_CHAIN: usize = 40;

fn random_address(rng: &mut TestRng) -> u128 {
    u128::from(0x0a00_0000 | (rng.next_u64() as u32 & 0xff))
}

fn random_test(rng: &mut TestRng) -> Test {
    let (expression, spans) = match rng.number_below(4) {
        0 | 1 => {
            let mask = [0, 0, 1, 7][rng.number_below(4)];
            let first = random_address(rng) & !mask;
            let side = rng.pick(&[LoadExpression::Saddr, LoadExpression::Daddr]);
            (side, vec![(first, first | mask)])
        }
        2 => {
            let first = rng.number_below(60) as u128;
            let side = rng.pick(&[LoadExpression::Sport, LoadExpression::Dport]);
            (side, vec![(first, first + 3), (first + 20, first + 20)])
        }
        _ => (LoadExpression::L4proto, vec![(6, 6)]),
    };
    Test { expression, comparand: Comparand::InSpans(spans), negated: rng.chance_percent(15) }
}

fn random_verdict(rng: &mut TestRng) -> Verdict {
    match rng.number_below(6) {
        0 => Verdict::Accept,
        1 => Verdict::Drop,
        _ => Verdict::Continue,
    }
}

/// Rules, and the maps and chains that they name.
struct RandomRules {
    rules: Vec<Rule>,
    maps: Vec<VerdictMap>,
    called_chains: Vec<Chain>,
}

/// A chain of a few rules, each with tests, a counter and a verdict.
fn random_called_chain(rng: &mut TestRng, number: u32) -> Chain {
    let rules = (0..1 + rng.number_below(3) as u32).map(|rule| {
        let tests = (0..1 + rng.number_below(2)).map(|_| Statement::Test(random_test(rng)));
        let mut statements: Vec<Statement> = tests.collect();
        let credited = OriginalRuleIndex(1000 + 10 * number + rule);
        statements.push(Statement::Counter(vec![CreditedRuleOrPolicy::Rule(credited)]));
        statements.push(Statement::Verdict(match rng.number_below(4) {
            0 => Verdict::Return,
            _ => random_verdict(rng),
        }));
        Rule { statements, comment: None }
    });
    Chain {
        rules: rules.collect(),
        name: format!("called{number}"),
        base: None,
        iptables_name_comment: None,
    }
}

fn random_rules(rng: &mut TestRng) -> RandomRules {
    let (mut rules, mut maps, mut called_chains) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..RULES as u32 {
        let credited = vec![CreditedRuleOrPolicy::Rule(OriginalRuleIndex(number))];
        if rng.chance_percent(25) {
            let called = random_called_chain(rng, number);
            let protocol = Test {
                expression: LoadExpression::L4proto,
                comparand: Comparand::InSpans(vec![(17, 17)]),
                negated: false,
            };
            let jump = Statement::Verdict(Verdict::Jump(called.name.clone()));
            rules.push(Rule { statements: vec![Statement::Test(protocol), jump], comment: None });
            called_chains.push(called);
            continue;
        }
        let mut statements: Vec<Statement> =
            (0..1 + rng.number_below(2)).map(|_| Statement::Test(random_test(rng))).collect();
        if rng.chance_percent(20) {
            let load = rng.pick(&[LoadExpression::Saddr, LoadExpression::Dport]);
            let key = vec![MapKeyExpression { expression: load, mask: None }];
            let mut elements = Vec::new();
            for n in 0..1 + rng.number_below(5) as u128 {
                let value =
                    if load == LoadExpression::Saddr { 0x0a00_0000 + 50 * n } else { 7 * n };
                elements.push(VerdictMapElement {
                    key: vec![ElementKeyPart::Span(value, value)],
                    credited_originals: credited.clone(),
                    verdict: random_verdict(rng),
                });
            }
            let name = format!("m{number}");
            statements.push(Statement::Vmap { key: key.clone(), map: name.clone() });
            maps.push(VerdictMap { name, key, has_intervals: false, elements });
        } else {
            statements.push(Statement::Counter(credited));
            statements.push(Statement::Verdict(random_verdict(rng)));
        }
        rules.push(Rule { statements, comment: None });
    }
    RandomRules { rules, maps, called_chains }
}

fn make_ruleset(random: &RandomRules, rules_per_chain: usize) -> Ruleset {
    let RandomRules { rules, maps, called_chains } = random;
    let parts: Vec<&[Rule]> = rules.chunks(rules_per_chain).collect();
    let mut chains = called_chains.clone();
    for (number, part) in parts.iter().enumerate().rev() {
        let mut rules = part.to_vec();
        if number + 1 < parts.len() {
            let goto = Statement::Verdict(Verdict::Goto(format!("part{}", number + 1)));
            rules.push(Rule { statements: vec![goto], comment: None });
        }
        let base = BaseChain {
            kind: ChainKind::Filter,
            hook: Hook::Forward,
            priority: 0,
            policy: Policy::Accept,
        };
        chains.push(Chain {
            name: format!("part{number}"),
            base: (number == 0).then_some(base),
            iptables_name_comment: None,
            rules,
        });
    }
    let table = Table {
        family: Family::V4,
        name: "weir_filter".to_owned(),
        iptables_table: TableName::Filter,
        maps: maps.clone(),
        chains,
    };
    Ruleset { tables: vec![table] }
}

#[test]
fn skipped_rules_could_not_have_matched() {
    let (mut with_matches, mut packets) = (0, 0);
    for seed in 0..30 {
        let mut rng = TestRng::new(seed);
        let random = random_rules(&mut rng);
        let [long, short] =
            [RULES, RULES_PER_SHORT_CHAIN].map(|length| make_ruleset(&random, length));
        let evaluators = [&long, &short].map(NftEvaluator::new);
        for _ in 0..100 {
            let [saddr, daddr] = [(); 2].map(|()| Addr(random_address(&mut rng)));
            let proto = rng.pick(&[6, 17, 1]);
            let mut packet = Packet::new(Family::V4, saddr, daddr, proto);
            let [sport, dport] = [(); 2].map(|()| rng.number_below(90) as u16);
            if proto == 17 {
                packet.transport = Transport::Udp { sport, dport };
            }
            packet.fragment.offset = rng.pick(&[0, 0, 0, 185]);
            let [long, short] = evaluators.each_ref().map(|evaluator| {
                let mut packet = packet.clone();
                let (table, hook) = (TableName::Filter, Hook::Forward);
                let walk = evaluator.walk_base_chain(table, hook, &mut packet, &mut |_, _| false);
                walk.expect("the base chain is there")
            });
            assert_eq!(long.end, short.end, "seed {seed}: {packet:?}");
            assert_eq!(
                long.credited_originals, short.credited_originals,
                "seed {seed}: {packet:?}"
            );
            with_matches += usize::from(!long.credited_originals.is_empty());
            packets += 1;
        }
    }
    assert!(with_matches > packets / 2, "{with_matches} of {packets} match something");
}

#[test]
fn a_packet_that_enters_nft_chains_without_end_is_not_followed() {
    let jump = |to: usize| Rule {
        statements: vec![Statement::Verdict(Verdict::Jump(format!("c{to}")))],
        comment: None,
    };
    let walk = |levels: usize| {
        let chain = |level: usize| Chain {
            name: format!("c{level}"),
            base: (level == 0).then_some(BaseChain {
                hook: Hook::Forward,
                kind: ChainKind::Filter,
                priority: 0,
                policy: Policy::Drop,
            }),
            iptables_name_comment: None,
            rules: if level < levels { vec![jump(level + 1), jump(level + 1)] } else { vec![] },
        };
        let table = Table {
            family: Family::V4,
            name: "weir_filter".to_owned(),
            iptables_table: TableName::Filter,
            maps: Vec::new(),
            chains: (0..=levels).map(chain).collect(),
        };
        let ruleset = Ruleset { tables: vec![table] };
        let mut packet = Packet::new(Family::V4, Addr(1), Addr(2), 17);
        NftEvaluator::new(&ruleset)
            .walk_base_chain(TableName::Filter, Hook::Forward, &mut packet, &mut |_, _| false)
            .expect("there is a base chain")
            .end
    };
    assert_eq!(walk(10), NftWalkEnd::Drop);
    assert_eq!(walk(40), NftWalkEnd::Unknown);
}
