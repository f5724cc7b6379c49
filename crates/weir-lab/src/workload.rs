//! The traffic of a trial: frames, connections of the small TCP or of sockets, single datagrams,
//! probes. Each is a [`workload_trait::Workload`]; those that a study can send have a
//! [`workload_planner::WorkloadPlanner`], too.

mod completed_connection_sampling;
mod connection_planning;
mod datagram_outcome;
mod frame_accounting;
pub(crate) mod frames;
pub(crate) mod loopback;
pub(crate) mod probe;
mod response_time;
mod settle;
pub(crate) mod sockets;
pub(crate) mod stateless_tcp;
pub(crate) mod workload_planner;
pub(crate) mod workload_resources;
pub(crate) mod workload_trait;
