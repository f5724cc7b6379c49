//! Comparisons with AVX2: eight lanes in one register.

use std::arch::x86_64::{
    __m256i, _mm_cvtsi64_si128, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32,
    _mm256_cvtepu8_epi32, _mm256_load_si256, _mm256_loadu_si256, _mm256_max_epu16,
    _mm256_max_epu32, _mm256_movemask_ps, _mm256_permutevar8x32_epi32, _mm256_set1_epi32,
    _mm256_storeu_si256, _pdep_u64, _pext_u64,
};

use super::bucket_rows::{RowShape, WordCountsByComparison};
use super::cache_line::{CacheLine, LANES};
use super::lane_comparisons::LaneInstructions;

/// To be used only in functions that enable AVX2 and BMI2, on processors that have them.
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
        row_keys: &[CacheLine],
    ) -> u32 {
        let WordCountsByComparison { wide, narrow, masked } = shape.counts();
        // SAFETY: the caller's processor has AVX2.
        unsafe {
            let mut matching = _mm256_set1_epi32(-1);
            for row in 0..2 * wide {
                let (lane, key) = (load_row(lines, row), load_row(row_keys, row));
                let passes = _mm256_cmpeq_epi32(_mm256_max_epu32(lane, key), key);
                matching = _mm256_and_si256(matching, passes);
            }
            for row in 2 * wide..2 * wide + narrow {
                let (lane, key) = (load_row(lines, row), load_row(row_keys, row));
                let passes = _mm256_cmpeq_epi32(_mm256_max_epu16(lane, key), key);
                matching = _mm256_and_si256(matching, passes);
            }
            for word in 0..masked {
                let row = 2 * wide + narrow + 2 * word;
                let tested = _mm256_and_si256(load_row(lines, row + 1), load_row(row_keys, row));
                let passes = _mm256_cmpeq_epi32(load_row(lines, row), tested);
                matching = _mm256_and_si256(matching, passes);
            }
            _mm256_movemask_ps(_mm256_castsi256_ps(matching)).cast_unsigned()
        }
    }

    #[inline(always)]
    fn write_selected_first(ranks: &[u32; LANES], lanes: u32, to: &mut [u32; LANES]) {
        // SAFETY: the caller's processor has AVX2 and BMI2; loads and stores are of eight words.
        unsafe {
            // The numbers of the selected lanes, a byte each, one after the other.
            let byte_of_lane = _pdep_u64(lanes.into(), 0x0101_0101_0101_0101) * 0xff;
            let selected = _pext_u64(0x0706_0504_0302_0100, byte_of_lane);
            let places = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(selected.cast_signed()));
            let ranks = _mm256_loadu_si256(ranks.as_ptr().cast());
            let selected = _mm256_permutevar8x32_epi32(ranks, places);
            _mm256_storeu_si256(to.as_mut_ptr().cast(), selected);
        }
    }
}
