//! Random rulesets with jumps, RETURN, goto, marks, stateful matches and rare modules.

use weir_classify::ruleset::FlattenLimits;
use weir_model::Family;
use weir_testkit::random_ruleset::{
    RulesetShape, TestRng, format_fixed_ipset_text, generate_ruleset,
};

use crate::ruleset_comparison::{ComparisonCounts, RulesetComparison, read_firewall};

#[test]
fn lookups_agree_with_the_interpreter_on_random_rulesets() {
    let mut counts = ComparisonCounts::default();
    for seed in 0..120 {
        let mut rng = TestRng::new(seed);
        let shape = RulesetShape::random_maybe_with_rare_modules(&mut rng, 25);
        let family = if shape.v6 { Family::V6 } else { Family::V4 };
        let text = generate_ruleset(seed, &shape);
        let firewall = read_firewall(&text, Some(family), &format_fixed_ipset_text(shape.v6))
            .unwrap_or_else(|| panic!("seed {seed}:\n{text}"));
        // Everything inlined, nothing inlined, and the default.
        let boxes_per_jump_max = [FlattenLimits::default().boxes_per_jump_max, 0, 100_000];
        let limits = FlattenLimits { boxes_per_jump_max: boxes_per_jump_max[seed as usize % 3] };
        let comparison =
            RulesetComparison { limits, ..RulesetComparison::with_all_engines(450, seed) };
        comparison.compare_firewall(&format!("seed {seed}"), &firewall, &mut counts);
    }
    println!("{counts:#?}");
    assert!(counts.packets > 50_000 && counts.evaluated_rules > 100 && counts.calls > 20);
    assert!(counts.divided_chains > 3, "some rules test what others write");
    assert_eq!(counts.accepted["linear"], counts.chains);
    assert_eq!(counts.accepted["dag"], counts.chains);
}
