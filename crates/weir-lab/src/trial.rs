//! One trial: counters before and after, what changed in between, and whether it counts.

pub(crate) mod collect;
pub(crate) mod empty;
pub(crate) mod entry;
pub(crate) mod judge;
pub(crate) mod runner;
