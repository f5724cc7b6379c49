//! Observations of machine, kernel and links: counters, cores, drop reasons, samples over time.

pub mod counters;
pub mod cpu;
pub mod drops;
pub mod environment;
pub(crate) mod kernel_log;
pub(crate) mod memory;
pub mod net_file;
pub(crate) mod proc;
pub(crate) mod sampling;
