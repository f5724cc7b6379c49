//! What machine, kernel and links tell: counters, cores, reasons of drops, samples over time.

pub mod counters;
pub mod cpu;
pub mod drops;
pub mod environment;
pub(crate) mod kernel_log;
pub(crate) mod memory;
pub mod net_file;
pub(crate) mod proc;
pub(crate) mod sampling;
