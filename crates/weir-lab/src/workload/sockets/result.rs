//! The results and errors of clients.

use weir_stats::{Connections, Failure};

use crate::LabError;

/// What clients did, and for how long, seconds.
pub(super) type ClientResult = (Connections, f64);

pub(super) fn not_possible(source: std::io::Error) -> LabError {
    LabError::System { action: "connect by sockets", source }
}

/// What went wrong, and how often, as records have it.
pub(super) fn failures<'a>(failed: impl Iterator<Item = (&'a str, u64)>) -> Vec<Failure> {
    let happened = failed.filter(|(_, count)| *count > 0);
    happened.map(|(at, count)| Failure { at: at.to_owned(), connections: count as i64 }).collect()
}
