//! Our engine: interval nodes, buckets and bit vectors in one block of memory.
//!
//! **Problem.** A key has several words, and a filter tests each by an interval or a mask. All
//! filters that a key passes are wanted, at a cost that hardly grows with their number.
//!
//! **A search for each word in turn.** The ends of the filters' intervals on one word cut its
//! values into elementary intervals. A node finds the interval of a value; below it, only the
//! filters that contain the interval remain, and a node on another word separates those. Equal
//! lists of filters share one node ([`dag_construction`]). This is the interval decision diagram of
//! Compact Filter (M. Christiansen, E. Fleury, 2004). Its lists of *all* matching filters explode:
//! millions at 10,000 filters.
//!
//! **Buckets.** The search stops at lists of eight filters, and neighbouring intervals become one
//! while their filters together are eight; up to 32 filters remain one list if the next word would
//! list each more than three times on average. Eight filters are compared at once with vector
//! instructions ([`bucket_rows`], [`lane_comparisons`]). A bucket tests all words again, so a search
//! that separates nothing is slow, never wrong; words of bits are tested there alone.
//!
//! **Groups.** A filter that is wide on the searched word is copied into many intervals. Filters
//! are therefore divided into groups, each with its own search: by whether they are narrow on each
//! of two address words ([`filter_partition`]), and further wherever a search would exceed its
//! budget, at the word and width of the filters that it copies most ([`filter_copies`],
//! [`group_division`]). A key is looked up in all groups, of which at most 31 have searches, one
//! more where rules change. With the least rank found so far, groups are skipped whose rules all
//! come later.
//!
//! **Bit vectors.** Filters that no search of 256 KiB and 1,024 bytes for each of them fits, because
//! they overlap widely, become bitmaps of filters for the intervals of each word ([`bit_vectors`]).
//! Their size is bounded, so that of the whole is: 256 KiB for each search, and for each filter
//! 1,024 bytes in searches ([`SearchMemoryBudget`]) or about 1,500 bytes for each word in bit
//! vectors.
//!
//! **Small sets.** Up to 16,384 filters, the division into groups that takes the fewest steps on
//! sample keys is chosen among four, one of which is a single group. Searches for the first match
//! alone, which leave out filters behind one that matches everything, are added if they are much
//! faster ([`structure_choice`]); they take at most 1 MiB and 128 bytes for each filter.
//!
//! **Block.** Everything is cache lines of one block that refers to its parts by index ([`block`])
//! and is checked when it is read ([`block_parser`]). A node is two lines, a bucket four for
//! the five-tuple.
//!
//! **Updates.** Filters are inserted into buckets ([`block_edit`]) and bit vectors
//! ([`bit_vector_edit`]) and removed from them in place, in a copy that no reader sees before it is
//! published ([`updatable`]).
//!
//! **Instructions.** A line is compared with AVX-512, half a line with AVX2, or lane by lane
//! ([`instruction_dispatch`]). Blocks are in huge pages if the system has them
//! ([`huge_page_lines`]).
//!
//! **Batches.** Sixteen keys are looked up together in all groups ([`batch_walk`]): each step
//! fetches the next node or bucket of one search and goes on with another.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod batch_walk;
mod bit_vector_edit;
mod bit_vectors;
mod block;
mod block_edit;
mod block_parser;
mod block_writer;
mod bucket_rows;
mod build_meter;
mod cache_line;
mod dag_construction;
mod filter_columns;
mod filter_copies;
mod filter_partition;
mod fuzz;
mod group_builder;
mod group_division;
mod huge_page_lines;
mod instruction_dispatch;
mod interval_sweep;
mod lane_comparisons;
mod match_sinks;
mod retired_copies;
mod root_table;
mod search_node;
mod structure_choice;
mod updatable;
mod word_hasher;

pub use self::block::ClassifierBlock;
pub use self::block_parser::BlockError;
pub use self::fuzz::check_damaged_block_if_accepted;
pub use self::instruction_dispatch::InstructionSet;
pub use self::updatable::{IntervalDagReader, IntervalDagSnapshot, UpdatableIntervalDag};

use self::batch_walk::MatchSink;
use self::block_writer::{BlockGroups, count_bucket_blocks, write_classifier_block};
use self::bucket_rows::RowLayout;
use self::build_meter::BuildMeter;
use self::cache_line::LANES;
use self::filter_columns::{FilterColumns, RULE_NUMBER_MAX};
use self::filter_partition::FilterPartition;
use self::group_builder::GroupBuilder;
pub use self::group_builder::SearchMemoryBudget;
use self::instruction_dispatch::walk_keys_with_instructions;
use self::match_sinks::{
    FilterMatchCountersByRule, FirstDecidingRules, FirstMatchLineCount, MatchingRules,
};
use self::structure_choice::{GroupChoice, GroupChooser, TRIAL_FILTERS_MAX};
use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{Classifier, RuleListsByKey};
use crate::filter_set::FilterSet;
use crate::key::KeyTable;

/// Filters for each block of a bucket in a structure that is updated: two lanes of a block are free
/// on average.
const UPDATABLE_BUCKET_FILTERS_MAX: usize = LANES - 2;
/// The fewest spare blocks of such a structure: it has a quarter of those that it uses.
const SPARE_BUCKET_BLOCKS_MIN: usize = 256;

/// The structure, and the instructions with which it is walked.
#[derive(Clone, Debug)]
pub struct IntervalDagClassifier {
    block: ClassifierBlock,
    instructions: InstructionSet,
}

impl IntervalDagClassifier {
    /// Builds the structure.
    ///
    /// # Errors
    /// It would be larger than allowed.
    pub fn build(
        filters: &FilterSet,
        limits: &BuildLimits,
    ) -> Result<IntervalDagClassifier, ClassifierBuildError> {
        IntervalDagClassifier::build_within_search_budget(
            filters,
            limits,
            SearchMemoryBudget::default(),
        )
    }

    /// Builds the structure with another budget of searches; with none, of bit vectors alone.
    ///
    /// # Errors
    /// It would be larger than allowed.
    pub fn build_within_search_budget(
        filters: &FilterSet,
        limits: &BuildLimits,
        budget: SearchMemoryBudget,
    ) -> Result<IntervalDagClassifier, ClassifierBuildError> {
        check_rule_numbers(filters)?;
        let columns = FilterColumns::new(filters);
        let build = |makes_trials: bool| {
            let builder = GroupBuilder {
                columns: &columns,
                bucket_block_bytes: bucket_block_bytes_of_schema(filters),
                bucket_filters_max: LANES,
                has_spare_bits: false,
                budget,
                meter: BuildMeter::new(limits),
                is_parallel: true,
            };
            let chooser = match makes_trials {
                true => GroupChooser::new(&builder),
                false => GroupChooser::without_trials(&builder),
            };
            let choice = chooser.choose_groups()?;
            let first_match = chooser.choose_first_match_groups(filters, &choice);
            let groups = BlockGroups { all_matches: choice.groups, first_match };
            assemble_block(filters, &columns, &groups, 0, limits)
        };
        // What trials choose may be faster and larger.
        let may_have_trials = filters.filter_count() <= TRIAL_FILTERS_MAX;
        let block = build(true).or_else(|error| match error {
            ClassifierBuildError::TooLarge { .. } if may_have_trials => build(false),
            other => Err(other),
        })?;
        Ok(IntervalDagClassifier::new(block))
    }

    /// Builds the structure with spare blocks and an empty search, on this thread alone.
    fn build_with_spare_blocks(
        filters: &FilterSet,
        limits: &BuildLimits,
    ) -> Result<(IntervalDagClassifier, FilterPartition), ClassifierBuildError> {
        check_rule_numbers(filters)?;
        let columns = FilterColumns::new(filters);
        let builder = GroupBuilder {
            columns: &columns,
            bucket_block_bytes: bucket_block_bytes_of_schema(filters),
            bucket_filters_max: UPDATABLE_BUCKET_FILTERS_MAX,
            has_spare_bits: true,
            budget: SearchMemoryBudget::default(),
            meter: BuildMeter::new(limits),
            is_parallel: false,
        };
        let GroupChoice { partition, mut groups, .. } =
            GroupChooser::new(&builder).choose_groups()?;
        groups.push(builder.build_empty_search()?);
        let used_blocks: usize = groups.iter().map(count_bucket_blocks).sum();
        let spare_bucket_blocks = SPARE_BUCKET_BLOCKS_MIN.max(used_blocks / 4);
        // What is inserted or removed would change which filters are behind others.
        let groups = BlockGroups { all_matches: groups, first_match: vec![] };
        let mut block = assemble_block(filters, &columns, &groups, spare_bucket_blocks, limits)?;
        block.spare_bucket_blocks = used_blocks..used_blocks + spare_bucket_blocks;
        Ok((IntervalDagClassifier::new(block), partition))
    }

    /// Look-ups in a block, with the fastest instructions that the processor has.
    pub fn new(block: ClassifierBlock) -> IntervalDagClassifier {
        let available = InstructionSet::available();
        let instructions = *available.last().expect("portable instructions are available");
        IntervalDagClassifier { block, instructions }
    }

    /// Look-ups with other instructions.
    ///
    /// # Panics
    /// If the processor does not have them.
    pub fn with_instructions(self, instructions: InstructionSet) -> IntervalDagClassifier {
        assert!(instructions.is_available(), "{instructions:?}");
        IntervalDagClassifier { instructions, ..self }
    }

    /// The block.
    pub fn block(&self) -> &ClassifierBlock {
        &self.block
    }

    fn look_up_keys(&self, keys: &KeyTable, sink: &mut impl MatchSink) {
        assert_eq!(keys.words_per_key(), self.block.word_test_methods().len(), "words of a key");
        walk_keys_with_instructions(self.instructions, &self.block, keys.words(), sink);
    }
}

/// Lanes have the numbers of rules, with a bit for those that only count.
fn check_rule_numbers(filters: &FilterSet) -> Result<(), ClassifierBuildError> {
    let last = filters.rules().last().map_or(0, |rule| rule.0);
    if last <= RULE_NUMBER_MAX {
        return Ok(());
    }
    let reason = format!("its number is above {RULE_NUMBER_MAX}");
    Err(ClassifierBuildError::UnsupportedRule { engine: "dag", rule: last, reason })
}

fn bucket_block_bytes_of_schema(filters: &FilterSet) -> usize {
    let kinds: Vec<_> = filters.schema().words().iter().map(|word| word.kind).collect();
    RowLayout::new(&kinds).bucket_block_lines() * cache_line::CacheLine::BYTES
}

fn assemble_block(
    filters: &FilterSet,
    columns: &FilterColumns,
    groups: &BlockGroups,
    spare_bucket_blocks: usize,
    limits: &BuildLimits,
) -> Result<ClassifierBlock, ClassifierBuildError> {
    let lines = write_classifier_block(filters, columns, groups, spare_bucket_blocks);
    if lines.len() * cache_line::CacheLine::BYTES > limits.memory_bytes_max {
        let limit_bytes = limits.memory_bytes_max;
        return Err(ClassifierBuildError::TooLarge { engine: "dag", limit_bytes });
    }
    Ok(ClassifierBlock::from_lines(lines).expect("what was built is a block"))
}

impl Classifier for IntervalDagClassifier {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(first.len(), keys.key_count(), "a place for each key");
        self.look_up_keys(keys, &mut FirstDecidingRules::new(first));
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        self.look_up_keys(keys, &mut MatchingRules::new(lists));
    }

    fn increment_counters_of_all_matching_rules(&self, keys: &KeyTable, counters: &mut [u64]) {
        if self.block.has_one_filter_per_rule {
            return self.look_up_keys(keys, &mut FilterMatchCountersByRule::new(counters));
        }
        let mut lists = RuleListsByKey::default();
        self.collect_matching(keys, &mut lists);
        let rows = (0..lists.row_count()).flat_map(|row| lists.row(row));
        rows.for_each(|rule| counters[*rule as usize] += 1);
    }

    fn count_first_match_cache_lines(&self, keys: &KeyTable) -> Option<usize> {
        let mut first = vec![0; keys.key_count()];
        let mut sink = FirstMatchLineCount::new(&mut first);
        self.look_up_keys(keys, &mut sink);
        Some(sink.lines_read)
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.block.is_deciding(rule)
    }

    fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
    }
}
