//! Kernel memory of this machine, and waiting until it has been freed.

use std::fs;
use std::time::{Duration, Instant};

use crate::observe::proc_parsers::{parse_meminfo_bytes, parse_meminfo_unreclaimable_slab_bytes};

/// Waits until slabs that cannot be reclaimed shrink no more: the kernel frees entries that it
/// forgets a while later (RCU), and a trial that begins before would find too little growth.
pub(crate) fn wait_for_slabs_to_settle() {
    wait_until_memory_settles(
        || parse_meminfo_unreclaimable_slab_bytes(&read_proc_file_or_empty("meminfo")),
        1,
    );
}

/// Bytes of this machine's kernel that rulesets may be kept in; `wait_to_settle` waits first until
/// they shrink no more, for a namespace that was removed is taken apart a while later, with its
/// rules.
pub(crate) fn read_ruleset_kernel_memory_maybe_settled(wait_to_settle: bool) -> i64 {
    if wait_to_settle {
        wait_until_memory_settles(sum_ruleset_meminfo_bytes, 3);
    }
    sum_ruleset_meminfo_bytes()
}

/// Looks until so many times in a row nothing shrank by a mebibyte, or five seconds have passed.
fn wait_until_memory_settles(bytes: fn() -> i64, steady_readings: u32) {
    const POLL_INTERVAL: Duration = Duration::from_millis(100);
    const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
    const MAX_SETTLED_SHRINK_BYTES: i64 = 1 << 20;
    let begun = Instant::now();
    let (mut before, mut looks) = (bytes(), 0);
    while looks < steady_readings && begun.elapsed() < SETTLE_TIMEOUT {
        std::thread::sleep(POLL_INTERVAL);
        let now = bytes();
        looks = if before - now < MAX_SETTLED_SHRINK_BYTES { looks + 1 } else { 0 };
        before = now;
    }
}

/// Bytes of kernel memory that may hold a ruleset: `vmalloc` (tables), unreclaimable slabs (sets,
/// chains, small tables) and per-CPU memory (counters).
fn sum_ruleset_meminfo_bytes() -> i64 {
    let text = read_proc_file_or_empty("meminfo");
    ["VmallocUsed", "SUnreclaim", "Percpu"]
        .iter()
        .map(|name| parse_meminfo_bytes(&text, name))
        .sum()
}

fn read_proc_file_or_empty(name: &str) -> String {
    fs::read_to_string(format!("/proc/{name}")).unwrap_or_default()
}
