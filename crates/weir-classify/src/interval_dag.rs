//! Our engine: interval nodes, buckets and bit vectors in one block of memory.
//!
//! **Problem.** A key has several words, and a filter tests each by an interval or a mask. All
//! filters that a key passes are wanted, at a cost that hardly grows with their number.
//!
//! **A search for each word in turn.** The ends of the filters' intervals on one word cut its
//! values into elementary intervals. A node finds the interval of a value; below it, only the
//! filters that contain the interval remain, and a node on another word separates those. Equal
//! lists of filters share one node ([`dag`]). This is the interval decision diagram of Compact
//! Filter (M. Christiansen, E. Fleury, 2004). Its lists of *all* matching filters explode: millions
//! at 10,000 filters.
//!
//! **Buckets.** The search stops at lists of eight filters, and neighbouring intervals become one
//! while their filters together are eight. Eight filters are compared at once with vector
//! instructions ([`rows`], [`lanes`]). A bucket tests all words again, so a search that separates
//! nothing is slow, never wrong; words of bits are tested there alone.
//!
//! **Groups.** A filter that is wide on the searched word is copied into many intervals. Filters
//! are therefore divided by whether they are narrow on each of two address words ([`partition`]),
//! and each group has its own search. A key is looked up in all groups. With the least rank found
//! so far, groups are skipped whose rules all come later.
//!
//! **Bit vectors.** A group whose search exceeds its budget, because its filters overlap widely,
//! becomes bitmaps of filters for the intervals of each word ([`bit_vectors`]). Their size is
//! bounded, so that of the whole is: [`SearchBudget`] for searches, and about 1,200 bytes
//! for each filter and word in bit vectors.
//!
//! **Block.** Everything is cache lines of one block that refers to its parts by index ([`block`])
//! and is checked when it is read ([`parse`]). A node is two lines, a bucket four for
//! the five-tuple.
//!
//! **Batches.** Sixteen keys are looked up together in all groups ([`walk`]): each step fetches the
//! next node or bucket of one search and goes on with another.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod bit_vectors;
mod block;
mod columns;
mod dag;
mod fuzz;
mod hash;
mod lanes;
mod layout;
mod look_up;
mod node;
mod parse;
mod partition;
mod rows;
mod sweep;
mod walk;

pub use self::block::ClassifierBlock;
pub use self::fuzz::check_damaged_block;
pub use self::look_up::Instructions;
pub use self::parse::BlockError;

use self::bit_vectors::{BIT_VECTOR_FILTERS_MAX, build_bit_vectors};
use self::columns::{COUNTS_ONLY, FilterColumns};
use self::dag::{DagLimits, build_interval_dag};
use self::layout::{GroupStructure, write_block};
use self::look_up::walk_with;
use self::partition::partition_filters;
use self::rows::RowLayout;
use self::walk::{AllRanks, BATCH, LeastRanks, RankCounters};
use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{Classifier, RuleLists};
use crate::filter_set::{FilterSet, NO_RULE};
use crate::key::KeyTable;

/// What the search of a group may take; bit vectors replace it otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchBudget {
    /// Bytes that a search may take however few filters it has.
    pub memory_bytes_min: usize,
    /// Further bytes for each filter of the group.
    pub memory_bytes_per_filter: usize,
}

impl Default for SearchBudget {
    fn default() -> Self {
        SearchBudget { memory_bytes_min: 256 << 10, memory_bytes_per_filter: 128 }
    }
}

/// The structure, and the instructions with which it is walked.
#[derive(Clone, Debug)]
pub struct IntervalDagClassifier {
    block: ClassifierBlock,
    instructions: Instructions,
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
        IntervalDagClassifier::build_within(filters, limits, SearchBudget::default())
    }

    /// Builds the structure with another budget of searches; with none, of bit vectors alone.
    ///
    /// # Errors
    /// It would be larger than allowed.
    pub fn build_within(
        filters: &FilterSet,
        limits: &BuildLimits,
        budget: SearchBudget,
    ) -> Result<IntervalDagClassifier, ClassifierBuildError> {
        let columns = FilterColumns::new(filters);
        let kinds: Vec<_> = filters.schema().words().iter().map(|word| word.kind).collect();
        let block_bytes = RowLayout::new(&kinds).block_lines() * block::CacheLine::BYTES;
        let lists = partition_filters(&columns);
        let groups: Vec<GroupStructure> = std::thread::scope(|scope| {
            let columns = &columns;
            let builders: Vec<_> = lists
                .iter()
                .map(|list| scope.spawn(move || build_group(columns, list, block_bytes, budget)))
                .collect();
            builders.into_iter().flat_map(|b| b.join().expect("construction panicked")).collect()
        });
        let lines = write_block(filters, &columns, &groups);
        if lines.len() * block::CacheLine::BYTES > limits.memory_bytes_max {
            let limit_bytes = limits.memory_bytes_max;
            return Err(ClassifierBuildError::TooLarge { engine: "dag", limit_bytes });
        }
        let block = ClassifierBlock::from_lines(lines).expect("what was built is a block");
        Ok(IntervalDagClassifier::new(block))
    }

    /// Look-ups in a block, with the fastest instructions that the processor has.
    pub fn new(block: ClassifierBlock) -> IntervalDagClassifier {
        let available = Instructions::available();
        let instructions = *available.last().expect("portable instructions are available");
        IntervalDagClassifier { block, instructions }
    }

    /// Look-ups with other instructions.
    ///
    /// # Panics
    /// If the processor does not have them.
    pub fn with_instructions(self, instructions: Instructions) -> IntervalDagClassifier {
        assert!(Instructions::available().contains(&instructions), "{instructions:?}");
        IntervalDagClassifier { instructions, ..self }
    }

    /// The block.
    pub fn block(&self) -> &ClassifierBlock {
        &self.block
    }

    fn batches<'a>(&self, keys: &'a KeyTable) -> impl Iterator<Item = &'a [u32]> {
        assert_eq!(keys.words_per_key(), self.block.word_kinds().len(), "words of a key");
        keys.words().chunks(BATCH * keys.words_per_key())
    }
}

fn build_group(
    columns: &FilterColumns,
    list: &[u32],
    block_bytes: usize,
    budget: SearchBudget,
) -> Vec<GroupStructure> {
    let memory_bytes_max = budget.memory_bytes_min + budget.memory_bytes_per_filter * list.len();
    match build_interval_dag(columns, list, DagLimits { block_bytes, memory_bytes_max }) {
        Ok(dag) => vec![GroupStructure::Search(dag)],
        Err(dag::OverBudget) => list
            .chunks(BIT_VECTOR_FILTERS_MAX)
            .map(|list| GroupStructure::BitVectors(build_bit_vectors(columns, list)))
            .collect(),
    }
}

impl Classifier for IntervalDagClassifier {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(first.len(), keys.key_count(), "a place for each key");
        for (batch, first) in self.batches(keys).zip(first.chunks_mut(BATCH)) {
            let mut least = LeastRanks([NO_RULE; BATCH]);
            walk_with(self.instructions, &self.block, batch, &mut least);
            for (first, rank) in first.iter_mut().zip(least.0) {
                let decides = rank < COUNTS_ONLY;
                *first = if decides { self.block.number_of_rank(rank as usize) } else { NO_RULE };
            }
        }
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleLists) {
        let mut matching = AllRanks::default();
        for batch in self.batches(keys) {
            walk_with(self.instructions, &self.block, batch, &mut matching);
            for ranks in matching.0.iter_mut().take(batch.len() / keys.words_per_key()) {
                for rank in ranks.drain(..) {
                    lists.push(self.block.number_of_rank((rank & !COUNTS_ONLY) as usize));
                }
                lists.finish_row();
            }
        }
    }

    fn count_matching(&self, keys: &KeyTable, counters: &mut [u64]) {
        if !self.block.has_one_filter_per_rule {
            let mut lists = RuleLists::default();
            self.collect_matching(keys, &mut lists);
            let rows = (0..lists.row_count()).flat_map(|row| lists.row(row));
            rows.for_each(|rule| counters[*rule as usize] += 1);
            return;
        }
        let mut count = RankCounters(|rank: u32| {
            let number = self.block.number_of_rank((rank & !COUNTS_ONLY) as usize);
            counters[number as usize] += 1;
        });
        for batch in self.batches(keys) {
            walk_with(self.instructions, &self.block, batch, &mut count);
        }
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.block.is_deciding(rule)
    }

    fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
    }
}
