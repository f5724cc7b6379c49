//! Every chain of up to three rules over a small set of tests and targets: compared with itself and
//! with itself in another order, and the result checked packet by packet.

use weir_diagram::{
    CompareOptions, CompareScope, ComparisonVerdict, StatefulTestPairing, compare_firewalls,
};
use weir_model::{Family, Firewall, Hook, Packet};
use weir_semantics::{AlwaysFalseOracle, Interpreter, RuleAnswersTrueOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::packet::parse_packet;

const RULES: [&str; 8] = [
    "-s 10.0.0.0/31 -j ACCEPT",
    "-s 10.0.0.1 -j DROP",
    "-p udp -m udp --dport 53 -j ACCEPT",
    "-p udp -m udp ! --dport 53 -j DROP",
    "-p udp -j LOG",
    "-m limit --limit 1/sec -j ACCEPT",
    "-f -j DROP",
    "-j MARK --set-xmark 0x1/0x1",
];

fn chains() -> Vec<Vec<usize>> {
    let n = RULES.len();
    let mut out = vec![vec![]];
    out.extend((0..n).map(|a| vec![a]));
    out.extend((0..n * n).map(|i| vec![i / n, i % n]));
    out.extend((0..n * n * n).map(|i| vec![i / n / n, i / n % n, i % n]));
    out
}

fn firewall(chain: &[usize]) -> Firewall {
    let table = if chain.contains(&7) { "mangle" } else { "filter" };
    let lines: String = chain.iter().map(|r| format!("-A FORWARD {}\n", RULES[*r])).collect();
    let text = format!("*{table}\n:FORWARD ACCEPT [0:0]\n{lines}COMMIT\n");
    let ruleset = parse(&text, &ParserSettings::default()).expect("a good ruleset");
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

fn packets() -> Vec<Packet> {
    let mut out = Vec::new();
    for source in ["10.0.0.0", "10.0.0.1", "10.0.0.2"] {
        for rest in [
            "udp dport 53",
            "udp dport 54",
            "tcp dport 53",
            "udp dport 53 fragment offset 5",
            "udp dport 53 truncated 6",
        ] {
            out.push(parse_packet(&format!("ip saddr {source} {rest}")).expect("good words"));
        }
    }
    out
}

/// Whether some packet tells the two apart, for always the same answers.
fn some_packet_differs(one: &Firewall, other: &Firewall, sent: &[Packet]) -> bool {
    let (a, b) = (Interpreter::new(one), Interpreter::new(other));
    sent.iter().any(|p| {
        let never = |i: &Interpreter<'_>| {
            let o = i.traverse_hook(p, Hook::Forward, &mut AlwaysFalseOracle);
            (o.verdict, o.effects.len(), o.questions.len())
        };
        let always = |i: &Interpreter<'_>| {
            let o = i.traverse_hook(p, Hook::Forward, &mut RuleAnswersTrueOracle);
            (o.verdict, o.effects.len(), o.questions.len())
        };
        never(&a) != never(&b) || always(&a) != always(&b)
    })
}

#[test]
fn short_chains_equal_their_reverse_iff_no_packet_distinguishes_them() {
    let sent = packets();
    let options = CompareOptions {
        scope: CompareScope::OneHook(Hook::Forward),
        stateful_pairing: StatefulTestPairing::ByRuleText,
        family: Some(Family::V4),
        regions_max: 1,
        ..CompareOptions::default()
    };
    let (mut equal, mut different) = (0, 0);
    for chain in chains() {
        let one = firewall(&chain);
        let comparison = compare_firewalls(&one, &one, &options).expect("no mistake in weir");
        assert!(comparison.is_equal(), "{chain:?} is not equal to itself");
        let reversed: Vec<usize> = chain.iter().rev().copied().collect();
        let other = firewall(&reversed);
        let comparison = compare_firewalls(&one, &other, &options).expect("no mistake in weir");
        // The order of two effects is visible only in their list, of which only the length is
        // compared.
        let differs = some_packet_differs(&one, &other, &sent);
        match &comparison.parts[0].verdict {
            ComparisonVerdict::Equal => {
                assert!(!differs, "{chain:?} is called equal to its reverse");
                equal += 1;
            }
            ComparisonVerdict::Differs(found) => {
                let order = found.difference == weir_semantics::OutcomeDifference::Effects;
                assert!(differs || order, "{chain:?} is called different: {found:?}");
                different += 1;
            }
            ComparisonVerdict::ReassemblyDiffers(by) => panic!("{chain:?}: {by:?}"),
            ComparisonVerdict::DiffersOnPacket { why, .. }
            | ComparisonVerdict::Undecided { why } => panic!("{chain:?}: {why}"),
        }
    }
    assert!(equal > 100 && different > 100, "{equal} equal, {different} different");
}
