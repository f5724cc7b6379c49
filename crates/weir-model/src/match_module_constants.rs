//! Numbers and names of the kernel's match modules that both a rule's text and the kernel's
//! structures are made of.

/// `-m limit`: ticks per second of its clock (`XT_LIMIT_SCALE`).
pub const LIMIT_TICKS_PER_SECOND: u64 = 10_000;
/// `-m limit`: the burst if none is given, packets.
pub const LIMIT_DEFAULT_BURST_PACKETS: u32 = 5;

/// `-m hashlimit`: ticks per second of its clock (`XT_HASHLIMIT_SCALE_v2`).
pub const HASHLIMIT_TICKS_PER_SECOND: u64 = 1_000_000;
/// `-m hashlimit`: milliseconds between two sweeps of its table if none are given.
pub const HASHLIMIT_DEFAULT_GC_INTERVAL_MILLIS: u32 = 1000;

/// `-m time`: the last second of a day, where its stop time is if none is given.
pub const LAST_SECOND_OF_DAY: u32 = 86_399;
/// `-m time`: days of the week by their bits; Monday is bit 1.
pub const WEEKDAY_NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
