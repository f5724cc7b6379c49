//! Response times of a firewall while it is idle or forwards at full load.

pub(crate) mod bulk_tcp_stream;
pub(crate) mod open_loop;
pub(crate) mod probe_transports;
pub(crate) mod probe_workload;
