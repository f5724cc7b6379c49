//! Rules that are reported as shadowed or redundant really are: without the rule, every packet on
//! and around every boundary gets the same verdict and the same effects, and rules that never
//! counted count nothing.

use weir_lint::{Finding, apply_edits, lint_with_default_options};
use weir_model::{Family, Firewall, RuleId, TableName};
use weir_semantics::{Interpreter, JourneyKind, Outcome, SeededOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

/// A stream of choices; the same seed, the same ruleset.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// A filter table over few values, so that rules cover each other often.
fn random_ruleset(seed: u64) -> String {
    let mut rng = Rng(seed);
    let mut text = String::from("*filter\n");
    for chain in ["INPUT", "FORWARD", "OUTPUT"] {
        text.push_str(&format!(":{chain} {} [0:0]\n", rng.one(&["ACCEPT", "DROP"])));
    }
    text.push_str(":a - [0:0]\n:b - [0:0]\n:c - [0:0]\n");
    for (i, chain) in ["FORWARD", "a", "b", "c"].into_iter().enumerate() {
        for _ in 0..rng.below(7) + 2 {
            text.push_str(&format!("-A {chain}{}{}\n", tests(&mut rng), target(&mut rng, i)));
        }
    }
    text + "COMMIT\n"
}

fn tests(rng: &mut Rng) -> String {
    let mut text = String::new();
    text += rng.one(&[
        "",
        "",
        " -s 10.0.0.0/9",
        " -s 10.128.0.0/9",
        " -s 10.0.0.0/8",
        " ! -s 10.0.0.0/9",
    ]);
    text += rng.one(&["", "", "", " -d 10.0.1.0/255.0.255.0", " -d 192.0.2.0/24"]);
    text += rng.one(&["", "", "", " -i eth0", " ! -i eth0", " -i eth+", " -o eth1"]);
    text += rng.one(&[
        "",
        " -p tcp",
        " -p tcp -m tcp --dport 22",
        " -p tcp -m tcp --dport 20:30",
        " -p tcp -m tcp ! --dport 22",
        " -p tcp -m multiport --dports 22,80",
        " -p tcp -m multiport ! --ports 22,80",
        " -p tcp -m tcp --tcp-flags SYN,ACK SYN",
        " -p udp -m udp --sport 53",
        " ! -p tcp",
        " -f",
        " ! -f",
        " -p icmp -m icmp --icmp-type 8",
    ]);
    text += rng.one(&[
        "",
        "",
        "",
        " -m conntrack --ctstate NEW",
        " -m conntrack ! --ctstate NEW,INVALID",
        " -m state --state RELATED,ESTABLISHED",
        " -m mark --mark 0x1",
        " -m mark --mark 0x2/0x2",
        " -m mark ! --mark 0x2/0x2",
        " -m ttl --ttl-lt 5",
        " -m limit --limit 5/sec",
        " -m addrtype --dst-type LOCAL",
        " -m length --length 0:100",
        " -m mac ! --mac-source 02:00:00:00:00:01",
    ]);
    text
}

fn target(rng: &mut Rng, depth: usize) -> String {
    let deeper = ["a", "b", "c"];
    match rng.below(14) {
        0..=3 => " -j DROP".to_owned(),
        4..=7 => " -j ACCEPT".to_owned(),
        8 => " -j RETURN".to_owned(),
        9 => rng.one(&[" -j REJECT --reject-with icmp-port-unreachable", " -j LOG"]).to_owned(),
        10 => rng.one(&["", "", " -j MARK --set-xmark 0x1/0xffffffff"]).to_owned(),
        11..=12 if depth < 3 => format!(" -j {}", deeper[depth + rng.below(3 - depth)]),
        13 if depth < 3 => format!(" -g {}", deeper[depth]),
        _ => " -j DROP".to_owned(),
    }
}

fn firewall(text: &str) -> Firewall {
    let options = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
    let ruleset = parse(text, &options).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

/// In what two outcomes differ, counters of rules aside.
fn differs(a: &Outcome<'_>, b: &Outcome<'_>, counters: bool) -> Option<String> {
    if counters {
        return a.first_difference(b).map(|d| format!("{d:?}"));
    }
    let same = a.verdict == b.verdict && a.effects == b.effects && a.packet == b.packet;
    (!same).then(|| format!("{:?} becomes {:?}", a.verdict, b.verdict))
}

/// Sends packets through both; the first that is treated otherwise.
fn compare(before: &Firewall, after: &Firewall, count: usize, counters: bool) -> Option<String> {
    let (old, new) = (Interpreter::new(before), Interpreter::new(after));
    let ruleset = before.v4.as_ref().expect("v4 rules");
    for entry in [JourneyKind::Forward] {
        let options =
            TrafficOptions { journey_kind: entry, max_packets: count, ..TrafficOptions::default() };
        for packet in generate_boundary_and_random_packets(ruleset, &before.sets, &options) {
            let a = old.evaluate_journey(&packet, entry, &mut SeededOracle(1));
            let b = new.evaluate_journey(&packet, entry, &mut SeededOracle(1));
            if let Some(what) = differs(&a, &b, counters) {
                return Some(format!("{what} for {packet:?}"));
            }
        }
    }
    None
}

const CERTAIN: [&str; 5] =
    ["duplicate-rule", "shadowed-rule", "jump-never-matches", "never-matches", "redundant-rule"];

fn certain(firewall: &Firewall) -> Vec<Finding> {
    lint_with_default_options(firewall)
        .into_iter()
        .filter(|f| CERTAIN.contains(&f.lint_id()) && f.fix.is_some())
        .collect()
}

#[test]
fn removing_shadowed_or_redundant_rules_changes_nothing() {
    let (mut taken, mut redundant) = (0, 0);
    for seed in 0..400 {
        let text = random_ruleset(seed);
        let before = firewall(&text);
        let mut all = Vec::new();
        let mut any_redundant = false;
        for f in certain(&before) {
            let fix = f.fix.clone().expect("it can be fixed");
            let after = apply_edits(&before, &fix.edits);
            if let Some(what) = compare(&before, &after, 250, !fix.changes_counters) {
                panic!(
                    "seed {seed}: {} at {:?}: {}: {what}\n{text}",
                    f.lint_id(),
                    f.place,
                    f.message
                );
            }
            *(if fix.changes_counters { &mut redundant } else { &mut taken }) += 1;
            any_redundant |= fix.changes_counters;
            all.extend(fix.edits);
        }
        // All of them at once.
        if let Some(what) = compare(&before, &apply_edits(&before, &all), 500, !any_redundant) {
            panic!("seed {seed}: all findings together: {what}\n{text}");
        }
    }
    println!("{taken} that no packet matches, {redundant} redundant");
    assert!(taken > 300 && redundant > 100, "{taken} and {redundant}: too few to prove anything");
}

/// The check can fail: removing rules without findings is detected.
#[test]
fn removing_rules_without_findings_changes_something() {
    let mut noticed = 0;
    for seed in 0..20 {
        let before = firewall(&random_ruleset(seed));
        let found = certain(&before);
        let chain = &before.v4.as_ref().expect("v4 rules").tables[0].chains;
        let chain = chain.iter().find(|c| &*c.name == "FORWARD").expect("FORWARD");
        let rule = RuleId::for_rule_at_index(Family::V4, TableName::Filter, &chain.name, 0);
        if found.iter().any(|f| f.place.as_ref() == Some(&rule)) {
            continue;
        }
        let edit = weir_lint::RulesetEdit::RemoveRule { rule };
        let after = apply_edits(&before, &[edit]);
        noticed += usize::from(compare(&before, &after, 250, true).is_some());
    }
    assert!(noticed >= 10, "{noticed} of 20 were noticed");
}
