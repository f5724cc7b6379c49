//! The results and errors of clients.

use weir_stats::{ConnectionCounts, ConnectionFailureCount};

use crate::LabError;

/// What clients did, and for how long, seconds.
pub(super) type ClientCountsAndSeconds = (ConnectionCounts, f64);

pub(super) fn socket_io_error(source: std::io::Error) -> LabError {
    LabError::SystemCall { action: "connect by sockets", source }
}

/// What went wrong, and how often, as records have it.
pub(super) fn to_failure_records<'a>(
    failed: impl Iterator<Item = (&'a str, u64)>,
) -> Vec<ConnectionFailureCount> {
    let happened = failed.filter(|(_, count)| *count > 0);
    happened
        .map(|(at, count)| ConnectionFailureCount { at: at.to_owned(), connections: count as i64 })
        .collect()
}
