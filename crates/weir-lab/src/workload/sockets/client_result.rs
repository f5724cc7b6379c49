//! The results and errors of clients.

use weir_stats::{ConnectionCounts, ConnectionFailure};

use crate::LabError;

/// What clients did, and for how long, seconds.
pub(super) type ClientResult = (ConnectionCounts, f64);

pub(super) fn socket_io_error(source: std::io::Error) -> LabError {
    LabError::SystemCall { action: "connect by sockets", source }
}

/// What went wrong, and how often, as records have it.
pub(super) fn to_failure_records<'a>(
    failed: impl Iterator<Item = (&'a str, u64)>,
) -> Vec<ConnectionFailure> {
    let happened = failed.filter(|(_, count)| *count > 0);
    happened
        .map(|(at, count)| ConnectionFailure { at: at.to_owned(), connections: count as i64 })
        .collect()
}
