//! Writes the groups into a block.

use super::bit_vectors::{BitVectors, count_bitmap_and_summary_lines};
use super::block::{
    BIT_VECTOR_GROUP_KIND, BYTE_ORDER_MARK, FIRST_MATCH_PURPOSE, HeaderWord, MAGIC,
    NO_VERIFICATION_BLOCK, PREAMBLE_LINES, PURPOSE_WORD_OF_GROUP_LINE, ROOT_WORDS_OF_GROUP_LINE,
    SEARCH_GROUP_KIND, VERSION, checksum_lines,
};
use super::bucket_rows::RowLayout;
use super::cache_line::{CacheLine, LANES};
use super::dag_construction::IntervalDag;
use super::filter_columns::FilterColumns;
use super::huge_page_lines::HugePageLines;
use super::root_table::RootTable;
use super::search_node::{FANOUT, LEAF_FLAG, NodeContent};
use crate::filter_set::{FilterSet, NO_RULE};
use crate::key::KeyWordTestMethod;

/// The structure of one group.
#[derive(Debug)]
pub(super) enum GroupStructure {
    Search(IntervalDag),
    BitVectors(BitVectors),
}

/// The groups of a block.
#[derive(Debug)]
pub(super) struct BlockGroups {
    pub(super) all_matches: Vec<GroupStructure>,
    /// Those for the first match alone; empty if the others are for it too.
    pub(super) first_match: Vec<GroupStructure>,
}

impl BlockGroups {
    fn iter(&self) -> impl Iterator<Item = &GroupStructure> {
        self.all_matches.iter().chain(&self.first_match)
    }
}

/// Writes a block whose last `spare_bucket_blocks` blocks of buckets are empty.
pub(super) fn write_classifier_block(
    filters: &FilterSet,
    columns: &FilterColumns,
    groups: &BlockGroups,
    spare_bucket_blocks: usize,
) -> HugePageLines {
    let kinds: Vec<KeyWordTestMethod> =
        filters.schema().words().iter().map(|word| word.kind).collect();
    let mut writer = BlockWriter {
        filters,
        columns,
        rows: RowLayout::new(&kinds),
        group_lines: vec![],
        written_root_cell_lines: vec![],
        first_cell_line: PREAMBLE_LINES + groups.iter().map(count_group_lines).sum::<usize>(),
        nodes: vec![],
        bucket_block_lines: vec![],
        bitmap_lines: vec![],
        bucket_block_count: 0,
    };
    let node_count: usize = groups.iter().map(|group| nodes_of_group(group).len()).sum();
    let all_blocks = groups.iter().map(count_bucket_blocks).sum::<usize>() + spare_bucket_blocks;
    let cell_line_count: usize = groups.iter().flat_map(roots_of_group).map(count_cell_lines).sum();
    let first_node_line = writer.first_cell_line + cell_line_count;
    let first_bucket_block_line = first_node_line + 2 * node_count;
    let first_bitmap_line = first_bucket_block_line + all_blocks * writer.rows.bucket_block_lines();
    writer.append_groups(groups, first_bitmap_line);
    (0..spare_bucket_blocks).for_each(|_| writer.append_bucket_block([]));
    let numbers = pack_words_into_lines(filters.rules().iter().map(|rule| rule.0));
    let first_rule_number_line = first_bitmap_line + writer.bitmap_lines.len();
    let deciding = filters.rules().chunks(32).map(|rules| {
        rules.iter().enumerate().fold(0, |bits, (at, rule)| bits | u32::from(rule.1) << at)
    });
    let first_deciding_flag_line = first_rule_number_line + numbers.len();
    let deciding = pack_words_into_lines(deciding);
    let line_count = first_deciding_flag_line + deciding.len();
    let mut lines = HugePageLines::with_capacity(line_count);
    lines.extend([CacheLine::ZERO; PREAMBLE_LINES]);
    for (word, kind) in kinds.iter().enumerate() {
        let KeyWordTestMethod::Interval { bits } = kind else { continue };
        lines[1 + word / 16].0[word % 16] = *bits;
    }
    lines.extend(writer.group_lines);
    lines.extend(writer.written_root_cell_lines);
    lines.extend(pack_words_into_lines(writer.nodes.iter().flatten().copied()));
    lines.extend(writer.bucket_block_lines);
    lines.extend(writer.bitmap_lines);
    lines.extend(numbers);
    lines.extend(deciding);
    debug_assert_eq!(lines.len(), line_count);
    let mut put = |place: HeaderWord, value: usize| lines[0].0[place as usize] = value as u32;
    put(HeaderWord::Magic, MAGIC as usize);
    put(HeaderWord::Version, VERSION as usize);
    put(HeaderWord::ByteOrder, BYTE_ORDER_MARK as usize);
    put(HeaderWord::KeyWordCount, kinds.len());
    put(HeaderWord::RuleCount, filters.rule_count());
    put(HeaderWord::FilterCount, filters.filter_count());
    put(HeaderWord::GroupCount, groups.iter().count());
    put(HeaderWord::FirstNodeLine, first_node_line);
    put(HeaderWord::NodeCount, node_count);
    put(HeaderWord::FirstBucketBlockLine, first_bucket_block_line);
    put(HeaderWord::BucketBlockCount, all_blocks);
    put(HeaderWord::FirstRuleNumberLine, first_rule_number_line);
    put(HeaderWord::FirstDecidingFlagLine, first_deciding_flag_line);
    lines[0].0[HeaderWord::LineCount as usize] = lines.len() as u32;
    lines[0].0[HeaderWord::Checksum as usize] = checksum_lines(&lines);
    lines
}

fn nodes_of_group(group: &GroupStructure) -> &[NodeContent] {
    match group {
        GroupStructure::Search(dag) => &dag.nodes.nodes,
        GroupStructure::BitVectors(vectors) => &vectors.nodes.nodes,
    }
}

fn roots_of_group(group: &GroupStructure) -> Vec<&RootTable> {
    match group {
        GroupStructure::Search(dag) => vec![&dag.root],
        GroupStructure::BitVectors(vectors) => {
            vectors.words.iter().map(|word| &word.root).collect()
        }
    }
}

fn count_cell_lines(root: &RootTable) -> usize {
    root.cells.len().div_ceil(16)
}

fn count_group_lines(group: &GroupStructure) -> usize {
    match group {
        GroupStructure::Search(_) => 1,
        GroupStructure::BitVectors(vectors) => 1 + vectors.words.len(),
    }
}

pub(super) fn count_bucket_blocks(group: &GroupStructure) -> usize {
    match group {
        GroupStructure::Search(dag) => dag.bucket_blocks.len(),
        GroupStructure::BitVectors(vectors) if vectors.needs_verification => {
            vectors.filters_of_bits.len().div_ceil(LANES)
        }
        GroupStructure::BitVectors(_) => 0,
    }
}

/// Words in whole cache lines, the last filled with 0.
fn pack_words_into_lines(words: impl Iterator<Item = u32>) -> Vec<CacheLine> {
    let mut lines = Vec::with_capacity(words.size_hint().0 / 16 + 1);
    for (index, word) in words.enumerate() {
        if index % 16 == 0 {
            lines.push(CacheLine::ZERO);
        }
        lines[index / 16].0[index % 16] = word;
    }
    lines
}

/// The parts that grow group by group.
struct BlockWriter<'a> {
    filters: &'a FilterSet,
    columns: &'a FilterColumns,
    rows: RowLayout,
    group_lines: Vec<CacheLine>,
    written_root_cell_lines: Vec<CacheLine>,
    first_cell_line: usize,
    nodes: Vec<NodeContent>,
    bucket_block_lines: Vec<CacheLine>,
    bitmap_lines: Vec<CacheLine>,
    bucket_block_count: usize,
}

impl BlockWriter<'_> {
    fn append_groups(&mut self, groups: &BlockGroups, first_bitmap_line: usize) {
        for (index, group) in groups.iter().enumerate() {
            let first_line = self.group_lines.len();
            match group {
                GroupStructure::Search(dag) => self.append_search_group(dag),
                GroupStructure::BitVectors(vectors) => {
                    self.append_bit_vector_group(vectors, first_bitmap_line)
                }
            }
            if index >= groups.all_matches.len() {
                self.group_lines[first_line].0[PURPOSE_WORD_OF_GROUP_LINE] = FIRST_MATCH_PURPOSE;
            }
        }
    }

    fn append_search_group(&mut self, dag: &IntervalDag) {
        let (node_base, block_base) = (self.nodes.len() as u32, self.bucket_block_count as u32);
        let rebase =
            |child: u32| child + if child & LEAF_FLAG == 0 { node_base } else { block_base };
        self.add_nodes(&dag.nodes.nodes, rebase);
        for filters in &dag.bucket_blocks {
            self.append_bucket_block(filters.iter().copied().map(Some));
        }
        let all = dag.bucket_blocks.iter().flatten();
        let least_rank = all.map(|filter| self.columns.ranks[*filter as usize]).min();
        let mut line = CacheLine::ZERO;
        line.0[..4].copy_from_slice(&[
            SEARCH_GROUP_KIND,
            least_rank.unwrap_or(u32::MAX),
            node_base,
            self.nodes.len() as u32,
        ]);
        line.0[ROOT_WORDS_OF_GROUP_LINE]
            .copy_from_slice(&self.append_root_cells(&dag.root, rebase));
        self.group_lines.push(line);
    }

    /// The words of the line of a group that state its root.
    fn append_root_cells(&mut self, root: &RootTable, rebase: impl Fn(u32) -> u32) -> [u32; 4] {
        let first_line = self.first_cell_line + self.written_root_cell_lines.len();
        self.written_root_cell_lines
            .extend(pack_words_into_lines(root.cells.iter().map(|child| rebase(*child))));
        [root.word as u32, root.shift, root.cells.len().ilog2(), first_line as u32]
    }

    fn append_bit_vector_group(&mut self, vectors: &BitVectors, first_bitmap_line: usize) {
        let node_base = self.nodes.len() as u32;
        let rebase = |child: u32| if child & LEAF_FLAG == 0 { child + node_base } else { child };
        self.add_nodes(&vectors.nodes.nodes, rebase);
        let first_verification_block = if vectors.needs_verification {
            self.bucket_block_count as u32
        } else {
            NO_VERIFICATION_BLOCK
        };
        if vectors.needs_verification {
            for filters in vectors.filters_of_bits.chunks(LANES) {
                self.append_bucket_block(filters.iter().copied());
            }
        }
        let next_line = |lines: &[CacheLine]| (first_bitmap_line + lines.len()) as u32;
        let ranks = vectors
            .filters_of_bits
            .iter()
            .map(|filter| filter.map_or(NO_RULE, |filter| self.columns.ranks[filter as usize]));
        let (lines_per_bitmap, summary_lines_per_bitmap) =
            count_bitmap_and_summary_lines(vectors.filters_of_bits.len());
        let mut line = CacheLine::ZERO;
        line.0[..4].copy_from_slice(&[
            BIT_VECTOR_GROUP_KIND,
            ranks.clone().min().unwrap_or(u32::MAX),
            node_base,
            self.nodes.len() as u32,
        ]);
        line.0[4..10].copy_from_slice(&[
            vectors.filters_of_bits.len() as u32,
            lines_per_bitmap as u32,
            summary_lines_per_bitmap as u32,
            next_line(&self.bitmap_lines),
            first_verification_block,
            vectors.words.len() as u32,
        ]);
        self.group_lines.push(line);
        self.bitmap_lines.extend(pack_words_into_lines(ranks));
        for bitmaps in &vectors.words {
            let mut line = CacheLine::ZERO;
            line.0[..2]
                .copy_from_slice(&[next_line(&self.bitmap_lines), bitmaps.bitmaps.len() as u32]);
            line.0[ROOT_WORDS_OF_GROUP_LINE]
                .copy_from_slice(&self.append_root_cells(&bitmaps.root, rebase));
            self.group_lines.push(line);
            let words = bitmaps.bitmaps.iter().flatten().copied();
            self.bitmap_lines.extend(pack_words_into_lines(words));
        }
    }

    fn add_nodes(&mut self, nodes: &[NodeContent], rebase: impl Fn(u32) -> u32) {
        self.nodes.extend(nodes.iter().map(|node| {
            let mut node = *node;
            node[FANOUT..].iter_mut().for_each(|child| *child = rebase(*child));
            node
        }));
    }

    /// Appends a block with a lane for each filter; `None` leaves it empty.
    fn append_bucket_block(&mut self, filters: impl IntoIterator<Item = Option<u32>>) {
        let mut block = self.rows.empty_bucket_block();
        for (lane, filter) in filters.into_iter().enumerate() {
            let Some(filter) = filter else { continue };
            let filter = filter as usize;
            let tests = self.filters.filter(filter).tests;
            self.rows.write_lane(&mut block, lane, tests, self.columns.ranks[filter]);
        }
        self.bucket_block_lines.extend(pack_words_into_lines(block.into_iter().flatten()));
        self.bucket_block_count += 1;
    }
}
