//! Slices against whole rulesets: the same difference, whatever was left out.

use std::cell::OnceCell;

use weir_model::{Family, Firewall, Hook, Ruleset};
use weir_semantics::{JourneyKind, Verdict};
use weir_testkit::random_ruleset::TestRng;

use crate::agreement_tests::generate_random_ruleset;
use crate::agreement_tests::sequence_agreement_tests::{edit_ruleset, parse_firewall_if_valid};
use crate::compared_pair::{ComparedPair, make_compared_rulesets};
use crate::compared_ruleset::ComparedRuleset;
use crate::comparison_types::{
    CompareLevel, CompareOptions, ComparedPath, ComparisonVerdict, DiagramSizeAndSteps,
    StatefulTestPairing,
};
use crate::difference_slice::slice_to_difference;
use crate::packet_sets::packet_space::PacketSpaceBasis;
use crate::packet_sets::variable_layout::VariableOrder;

/// Tests by which packets of a difference are told from others.
const ADDED_BASE_TESTS: [&str; 9] = [
    "",
    "",
    "-s 10.0.0.0/8",
    "-s 10.1.0.0/16",
    "! -s 10.1.0.0/16",
    "-s 172.16.0.0/12",
    "-d 192.0.2.1",
    "-d 192.0.2.0/30",
    "! -d 192.0.2.0/24",
];

pub(crate) fn add_random_base_tests(text: &str, rng: &mut TestRng) -> String {
    let lines = text.lines().map(|line| {
        let is_plain = line.starts_with("-A") && !line.contains("-s ") && !line.contains("-d ");
        match (is_plain, line.match_indices(' ').nth(1)) {
            (true, Some((end, _))) => {
                format!("{} {}{}\n", &line[..end], rng.pick(&ADDED_BASE_TESTS), &line[end..])
            }
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// Translations of sources, in a chain that random rulesets do not have.
const POSTROUTING_NAT_RULES: [&str; 4] = [
    "-s 10.0.0.0/8 -j SNAT --to-source 192.0.2.1",
    "-p udp -j MASQUERADE",
    "-p tcp -m tcp --dport 80 -j SNAT --to-source 192.0.2.0-192.0.2.3:1000-1010",
    "-m mark --mark 0x1/0x3 -j ACCEPT",
];

fn add_random_postrouting_nat(text: &str, rng: &mut TestRng) -> String {
    let rules = (0..rng.number_below(3))
        .map(|_| format!("-A POSTROUTING {}\n", rng.pick(&POSTROUTING_NAT_RULES)))
        .collect::<String>();
    let chain = "*nat\n:POSTROUTING ACCEPT [0:0]\n";
    // Nat is the last table.
    let text = text.replace("*nat\n", chain);
    let end = text.rfind("COMMIT").unwrap_or(text.len());
    format!("{}{rules}{}", &text[..end], &text[end..])
}

/// What is the same for slices and whole rulesets; `None` if a limit was reached.
#[derive(Debug, PartialEq)]
enum FoundDifference {
    Equal,
    Undecided,
    Differs { share: String, verdict_changes: Vec<(Verdict, Verdict, String)>, effects: String },
}

fn find_difference(pair: &ComparedPair<'_>) -> Option<FoundDifference> {
    let statistics = &mut DiagramSizeAndSteps::default();
    let verdict = pair.compare_with_variable_order(VariableOrder::default(), statistics).ok()?;
    // Sums of many small numbers, in an order that variables have.
    let rounded = |share: f64| format!("{share:.9e}");
    Some(match verdict.expect("the interpreter sees the difference of the packet") {
        ComparisonVerdict::Equal | ComparisonVerdict::ReassemblyDiffers(_) => {
            FoundDifference::Equal
        }
        ComparisonVerdict::Undecided { .. } | ComparisonVerdict::DiffersOnPacket { .. } => {
            FoundDifference::Undecided
        }
        ComparisonVerdict::Differs(found) => {
            let changes = found.verdict_changes.iter();
            let mut verdict_changes: Vec<_> =
                changes.map(|c| (c.before, c.after, rounded(c.share))).collect();
            verdict_changes.sort_by_key(|change| format!("{change:?}"));
            FoundDifference::Differs {
                share: rounded(found.share),
                verdict_changes,
                effects: rounded(found.effect_change.map_or(0.0, |change| change.share)),
            }
        }
    })
}

fn count_rules(ruleset: &Ruleset) -> usize {
    ruleset.rules_with_table_and_chain().count()
}

/// What was compared.
#[derive(Debug, Default)]
struct AgreementCounts {
    compared: usize,
    not_equal: usize,
    smaller: usize,
    differing: usize,
    differing_and_smaller: usize,
}

fn compare_slices_with_whole_rulesets(seeds: std::ops::Range<u64>) -> AgreementCounts {
    let mut counts = AgreementCounts::default();
    for seed in seeds {
        let mut rng = TestRng::new(seed ^ 0x51_1ce);
        let one = add_random_base_tests(&generate_random_ruleset(seed), &mut rng);
        let one = add_random_postrouting_nat(&one, &mut rng);
        let mut other = one.clone();
        for _ in 0..1 + rng.number_below(2) {
            other = edit_ruleset(&other, &mut rng).1;
        }
        let firewalls = [&one, &other].map(|text| parse_firewall_if_valid(text));
        let [Some(before), Some(after)] = &firewalls else { continue };
        let options = CompareOptions {
            level: rng.pick(&[CompareLevel::Effects, CompareLevel::Effects, CompareLevel::Verdict]),
            stateful_pairing: rng
                .pick(&[StatefulTestPairing::ByRuleText, StatefulTestPairing::ByCredit]),
            steps_max: 1_000_000,
            conntrack_in_use: rng.number_below(2) == 0,
            ..CompareOptions::default()
        };
        let journeys = JourneyKind::ALL.map(ComparedPath::WholeJourney);
        let hook = ComparedPath::Hook(rng.pick(&Hook::ALL));
        let paths = if rng.number_below(4) == 0 { &[hook][..] } else { &journeys };
        assert_slices_agree_on_paths([before, after], paths, &options, &mut counts, &|| {
            format!("seed {seed}\n{one}\n{other}")
        });
    }
    counts
}

fn assert_slices_agree_on_paths(
    [before, after]: [&Firewall; 2],
    paths: &[ComparedPath],
    options: &CompareOptions,
    counts: &mut AgreementCounts,
    describe: &dyn Fn() -> String,
) {
    let family = Family::V4;
    let whole = make_compared_rulesets([before, after], family, options);
    let Some(slice) = slice_to_difference(&whole, paths, (family, true)) else { return };
    let mut sliced = make_compared_rulesets([before, after], family, options);
    for (side, slice) in sliced.iter_mut().zip(&slice.rulesets) {
        side.replace_rules_by_slice(slice);
    }
    let size = |sides: &[ComparedRuleset<'_>; 2]| {
        sides.iter().filter_map(ComparedRuleset::ruleset).map(count_rules).sum::<usize>()
    };
    let is_smaller = size(&sliced) < size(&whole);
    let space_basis = PacketSpaceBasis::of_firewalls(family, &[before, after]);
    let interpreters = OnceCell::new();
    for &path in paths {
        let [of_slices, of_whole] = [&sliced, &whole].map(|sides| {
            find_difference(&ComparedPair {
                before,
                after,
                sides,
                space_basis: &space_basis,
                interpreters: &interpreters,
                options,
                steps_max: options.steps_max,
                family,
                path,
                is_prerouting_same: false,
            })
        });
        let (Some(of_slices), Some(of_whole)) = (of_slices, of_whole) else { continue };
        assert_eq!(of_slices, of_whole, "{path:?}, {}", describe());
        let differs = matches!(of_whole, FoundDifference::Differs { .. });
        counts.compared += 1;
        counts.not_equal += usize::from(of_whole != FoundDifference::Equal);
        counts.smaller += usize::from(is_smaller);
        counts.differing += usize::from(differs);
        counts.differing_and_smaller += usize::from(differs && is_smaller);
    }
}

#[test]
fn slices_have_the_same_difference_as_whole_rulesets() {
    let counts = compare_slices_with_whole_rulesets(0..300);
    assert!(counts.compared > 400, "{counts:?}");
    assert!(counts.smaller * 2 > counts.compared, "{counts:?}");
    assert!(counts.differing_and_smaller > 50, "{counts:?}");
}

/// What random rulesets rarely have: rules before and after a change that matter only because of
/// what they ask.
#[test]
fn slices_keep_what_changes_the_answers_of_opaque_and_stateful_tests() {
    let mangle = |rules: &[&str]| {
        let rules = rules.iter().map(|rule| format!("-A FORWARD {rule}\n")).collect::<String>();
        format!("*mangle\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n")
    };
    let opaque = |target: &str| format!("-m u32 --u32 0x0=0x1 {target}");
    let budget = |target: &str| format!("-m limit --limit 5/sec {target}");
    let classify = "-j CLASSIFY --set-class 1:2";
    let pairs = [
        // The class may change what the second test reads.
        (
            CompareLevel::Effects,
            mangle(&[&opaque("-j ACCEPT"), classify, &opaque("-j DROP")]),
            mangle(&[&opaque("-j ACCEPT"), classify]),
        ),
        // Two budgets: if only one is left, a rule below them decides on the other side.
        (
            CompareLevel::Verdict,
            mangle(&[&budget("-j ACCEPT"), "-j DROP"]),
            mangle(&[&budget("-j DROP"), "-j DROP"]),
        ),
    ];
    for (level, one, other) in &pairs {
        let [Some(before), Some(after)] = &[one, other].map(|text| parse_firewall_if_valid(text))
        else {
            panic!("the rulesets are valid");
        };
        let mut counts = AgreementCounts::default();
        let options = CompareOptions {
            level: *level,
            stateful_pairing: StatefulTestPairing::ByRuleText,
            ..CompareOptions::default()
        };
        let paths = JourneyKind::ALL.map(ComparedPath::WholeJourney);
        assert_slices_agree_on_paths([before, after], &paths, &options, &mut counts, &|| {
            format!("{one}\n{other}")
        });
        assert_eq!((counts.compared, counts.not_equal), (3, 1), "{one}\n{other}");
    }
}
