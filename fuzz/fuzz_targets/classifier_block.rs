//! Arbitrary bytes as a classifier block, and as damage of a valid one whose checksum is corrected.
#![no_main]

use std::sync::LazyLock;

use weir_classify::interval_dag::{
    ClassifierBlock, IntervalDagClassifier, SearchMemoryBudget, check_damaged_block_if_accepted,
};
use weir_classify::{BuildLimits, FilterSet, KeySchema, KeyTable, KeyWord, WordTest};

/// Blocks of searches, and of bit vectors alone.
static BLOCKS: LazyLock<Vec<ClassifierBlock>> = LazyLock::new(|| {
    let none = SearchMemoryBudget { memory_bytes_base: 0, memory_bytes_per_filter: 0 };
    let (filters, limits) = (filters(), BuildLimits::default());
    let build = |budget| {
        IntervalDagClassifier::build_within_search_budget(&filters, &limits, budget)
            .expect("a small set")
            .block()
            .clone()
    };
    [SearchMemoryBudget::default(), none].map(build).into()
});

fn filters() -> FilterSet {
    let words = vec![
        KeyWord::interval("saddr", 32),
        KeyWord::interval("dport", 16),
        KeyWord::bits("state"),
    ];
    let mut filters = FilterSet::new(KeySchema::new(words));
    for rule in 0..64 {
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
    let mut keys = KeyTable::new(filters().schema());
    for key in 0..20 {
        keys.push(&[key << 27, key * 31, key & 3]);
    }
    for block in &*BLOCKS {
        check_damaged_block_if_accepted(block, data, &keys);
    }
});
