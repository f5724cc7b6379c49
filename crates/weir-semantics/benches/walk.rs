//! The cost of a packet in the interpreter: short rulesets, long lists of rules, a generated
//! network.

use std::hint::black_box;
use std::time::Instant;

use weir_example::{IspOptions, generate_isp_ruleset};
use weir_lint::lint_with_default_options;
use weir_model::Firewall;
use weir_semantics::{Interpreter, JourneyKind, SeededOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

fn main() {
    let short = "*filter\n:FORWARD DROP [0:0]\n\
        -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
        -A FORWARD -i eth0 -s 192.0.2.0/24 -p tcp -m multiport --dports 80,443 -j ACCEPT\n\
        -A FORWARD -p udp -m udp --dport 53 -j ACCEPT\nCOMMIT\n";
    bench("3 rules", short);
    let mut long = "*filter\n".to_owned();
    for i in 0..10_000 {
        long.push_str(&format!("-A FORWARD -s 10.{}.{}.1/32 -j DROP\n", i / 256, i % 256));
    }
    long.push_str("COMMIT\n");
    bench("10,000 addresses in a row", &long);
    let mut prefixes = "*filter\n".to_owned();
    for i in 0..23_000u32 {
        let (addr, len) = (i.wrapping_mul(2_654_435_761), [16, 20, 24, 28, 32][i as usize % 5]);
        let addr = std::net::Ipv4Addr::from(addr & u32::MAX << (32 - len));
        prefixes.push_str(&format!("-A FORWARD -s {addr}/{len} -j DROP\n"));
    }
    prefixes.push_str("COMMIT\n");
    bench("23,000 prefixes in a row", &prefixes);
    let example = generate_isp_ruleset(&IspOptions::default());
    bench("generated network, IPv4", &example.v4);
    bench("generated network, IPv6", &example.v6);
}

fn bench(name: &str, text: &str) {
    let ruleset = parse(text, &ParserSettings::default()).expect("a good ruleset");
    let rules = ruleset.rules_with_table_and_chain().count();
    let firewall = match ruleset.family {
        weir_model::Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        weir_model::Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    };
    let begin = Instant::now();
    let found = lint_with_default_options(&firewall);
    println!("{name}: {rules} rules, {} findings in {:.1?}", found.len(), begin.elapsed());
    let begin = Instant::now();
    let interpreter = Interpreter::new(&firewall);
    println!("  indexed in {:.1?}", begin.elapsed());
    let ruleset = firewall.rulesets().next().expect("a ruleset");
    let options = TrafficOptions {
        max_packets: 20_000,
        journey_kind: JourneyKind::Forward,
        ..Default::default()
    };
    let begin = Instant::now();
    let traffic = generate_boundary_and_random_packets(ruleset, &firewall.sets, &options);
    println!("  {} packets made in {:.1?}", traffic.len(), begin.elapsed());
    let (begin, mut tried, mut hit) = (Instant::now(), 0u64, std::collections::HashSet::new());
    for packet in &traffic {
        let outcome = interpreter.evaluate_journey(
            black_box(packet),
            options.journey_kind,
            &mut SeededOracle(1),
        );
        tried += u64::from(outcome.rules_tried);
    }
    let seconds = begin.elapsed().as_secs_f64();
    for packet in &traffic {
        let outcome =
            interpreter.evaluate_journey(packet, options.journey_kind, &mut SeededOracle(1));
        hit.extend(outcome.hits.iter().flat_map(|h| h.credited_originals.iter().copied()));
    }
    println!(
        "  {:.0} packets/s, {:.1} ns a rule, {} rules hit",
        traffic.len() as f64 / seconds,
        seconds * 1e9 / tried as f64,
        hit.len(),
    );
}
