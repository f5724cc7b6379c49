//! Whether a trial counts.

use serde::{Deserialize, Serialize};

/// Whether a trial counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialState {
    /// It does.
    Accepted,
    /// The first of its kind, discarded; its counters were checked against the rules' own.
    Warmup,
    /// The machine was disturbed; it was repeated where the cap allowed.
    Disturbed,
    /// Offered, delivered and dropped do not add up.
    Unbalanced,
    /// The command failed, or packets were delivered that had to be dropped.
    Failed,
}
