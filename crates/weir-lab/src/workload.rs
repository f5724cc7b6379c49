//! The traffic of a trial: frames, connections of the small TCP or of sockets, datagrams over
//! loopback, probes. Each is a [`contract::Workload`].

mod arrivals;
pub(crate) mod contract;
pub(crate) mod frames;
mod latency;
pub(crate) mod loopback;
pub(crate) mod probe;
mod progress;
mod settle;
pub(crate) mod sockets;
pub(crate) mod stage;
pub(crate) mod tcp;
