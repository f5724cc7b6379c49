//! What is sent through a firewall: frames, connections of the small TCP or of sockets, datagrams
//! over loopback, probes.

pub(crate) mod loopback;
pub(crate) mod probe;
pub(crate) mod progress;
pub(crate) mod sockets;
pub(crate) mod tcp;
