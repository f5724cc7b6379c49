//! The engine dag: every kind of group, all instructions, damaged blocks.

use weir_classify::interval_dag::{
    BlockError, ClassifierBlock, InstructionSet, IntervalDagClassifier, SearchMemoryBudget,
    check_damaged_block_if_accepted,
};
use weir_classify::{
    BuildLimits, Classifier, Engine, FilterSet, KeySchema, KeyTable, KeyWord, RuleListsByKey,
    WordTest,
};
use weir_random::Rng;

const BIT_VECTORS_ALONE: SearchMemoryBudget =
    SearchMemoryBudget { memory_bytes_base: 0, memory_bytes_per_filter: 0 };

/// Filters that overlap widely, with keys at the ends of their intervals.
fn random_case(seed: u64, rule_count: u32, with_bits: bool) -> (FilterSet, KeyTable) {
    let counts = WordCounts { wide: 2, narrow: 2, bits: usize::from(with_bits) };
    random_case_with_words(seed, rule_count, counts)
}

/// How many words a key has: with 32 bits, with at most 16, and with bits that masks test.
#[derive(Clone, Copy, Debug)]
struct WordCounts {
    wide: usize,
    narrow: usize,
    bits: usize,
}

fn random_case_with_words(seed: u64, rule_count: u32, counts: WordCounts) -> (FilterSet, KeyTable) {
    let mut rng = Rng::new(seed);
    let wide = (0..counts.wide).map(|n| KeyWord::interval(&format!("wide{n}"), 32));
    let narrow =
        (0..counts.narrow).map(|n| KeyWord::interval(&format!("narrow{n}"), [16, 8][n % 2]));
    let bits = (0..counts.bits).map(|n| KeyWord::bits(&format!("bits{n}")));
    let schema = KeySchema::new(wide.chain(narrow).chain(bits).collect());
    let mut filters = FilterSet::new(schema.clone());
    for rule in 0..rule_count {
        let is_bits = |word: &KeyWord| word.name.starts_with("bits");
        // More words are tested less often: keys match some filters.
        let kinds = 2 + schema.words().len() / 4;
        let tests = schema.words().iter().map(|word| match (is_bits(word), rng.below(kinds)) {
            (true, _) => {
                let mask = rng.below(4) as u32;
                WordTest::Masked { value: rng.below(4) as u32 & mask, mask }
            }
            (false, kind) if kind + 2 < kinds || kind == 0 => WordTest::ANY,
            (false, _) => {
                let max = word.max_value() as usize;
                let (a, b) = (rng.below(max) as u32, rng.below(max) as u32);
                WordTest::Within { lo: a.min(b), hi: a.max(b) }
            }
        });
        let tests: Vec<WordTest> = tests.collect();
        filters.push_rule(rule * 3 + 1, rng.below(4) != 0, &tests);
    }
    let mut keys = KeyTable::new(&schema);
    for _ in 0..75 {
        let filter = filters.filter(rng.below(filters.filter_count()));
        let of_test = |test: &WordTest| match *test {
            WordTest::Within { lo, hi } => *rng.pick(&[lo, hi, lo + (hi - lo) / 2]),
            WordTest::Masked { value, mask } => value | (rng.below(4) as u32 & !mask),
        };
        let key: Vec<u32> = filter.tests.iter().map(of_test).collect();
        keys.push(&key);
    }
    (filters, keys)
}

fn answers(classifier: &dyn Classifier, keys: &KeyTable) -> (Vec<u32>, RuleListsByKey, Vec<u64>) {
    let mut first = vec![0; keys.key_count()];
    classifier.find_first_deciding(keys, &mut first);
    let mut lists = RuleListsByKey::default();
    classifier.collect_matching(keys, &mut lists);
    let mut counters = vec![0; 20_000];
    classifier.increment_counters_of_all_matching_rules(keys, &mut counters);
    (first, lists, counters)
}

#[test]
fn dag_agrees_with_linear_for_all_instruction_sets() {
    for (rule_count, with_bits) in [(1, false), (60, true), (600, true), (2100, false)] {
        let (filters, keys) = random_case(u64::from(rule_count), rule_count, with_bits);
        let linear = Engine::Linear.build(&filters, &BuildLimits::default()).unwrap();
        let expected = answers(&*linear, &keys);
        assert!(expected.1.total_length() > 0, "keys match");
        for budget in [SearchMemoryBudget::default(), BIT_VECTORS_ALONE] {
            let limits = BuildLimits::default();
            let dag = IntervalDagClassifier::build_within_search_budget(&filters, &limits, budget)
                .unwrap();
            for instructions in InstructionSet::available() {
                let dag = dag.clone().with_instructions(instructions);
                let is_equal = answers(&dag, &keys) == expected;
                assert!(is_equal, "{rule_count} rules, {budget:?}, {instructions:?}");
            }
        }
    }
}

#[test]
fn dag_agrees_with_linear_for_keys_of_any_width() {
    for wide in [0, 1, 5, 8] {
        for (narrow, bits) in [(0, 1), (1, 0), (4, 0), (5, 2), (3, 3)] {
            let counts = WordCounts { wide, narrow, bits };
            let (filters, keys) = random_case_with_words(wide as u64, 120, counts);
            let linear = Engine::Linear.build(&filters, &BuildLimits::default()).unwrap();
            let expected = answers(&*linear, &keys);
            assert!(expected.1.total_length() > 0, "{counts:?}: keys match");
            for budget in [SearchMemoryBudget::default(), BIT_VECTORS_ALONE] {
                let limits = BuildLimits::default();
                let dag =
                    IntervalDagClassifier::build_within_search_budget(&filters, &limits, budget)
                        .unwrap();
                for instructions in InstructionSet::available() {
                    let dag = dag.clone().with_instructions(instructions);
                    let is_equal = answers(&dag, &keys) == expected;
                    assert!(is_equal, "{counts:?}, {budget:?}, {instructions:?}");
                }
            }
        }
    }
}

#[test]
fn memory_of_filters_that_overlap_widely_is_within_the_stated_bound() {
    let (filters, _) = random_case(7, 700, false);
    let dag = IntervalDagClassifier::build(&filters, &BuildLimits::default()).unwrap();
    // Few filters are in four groups at most, of searches or bit vectors.
    let bound = 4 * (256 << 10) + 700 * usize::max(1024, 4 * 1280);
    assert!(dag.memory_bytes() <= bound, "{} of {bound}", dag.memory_bytes());
}

#[test]
fn a_block_that_was_written_is_read_back() {
    let (filters, keys) = random_case(3, 100, true);
    let dag = IntervalDagClassifier::build(&filters, &BuildLimits::default()).unwrap();
    let bytes = dag.block().to_bytes();
    let read = IntervalDagClassifier::new(ClassifierBlock::parse(&bytes).unwrap());
    assert_eq!(answers(&read, &keys), answers(&dag, &keys));
    assert_eq!(bytes.len(), dag.memory_bytes());
}

#[test]
fn damaged_bytes_are_refused() {
    let (filters, _) = random_case(3, 12, true);
    let dag = IntervalDagClassifier::build(&filters, &BuildLimits::default()).unwrap();
    let bytes = dag.block().to_bytes();
    let parse = |bytes: &[u8]| ClassifierBlock::parse(bytes).err();
    assert_eq!(parse(&bytes), None);
    assert_eq!(parse(&[]), Some(BlockError::Length));
    assert_eq!(parse(&bytes[..bytes.len() - 64]), Some(BlockError::Length));
    assert_eq!(parse(&bytes[..bytes.len() - 1]), Some(BlockError::Length));
    for at in (0..bytes.len()).step_by(bytes.len() / 300 + 1) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(parse(&damaged).is_some(), "byte {at}");
    }
    let mut of_other_version = bytes;
    of_other_version[4] = 9;
    assert_eq!(parse(&of_other_version), Some(BlockError::Version(9)));
}

#[test]
fn corruption_with_valid_checksum_never_reads_outside_the_block() {
    let mut rng = Rng::new(11);
    let (mut accepted, mut refused) = (0, 0);
    for budget in [SearchMemoryBudget::default(), BIT_VECTORS_ALONE] {
        let (filters, keys) = random_case(5, 24, true);
        let limits = BuildLimits::default();
        let dag =
            IntervalDagClassifier::build_within_search_budget(&filters, &limits, budget).unwrap();
        assert!(check_damaged_block_if_accepted(dag.block(), &[], &keys), "undamaged");
        let word_count = dag.memory_bytes() / 4;
        for round in 0..400 {
            // Half of the edits are in the header and the groups.
            let place = rng.below(if round % 2 == 0 { 160 } else { word_count }) as u32;
            let word = match rng.below(3) {
                0 => rng.below(200) as u32,
                1 => 0x8000_0000 | rng.below(200) as u32,
                _ => rng.next_u64() as u32,
            };
            let edit = [place.to_le_bytes(), word.to_le_bytes()].concat();
            let is_accepted = check_damaged_block_if_accepted(dag.block(), &edit, &keys);
            if is_accepted { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(accepted > 20 && refused > 20, "{accepted} accepted, {refused} refused");
}

#[test]
fn a_look_up_in_one_bucket_reads_the_lines_of_its_cell_and_block() {
    let mut filters = FilterSet::new(KeySchema::five_tuple());
    let mut keys = KeyTable::new(filters.schema());
    for rule in 0..8 {
        let port = WordTest::exactly(rule);
        filters.push_rule(rule, true, &[WordTest::ANY; 5].map(|_| port));
        keys.push(&[rule; 5]);
    }
    let build = |budget| {
        IntervalDagClassifier::build_within_search_budget(&filters, &BuildLimits::default(), budget)
    };
    let dag = build(SearchMemoryBudget::default()).expect("a small set");
    // A block of eight filters has four lines for five words, and its cell is one.
    assert_eq!(dag.count_first_match_cache_lines(&keys), Some(8 * (1 + 4)));
    let vectors = build(BIT_VECTORS_ALONE).expect("a small set");
    let lines = vectors.count_first_match_cache_lines(&keys).expect("dag counts them");
    // Five cells, at least a node and a line of a bitmap for each, and the ranks.
    assert!(lines >= 8 * (5 + 5 + 1), "{lines}");
}
