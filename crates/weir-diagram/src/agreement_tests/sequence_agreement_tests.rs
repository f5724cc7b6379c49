//! Sequences against whole diagrams: what is proven equal rule by rule is equal as a whole.

use std::collections::BTreeMap;

use weir_model::{Family, Firewall};
use weir_semantics::JourneyKind;
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::random_ruleset::TestRng;

use crate::agreement_tests::{IPSET_SAVE_TEXT, generate_random_ruleset};
use crate::compared_pair::{ComparedPair, make_compared_rulesets};
use crate::comparison_types::{
    CompareLevel, CompareOptions, ComparedPath, ComparisonVerdict, DiagramSizeAndSteps,
    StatefulTestPairing,
};
use crate::packet_sets::packet_space::PacketSpaceBasis;
use crate::packet_sets::variable_layout::VariableOrder;

/// Few tests and targets, so that rules often see what others did.
const STATEFUL_AND_PLAIN_MATCHES: [&str; 13] = [
    "",
    "-m limit --limit 5/sec",
    "-m limit --limit 5/sec",
    "-m limit --limit 6/sec",
    "-m mark --mark 0x1/0x1 -m limit --limit 5/sec",
    "-m statistic --mode nth --every 3 --packet 0 -m limit --limit 6/sec",
    "-m u32 --u32 0x0=0x1",
    "-m unknown --option",
    "-m mark --mark 0x1/0x1",
    "-m set --match-set t src",
    "-s 10.0.0.0/8",
    "-m hashlimit --hashlimit-upto 5/sec --hashlimit-name h --hashlimit-mode srcport",
    "-m hashlimit --hashlimit-upto 5/sec --hashlimit-name h --hashlimit-mode srcport -s 10.0.0.0/8",
];
const STATEFUL_AND_PLAIN_TARGETS: [&str; 13] = [
    "-j MARK --set-xmark 0x1/0x1",
    "-j MARK --set-xmark 0x0/0x1",
    "-j MARK --set-xmark 0x1/0x0",
    "-j LOG",
    "-j LOG --log-prefix x",
    "-j SET --add-set t src",
    "-j CONNMARK --save-mark",
    "-j UNKNOWN --option",
    "-j RETURN",
    "-j ACCEPT",
    "-j DROP",
    "-j TOS --set-tos 0x8/0x3f",
    "",
];

fn generate_stateful_ruleset(seed: u64) -> String {
    let mut rng = TestRng::new(seed);
    let mut text = "*mangle\n:FORWARD ACCEPT [0:0]\n:a - [0:0]\n:b - [0:0]\n".to_owned();
    for (chain, below) in [("FORWARD", &["a", "b"][..]), ("a", &["b"][..]), ("b", &[][..])] {
        for _ in 0..1 + rng.number_below(3) {
            let target = match below.is_empty() || rng.number_below(3) > 0 {
                true => rng.pick(&STATEFUL_AND_PLAIN_TARGETS).to_owned(),
                false => format!("{} {}", rng.pick(&["-j", "-g"]), rng.pick(below)),
            };
            text += &format!("-A {chain} {} {target}\n", rng.pick(&STATEFUL_AND_PLAIN_MATCHES));
        }
    }
    text + "COMMIT\n"
}

/// A copy with one edit of its rules; the edit.
pub(crate) fn edit_ruleset(text: &str, rng: &mut TestRng) -> (&'static str, String) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let chain = |line: &str| line.split(' ').nth(1).unwrap_or("").to_owned();
    let rules: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].starts_with("-A")).collect();
    let kind = rng.pick(&["none", "swap", "swap", "remove", "repeat", "test", "target"]);
    if rules.is_empty() || kind == "none" {
        return ("none", text.to_owned());
    }
    let at = rng.pick(&rules);
    match kind {
        "swap" => {
            let is_next = |i: &&usize| **i > at && chain(&lines[**i]) == chain(&lines[at]);
            if let Some(next) = rules.iter().find(is_next) {
                lines.swap(at, *next);
            }
        }
        "remove" => drop(lines.remove(at)),
        "repeat" => lines.insert(at, lines[at].clone()),
        "test" => {
            let test = rng.pick(&STATEFUL_AND_PLAIN_MATCHES);
            let name = chain(&lines[at]);
            lines[at] = lines[at].replacen(&name, &format!("{name} {test}"), 1);
        }
        _ => {
            let target = rng.pick(&STATEFUL_AND_PLAIN_TARGETS);
            let end = ["-j ", "-g "].iter().filter_map(|j| lines[at].find(j)).min();
            let end = end.unwrap_or(lines[at].len());
            lines[at].truncate(end);
            lines[at] += target;
        }
    }
    (kind, lines.join("\n") + "\n")
}

pub(crate) fn parse_firewall_if_valid(text: &str) -> Option<Firewall> {
    let options = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
    let sets = weir_syntax::ipset::parse(IPSET_SAVE_TEXT).ok()?;
    Some(Firewall { v4: Some(parse(text, &options).ok()?), v6: None, sets })
}

/// Compares both ways; by edit: pairs, proven as sequences, equal as whole diagrams.
fn compare_as_sequences_and_whole_diagrams(
    texts: impl Iterator<Item = (u64, String)>,
    paths: &[ComparedPath],
) -> BTreeMap<&'static str, [usize; 3]> {
    let mut counts = BTreeMap::<&str, [usize; 3]>::new();
    for (seed, one) in texts {
        let mut rng = TestRng::new(seed ^ 0x5eed);
        let (edit, other) = edit_ruleset(&one, &mut rng);
        let (Some(before), Some(after)) =
            (parse_firewall_if_valid(&one), parse_firewall_if_valid(&other))
        else {
            continue;
        };
        let options = CompareOptions {
            level: rng.pick(&[CompareLevel::Effects, CompareLevel::Effects, CompareLevel::Verdict]),
            stateful_pairing: rng
                .pick(&[StatefulTestPairing::ByRuleText, StatefulTestPairing::ByCredit]),
            // Whole diagrams of more are not built: only their small ones are known to be right.
            steps_max: 200_000,
            ..CompareOptions::default()
        };
        let sides = make_compared_rulesets([&before, &after], Family::V4, &options);
        let space_basis = PacketSpaceBasis::of_firewalls(Family::V4, &[&before, &after]);
        let interpreters = std::cell::OnceCell::new();
        for path in paths {
            let pair = ComparedPair {
                before: &before,
                after: &after,
                sides: &sides,
                space_basis: &space_basis,
                interpreters: &interpreters,
                options: &options,
                steps_max: options.steps_max,
                family: Family::V4,
                path: *path,
                is_prerouting_same: false,
            };
            let proven = pair.are_equal_as_sequences(&mut DiagramSizeAndSteps::default());
            let whole = pair.compare_with_variable_order(
                VariableOrder::default(),
                &mut DiagramSizeAndSteps::default(),
            );
            let Ok(Ok(whole)) = whole else { continue };
            let equal = matches!(whole, ComparisonVerdict::Equal);
            assert!(equal || !proven, "seed {seed}, {edit}, {path:?}\n{one}\n{other}\n{whole:?}");
            let count = counts.entry(edit).or_default();
            count[0] += 1;
            count[1] += usize::from(proven);
            count[2] += usize::from(equal);
        }
    }
    counts
}

fn assert_unedited_proven_and_some_swaps_differ(counts: &BTreeMap<&'static str, [usize; 3]>) {
    let [pairs, proven, equal] = counts["none"];
    assert_eq!(equal, pairs, "{counts:?}");
    assert!(proven * 2 > pairs, "{counts:?}");
    let [pairs, _, equal] = counts["swap"];
    assert!(equal < pairs, "{counts:?}");
}

#[test]
fn stateful_sequences_are_proven_equal_only_if_diagrams_are_equal() {
    let texts = (0..200).map(|seed| (seed, generate_stateful_ruleset(seed)));
    let counts = compare_as_sequences_and_whole_diagrams(
        texts,
        &[ComparedPath::Hook(weir_model::Hook::Forward)],
    );
    assert_unedited_proven_and_some_swaps_differ(&counts);
}

#[test]
fn random_sequences_are_proven_equal_only_if_diagrams_are_equal() {
    let paths = JourneyKind::ALL.map(ComparedPath::WholeJourney);
    let texts = (0..60).map(|seed| (seed, generate_random_ruleset(seed)));
    let counts = compare_as_sequences_and_whole_diagrams(texts, &paths);
    assert_unedited_proven_and_some_swaps_differ(&counts);
}
