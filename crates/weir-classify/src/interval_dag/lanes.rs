//! The two comparisons of a look-up: a value with the keys of a node, and a key with the filters
//! of a block. Each set of instructions has its own; all results are equal.

use super::block::CacheLine;
use super::rows::{LANES, ROW_KEYS_MAX, RowLayout};

/// Comparisons in the instructions of one kind of processor.
pub(super) trait LaneInstructions {
    /// How many of the words 1 to 15 of a line are not above a value.
    fn count_keys_up_to(line: &CacheLine, value: u32) -> usize;

    /// The lanes of a block that a key matches, as bits. The block has the lines of the layout.
    fn match_block(lines: &[CacheLine], rows: &RowLayout, row_keys: &[u32; ROW_KEYS_MAX]) -> u32;
}

/// What every processor has.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortableLanes;

impl LaneInstructions for PortableLanes {
    #[inline(always)]
    fn count_keys_up_to(line: &CacheLine, value: u32) -> usize {
        line.0[1..].iter().map(|key| usize::from(*key <= value)).sum()
    }

    #[inline(always)]
    fn match_block(lines: &[CacheLine], rows: &RowLayout, row_keys: &[u32; ROW_KEYS_MAX]) -> u32 {
        let halves = lines.as_flattened_words();
        let wide = 2 * rows.wide_words.len();
        let masked = wide + rows.narrow_words.len();
        let mut fails = [0_u32; LANES];
        for (row, key) in halves[..wide].iter().zip(row_keys) {
            for (fails, lane) in fails.iter_mut().zip(row) {
                *fails |= u32::from(key < lane);
            }
        }
        for (row, key) in halves[wide..masked].iter().zip(&row_keys[wide..]) {
            for (fails, lane) in fails.iter_mut().zip(row) {
                *fails |=
                    u32::from(key & 0xffff < lane & 0xffff) | u32::from(key >> 16 < lane >> 16);
            }
        }
        for (pair, keys) in halves[masked..rows.test_row_count()]
            .as_chunks::<2>()
            .0
            .iter()
            .zip(row_keys[masked..].as_chunks::<2>().0)
        {
            for ((fails, value), mask) in fails.iter_mut().zip(&pair[0]).zip(&pair[1]) {
                *fails |= u32::from(keys[0] & mask != *value);
            }
        }
        fails
            .iter()
            .enumerate()
            .fold(0, |bits, (lane, fails)| bits | u32::from(*fails == 0) << lane)
    }
}

/// The rows of lines.
trait LineRows {
    fn as_flattened_words(&self) -> &[[u32; LANES]];
}

impl LineRows for [CacheLine] {
    fn as_flattened_words(&self) -> &[[u32; LANES]] {
        // SAFETY: a line is 16 words without padding, and rows need a weaker alignment.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), 2 * self.len()) }
    }
}
