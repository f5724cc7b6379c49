//! Chains to which only some packets of a cell jump: what lists of their rules prove is equal as a
//! whole, and lists prove it without diagrams.

use weir_model::{Chain, Firewall, Match, Rule, Ruleset, SharedName, Target};
use weir_testkit::random_ruleset::TestRng;

use crate::agreement_tests::generate_random_ruleset;
use crate::agreement_tests::lockstep_agreement_tests::{
    LockstepCounts, assert_lockstep_agrees_on_all_journeys, change_a_rule,
};
use crate::agreement_tests::lockstep_ipset_agreement_tests::is_forward_journey_proven_in_lockstep;
use crate::agreement_tests::sequence_agreement_tests::parse_firewall_if_valid;
use crate::agreement_tests::slice_agreement_tests::add_random_base_tests;
use crate::comparison_types::CompareOptions;

/// Steps with which lists of a few rules are compared, but no diagram of a port is built.
const STEPS_TOO_FEW_FOR_DIAGRAMS: u64 = 12;

/// Makes a chain of a rule, or of it and of one with a further test before it, to which packets
/// jump that pass its tests. `before` gets the rule with the further test, too.
fn rewrite_random_rule_as_guarded_chain(
    [before, after]: [&mut Ruleset; 2],
    rng: &mut TestRng,
) -> Option<()> {
    let places: Vec<[usize; 3]> = (0..after.tables.len())
        .flat_map(|table| (0..after.tables[table].chains.len()).map(move |chain| [table, chain]))
        .flat_map(|[table, chain]| {
            let rules = &after.tables[table].chains[chain].rules;
            (0..rules.len()).map(move |number| [table, chain, number])
        })
        .collect();
    if places.is_empty() {
        return None;
    }
    let [table, chain, number] = rng.pick(&places);
    let name = |rng: &mut TestRng| SharedName::from(format!("g{}", rng.next_u64() % 1_000_000));
    let rule = after.tables[table].chains[chain].rules[number].clone();
    let callee = name(rng);
    let jump = match rng.chance_percent(20) {
        true => Target::Goto(callee.clone()),
        false => Target::Jump(callee.clone()),
    };
    let jump = Rule { target: jump, ..rule.clone() };
    let mut called = Vec::new();
    if rng.chance_percent(50) {
        let text = rng.pick(&["-m ttl --ttl-lt 5", "-m length --length 40:60", "-s 10.0.1.0/24"]);
        let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD {text} -j DROP\nCOMMIT\n");
        let further = parse_firewall_if_valid(&text)?.v4?;
        let further = further.tables[0].chain("FORWARD")?.rules[0].clone();
        let mut first = rule.clone();
        first.base.saddr = first.base.saddr.or(further.base.saddr);
        first.matches.extend(further.matches.clone());
        first.target = [Target::Accept, Target::Drop, Target::Return][rng.number_below(3)].clone();
        called.push(match rng.chance_percent(50) {
            true => first.clone(),
            false => Rule { base: further.base.clone(), matches: further.matches, ..first.clone() },
        });
        before.tables[table].chains[chain].rules.insert(number, first);
    }
    let last = match rng.chance_percent(50) {
        true => rule.clone(),
        false => Rule::unconditional(rule.target.clone()),
    };
    let chains = &mut after.tables[table].chains;
    match rng.chance_percent(40) {
        true => {
            let ending = name(rng);
            called.push(Rule { target: Target::Goto(ending.clone()), ..last.clone() });
            let rules = vec![Rule::unconditional(last.target)];
            chains.push(Chain { rules, ..Chain::new(ending, None) });
        }
        false => called.push(last),
    }
    chains.push(Chain { rules: called, ..Chain::new(callee, None) });
    chains[chain].rules[number] = jump;
    Some(())
}

/// Whether a rule without matches that may drop a packet tests another destination port than the
/// options of a rule.
fn is_destination_port_excluded(rule: &Rule, options: &str) -> bool {
    let port = match options {
        "--dport 80" => 80,
        "--dport 443" => 443,
        _ => return false,
    };
    match &rule.matches[..] {
        [
            Match::Tcp { dport: Some(test), option: None, .. }
            | Match::Udp { dport: Some(test), .. },
        ] => (test.value.lo..=test.value.hi).contains(&port) == test.negated,
        _ => false,
    }
}

/// Enters a copy of a chain of `after` for some ports: the rules that these may match.
fn rewrite_random_chain_as_tree_of_ports(after: &mut Ruleset, rng: &mut TestRng) -> Option<()> {
    let chains: Vec<[usize; 2]> = (0..after.tables.len())
        .flat_map(|table| (0..after.tables[table].chains.len()).map(move |chain| [table, chain]))
        .filter(|[table, chain]| !after.tables[*table].chains[*chain].rules.is_empty())
        .collect();
    if chains.is_empty() {
        return None;
    }
    let [table, chain] = rng.pick(&chains);
    let chains = &mut after.tables[table].chains;
    let rules = chains[chain].rules.clone();
    let mut gotos = Vec::new();
    for port in ["--dport 80", "--dport 443", "--sport 53", "--dport 22:100"] {
        if rng.chance_percent(50) {
            continue;
        }
        let protocol = rng.pick(&["tcp", "udp"]);
        let callee = SharedName::from(format!("p{}", rng.next_u64() % 1_000_000));
        let text = format!(
            "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p {protocol} -m {protocol} {port} -j DROP\nCOMMIT\n"
        );
        let test = parse_firewall_if_valid(&text)?.v4?.tables[0].chain("FORWARD")?.rules[0].clone();
        let may_match = |rule: &&Rule| {
            let is_other_protocol =
                rule.base.proto.is_some_and(|of| !of.negated && Some(of) != test.base.proto);
            !is_other_protocol && !is_destination_port_excluded(rule, port)
        };
        let rules = rules.iter().filter(may_match).cloned().collect();
        chains.push(Chain { rules, ..Chain::new(callee.clone(), None) });
        gotos.push(Rule { target: Target::Goto(callee), ..test });
    }
    chains[chain].rules.splice(0..0, gotos);
    Some(())
}

/// Rules for services, in a random order, and a chain for each in another order.
fn append_services_as_rules_and_as_chains(
    [before, after]: [&mut Ruleset; 2],
    rng: &mut TestRng,
) -> Option<()> {
    let services = [
        "-p tcp -m tcp --dport 80 -m tcp ! --tcp-flags ACK NONE",
        "-p tcp -m tcp --dport 81",
        "-p tcp -m tcp --dport 443 -m ttl --ttl-lt 5",
        "-p udp -m udp --dport 53",
        "-p udp -m multiport --dports 54",
        "-p tcp -m multiport --ports 22,90:95",
    ];
    // They may drop packets of other services, so that their place matters.
    let dropping_services = [
        "-p tcp -m tcpmss --mss 1:100 -m tcp --dport 8080",
        "-p tcp -m tcp --tcp-option 2 -m multiport --dports 25",
    ];
    let dropping_services = dropping_services.into_iter().filter(|_| rng.chance_percent(20));
    let services: Vec<&str> = services.into_iter().chain(dropping_services).collect();
    let mut text = String::from("*filter\n:FORWARD ACCEPT [0:0]\n");
    for service in services {
        let target = rng.pick(&["ACCEPT", "DROP", "REJECT"]);
        text += &format!("-A FORWARD {service} -j {target}\n");
    }
    text += "COMMIT\n";
    let rules = parse_firewall_if_valid(&text)?.v4?.tables[0].chain("FORWARD")?.rules.clone();
    let table = |ruleset: &Ruleset| {
        let is_filter = |table: &weir_model::Table| table.chain("FORWARD").is_some();
        ruleset.tables.iter().position(is_filter)
    };
    let chain = |ruleset: &mut Ruleset, table: usize| {
        ruleset.tables[table].chains.iter_mut().position(|chain| &*chain.name == "FORWARD")
    };
    let (old, new) = (table(before)?, table(after)?);
    let (old_chain, new_chain) = (chain(before, old)?, chain(after, new)?);
    before.tables[old].chains[old_chain].rules.extend(rules.iter().cloned());
    let mut order: Vec<usize> = (0..rules.len()).collect();
    for at in 1..order.len() {
        order.swap(at, rng.number_below(at + 1));
    }
    for number in order {
        let rule = rules[number].clone();
        let callee = SharedName::from(format!("service{number}"));
        let last = Rule::unconditional(rule.target.clone());
        let jump = Rule { target: Target::Jump(callee.clone()), ..rule };
        let chains = &mut after.tables[new].chains;
        chains.push(Chain { rules: vec![last], ..Chain::new(callee, None) });
        chains[new_chain].rules.push(jump);
    }
    Some(())
}

fn compare_guarded_chains_with_diagrams(seeds: std::ops::Range<u64>) -> LockstepCounts {
    let mut counts = LockstepCounts::default();
    for seed in seeds {
        let mut rng = TestRng::new(seed ^ 0x9_0a2d);
        let text = add_random_base_tests(&generate_random_ruleset(seed), &mut rng);
        let Some(mut before) = parse_firewall_if_valid(&text) else { continue };
        let mut after = before.clone();
        let (Some(old), Some(new)) = (&mut before.v4, &mut after.v4) else { continue };
        let rewritten = match rng.number_below(3) {
            0 => append_services_as_rules_and_as_chains([&mut *old, &mut *new], &mut rng),
            1 => rewrite_random_chain_as_tree_of_ports(new, &mut rng),
            _ => rewrite_random_rule_as_guarded_chain([&mut *old, &mut *new], &mut rng),
        };
        if rewritten.is_none() {
            continue;
        }
        if rng.chance_percent(50) {
            change_a_rule(new, &mut rng);
        }
        let options = CompareOptions {
            exclude_unreadable_headers: rng.chance_percent(50),
            steps_max: 1_000_000,
            ..CompareOptions::default()
        };
        let firewalls = match rng.chance_percent(50) {
            true => [&before, &after],
            false => [&after, &before],
        };
        let description = format!("seed {seed}\n{before:?}");
        assert_lockstep_agrees_on_all_journeys(firewalls, &options, &mut counts, &description);
    }
    counts
}

#[test]
fn proofs_of_guarded_chains_agree_with_whole_diagrams() {
    let counts = compare_guarded_chains_with_diagrams(0..400);
    println!("{counts:?}");
    assert!(counts.proven > 300, "{counts:?}");
    assert!(counts.differing > 100, "{counts:?}");
}

#[test]
#[ignore = "minutes: for changes of the proof"]
fn proofs_of_guarded_chains_agree_with_whole_diagrams_for_many_seeds() {
    let counts = compare_guarded_chains_with_diagrams(400..20_000);
    println!("{counts:?}");
    assert!(counts.proven > 10_000 && counts.differing > 5_000, "{counts:?}");
}

/// A firewall of rules of FORWARD and of the chains `c` and `d`; `c: ` alone is an empty chain.
fn firewall(rules: &str) -> Firewall {
    let lines: String = rules
        .split("; ")
        .filter(|rule| !rule.is_empty())
        .map(|rule| match rule.split_once(": ") {
            Some((_, "")) => String::new(),
            Some((chain @ ("c" | "d"), rule)) => format!("-A {chain} {rule}\n"),
            _ => format!("-A FORWARD {rule}\n"),
        })
        .collect();
    // Chains of the same name would be compared, and use steps.
    let chains = ["c", "d"].into_iter().filter(|chain| rules.contains(&format!("{chain}: ")));
    let chains: String = chains.map(|chain| format!(":{chain} - [0:0]\n")).collect();
    let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{chains}{lines}COMMIT\n");
    let mut firewall =
        parse_firewall_if_valid(&text).unwrap_or_else(|| panic!("a good ruleset: {text}"));
    // Credit would divide lists into sections, which are compared first, and use steps.
    let tables = firewall.v4.iter_mut().flat_map(|ruleset| &mut ruleset.tables);
    let rules = tables.flat_map(|table| &mut table.chains).flat_map(|chain| &mut chain.rules);
    rules.for_each(|rule| rule.credited_originals.clear());
    firewall
}

/// Two lists of rules, and whether they are equal for all packets, and for those with whole headers.
type RuleListPairCase = (&'static str, &'static str, bool, bool);

const RULE_LIST_PAIR_CASES: [RuleListPairCase; 38] = [
    // The tests of the jump are those of the rules of the chain.
    ("-p tcp -m tcp --dport 80 -j DROP", "-p tcp -m tcp --dport 80 -j c; c: -j DROP", true, true),
    ("-p tcp -m tcp --dport 80 -j DROP", "-p tcp -m tcp --dport 81 -j c; c: -j DROP", false, false),
    (
        "-p tcp -m tcp --dport 80 -m ttl --ttl-lt 5 -j DROP",
        "-p tcp -m tcp --dport 80 -j c; c: -m ttl --ttl-lt 5 -j d; d: -j DROP",
        true,
        true,
    ),
    // RETURN, and a goto to a chain that packets leave.
    (
        "-p tcp -m tcp --dport 80 -j DROP",
        "-p tcp -m tcp --dport 80 -j c; c: -m ttl --ttl-lt 5 -j RETURN; c: -j DROP",
        false,
        false,
    ),
    ("-p tcp -m tcp --dport 80 -j DROP", "-p tcp -m tcp --dport 80 -g c; c: -j DROP", true, true),
    (
        "-p tcp -m tcp --dport 80 -j c; -j DROP; c: -m ttl --ttl-lt 5 -j ACCEPT",
        "-p tcp -m tcp --dport 80 -g d; -j DROP; d: -m ttl --ttl-lt 5 -j ACCEPT",
        false,
        false,
    ),
    // Services in another order.
    (
        "-p tcp -m tcp --dport 80 -j DROP; -p tcp -m tcp --dport 81 -j ACCEPT; -j DROP",
        "-p tcp -m tcp --dport 81 -j c; -p tcp -m tcp --dport 80 -j DROP; -j DROP; c: -j ACCEPT",
        true,
        true,
    ),
    (
        "-p udp -m multiport --dports 53 -j ACCEPT; -p udp -m udp --dport 67 -j DROP",
        "-p udp -m udp --dport 67 -j DROP; -p udp -m multiport --dports 53 -j ACCEPT",
        false,
        true,
    ),
    (
        "-p tcp -m tcp --dport 80 -j DROP; -p tcp -m tcp --dport 80:81 -j ACCEPT",
        "-p tcp -m tcp --dport 80:81 -j ACCEPT; -p tcp -m tcp --dport 80 -j DROP",
        false,
        false,
    ),
    (
        "-p tcp -m tcp --sport 80 -j DROP; -p tcp -m tcp --dport 81 -j ACCEPT",
        "-p tcp -m tcp --dport 81 -j ACCEPT; -p tcp -m tcp --sport 80 -j DROP",
        false,
        false,
    ),
    // Either port.
    (
        "-p udp -m multiport --ports 53,5353 -j DROP",
        "-p udp -j c; c: -p udp -m multiport --sports 53,5353 -j DROP; c: -p udp -m multiport --dports 53,5353 -j DROP",
        true,
        true,
    ),
    (
        "-p udp -m multiport --ports 53 -j DROP",
        "-p udp -m udp --sport 53 -j DROP; -p udp -m udp --dport 53 -j DROP",
        false,
        true,
    ),
    (
        "-p udp -m multiport ! --ports 53 -j DROP",
        "-p udp -m multiport ! --sports 53 -j DROP; -p udp -m multiport ! --dports 53 -j DROP",
        false,
        false,
    ),
    // One bit.
    ("-m connmark ! --mark 0x1/0x1 -j DROP", "-m connmark --mark 0x0/0x1 -j DROP", true, true),
    ("-m connmark ! --mark 0x1/0x1 -j DROP", "-m connmark --mark 0x1/0x1 -j DROP", false, false),
    ("-m mark ! --mark 0x1/0x3 -j DROP", "-m mark --mark 0x2/0x3 -j DROP", false, false),
    // Presence of the header.
    (
        "-p tcp -m tcp --dport 80 -m tcp -m ttl --ttl-lt 5 -j DROP",
        "-p tcp -m tcp --dport 80 -m ttl --ttl-lt 5 -j DROP",
        true,
        true,
    ),
    (
        "-p tcp -m multiport --dports 80 -m tcp -j ACCEPT",
        "-p tcp -m multiport --dports 80 -j ACCEPT",
        false,
        true,
    ),
    // Fragments.
    ("-p tcp ! -f -m tcp --dport 80 -j DROP", "-p tcp -m tcp --dport 80 -j DROP", false, true),
    ("-p tcp -f -j DROP", "-p tcp -j DROP", false, false),
    // Ports decide before addresses, and the cell is divided by both.
    (
        "-s 10.0.0.1 -p tcp -m tcp --dport 80 -m ttl --ttl-lt 5 -j DROP; -s 10.0.0.2 -p tcp -m tcp --dport 81 -j ACCEPT",
        "-p tcp -m tcp --dport 81 -j d; -p tcp -m tcp --dport 80 -j c; c: -s 10.0.0.1 -m ttl --ttl-lt 5 -j DROP; d: -s 10.0.0.2 -j ACCEPT",
        false,
        true,
    ),
    (
        "-s 10.0.0.1 -p tcp -m tcp --dport 80 -m ttl --ttl-lt 5 -j DROP; -s 10.0.0.2 -p tcp -m tcp --dport 81 -j ACCEPT",
        "-p tcp -m tcp --dport 81 -j d; -p tcp -m tcp --dport 80 -j c; c: -s 10.0.0.1 -m ttl --ttl-lt 5 -j DROP; d: -s 10.0.0.1 -j ACCEPT",
        false,
        false,
    ),
    (
        "-p udp -m udp --sport 53 --dport 53 -j DROP; -p udp -m udp --sport 53 -j ACCEPT",
        "-p udp -m udp --sport 53 -j c; c: -p udp -m udp --dport 53 -j DROP; c: -j ACCEPT",
        true,
        true,
    ),
    // A match that may drop the packet, whatever the tests after it.
    (
        "-p tcp -m tcpmss --mss 1:100 -m tcp --dport 80 -j DROP; -p tcp -m tcp --dport 22 -j ACCEPT",
        "-p tcp -m tcp --dport 22 -j ACCEPT; -p tcp -m tcpmss --mss 1:100 -m tcp --dport 80 -j DROP",
        false,
        false,
    ),
    (
        "-p tcp -m tcp --tcp-option 2 -m multiport --dports 80 -j DROP; -p tcp -m tcp --dport 22 -j ACCEPT",
        "-p tcp -m tcp --dport 22 -j ACCEPT; -p tcp -m tcp --tcp-option 2 -m multiport --dports 80 -j DROP",
        false,
        false,
    ),
    (
        "-p tcp -m tcpmss --mss 1:100 -m iprange --src-range 10.0.0.1-10.0.0.3 -j DROP; -s 10.0.0.9 -j ACCEPT",
        "-s 10.0.0.9 -j ACCEPT; -p tcp -m tcpmss --mss 1:100 -m iprange --src-range 10.0.0.1-10.0.0.3 -j DROP",
        false,
        false,
    ),
    // Without `! -f`, later fragments reach the match that may drop them or keeps state.
    (
        "-p tcp ! -f -m ttl --ttl-lt 5 -m tcp --dport 80 -j DROP",
        "-p tcp -m ttl --ttl-lt 5 -m tcp --dport 80 -j DROP",
        false,
        true,
    ),
    (
        "-p tcp ! -f -m tcpmss --mss 1:100 -m tcp --dport 80 -j DROP",
        "-p tcp -m tcpmss --mss 1:100 -m tcp --dport 80 -j DROP",
        false,
        false,
    ),
    (
        "-p tcp -m tcp --dport 80 -m tcpmss --mss 1:100 ! -f -j DROP",
        "-p tcp -m tcp --dport 80 -m tcpmss --mss 1:100 -j DROP",
        false,
        true,
    ),
    (
        "-p tcp ! -f -m tcpmss --mss 1:100 -m multiport --ports 80,81 -j c; c: -j DROP",
        "-p tcp -m tcpmss --mss 1:100 -m multiport --ports 80,81 -j c; c: -j DROP",
        false,
        false,
    ),
    (
        "-p udp ! -f -m hashlimit --hashlimit-upto 1/sec --hashlimit-mode srcip --hashlimit-name h -m udp --dport 53 -j ACCEPT",
        "-p udp -m hashlimit --hashlimit-upto 1/sec --hashlimit-mode srcip --hashlimit-name h -m udp --dport 53 -j ACCEPT",
        false,
        false,
    ),
    (
        "-p tcp ! -f -m limit --limit 1/sec -m tcp --dport 80 -j DROP",
        "-p tcp -m limit --limit 1/sec -m tcp --dport 80 -j DROP",
        false,
        false,
    ),
    // Packets without ports.
    ("-p tcp ! -f -j DROP", "-p tcp -j DROP", false, false),
    (
        "-p tcp ! -f -m tcp --dport 80 -j c; c: -p tcp ! -f -j DROP",
        "-p tcp -m tcp --dport 80 -j d; d: -p tcp -j DROP",
        false,
        true,
    ),
    (
        "-p tcp -m tcp ! --dport 80 -j DROP; -p tcp -j ACCEPT",
        "-p tcp -m tcp --dport 80 -j ACCEPT; -p tcp -j DROP",
        false,
        false,
    ),
    ("-p tcp -m tcp --dport 0:65535 -j DROP", "-p tcp -m tcp -j DROP", true, true),
    ("-p tcp -m tcp --dport 0:65535 -j DROP", "-p tcp -j DROP", false, false),
    // Addresses in a chain behind other tests are left to diagrams.
    (
        "-p tcp -m tcp --dport 80 -s 10.0.0.1 -j DROP; -p tcp -m tcp --dport 80 -j ACCEPT",
        "-p tcp -m tcp --dport 80 -s 10.0.0.1 -j c; -p tcp -m tcp --dport 80 -j ACCEPT; c: -j DROP",
        true,
        true,
    ),
];

#[test]
fn lists_are_proven_equal_exactly_if_they_are() {
    for (before, after, is_equal, is_equal_with_whole_headers) in RULE_LIST_PAIR_CASES {
        for (headers_are_whole, expected) in
            [(false, is_equal), (true, is_equal_with_whole_headers)]
        {
            let options = CompareOptions {
                exclude_unreadable_headers: headers_are_whole,
                ..CompareOptions::default()
            };
            let case = format!("{before} / {after}, whole headers {headers_are_whole}");
            let firewalls = [firewall(before), firewall(after)];
            for [a, b] in [[0, 1], [1, 0]] {
                let (a, b) = (&firewalls[a], &firewalls[b]);
                assert_eq!(
                    is_forward_journey_proven_in_lockstep(a, b, &options),
                    expected,
                    "{case}"
                );
                let few_steps =
                    CompareOptions { steps_max: STEPS_TOO_FEW_FOR_DIAGRAMS, ..options.clone() };
                assert_eq!(
                    is_forward_journey_proven_in_lockstep(a, b, &few_steps),
                    expected,
                    "{case}: by lists"
                );
            }
        }
    }
}

/// Rules with tests of TCP in a random order, without and with `! -f` in one of them.
fn random_rules_with_and_without_first_fragment_test(rng: &mut TestRng) -> [String; 2] {
    let tests = [
        "-m tcp --dport 80",
        "-m multiport --ports 80,81",
        "-m tcp --tcp-flags SYN,ACK SYN",
        "-m ttl --ttl-lt 5",
        "-m tcpmss --mss 1:100",
        "-m tcp --tcp-option 2",
        "-m limit --limit 1/sec",
        "-m addrtype --dst-type LOCAL",
        "-m mark --mark 0x1",
        "-m unknown --option",
        "-m set --match-set s src",
    ];
    let count = 1 + rng.number_below(2);
    let changed = rng.number_below(count);
    let mut lists = [Vec::new(), Vec::new()];
    for number in 0..count {
        let tests: Vec<&str> = (0..1 + rng.number_below(3)).map(|_| rng.pick(&tests)).collect();
        let (tests, target) = (tests.join(" "), rng.pick(&["ACCEPT", "DROP", "c"]));
        let first = if number == changed { "! -f " } else { "" };
        lists[0].push(format!("-p tcp {tests} -j {target}"));
        lists[1].push(format!("-p tcp {first}{tests} -j {target}"));
    }
    lists.map(|mut rules| {
        rules.push("c: -m ttl --ttl-gt 9 -j DROP".to_owned());
        rules.join("; ")
    })
}

#[test]
fn a_first_fragment_test_is_left_out_only_if_it_changes_nothing() {
    let mut counts = LockstepCounts::default();
    for seed in 0..1500 {
        let mut rng = TestRng::new(seed);
        let lists = random_rules_with_and_without_first_fragment_test(&mut rng);
        let firewalls = lists.each_ref().map(|rules| firewall(rules));
        let options = CompareOptions {
            exclude_unreadable_headers: rng.chance_percent(80),
            ..CompareOptions::default()
        };
        let [before, after] = &firewalls;
        let description = format!("seed {seed}: {lists:?}");
        let firewalls = [before, after];
        assert_lockstep_agrees_on_all_journeys(firewalls, &options, &mut counts, &description);
    }
    println!("{counts:?}");
    assert!(counts.proven > 300 && counts.differing > 300, "{counts:?}");
}

#[test]
fn a_jump_to_an_empty_chain_equals_no_rule_only_for_whole_headers() {
    let jump = firewall("-p tcp -m tcp --dport 80 -j c; c: ");
    for (headers_are_whole, expected) in [(false, false), (true, true)] {
        let options = CompareOptions {
            exclude_unreadable_headers: headers_are_whole,
            ..CompareOptions::default()
        };
        assert_eq!(is_forward_journey_proven_in_lockstep(&jump, &firewall(""), &options), expected);
    }
}
