//! Every engine answers as the linear one, on every filter set that it takes.

use proptest::prelude::*;
use weir_classify::engines::hipac::HipacClassifier;
use weir_classify::engines::linear::LinearClassifier;
use weir_classify::engines::tuple::TupleClassifier;
use weir_classify::engines::tuplemerge::TupleMergeClassifier;
use weir_classify::interval_dag::UpdatableIntervalDag;
use weir_classify::{
    BuildLimits, Classifier, ClassifierBuildError, Engine, Filter, FilterSet, KeySchema, KeyTable,
    KeyWord, RuleListsByKey, SingleFilterRule, UpdatableClassifier, UpdateError, WordTest,
};

/// A random filter set, and keys of which many are at the ends of its tests.
fn arbitrary_case() -> impl Strategy<Value = (FilterSet, KeyTable)> {
    let seeds = (any::<u64>(), 0..40usize, any::<bool>());
    seeds.prop_map(|(seed, rule_count, with_bits)| {
        let mut rng = weir_random::Rng::new(seed);
        let mut words = vec![
            KeyWord::interval("saddr", 32),
            KeyWord::interval("daddr", 32),
            KeyWord::interval("dport", 16),
        ];
        if with_bits {
            words.push(KeyWord::bits("state"));
        }
        let schema = KeySchema::new(words);
        let mut filters = FilterSet::new(schema.clone());
        let mut number = 0;
        for _ in 0..rule_count {
            number += 1 + rng.below(3) as u32;
            filters.push_rule(number, rng.below(4) != 0, &random_tests(&mut rng, &schema));
            for _ in 0..rng.below(5).saturating_sub(3) {
                filters.push_filter_of_last_rule(&random_tests(&mut rng, &schema));
            }
        }
        let mut keys = KeyTable::new(&schema);
        for _ in 0..64 {
            let key = random_key(&mut rng, &filters);
            keys.push(&key);
        }
        (filters, keys)
    })
}

fn random_tests(rng: &mut weir_random::Rng, schema: &KeySchema) -> Vec<WordTest> {
    let mut random_test = |word: &KeyWord| match (word.name.as_str(), rng.below(4)) {
        (_, 0) => WordTest::ANY,
        ("state", _) => {
            let mask = rng.below(8) as u32;
            WordTest::Masked { value: rng.below(8) as u32 & mask, mask }
        }
        ("dport", 1) => {
            let (a, b) = (rng.below(20) as u32, rng.below(20) as u32);
            WordTest::Within { lo: a.min(b), hi: a.max(b) }
        }
        ("dport", _) => WordTest::exactly(rng.below(20) as u32),
        (_, 1) => WordTest::exactly(0x0a00_0000 + rng.below(16) as u32),
        _ => WordTest::prefix(0x0a00_0000 | rng.below(1 << 16) as u32, 8 + rng.below(25) as u32),
    };
    schema.words().iter().map(&mut random_test).collect()
}

fn random_key(rng: &mut weir_random::Rng, filters: &FilterSet) -> Vec<u32> {
    let words = filters.schema().words().iter();
    if filters.filter_count() == 0 {
        return words.map(|_| rng.below(1 << 16) as u32).collect();
    }
    let chosen = filters.filter(rng.below(filters.filter_count()));
    let of_test = |(word, test): (&KeyWord, &WordTest)| match (*test, rng.below(6)) {
        (WordTest::Within { lo, .. }, 0) => lo.saturating_sub(1),
        (WordTest::Within { hi, .. }, 1) => hi.saturating_add(1).min(word.max_value()),
        (WordTest::Within { lo, .. }, 2) => lo,
        (WordTest::Within { hi, .. }, 3) => hi,
        (WordTest::Within { lo, hi }, _) => lo + (rng.next_u64() % (u64::from(hi - lo) + 1)) as u32,
        (WordTest::Masked { value, mask }, _) => value | (rng.below(8) as u32 & !mask),
    };
    words.zip(chosen.tests).map(of_test).collect()
}

/// The packets on which two classifiers differ.
fn find_difference(
    reference: &dyn Classifier,
    other: &dyn Classifier,
    keys: &KeyTable,
) -> Option<String> {
    let mut firsts = [vec![0; keys.key_count()], vec![0; keys.key_count()]];
    let mut lists = [RuleListsByKey::default(), RuleListsByKey::default()];
    for (at, classifier) in [reference, other].into_iter().enumerate() {
        classifier.find_first_deciding(keys, &mut firsts[at]);
        classifier.collect_matching(keys, &mut lists[at]);
    }
    (0..keys.key_count()).find_map(|i| {
        let differs = firsts[0][i] != firsts[1][i] || lists[0].row(i) != lists[1].row(i);
        differs.then(|| {
            let (want, got) = (lists[0].row(i), lists[1].row(i));
            format!("{:x?}: {} {want:?}, not {} {got:?}", keys.key(i), firsts[0][i], firsts[1][i])
        })
    })
}

proptest! {
    #[test]
    fn every_engine_agrees_with_the_linear_engine((filters, keys) in arbitrary_case()) {
        let limits = BuildLimits::default();
        let reference = Engine::Linear.build(&filters, &limits).unwrap();
        for engine in Engine::ALL {
            let classifier = match engine.build(&filters, &limits) {
                Ok(classifier) => classifier,
                Err(ClassifierBuildError::UnsupportedRule { .. }) => continue,
                Err(other) => panic!("{other}"),
            };
            let difference = find_difference(&*reference, &*classifier, &keys);
            prop_assert_eq!(difference, None, "{}", engine.name());
        }
    }
}

fn build_without_rules(schema: &KeySchema) -> Vec<Box<dyn UpdatableClassifier>> {
    let (none, limits) = (FilterSet::new(schema.clone()), BuildLimits::default());
    vec![
        Box::new(HipacClassifier::new(&none, &limits).unwrap()),
        Box::new(TupleClassifier::new(&none, &limits).unwrap()),
        Box::new(TupleMergeClassifier::new(&none, &limits).unwrap()),
        Box::new(UpdatableIntervalDag::build(&none, &limits).unwrap()),
    ]
}

/// The rules of a set that are kept, by number.
fn filter_rules(filters: &FilterSet, is_kept: impl Fn(u32) -> bool) -> FilterSet {
    let mut kept = FilterSet::new(filters.schema().clone());
    let mut last = None;
    for filter in filters.filters().filter(|filter| is_kept(filter.rule)) {
        if last == Some(filter.rule) {
            kept.push_filter_of_last_rule(filter.tests);
        } else {
            kept.push_rule(filter.rule, filters.is_deciding(filter.rule), filter.tests);
        }
        last = Some(filter.rule);
    }
    kept
}

proptest! {
    /// Rules of one filter are inserted in random order, half of them removed, and inserted again.
    #[test]
    fn updates_give_the_same_results_as_a_build((filters, keys) in arbitrary_case(), seed in any::<u64>()) {
        let mut rng = weir_random::Rng::new(seed);
        let mut updates: Vec<_> = filters.filters().collect();
        updates.dedup_by_key(|filter| filter.rule);
        let mut with_one = FilterSet::new(filters.schema().clone());
        for filter in &updates {
            with_one.push_rule(filter.rule, filters.is_deciding(filter.rule), filter.tests);
        }
        (1..updates.len()).rev().for_each(|at| updates.swap(at, rng.below(at + 1)));
        for mut classifier in build_without_rules(filters.schema()) {
            let insert = |classifier: &mut Box<dyn UpdatableClassifier>, filter: &Filter<'_>| {
                let Filter { rule, tests } = *filter;
                let is_deciding = filters.is_deciding(rule);
                classifier.insert(SingleFilterRule { rule, is_deciding, tests_by_word: tests })
            };
            let differs = |classifier: &dyn Classifier, removed: &[Filter<'_>]| {
                let is_kept = |rule| removed.iter().all(|filter| filter.rule != rule);
                let kept = filter_rules(&with_one, is_kept);
                find_difference(&LinearClassifier::new(&kept), classifier, &keys)
            };
            for filter in &updates {
                prop_assert_eq!(insert(&mut classifier, filter), Ok(()));
            }
            prop_assert_eq!(differs(&*classifier, &[]), None);
            let removed = &updates[..updates.len() / 2];
            for filter in removed {
                let duplicate = UpdateError::DuplicateRule(filter.rule);
                prop_assert_eq!(insert(&mut classifier, filter), Err(duplicate));
                prop_assert_eq!(classifier.remove(filter.rule), Ok(()));
                let missing = UpdateError::MissingRule(filter.rule);
                prop_assert_eq!(classifier.remove(filter.rule), Err(missing));
            }
            prop_assert_eq!(differs(&*classifier, removed), None);
            for filter in removed {
                prop_assert_eq!(insert(&mut classifier, filter), Ok(()));
            }
            prop_assert_eq!(differs(&*classifier, &[]), None);
        }
    }
}

#[test]
fn an_engine_that_misses_a_rule_is_caught() {
    let schema = KeySchema::new(vec![KeyWord::interval("dport", 16)]);
    let mut filters = FilterSet::new(schema.clone());
    filters.push_rule(0, true, &[WordTest::exactly(80)]);
    let reference = Engine::Linear.build(&filters, &BuildLimits::default()).unwrap();
    let none = FilterSet::new(schema.clone());
    let without = Engine::Linear.build(&none, &BuildLimits::default()).unwrap();
    let mut keys = KeyTable::new(&schema);
    keys.push(&[81]);
    assert_eq!(find_difference(&*reference, &*without, &keys), None);
    keys.push(&[80]);
    assert!(find_difference(&*reference, &*without, &keys).is_some());
}
