//! Comparisons with AVX-512: a cache line in one register, results in mask registers.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_and_si256, _mm256_load_si256, _mm256_loadu_si256,
    _mm256_mask_cmpeq_epi32_mask, _mm256_maskz_compress_epi32, _mm256_max_epu16,
    _mm256_storeu_si256, _mm512_cmpeq_epi32_mask, _mm512_load_si512, _mm512_mask_cmpge_epu32_mask,
    _mm512_mask_cmple_epu32_mask, _mm512_max_epu16, _mm512_set1_epi32,
};

use super::bucket_rows::{RowShape, WordCountsByComparison};
use super::cache_line::{CacheLine, LANES};
use super::lane_comparisons::LaneInstructions;

/// To be used only in functions that enable AVX-512 F, BW and VL, on processors that have them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512Lanes;

#[inline(always)]
fn load_line(line: &CacheLine) -> __m512i {
    // SAFETY: a line is 64 bytes, aligned to 64; the caller's processor has AVX-512.
    unsafe { _mm512_load_si512(line.0.as_ptr().cast()) }
}

#[inline(always)]
fn load_row(lines: &[CacheLine], row: usize) -> __m256i {
    // SAFETY: half a line is 32 bytes, aligned to 32; the caller's processor has AVX2.
    unsafe { _mm256_load_si256(lines[row / 2].0.as_ptr().cast::<__m256i>().add(row % 2)) }
}

impl LaneInstructions for Avx512Lanes {
    #[inline(always)]
    fn count_node_keys_up_to(line: &CacheLine, value: u32) -> usize {
        // Word 0 is no key.
        // SAFETY: the caller's processor has AVX-512.
        let up_to = unsafe {
            let value = _mm512_set1_epi32(value.cast_signed());
            _mm512_mask_cmple_epu32_mask(!1, load_line(line), value)
        };
        up_to.count_ones() as usize
    }

    #[inline(always)]
    fn match_bucket_block(
        lines: &[CacheLine],
        shape: impl RowShape,
        row_keys: &[CacheLine],
    ) -> u32 {
        let WordCountsByComparison { wide, narrow, masked } = shape.counts();
        // SAFETY: the caller's processor has AVX-512 F, BW and VL.
        unsafe {
            let mut halves = u16::MAX;
            for (line, key) in lines.iter().zip(row_keys).take(wide) {
                halves = _mm512_mask_cmpge_epu32_mask(halves, load_line(key), load_line(line));
            }
            for (line, key) in lines.iter().zip(row_keys).take(wide + narrow / 2).skip(wide) {
                let key = load_line(key);
                let largest = _mm512_max_epu16(load_line(line), key);
                halves &= _mm512_cmpeq_epi32_mask(largest, key);
            }
            let mut matching = (halves & halves >> 8) as u8;
            if !narrow.is_multiple_of(2) {
                let row = 2 * wide + narrow - 1;
                let key = load_row(row_keys, row);
                let largest = _mm256_max_epu16(load_row(lines, row), key);
                matching = _mm256_mask_cmpeq_epi32_mask(matching, largest, key);
            }
            for word in 0..masked {
                let row = 2 * wide + narrow + 2 * word;
                let tested = _mm256_and_si256(load_row(lines, row + 1), load_row(row_keys, row));
                matching = _mm256_mask_cmpeq_epi32_mask(matching, load_row(lines, row), tested);
            }
            matching.into()
        }
    }

    #[inline(always)]
    fn write_selected_first(ranks: &[u32; LANES], lanes: u32, to: &mut [u32; LANES]) {
        // SAFETY: the caller's processor has AVX-512 F and VL; loads and stores are of eight words.
        unsafe {
            let ranks = _mm256_loadu_si256(ranks.as_ptr().cast());
            // To a register first: stored at once, it takes hundreds of cycles on some processors.
            let selected = _mm256_maskz_compress_epi32(lanes as u8, ranks);
            _mm256_storeu_si256(to.as_mut_ptr().cast(), selected);
        }
    }
}
