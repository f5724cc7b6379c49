//! Comparisons with AVX2: eight lanes in one register.

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_load_si256,
    _mm256_max_epu16, _mm256_max_epu32, _mm256_movemask_ps, _mm256_set1_epi32,
};

use super::block::CacheLine;
use super::bucket_rows::{OneKeyInRowOrder, RowShape, WordCountsByComparison};
use super::lane_comparisons::LaneInstructions;

/// To be used only in functions that enable AVX2, on processors that have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2Lanes;

#[inline(always)]
fn load_row(lines: &[CacheLine], row: usize) -> __m256i {
    let line = &lines[row / 2];
    // SAFETY: half a line is 32 bytes, aligned to 32; the caller's processor has AVX2.
    unsafe { _mm256_load_si256(line.0.as_ptr().cast::<__m256i>().add(row % 2)) }
}

impl LaneInstructions for Avx2Lanes {
    #[inline(always)]
    fn count_node_keys_up_to(line: &CacheLine, value: u32) -> usize {
        let lines = std::slice::from_ref(line);
        // SAFETY: the caller's processor has AVX2.
        unsafe {
            let value = _mm256_set1_epi32(value.cast_signed());
            let bits = |row| {
                let keys = load_row(lines, row);
                let up_to = _mm256_cmpeq_epi32(_mm256_max_epu32(keys, value), value);
                _mm256_movemask_ps(_mm256_castsi256_ps(up_to)).cast_unsigned()
            };
            // Word 0 is no key.
            ((bits(0) & !1) | bits(1) << 8).count_ones() as usize
        }
    }

    #[inline(always)]
    fn match_bucket_block(
        lines: &[CacheLine],
        shape: impl RowShape,
        row_keys: &OneKeyInRowOrder,
    ) -> u32 {
        let WordCountsByComparison { wide, narrow, masked } = shape.counts();
        // SAFETY: the caller's processor has AVX2.
        unsafe {
            let key = |place: usize| _mm256_set1_epi32(row_keys[place].cast_signed());
            let mut matching = _mm256_set1_epi32(-1);
            for word in 0..wide {
                let (lo, hi) = (load_row(lines, 2 * word), load_row(lines, 2 * word + 1));
                let key = key(word);
                let from_lo = _mm256_cmpeq_epi32(_mm256_max_epu32(lo, key), key);
                let to_hi = _mm256_cmpeq_epi32(_mm256_max_epu32(hi, key), hi);
                matching = _mm256_and_si256(matching, _mm256_and_si256(from_lo, to_hi));
            }
            for word in 0..narrow {
                let (lane, key) = (load_row(lines, 2 * wide + word), key(wide + word));
                let passes = _mm256_cmpeq_epi32(_mm256_max_epu16(lane, key), key);
                matching = _mm256_and_si256(matching, passes);
            }
            for word in 0..masked {
                let row = 2 * wide + narrow + 2 * word;
                let tested = _mm256_and_si256(load_row(lines, row + 1), key(wide + narrow + word));
                let passes = _mm256_cmpeq_epi32(load_row(lines, row), tested);
                matching = _mm256_and_si256(matching, passes);
            }
            _mm256_movemask_ps(_mm256_castsi256_ps(matching)).cast_unsigned()
        }
    }
}
