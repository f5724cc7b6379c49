//! BPF programs that send, answer and count, and how they are run.

pub mod generator;
mod histogram;
mod live;
mod per_endpoint;
pub mod sink;
pub mod tcp;
mod watch;
