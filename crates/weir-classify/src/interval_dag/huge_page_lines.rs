//! Cache lines in huge pages, where the system has them.

use std::ops::{Deref, DerefMut};

use super::cache_line::CacheLine;

/// A list of cache lines that does not grow beyond its first capacity.
#[derive(Debug)]
pub(super) struct HugePageLines(Vec<CacheLine>);

impl HugePageLines {
    pub(super) fn with_capacity(line_count: usize) -> HugePageLines {
        let mut lines = Vec::with_capacity(line_count);
        weir_memory::request_huge_pages(&mut lines);
        HugePageLines(lines)
    }

    /// Adds lines.
    pub(super) fn extend(&mut self, lines: impl IntoIterator<Item = CacheLine>) {
        self.0.extend(lines);
    }
}

impl Clone for HugePageLines {
    fn clone(&self) -> HugePageLines {
        let mut copy = HugePageLines::with_capacity(self.len());
        copy.0.extend_from_slice(self);
        copy
    }
}

impl Deref for HugePageLines {
    type Target = [CacheLine];

    #[inline(always)]
    fn deref(&self) -> &[CacheLine] {
        &self.0
    }
}

impl DerefMut for HugePageLines {
    fn deref_mut(&mut self) -> &mut [CacheLine] {
        &mut self.0
    }
}
