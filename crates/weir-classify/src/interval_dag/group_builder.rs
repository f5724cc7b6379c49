//! Builds the structures of groups.

use super::bit_vectors::{BIT_VECTOR_FILTERS_MAX, build_bit_vectors};
use super::block_writer::GroupStructure;
use super::build_meter::BuildMeter;
use super::dag_construction::{DagLimits, FirstMatchTestedWords, IntervalDag, build_interval_dag};
use super::filter_columns::FilterColumns;
use super::filter_copies::FilterCopies;
use crate::build_limits::ClassifierBuildError;

/// What the search of a group may take. A group that exceeds it is divided; one that cannot be
/// divided may take eight times as much for each filter, and becomes bit vectors otherwise.
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
/// How many filters the construction of a search may list however few it has, and for each of its
/// filters: what an attempt that is given up may cost.
const LISTED_FILTERS_BASE: usize = 1 << 20;
const LISTED_FILTERS_PER_FILTER: usize = 32;
/// From how many filters on groups are built in threads of their own.
const THREAD_PER_GROUP_FILTERS_MIN: usize = 16_384;

impl GroupBuilder<'_> {
    /// A search of each list, or what it copied if it exceeds its budget.
    pub(super) fn build_searches_within_budget(
        &self,
        lists: &[Vec<u32>],
    ) -> Result<Vec<Result<IntervalDag, FilterCopies>>, ClassifierBuildError> {
        let build = |list: &Vec<u32>| {
            let memory_bytes_max = self.budget.bytes_for_filters(list.len());
            let limits = self.limits_of_search(memory_bytes_max, list.len());
            self.build_search_within(list, None, limits)
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

    /// The search of a group that cannot be divided: it may be larger, but its construction lists no
    /// more filters. `None` if it would exceed that, too.
    pub(super) fn build_search_of_indivisible_group(
        &self,
        list: &[u32],
    ) -> Result<Option<IntervalDag>, ClassifierBuildError> {
        let factor = INDIVISIBLE_GROUP_BUDGET_FACTOR;
        let memory_bytes_max = self.budget.bytes_for_filters(factor * list.len());
        let limits = self.limits_of_search(memory_bytes_max, list.len());
        Ok(self.build_search_within(list, None, limits)?.ok())
    }

    /// Bit vectors of filters that no search fits.
    pub(super) fn build_bit_vector_groups(
        &self,
        filters: &[u32],
    ) -> Result<Vec<GroupStructure>, ClassifierBuildError> {
        let build = |list| build_bit_vectors(self.columns, list, self.has_spare_bits, &self.meter);
        let lists = filters.chunks(BIT_VECTOR_FILTERS_MAX);
        lists.map(|list| Ok(GroupStructure::BitVectors(build(list)?))).collect()
    }

    /// A search of no filters.
    pub(super) fn build_empty_search(&self) -> Result<GroupStructure, ClassifierBuildError> {
        let search = self.build_search_within(&[], None, self.limits_of_search(usize::MAX, 0))?;
        Ok(GroupStructure::Search(search.expect("there is no limit")))
    }

    fn limits_of_search(&self, memory_bytes_max: usize, filter_count: usize) -> DagLimits {
        DagLimits {
            bucket_block_bytes: self.bucket_block_bytes,
            memory_bytes_max,
            listed_filters_max: LISTED_FILTERS_BASE + LISTED_FILTERS_PER_FILTER * filter_count,
            bucket_filters_max: self.bucket_filters_max,
            prefers_buckets: true,
            is_parallel: self.is_parallel,
        }
    }

    /// A search for the filters of a list, or what it copied until it exceeded its limits.
    pub(super) fn build_search_within(
        &self,
        list: &[u32],
        first_match: Option<FirstMatchTestedWords<'_>>,
        limits: DagLimits,
    ) -> Result<Result<IntervalDag, FilterCopies>, ClassifierBuildError> {
        build_interval_dag(self.columns, list, first_match, limits, &self.meter)
    }

    /// Counts the memory of a search that becomes part of the block.
    pub(super) fn charge_search_memory(
        &self,
        search: &IntervalDag,
    ) -> Result<(), ClassifierBuildError> {
        self.meter.take_bytes(search.memory_bytes(self.bucket_block_bytes))
    }
}
