//! Cache lines in huge pages, where the system has them.
//!
//! A look-up in a structure of many megabytes goes to another page with every step, and the
//! processor has addresses of a few thousand pages of 4 KiB at hand. The request is made before the
//! memory is written: pages that are in use become huge ones late or never.

use std::ops::{Deref, DerefMut};

use super::cache_line::CacheLine;

/// Huge pages begin at multiples of 2 MiB; less memory than this contains none.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A list of cache lines that does not grow beyond its first capacity.
#[derive(Debug)]
pub(super) struct HugePageLines(Vec<CacheLine>);

impl HugePageLines {
    pub(super) fn with_capacity(line_count: usize) -> HugePageLines {
        let mut lines = Vec::with_capacity(line_count);
        request_huge_pages(&mut lines);
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

#[cfg(target_os = "linux")]
fn request_huge_pages(lines: &mut Vec<CacheLine>) {
    use rustix::mm::{Advice, madvise};
    let memory = lines.spare_capacity_mut();
    let bytes = size_of_val(memory);
    if bytes < HUGE_PAGE_BYTES {
        return;
    }
    let page_bytes = rustix::param::page_size();
    let start = memory.as_mut_ptr().cast::<u8>();
    let before_first_page = start.align_offset(page_bytes);
    if before_first_page >= bytes {
        return;
    }
    let whole_pages = (bytes - before_first_page) / page_bytes * page_bytes;
    // A kernel without huge pages refuses; look-ups are then slower.
    // SAFETY: the pages are within memory that this list owns, and their content stays as it is.
    let _ = unsafe {
        let first_page = start.add(before_first_page);
        madvise(first_page.cast(), whole_pages, Advice::LinuxHugepage)
    };
}

#[cfg(not(target_os = "linux"))]
fn request_huge_pages(_: &mut Vec<CacheLine>) {}
