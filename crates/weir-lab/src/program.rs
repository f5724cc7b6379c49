//! BPF programs that send, answer and count.

pub mod generator;
mod histogram;
mod per_endpoint;
pub mod sink;
pub mod tcp;
