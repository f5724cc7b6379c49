//! Comparisons with AVX2: eight lanes in one register.

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_load_si256,
    _mm256_max_epu16, _mm256_max_epu32, _mm256_movemask_ps, _mm256_set1_epi32,
};

use super::block::CacheLine;
use super::lanes::LaneInstructions;
use super::rows::{ROW_KEYS_MAX, RowLayout};

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
    fn count_keys_up_to(line: &CacheLine, value: u32) -> usize {
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
    fn match_block(lines: &[CacheLine], rows: &RowLayout, row_keys: &[u32; ROW_KEYS_MAX]) -> u32 {
        let wide = 2 * rows.wide_words.len();
        let masked = wide + rows.narrow_words.len();
        match (wide, masked, rows.test_row_count(), lines.first_chunk::<4>()) {
            // The five-tuple: constants let the compiler unroll the loops.
            (4, 7, 7, Some(lines)) => match_rows(lines, [4, 7, 7], row_keys),
            (_, _, end, _) => match_rows(lines, [wide, masked, end], row_keys),
        }
    }
}

/// Compares the rows of a block; `ends` are those of wide, narrow and masked rows.
#[inline(always)]
fn match_rows(
    lines: &[CacheLine],
    [wide, masked, end]: [usize; 3],
    row_keys: &[u32; ROW_KEYS_MAX],
) -> u32 {
    // SAFETY: the caller's processor has AVX2.
    unsafe {
        let key = |row: usize| _mm256_set1_epi32(row_keys[row].cast_signed());
        let mut matching = _mm256_set1_epi32(-1);
        for row in 0..wide {
            let key = key(row);
            let passes = _mm256_cmpeq_epi32(_mm256_max_epu32(load_row(lines, row), key), key);
            matching = _mm256_and_si256(matching, passes);
        }
        for row in wide..masked {
            let key = key(row);
            let passes = _mm256_cmpeq_epi32(_mm256_max_epu16(load_row(lines, row), key), key);
            matching = _mm256_and_si256(matching, passes);
        }
        for row in (masked..end).step_by(2) {
            let tested = _mm256_and_si256(load_row(lines, row + 1), key(row));
            let passes = _mm256_cmpeq_epi32(load_row(lines, row), tested);
            matching = _mm256_and_si256(matching, passes);
        }
        _mm256_movemask_ps(_mm256_castsi256_ps(matching)).cast_unsigned()
    }
}
