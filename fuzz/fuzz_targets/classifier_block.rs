//! Arbitrary bytes as a classifier block, and as damage of a valid one whose checksum is corrected.
#![no_main]

use std::sync::LazyLock;

use weir_classify::interval_dag::{
    ClassifierBlock, IntervalDagClassifier, SearchMemoryBudget, UpdatableIntervalDag,
    check_damaged_block_if_accepted,
};
use weir_classify::{BuildLimits, FilterSet, KeySchema, KeyTable, KeyWord, WordTest};

/// Blocks of searches, of bit vectors alone, without and with summaries, and of both with room for
/// changes.
static BLOCKS: LazyLock<Vec<ClassifierBlock>> = LazyLock::new(|| {
    let none = SearchMemoryBudget { memory_bytes_base: 0, memory_bytes_per_filter: 0 };
    let limits = BuildLimits::default();
    let build = |(filter_count, budget)| {
        IntervalDagClassifier::build_within_search_budget(&filters(filter_count), &limits, budget)
            .expect("a small set")
            .block()
            .clone()
    };
    let mut blocks: Vec<ClassifierBlock> =
        [(64, SearchMemoryBudget::default()), (64, none)].map(build).into();
    let build_updatable = |filter_count| {
        let dag = UpdatableIntervalDag::build(&filters(filter_count), &limits);
        dag.expect("a small set").reader().snapshot().block().clone()
    };
    blocks.extend([build_updatable(64), build((2_100, none)), build_updatable(2_100)]);
    blocks
});

fn filters(filter_count: u32) -> FilterSet {
    let words = vec![
        KeyWord::interval("saddr", 32),
        KeyWord::interval("dport", 16),
        KeyWord::bits("state"),
    ];
    let mut filters = FilterSet::new(KeySchema::new(words));
    for rule in 0..filter_count {
        let dport = WordTest::Within { lo: rule * 7, hi: rule * 9 + 20 };
        let state = WordTest::Masked { value: rule & 1, mask: rule & 3 | 1 };
        filters.push_rule(
            rule,
            rule % 5 != 0,
            &[WordTest::prefix(rule << 26, 4 + rule % 8), dport, state],
        );
    }
    filters
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = ClassifierBlock::parse(data);
    let mut keys = KeyTable::new(filters(1).schema());
    for key in 0..20 {
        keys.push(&[key << 27, key * 31, key & 3]);
    }
    let [choice, edits @ ..] = data else { return };
    // The last two are large: fewer inputs are for them.
    let index = match choice % 16 {
        small @ 0..15 => usize::from(small % 3),
        _ => 3 + usize::from(choice / 16 % 2),
    };
    check_damaged_block_if_accepted(&BLOCKS[index], edits, &keys);
});
