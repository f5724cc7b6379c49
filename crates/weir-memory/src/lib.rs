//! Huge pages for large tables.
//!
//! A look-up in a table of many megabytes goes to another page with every step, and a processor
//! keeps the translations of a few thousand pages of 4 KiB. Most systems give huge pages to memory
//! for which they are requested (`madvise` in `/sys/kernel/mm/transparent_hugepage/enabled`). The
//! request is made before the memory is written: pages that are in use become huge ones late or
//! never.

/// Huge pages begin at multiples of 2 MiB; less memory than this contains none.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Requests huge pages for the memory that a list has and does not use yet.
///
/// It is advice. A kernel without huge pages refuses it, other systems have none, and a list of
/// less than 2 MiB contains none: then accesses are slower, and nothing else changes. A list that
/// grows beyond its capacity moves to other memory, for which the request is made again.
///
/// # Source
/// `Documentation/admin-guide/mm/transhuge.rst` of the kernel; madvise(2).
///
/// ```
/// let mut table = Vec::with_capacity(1 << 20);
/// weir_memory::request_huge_pages(&mut table);
/// table.resize(1 << 20, 0_u64);
/// ```
pub fn request_huge_pages<T>(list: &mut Vec<T>) {
    let unused = list.spare_capacity_mut();
    let bytes = size_of_val(unused);
    if bytes >= HUGE_PAGE_BYTES {
        advise_huge_pages(unused.as_mut_ptr().cast(), bytes);
    }
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(start: *mut u8, bytes: usize) {
    use rustix::mm::{Advice, madvise};
    let page_bytes = rustix::param::page_size();
    let before_first_page = start.align_offset(page_bytes);
    if before_first_page >= bytes {
        return;
    }
    let whole_pages = (bytes - before_first_page) / page_bytes * page_bytes;
    // SAFETY: the pages are within memory that the caller's list owns, and their content stays as
    // it is.
    let _ = unsafe {
        let first_page = start.add(before_first_page);
        madvise(first_page.cast(), whole_pages, Advice::LinuxHugepage)
    };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: *mut u8, _: usize) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Whether the flags of the mapping that contains an address (`proc_pid_smaps(5)`) include `hg`.
    fn is_advised(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("proc is mounted");
        let mut is_here = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let bound = |text| usize::from_str_radix(text, 16).ok();
            if let Some((Some(start), Some(end))) = range.map(|(s, e)| (bound(s), bound(e))) {
                is_here = (start..end).contains(&address);
            } else if is_here && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.split_whitespace().any(|flag| flag == "hg");
            }
        }
        panic!("no mapping contains {address:#x}")
    }

    #[test]
    fn memory_of_a_list_is_advised_before_it_is_used() {
        let mut list: Vec<u64> = Vec::with_capacity(1 << 20);
        let middle = list.as_ptr() as usize + (4 << 20);
        assert!(!is_advised(middle));
        request_huge_pages(&mut list);
        list.resize(1 << 20, 7);
        // A kernel without huge pages refuses, and nothing else changes.
        let has_huge_pages = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(is_advised(middle), has_huge_pages);
        assert!(list.iter().all(|number| *number == 7));
    }

    #[test]
    fn the_used_part_and_small_lists_are_left_alone() {
        let mut list = vec![7_u8; 8 << 20];
        let middle = list.as_ptr() as usize + (4 << 20);
        request_huge_pages(&mut list);
        assert!(!is_advised(middle), "nothing is unused");
        request_huge_pages(&mut Vec::<u64>::with_capacity(10));
        request_huge_pages(&mut Vec::<()>::new());
    }
}
