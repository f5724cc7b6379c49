//! Updates of groups of bit vectors: answers are those of the linear search, and no build begins.

use weir_random::Rng;

use super::*;
use crate::engines::linear::LinearClassifier;
use crate::key::KeyWord;

/// Filters that are equally wide on both addresses, and overlap: no search fits them, and no width
/// divides them.
fn overlapping_filters(count: u32) -> FilterSet {
    let mut rng = Rng::new(u64::from(count));
    let schema = KeySchema::new(vec![
        KeyWord::interval("saddr", 32),
        KeyWord::interval("daddr", 32),
        KeyWord::interval("dport", 16),
        KeyWord::bits("state"),
    ]);
    let mut filters = FilterSet::new(schema);
    for rule in 0..count {
        let mut wide = |step: u32, open: u32| {
            let lo = rng.below(32) as u32 * step;
            WordTest::Within { lo, hi: lo + open }
        };
        let (saddr, daddr) = (wide(1 << 26, u32::MAX >> 1), wide(1 << 26, u32::MAX >> 1));
        let dport = wide(12, 100);
        let mask = rng.below(4) as u32;
        let state = WordTest::Masked { value: rng.below(4) as u32 & mask, mask };
        filters.push_rule(rule, rule % 5 != 0, &[saddr, daddr, dport, state]);
    }
    filters
}

fn select_rules(all: &FilterSet, is_present: &[bool]) -> FilterSet {
    let mut present = FilterSet::new(all.schema().clone());
    for filter in all.filters().filter(|filter| is_present[filter.rule as usize]) {
        present.push_rule(filter.rule, all.is_deciding(filter.rule), filter.tests);
    }
    present
}

fn assert_agrees_with_linear(dag: &UpdatableIntervalDag, present: &FilterSet, rng: &mut Rng) {
    let mut keys = KeyTable::new(present.schema());
    for _ in 0..40 {
        let mut below = |count: usize| rng.below(count) as u32;
        keys.push(&[below(64) << 26 | below(9), below(64) << 26, below(500), below(4)]);
    }
    let answers = |classifier: &dyn Classifier| {
        let mut first = vec![0; keys.key_count()];
        classifier.find_first_deciding(&keys, &mut first);
        (first, classifier.collect_rules_up_to_deciding(&keys))
    };
    assert!(answers(dag) == answers(&LinearClassifier::new(present)), "answers");
}

/// Inserts and removes random rules of the set, of which about seven of eight are there at any
/// time, and checks answers on the way.
fn toggle_rules_without_build(count: u32, has_summary: bool) {
    let all = overlapping_filters(count);
    let mut present: Vec<bool> = (0..count).map(|rule| rule % 8 != 0).collect();
    let first = select_rules(&all, &present);
    let mut dag = UpdatableIntervalDag::build(&first, &BuildLimits::default())
        .expect("built within the limits");
    let vectors = &dag.published.classifier.block.groups.bit_vectors;
    assert!(vectors.iter().any(|group| (group.summary_lines_per_bitmap > 0) == has_summary));
    let mut rng = Rng::new(3);
    for index in 0..4 * count {
        let rule = rng.below(count as usize) as u32;
        let is_present = &mut present[rule as usize];
        let is_insertion = !*is_present;
        if !is_insertion && rng.below(7) != 0 {
            continue;
        }
        *is_present = is_insertion;
        if is_insertion {
            let (tests_by_word, is_deciding) =
                (all.filter(rule as usize).tests, all.is_deciding(rule));
            dag.insert(SingleFilterRule { rule, is_deciding, tests_by_word }).expect("room");
        } else {
            dag.remove(rule).expect("it is there");
        }
        if rng.below(5) == 0 {
            dag.publish();
        }
        if index % (count / 4) < 8 {
            assert_agrees_with_linear(&dag, &select_rules(&all, &present), &mut rng);
        }
    }
    let snapshot = dag.newest_snapshot();
    let overflow = snapshot.partition.overflow_search;
    let block = &snapshot.classifier.block;
    assert_eq!(block.root_bucket_block_count_or_zero(overflow), 0, "filters in the overflow");
    assert!(dag.can_retire_published && dag.running_build.is_none(), "a build");
    assert_agrees_with_linear(&dag, &select_rules(&all, &present), &mut rng);
}

#[test]
fn rules_that_no_search_fits_are_changed_in_bit_vectors_without_a_build() {
    toggle_rules_without_build(500, false);
}

#[test]
fn rules_are_changed_in_bit_vectors_with_summaries() {
    toggle_rules_without_build(2_200, true);
}

/// Each insertion sets bits of keys that the filter does not match, and removals free the bits: the
/// room never ends, but look-ups become slower.
#[test]
fn many_insertions_into_bit_vectors_lead_to_a_build() {
    let all = overlapping_filters(500);
    let mut dag = UpdatableIntervalDag::build(&all, &BuildLimits::default())
        .expect("built within the limits");
    let vectors = &dag.published.classifier.block.groups.bit_vectors;
    let bits: usize = vectors.iter().map(|group| group.filter_count).sum();
    assert!(bits > 0);
    let mut insertions = 0;
    while dag.running_build.is_none() && dag.can_retire_published {
        let rule = insertions as u32 % 500;
        dag.remove(rule).expect("it is there");
        let (tests_by_word, is_deciding) = (all.filter(rule as usize).tests, true);
        dag.insert(SingleFilterRule { rule, is_deciding, tests_by_word }).expect("room");
        insertions += 1;
        assert!(insertions <= bits + 1, "no build begins");
    }
    assert!(insertions > bits / 2, "it begins too early: {insertions} of {bits}");
}
