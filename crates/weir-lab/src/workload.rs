//! The traffic of a trial: frames, connections of the small TCP or of sockets, datagrams over
//! loopback, probes. Each is a [`workload_trait::Workload`].

mod completed_connection_sampling;
mod frame_accounting;
pub(crate) mod frames;
pub(crate) mod loopback;
pub(crate) mod probe;
mod response_time;
mod settle;
pub(crate) mod sockets;
pub(crate) mod stateless_tcp;
pub(crate) mod workload_resources;
pub(crate) mod workload_trait;
