//! Construction of the search of one group: interval nodes that end in buckets.

use std::collections::HashMap;

use super::bucket_rows::LANES;
use super::build_meter::BuildMeter;
use super::filter_columns::FilterColumns;
use super::interval_sweep::{cut_into_pieces, sum_n_log_n_over_intervals};
use super::root_table::RootTable;
use super::search_node::{LEAF_FLAG, NODE_WORDS, NodeRef, NodeTable};
use super::word_hasher::BuildWordHasher;
use crate::build_limits::ClassifierBuildError;

/// Bits of a leaf that are the index of its first block; four bits above are their number.
pub(super) const BLOCK_INDEX_BITS: u32 = 27;
/// The most blocks of a bucket.
pub(super) const BLOCKS_PER_BUCKET_MAX: usize = 15;
/// The most blocks of all buckets: what the bits of a leaf can number.
pub(super) const ALL_BUCKET_BLOCKS_MAX: usize = 1 << BLOCK_INDEX_BITS;

/// The leaf of a bucket.
pub(super) fn encode_bucket_leaf(first_block: usize, block_count: usize) -> NodeRef {
    debug_assert!(first_block < ALL_BUCKET_BLOCKS_MAX && block_count <= BLOCKS_PER_BUCKET_MAX);
    LEAF_FLAG | (block_count as u32) << BLOCK_INDEX_BITS | first_block as u32
}

/// First block and number of blocks of a leaf.
pub(super) fn decode_bucket_leaf(leaf: NodeRef) -> (usize, usize) {
    let first_block = leaf & ((1 << BLOCK_INDEX_BITS) - 1);
    (first_block as usize, (leaf >> BLOCK_INDEX_BITS) as usize & BLOCKS_PER_BUCKET_MAX)
}

/// Why a group has no search.
#[derive(Debug)]
pub(super) enum NoSearchReason {
    /// It would be larger than its budget.
    OverBudget,
    /// The construction of the whole exceeds its limits.
    BuildLimitExceeded(ClassifierBuildError),
}

/// Nodes and buckets of one group, with numbers of their own.
#[derive(Debug)]
pub(super) struct IntervalDag {
    pub(super) nodes: NodeTable,
    /// For each block, up to [`LANES`] filters.
    pub(super) bucket_blocks: Vec<Vec<u32>>,
    pub(super) root: RootTable,
}

/// What a construction may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct DagLimits {
    pub(super) bucket_block_bytes: usize,
    pub(super) memory_bytes_max: usize,
    /// Filters with which the search stops: at most [`LANES`].
    pub(super) bucket_filters_max: usize,
}

/// Builds the search for the filters of `list`.
pub(super) fn build_interval_dag(
    columns: &FilterColumns,
    list: &[u32],
    limits: DagLimits,
    meter: &BuildMeter,
) -> Result<IntervalDag, NoSearchReason> {
    let mut builder = DagBuilder {
        columns,
        limits,
        meter,
        nodes: NodeTable::default(),
        bucket_blocks: vec![],
        search_by_words_and_list: HashMap::default(),
        bucket_leaf_by_list: HashMap::default(),
        active_index_of_filter: vec![0; columns.ranks.len()],
        listed_filter_count: 0,
    };
    let words = columns.interval_words_bitmask();
    let root = match builder.choose_word(list, words) {
        Some(word) if list.len() > limits.bucket_filters_max => {
            let pieces = builder.add_pieces(list, words, word)?;
            let bits = columns.words[word].bits.expect("a word that is searched");
            RootTable::of_pieces(&mut builder.nodes, word, bits, pieces)
        }
        _ => RootTable::with_single_cell(builder.add_bucket(list)?),
    };
    builder.check_budget(root.cells.len())?;
    Ok(IntervalDag { nodes: builder.nodes, bucket_blocks: builder.bucket_blocks, root })
}

struct DagBuilder<'a> {
    columns: &'a FilterColumns,
    limits: DagLimits,
    meter: &'a BuildMeter,
    nodes: NodeTable,
    bucket_blocks: Vec<Vec<u32>>,
    search_by_words_and_list: HashMap<(u32, Box<[u32]>), NodeRef, BuildWordHasher>,
    bucket_leaf_by_list: HashMap<Box<[u32]>, NodeRef, BuildWordHasher>,
    active_index_of_filter: Vec<u32>,
    /// Length of all lists of pieces: the work of the construction.
    listed_filter_count: usize,
}

impl DagBuilder<'_> {
    /// The search for the filters of `list` on the words of the set `words`. Neither drops a
    /// filter: a bucket has every filter that may match.
    fn find_or_add_search(&mut self, list: &[u32], words: u32) -> Result<NodeRef, NoSearchReason> {
        if list.len() <= self.limits.bucket_filters_max {
            return self.add_bucket(list);
        }
        let key = (words, list.into());
        if let Some(found) = self.search_by_words_and_list.get(&key) {
            return Ok(*found);
        }
        let search = match self.choose_word(list, words) {
            None => self.add_bucket(list)?,
            Some(word) => {
                let pieces = self.add_pieces(list, words, word)?;
                self.nodes.add_search_levels(word, pieces)
            }
        };
        self.search_by_words_and_list.insert(key, search);
        Ok(search)
    }

    /// The pieces into which a word cuts the filters, and what each leads to.
    fn add_pieces(
        &mut self,
        list: &[u32],
        words: u32,
        word: usize,
    ) -> Result<Vec<(u32, NodeRef)>, NoSearchReason> {
        let column = &self.columns.words[word];
        let pieces = cut_into_pieces(
            column,
            list,
            self.limits.bucket_filters_max,
            &mut self.active_index_of_filter,
        );
        let listed = pieces.iter().map(|piece| piece.candidates.len()).sum::<usize>();
        self.listed_filter_count += listed;
        self.meter.take_steps(listed).map_err(NoSearchReason::BuildLimitExceeded)?;
        self.check_budget(0)?;
        let mut children = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let child = self.find_or_add_search(&piece.candidates, words & !(1 << word))?;
            children.push((piece.start, child));
        }
        Ok(children)
    }

    /// The word with the least leftover work; `None` if no word tells the filters apart.
    fn choose_word(&self, list: &[u32], words: u32) -> Option<usize> {
        let of_set = (0..self.columns.words.len()).filter(|word| words >> word & 1 == 1);
        let with_work = of_set.filter_map(|word| {
            let column = &self.columns.words[word];
            Some((sum_n_log_n_over_intervals(column, list, self.limits.bucket_filters_max)?, word))
        });
        with_work.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
    }

    fn add_bucket(&mut self, list: &[u32]) -> Result<NodeRef, NoSearchReason> {
        if let Some(found) = self.bucket_leaf_by_list.get(list) {
            return Ok(*found);
        }
        let mut sorted = list.to_vec();
        sorted.sort_unstable_by_key(|filter| self.columns.ranks[*filter as usize]);
        let (first_block, block_count) = (self.bucket_blocks.len(), list.len().div_ceil(LANES));
        if block_count > BLOCKS_PER_BUCKET_MAX || first_block + block_count > ALL_BUCKET_BLOCKS_MAX
        {
            return Err(NoSearchReason::OverBudget);
        }
        self.bucket_blocks.extend(sorted.chunks(LANES).map(<[u32]>::to_vec));
        let leaf = encode_bucket_leaf(if list.is_empty() { 0 } else { first_block }, block_count);
        self.bucket_leaf_by_list.insert(list.into(), leaf);
        self.check_budget(0)?;
        Ok(leaf)
    }

    /// Refuses what exceeds the budget, with a root of so many cells.
    fn check_budget(&self, cells: usize) -> Result<(), NoSearchReason> {
        let node_words = self.nodes.nodes.len() * NODE_WORDS;
        let bytes = (node_words + cells) * size_of::<u32>()
            + self.bucket_blocks.len() * self.limits.bucket_block_bytes;
        let work_max = self.limits.memory_bytes_max;
        let is_within =
            bytes <= self.limits.memory_bytes_max && self.listed_filter_count <= work_max;
        if is_within { Ok(()) } else { Err(NoSearchReason::OverBudget) }
    }
}
