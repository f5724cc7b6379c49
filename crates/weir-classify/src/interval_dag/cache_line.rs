//! Cache lines, of which everything in a block consists, and the rows that are halves of them.

/// Words of a row: filters of a block of a bucket.
pub(super) const LANES: usize = 8;

/// Sixteen words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct CacheLine(pub(super) [u32; 16]);

impl CacheLine {
    pub(super) const BYTES: usize = size_of::<CacheLine>();
    pub(super) const ZERO: CacheLine = CacheLine([0; 16]);

    /// The rows of lines: two each.
    #[inline(always)]
    pub(super) fn as_rows(lines: &[CacheLine]) -> &[[u32; LANES]] {
        // SAFETY: a line is 16 words without padding, and rows need a weaker alignment.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), 2 * lines.len()) }
    }

    /// The rows of lines, to be changed.
    pub(super) fn as_rows_mut(lines: &mut [CacheLine]) -> &mut [[u32; LANES]] {
        // SAFETY: as `as_rows`.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), 2 * lines.len()) }
    }

    /// The words of lines, to be changed.
    pub(super) fn as_words_mut(lines: &mut [CacheLine]) -> &mut [u32] {
        CacheLine::as_rows_mut(lines).as_flattened_mut()
    }

    /// The words of lines: 16 each.
    #[inline(always)]
    pub(super) fn as_words(lines: &[CacheLine]) -> &[u32] {
        CacheLine::as_rows(lines).as_flattened()
    }
}
