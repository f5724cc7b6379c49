//! Edits of random rulesets; the corpus target makes many more, of published ones. Needs root.

mod edited;

use edited::{Source, edits};
use weir_model::Family;
use weir_testkit::random_ruleset::{RulesetShape, TestRng, generate_ruleset};

#[test]
fn meaning_changing_edits_are_found_and_neutral_ones_are_equal() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let (seed, mut rng) = (5, TestRng::new(5));
    let sources: Vec<Source> = (0..8)
        .map(|i| {
            let shape =
                RulesetShape { all_tables: i % 2 == 0, ..RulesetShape::random(&mut rng, 30) };
            let family = if shape.v6 { Family::V6 } else { Family::V4 };
            Source { name: format!("{i}"), text: generate_ruleset(rng.next_u64(), &shape), family }
        })
        .collect();
    let tally = edits(&sources, 5, seed);
    println!("{tally}");
    assert!(tally.wrong.is_empty(), "{tally}");
    assert_eq!((tally.semantic, tally.found, tally.neutral, tally.equal), (5, 5, 5, 5));
    assert!(tally.confirmed * 10 >= tally.found * 6, "{tally}");
}
