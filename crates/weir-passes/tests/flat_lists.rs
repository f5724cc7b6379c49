//! Trees of flat lists that test several fields are proven without diagrams, with work that grows
//! as the list does.

use std::fmt::Write as _;

use weir_diagram::{CompareOptions, Comparison, StatefulTestPairing, compare_firewalls};
use weir_model::{Family, Firewall, Target};
use weir_passes::{CheckedPassesOptions, passes, run_passes_until_first_refusal};
use weir_syntax::iptables::{self, ParserSettings};
use weir_testkit::random_ruleset::TestRng;

/// The exponent of steps that is allowed: 1 is linear, 2 is quadratic.
const EXPONENT_MAX: f64 = 1.2;

/// Rules that test an address and other fields.
fn write_mixed_list(count: usize) -> String {
    let mut rng = TestRng::new(1);
    let mut text = "*filter\n:FORWARD ACCEPT [0:0]\n".to_owned();
    for _ in 0..count {
        let length = rng.pick(&[32, 32, 28, 24]);
        let source = (rng.next_u64() as u32) & (u32::MAX << (32 - length));
        let _ = write!(text, "-A FORWARD -s {}/{length}", std::net::Ipv4Addr::from(source));
        if rng.chance_percent(30) {
            let _ = write!(text, " -d 192.0.2.{}/32", rng.number_below(256));
        }
        if rng.chance_percent(30) {
            let _ = write!(text, " -i eth{}", rng.number_below(4));
        }
        if rng.chance_percent(60) {
            let protocol = rng.pick(&["tcp", "udp"]);
            let port = 1 + rng.number_below(65_000);
            let _ = write!(text, " -p {protocol} -m {protocol} --dport {port}");
        }
        if rng.chance_percent(5) {
            text.push_str(" -m limit --limit 5/min");
        }
        let _ = writeln!(text, " -j {}", rng.pick(&["ACCEPT", "DROP", "RETURN"]));
    }
    text + "COMMIT\n"
}

/// The list, and its tree.
fn make_list_and_tree(count: usize) -> [Firewall; 2] {
    let options = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
    let v4 = iptables::parse(&write_mixed_list(count), &options).expect("good rules");
    let list = Firewall { v4: Some(v4), ..Firewall::default() };
    let pass = passes::find_pass("chain_tree").expect("the pass is there");
    let options =
        CheckedPassesOptions { skip_equivalence_checks: true, ..CheckedPassesOptions::default() };
    let run = run_passes_until_first_refusal(&list, &[pass], &options, &mut |_, _| {})
        .expect("nothing is compared");
    let chains =
        |f: &Firewall| f.rulesets().flat_map(|r| &r.tables).flat_map(|t| &t.chains).count();
    assert!(chains(&run.firewall) > 10, "it is a tree");
    [list, run.firewall]
}

fn compare(before: &Firewall, after: &Firewall) -> Comparison {
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByCredit,
        ..CompareOptions::default()
    };
    compare_firewalls(before, after, &options).expect("both load")
}

#[test]
fn a_tree_of_mixed_rules_is_proven_equal_without_diagrams() {
    let sizes = [500, 4000];
    let steps = sizes.map(|size| {
        let [list, tree] = make_list_and_tree(size);
        let comparison = compare(&list, &tree);
        assert!(comparison.is_equal(), "{size} rules");
        let nodes: usize = comparison.parts.iter().map(|part| part.statistics.nodes).sum();
        assert_eq!(nodes, 0, "{size} rules: diagrams were built");
        comparison.steps as f64
    });
    let exponent = (steps[1] / steps[0]).ln() / (sizes[1] as f64 / sizes[0] as f64).ln();
    println!("{steps:?} steps, exponent {exponent:.2}");
    assert!(exponent <= EXPONENT_MAX, "{steps:?} steps, exponent {exponent:.2}");
}

#[test]
fn a_wrong_rule_of_a_tree_is_found() {
    let [list, tree] = make_list_and_tree(300);
    let mut differing = 0;
    for seed in 0..30 {
        let mut rng = TestRng::new(seed);
        let mut wrong = tree.clone();
        let table = &mut wrong.v4.as_mut().expect("a ruleset").tables[0];
        let rules = table.chains.iter_mut().flat_map(|chain| &mut chain.rules);
        let mut verdicts: Vec<_> =
            rules.filter(|rule| matches!(rule.target, Target::Accept | Target::Drop)).collect();
        let at = rng.number_below(verdicts.len());
        let target = &mut verdicts[at].target;
        *target = if *target == Target::Accept { Target::Drop } else { Target::Accept };
        // A copy for packets that an earlier rule decides may be changed without effect.
        differing += usize::from(!compare(&list, &wrong).is_equal());
    }
    assert!(differing >= 28, "{differing} of 30");
}
