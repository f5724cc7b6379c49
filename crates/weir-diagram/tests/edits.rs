//! Random edits: those that preserve the meaning are proven equal, and the others are found.

use weir_diagram::{CompareOptions, ComparisonVerdict, StatefulTestPairing, compare_firewalls};
use weir_model::{Family, Firewall, OriginalRuleIndex, PortSpan, Rule, Target};
use weir_semantics::{Interpreter, JourneyKind, SeededOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// A ruleset as sites have them: a state rule, user chains by network, ports, a log at the end.
fn ruleset(rng: &mut Rng) -> Firewall {
    let mut lines = String::from("-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n");
    for net in 0..4 {
        lines += &format!("-A FORWARD -d 10.{net}.0.0/16 -j net{net}\n");
        for _ in 0..4 + rng.below(4) {
            let (host, from) = (rng.below(4), rng.below(4));
            let proto = ["tcp", "udp"][rng.below(2)];
            let port = [22, 53, 80, 443][rng.below(4)];
            let target = ["ACCEPT", "DROP", "RETURN"][rng.below(3)];
            lines += &format!(
                "-A net{net} -s 192.0.2.{from}/32 -d 10.{net}.0.{host}/32 -p {proto} -m {proto} \
                 --dport {port} -j {target}\n"
            );
        }
    }
    lines += "-A FORWARD -p icmp -j ACCEPT\n-A FORWARD -m limit --limit 5/min -j LOG\n";
    let chains: String = (0..4).map(|n| format!(":net{n} - [0:0]\n")).collect();
    let text = format!("*filter\n:FORWARD DROP [0:0]\n{chains}{lines}COMMIT\n");
    let ruleset = parse(&text, &ParserSettings::default()).expect("a good ruleset");
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

/// A chain with rules, and one of its rules.
fn place(firewall: &mut Firewall, rng: &mut Rng) -> (usize, usize) {
    let chains = &firewall.v4.as_ref().expect("a ruleset").tables[0].chains;
    let full: Vec<usize> = (0..chains.len()).filter(|c| !chains[*c].rules.is_empty()).collect();
    let chain = full[rng.below(full.len())];
    (chain, rng.below(chains[chain].rules.len()))
}

fn rules(firewall: &mut Firewall, chain: usize) -> &mut Vec<Rule> {
    &mut firewall.v4.as_mut().expect("a ruleset").tables[0].chains[chain].rules
}

/// One edit that may change the meaning.
fn edit(firewall: &mut Firewall, rng: &mut Rng) -> String {
    let (chain, at) = place(firewall, rng);
    let rules = rules(firewall, chain);
    match rng.below(5) {
        0 => drop(rules.remove(at)),
        1 => {
            let drops = rules[at].target == Target::Drop;
            rules[at].target = if drops { Target::Accept } else { Target::Drop };
        }
        2 => {
            let swap = (at + 1) % rules.len();
            rules.swap(at, swap);
        }
        3 => {
            if let Some(m) = &mut rules[at].base.saddr {
                m.addr.0 ^= 1;
            }
        }
        _ => {
            for m in &mut rules[at].matches {
                if let weir_model::Match::Tcp { dport: Some(port), .. }
                | weir_model::Match::Udp { dport: Some(port), .. } = m
                {
                    port.value = PortSpan { lo: port.value.lo, hi: port.value.hi + 1 };
                }
            }
        }
    }
    format!("chain {chain}, rule {at}")
}

/// One edit that keeps the meaning.
fn neutral_edit(firewall: &mut Firewall, rng: &mut Rng) {
    let (chain, at) = place(firewall, rng);
    let rules = rules(firewall, chain);
    let stateful = rules[at].matches.iter().any(|m| matches!(m, weir_model::Match::Stateful(_)));
    let does = |r: &Rule| matches!(r.target, Target::Accept | Target::Drop | Target::Return);
    let rule = rules[at].clone();
    match rng.below(2) {
        // A rule again, where it decided already.
        0 if does(&rule) && !stateful => {
            let mut shadowed = rule;
            shadowed.target = Target::Drop;
            rules.insert(at + 1, shadowed);
        }
        // A rule for both halves of what it tests.
        _ if !stateful && rule.base.saddr.is_none() && does(&rule) => {
            let half = |high: u128| {
                let mut rule = rule.clone();
                rule.base.saddr = Some(weir_model::AddrMatch {
                    negated: false,
                    addr: weir_model::Addr(high << 31),
                    mask: weir_model::Addr(1 << 31),
                });
                rule
            };
            rules.splice(at..=at, [half(0), half(1)]);
        }
        _ => rules.insert(
            at,
            Rule {
                credited_originals: [OriginalRuleIndex(9999)].into_iter().collect(),
                ..Rule::unconditional(Target::None)
            },
        ),
    }
}

fn options() -> CompareOptions {
    CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        journey_kind: Some(JourneyKind::Forward),
        regions_max: 2,
        ..CompareOptions::default()
    }
}

/// Whether a packet on or around the edges of either ruleset distinguishes them.
fn some_packet_differs(one: &Firewall, other: &Firewall) -> bool {
    let (a, b) = (Interpreter::new(one), Interpreter::new(other));
    [one, other].iter().any(|f| {
        let ruleset = f.v4.as_ref().expect("a ruleset");
        let options = TrafficOptions { max_packets: 400, ..TrafficOptions::default() };
        generate_boundary_and_random_packets(ruleset, &[], &options).iter().any(|p| {
            let run = |i: &Interpreter<'_>| {
                i.evaluate_journey(p, JourneyKind::Forward, &mut SeededOracle(1)).verdict
            };
            run(&a) != run(&b)
        })
    })
}

#[test]
fn edits_that_affect_a_packet_are_never_called_equal() {
    let (mut found, mut equal) = (0, 0);
    for seed in 0..200 {
        let mut rng = Rng(seed);
        let before = ruleset(&mut rng);
        let mut after = before.clone();
        let what = edit(&mut after, &mut rng);
        let comparison =
            compare_firewalls(&before, &after, &options()).expect("no mistake in weir");
        match &comparison.parts[0].verdict {
            ComparisonVerdict::Equal => {
                assert!(!some_packet_differs(&before, &after), "seed {seed}, {what}");
                equal += 1;
            }
            ComparisonVerdict::Differs(_)
            | ComparisonVerdict::DiffersOnPacket { .. }
            | ComparisonVerdict::ReassemblyDiffers(_) => found += 1,
            ComparisonVerdict::Undecided { why } => panic!("seed {seed}, {what}: {why}"),
        }
    }
    assert!(found > 80 && equal > 5, "{found} found, {equal} equal");
}

#[test]
fn an_edit_that_keeps_the_meaning_is_proven_equal() {
    for seed in 0..200 {
        let mut rng = Rng(seed);
        let before = ruleset(&mut rng);
        let mut after = before.clone();
        neutral_edit(&mut after, &mut rng);
        assert_ne!(before, after, "seed {seed}: nothing was edited");
        let comparison =
            compare_firewalls(&before, &after, &options()).expect("no mistake in weir");
        assert!(comparison.is_equal(), "seed {seed}: {comparison:#?}");
        assert_eq!(comparison.parts[0].family, Family::V4);
    }
}
