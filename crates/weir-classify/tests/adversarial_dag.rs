//! The engine dag on filters for which searches separate nothing or explode: memory within the
//! bound that its module states, and builds that end.

use weir_classify::engines::linear::LinearClassifier;
use weir_classify::interval_dag::{IntervalDagClassifier, UpdatableIntervalDag};
use weir_classify::{
    BuildLimits, Classifier, ClassifierBuildError, FilterSet, KeySchema, KeyTable, KeyWord,
    RuleListsByKey, SingleFilterRule, UpdatableClassifier, WordTest,
};
use weir_random::Rng;

/// What the module states: 256 KiB for each of 31 groups; for each filter 1,024 bytes in searches
/// or 1,500 bytes for each word in bit vectors; for small sets four more searches; and the numbers
/// of the rules.
fn stated_bound_bytes(filters: &FilterSet) -> usize {
    let words = filters.schema().word_count();
    let first_match = if filters.filter_count() <= 16_384 {
        4 * (256 << 10) + filters.filter_count() * 128
    } else {
        0
    };
    let bytes_per_filter = usize::max(1024, 1500 * words) + 5;
    first_match + 31 * (256 << 10) + filters.filter_count() * bytes_per_filter + 4096
}

fn look_up(classifier: &dyn Classifier, keys: &KeyTable) -> (Vec<u32>, RuleListsByKey) {
    let mut first = vec![0; keys.key_count()];
    classifier.find_first_deciding(keys, &mut first);
    (first, classifier.collect_rules_up_to_deciding(keys))
}

/// Keys at the ends of the tests of some filters.
fn keys_of(filters: &FilterSet, rng: &mut Rng) -> KeyTable {
    let mut keys = KeyTable::new(filters.schema());
    for _ in 0..60 {
        let filter = filters.filter(rng.below(filters.filter_count()));
        let words = filter.tests.iter().map(|test| match *test {
            WordTest::Within { lo, hi } => *rng.pick(&[lo, hi, lo + (hi - lo) / 2]),
            WordTest::Masked { value, mask } => value | (rng.next_u64() as u32 & !mask),
        });
        keys.push(&words.collect::<Vec<u32>>());
    }
    keys
}

fn check_against_list(filters: &FilterSet, name: &str) {
    let dag = IntervalDagClassifier::build(filters, &BuildLimits::default()).unwrap();
    let (bytes, bound) = (dag.memory_bytes(), stated_bound_bytes(filters));
    assert!(bytes <= bound, "{name}: {bytes} of {bound} bytes");
    let keys = keys_of(filters, &mut Rng::new(3));
    assert!(look_up(&dag, &keys) == look_up(&LinearClassifier::new(filters), &keys), "{name}");
}

fn random_interval(rng: &mut Rng, max: u32) -> WordTest {
    let (a, b) = (rng.next_u64() as u32 & max, rng.next_u64() as u32 & max);
    WordTest::Within { lo: a.min(b), hi: a.max(b) }
}

fn fill_set(
    words: &[KeyWord],
    count: u32,
    mut tests: impl FnMut(&mut Rng, u32) -> Vec<WordTest>,
) -> FilterSet {
    let mut rng = Rng::new(u64::from(count));
    let mut filters = FilterSet::new(KeySchema::new(words.to_vec()));
    for number in 0..count {
        filters.push_rule(number, number % 3 != 0, &tests(&mut rng, number));
    }
    filters
}

#[test]
fn dag_agrees_with_linear_on_widely_overlapping_filters() {
    let words = KeySchema::five_tuple().words().to_vec();
    let filters = fill_set(&words, 5_000, |rng, _| {
        [u32::MAX, u32::MAX, 0xffff, 0xffff, 0xff].map(|max| random_interval(rng, max)).into()
    });
    check_against_list(&filters, "wide intervals on all words");
    let filters = fill_set(&words, 3_000, |rng, _| {
        let port = |rng: &mut Rng| random_interval(rng, 0xffff);
        vec![WordTest::ANY, WordTest::ANY, port(rng), port(rng), WordTest::ANY]
    });
    check_against_list(&filters, "ranges of ports alone");
}

#[test]
fn dag_agrees_with_linear_on_noncontiguous_masks() {
    let words = [KeyWord::bits("mark"), KeyWord::bits("state"), KeyWord::interval("dport", 16)];
    let filters = fill_set(&words, 2_000, |rng, _| {
        let mut masked = || {
            let mask = rng.next_u64() as u32 & rng.next_u64() as u32 & 0x5555_0f0f;
            WordTest::Masked { value: rng.next_u64() as u32 & mask, mask }
        };
        vec![masked(), masked(), WordTest::ANY]
    });
    check_against_list(&filters, "masks alone");
}

#[test]
fn dag_agrees_with_linear_on_four_word_addresses() {
    let addresses = ["saddr", "daddr"]
        .into_iter()
        .flat_map(|name| (0..4).map(move |word| KeyWord::interval(&format!("{name}[{word}]"), 32)));
    let mut words: Vec<KeyWord> = addresses.collect();
    words.push(KeyWord::interval("dport", 16));
    let filters = fill_set(&words, 4_000, |rng, _| {
        let mut address = || {
            let len = *rng.pick(&[0, 32, 48, 64, 64, 128]);
            (0..4)
                .map(|word: u32| {
                    let bits = if word == 0 { 0x2001_0db8 } else { rng.below(40) as u32 };
                    WordTest::prefix(bits, u32::min(32, u32::saturating_sub(len, 32 * word)))
                })
                .collect::<Vec<_>>()
        };
        let mut tests = [address(), address()].concat();
        tests.push(if rng.below(2) == 0 { WordTest::ANY } else { WordTest::exactly(443) });
        tests
    });
    check_against_list(&filters, "IPv6");
}

#[test]
fn dag_of_200_000_equal_filters_stays_within_the_memory_bound() {
    let words = [KeyWord::interval("saddr", 32), KeyWord::interval("daddr", 32)];
    let filters =
        fill_set(&words, 200_000, |_, _| vec![WordTest::prefix(0x0a00_0000, 8), WordTest::ANY]);
    let dag = IntervalDagClassifier::build(&filters, &BuildLimits::default()).unwrap();
    let (bytes, bound) = (dag.memory_bytes(), stated_bound_bytes(&filters));
    assert!(bytes <= bound, "{bytes} of {bound} bytes");
    let mut keys = KeyTable::new(filters.schema());
    keys.push(&[0x0a00_0001, 7]);
    keys.push(&[0x0b00_0001, 7]);
    let mut matching = RuleListsByKey::default();
    dag.collect_matching(&keys, &mut matching);
    assert_eq!((matching.row(0).len(), matching.row(1).len()), (200_000, 0));
}

#[test]
fn building_bit_vectors_stops_at_the_step_limit() {
    let words = [KeyWord::interval("saddr", 32), KeyWord::interval("daddr", 32)];
    let filters = fill_set(&words, 5_000, |rng, _| {
        vec![random_interval(rng, u32::MAX), random_interval(rng, u32::MAX)]
    });
    let limits = BuildLimits { steps_max: 1_000_000, ..BuildLimits::default() };
    let refused = IntervalDagClassifier::build(&filters, &limits).map(|_| ());
    let expected = ClassifierBuildError::TooManySteps { engine: "dag", limit_steps: 1_000_000 };
    assert_eq!(refused, Err(expected));
    assert!(IntervalDagClassifier::build(&filters, &BuildLimits::default()).is_ok());
}

#[test]
fn filters_in_bit_vectors_can_be_removed_and_inserted() {
    let words = KeySchema::five_tuple().words().to_vec();
    let filters = fill_set(&words, 1_500, |rng, _| {
        [u32::MAX, u32::MAX, 0xffff, 0xffff, 0xff].map(|max| random_interval(rng, max)).into()
    });
    let keys = keys_of(&filters, &mut Rng::new(4));
    let mut dag = UpdatableIntervalDag::build(&filters, &BuildLimits::default()).unwrap();
    for rule in (0..1_500).step_by(2) {
        dag.remove(rule).unwrap();
    }
    for rule in (0..1_500).step_by(6) {
        let (tests, is_deciding) = (filters.filter(rule as usize).tests, rule % 3 != 0);
        dag.insert(SingleFilterRule { rule, is_deciding, tests_by_word: tests }).unwrap();
    }
    let mut expected = FilterSet::new(filters.schema().clone());
    for filter in filters.filters().filter(|filter| filter.rule % 2 == 1 || filter.rule % 6 == 0) {
        expected.push_rule(filter.rule, filter.rule % 3 != 0, filter.tests);
    }
    assert!(look_up(&dag, &keys) == look_up(&LinearClassifier::new(&expected), &keys));
    assert!(look_up(&dag, &keys) != look_up(&LinearClassifier::new(&filters), &keys), "control");
}
