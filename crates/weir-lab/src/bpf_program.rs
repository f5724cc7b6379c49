//! BPF programs that send, answer and count.

pub mod end_tally;
mod endpoint_totals;
pub mod generator;
mod histogram;
pub mod sink;
pub mod tcp;
