//! Parses a block. Every reference is checked, so that no look-up leaves the block or its part:
//! a child of a node has a smaller index than the node, which also ends every search.

use thiserror::Error;

use super::bit_vectors::{CACHE_LINE_BITS, count_bitmap_and_summary_lines};
use super::block::{
    BIT_VECTOR_GROUP_KIND, BYTE_ORDER_MARK, BitVectorGroup, BitVectorWord, ClassifierBlock,
    FIRST_MATCH_PURPOSE, HeaderWord, LookupGroups, MAGIC, NO_VERIFICATION_BLOCK, PREAMBLE_LINES,
    PURPOSE_WORD_OF_GROUP_LINE, ROOT_WORDS_OF_GROUP_LINE, SEARCH_GROUP_KIND, SearchGroup,
    SearchRoot, VERSION, checksum_lines,
};
use super::bucket_rows::RowLayout;
use super::cache_line::{CacheLine, LANES};
use super::dag_construction::decode_bucket_leaf;
use super::filter_columns::{COUNTS_ONLY_RANK_FLAG, RULE_NUMBER_MAX};
use super::huge_page_lines::HugePageLines;
use super::search_node::{FANOUT, LEAF_FLAG};
use crate::filter_set::NO_RULE;
use crate::key::{KeySchema, KeyWordTestMethod};

/// The most groups with a search.
pub(super) const SEARCH_GROUPS_MAX: usize = 32;

/// Why bytes are no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// They are no block of a classifier.
    #[error("read classifier block: it does not begin as one")]
    NotAClassifierBlock,
    /// Another version wrote it.
    #[error(
        "read classifier block: version {0}, but this program reads version {VERSION}; build it again"
    )]
    Version(u32),
    /// Another byte order.
    #[error("read classifier block: processor or block is not little endian")]
    ByteOrder,
    /// It is not as long as it states.
    #[error("read classifier block: it is truncated or has bytes after its end")]
    Length,
    /// It was changed.
    #[error("read classifier block: damaged (checksum); build it again")]
    Checksum,
    /// A part refers to what is not there.
    #[error("read classifier block: damaged ({0}); build it again")]
    Damaged(&'static str),
}

impl ClassifierBlock {
    /// Reads a block that [`ClassifierBlock::to_bytes`] wrote.
    ///
    /// # Errors
    /// It is of another version or byte order, truncated or damaged.
    pub fn parse(bytes: &[u8]) -> Result<ClassifierBlock, BlockError> {
        let mut lines = HugePageLines::with_capacity(bytes.len() / CacheLine::BYTES);
        lines.extend(bytes.chunks_exact(CacheLine::BYTES).map(|bytes| {
            let mut line = CacheLine::ZERO;
            for (word, bytes) in line.0.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            line
        }));
        if !bytes.len().is_multiple_of(CacheLine::BYTES) {
            return Err(BlockError::Length);
        }
        ClassifierBlock::from_lines(lines)
    }

    /// Parses lines.
    pub(super) fn from_lines(lines: HugePageLines) -> Result<ClassifierBlock, BlockError> {
        let header = lines.first().ok_or(BlockError::Length)?.0;
        let word = |place: HeaderWord| header[place as usize];
        match (word(HeaderWord::Magic), word(HeaderWord::ByteOrder)) {
            (MAGIC, BYTE_ORDER_MARK) => {}
            (MAGIC, _) => return Err(BlockError::ByteOrder),
            _ => return Err(BlockError::NotAClassifierBlock),
        }
        if cfg!(target_endian = "big") {
            return Err(BlockError::ByteOrder);
        }
        if word(HeaderWord::Version) != VERSION {
            return Err(BlockError::Version(word(HeaderWord::Version)));
        }
        if word(HeaderWord::LineCount) as usize != lines.len() || lines.len() < PREAMBLE_LINES {
            return Err(BlockError::Length);
        }
        if word(HeaderWord::Checksum) != checksum_lines(&lines) {
            return Err(BlockError::Checksum);
        }
        let at = |place: HeaderWord| header[place as usize] as usize;
        let word_test_methods = parse_word_test_methods(&lines, at(HeaderWord::KeyWordCount))?;
        let mut block = ClassifierBlock {
            rows: RowLayout::new(&word_test_methods),
            word_test_methods,
            rule_count: at(HeaderWord::RuleCount),
            has_one_filter_per_rule: at(HeaderWord::RuleCount) == at(HeaderWord::FilterCount),
            first_node_line: at(HeaderWord::FirstNodeLine),
            first_bucket_block_line: at(HeaderWord::FirstBucketBlockLine),
            first_rule_number_line: at(HeaderWord::FirstRuleNumberLine),
            first_deciding_flag_line: at(HeaderWord::FirstDecidingFlagLine),
            spare_bucket_blocks: 0..0,
            groups: LookupGroups::default(),
            first_match_groups: None,
            lines,
        };
        check_parts_and_rule_numbers(
            &block,
            at(HeaderWord::NodeCount),
            at(HeaderWord::BucketBlockCount),
        )?;
        check_bucket_lanes(&block, at(HeaderWord::BucketBlockCount))?;
        let counts = BlockPartCounts {
            groups: at(HeaderWord::GroupCount),
            nodes: at(HeaderWord::NodeCount),
            blocks: at(HeaderWord::BucketBlockCount),
        };
        parse_groups(&mut block, counts)?;
        Ok(block)
    }
}

#[derive(Clone, Copy)]
struct BlockPartCounts {
    groups: usize,
    nodes: usize,
    blocks: usize,
}

fn require_undamaged(holds: bool, what: &'static str) -> Result<(), BlockError> {
    if holds { Ok(()) } else { Err(BlockError::Damaged(what)) }
}

fn parse_word_test_methods(
    lines: &[CacheLine],
    word_count: usize,
) -> Result<Vec<KeyWordTestMethod>, BlockError> {
    require_undamaged((1..=KeySchema::WORDS_MAX).contains(&word_count), "words of a key")?;
    let kind = |word: usize| match lines[1 + word / 16].0[word % 16] {
        0 => Ok(KeyWordTestMethod::Bits),
        bits @ 1..=32 => Ok(KeyWordTestMethod::Interval { bits }),
        _ => Err(BlockError::Damaged("kind of a word")),
    };
    (0..word_count).map(kind).collect()
}

/// Parts are within the block.
fn check_parts_and_rule_numbers(
    block: &ClassifierBlock,
    node_count: usize,
    block_count: usize,
) -> Result<(), BlockError> {
    let is_within = |first: usize, lines: usize| first + lines <= block.lines.len();
    require_undamaged(is_within(block.first_node_line, 2 * node_count), "nodes")?;
    let bucket_lines = block_count * block.rows.bucket_block_lines();
    require_undamaged(is_within(block.first_bucket_block_line, bucket_lines), "buckets")?;
    require_undamaged(
        is_within(block.first_rule_number_line, block.rule_count.div_ceil(16)),
        "rules",
    )?;
    let deciding_lines = block.rule_count.div_ceil(CACHE_LINE_BITS);
    require_undamaged(is_within(block.first_deciding_flag_line, deciding_lines), "rules")?;
    let number = |rule| block.rule_number_at(rule);
    let ascends = (1..block.rule_count).all(|rule| number(rule - 1) < number(rule));
    let last = block.rule_count.checked_sub(1).map_or(0, number);
    require_undamaged(ascends && last <= RULE_NUMBER_MAX, "numbers of rules")
}

/// Lanes have the rank of a rule, or are empty: no key passes the tests of an empty lane.
fn check_bucket_lanes(block: &ClassifierBlock, block_count: usize) -> Result<(), BlockError> {
    let empty = block.rows.empty_lane();
    for index in 0..block_count {
        let rows = CacheLine::as_rows(block.bucket_block(index, block.rows.counts));
        for (lane, rank) in block.bucket_block_ranks(index).iter().enumerate() {
            let is_sound = match *rank {
                NO_RULE => rows.iter().zip(&empty).all(|(row, value)| row[lane] == *value),
                rank => is_rank_at_most_last_rule(block, rank),
            };
            require_undamaged(is_sound, "rules of a bucket")?;
        }
    }
    Ok(())
}

/// Whether a rank is at most that of the last rule.
fn is_rank_at_most_last_rule(block: &ClassifierBlock, rank: u32) -> bool {
    let last = block.rule_count.checked_sub(1).map(|rule| block.rule_number_at(rule));
    last.is_some_and(|last| rank & !COUNTS_ONLY_RANK_FLAG <= last)
}

fn parse_groups(block: &mut ClassifierBlock, counts: BlockPartCounts) -> Result<(), BlockError> {
    let mut at = PREAMBLE_LINES;
    for _ in 0..counts.groups {
        let line = block.lines.get(at).ok_or(BlockError::Damaged("groups"))?.0;
        let nodes = line[2] as usize..line[3] as usize;
        require_undamaged(
            nodes.start <= nodes.end && nodes.end <= counts.nodes,
            "nodes of a group",
        )?;
        at += 1;
        let is_for_first_match = line[PURPOSE_WORD_OF_GROUP_LINE] == FIRST_MATCH_PURPOSE;
        match line[0] {
            SEARCH_GROUP_KIND => {
                let group = SearchGroup { least_rank: line[1], root: parse_root(block, &line)? };
                let is_leaf = |_, leaf| {
                    let (first, number) = decode_bucket_leaf(leaf);
                    first + number <= counts.blocks
                };
                check_nodes(block, nodes.clone(), false, is_leaf)?;
                let mut cells = block.cells(&group.root).iter();
                let is_cell = |child: &u32| {
                    is_leaf_or_node_in_range(*child, nodes.clone(), |leaf| is_leaf(0, leaf))
                };
                require_undamaged(cells.all(is_cell), "cell")?;
                let searches = &mut groups_for_purpose(block, is_for_first_match).searches;
                searches.push(group);
                require_undamaged(searches.len() <= SEARCH_GROUPS_MAX, "number of groups")?;
            }
            BIT_VECTOR_GROUP_KIND => {
                let word_lines = block.lines.get(at..at + line[9] as usize);
                let word_lines = word_lines.ok_or(BlockError::Damaged("groups"))?;
                let group = parse_bit_vector_group(block, &line, word_lines, counts)?;
                at += word_lines.len();
                groups_for_purpose(block, is_for_first_match).bit_vectors.push(group);
            }
            _ => return Err(BlockError::Damaged("kind of a group")),
        }
    }
    Ok(())
}

fn groups_for_purpose(block: &mut ClassifierBlock, is_for_first_match: bool) -> &mut LookupGroups {
    if is_for_first_match {
        block.first_match_groups.get_or_insert_default()
    } else {
        &mut block.groups
    }
}

/// The root that the line of a group or of a word of bit vectors states.
fn parse_root(block: &ClassifierBlock, line: &[u32; 16]) -> Result<SearchRoot, BlockError> {
    let [word, shift, cell_bits, first_cell_line] = line[ROOT_WORDS_OF_GROUP_LINE] else {
        unreachable!("a root is four words")
    };
    require_undamaged((word as usize) < block.word_test_methods.len(), "word of a root")?;
    require_undamaged(shift < 32 && cell_bits <= 32, "size of a root")?;
    let end = first_cell_line as usize + (1_usize << cell_bits).div_ceil(16);
    require_undamaged(end <= block.lines.len(), "cells of a root")?;
    Ok(SearchRoot {
        word: word as usize,
        shift,
        cell_bits,
        first_cell_line: first_cell_line as usize,
    })
}

fn parse_bit_vector_group(
    block: &ClassifierBlock,
    line: &[u32; 16],
    word_lines: &[CacheLine],
    counts: BlockPartCounts,
) -> Result<BitVectorGroup, BlockError> {
    let nodes = line[2] as usize..line[3] as usize;
    let words = word_lines.iter().map(|line| {
        Ok(BitVectorWord {
            root: parse_root(block, &line.0)?,
            first_bitmap_line: line.0[0] as usize,
            bitmap_count: line.0[1] as usize,
        })
    });
    let group = BitVectorGroup {
        least_rank: line[1],
        filter_count: line[4] as usize,
        bit_lines_per_bitmap: line[5] as usize,
        summary_lines_per_bitmap: line[6] as usize,
        first_rank_line: line[7] as usize,
        first_verification_block: (line[8] != NO_VERIFICATION_BLOCK).then_some(line[8] as usize),
        words: words.collect::<Result<_, BlockError>>()?,
    };
    let lines = (group.bit_lines_per_bitmap, group.summary_lines_per_bitmap);
    require_undamaged(
        lines == count_bitmap_and_summary_lines(group.filter_count),
        "size of bit vectors",
    )?;
    let end = group.first_rank_line + group.filter_count.div_ceil(16);
    require_undamaged(end <= block.lines.len(), "ranks of bit vectors")?;
    let mut ranks = (0..group.filter_count).map(|bit| block.word(group.first_rank_line, bit));
    require_undamaged(
        ranks.all(|rank| rank == NO_RULE || is_rank_at_most_last_rule(block, rank)),
        "rules of bit vectors",
    )?;
    if let Some(first) = group.first_verification_block {
        let end = first + group.filter_count.div_ceil(LANES);
        require_undamaged(end <= counts.blocks, "buckets of bit vectors")?;
    }
    require_undamaged(group.words.len() <= block.word_test_methods.len(), "words of bit vectors")?;
    let mut bitmap_count_of = [None; KeySchema::WORDS_MAX];
    for word in &group.words {
        let end = word.first_bitmap_line + word.bitmap_count * (lines.0 + lines.1);
        require_undamaged(end <= block.lines.len(), "bitmaps")?;
        let other = bitmap_count_of[word.root.word].replace(word.bitmap_count);
        require_undamaged(other.is_none(), "two bitmaps of a word")?;
    }
    let is_leaf = |word: usize, leaf: u32| {
        bitmap_count_of[word].is_some_and(|count| ((leaf & !LEAF_FLAG) as usize) < count)
    };
    for BitVectorWord { root, .. } in &group.words {
        let is_cell = |child: u32| {
            is_leaf_or_node_in_range(child, nodes.clone(), |leaf| is_leaf(root.word, leaf))
                && (child & LEAF_FLAG != 0 || block.node(child)[0].0[0] as usize == root.word)
        };
        require_undamaged(block.cells(root).iter().all(|child| is_cell(*child)), "cell")?;
    }
    check_nodes(block, nodes, true, is_leaf)?;
    Ok(group)
}

fn is_leaf_or_node_in_range(
    child: u32,
    nodes: std::ops::Range<usize>,
    is_leaf: impl Fn(u32) -> bool,
) -> bool {
    if child & LEAF_FLAG == 0 { nodes.contains(&(child as usize)) } else { is_leaf(child) }
}

/// Nodes compare a word of the key, and their children exist and precede them. With
/// `must_keep_word`, children compare the same word.
fn check_nodes(
    block: &ClassifierBlock,
    nodes: std::ops::Range<usize>,
    must_keep_word: bool,
    is_leaf: impl Fn(usize, u32) -> bool,
) -> Result<(), BlockError> {
    for index in nodes.clone() {
        let [keys, children] = block.node(index as u32);
        let word = keys.0[0] as usize;
        require_undamaged(word < block.word_test_methods.len(), "word of a node")?;
        let before = nodes.start..index;
        for &child in &children.0[..FANOUT] {
            require_undamaged(
                is_leaf_or_node_in_range(child, before.clone(), |leaf| is_leaf(word, leaf)),
                "child",
            )?;
            if must_keep_word && child & LEAF_FLAG == 0 {
                let of_child = block.node(child)[0].0[0] as usize;
                require_undamaged(of_child == word, "word of a child")?;
            }
        }
    }
    Ok(())
}
