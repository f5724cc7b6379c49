//! Observations of machine, kernel and links: counters, cores, drop reasons, samples over time.

pub(crate) mod conntrack_sampling;
pub mod core_noise;
pub mod core_pinning;
pub mod drop_reasons;
pub mod environment;
pub mod kernel_counters;
pub(crate) mod kernel_log;
pub(crate) mod kernel_memory;
pub mod proc_net_file;
pub(crate) mod proc_parsers;
