//! One trial: counters before and after, their differences, and whether the trial counts.

pub(crate) mod empty_firewall_check;
pub(crate) mod judge;
pub(crate) mod machine_observation;
pub(crate) mod runner;
pub(crate) mod trial_record;
