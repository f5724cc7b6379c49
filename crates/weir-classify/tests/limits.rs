//! Engines refuse what exceeds their limits, and updates leave readers alone.

use weir_classify::engines::hipac::HipacClassifier;
use weir_classify::engines::linear::LinearClassifier;
use weir_classify::engines::tuplemerge::{COLLISION_LIMIT, TupleMergeClassifier};
use weir_classify::{
    BuildLimits, Classifier, ClassifierBuildError, Engine, FilterSet, KeySchema, KeyTable, KeyWord,
    RuleListsByKey, SingleFilterRule, UpdatableClassifier, WordTest,
};

/// Half of the rules are wide in one field and half in the other: each cell of a square is another
/// set of matching rules.
fn build_crossing_rules(count: u32) -> FilterSet {
    let words = vec![KeyWord::interval("dport", 16), KeyWord::interval("sport", 16)];
    let mut filters = FilterSet::new(KeySchema::new(words));
    for number in 0..count {
        let range = WordTest::Within { lo: number * 16, hi: 40_000 + number * 16 };
        let tests = match number % 2 {
            0 => [range, WordTest::ANY],
            _ => [WordTest::ANY, range],
        };
        filters.push_rule(number, true, &tests);
    }
    filters
}

fn collect_all(classifier: &dyn Classifier, keys: &KeyTable) -> RuleListsByKey {
    let mut lists = RuleListsByKey::default();
    classifier.collect_matching(keys, &mut lists);
    lists
}

#[test]
fn engines_except_linear_and_ipset_respect_the_memory_limit() {
    let filters = build_crossing_rules(80);
    for engine in Engine::ALL.into_iter().filter(|e| !matches!(e, Engine::Linear | Engine::Ipset)) {
        assert!(engine.build(&filters, &BuildLimits::default()).is_ok(), "{}", engine.name());
        let limits = BuildLimits { memory_bytes_max: 2048, ..BuildLimits::default() };
        let refused = engine.build(&filters, &limits).map(|_| ());
        let expected = ClassifierBuildError::TooLarge { engine: engine.name(), limit_bytes: 2048 };
        assert_eq!(refused, Err(expected));
    }
}

#[test]
fn exponentially_growing_structures_are_refused_at_the_step_limit() {
    let filters = build_crossing_rules(80);
    let limits = BuildLimits { steps_max: 2_000, ..BuildLimits::default() };
    for engine in [Engine::Hipac, Engine::IntervalDecisionDiagram, Engine::HyperSplit] {
        let refused = engine.build(&filters, &limits).map(|_| ());
        let is_refused = matches!(refused, Err(ClassifierBuildError::TooManySteps { .. }));
        assert!(is_refused, "{}: {refused:?}", engine.name());
    }
    assert!(Engine::Tuple.build(&filters, &limits).is_ok());
}

#[test]
fn all_matches_are_correct_if_only_first_match_is_indexed() {
    let mut filters = build_crossing_rules(0);
    // The first rule hides all others from the first match, but not from all matches.
    filters.push_rule(0, true, &[WordTest::ANY; 2]);
    for filter in build_crossing_rules(80).filters() {
        filters.push_rule(filter.rule + 1, true, filter.tests);
    }
    let mut keys = KeyTable::new(filters.schema());
    for at in 0..200 {
        keys.push(&[at * 97, at * 211]);
    }
    let expected = collect_all(&LinearClassifier::new(&filters), &keys);
    let limits = BuildLimits { steps_max: 4_000, ..BuildLimits::default() };
    for engine in [Engine::IntervalDecisionDiagram, Engine::HyperSplit] {
        let Ok(classifier) = engine.build(&filters, &limits) else { continue };
        assert_eq!(collect_all(&*classifier, &keys), expected, "{}", engine.name());
    }
    let splits = Engine::HyperSplit.build(&filters, &limits).unwrap();
    assert_eq!(collect_all(&*splits, &keys), expected);
}

#[test]
fn a_readers_snapshot_does_not_see_updates() {
    let filters = build_crossing_rules(40);
    let mut tree = HipacClassifier::new(&filters, &BuildLimits::default()).unwrap();
    let snapshot = tree.clone();
    let mut keys = KeyTable::new(filters.schema());
    keys.push(&[10_000, 10_000]);
    let before = collect_all(&tree, &keys);
    tree.insert(SingleFilterRule {
        rule: 1000,
        is_deciding: true,
        tests_by_word: &[WordTest::ANY; 2],
    })
    .unwrap();
    tree.remove(0).unwrap();
    let expected: Vec<u32> = (1..40).chain([1000]).collect();
    assert_eq!(collect_all(&tree, &keys).row(0), expected);
    assert_eq!(collect_all(&snapshot, &keys), before);
}

#[test]
fn long_collision_chains_are_split_without_changing_results() {
    let mut filters = FilterSet::new(KeySchema::five_tuple());
    let mut keys = KeyTable::new(filters.schema());
    for number in 0..40 * COLLISION_LIMIT as u32 {
        let len = 25 + number % 8;
        let address = 0x0a00_0000 | (number % 251);
        let port = WordTest::exactly(number % 7);
        let saddr = WordTest::prefix(address, len);
        filters.push_rule(
            number,
            true,
            &[saddr, WordTest::ANY, WordTest::ANY, port, WordTest::ANY],
        );
        keys.push(&[address, 0, 0, number % 7, 6]);
    }
    let merged = TupleMergeClassifier::new(&filters, &BuildLimits::default()).unwrap();
    assert!(merged.nonempty_table_count() > 1, "the chain of 10.0.0.0/24 was split");
    let expected = collect_all(&LinearClassifier::new(&filters), &keys);
    assert_eq!(collect_all(&merged, &keys), expected);
    let tuples = Engine::Tuple.build(&filters, &BuildLimits::default()).unwrap();
    assert_eq!(collect_all(&*tuples, &keys), expected);
}
