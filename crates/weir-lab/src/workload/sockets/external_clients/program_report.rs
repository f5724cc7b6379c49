//! The results that a program reports.

/// What a program says that it did.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ProgramReport {
    /// How long, seconds.
    pub(super) seconds: f64,
    /// Replies that were right.
    pub(super) completed: u64,
    /// What went wrong, and how often.
    pub(super) failures_by_kind: Vec<(&'static str, u64)>,
    /// Mean time of a reply, nanoseconds.
    pub(super) mean_ns: f64,
    /// Shares of the replies and the time that they do not exceed, nanoseconds.
    pub(super) quantiles: Vec<(f64, f64)>,
}

/// What invented trials of programs request.
#[cfg(test)]
pub(super) fn made_up_socket_plan(
    endpoints: &weir_study::Endpoints,
) -> super::super::socket_plan::SocketPlan<'_> {
    use crate::workload::sockets::client_limits::ClientResources;
    let resources = ClientResources {
        clients: 1,
        ports: 64_512,
        servers: 1,
        time_wait_seconds: 60.0,
        descriptors: 1024,
        descriptors_per_connection: 2,
        max_connection_seconds: 5.0,
        tcp_memory_bytes: None,
        buffer_bytes_per_connection: 16_384,
        listen_queue: 128,
    };
    super::super::socket_plan::SocketPlan {
        client: weir_study::ClientKind::Httperf,
        endpoints,
        clients: 1,
        rate: 1500,
        concurrency: 64,
        duration: std::time::Duration::from_millis(1500),
        resources,
    }
}
