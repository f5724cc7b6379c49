//! Construction of the search of one group: interval nodes that end in buckets.

use std::collections::HashMap;

use super::build_meter::BuildMeter;
use super::cache_line::LANES;
use super::filter_columns::FilterColumns;
use super::filter_copies::FilterCopies;
use super::interval_sweep::{
    PieceWithCandidates, cut_into_first_match_pieces, cut_into_pieces, sum_n_log_n_over_intervals,
};
use super::root_table::RootTable;
use super::search_node::{FANOUT, LEAF_FLAG, NODE_WORDS, NodeRef, NodeTable};
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

/// The most blocks of a bucket that replaces a search on one more word, if the search would list
/// its filters often.
const PREFERRED_BUCKET_BLOCKS_MAX: usize = 4;
/// How often such a search may list each filter, on average.
const LISTINGS_PER_FILTER_MAX: usize = 3;

/// From how many filters on a search is built in two threads.
const TWO_THREAD_SEARCH_FILTERS_MIN: usize = 8_192;

/// How many filters cuts for the first match may visit, for each that may be listed: those that
/// they leave out take much less time.
const FIRST_MATCH_VISITS_PER_LISTED_FILTER: usize = 12;

/// Up to how many filters a search for the first match chooses its word by the filters that remain
/// on each; above, by all of the list, as other searches do.
const WORD_CHOICE_BY_TRIAL_CUT_FILTERS_MAX: usize = 1_024;

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
    /// Length of all lists of filters that are made: the work of the construction.
    pub(super) listed_filters_max: usize,
    /// Filters for each block of a bucket, and with which the search stops: at most [`LANES`].
    pub(super) bucket_filters_max: usize,
    /// Whether a bucket of several blocks is preferred to a search that copies its filters often.
    pub(super) prefers_buckets: bool,
    /// Whether many filters are searched by two halves, built in two threads.
    pub(super) is_parallel: bool,
}

/// What each filter tests, for searches for the first match: they leave out filters behind one that
/// matches all keys that come to their place. Masks are tested by no search.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstMatchTestedWords<'a> {
    /// Words that filters test, as sets of bits.
    pub(super) tested_words_of_filters: &'a [u32],
}

/// What a search costs on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct AverageSearchSteps {
    pub(super) nodes: f64,
    pub(super) bucket_blocks: f64,
}

impl IntervalDag {
    /// Its size in a block.
    pub(super) fn memory_bytes(&self, bucket_block_bytes: usize) -> usize {
        (self.nodes.nodes.len() * NODE_WORDS + self.root.cells.len()) * size_of::<u32>()
            + self.bucket_blocks.len() * bucket_block_bytes
    }

    /// The steps of the searches for some keys.
    pub(super) fn average_steps(&self, keys: &[Vec<u32>]) -> AverageSearchSteps {
        let (mut nodes, mut bucket_blocks) = (0, 0);
        for key in keys {
            let root = &self.root;
            let mut child = root.cells[(key[root.word] >> root.shift) as usize % root.cells.len()];
            while child & LEAF_FLAG == 0 {
                let node = &self.nodes.nodes[child as usize];
                let value = key[node[0] as usize];
                let place = node[1..FANOUT].iter().filter(|key| **key <= value).count();
                child = node[FANOUT + place];
                nodes += 1;
            }
            bucket_blocks += decode_bucket_leaf(child).1;
        }
        let average = |sum: usize| sum as f64 / keys.len().max(1) as f64;
        AverageSearchSteps { nodes: average(nodes), bucket_blocks: average(bucket_blocks) }
    }
}

/// Builds the search for the filters of `list`; with `first_match`, for the first of them alone. If
/// it exceeds its limits, the answer is what it has copied.
///
/// # Errors
/// The construction of the whole exceeds its limits.
pub(super) fn build_interval_dag(
    columns: &FilterColumns,
    list: &[u32],
    first_match: Option<FirstMatchTestedWords<'_>>,
    limits: DagLimits,
    meter: &BuildMeter,
) -> Result<Result<IntervalDag, FilterCopies>, ClassifierBuildError> {
    let mut builder = DagBuilder::new(columns, first_match, limits, meter);
    match builder.build_root(list) {
        Ok(root) => {
            Ok(Ok(IntervalDag { nodes: builder.nodes, bucket_blocks: builder.bucket_blocks, root }))
        }
        Err(SearchRefusal::OverBudget) => Ok(Err(builder.copies)),
        Err(SearchRefusal::BuildLimitExceeded(error)) => Err(error),
    }
}

/// Why the construction of a search ends.
#[derive(Debug)]
enum SearchRefusal {
    /// The search exceeds its own limits.
    OverBudget,
    /// The construction of the whole exceeds its limits.
    BuildLimitExceeded(ClassifierBuildError),
}

struct DagBuilder<'a> {
    columns: &'a FilterColumns,
    first_match: Option<FirstMatchTestedWords<'a>>,
    limits: DagLimits,
    meter: &'a BuildMeter,
    nodes: NodeTable,
    bucket_blocks: Vec<Vec<u32>>,
    search_by_words_and_list: HashMap<(u32, Box<[u32]>), NodeRef, BuildWordHasher>,
    bucket_leaf_by_list: HashMap<Box<[u32]>, NodeRef, BuildWordHasher>,
    active_index_of_filter: Vec<u32>,
    /// Length of all lists of pieces: the work of the construction.
    listed_filter_count: usize,
    /// Filters that cuts for the first match may still visit.
    visits_left: usize,
    /// What cuts have copied.
    copies: FilterCopies,
}

impl<'a> DagBuilder<'a> {
    fn new(
        columns: &'a FilterColumns,
        first_match: Option<FirstMatchTestedWords<'a>>,
        limits: DagLimits,
        meter: &'a BuildMeter,
    ) -> DagBuilder<'a> {
        DagBuilder {
            columns,
            first_match,
            limits,
            meter,
            nodes: NodeTable::default(),
            bucket_blocks: vec![],
            search_by_words_and_list: HashMap::default(),
            bucket_leaf_by_list: HashMap::default(),
            active_index_of_filter: vec![0; columns.ranks.len()],
            listed_filter_count: 0,
            visits_left: FIRST_MATCH_VISITS_PER_LISTED_FILTER * limits.listed_filters_max,
            copies: FilterCopies::new(columns.words.len()),
        }
    }

    /// The root of the search for the filters of `list`.
    fn build_root(&mut self, list: &[u32]) -> Result<RootTable, SearchRefusal> {
        let words = self.columns.interval_words_bitmask();
        let root = match self.choose_word(list, words) {
            Some(word) if list.len() > self.limits.bucket_filters_max => {
                let pieces = self.cut_within_limits(list, words, word)?;
                self.count_copies(list, word, &pieces);
                let words_below = words & !(1 << word);
                let pieces =
                    if self.limits.is_parallel && list.len() >= TWO_THREAD_SEARCH_FILTERS_MIN {
                        self.add_pieces_in_halves(pieces, words_below)?
                    } else {
                        self.add_pieces(pieces, words_below)?
                    };
                let bits = self.columns.words[word].bits.expect("a word that is searched");
                RootTable::of_pieces(&mut self.nodes, word, bits, pieces)
            }
            _ => RootTable::with_single_cell(self.find_or_add_bucket(list)?),
        };
        self.check_budget_with_root_cells(root.cells.len())?;
        Ok(root)
    }

    /// The search for the filters of `list` on the words of the set `words`. A bucket has every
    /// filter of it that may match.
    fn find_or_add_search(&mut self, list: &[u32], words: u32) -> Result<NodeRef, SearchRefusal> {
        if list.len() <= self.limits.bucket_filters_max {
            return self.find_or_add_bucket(list);
        }
        let key = (words, list.into());
        if let Some(found) = self.search_by_words_and_list.get(&key) {
            return Ok(*found);
        }
        let search = match self.choose_word(list, words) {
            None => self.find_or_add_bucket(list)?,
            Some(word) => {
                let pieces = self.cut_within_limits(list, words, word)?;
                if self.is_bucket_preferred(list, &pieces) {
                    self.find_or_add_bucket(list)?
                } else {
                    self.count_copies(list, word, &pieces);
                    let pieces = self.add_pieces(pieces, words & !(1 << word))?;
                    self.nodes.add_search_levels(word, pieces)
                }
            }
        };
        self.search_by_words_and_list.insert(key, search);
        Ok(search)
    }

    /// The pieces into which a word cuts the filters.
    fn cut_within_limits(
        &mut self,
        list: &[u32],
        words: u32,
        word: usize,
    ) -> Result<Vec<PieceWithCandidates>, SearchRefusal> {
        let Some(pieces) = self.cut(list, words, word) else {
            self.copies.count_refused_cut(self.columns, word, list);
            self.meter.take_steps(list.len()).map_err(SearchRefusal::BuildLimitExceeded)?;
            return Err(SearchRefusal::OverBudget);
        };
        let listed = count_listed_filters(&pieces);
        self.listed_filter_count += listed;
        self.meter.take_steps(listed).map_err(SearchRefusal::BuildLimitExceeded)?;
        self.check_budget_with_root_cells(0)?;
        Ok(pieces)
    }

    /// What each piece leads to.
    fn add_pieces(
        &mut self,
        pieces: Vec<PieceWithCandidates>,
        words_below: u32,
    ) -> Result<Vec<(u32, NodeRef)>, SearchRefusal> {
        let mut children = Vec::with_capacity(pieces.len());
        for piece in pieces {
            children.push((piece.start, self.find_or_add_search(&piece.candidates, words_below)?));
        }
        Ok(children)
    }

    /// As [`DagBuilder::add_pieces`], the second half in a thread. The halves share no nodes, on
    /// every machine.
    fn add_pieces_in_halves(
        &mut self,
        mut pieces: Vec<PieceWithCandidates>,
        words_below: u32,
    ) -> Result<Vec<(u32, NodeRef)>, SearchRefusal> {
        let all = count_listed_filters(&pieces);
        let mut listed = 0;
        let is_second = |piece: &PieceWithCandidates| {
            listed += piece.candidates.len();
            listed > all / 2
        };
        let half = pieces.iter().position(is_second).unwrap_or(pieces.len());
        let second_pieces = pieces.split_off(half);
        let mut second = DagBuilder::new(self.columns, self.first_match, self.limits, self.meter);
        let (first_children, second_children) = std::thread::scope(|scope| {
            let thread = scope.spawn(|| second.add_pieces(second_pieces, words_below));
            let first_children = self.add_pieces(pieces, words_below);
            (first_children, thread.join().expect("construction panicked"))
        });
        self.copies.add(&second.copies);
        let (mut children, second_children) = (first_children?, second_children?);
        let (node_base, block_base) =
            (self.nodes.nodes.len() as u32, self.bucket_blocks.len() as u32);
        let rebase =
            |child: u32| child + if child & LEAF_FLAG == 0 { node_base } else { block_base };
        self.nodes.append_rebased(second.nodes, rebase);
        self.bucket_blocks.append(&mut second.bucket_blocks);
        self.listed_filter_count += second.listed_filter_count;
        self.check_budget_with_root_cells(0)?;
        children.extend(second_children.into_iter().map(|(start, child)| (start, rebase(child))));
        Ok(children)
    }

    /// `None` if that is too much work.
    fn cut(&mut self, list: &[u32], words: u32, word: usize) -> Option<Vec<PieceWithCandidates>> {
        let column = &self.columns.words[word];
        let (bucket_max, scratch) =
            (self.limits.bucket_filters_max, &mut self.active_index_of_filter);
        let Some(FirstMatchTestedWords { tested_words_of_filters }) = self.first_match else {
            let DagLimits { listed_filters_max, .. } = self.limits;
            let listed_left = listed_filters_max.saturating_sub(self.listed_filter_count);
            return cut_into_pieces(column, list, bucket_max, scratch, listed_left);
        };
        // Words that were searched before are those that neither remain nor are masked.
        let searchable = self.columns.interval_words_bitmask();
        let untested = words & !(1 << word) | !searchable;
        let covers = |filter: u32| tested_words_of_filters[filter as usize] & untested == 0;
        let visits_left = &mut self.visits_left;
        cut_into_first_match_pieces(column, list, bucket_max, scratch, visits_left, covers)
    }

    /// The word with the least leftover work; `None` if no word tells the filters apart.
    fn choose_word(&mut self, list: &[u32], words: u32) -> Option<usize> {
        let of_set = (0..self.columns.words.len()).filter(|word| words >> word & 1 == 1);
        let bucket_max = self.limits.bucket_filters_max;
        let with_work = of_set.filter_map(|word| {
            let work = sum_n_log_n_over_intervals(&self.columns.words[word], list, bucket_max)?;
            self.listed_filter_count += if self.first_match.is_some() { list.len() } else { 0 };
            if self.first_match.is_none() || list.len() > WORD_CHOICE_BY_TRIAL_CUT_FILTERS_MAX {
                return Some((work, word));
            }
            let pieces = self.cut(list, words, word)?;
            self.listed_filter_count += count_listed_filters(&pieces);
            Some((sum_n_log_n_over_pieces(&pieces, bucket_max), word))
        });
        with_work.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
    }

    /// Whether few filters would be listed in so many pieces that one bucket is preferred.
    fn is_bucket_preferred(&self, list: &[u32], pieces: &[PieceWithCandidates]) -> bool {
        self.limits.prefers_buckets
            && list.len() <= PREFERRED_BUCKET_BLOCKS_MAX * self.limits.bucket_filters_max
            && count_listed_filters(pieces) > LISTINGS_PER_FILTER_MAX * list.len()
    }

    fn count_copies(&mut self, list: &[u32], word: usize, pieces: &[PieceWithCandidates]) {
        if self.first_match.is_none() {
            let candidates = pieces.iter().map(|piece| &piece.candidates);
            self.copies.count_cut(self.columns, word, list, candidates);
        }
    }

    fn find_or_add_bucket(&mut self, list: &[u32]) -> Result<NodeRef, SearchRefusal> {
        if let Some(found) = self.bucket_leaf_by_list.get(list) {
            return Ok(*found);
        }
        let mut sorted = list.to_vec();
        sorted.sort_unstable_by_key(|filter| self.columns.ranks[*filter as usize]);
        let first_block = self.bucket_blocks.len();
        let block_count = list.len().div_ceil(self.limits.bucket_filters_max);
        if block_count > BLOCKS_PER_BUCKET_MAX || first_block + block_count > ALL_BUCKET_BLOCKS_MAX
        {
            return Err(SearchRefusal::OverBudget);
        }
        // Blocks are full but for the last ones: updates rely on it.
        self.bucket_blocks.extend(sorted.chunks(LANES).map(<[u32]>::to_vec));
        self.bucket_blocks.resize(first_block + block_count, vec![]);
        let leaf = encode_bucket_leaf(if list.is_empty() { 0 } else { first_block }, block_count);
        self.bucket_leaf_by_list.insert(list.into(), leaf);
        self.check_budget_with_root_cells(0)?;
        Ok(leaf)
    }

    /// Refuses what exceeds the budget, with a root of so many cells.
    fn check_budget_with_root_cells(&self, root_cells: usize) -> Result<(), SearchRefusal> {
        let node_words = self.nodes.nodes.len() * NODE_WORDS;
        let bytes = (node_words + root_cells) * size_of::<u32>()
            + self.bucket_blocks.len() * self.limits.bucket_block_bytes;
        let is_within = bytes <= self.limits.memory_bytes_max
            && self.listed_filter_count <= self.limits.listed_filters_max;
        if is_within { Ok(()) } else { Err(SearchRefusal::OverBudget) }
    }
}

fn count_listed_filters(pieces: &[PieceWithCandidates]) -> usize {
    pieces.iter().map(|piece| piece.candidates.len()).sum()
}

/// As [`sum_n_log_n_over_intervals`], of pieces.
fn sum_n_log_n_over_pieces(pieces: &[PieceWithCandidates], bucket_max: usize) -> f64 {
    let work = pieces.iter().map(|piece| match piece.candidates.len() {
        count if count > bucket_max => count as f64 * (count as f64).log2(),
        _ => 0.5,
    });
    work.sum()
}
