//! The version of the files of the state.

/// Raised when a member changes its meaning or goes.
pub(super) const STATE_VERSION: u32 = 1;
