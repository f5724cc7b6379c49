//! Rules of a long chain that cannot match are skipped. A trace evaluates every rule, so both must
//! have the same outcome, counters and number of rules tried.

use weir_model::Firewall;
use weir_semantics::trace::trace_journey;
use weir_semantics::{Interpreter, JourneyKind, SeededOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::random_ruleset::TestRng;
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

/// A rule of a list: mostly an address or a port, sometimes neither, both, or a negation.
fn random_rule(rng: &mut TestRng) -> String {
    let mut word = |words: &[&'static str]| rng.pick(words).to_owned();
    let address = word(&["10.0.0", "10.0.1", "192.0.2"]);
    let last = word(&["1", "2", "3", "77", "128", "200"]);
    let port = word(&["22", "80", "1000:1015", "1000:3000", "0:1023", "60000:65535"]);
    let address = match &*word(&["one", "one", "net", "both", "not", "none", "none"]) {
        "one" => format!("-s {address}.{last}/32"),
        "net" => format!("-d {address}.0/{}", word(&["24", "25", "16"])),
        "both" => format!("-s {address}.0/24 -d 10.0.0.{last}/32"),
        "not" => format!("! -s {address}.{last}/32"),
        _ => String::new(),
    };
    let ports = match &*word(&["tcp", "udp", "multi", "either", "not", "none"]) {
        "tcp" => format!("-p tcp -m tcp --dport {port}"),
        "udp" => format!("-p udp -m udp --sport {port} --dport 53"),
        "multi" => format!("-p tcp -m multiport --dports 443,{port}"),
        "either" => format!("-p udp -m multiport --ports 53,{port}"),
        "not" => format!("-p tcp -m tcp ! --dport {port}"),
        _ => String::new(),
    };
    let target = match &*word(&["none", "none", "none", "none", "jump", "mark", "drop"]) {
        "jump" => "-j list",
        "mark" => "-j MARK --set-xmark 0x1/0xffffffff",
        "drop" if !address.is_empty() && !ports.is_empty() => "-j DROP",
        _ => "",
    };
    format!("{address} {ports} {target}")
}

#[test]
fn skipping_rules_changes_no_outcome_counters_or_rule_count() {
    let (mut compared, mut skipped_rules) = (0, 0);
    for seed in 0..12 {
        let mut rng = TestRng::new(seed);
        let mut text = "*filter\n:FORWARD ACCEPT [0:0]\n:list - [0:0]\n".to_owned();
        for _ in 0..300 {
            text.push_str(&format!("-A FORWARD {}\n", random_rule(&mut rng)));
        }
        for _ in 0..120 {
            let rule = random_rule(&mut rng).replace("-j list", "-j RETURN");
            text.push_str(&format!("-A list {rule}\n"));
        }
        text.push_str("COMMIT\n");
        let ruleset = parse(&text, &ParserSettings::default()).expect("a good ruleset");
        let firewall = Firewall { v4: Some(ruleset), ..Firewall::default() };
        let interpreter = Interpreter::new(&firewall);
        let options = TrafficOptions {
            max_packets: 400,
            seed,
            journey_kind: JourneyKind::Forward,
            ..TrafficOptions::default()
        };
        let ruleset = firewall.v4.as_ref().expect("a ruleset");
        for packet in generate_boundary_and_random_packets(ruleset, &[], &options) {
            let plain = interpreter.evaluate_journey(
                &packet,
                JourneyKind::Forward,
                &mut SeededOracle(seed),
            );
            let traced =
                trace_journey(&interpreter, &packet, JourneyKind::Forward, &mut SeededOracle(seed));
            assert_eq!(plain, traced.outcome, "seed {seed}: {packet:?}\n{text}");
            compared += 1;
            skipped_rules += usize::from(plain.rules_tried > 250);
        }
    }
    assert!(compared > 3000 && skipped_rules > 1000, "{compared} packets, {skipped_rules} long");
}
