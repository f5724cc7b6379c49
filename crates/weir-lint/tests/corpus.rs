//! Findings in published rulesets: how many there are, and whether a sample of them is correct.
//!
//! Run by `make test-corpus DIR=…`. It prints a table of findings by severity and program, and
//! samples 100 findings; `WEIR_SEED` selects another sample. Each is confirmed independently of the
//! linter: rules without effect are removed, and interpreter and diagrams compare before and after;
//! other findings are confirmed by packets that the interpreter evaluates.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_diagram::{CompareOptions, compare_firewalls};
use weir_lint::{Finding, LintOptions, RulesetEdit, Severity, apply_edits, lint_firewall};
use weir_model::{Family, Firewall, Policy, Rule, RuleId, Ruleset, TableName};
use weir_packet::Transport;
use weir_semantics::{Interpreter, JourneyKind, Outcome, SeededOracle, Verdict};
use weir_syntax::iptables::{ParserSettings, parse, print_rule};
use weir_testkit::random_ruleset::TestRng;
use weir_testkit::testdata;
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

/// Findings that are confirmed.
const SAMPLE: usize = 100;
/// Packets for each ruleset and entry.
const PACKETS: usize = 20_000;
/// Packets that are kept of those that a rule matched.
const MATCHED: usize = 200;
/// Rules of a ruleset from which the removals of a sample are proven together, and not one by one.
const LARGE: usize = 700;

/// A ruleset with its name and findings.
struct Case {
    name: String,
    firewall: Firewall,
    findings: Vec<Finding>,
}

fn cases() -> Vec<Case> {
    let mut out = Vec::new();
    for extension in ["iptables", "loadable", "ip6tables"] {
        for path in testdata::files_with_extension(&testdata::corpus_folder_from_env(), extension) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).expect("a readable file");
            let text = String::from_utf8_lossy(&bytes);
            let Ok(ruleset) = parse(&text, &ParserSettings::default()) else { continue };
            let firewall = match ruleset.family {
                Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
                Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
            };
            let findings = lint_firewall(&firewall, &LintOptions::default()).findings;
            out.push(Case { name, firewall, findings });
        }
    }
    assert!(!out.is_empty(), "no ruleset could be read");
    out
}

/// Findings, and the places that they are about, by severity and the program that caused them.
fn table(cases: &[Case]) {
    let mut rows: BTreeMap<(Severity, String, &str), (usize, usize)> = BTreeMap::new();
    for f in cases.iter().flat_map(|c| &c.findings) {
        let program = f.program.map_or_else(|| "–".to_owned(), |p| p.to_string());
        let row = rows.entry((f.severity, program, f.lint_id())).or_default();
        (row.0, row.1) = (row.0 + 1, row.1 + 1 + f.related_places.len());
    }
    println!("severity  program      findings  places  kind");
    for ((severity, program, id), (findings, places)) in rows.iter().rev() {
        let severity = format!("{severity:?}").to_lowercase();
        println!("{severity:<9} {program:<11} {findings:>9} {places:>7}  {id}");
    }
    for case in cases {
        let count = |s| case.findings.iter().filter(|f| f.severity == s).count();
        println!(
            "{}: {} warnings, {} notes",
            case.name,
            count(Severity::Warning) + count(Severity::Error),
            count(Severity::Note)
        );
    }
}

#[test]
fn sampled_findings_in_published_rulesets_are_correct() {
    let seed = std::env::var("WEIR_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(13);
    let cases = cases();
    table(&cases);
    let numbers = |(c, case): (usize, &Case)| {
        (0..case.findings.len()).map(move |f| (c, f)).collect::<Vec<_>>()
    };
    let mut all: Vec<(usize, usize)> = cases.iter().enumerate().flat_map(numbers).collect();
    let mut rng = TestRng::new(seed);
    for i in 0..all.len() {
        let other = i + rng.number_below(all.len() - i);
        all.swap(i, other);
    }
    all.truncate(SAMPLE);
    println!("{} findings drawn with seed {seed}", all.len());
    let (mut confirmed, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for (c, case) in cases.iter().enumerate() {
        let drawn: Vec<&Finding> =
            all.iter().filter(|(of, _)| *of == c).map(|(_, f)| &case.findings[*f]).collect();
        for (f, said) in drawn.iter().zip(confirm(case, &drawn)) {
            match said {
                Ok(how) => *confirmed.entry(format!("{}: {how}", f.lint_id())).or_default() += 1,
                Err(why) => wrong.push(format!(
                    "{}: {} at {}: {}: {why}",
                    case.name,
                    f.lint_id(),
                    f.place.as_ref().map(RuleId::path_in_family).unwrap_or_default(),
                    f.message
                )),
            }
        }
    }
    for (what, n) in &confirmed {
        println!("{n:>4} {what}");
    }
    println!("{} of {} confirmed", confirmed.values().sum::<usize>(), all.len());
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
}

/// What packets show of a ruleset.
#[derive(Default)]
struct Seen {
    /// Packets by the rule that they matched, some of them.
    matched: HashMap<RuleId, Vec<(weir_packet::Packet, JourneyKind, u32)>>,
    /// Most rules that one packet tried.
    tried: u32,
}

fn follow(case: &Case, ruleset: &Ruleset, watched: &BTreeSet<RuleId>) -> Seen {
    let mut seen = Seen::default();
    let interpreter = Interpreter::new(&case.firewall);
    for entry in JourneyKind::ALL {
        let options = TrafficOptions {
            journey_kind: entry,
            max_packets: PACKETS,
            ..TrafficOptions::default()
        };
        for packet in generate_boundary_and_random_packets(ruleset, &case.firewall.sets, &options) {
            let outcome = interpreter.evaluate_journey(&packet, entry, &mut SeededOracle(1));
            seen.tried = seen.tried.max(outcome.rules_tried);
            for place in outcome.hits.iter().filter_map(|hit| hit.rule_or_policy_id(ruleset.family))
            {
                if watched.contains(&place) {
                    let matched = seen.matched.entry(place).or_default();
                    // The kernel forwards nothing from or to lo.
                    let real =
                        entry != JourneyKind::Forward || (packet.iif != "lo" && packet.oif != "lo");
                    if matched.len() < MATCHED && real {
                        matched.push((packet.clone(), entry, outcome.rules_tried));
                    }
                }
            }
        }
    }
    seen
}

type Said = Result<&'static str, String>;

fn confirm(case: &Case, drawn: &[&Finding]) -> Vec<Said> {
    let Some(ruleset) = case.firewall.rulesets().next() else { return Vec::new() };
    if drawn.is_empty() {
        return Vec::new();
    }
    let mut watched = BTreeSet::new();
    for f in drawn {
        watched.extend(f.place.clone());
        watched.extend(f.related_places.iter().map(|a| a.place.clone()));
        watched.extend(removed(ruleset, &removals(f)));
    }
    let seen = follow(case, ruleset, &watched);
    let mut said: Vec<Said> = drawn.iter().map(|f| confirm_one(case, ruleset, f, &seen)).collect();
    let large = ruleset.rules_with_table_and_chain().count() >= LARGE;
    let all: Vec<RulesetEdit> = drawn.iter().flat_map(|f| removals(f)).collect();
    let together = if large { proven(&case.firewall, &all) } else { Ok(()) };
    for (f, said) in drawn.iter().zip(&mut said) {
        let edits = removals(f);
        if said.is_ok() && !edits.is_empty() {
            let proof = if large { together.clone() } else { proven(&case.firewall, &edits) };
            if let Err(why) = proof {
                *said = Err(why);
            }
        }
    }
    said
}

/// What is removed to show that it has no effect.
fn removals(f: &Finding) -> Vec<RulesetEdit> {
    let Some(family) = f.family else { return Vec::new() };
    let chain =
        |p: &RuleId| RulesetEdit::RemoveChain { family, table: p.table, chain: p.chain.clone() };
    let places = || f.place.iter().chain(f.related_places.iter().map(|a| &a.place));
    match f.lint_id() {
        "jump-to-empty-chain" => {
            let jumps = f.related_places.iter().map(|a| a.place.clone());
            jumps.map(|rule| RulesetEdit::RemoveRule { rule }).collect()
        }
        "unreachable-chain" => places().map(chain).collect(),
        _ => f.fix.iter().flat_map(|x| x.edits.clone()).collect(),
    }
}

/// The rules that edits remove.
fn removed(ruleset: &Ruleset, edits: &[RulesetEdit]) -> Vec<RuleId> {
    let of = |edit: &RulesetEdit| match edit {
        RulesetEdit::RemoveRule { rule } => vec![rule.clone()],
        RulesetEdit::RemoveChain { table, chain, .. } => {
            let rules =
                ruleset.table(table).and_then(|t| t.chain(chain)).map_or(0, |c| c.rules.len());
            let rule = |i| RuleId::for_rule_at_index(ruleset.family, *table, chain, i);
            (0..rules).map(rule).collect()
        }
        _ => Vec::new(),
    };
    edits.iter().flat_map(of).collect()
}

/// Verdict and effects are the same for all packets without what is removed, as far as diagrams
/// can tell.
fn proven(firewall: &Firewall, edits: &[RulesetEdit]) -> Result<(), String> {
    let without = apply_edits(firewall, edits);
    let options = CompareOptions { regions_max: 1, ..CompareOptions::default() };
    let comparison = compare_firewalls(firewall, &without, &options).map_err(|e| e.to_string())?;
    match comparison.differences().next() {
        Some((_, d)) => Err(format!("{:?} for {:?}", d.difference, d.witness.packet)),
        None => Ok(()),
    }
}

fn rule_at<'r>(ruleset: &'r Ruleset, place: &RuleId) -> Option<&'r Rule> {
    let chain = ruleset.table(&place.table)?.chain(&place.chain)?;
    chain.rules.get(place.number? as usize - 1)
}

fn confirm_one(case: &Case, ruleset: &Ruleset, f: &Finding, seen: &Seen) -> Said {
    let matched = |p: &RuleId| seen.matched.get(p).map_or(&[][..], |m| &m[..]);
    let place = f.place.as_ref().ok_or("no place")?;
    let never = |places: &[RuleId]| match places.iter().find(|p| !matched(p).is_empty()) {
        Some(p) => Err(format!("{p} matched {:?}", matched(p)[0].0)),
        None => Ok(()),
    };
    let edits = removals(f);
    match f.lint_id() {
        "duplicate-rule"
        | "shadowed-rule"
        | "jump-never-matches"
        | "rule-after-catch-all"
        | "unreachable-chain" => {
            never(&removed(ruleset, &edits))?;
            Ok(match f.severity == Severity::Warning && f.lint_id() == "shadowed-rule" {
                true if moved(case, ruleset, f) => {
                    "removed: no change; moved up: it matched packets"
                }
                _ => "removed: no packet matched, all verdicts the same",
            })
        }
        "never-matches" | "loopback" => {
            never(std::slice::from_ref(place))?;
            Ok("no packet matched")
        }
        "redundant-rule" | "jump-to-empty-chain" => {
            let without = apply_edits(&case.firewall, &edits);
            let (old, new) = (Interpreter::new(&case.firewall), Interpreter::new(&without));
            for (packet, entry, _) in removed(ruleset, &edits).iter().flat_map(&matched) {
                let a = old.evaluate_journey(packet, *entry, &mut SeededOracle(1));
                let b = new.evaluate_journey(packet, *entry, &mut SeededOracle(1));
                if !same(&a, &b) {
                    return Err(format!("{:?} becomes {:?}: {packet:?}", a.verdict, b.verdict));
                }
            }
            Ok("removed: all verdicts the same")
        }
        "linear-addresses" | "linear-ports" => match seen.tried >= f.wasted_comparisons {
            true => Ok("a packet was compared with that many rules"),
            false => Err(format!("no packet tried more than {} rules", seen.tried)),
        },
        "conntrack-not-first" => match matched(place).iter().all(|m| m.2 > f.wasted_comparisons) {
            true => Ok("the packets that it matched had tried that many rules"),
            false => Err("a packet got there sooner".to_owned()),
        },
        "log-without-limit" => match matched(place).is_empty() {
            false => Ok("packets were logged"),
            true => Err("no packet was logged".to_owned()),
        },
        "no-final-drop" => policy_matters(&case.firewall, ruleset.family, place),
        "neighbours-dropped" => neighbours(&case.firewall, ruleset),
        "recent-never-set" => never_set(ruleset, f),
        "dnat-passes-input" => redirected(case, f, seen),
        other => Err(format!("nobody knows how to confirm {other}: {:?}", rule_at(ruleset, place))),
    }
}

/// No rule adds to the list that the message names.
fn never_set(ruleset: &Ruleset, f: &Finding) -> Said {
    let list = f.message.split(' ').nth(6).unwrap_or_default();
    let adds = |rule: &Rule| {
        let text = print_rule(rule, ruleset.family);
        let name = text.split("--name ").nth(1).and_then(|t| t.split(' ').next());
        text.contains("-m recent --set") && name.unwrap_or("DEFAULT") == list
    };
    match ruleset.rules_with_table_and_chain().any(|(_, _, rule)| adds(rule)) {
        false => Ok("no rule has --set for that list"),
        true => Err(format!("a rule adds to {list}")),
    }
}

/// DNAT gives packets to the port another destination.
fn redirected(case: &Case, f: &Finding, seen: &Seen) -> Said {
    let interpreter = Interpreter::new(&case.firewall);
    let matched = f.related_places.iter().filter_map(|a| seen.matched.get(&a.place));
    let moved = |(packet, entry, _): &(weir_packet::Packet, JourneyKind, u32)| {
        interpreter.evaluate_journey(packet, *entry, &mut SeededOracle(1)).packet.daddr
            != packet.daddr
    };
    match matched.flatten().any(moved) {
        true => Ok("DNAT changed the destination of packets to that port"),
        false => Err("no packet was redirected".to_owned()),
    }
}

/// Whether the first rule after the one to blame matches packets when it is moved before it.
fn moved(case: &Case, ruleset: &Ruleset, f: &Finding) -> bool {
    let [RulesetEdit::RemoveRule { rule: from }, ..] = &removals(f)[..] else { return false };
    let Some(to) = f.place.as_ref().filter(|p| p.chain == from.chain && *p != from) else {
        return false;
    };
    let mut changed = ruleset.clone();
    let tables = changed.tables.iter_mut().filter(|t| t.name == to.table);
    for chain in tables.flat_map(|t| &mut t.chains).filter(|c| c.name == to.chain) {
        let (Some(from), Some(to)) = (from.number, to.number) else { return false };
        let rule = chain.rules.remove(from as usize - 1);
        chain.rules.insert(to as usize - 1, rule);
    }
    let mut firewall = case.firewall.clone();
    match ruleset.family {
        Family::V4 => firewall.v4 = Some(changed.clone()),
        Family::V6 => firewall.v6 = Some(changed.clone()),
    }
    let case = Case { name: String::new(), firewall, findings: Vec::new() };
    !follow(&case, &changed, &BTreeSet::from([to.clone()])).matched.is_empty()
}

/// With the policy DROP, some packet that was accepted is dropped.
fn policy_matters(firewall: &Firewall, family: Family, place: &RuleId) -> Said {
    let mut closed = firewall.clone();
    let ruleset = match family {
        Family::V4 => closed.v4.as_mut(),
        Family::V6 => closed.v6.as_mut(),
    };
    let tables = ruleset.into_iter().flat_map(|r| &mut r.tables);
    for table in tables.filter(|t| t.name == TableName::Filter) {
        for chain in table.chains.iter_mut().filter(|c| c.name == place.chain) {
            chain.policy = Some(Policy::Drop);
        }
    }
    let options = CompareOptions { regions_max: 1, ..CompareOptions::default() };
    let comparison = compare_firewalls(firewall, &closed, &options).map_err(|e| e.to_string())?;
    match comparison.differences().next() {
        Some(_) => Ok("with the policy DROP, an accepted packet is dropped"),
        None => Err("the policy decides about no packet".to_owned()),
    }
}

/// Neighbour solicitations and advertisements to the host are dropped.
fn neighbours(firewall: &Firewall, ruleset: &Ruleset) -> Said {
    let interpreter = Interpreter::new(firewall);
    let options = TrafficOptions {
        journey_kind: JourneyKind::Input,
        max_packets: PACKETS,
        ..Default::default()
    };
    let mut sent = 0;
    for mut packet in generate_boundary_and_random_packets(ruleset, &firewall.sets, &options) {
        // Unsolicited packets of the link; those of lo are no neighbours.
        if packet.proto != 58 || packet.iif == "lo" || packet.fragment.offset > 0 {
            continue;
        }
        for kind in [135, 136] {
            if let Transport::Icmp { kind: of_packet, code, .. } = &mut packet.transport {
                (*of_packet, *code) = (kind, 0);
                let outcome =
                    interpreter.evaluate_journey(&packet, JourneyKind::Input, &mut SeededOracle(1));
                sent += 1;
                if outcome.verdict == Verdict::Accept {
                    return Err(format!("{packet:?} is accepted"));
                }
            }
        }
    }
    match sent {
        0 => Err("no such packet was made".to_owned()),
        _ => Ok("solicitations and advertisements were dropped"),
    }
}

/// Verdict, effects and packet.
fn same(a: &Outcome<'_>, b: &Outcome<'_>) -> bool {
    a.verdict == b.verdict && a.effects == b.effects && a.packet == b.packet
}
