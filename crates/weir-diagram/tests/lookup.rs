//! The diagram of a ruleset, evaluated for one packet: the same outcome as the interpreter's.

use weir_diagram::{CONTRADICTORY_ANSWERS_REASON, DiagramLookup};
use weir_model::{Family, Firewall, Packet};
use weir_semantics::{Interpreter, JourneyKind, Oracle, OracleQuestion, SeededOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::packet::parse_packet;

fn v4(rules: &str) -> Firewall {
    let ruleset = parse(rules, &ParserSettings::default()).expect("good rules");
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

fn filter(rules: &str) -> Firewall {
    v4(&format!("*filter\n:FORWARD DROP [0:0]\n{rules}COMMIT\n"))
}

/// What the diagram of `one` says of the journey through `other`.
fn looked(
    one: &Firewall,
    other: &Firewall,
    packet: &Packet,
    answers: &mut dyn Oracle,
) -> Result<Option<String>, &'static str> {
    let lookup =
        DiagramLookup::build_if_within_limits(one, Family::V4, 1 << 28, 1_000_000).expect("room");
    let mut overhearing = lookup.recording_oracle(answers);
    let outcome =
        Interpreter::new(other).evaluate_journey(packet, JourneyKind::Forward, &mut overhearing);
    let heard = overhearing.into_recorded_answers();
    lookup.find_disagreement(packet, JourneyKind::Forward, &outcome, &heard)
}

#[test]
fn diagram_lookup_agrees_with_interpreter_and_detects_different_outcomes() {
    let rules = "-A FORWARD -m limit --limit 5/sec -j LOG\n-A FORWARD -m addrtype --dst-type LOCAL \
                 -j REJECT\n-A FORWARD -p tcp -m tcp --dport 80 -j ACCEPT\n";
    let one = filter(rules);
    let web = parse_packet("iif eth0 oif eth1 tcp dport 80").expect("good words");
    for seed in 0..20 {
        assert_eq!(looked(&one, &one, &web, &mut SeededOracle(seed)), Ok(None), "seed {seed}");
    }
    let verdict = filter(&rules.replace("--dport 80", "--dport 81"));
    let effect = filter(&rules.replace("LOG", "LOG --log-prefix other"));
    let order = filter("-A FORWARD -p tcp -m tcp --dport 80 -j ACCEPT\n");
    let mut silent = SeededOracle(0);
    let mut wrong = |other: &Firewall| {
        let seeds = (0..20).map(|seed| {
            silent.0 = seed;
            looked(&one, other, &web, &mut silent)
        });
        seeds.filter(|found| matches!(found, Ok(Some(_)))).count()
    };
    assert!(wrong(&verdict) > 0, "another verdict is not seen");
    assert!(wrong(&effect) > 0, "another effect is not seen");
    assert_eq!(wrong(&order), 20, "a limit that was not evaluated is not detected");
}

/// Every other question holds.
struct Alternating(bool);

impl Oracle for Alternating {
    fn match_holds_or_target_ends_traversal(&mut self, _: &OracleQuestion<'_>) -> bool {
        self.0 = !self.0;
        self.0
    }
}

#[test]
fn contradictory_oracle_answers_are_not_a_difference() {
    let twice = "-A FORWARD -m addrtype --dst-type LOCAL -m addrtype --dst-type LOCAL -j ACCEPT\n";
    let one = filter(twice);
    let packet = parse_packet("iif eth0 oif eth1 udp dport 53").expect("good words");
    let found = looked(&one, &one, &packet, &mut Alternating(false));
    assert_eq!(found, Err(CONTRADICTORY_ANSWERS_REASON));
}

#[test]
fn a_diagram_over_its_limits_is_not_built() {
    let one = filter("-A FORWARD -p tcp -m tcp --dport 80 -j ACCEPT\n");
    assert!(DiagramLookup::build_if_within_limits(&one, Family::V4, 1 << 28, 1_000_000).is_some());
    assert!(DiagramLookup::build_if_within_limits(&one, Family::V4, 1 << 28, 10).is_none());
    assert!(DiagramLookup::build_if_within_limits(&one, Family::V4, 0, 1_000_000).is_none());
}
