//! The two comparisons of a look-up: a value with the keys of a node, and a key with the filters
//! of a block. Each set of instructions has its own; all results are equal.

use super::block::CacheLine;
use super::bucket_rows::{LANES, OneKeyInRowOrder, RowShape, WordCountsByComparison};

/// Comparisons in the instructions of one kind of processor.
pub(super) trait LaneInstructions {
    /// How many of the words 1 to 15 of a line are not above a value.
    fn count_node_keys_up_to(line: &CacheLine, value: u32) -> usize;

    /// The lanes of a block that a key matches, as bits. The block has the lines of the shape.
    fn match_bucket_block(
        lines: &[CacheLine],
        shape: impl RowShape,
        row_keys: &OneKeyInRowOrder,
    ) -> u32;
}

/// What every processor has.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortableLanes;

impl LaneInstructions for PortableLanes {
    #[inline(always)]
    fn count_node_keys_up_to(line: &CacheLine, value: u32) -> usize {
        line.0[1..].iter().map(|key| usize::from(*key <= value)).sum()
    }

    #[inline(always)]
    fn match_bucket_block(
        lines: &[CacheLine],
        shape: impl RowShape,
        row_keys: &OneKeyInRowOrder,
    ) -> u32 {
        let WordCountsByComparison { wide, narrow, .. } = shape.counts();
        let rows = CacheLine::as_rows(lines);
        let mut fails = [0_u32; LANES];
        let mut row = 0;
        for (place, key) in row_keys[..shape.counts().words()].iter().enumerate() {
            let first = &rows[row];
            if (wide..wide + narrow).contains(&place) {
                for (fails, lane) in fails.iter_mut().zip(first) {
                    *fails |=
                        u32::from(key & 0xffff < lane & 0xffff) | u32::from(key >> 16 < lane >> 16);
                }
                row += 1;
                continue;
            }
            let second = &rows[row + 1];
            for ((fails, first), second) in fails.iter_mut().zip(first).zip(second) {
                *fails |= if place < wide {
                    u32::from(key < first) | u32::from(key > second)
                } else {
                    u32::from(key & second != *first)
                };
            }
            row += 2;
        }
        fails
            .iter()
            .enumerate()
            .fold(0, |bits, (lane, fails)| bits | u32::from(*fails == 0) << lane)
    }
}
