//! The two comparisons of a look-up, a value with the keys of a node and a key with the filters of
//! a block, and the collection of what matches. Each set of instructions has its own; all results
//! are equal.

use super::bucket_rows::{RowShape, WordCountsByComparison};
use super::cache_line::{CacheLine, LANES};

/// Comparisons in the instructions of one kind of processor.
pub(super) trait LaneInstructions {
    /// How many of the words 1 to 15 of a line are not above a value.
    fn count_node_keys_up_to(line: &CacheLine, value: u32) -> usize;

    /// The lanes of a block that a key matches, as bits. The block has the lines of the shape.
    fn match_bucket_block(lines: &[CacheLine], shape: impl RowShape, row_keys: &[CacheLine])
    -> u32;

    /// Writes the ranks of the lanes that are set to the first places of `to`, in their order. What
    /// the other places have afterwards is not defined.
    fn write_selected_first(ranks: &[u32; LANES], lanes: u32, to: &mut [u32; LANES]);
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
        row_keys: &[CacheLine],
    ) -> u32 {
        let WordCountsByComparison { wide, narrow, masked } = shape.counts();
        let (rows, keys) = (CacheLine::as_rows(lines), CacheLine::as_rows(row_keys));
        let mut fails = [0_u32; LANES];
        for (lanes, keys) in rows.iter().zip(keys).take(2 * wide) {
            for ((fails, lane), key) in fails.iter_mut().zip(lanes).zip(keys) {
                *fails |= u32::from(key < lane);
            }
        }
        for (lanes, keys) in rows.iter().zip(keys).take(2 * wide + narrow).skip(2 * wide) {
            for ((fails, lane), key) in fails.iter_mut().zip(lanes).zip(keys) {
                *fails |=
                    u32::from(key & 0xffff < lane & 0xffff) | u32::from(key >> 16 < lane >> 16);
            }
        }
        for word in 0..masked {
            let row = 2 * wide + narrow + 2 * word;
            for (lane, fails) in fails.iter_mut().enumerate() {
                *fails |= u32::from(keys[row][lane] & rows[row + 1][lane] != rows[row][lane]);
            }
        }
        fails
            .iter()
            .enumerate()
            .fold(0, |bits, (lane, fails)| bits | u32::from(*fails == 0) << lane)
    }

    #[inline(always)]
    fn write_selected_first(ranks: &[u32; LANES], lanes: u32, to: &mut [u32; LANES]) {
        let mut taken = 0;
        for (lane, rank) in ranks.iter().enumerate() {
            to[taken % LANES] = *rank;
            taken += (lanes >> lane & 1) as usize;
        }
    }
}
