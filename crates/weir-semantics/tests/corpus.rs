//! The interpreter, the traffic, the patterns and the findings on published rulesets.

use std::collections::HashSet;
use std::time::Instant;

use weir_model::{Firewall, Ruleset};
use weir_semantics::check::{counts, findings};
use weir_semantics::traffic::{Pattern, PatternOptions, TrafficOptions, packets, patterns};
use weir_semantics::{AlwaysFalse, Entry, Interpreter, Seeded, explain};
use weir_syntax::iptables::{ParseOptions, parse};
use weir_testkit::data;

/// The rulesets that can be read, with their names.
fn rulesets() -> Vec<(String, Firewall)> {
    let mut out = Vec::new();
    for extension in ["iptables", "loadable", "ip6tables"] {
        for path in data::files_in(&data::corpus(), extension) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).expect("a readable file");
            let text = String::from_utf8_lossy(&bytes);
            if let Ok(ruleset) = parse(&text, &ParseOptions::default()) {
                out.push((name, firewall(ruleset)));
            }
        }
    }
    assert!(!out.is_empty(), "no ruleset could be read");
    out
}

fn firewall(ruleset: Ruleset) -> Firewall {
    match ruleset.family {
        weir_model::Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        weir_model::Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    }
}

#[test]
fn traffic_reaches_most_rules_and_every_packet_ends() {
    let (mut all_hit, mut all_rules) = (0, 0);
    for (name, firewall) in rulesets() {
        let interpreter = Interpreter::new(&firewall);
        let Some(ruleset) = firewall.rulesets().next() else { continue };
        let (mut hit, mut sent) = (HashSet::<weir_model::RuleId>::new(), 0);
        let (mut making, mut walking, mut tried) = (0.0, 0.0, 0);
        for entry in Entry::ALL {
            let options = TrafficOptions { entry, count: 20_000, ..TrafficOptions::default() };
            let begin = Instant::now();
            let all = packets(ruleset, &firewall.sets, &options);
            making += begin.elapsed().as_secs_f64();
            assert!(!all.is_empty(), "{name}: no packets");
            let begin = Instant::now();
            for packet in &all {
                let outcome = interpreter.journey(packet, entry, &mut Seeded(1));
                hit.extend(outcome.hits.iter().flat_map(|h| h.credit.iter().copied()));
                tried += u64::from(outcome.tried);
            }
            walking += begin.elapsed().as_secs_f64();
            sent += all.len();
        }
        let rules = ruleset.rules().count();
        println!(
            "{name}: {rules} rules, {} hit by {sent} packets; made in {making:.2} s, \
             {:.0} packets/s, {:.1} ns a rule",
            hit.len(),
            sent as f64 / walking,
            walking * 1e9 / tried as f64,
        );
        assert!(!hit.is_empty(), "{name}: no rule was hit");
        all_hit += hit.len();
        all_rules += rules;
    }
    // Published rulesets hold many rules that no packet can reach.
    assert!(all_hit * 2 >= all_rules, "{all_hit} of {all_rules} rules hit");
}

#[test]
fn traces_say_what_the_journey_says() {
    for (name, firewall) in rulesets() {
        let interpreter = Interpreter::new(&firewall);
        let Some(ruleset) = firewall.rulesets().next() else { continue };
        let options = TrafficOptions { count: 50, ..TrafficOptions::default() };
        for packet in packets(ruleset, &firewall.sets, &options) {
            let plain = interpreter.journey(&packet, options.entry, &mut Seeded(1));
            let trace = explain::trace(&interpreter, &packet, options.entry, &mut Seeded(1));
            assert_eq!(plain, trace.outcome, "{name}: {packet:?}");
            let tried = trace.rows().iter().filter(|r| r.number.is_some()).count();
            assert_eq!(tried, plain.tried as usize, "{name}: {packet:?}");
            let words = |_: &weir_model::Rule| String::new();
            assert!(explain::render(&trace, &words).ends_with("tried\n"));
        }
    }
}

#[test]
fn findings_and_counts_take_little_time() {
    for (name, firewall) in rulesets() {
        let begin = Instant::now();
        let found = findings(&firewall);
        let counted = counts(&firewall);
        println!(
            "{name}: {} rules, {} findings in {:.3} s",
            counted.rules,
            found.len(),
            begin.elapsed().as_secs_f64()
        );
    }
}

#[test]
fn patterns_meet_the_verdict_they_say() {
    for (name, firewall) in rulesets() {
        let Some(family) = firewall.rulesets().next().map(|r| r.family) else { continue };
        let interpreter = Interpreter::new(&firewall);
        for pattern in Pattern::ALL {
            let options = PatternOptions { pattern, family, count: 64, ..Default::default() };
            let all = patterns(&firewall, &options);
            println!("{name}: {} of {}", all.len(), pattern.as_str());
            for (packet, verdict) in all {
                let outcome = interpreter.journey(&packet, options.entry, &mut AlwaysFalse);
                assert_eq!(outcome.verdict, verdict, "{name}");
            }
        }
    }
}
