//! BPF programs that send, answer and count.

pub mod client_server_tally;
pub mod frame_generator;
mod latency_histogram;
mod per_endpoint_counts;
pub mod sink;
pub mod stateless_tcp;
