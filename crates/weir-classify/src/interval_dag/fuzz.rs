//! Damaged blocks, for tests and fuzzing.

use super::block::{ClassifierBlock, HeaderWord, checksum_lines};
use super::cache_line::CacheLine;
use super::{InstructionSet, IntervalDagClassifier};
use crate::classifier::{Classifier, RuleListsByKey};
use crate::key::KeyTable;

/// Rules up to which matches are counted.
const COUNTERS_MAX: usize = 1 << 16;

/// Overwrites words of a block as `edits` state, corrects its checksum, and looks up `keys` if
/// what results is accepted as a block. Whether it was. An edit is 8 bytes: an index, then a word.
///
/// # Panics
/// If a look-up leaves the block, or differs between instructions.
pub fn check_damaged_block_if_accepted(
    block: &ClassifierBlock,
    edits: &[u8],
    keys: &KeyTable,
) -> bool {
    let mut lines = block.lines.to_vec();
    for edit in edits.as_chunks::<8>().0 {
        let [index, word] = [&edit[..4], &edit[4..]]
            .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")));
        let place = index as usize % (lines.len() * 16);
        lines[place / 16].0[place % 16] = word;
    }
    lines[0].0[HeaderWord::Checksum as usize] = checksum_lines(&lines);
    let bytes: Vec<u8> = lines.iter().flat_map(|line| line.0).flat_map(u32::to_le_bytes).collect();
    debug_assert_eq!(bytes.len(), lines.len() * CacheLine::BYTES);
    let Ok(damaged) = ClassifierBlock::parse(&bytes) else { return false };
    if damaged.word_test_methods().len() != keys.words_per_key() {
        return true;
    }
    let mut answers = InstructionSet::available().into_iter().map(|instructions| {
        let classifier = IntervalDagClassifier::new(damaged.clone());
        let classifier = classifier.with_instructions(instructions);
        let mut first = vec![0; keys.key_count()];
        classifier.find_first_deciding(keys, &mut first);
        let mut lists = RuleListsByKey::default();
        classifier.collect_matching(keys, &mut lists);
        let last_rule = damaged.rule_count.checked_sub(1).map(|last| damaged.rule_number_at(last));
        // A damaged number may be so large that there is no memory for counters.
        let counter_count = last_rule.map_or(0, |last| last as usize + 1);
        let mut counters = vec![0; counter_count.min(COUNTERS_MAX)];
        if counter_count <= COUNTERS_MAX {
            classifier.increment_counters_of_all_matching_rules(keys, &mut counters);
        }
        (first, lists, counters)
    });
    let portable = answers.next().expect("portable instructions are available");
    assert!(answers.all(|answer| answer == portable), "instructions differ");
    true
}
