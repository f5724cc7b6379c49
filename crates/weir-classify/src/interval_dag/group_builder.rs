//! Builds the structures of groups.

use super::bit_vectors::{BIT_VECTOR_FILTERS_MAX, build_bit_vectors};
use super::block_writer::GroupStructure;
use super::build_meter::BuildMeter;
use super::dag_construction::{
    DagLimits, FirstMatchTestedWords, IntervalDag, NoSearchReason, build_interval_dag,
};
use super::filter_columns::FilterColumns;
use super::filter_copies::FilterCopies;
use crate::build_limits::ClassifierBuildError;

/// What the search of a group may take; bit vectors replace it otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchMemoryBudget {
    /// Bytes that a search may take however few filters it has.
    pub memory_bytes_base: usize,
    /// Further bytes for each filter of the group.
    pub memory_bytes_per_filter: usize,
}

impl SearchMemoryBudget {
    fn bytes_for_filters(self, filter_count: usize) -> usize {
        self.memory_bytes_base + self.memory_bytes_per_filter * filter_count
    }
}

impl Default for SearchMemoryBudget {
    fn default() -> Self {
        SearchMemoryBudget { memory_bytes_base: 256 << 10, memory_bytes_per_filter: 128 }
    }
}

/// What all groups of a construction have in common.
pub(super) struct GroupBuilder<'a> {
    pub(super) columns: &'a FilterColumns,
    pub(super) bucket_block_bytes: usize,
    pub(super) bucket_filters_max: usize,
    /// Whether bit vectors have bits for filters that are inserted.
    pub(super) has_spare_bits: bool,
    pub(super) budget: SearchMemoryBudget,
    pub(super) meter: BuildMeter,
    /// Whether threads may be used.
    pub(super) is_parallel: bool,
}

/// How much more memory for each filter a group may take that cannot be divided: about as much as
/// bit vectors on a single word.
const INDIVISIBLE_GROUP_BUDGET_FACTOR: usize = 8;
/// From how many filters on groups are built in threads of their own.
const THREAD_PER_GROUP_FILTERS_MIN: usize = 16_384;

impl GroupBuilder<'_> {
    /// A search of each list, or what it copied if it exceeds its budget.
    pub(super) fn try_searches(
        &self,
        lists: &[Vec<u32>],
    ) -> Result<Vec<Result<IntervalDag, Box<FilterCopies>>>, ClassifierBuildError> {
        let build = |list: &Vec<u32>| {
            self.build_search_within(list, None, self.budget.bytes_for_filters(list.len()), 1)
        };
        let filter_count = lists.iter().map(Vec::len).sum::<usize>();
        if !self.is_parallel || filter_count < THREAD_PER_GROUP_FILTERS_MIN {
            return lists.iter().map(build).collect();
        }
        std::thread::scope(|scope| {
            let builders: Vec<_> =
                lists.iter().map(|list| scope.spawn(move || build(list))).collect();
            builders.into_iter().map(|b| b.join().expect("construction panicked")).collect()
        })
    }

    /// A larger search, or bit vectors.
    pub(super) fn build_indivisible_group(
        &self,
        list: &[u32],
    ) -> Result<Vec<GroupStructure>, ClassifierBuildError> {
        let memory_bytes_max =
            self.budget.bytes_for_filters(INDIVISIBLE_GROUP_BUDGET_FACTOR * list.len());
        if let Ok(search) = self.build_search_within(list, None, memory_bytes_max, 1)? {
            return Ok(vec![GroupStructure::Search(search)]);
        }
        let chunks = list.chunks(BIT_VECTOR_FILTERS_MAX);
        let build = |list| build_bit_vectors(self.columns, list, self.has_spare_bits, &self.meter);
        chunks.map(|list| Ok(GroupStructure::BitVectors(build(list)?))).collect()
    }

    /// A search of no filters.
    pub(super) fn build_empty_search(&self) -> Result<GroupStructure, ClassifierBuildError> {
        let search = self.build_search_within(&[], None, self.budget.memory_bytes_base, 1)?;
        Ok(GroupStructure::Search(search.expect("a search without nodes is within the budget")))
    }

    /// A search of at most so many bytes, for which so many filters are listed for each byte;
    /// `None` if there is none.
    pub(super) fn build_search_within(
        &self,
        list: &[u32],
        first_match: Option<FirstMatchTestedWords<'_>>,
        memory_bytes_max: usize,
        listed_filters_per_byte: usize,
    ) -> Result<Result<IntervalDag, Box<FilterCopies>>, ClassifierBuildError> {
        let limits = DagLimits {
            bucket_block_bytes: self.bucket_block_bytes,
            memory_bytes_max,
            listed_filters_max: listed_filters_per_byte * memory_bytes_max,
            bucket_filters_max: self.bucket_filters_max,
            is_parallel: self.is_parallel,
        };
        match build_interval_dag(self.columns, list, first_match, limits, &self.meter) {
            Ok(dag) => Ok(Ok(dag)),
            Err(NoSearchReason::BuildLimitExceeded(error)) => Err(error),
            Err(NoSearchReason::OverBudget(copies)) => Ok(Err(copies)),
        }
    }

    /// Counts the memory of a search that becomes part of the block.
    pub(super) fn charge_search_memory(
        &self,
        group: &GroupStructure,
    ) -> Result<(), ClassifierBuildError> {
        match group {
            GroupStructure::Search(dag) => {
                self.meter.take_bytes(dag.memory_bytes(self.bucket_block_bytes))
            }
            GroupStructure::BitVectors(_) => Ok(()),
        }
    }
}
