//! The interpreter, the traffic, the patterns and the findings on published rulesets.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use weir_diagram::{CompareOptions, compare_firewalls};
use weir_lint::{Finding, LintOptions, RulesetEdit, apply_edits, lint_without_grouping};
use weir_model::{Firewall, OriginalRuleIndex, Ruleset};
use weir_review::explain;
use weir_semantics::trace::trace_journey;
use weir_semantics::{AlwaysFalseOracle, Interpreter, JourneyKind, Outcome, SeededOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::testdata;
use weir_traffic::{
    PacketPatternOptions, PatternPacket, TrafficOptions, TrafficPattern,
    generate_boundary_and_random_packets, generate_pattern_packets,
};

/// The rulesets that can be read, with their names.
fn rulesets() -> Vec<(String, Firewall)> {
    let mut out = Vec::new();
    for extension in ["iptables", "loadable", "ip6tables"] {
        for path in testdata::files_with_extension(&testdata::corpus_folder_from_env(), extension) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).expect("a readable file");
            let text = String::from_utf8_lossy(&bytes);
            if let Ok(ruleset) = parse(&text, &ParserSettings::default()) {
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
fn traffic_reaches_most_rules_and_every_journey_ends() {
    let (mut all_hit, mut all_rules) = (0, 0);
    for (name, firewall) in rulesets() {
        let interpreter = Interpreter::new(&firewall);
        let Some(ruleset) = firewall.rulesets().next() else { continue };
        let (mut hit, mut sent) = (HashSet::<weir_model::OriginalRuleIndex>::new(), 0);
        let (mut making, mut walking, mut tried) = (0.0, 0.0, 0);
        for entry in JourneyKind::ALL {
            let options = TrafficOptions {
                journey_kind: entry,
                max_packets: 20_000,
                ..TrafficOptions::default()
            };
            let begin = Instant::now();
            let all = generate_boundary_and_random_packets(ruleset, &firewall.sets, &options);
            making += begin.elapsed().as_secs_f64();
            assert!(!all.is_empty(), "{name}: no packets");
            let begin = Instant::now();
            for packet in &all {
                let outcome = interpreter.evaluate_journey(packet, entry, &mut SeededOracle(1));
                hit.extend(outcome.hits.iter().flat_map(|h| h.credited_originals.iter().copied()));
                tried += u64::from(outcome.rules_tried);
            }
            walking += begin.elapsed().as_secs_f64();
            sent += all.len();
        }
        let rules = ruleset.rules_with_table_and_chain().count();
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
fn traces_agree_with_journeys() {
    for (name, firewall) in rulesets() {
        let interpreter = Interpreter::new(&firewall);
        let Some(ruleset) = firewall.rulesets().next() else { continue };
        let options = TrafficOptions { max_packets: 50, ..TrafficOptions::default() };
        for packet in generate_boundary_and_random_packets(ruleset, &firewall.sets, &options) {
            let plain =
                interpreter.evaluate_journey(&packet, options.journey_kind, &mut SeededOracle(1));
            let trace =
                trace_journey(&interpreter, &packet, options.journey_kind, &mut SeededOracle(1));
            assert_eq!(plain, trace.outcome, "{name}: {packet:?}");
            let tried =
                explain::trace_to_rows(&trace).iter().filter(|r| r.number.is_some()).count();
            assert_eq!(tried, plain.rules_tried as usize, "{name}: {packet:?}");
            let words = |_: &weir_model::Rule| String::new();
            assert!(explain::render_trace(&trace, &words).ends_with("evaluated\n"));
        }
    }
}

/// The rule of the finding's only edit.
fn rule_of<'f>(firewall: &'f Firewall, finding: &Finding) -> Option<&'f weir_model::Rule> {
    let [RulesetEdit::RemoveRule { rule }] = &finding.fix.as_ref()?.edits[..] else {
        return None;
    };
    let table = firewall.ruleset(rule.family)?.table(&rule.table)?;
    table.chain(&rule.chain)?.rules.get(rule.number? as usize - 1)
}

/// Packets that a redundant rule matched, for the comparison without it.
const MATCHED: usize = 200;

#[test]
fn shadowed_rules_never_count_and_redundant_rules_are_removable() {
    let (mut taken, mut redundant, mut met) = (0, 0, 0);
    for (name, firewall) in rulesets() {
        let Some(ruleset) = firewall.rulesets().next() else { continue };
        let mut all = lint_without_grouping(&firewall, &LintOptions::default()).findings;
        all.retain(|f| rule_of(&firewall, f).is_some());
        let mut by_rule: HashMap<OriginalRuleIndex, (&Finding, Vec<_>)> = HashMap::new();
        for f in &all {
            let rule = rule_of(&firewall, f).expect("a rule");
            by_rule.insert(rule.credited_originals[0], (f, Vec::new()));
        }
        let edits = |f: &[Finding]| -> Vec<RulesetEdit> {
            f.iter().filter_map(|f| f.fix.as_ref()).flat_map(|x| x.edits.clone()).collect()
        };
        let without = apply_edits(&firewall, &edits(&all));
        let (old, new) = (Interpreter::new(&firewall), Interpreter::new(&without));
        for entry in JourneyKind::ALL {
            let options = TrafficOptions {
                journey_kind: entry,
                max_packets: 20_000,
                ..TrafficOptions::default()
            };
            for packet in generate_boundary_and_random_packets(ruleset, &firewall.sets, &options) {
                let a = old.evaluate_journey(&packet, entry, &mut SeededOracle(1));
                let b = new.evaluate_journey(&packet, entry, &mut SeededOracle(1));
                assert!(same(&a, &b), "{name}: without all of them: {packet:?}");
                for id in a.hits.iter().flat_map(|h| h.credited_originals) {
                    let Some((f, matched)) = by_rule.get_mut(id) else { continue };
                    let fix = f.fix.as_ref().expect("it can be fixed");
                    assert!(fix.changes_counters, "{name}: {f:?} counted {packet:?}");
                    if matched.len() < MATCHED {
                        matched.push((packet.clone(), entry));
                    }
                }
            }
        }
        // Only packets that the rule matches can miss it.
        for (f, matched) in by_rule.values() {
            let counters = f.fix.as_ref().expect("it can be fixed").changes_counters;
            *(if counters { &mut redundant } else { &mut taken }) += 1;
            if matched.is_empty() {
                continue;
            }
            met += 1;
            let without = apply_edits(&firewall, &edits(&[(*f).clone()]));
            let new = Interpreter::new(&without);
            for (packet, entry) in matched {
                let a = old.evaluate_journey(packet, *entry, &mut SeededOracle(1));
                let b = new.evaluate_journey(packet, *entry, &mut SeededOracle(1));
                assert!(same(&a, &b), "{name}: without {f:?}: {packet:?}");
            }
        }
        let proven = prove(&name, &firewall, &all);
        println!("{name}: {} findings hold, {proven}", all.len());
    }
    println!("{taken} never count; {redundant} are redundant, {met} of them met by packets");
    assert!(taken > 100 && met * 2 > redundant, "{taken}, {redundant}, {met}");
}

/// Findings of a large ruleset that are proven one by one; of a small one all are.
const ONE_BY_ONE: usize = 3;

/// Proves that verdict and effects are the same for all packets without all of the rules, and
/// without each alone.
fn prove(name: &str, firewall: &Firewall, all: &[Finding]) -> String {
    let rules = firewall.rulesets().flat_map(Ruleset::rules_with_table_and_chain).count();
    let step = if rules < 700 { 1 } else { all.len().div_ceil(ONE_BY_ONE).max(1) };
    let alone = all.iter().step_by(step).map(std::slice::from_ref);
    let mut proven = 0;
    for these in std::iter::once(all).chain(alone).filter(|f| !f.is_empty()) {
        let edits: Vec<RulesetEdit> =
            these.iter().filter_map(|f| f.fix.as_ref()).flat_map(|x| x.edits.clone()).collect();
        let without = apply_edits(firewall, &edits);
        let options = CompareOptions { regions_max: 1, ..CompareOptions::default() };
        let comparison = compare_firewalls(firewall, &without, &options).expect("a comparison");
        if let Some((_, d)) = comparison.differences().next() {
            panic!("{name}: {:?} for {:?} without {these:?}", d.difference, d.witness.packet);
        }
        for (part, why) in comparison.undecided_comparisons() {
            println!("{name}: {:?} is not proven: {why}", part.path);
        }
        proven += usize::from(comparison.is_equal());
    }
    format!("{proven} proofs")
}

/// Verdict, effects and packet.
fn same(a: &Outcome<'_>, b: &Outcome<'_>) -> bool {
    a.verdict == b.verdict && a.effects == b.effects && a.packet == b.packet
}

#[test]
fn pattern_packets_get_the_predicted_verdict() {
    for (name, firewall) in rulesets() {
        let Some(family) = firewall.rulesets().next().map(|r| r.family) else { continue };
        let interpreter = Interpreter::new(&firewall);
        for pattern in TrafficPattern::ALL {
            let options =
                PacketPatternOptions { pattern, family, max_packets: 64, ..Default::default() };
            let all = match generate_pattern_packets(&firewall, &options) {
                Ok(all) => all,
                Err(none) => {
                    println!("{name}: {}: {none}", pattern.as_str());
                    continue;
                }
            };
            println!("{name}: {} of {}", all.len(), pattern.as_str());
            for PatternPacket { packet, verdict, .. } in all {
                let outcome = interpreter.evaluate_journey(
                    &packet,
                    options.journey_kind,
                    &mut AlwaysFalseOracle,
                );
                assert_eq!(outcome.verdict, verdict, "{name}");
            }
        }
    }
}

#[test]
fn every_ruleset_is_proven_equal_to_itself_over_the_whole_journey() {
    let options = weir_diagram::CompareOptions::default();
    for (name, firewall) in rulesets() {
        let begin = Instant::now();
        let comparison = weir_diagram::compare_firewalls(&firewall, &firewall, &options);
        let comparison = comparison.expect("no mistake in weir");
        let most = comparison.parts.iter().map(|p| p.statistics.memory_bytes).max().unwrap_or(0);
        println!("{name}: {:.2?}, {} MiB", begin.elapsed(), most >> 20);
        assert!(comparison.is_equal(), "{name}: {comparison:#?}");
    }
}
