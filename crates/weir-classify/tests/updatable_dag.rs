//! Updates of the engine dag: every reader's answers are those of the rules of its generation.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_classify::engines::linear::LinearClassifier;
use weir_classify::interval_dag::{IntervalDagReader, UpdatableIntervalDag};
use weir_classify::{
    BuildLimits, Classifier, FilterSet, KeySchema, KeyTable, KeyWord, RuleListsByKey,
    SingleFilterRule, UpdatableClassifier, UpdateError, WordTest,
};
use weir_random::Rng;

const RULES: u32 = 600;

/// Rules of which most are narrow, some wide, and some alike but for the number.
fn random_tests(rng: &mut Rng) -> Vec<WordTest> {
    let mut address = || match rng.below(8) {
        0 => WordTest::ANY,
        1 => WordTest::prefix((rng.below(4) as u32) << 28, 4),
        _ => WordTest::prefix(0x0a00_0000 | (rng.below(64) as u32) << 8, 20 + rng.below(13) as u32),
    };
    let (saddr, daddr) = (address(), address());
    let port = rng.below(30) as u32;
    let dport = WordTest::Within { lo: port, hi: port + rng.below(5) as u32 };
    let mask = rng.below(4) as u32;
    vec![saddr, daddr, dport, WordTest::Masked { value: rng.below(4) as u32 & mask, mask }]
}

fn schema() -> KeySchema {
    KeySchema::new(vec![
        KeyWord::interval("saddr", 32),
        KeyWord::interval("daddr", 32),
        KeyWord::interval("dport", 16),
        KeyWord::bits("state"),
    ])
}

/// All rules that are ever there, of which those of even number are there at first.
fn all_rules() -> FilterSet {
    let mut rng = Rng::new(5);
    let mut all = FilterSet::new(schema());
    for number in 0..RULES {
        all.push_rule(number, number % 5 != 0, &random_tests(&mut rng));
    }
    all
}

fn select_rules(all: &FilterSet, is_present: impl Fn(u32) -> bool) -> FilterSet {
    let mut present = FilterSet::new(schema());
    for filter in all.filters().filter(|filter| is_present(filter.rule)) {
        present.push_rule(filter.rule, all.is_deciding(filter.rule), filter.tests);
    }
    present
}

fn keys_of(all: &FilterSet) -> KeyTable {
    let mut rng = Rng::new(6);
    let mut keys = KeyTable::new(&schema());
    for _ in 0..150 {
        let filter = all.filter(rng.below(all.filter_count()));
        let words = filter.tests.iter().map(|test| match *test {
            WordTest::Within { lo, hi } => *rng.pick(&[lo, hi]),
            WordTest::Masked { value, mask } => value | (rng.below(4) as u32 & !mask),
        });
        keys.push(&words.collect::<Vec<u32>>());
    }
    keys
}

type Answers = (Vec<u32>, RuleListsByKey);

fn look_up(classifier: &dyn Classifier, keys: &KeyTable) -> Answers {
    let mut first = vec![0; keys.key_count()];
    classifier.find_first_deciding(keys, &mut first);
    (first, classifier.collect_rules_up_to_deciding(keys))
}

/// A rule that is inserted if it is absent, and removed if it is there.
fn toggle(dag: &mut UpdatableIntervalDag, all: &FilterSet, present: &mut [bool], rule: u32) {
    let is_present = &mut present[rule as usize];
    if *is_present {
        dag.remove(rule).unwrap();
    } else {
        let tests = all.filter(rule as usize).tests;
        let is_deciding = all.is_deciding(rule);
        dag.insert(SingleFilterRule { rule, is_deciding, tests_by_word: tests }).unwrap();
    }
    *is_present = !*is_present;
}

/// Snapshots of different generations with their answers, until the writer stops.
fn read_snapshots(
    reader: &IntervalDagReader,
    keys: &KeyTable,
    stop: &AtomicBool,
) -> Vec<(u64, Answers)> {
    let mut seen: Vec<(u64, Answers)> = vec![];
    loop {
        let is_last = stop.load(Ordering::Acquire);
        let snapshot = reader.snapshot();
        let answers = look_up(&*snapshot, keys);
        if seen.last().is_none_or(|last| last.0 < snapshot.update_count()) {
            seen.push((snapshot.update_count(), answers));
        } else {
            assert_eq!(seen.last(), Some(&(snapshot.update_count(), answers)), "snapshots ascend");
        }
        if is_last {
            return seen;
        }
    }
}

#[test]
fn concurrent_readers_see_the_rules_of_their_generation() {
    let all = all_rules();
    let keys = keys_of(&all);
    let first = select_rules(&all, |rule| rule % 2 == 0);
    let mut dag = UpdatableIntervalDag::build(&first, &BuildLimits::default()).unwrap();
    let stop = AtomicBool::new(false);
    let mut rng = Rng::new(7);
    let toggled: Vec<u32> = (0..3000).map(|_| rng.below(RULES as usize) as u32).collect();
    let seen: Vec<(u64, Answers)> = std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            let reader = dag.reader();
            let (keys, stop) = (&keys, &stop);
            scope.spawn(move || read_snapshots(&reader, keys, stop))
        });
        let mut present: Vec<bool> = (0..RULES).map(|rule| rule % 2 == 0).collect();
        for (index, rule) in toggled.iter().enumerate() {
            toggle(&mut dag, &all, &mut present, *rule);
            if index % 7 == 0 {
                dag.publish();
            }
        }
        dag.publish();
        stop.store(true, Ordering::Release);
        readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect()
    });
    assert!(seen.iter().any(|(generation, _)| *generation == toggled.len() as u64), "the last");
    for (generation, answers) in seen {
        let count_toggles = |rule: u32| {
            toggled[..generation as usize].iter().filter(|toggled| **toggled == rule).count()
        };
        let present =
            select_rules(&all, |rule| (rule as usize + count_toggles(rule)).is_multiple_of(2));
        let expected = look_up(&LinearClassifier::new(&present), &keys);
        assert!(answers == expected, "generation {generation}");
    }
}

#[test]
fn a_snapshot_that_is_kept_does_not_change() {
    let all = all_rules();
    let keys = keys_of(&all);
    let first = select_rules(&all, |rule| rule % 2 == 0);
    let mut dag = UpdatableIntervalDag::build(&first, &BuildLimits::default()).unwrap();
    let kept = dag.reader().snapshot();
    let before = look_up(&*kept, &keys);
    let mut present: Vec<bool> = (0..RULES).map(|rule| rule % 2 == 0).collect();
    for rule in 0..RULES {
        toggle(&mut dag, &all, &mut present, rule);
        if rule % 50 == 0 {
            dag.publish();
        }
    }
    assert!(look_up(&*kept, &keys) == before, "the snapshot");
    let expected =
        look_up(&LinearClassifier::new(&select_rules(&all, |rule| rule % 2 == 1)), &keys);
    assert!(before != expected, "the updates change answers");
    assert!(look_up(&dag, &keys) == expected, "the writer");
    assert_eq!(dag.reader().snapshot().update_count(), 551, "not yet published");
    dag.publish();
    assert!(look_up(&*dag.reader().snapshot(), &keys) == expected, "the reader");
}

#[test]
fn an_insertion_over_the_memory_limit_changes_nothing() {
    let all = all_rules();
    let keys = keys_of(&all);
    let first = select_rules(&all, |rule| rule < 8);
    let limits = BuildLimits { memory_bytes_max: 80 << 10, ..BuildLimits::default() };
    let mut dag = UpdatableIntervalDag::build(&first, &limits).unwrap();
    let mut present: Vec<bool> = vec![true; 8];
    let refusal = (8..RULES).find_map(|rule| {
        let (tests, is_deciding) = (all.filter(rule as usize).tests, all.is_deciding(rule));
        let result = dag.insert(SingleFilterRule { rule, is_deciding, tests_by_word: tests });
        present.push(result.is_ok());
        result.err()
    });
    assert!(matches!(refusal, Some(UpdateError::LimitReached { .. })), "{refusal:?}");
    let present = select_rules(&all, |rule| present.get(rule as usize) == Some(&true));
    assert!(look_up(&dag, &keys) == look_up(&LinearClassifier::new(&present), &keys));
}
