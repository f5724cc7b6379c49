//! Kernel memory of this machine, and waiting until it has been freed.

use std::fs;
use std::time::{Duration, Instant};

use crate::observe::proc::{meminfo_bytes, slab_bytes};

/// Waits until slabs that cannot be reclaimed shrink no more: the kernel frees entries that it
/// forgets a while later (RCU), and a trial that begins before would find too little growth.
pub(crate) fn settle_slabs() {
    settle(|| slab_bytes(&proc_text("meminfo")), 1);
}

/// Bytes of this machine's kernel that rulesets may be kept in; `settled` waits first until they
/// shrink no more, for a namespace that was removed is taken apart a while later, with its rules.
pub(crate) fn ruleset_memory(settled: bool) -> i64 {
    if settled {
        settle(kernel_bytes, 3);
    }
    kernel_bytes()
}

/// Looks until so many times in a row nothing shrank by a mebibyte, or five seconds have passed.
fn settle(bytes: fn() -> i64, still: u32) {
    const LOOK: Duration = Duration::from_millis(100);
    const LIMIT: Duration = Duration::from_secs(5);
    const STILL_BYTES: i64 = 1 << 20;
    let begun = Instant::now();
    let (mut before, mut looks) = (bytes(), 0);
    while looks < still && begun.elapsed() < LIMIT {
        std::thread::sleep(LOOK);
        let now = bytes();
        looks = if before - now < STILL_BYTES { looks + 1 } else { 0 };
        before = now;
    }
}

/// Bytes of kernel memory that may hold a ruleset: `vmalloc` (tables), unreclaimable slabs (sets,
/// chains, small tables) and per-CPU memory (counters).
fn kernel_bytes() -> i64 {
    let text = proc_text("meminfo");
    ["VmallocUsed", "SUnreclaim", "Percpu"].iter().map(|name| meminfo_bytes(&text, name)).sum()
}

fn proc_text(name: &str) -> String {
    fs::read_to_string(format!("/proc/{name}")).unwrap_or_default()
}
