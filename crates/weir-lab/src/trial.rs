//! One trial: counters before and after, what changed in between, and whether it counts.

pub(crate) mod collect;
pub(crate) mod judge;
pub(crate) mod measure;
pub(crate) mod runner;
