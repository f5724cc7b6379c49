//! One trial: counters before and after, their differences, and whether the trial counts.

pub(crate) mod collect;
pub(crate) mod empty_firewall;
pub(crate) mod judge;
pub(crate) mod runner;
pub(crate) mod trial_record;
